//! The source `numbers`: rows that hold their number.

use super::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use crate::tensor::HostTensor;
use indexmap::IndexMap;

/// Rows numbered from 0 on, for graphs that compute their data from a number. The test rows continue after the training
/// rows.
pub struct Numbers;

const N_TRAIN: usize = 8192;
const N_TEST: usize = 1024;
const MOST_ROWS: usize = 1 << 24;

impl Source for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn summary(&self) -> &str {
        "rows that hold their own number, for graphs that make their data themselves; needs no file"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&["n_train", "n_test"])?;
        let n_train = context.count("n_train", MOST_ROWS)?.unwrap_or(N_TRAIN);
        let n_test = context.count("n_test", MOST_ROWS)?.unwrap_or(N_TEST);
        let mut splits = IndexMap::new();
        for (name, first, n_rows) in [("train", 0, n_train), ("test", n_train, n_test)] {
            let numbers: Vec<i32> = (first..first + n_rows).map(|number| number as i32).collect();
            let field = HostTensor::from_slice(&[n_rows], &numbers)?;
            splits.insert(name.to_string(), Split::new(IndexMap::from([("number".to_string(), field)]))?);
        }
        Ok(DataSet { splits, ..DataSet::new(self.name(), Provenance::Synthetic) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use engine_core::ir::{Attr, Literal};
    use std::path::Path;

    #[test]
    fn test_rows_continue_after_training_rows() {
        let mut context = LoadContext::offline_in(Path::new("."));
        context.options = vec![
            ("n_train".into(), Attr::Lit(Literal::Int(3))),
            ("n_test".into(), Attr::Lit(Literal::Int(2))),
        ];
        let set = Numbers.load(&context).unwrap();
        let rows =
            |split: &str| set.splits[split].tensor("number").unwrap().as_slice::<i32>().unwrap().to_vec();
        assert_eq!((rows("train"), rows("test")), (vec![0, 1, 2], vec![3, 4]));
        context.options = vec![("rows".into(), Attr::Lit(Literal::Int(3)))];
        assert!(Numbers.load(&context).is_err());
    }
}
