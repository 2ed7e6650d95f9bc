//! Random tensors and draws.

mod distributions;
mod gumbel;
#[cfg(test)]
mod laws;
mod multinomial;
mod one_hot_argmax;
mod sample_logits;
mod sigmoid_bernoulli;

pub use distributions::{normal, uniform};
pub use gumbel::{gumbel_argmax, gumbel_softmax, sample_gumbel};
pub use multinomial::multinomial;
pub use one_hot_argmax::one_hot_argmax;
pub use sample_logits::sample_logits;
pub use sigmoid_bernoulli::sigmoid_bernoulli;

use engine_core::op::{OpForm, Plugin};

/// Random tensors and draws.
pub struct Sample;

impl Plugin for Sample {
    fn name(&self) -> &str {
        "sample"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            uniform(),
            normal(),
            sample_gumbel(),
            gumbel_argmax(),
            gumbel_argmax().alias("categorical_sample", "categorical_sample(a, b)"),
            gumbel_softmax(),
            multinomial(),
            one_hot_argmax(),
            sigmoid_bernoulli(),
            sample_logits(),
            sample_logits().alias(
                "top_k_top_p_sampling_from_logits",
                "top_k_top_p_sampling_from_logits(a, b, num_samples=3)",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use engine_core::grad::differentiate;
    use engine_core::ir::{Builder, DType, parse};
    use engine_core::op::Example;
    use engine_core::oracle::{Oracle, OracleTensor};
    use engine_core::testing;
    use engine_order::Order;
    use engine_reduce::Reduce;
    use std::collections::HashMap;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        let cases = include_str!("../../../tests/examples/sample.json");
        testing::assert_families(&[&Reduce, &Order, &Sample], cases);
    }

    /// A call on logits, temperature and uniform numbers: its result, and the gradient of `Σ weights · result` with
    /// respect to the logits.
    fn value_and_gradient(call: &str) -> [Vec<f64>; 2] {
        let registry = testing::registry(&[&Reduce, &Order, &Sample]);
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

    /// The numbers that a call on one operand draws at a step.
    fn drawn(
        call: &'static str,
        operand: (&'static str, Vec<f64>),
        output: (&'static str, usize),
        step: i64,
    ) -> Vec<f64> {
        let registry = testing::registry(&[&Reduce, &Order, &Sample]);
        let outputs = [(output.0, &vec![0.0; output.1][..])];
        let example = Example::new("a draw", call, &[(operand.0, &operand.1)], &outputs);
        let case = testing::case(&example, &registry).unwrap();
        Oracle::new(&registry).run(&case.graph, &case.inputs, 7, step).unwrap().outputs[0].to_f64()
    }

    /// Whether `hits` of `n` draws with this probability lie within four standard deviations.
    fn is_likely(hits: usize, n: usize, probability: f64) -> bool {
        let n = n as f64;
        (hits as f64 - n * probability).abs() <= 4.0 * (n * probability * (1.0 - probability)).sqrt()
    }

    #[test]
    fn draws_are_as_frequent_as_the_softmax_of_their_logits() {
        let logits = [0.5, -1.0, 2.0, 0.0f64];
        let total: f64 = logits.iter().map(|x| x.exp()).sum();
        let rows = ("f32[20000, 4]", logits.repeat(20_000));
        for call in ["gumbel_argmax(a)", "categorical_sample(a)"] {
            let first = drawn(call, rows.clone(), ("i32[20000]", 20_000), 0);
            for (class, logit) in logits.iter().enumerate() {
                let hits = first.iter().filter(|&&y| y == class as f64).count();
                assert!(is_likely(hits, 20_000, logit.exp() / total), "{call}: {hits} times {class}");
            }
            assert_ne!(first, drawn(call, rows.clone(), ("i32[20000]", 20_000), 1));
        }
    }

    /// The mean of a spin in the field γ is tanh γ.
    #[test]
    fn spins_follow_their_field() {
        let spins = drawn(
            "sigmoid_bernoulli(a, out=\"spins\")",
            ("f32[20000]", vec![0.3; 20_000]),
            ("f32[20000]", 20_000),
            0,
        );
        assert!(spins.iter().all(|y| y.abs() == 1.0));
        let up = spins.iter().filter(|&&y| y == 1.0).count();
        assert!(is_likely(up, 20_000, (1.0 + 0.3f64.tanh()) / 2.0), "{up} up");
        let bits = drawn(
            "sigmoid_bernoulli(a, scale=1.0)",
            ("f32[20000]", vec![-1.0; 20_000]),
            ("f32[20000]", 20_000),
            0,
        );
        let ones = bits.iter().filter(|&&y| y == 1.0).count();
        assert!(is_likely(ones, 20_000, 1.0 / (1.0 + 1f64.exp())), "{ones} ones");
    }

    #[test]
    fn weights_add_up_to_one_and_harden_as_the_temperature_falls() {
        let rows = ("f32[500, 4]", [0.5, -1.0, 2.0, 0.0].repeat(500));
        let soft = drawn("gumbel_softmax(a)", rows.clone(), ("f32[500, 4]", 2000), 0);
        assert!(soft.chunks(4).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        let cold = drawn("gumbel_softmax(a, tau=0.00001)", rows.clone(), ("f32[500, 4]", 2000), 0);
        let hard = drawn("gumbel_softmax(a, hard=true)", rows, ("f32[500, 4]", 2000), 0);
        let n_unlike = cold.iter().zip(&hard).filter(|(a, b)| (**a - **b).abs() > 1e-6).count();
        assert_eq!(n_unlike, 0);
    }

    /// Defect D7: a nucleus is cut before the draw. Tokens outside are never drawn, and tokens inside keep their odds.
    /// The list has the settings, and the probability of each token by hand. The logits are logarithms of 1, 2, 3 and 4
    /// tenths.
    const CUT: &[(&str, [f64; 4])] = &[
        ("", [0.1, 0.2, 0.3, 0.4]),
        (", temperature=0.5", [1.0 / 30.0, 4.0 / 30.0, 9.0 / 30.0, 16.0 / 30.0]),
        (", top_k=2", [0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]),
        (", top_k=9", [0.1, 0.2, 0.3, 0.4]),
        (", top_p=0.65", [0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]),
        (", top_p=0.75", [0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0]),
        (", top_p=0.0", [0.0, 0.0, 0.0, 1.0]),
        (", min_p=0.3", [0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0]),
        (", top_k=3, top_p=0.7", [0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]),
        (", top_k=3, min_p=0.6", [0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]),
        (", temperature=0.0", [0.0, 0.0, 0.0, 1.0]),
        (", top_k=1", [0.0, 0.0, 0.0, 1.0]),
    ];

    #[test]
    fn d7_tokens_follow_the_law_that_is_left_after_the_cut() {
        let logits: Vec<f64> = [0.1f64, 0.2, 0.3, 0.4].iter().map(|p| p.ln()).collect();
        let rows = ("f32[1000, 4]", logits.repeat(1000));
        for (settings, law) in CUT {
            let call: &'static str = format!("sample_logits(a, num_samples=20{settings})").leak();
            let first = drawn(call, rows.clone(), ("i32[1000, 20]", 20_000), 0);
            for (token, &probability) in law.iter().enumerate() {
                let hits = first.iter().filter(|&&y| y == token as f64).count();
                assert!(is_likely(hits, 20_000, probability), "{call}: {hits} times {token}");
            }
            let again = drawn(call, rows.clone(), ("i32[1000, 20]", 20_000), 1);
            assert_eq!(first == again, law.contains(&1.0), "{call}");
        }
    }

    /// The second class follows the weights of those that are left.
    #[test]
    fn classes_drawn_without_replacement_differ_and_follow_their_weights() {
        let weights = [1.0, 0.0, 2.0, 5.0];
        let rows = ("f32[20000, 4]", weights.repeat(20_000));
        let call = "multinomial(a, num_samples=2)";
        let pairs = drawn(call, rows.clone(), ("i32[20000, 2]", 40_000), 0);
        for (first, w) in weights.iter().enumerate() {
            for (second, v) in weights.iter().enumerate() {
                let hits = pairs.chunks(2).filter(|pair| **pair == [first as f64, second as f64]).count();
                let law = if first == second { 0.0 } else { w / 8.0 * v / (8.0 - w) };
                assert!(is_likely(hits, 20_000, law), "{hits} times {first}, {second}");
            }
        }
        assert_ne!(pairs, drawn(call, rows.clone(), ("i32[20000, 2]", 40_000), 1));
        let again =
            drawn("multinomial(a, num_samples=1, replacement=true)", rows, ("i32[20000, 1]", 20_000), 0);
        for (class, w) in weights.iter().enumerate() {
            let hits = again.iter().filter(|&&y| y == class as f64).count();
            assert!(is_likely(hits, 20_000, w / 8.0), "{hits} times {class}");
        }
    }

    #[test]
    fn no_class_is_drawn_where_none_of_positive_weight_is_left() {
        let rows = ("f32[2, 3]", vec![0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        let classes = drawn("multinomial(a, num_samples=2)", rows, ("i32[2, 2]", 4), 0);
        assert_eq!(classes, [1.0, -1.0, -1.0, -1.0]);
    }

    #[test]
    fn nothing_is_drawn_for_no_rows_and_no_samples() {
        for (call, logits, tokens) in [
            ("sample_logits(a, top_p=0.5)", "f32[0, 4]", "i32[0, 1]"),
            ("sample_logits(a, num_samples=0)", "f32[3, 4]", "i32[3, 0]"),
            ("sample_logits(a, num_samples=0, top_k=2)", "f32[3, 4]", "i32[3, 0]"),
        ] {
            let n = if logits.starts_with("f32[0") { 0 } else { 12 };
            assert_eq!(drawn(call, (logits, vec![0.0; n]), (tokens, 0), 0), Vec::<f64>::new(), "{call}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let registry = testing::registry(&[&Reduce, &Order, &Sample]);
        for settings in ["temperature=-1.0", "top_p=1.5", "min_p=-0.1", "top_k=0", "num_samples=-1"] {
            let call: &'static str = format!("sample_logits(a, {settings})").leak();
            let example =
                Example::new("a draw", call, &[("f32[1, 2]", &[0.0, 0.0])], &[("i32[1, 1]", &[0.0])]);
            let refusal = testing::case(&example, &registry).err().map(|error| error.to_string());
            assert!(refusal.is_some_and(|text| text.contains("cannot draw by these settings")), "{settings}");
        }
    }
}
