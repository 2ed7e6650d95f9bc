//! Attention to selected keys as one kernel.

use super::*;
use crate::compile::{Options, compile};
use crate::ir::{Builder, Graph, InputKind, MatmulSpec};
use crate::op::Registry;

const QUERIES: usize = 6;
const DEPTH: usize = 20;
const KEYS: usize = 30;
const WIDTH: usize = 12;

/// `softmax(query · selected keys) · selected values`; each query selects keys of its own.
fn selected_attention(n_selected: usize, indices: DType) -> Kernel {
    selected_by(n_selected, indices, |b, scores| {
        let peak = b.reduce(Monoid::Max, scores, &[2]);
        let peak = b.unreduce(peak, &[2], scores);
        b.sub(scores, peak)
    })
}

/// The same, where `shifted` comes before the exponential.
pub fn selected_by(
    n_selected: usize,
    indices: DType,
    shifted: impl FnOnce(&mut Builder, Value) -> Value,
) -> Kernel {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("attention"), &registry);
    let mut input = |name: &str, dtype: DType, extents: &[usize]| {
        b.input(name, InputKind::Data, TensorType::new(dtype, extents))
    };
    let query = input("query", DType::F32, &[QUERIES, 1, DEPTH]);
    let keys = input("keys", DType::F32, &[KEYS, DEPTH]);
    let values = input("values", DType::F32, &[KEYS, WIDTH]);
    let selected = input("selected", indices, &[QUERIES, n_selected]);
    let keys = b.gather(keys, selected, 0, 0);
    let values = b.gather(values, selected, 0, 0);
    let by = |l, r| MatmulSpec::new(vec![(0, 0)], vec![(l, r)]);
    let scores = b.matmul(query, keys, by(2, 2));
    let shifted = shifted(&mut b, scores);
    let weights = b.unary(Unary::Exp, shifted);
    let total = b.sum(weights, &[2]);
    let total = b.unreduce(total, &[2], weights);
    let weights = b.div(weights, total);
    let result = b.matmul(weights, values, by(2, 1));
    b.graph.outputs = vec![("result".into(), result)];
    let plan = compile(&b.graph.pruned(), &registry, &Options::default()).plan;
    let [kernel] = &plan.kernels[..] else { panic!("{} kernels", plan.kernels.len()) };
    assert!(matches!(kernel.body, KernelBody::Attention(_)));
    kernel.clone()
}

fn check(n_selected: usize, indices: DType) {
    check_kernel(&selected_attention(n_selected, indices), n_selected, indices);
}

pub fn check_kernel(kernel: &Kernel, n_selected: usize, indices: DType) {
    let (query, keys, values) = (numbers(QUERIES * DEPTH), numbers(KEYS * DEPTH), numbers(KEYS * WIDTH));
    let selected: Vec<usize> = (0..QUERIES * n_selected).map(|i| (i * i + 7 * i) % KEYS).collect();
    let index_bytes = |&key: &usize| (key as i64).to_le_bytes()[..indices.size()].to_vec();
    let selected_bytes: Vec<u8> = selected.iter().flat_map(index_bytes).collect();
    let inputs = kernel.operands.iter().filter(|operand| operand.usage != Use::Write);
    let inputs: Vec<Vec<u8>> = inputs
        .map(|operand| match (operand.ty.dtype, operand.ty.numel()) {
            (dtype, _) if dtype == indices => selected_bytes.clone(),
            (_, n) if n == query.len() => bytes(&query),
            (_, n) if n == keys.len() => bytes(&keys),
            _ => bytes(&values),
        })
        .collect();
    let Some(buffers) = on_host::run(kernel, &inputs, 0) else { return };
    let expected = (0..QUERIES).flat_map(|i| {
        let of_query = &selected[i * n_selected..][..n_selected];
        let dot = |key: usize| -> f64 {
            (0..DEPTH).map(|d| f64::from(query[i * DEPTH + d]) * f64::from(keys[key * DEPTH + d])).sum()
        };
        let weights: Vec<f64> = of_query.iter().map(|&key| dot(key).exp()).collect();
        let total: f64 = weights.iter().sum();
        let values = &values;
        (0..WIDTH).map(move |w| {
            let each = weights.iter().zip(of_query);
            each.map(|(weight, key)| weight / total * f64::from(values[key * WIDTH + w])).sum::<f64>()
        })
    });
    let expected: Vec<f64> = expected.collect();
    assert_close(&f32s(&buffers[inputs.len()]), expected);
}

#[test]
fn selected_keys_are_attended_to_in_one_kernel() {
    // Fewer keys than warps load together, a partial round, several rounds, and a row that is read again.
    for n_selected in [2, 33, 307, 5003] {
        check(n_selected, DType::I32);
    }
    check(33, DType::I64);
}

#[test]
fn attention_to_selected_keys_keeps_scores_out_of_global_memory() {
    let source = only_source(&selected_attention(40, DType::I32));
    assert_eq!((&*source.entry, source.block_dim), ("attention", [256, 1, 1]));
    assert_eq!(source.blocks_for(source.points), QUERIES);
    assert_eq!(source.arguments.len(), 5);
}

#[test]
fn attention_with_too_many_keys_is_an_error() {
    // A prime number of keys has no parts.
    assert_eq!(cuda_sources(&selected_attention(20_011, DType::I32)).unwrap_err(), CodegenError::Attend);
}
