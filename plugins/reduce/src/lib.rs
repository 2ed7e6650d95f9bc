//! Reductions, softmax and losses.

mod argmax;
mod axes;
mod bincount;
mod cross_entropy;
mod cumsum;
mod extremes;
mod folds;
mod l2_norm;
mod log_sum_exp;
mod mean;
mod nll_loss;
mod rows;
mod softmax;
mod spread;
mod statistics;

pub use argmax::{argmax, argmin};
pub use bincount::bincount;
pub use cross_entropy::{cross_entropy, cross_entropy_rows};
pub use cumsum::cumsum;
pub use extremes::{max, min};
pub use folds::{amax, amin, prod, sum};
pub use l2_norm::rowwise_l2_norm;
pub use log_sum_exp::log_sum_exp;
pub use mean::mean;
pub use nll_loss::nll_loss;
pub use softmax::{log_softmax, softmax};
pub use spread::{std, var};
pub use statistics::statistics;

use engine_core::op::{OpForm, Plugin};

/// Reductions, softmax and losses.
pub struct Reduce;

impl Plugin for Reduce {
    fn name(&self) -> &str {
        "reduce"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            sum(),
            mean(),
            prod(),
            amax(),
            amin(),
            max(),
            min(),
            argmax(),
            argmin(),
            var(),
            std(),
            statistics(),
            rowwise_l2_norm(),
            log_sum_exp(),
            cumsum(),
            bincount(),
            softmax(),
            log_softmax(),
            nll_loss(),
            cross_entropy_rows(),
            cross_entropy(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::op::{Registry, testing};

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.plugin(&Reduce);
        registry
    }

    #[test]
    fn examples_hold() {
        assert_eq!(testing::examples(&registry()), []);
    }

    #[test]
    fn gradients_agree_with_central_differences() {
        assert_eq!(testing::gradients(&registry()), []);
    }

    #[test]
    fn recorded_cases_hold() {
        let cases = include_str!("../../../tests/examples/reduce.json");
        assert_eq!(testing::recorded(&registry(), cases), []);
    }
}
