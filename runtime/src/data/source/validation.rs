//! Rows that are neither learned from nor kept for the last judgement.

use super::{DataError, DataSet};
use crate::data::shuffle::epoch_order;

/// The option that every source takes, and the split that it makes.
pub(super) const VALIDATION: &str = "validation";
const TRAIN: &str = "train";
/// Which rows are taken depends on nothing but their number, so that runs with different seeds can be compared.
const SEED: u64 = 0x7661_6c69;

/// Which rows of so many a share takes, picked at random.
pub(super) fn taken(n_rows: usize, share: f64) -> Result<Vec<bool>, DataError> {
    let n_taken = (share * n_rows as f64).round() as usize;
    if n_taken == 0 || n_taken == n_rows || i32::try_from(n_rows).is_err() {
        return Err(DataError::TooFewRows { split: TRAIN.to_string(), n_rows });
    }
    let mut order = vec![0; n_rows];
    epoch_order(SEED, 0, &mut order);
    let mut is_taken = vec![false; n_rows];
    order[..n_taken].iter().for_each(|&row| is_taken[row as usize] = true);
    Ok(is_taken)
}

/// The set with a share of the rows of `train` in a split `validation` of their own. The rows of both keep their order.
pub(super) fn divided(mut set: DataSet, share: f64) -> Result<DataSet, DataError> {
    let n_rows = set.split(TRAIN)?.n_rows();
    let is_taken = taken(n_rows, share)?;
    let rows = |taken: bool| (0..n_rows).filter(|&row| is_taken[row] == taken).collect::<Vec<usize>>();
    if let Some((place, name, train)) = set.splits.shift_remove_full(TRAIN) {
        let [kept, taken] = train.divided(&rows(false), &rows(true))?;
        set.splits.shift_insert(place, name, kept);
        set.splits.insert(VALIDATION.to_string(), taken);
    }
    Ok(set)
}
