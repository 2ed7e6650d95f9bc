//! Tests of every form, PyTorch's numbers, and decoding with a cache.
#![allow(clippy::unwrap_used)]

use crate::Attention;
use engine_core::ir::{DType, parse};
use engine_core::op::{Example, Registry};
use engine_core::oracle::{Oracle, OracleTensor};
use engine_core::testing;
use std::collections::HashMap;

#[test]
fn examples_gradients_and_recorded_cases_hold() {
    testing::assert_families(&[&Attention], include_str!("../../../tests/examples/attention.json"));
}

#[test]
fn rows_beyond_the_end_of_a_cache_are_an_index_error() {
    let registry = testing::registry(&[&Attention]);
    for position in [3.0, -1.0] {
        let inputs: [(&str, &[f64]); 3] =
            [("f32[4, 1]", &[0.0; 4]), ("f32[2, 1]", &[1.0; 2]), ("i32[]", &[position])];
        let example = Example::new("too far", "kv_insert(a, b, c)", &inputs, &[("f32[4, 1]", &[0.0; 4])]);
        let message = testing::check(&example, &registry).unwrap_err();
        assert!(message.contains(&format!("index {position}")), "{message}");
    }
}

const LENGTH: usize = 5;

/// The outputs of a graph.
fn run(text: &str, inputs: &[(&str, OracleTensor)], registry: &Registry) -> HashMap<String, OracleTensor> {
    let graph = parse(&format!("graph test {{\n{text}\n}}\n"), registry).unwrap();
    let inputs = inputs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    let run = Oracle::new(registry).run(&graph, &inputs, 0, 0).unwrap();
    run.outputs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Row `at` of each head of `x`, which is [2, LENGTH, 4].
fn row(x: &OracleTensor, at: usize) -> Vec<f64> {
    let x = x.to_f64();
    (0..2).flat_map(|head| x[(head * LENGTH + at) * 4..][..4].to_vec()).collect()
}

/// Queries, keys and values one by one, with rotary positions and a cache, against all of them at once.
#[test]
fn decoding_with_a_cache_gives_the_rows_of_the_whole_sequence() {
    let registry = testing::registry(&[&Attention]);
    let floats = |extents: &[usize], x: &[f64]| OracleTensor::new(DType::F32, extents, x);
    let waves = |by: f64| (0..2 * LENGTH * 4).map(|i| (i as f64 * by).sin()).collect::<Vec<f64>>();
    let [q, k, v] = [1.0, 2.0, 3.0].map(|by| floats(&[2, LENGTH, 4], &waves(by)));
    let whole = "input q: f32[2, 5, 4]\ninput k: f32[2, 5, 4]\ninput v: f32[2, 5, 4]\n\
                 r: f32[2, 5, 4] = rotary(q)\ns: f32[2, 5, 4] = rotary(k)\n\
                 (y: f32[2, 5, 4], lse: f32[2, 5]) = attention(r, s, v, causal=true)\noutput y = y";
    let expected = run(whole, &[("q", q.clone()), ("k", k.clone()), ("v", v.clone())], &registry);

    let step = "input q: f32[2, 1, 4]\ninput k: f32[2, 1, 4]\ninput v: f32[2, 1, 4]\ninput at: i32[]\n\
                input seen: bool[5]\ninput keys: f32[2, 5, 4]\ninput values: f32[2, 5, 4]\n\
                r: f32[2, 1, 4] = rotary(q, at)\ns: f32[2, 1, 4] = rotary(k, at)\n\
                held: f32[2, 5, 4] = kv_insert(keys, s, at)\nknown: f32[2, 5, 4] = kv_insert(values, v, at)\n\
                (y: f32[2, 1, 4], lse: f32[2, 1]) = attention(r, held, known, seen)\n\
                output y = y\noutput keys = held\noutput values = known";
    // Places that are not filled yet must not be seen.
    let mut caches = [0, 1].map(|_| floats(&[2, LENGTH, 4], &[1e6; 2 * LENGTH * 4]));
    for at in 0..LENGTH {
        let seen: Vec<f64> = (0..LENGTH).map(|place| f64::from(place <= at)).collect();
        let one = |x: &OracleTensor| floats(&[2, 1, 4], &row(x, at));
        let [keys, values] = caches;
        let inputs = [
            ("q", one(&q)),
            ("k", one(&k)),
            ("v", one(&v)),
            ("at", OracleTensor::new(DType::I32, &[], &[at as f64])),
            ("seen", OracleTensor::new(DType::Bool, &[LENGTH], &seen)),
            ("keys", keys),
            ("values", values),
        ];
        let mut found = run(step, &inputs, &registry);
        let pairs = found["y"].to_f64().into_iter().zip(row(&expected["y"], at));
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "row {at}: {a} instead of {b}"));
        caches = ["keys", "values"].map(|name| found.remove(name).unwrap());
    }
}
