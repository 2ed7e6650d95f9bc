//! The source `choices`.

use engine_core::ir::{DType, Type};
use engine_runtime::data::field::Field;
use engine_runtime::data::source::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use engine_runtime::philox::WordStream;
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

use crate::draws::{OPTIONS, Part, normal, parts, unit};

/// Items that users chose: the fields `user`, `item` and `true_rank`, `i32[rows]`.
///
/// A row is a user, each equally likely, and an item. User u chooses item i with the probability `softmax_i(p_u·q_i + b_i)`.
/// The vectors p and q have `RANK` normal elements, with deviations 1 and `ITEM_DEVIATION`; the deviation of b is
/// `BIAS_DEVIATION`. Rows do not depend on each other, so a user may choose an item again.
///
/// `true_rank` is the rank of the item, counted from 1, among all items by the probabilities of the user. The best
/// ranking that a model can learn has it.
pub struct Choices;

/// Users.
pub const N_USERS: usize = 2000;
/// Items.
pub const N_ITEMS: usize = 1000;
/// Elements of the vector of a user or an item.
pub const RANK: usize = 8;
/// The deviation of the elements of an item's vector.
pub const ITEM_DEVIATION: f64 = 0.8;
/// The deviation of an item's bias.
pub const BIAS_DEVIATION: f64 = 1.0;
const N_TRAIN: usize = 200_000;
const N_TEST: usize = 20_000;
const DOMAIN: u32 = 0x4348_4f49;
/// The items of streams for users, items and rows.
const OF_USERS: u64 = 0;
const OF_ITEMS: u64 = 1 << 40;
const OF_ROWS: u64 = 1 << 41;

impl Source for Choices {
    fn name(&self) -> &str {
        "choices"
    }

    fn summary(&self) -> &str {
        "items that users chose by a known law of rank 8: 2,000 users, 1,000 items; needs no file"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&OPTIONS)?;
        let (parts, seed) = parts(context, N_TRAIN, N_TEST)?;
        let law = (!context.types_only).then(|| Law::new(seed));
        let split = |part| law.as_ref().map_or_else(|| described(part), |law| law.split(seed, part));
        let splits = parts.iter().map(|part| Ok((part.name.to_string(), split(part)?)));
        let splits = splits.collect::<Result<IndexMap<String, Split>, DataError>>()?;
        let (name, names) = (self.name().to_string(), IndexMap::new());
        Ok(DataSet { splits, names, ..DataSet::new(name, Provenance::Synthetic) })
    }
}

/// The fields, numbers of type `i32`.
const FIELDS: [&str; 3] = ["user", "item", "true_rank"];

/// A split without its rows.
fn described(part: &Part) -> Result<Split, DataError> {
    let number = || Field::described(Type::new(DType::I32, &[]), part.n_rows);
    Split::new(FIELDS.map(|field| (field.to_string(), number())).into())
}

/// The preferences of all users.
struct Law {
    /// By user, then item: the sum of the exponentials of the scores up to it.
    sums: Vec<f64>,
}

impl Law {
    fn new(seed: u64) -> Law {
        let vector = |item: u64, deviation: f64| {
            let mut stream = WordStream::new(seed, DOMAIN, item);
            [(); RANK].map(|()| deviation * normal(&mut stream))
        };
        let bias = |item: u64| {
            BIAS_DEVIATION * normal(&mut WordStream::new(seed, DOMAIN, OF_ITEMS + N_ITEMS as u64 + item))
        };
        let items: Vec<([f64; RANK], f64)> =
            (0..N_ITEMS as u64).map(|item| (vector(OF_ITEMS + item, ITEM_DEVIATION), bias(item))).collect();
        let mut sums = Vec::with_capacity(N_USERS * N_ITEMS);
        for user in 0..N_USERS as u64 {
            let of_user = vector(OF_USERS + user, 1.0);
            let mut sum = 0.0;
            for (of_item, bias) in &items {
                let product: f64 = of_user.iter().zip(of_item).map(|(p, q)| p * q).sum();
                sum += libm::exp(product + bias);
                sums.push(sum);
            }
        }
        Law { sums }
    }

    fn of_user(&self, user: usize) -> &[f64] {
        &self.sums[user * N_ITEMS..(user + 1) * N_ITEMS]
    }

    fn split(&self, seed: u64, part: &Part) -> Result<Split, DataError> {
        let rows = (0..part.n_rows).map(|row| {
            let mut stream = WordStream::new(seed, DOMAIN, OF_ROWS + part.item(row));
            let user = stream.below(N_USERS as u32) as usize;
            let sums = self.of_user(user);
            let drawn = unit(&mut stream) * sums[N_ITEMS - 1];
            let item = sums.partition_point(|&sum| sum <= drawn).min(N_ITEMS - 1);
            [user as i32, item as i32, self.rank(user, item)].map(HostTensor::scalar)
        });
        Split::from_rows(FIELDS, rows)
    }

    /// The rank of an item among all, counted from 1.
    fn rank(&self, user: usize, item: usize) -> i32 {
        let sums = self.of_user(user);
        let share = |item: usize| sums[item] - if item == 0 { 0.0 } else { sums[item - 1] };
        let own = share(item);
        1 + (0..N_ITEMS).filter(|&other| share(other) > own).count() as i32
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;

    fn load(n_train: usize, n_test: usize) -> DataSet {
        let options = [("n_train", n_train), ("n_test", n_test)];
        let options = options.map(|(name, n)| (name.into(), (n as i64).into())).to_vec();
        Choices.load(&LoadContext { options, ..LoadContext::offline_in(Path::new("")) }).unwrap()
    }

    #[test]
    fn items_are_chosen_by_the_law() {
        let set = load(20_000, 1);
        let column =
            |field: &str| set.splits["train"].tensor(field).unwrap().as_slice::<i32>().unwrap().to_vec();
        let (users, items, ranks) = (column("user"), column("item"), column("true_rank"));
        let law = Law::new(0);
        // The number of choices of the best item, whose mean and variance follow from the law.
        let (mut mean, mut variance) = (0.0, 0.0);
        for &user in &users {
            let sums = law.of_user(user as usize);
            let best =
                sums.windows(2).map(|pair| pair[1] - pair[0]).fold(sums[0], f64::max) / sums[N_ITEMS - 1];
            mean += best;
            variance += best * (1.0 - best);
        }
        let found = ranks.iter().filter(|&&rank| rank == 1).count() as f64;
        assert!((found - mean).abs() < 4.0 * variance.sqrt(), "{found} of {mean} ± {}", variance.sqrt());
        assert!(items.iter().all(|item| (0..N_ITEMS as i32).contains(item)));
    }

    /// Figures of benches/recommender_torch.py and graphs depend on these rows.
    #[test]
    fn rows_are_fixed_for_good() {
        let set = load(3, 2);
        let column = |split: &str, field: &str| set.splits[split].tensor(field).unwrap().to_f64();
        assert_eq!(
            (column("train", "user"), column("train", "item")),
            (vec![1784.0, 279.0, 1636.0], vec![935.0, 436.0, 15.0])
        );
        assert_eq!(
            (column("test", "item"), column("test", "true_rank")),
            (vec![185.0, 99.0], vec![18.0, 1.0])
        );
    }
}
