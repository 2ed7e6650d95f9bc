//! Row reductions with states of threads: their CUDA texts, run on the host, alone and behind a matmul.

use super::on_gpu::{Products, check, check_graph, matrices, numbers};
use engine::Engine;
use engine::core::ir::{DType, parse};
use engine::core::oracle::OracleTensor;
use std::collections::HashMap;

#[path = "../../examples/plugin/src/row_moments.rs"]
mod row_moments;

/// A row reduction of a plugin that selects nothing: alone, in pieces, and behind a matmul.
#[test]
fn a_row_reduction_of_a_plugin_runs_alone_and_behind_a_matmul() {
    let mut registry = Engine::new().registry;
    registry.add(row_moments::row_moments());
    let outputs = "output mean = mean\noutput variance = variance";
    let check = |nodes: String, inputs: &HashMap<String, OracleTensor>, products: Products| {
        let graph = parse(&format!("graph test {{\n{nodes}\n{outputs}\n}}\n"), &registry).unwrap();
        check(&graph, &registry, inputs, products, &nodes);
    };
    let call = |m: usize, x: &str| format!("(mean: f32[{m}], variance: f32[{m}]) = row_moments({x})");
    for products in [Products::Own, Products::Poor(16)] {
        for [m, n] in [[3, 301], [1, 40000], [4, 1]] {
            let x = OracleTensor::new(DType::F32, &[m, n], &numbers(m * n, 50));
            let inputs = HashMap::from([("x".to_string(), x)]);
            check(format!("input x: f32[{m}, {n}]\n{}", call(m, "x")), &inputs, products);
        }
    }
    for products in EVERYWHERE {
        for [m, n] in [[70, 500], [3, 301], [1, 40000]] {
            let product = format!("t: f32[8, {n}] = transpose(b)\np: f32[{m}, {n}] = matmul(q, t)");
            let nodes = format!("input q: f32[{m}, 8]\ninput b: f32[{n}, 8]\n{product}\n{}", call(m, "p"));
            check(nodes, &positive(matrices(m, n, 8)), products);
        }
    }
}

/// All places where the rows of a product may be folded; few processors get whole rows, and many get pieces of them.
const EVERYWHERE: [Products; 5] = [
    Products::Own,
    Products::Panels(64 * 128 * 4),
    Products::Panels(1 << 20),
    Products::TensorCores(1),
    Products::TensorCores(9),
];

/// Rows with infinities and NaN alone, and rows behind products of floats and of halves.
#[test]
fn exponentials_of_rows_are_added_up_as_they_come() {
    for [m, n] in [[7, 301], [2, 40000]] {
        let mut numbers = numbers(m * n, 50);
        let odd = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN, 1e30];
        (0..m).for_each(|row| numbers[row * n + row] = odd[row % 4]);
        numbers[(m - 1) * n..].fill(f64::NEG_INFINITY);
        let inputs = HashMap::from([("x".to_string(), OracleTensor::new(DType::F32, &[m, n], &numbers))]);
        let nodes = format!("input x: f32[{m}, {n}]\ny: f32[{m}] = row_log_sum_exp(x)\noutput y = y");
        check_graph(&nodes, &inputs, Products::Own);
    }
    for products in EVERYWHERE {
        for [m, n] in [[70, 500], [3, 301], [1, 40000]] {
            let nodes = format!(
                "input q: f32[{m}, 8]\ninput b: f32[{n}, 8]\nt: f32[8, {n}] = transpose(b)\n\
                 p: f32[{m}, {n}] = matmul(q, t)\ny: f32[{m}] = row_log_sum_exp(p)\noutput y = y"
            );
            check_graph(&nodes, &matrices(m, n, 8), products);
        }
    }
}

/// Matrices of numbers of one sign, so that no sum cancels.
fn positive(matrices: HashMap<String, OracleTensor>) -> HashMap<String, OracleTensor> {
    let shifted = |tensor: OracleTensor| {
        let numbers: Vec<f64> = tensor.to_f64().iter().map(|number| number + 5.0).collect();
        OracleTensor::new(tensor.dtype, &tensor.extents, &numbers)
    };
    matrices.into_iter().map(|(name, tensor)| (name, shifted(tensor))).collect()
}
