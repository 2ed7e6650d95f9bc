//! Random sampling and optimizers.

mod adam;
mod distributions;
mod gumbel;
mod one_hot_argmax;
mod parts;
mod sgd;

pub use adam::{adam, adamw};
pub use distributions::{normal, uniform};
pub use gumbel::{gumbel_argmax, gumbel_softmax, sample_gumbel};
pub use one_hot_argmax::one_hot_argmax;
pub use sgd::{momentum, sgd};

use engine_core::op::{OpForm, Plugin, TypeIssue};

/// Random sampling and optimizers.
pub struct Optim;

impl Plugin for Optim {
    fn name(&self) -> &str {
        "optim"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            uniform(),
            normal(),
            sample_gumbel(),
            gumbel_argmax(),
            gumbel_softmax(),
            one_hot_argmax(),
            sgd(),
            momentum(),
            adam(),
            adamw(),
        ]
    }
}

/// What a type rule has checked already cannot fail in the lowering.
fn checked<T>(found: Result<T, TypeIssue>) -> T {
    found.unwrap_or_else(|issue| engine_core::bug!("the type rule let this pass: {}", issue.message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use engine_core::grad::differentiate;
    use engine_core::ir::{Builder, DType, parse};
    use engine_core::op::{Registry, testing};
    use engine_core::oracle::{Oracle, OracleTensor};
    use std::collections::HashMap;

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.plugin(&engine_reduce::Reduce).plugin(&Optim);
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

    /// A call on logits, temperature and uniform numbers: its result, and the gradient of `Σ weights · result` with
    /// respect to the logits.
    fn value_and_gradient(call: &str) -> [Vec<f64>; 2] {
        let registry = registry();
        let text = format!(
            "graph test {{\ninput a: f32[1, 3]\ninput b: f32[]\ninput c: f32[1, 3]\ninput weights: f32[1, 3]\n\
             y: f32[1, 3] = {call}\noutput y = y\n}}\n"
        );
        let mut b = Builder::new(parse(&text, &registry).unwrap(), &registry);
        let [logits, weights, y] = ["a", "weights", "y"].map(|name| b.graph.find(name).unwrap());
        let weighted = b.mul(weights, y);
        let loss = b.sum(weighted, &[0, 1]);
        let differentiated = differentiate(&b.graph, &registry, loss, &[logits]).unwrap();
        let mut graph = differentiated.graph;
        graph.outputs.push(("gradient".into(), differentiated.grads[0]));
        let row = |elements: &[f64]| OracleTensor::new(DType::F32, &[1, 3], elements);
        let inputs = HashMap::from([
            ("a".into(), row(&[0.5, -1.0, 2.0])),
            ("b".into(), OracleTensor::new(DType::F32, &[], &[0.7])),
            ("c".into(), row(&[0.9, 0.2, 0.6])),
            ("weights".into(), row(&[1.0, -2.0, 0.5])),
        ]);
        let run = Oracle::new(&registry).run(&graph, &inputs, 0, 0).unwrap();
        ["y", "gradient"].map(|name| run.outputs[name].to_f64())
    }

    #[test]
    fn hard_weights_are_exact_and_have_the_gradient_of_the_soft_ones() {
        let [_, soft] = value_and_gradient("gumbel_softmax(a, b, c)");
        let [weights, hard] = value_and_gradient("gumbel_softmax(a, b, c, hard=true)");
        // The noise is 2.25, -0.48 and 0.67, so that the first logit wins by 2.75 to 2.67.
        assert_eq!(weights, [1.0, 0.0, 0.0]);
        assert_eq!(hard, soft);
        assert!(soft[0].abs() > 0.1);
    }
}
