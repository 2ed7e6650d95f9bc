//! Maps that later kernels compute again.

use super::*;
use crate::fusion::Use;

/// The tensors that kernels store, where maps of a matmul's sum are used on both sides of further matmuls. With `is_single`, a
/// single one of them is used behind.
fn stored(is_single: bool) -> Vec<String> {
    let graph = with_builder(|b| {
        let [x, w, v] = [("x", [512, 300]), ("w", [300, 400]), ("v", [400, 400])]
            .map(|(name, extents)| b.input(name, InputKind::Data, f32s(&extents)));
        let sum = b.mm(x, w);
        let [e, t] = [Unary::Exp, Unary::Tanh].map(|op| b.unary(op, sum));
        let y = b.binary(Binary::Mul, e, t);
        let z = b.mm(y, v);
        let z = b.mm(z, v);
        let late = if is_single { e } else { b.add(e, t) };
        let grad = b.binary(Binary::Mul, z, late);
        let grad = if is_single { grad } else { b.binary(Binary::Mul, grad, t) };
        let names = [("sum", sum), ("e", e), ("tanh", t), ("y", y), ("grad", grad)];
        for (name, value) in names {
            b.graph.nodes[value.node].outputs[0].name = name.into();
        }
        output(b, "out", grad);
    });
    let kernels = fuse(&graph, true).kernels;
    let written = kernels.iter().flat_map(|kernel| kernel.uses(Use::Write));
    let names = written.map(|operand| graph.name_of(operand.value).to_string());
    let mut names: Vec<String> = names.filter(|name| name != "t" && !name.starts_with("t.")).collect();
    names.sort();
    names
}

#[test]
fn several_maps_of_one_sum_are_computed_again_behind_a_matmul() {
    assert_eq!(stored(false), ["grad", "sum", "y"]);
}

/// Reading one map takes as long as reading the sum.
#[test]
fn a_single_map_is_stored() {
    assert_eq!(stored(true), ["e", "grad", "sum", "y"]);
}

/// A gate and its derivative are used behind a matmul: the derivative follows from the gate by one operation. The gate is
/// stored for that matmul, or because it is used behind it as well.
#[test]
fn a_map_of_a_stored_one_is_computed_again() {
    for is_operand in [true, false] {
        let graph = with_builder(|b| {
            let [x, w, v] = [("x", [64, 30]), ("w", [30, 40]), ("v", [40, 40])]
                .map(|(name, extents)| b.input(name, InputKind::Data, f32s(&extents)));
            let sum = b.mm(x, w);
            let gate = b.unary(Unary::Tanh, sum);
            let one = b.full_like(gate, 1.0);
            let slope = b.sub(one, gate);
            let doubled = b.add(gate, gate);
            let z = b.mm(if is_operand { gate } else { doubled }, v);
            let z = b.mm(z, v);
            let [first, second] = [gate, slope].map(|by| b.binary(Binary::Mul, z, by));
            for (name, value) in [("gate", gate), ("slope", slope)] {
                b.graph.nodes[value.node].outputs[0].name = name.into();
            }
            output(b, "first", first);
            output(b, "second", second);
        });
        let kernels = fuse(&graph, true).kernels;
        let is_written = |name: &str| {
            let has_name = |operand: &crate::fusion::Operand| **graph.name_of(operand.value) == *name;
            kernels.iter().any(|kernel| kernel.uses(Use::Write).any(has_name))
        };
        assert!(is_written("gate") && !is_written("slope"));
        assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
    }
}

/// Rows divided by their largest element, whose negatives are multiplied, and which are used behind the products.
#[test]
fn maps_of_a_value_of_the_row_are_computed_again() {
    let graph = with_builder(|b| {
        let [x, w, v] = [("x", [512, 300]), ("w", [300, 400]), ("v", [400, 300])]
            .map(|(name, extents)| b.input(name, InputKind::Data, f32s(&extents)));
        let rows = b.unary(Unary::Exp, x);
        let largest = b.reduce(Monoid::Max, rows, &[1]);
        let largest = b.unreduce(largest, &[1], rows);
        let scaled = b.div(rows, largest);
        let turned = b.unary(Unary::Neg, scaled);
        let y = b.mm(turned, w);
        let z = b.mm(y, v);
        let grad = b.binary(Binary::Mul, z, scaled);
        let grad = b.add(grad, rows);
        let scales = b.sum(grad, &[0]);
        for (name, value) in [("rows", rows), ("scaled", scaled)] {
            b.graph.nodes[value.node].outputs[0].name = name.into();
        }
        output(b, "scales", scales);
    });
    let kernels = fuse(&graph, true).kernels;
    let readers = |name: &str| {
        let is_read = |operand: &crate::fusion::Operand| **graph.name_of(operand.value) == *name;
        kernels.iter().filter(|kernel| kernel.uses(Use::Read).any(is_read)).count()
    };
    // The rows are an exponential of the input, which is in memory.
    assert_eq!((readers("rows"), readers("scaled")), (0, 0));
    assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
}
