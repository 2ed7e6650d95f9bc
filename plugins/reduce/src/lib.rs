//! Reductions, softmax and losses.

mod argmax;
mod axes;
mod bincount;
mod extremes;
mod folds;
mod l2_norm;
mod log_sum_exp;
mod loss;
mod mean;
mod norm;
mod row_log_sum_exp;
mod scans;
mod softmax;
mod spread;
mod statistics;
mod truth;

pub use argmax::{argmax, argmin};
pub use bincount::bincount;
pub use extremes::{max, min};
pub use folds::{amax, amin, prod, sum};
pub use l2_norm::rowwise_l2_norm;
pub use log_sum_exp::log_sum_exp;
pub use loss::{
    bce_with_logits, contrastive_loss, cross_entropy, cross_entropy_rows, hinge_loss, huber_loss, kl_div,
    l1_loss, linear_cross_entropy, linear_cross_entropy_rows, mse_loss, nll_loss, triplet_loss,
};
pub use mean::mean;
pub use norm::norm;
pub use row_log_sum_exp::row_log_sum_exp;
pub use scans::{cummax, cummin, cumprod, cumsum, logcumsumexp};
pub use softmax::{log_softmax, softmax};
pub use spread::{std, var};
pub use statistics::statistics;
pub use truth::{all, any};

use engine_core::op::{OpForm, Plugin};

/// Reductions, softmax and losses.
pub struct Reduce;

impl Plugin for Reduce {
    fn name(&self) -> &str {
        "reduce"
    }

    fn ops(&self) -> Vec<OpForm> {
        let along_axes = vec![
            sum(),
            mean(),
            prod(),
            amax(),
            amin(),
            max(),
            min(),
            argmax(),
            argmin(),
            any(),
            all(),
            var(),
            std(),
            norm(),
            log_sum_exp(),
            cumsum(),
            cumprod(),
            cummax(),
            cummin(),
            logcumsumexp(),
            softmax(),
            log_softmax(),
        ];
        let others = [statistics(), rowwise_l2_norm(), bincount(), row_log_sum_exp()];
        along_axes.into_iter().map(OpForm::takes_scalars).chain(others).chain(loss::ops()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::op::Example;
    use engine_core::testing;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Reduce], include_str!("../../../tests/examples/reduce.json"));
    }

    /// A target outside the row is never read, neither one past its end nor a negative one that is not ignored.
    #[test]
    fn targets_out_of_range_are_errors() {
        let registry = testing::registry(&[&Reduce]);
        for target in [3.0, -2.0] {
            for op in ["cross_entropy(a, b, ignore_index=-1)", "nll_loss(a, b, ignore_index=-1)"] {
                let inputs: [(&str, &[f64]); 2] = [("f32[2, 3]", &[0.0; 6]), ("i32[2]", &[0.0, target])];
                let example = Example::new("a wrong target", op, &inputs, &[("f32[]", &[0.0])]);
                let message = testing::check(&example, &registry).expect_err("an index error");
                assert!(message.contains(&format!("index {target}")), "{op}: {message}");
            }
        }
    }
}
