//! Sums of matmuls that become one.

use super::*;
use crate::fusion::join_products;
use crate::ir::NodeOp;
use crate::oracle::{Oracle, OracleTensor};

const STEPS: usize = 6;

/// The gradients of a weight and of a bias by the steps of a loop, whose gradients `d` are stacked for another matmul. Parts lie
/// before or behind their rows. The sums have further terms.
fn gradients(is_behind: bool, is_twice: bool) -> Graph {
    with_builder(|b| {
        let [h, d]: [Vec<Value>; 2] = [("h", 5), ("d", 7)].map(|(name, n)| {
            (0..STEPS).map(|t| b.input(&format!("{name}{t}"), InputKind::Data, f32s(&[4, n]))).collect()
        });
        let [more, bias, x] = [("more", vec![5, 7]), ("bias", vec![7]), ("x", vec![3, 4 * STEPS])]
            .map(|(name, extents)| b.input(name, InputKind::Data, f32s(&extents)));
        let axis = usize::from(is_behind);
        let (mut stack, mut dw, mut db) = (None, more, bias);
        for t in 0..STEPS {
            let mut shape = vec![4, 7];
            shape.insert(axis, 1);
            let row = b.reshape(d[t], &shape);
            let [mut low, mut high] = [vec![0; 3], vec![0; 3]];
            (low[axis], high[axis]) = (STEPS - 1 - t, t);
            let padded = b.pad(row, &low, &high, Literal::Float(0.0));
            stack = Some(stack.map_or(padded, |sum| b.add(sum, padded)));
            let of = if is_twice && t == 3 { d[2] } else { d[t] };
            let product = b.matmul(h[t], of, MatmulSpec::new(vec![], vec![(0, 0)]));
            dw = b.add(dw, product);
            let sum = b.sum(d[t], &[0]);
            db = b.add(db, sum);
        }
        let stack = stack.unwrap();
        let rows = b.reshape(stack, &[4 * STEPS, 7]);
        let y = b.mm(x, rows);
        let all = b.sum(stack, &[0, 1]);
        for (name, value) in [("dw", dw), ("db", db), ("y", y), ("all", all)] {
            output(b, name, value);
        }
    })
}

fn n_of(graph: &Graph, is_one: impl Fn(&NodeOp) -> bool) -> usize {
    graph.nodes.iter().filter(|node| is_one(&node.op)).count()
}

fn counts(graph: &Graph) -> [usize; 2] {
    [n_of(graph, |op| matches!(op, NodeOp::Matmul(_))), n_of(graph, |op| matches!(op, NodeOp::Reduce { .. }))]
}

fn results(graph: &Graph) -> Vec<Vec<f64>> {
    let registry = Registry::new();
    let inputs = graph.inputs().map(|(id, _)| {
        let ty = graph.ty(Value::of(id));
        let values: Vec<f64> = (0..ty.numel()).map(|i| ((i * 31 + id * 17) % 23) as f64 - 11.0).collect();
        (graph.nodes[id].name().to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &values))
    });
    let run = Oracle::new(&registry).run(graph, &inputs.collect(), 0, 0).unwrap();
    run.outputs.values().map(OracleTensor::to_f64).collect()
}

#[test]
fn matmuls_and_sums_of_a_stack_are_joined() {
    for is_behind in [false, true] {
        let graph = gradients(is_behind, false);
        let joined = join_products(&graph);
        assert_eq!((counts(&graph), counts(&joined)), ([STEPS + 1, STEPS + 1], [2, 1]));
        assert_eq!(results(&joined), results(&graph), "behind: {is_behind}");
    }
}

/// One of the stacked values takes part twice, and another one not at all.
#[test]
fn matmuls_of_other_values_stay() {
    let graph = gradients(true, true);
    let joined = join_products(&graph);
    assert_eq!(counts(&joined), [STEPS + 1, 1]);
    assert_eq!(results(&joined), results(&graph));
}

#[test]
fn small_results_stay_sums_of_matmuls() {
    // A stack of `h` would have 6 · 40 · 5 elements, more than six results of 5 × 7.
    let graph = with_builder(|b| {
        let mut total = None;
        let mut stack = None;
        for t in 0..STEPS {
            let [h, d] = [("h", 5), ("d", 7)]
                .map(|(name, n)| b.input(&format!("{name}{t}"), InputKind::Data, f32s(&[40, n])));
            let row = b.reshape(d, &[1, 40, 7]);
            let padded = b.pad(row, &[t, 0, 0], &[STEPS - 1 - t, 0, 0], Literal::Float(0.0));
            stack = Some(stack.map_or(padded, |sum| b.add(sum, padded)));
            let product = b.matmul(h, d, MatmulSpec::new(vec![], vec![(0, 0)]));
            total = Some(total.map_or(product, |sum| b.add(sum, product)));
        }
        output(b, "stack", stack.unwrap());
        output(b, "total", total.unwrap());
    });
    assert_eq!(join_products(&graph), graph);
}
