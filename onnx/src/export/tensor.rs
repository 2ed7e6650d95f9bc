//! Primitives that move elements, combine them along axes, or multiply matrices.

use engine_core::diag::Diagnostic;
use engine_core::ir::{Combine, DType, MatmulSpec, Monoid, Node, Value, View};

use super::writer::{Writer, int, ints, number, text};
use crate::fault::unsupported;
use crate::known::{Known, Number};
use crate::proto::AttributeProto;
use crate::tensor::number_of;

fn extents(writer: &Writer, value: Value) -> Vec<i64> {
    writer.ty(value).extents().iter().map(|&n| n as i64).collect()
}

fn product(extents: &[i64]) -> i64 {
    extents.iter().product()
}

/// A tensor under another shape.
fn reshaped(writer: &mut Writer, x: &str, shape: &[i64], value: Value) -> String {
    let shape = writer.ints(shape);
    writer.node("Reshape", &[x, &shape], vec![int("allowzero", 1)], value)
}

/// A tensor with its axes in another order.
fn permuted(writer: &mut Writer, x: &str, order: &[usize], value: Value) -> String {
    if order.iter().enumerate().all(|(at, &axis)| at == axis) {
        return x.to_owned();
    }
    let order = order.iter().map(|&axis| axis as i64).collect();
    writer.node("Transpose", &[x], vec![ints("perm", order)], value)
}

/// A view.
pub(super) fn view(writer: &mut Writer, (value, node): (Value, &Node), view: &View) {
    let input = node.inputs[0];
    let shape = extents(writer, value);
    if let View::Broadcast { axes } = view {
        return broadcast(writer, (value, input), axes);
    }
    let x = writer.whole(input);
    match view {
        View::Reshape => {
            let shape = writer.ints(&shape);
            writer.give("Reshape", &[&x, &shape], vec![int("allowzero", 1)], value);
        }
        View::Permute { perm } => {
            let perm = perm.iter().map(|&axis| axis as i64).collect();
            writer.give("Transpose", &[&x], vec![ints("perm", perm)], value);
        }
        View::Slice { start, step } => {
            let starts: Vec<i64> = start.iter().map(|&n| n as i64).collect();
            let end = |at: usize| match starts[at] + shape[at] * step[at] {
                // An end before the first element is none that counts from the last.
                end if end < 0 => i64::MIN,
                end => end,
            };
            let ends: Vec<i64> = (0..shape.len()).map(end).collect();
            let axes: Vec<i64> = (0..shape.len() as i64).collect();
            let [starts, ends, axes, steps] = [&starts, &ends, &axes, step].map(|items| writer.ints(items));
            writer.give("Slice", &[&x, &starts, &ends, &axes, &steps], vec![], value);
        }
        View::Pad { low, high, fill } => {
            let pads: Vec<i64> = low.iter().chain(high).map(|&n| n as i64).collect();
            let dtype = writer.ty(value).dtype;
            let fill = Known { dtype, dims: vec![], elements: vec![number(fill)] };
            let (pads, fill) = (writer.ints(&pads), writer.constant(fill));
            writer.give("Pad", &[&x, &pads, &fill], vec![], value);
        }
        View::Window { axis, step, dilation } => {
            let [count, size] = [shape[*axis], shape[axis + 1]];
            let (step, dilation) = (*step as i64, *dilation as i64);
            let places = (0..count).flat_map(|window| (0..size).map(move |at| window * step + at * dilation));
            let dims = vec![count as usize, size as usize];
            let places = writer.constant(Known { dtype: DType::I64, dims, elements: Number::vector(places) });
            writer.give("Gather", &[&x, &places], vec![int("axis", *axis as i64)], value);
        }
        View::Broadcast { .. } => {}
    }
}

/// A value that repeats keeps its elements, on axes that broadcast.
fn broadcast(writer: &mut Writer, (value, input): (Value, Value), axes: &[usize]) {
    let (own, rank) = (extents(writer, input), writer.ty(value).rank());
    let is_aligned = axes.iter().enumerate().all(|(at, &axis)| axis + own.len() == rank + at);
    let narrow = match is_aligned {
        true => writer.narrow(input).0,
        false => {
            let x = writer.whole(input);
            let mut shape = vec![1; rank];
            for (&axis, n) in axes.iter().zip(own) {
                shape[axis] = n;
            }
            reshaped(writer, &x, &shape, value)
        }
    };
    writer.set_narrow(value, narrow);
}

/// A type that sums and products of ONNX have, for elements of one that they lack. The lowest bits of both are the same.
fn summed(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::I8 | DType::U8 | DType::I16 | DType::U16 => DType::I32,
        _ => dtype,
    }
}

/// As [`summed`], for comparisons.
fn compared(dtype: DType) -> DType {
    if matches!(dtype, DType::I16 | DType::U16) { DType::I32 } else { dtype }
}

/// As [`summed`], for an order of elements.
fn ordered(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::I32 } else { dtype }
}

/// A tensor in a type.
fn cast(writer: &mut Writer, x: String, [from, to]: [DType; 2], value: Value) -> String {
    if from == to {
        return x;
    }
    writer.node("Cast", &[&x], vec![int("to", i64::from(number_of(to)))], value)
}

/// An operand of an op that computes in a type.
fn operand(writer: &mut Writer, x: Value, to: DType, value: Value) -> String {
    let from = writer.ty(x).dtype;
    let x = writer.whole(x);
    cast(writer, x, [from, to], value)
}

/// Gives a value by an op that computes in a type.
fn give_in(
    writer: &mut Writer,
    computed: DType,
    (op, inputs): (&str, &[&str]),
    attributes: Vec<AttributeProto>,
    value: Value,
) {
    let dtype = writer.ty(value).dtype;
    if dtype == computed {
        return writer.give(op, inputs, attributes, value);
    }
    let y = writer.node(op, inputs, attributes, value);
    writer.give("Cast", &[&y], vec![int("to", i64::from(number_of(dtype)))], value);
}

/// A reduction.
pub(super) fn reduce(writer: &mut Writer, (value, node): (Value, &Node), monoid: Monoid, axes: &[usize]) {
    let dtype = writer.ty(node.inputs[0]).dtype;
    let computed = match monoid {
        Monoid::Sum | Monoid::Prod => summed(dtype),
        Monoid::Max | Monoid::Min => compared(dtype),
        Monoid::ArgMax | Monoid::ArgMin => ordered(dtype),
    };
    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let op = match monoid {
        Monoid::Sum => "ReduceSum",
        Monoid::Prod => "ReduceProd",
        Monoid::Max => "ReduceMax",
        Monoid::Min => "ReduceMin",
        Monoid::ArgMax => "ArgMax",
        Monoid::ArgMin => "ArgMin",
    };
    if axes.is_empty() && !monoid.is_index() {
        return writer.same(value, node.inputs[0]);
    }
    let x = operand(writer, node.inputs[0], computed, value);
    if monoid.is_index() {
        let settings = vec![int("axis", axes.first().copied().unwrap_or(0)), int("keepdims", 0)];
        let found = writer.node(op, &[&x], settings, value);
        return writer.give("Cast", &[&found], vec![int("to", i64::from(number_of(DType::I32)))], value);
    }
    let axes = writer.ints(&axes);
    give_in(writer, computed, (op, &[&x, &axes]), vec![int("keepdims", 0)], value);
}

/// A running sum.
///
/// # Errors
/// If it is another running result.
pub(super) fn scan(
    writer: &mut Writer,
    (value, node): (Value, &Node),
    monoid: Monoid,
    axis: usize,
) -> Result<(), Diagnostic> {
    if monoid != Monoid::Sum {
        let fact = format!("the node `{}` is a running {}, which ONNX lacks", node.name(), monoid.name());
        return Err(unsupported(fact, "export an output that does not depend on it"));
    }
    let computed = summed(writer.ty(value).dtype);
    let x = operand(writer, node.inputs[0], computed, value);
    let axis = Known { dtype: DType::I64, dims: vec![], elements: vec![Number::Int(axis as i64)] };
    let axis = writer.constant(axis);
    give_in(writer, computed, ("CumSum", &[&x, &axis]), vec![], value);
    Ok(())
}

/// The order of axes in which a block of axes comes before others: axes `from..from + n` move to `to`.
fn moved(rank: usize, from: usize, n: usize, to: usize) -> Vec<usize> {
    let rest: Vec<usize> = (0..rank).filter(|axis| !(from..from + n).contains(axis)).collect();
    rest[..to].iter().copied().chain(from..from + n).chain(rest[to..].iter().copied()).collect()
}

/// `(src [B…, P…, n, Q…], idx [B…, I…]) -> [B…, P…, I…, Q…]`
pub(super) fn gather(writer: &mut Writer, (value, node): (Value, &Node), axis: usize, batch: usize) {
    let [source, indices] = [node.inputs[0], node.inputs[1]];
    let (x, index) = (writer.whole(source), writer.whole(indices));
    if batch == 0 {
        return writer.give("Gather", &[&x, &index], vec![int("axis", axis as i64)], value);
    }
    let rank = writer.ty(source).rank();
    let x = permuted(writer, &x, &moved(rank, axis, 1, batch), value);
    let own = extents(writer, indices);
    let shape = [&own[..], &[1]].concat();
    let index = reshaped(writer, &index, &shape, value);
    let index = writer.node("Cast", &[&index], vec![int("to", i64::from(number_of(DType::I64)))], value);
    let found = writer.node("GatherND", &[&x, &index], vec![int("batch_dims", batch as i64)], value);
    let (n_index, n_before) = (own.len() - batch, axis - batch);
    let rank = writer.ty(value).rank();
    let back = permuted(writer, &found, &moved(rank, batch + n_index, n_before, batch), value);
    writer.give("Identity", &[&back], vec![], value);
}

/// `(base [B…, P…, n, Q…], idx [B…, I…], updates [B…, P…, I…, Q…]) -> base's type`. Batch axes and the indexed one become a
/// single axis, and the numbers of the batch are added to the indices.
pub(super) fn scatter(
    writer: &mut Writer,
    (value, node): (Value, &Node),
    (axis, batch): (usize, usize),
    combine: Combine,
) {
    let [base, indices, updates] = [node.inputs[0], node.inputs[1], node.inputs[2]];
    let (shape, own) = (extents(writer, base), extents(writer, indices));
    let (n, rank, n_index) = (shape[axis], shape.len(), own.len() - batch);
    let n_batch = product(&shape[..batch]);
    let to_front = moved(rank, axis, 1, batch);
    let inner: Vec<i64> = to_front[batch + 1..].iter().map(|&axis| shape[axis]).collect();
    let (x, index, update) = (writer.whole(base), writer.whole(indices), writer.whole(updates));
    let x = permuted(writer, &x, &to_front, value);
    let x = reshaped(writer, &x, &[&[n_batch * n], &inner[..]].concat(), value);
    let index = writer.node("Cast", &[&index], vec![int("to", i64::from(number_of(DType::I64)))], value);
    let places = product(&own[batch..]);
    let index = reshaped(writer, &index, &[n_batch, places], value);
    let starts = Number::vector((0..n_batch).map(|row| row * n));
    let starts =
        writer.constant(Known { dtype: DType::I64, dims: vec![n_batch as usize, 1], elements: starts });
    let index = writer.node("Add", &[&index, &starts], vec![], value);
    let index = reshaped(writer, &index, &[n_batch * places, 1], value);
    let n_before = axis - batch;
    let rank_of_updates = writer.ty(updates).rank();
    let update = permuted(writer, &update, &moved(rank_of_updates, batch + n_before, n_index, batch), value);
    let update = reshaped(writer, &update, &[&[n_batch * places], &inner[..]].concat(), value);
    let reduction = text("reduction", if combine == Combine::Add { "add" } else { "none" });
    let found = writer.node("ScatterND", &[&x, &index, &update], vec![reduction], value);
    let spread = [&shape[..batch], &[n], &inner[..]].concat();
    let found = reshaped(writer, &found, &spread, value);
    let found = permuted(writer, &found, &moved(rank, batch, 1, axis), value);
    writer.give("Identity", &[&found], vec![], value);
}

/// A general dot product, as one of matrices.
pub(super) fn matmul(writer: &mut Writer, (value, node): (Value, &Node), spec: &MatmulSpec) {
    let [left, right] = [node.inputs[0], node.inputs[1]];
    let (a_shape, b_shape) = (extents(writer, left), extents(writer, right));
    let batch: (Vec<usize>, Vec<usize>) = spec.batch.iter().copied().unzip();
    let contracted: (Vec<usize>, Vec<usize>) = spec.contracted.iter().copied().unzip();
    let (a_free, b_free) = (spec.lhs_free(a_shape.len()), spec.rhs_free(b_shape.len()));
    let size =
        |shape: &[i64], axes: &[usize]| product(&axes.iter().map(|&axis| shape[axis]).collect::<Vec<_>>());
    let batches: Vec<i64> = batch.0.iter().map(|&axis| a_shape[axis]).collect();
    let [m, k, n] = [size(&a_shape, &a_free), size(&a_shape, &contracted.0), size(&b_shape, &b_free)];
    // `MatMul` rounds a product to the type of its factors.
    let computed = summed(writer.ty(value).dtype);
    let (a, b) = (operand(writer, left, computed, value), operand(writer, right, computed, value));
    let a = permuted(writer, &a, &[batch.0, a_free, contracted.0].concat(), value);
    let b = permuted(writer, &b, &[batch.1, contracted.1, b_free].concat(), value);
    let matrix = |writer: &mut Writer, x: &str, shape: &[i64], rows: i64, columns: i64| {
        let wanted = [&batches[..], &[rows, columns]].concat();
        if shape.len() == wanted.len() { x.to_owned() } else { reshaped(writer, x, &wanted, value) }
    };
    let (a, b) = (matrix(writer, &a, &a_shape, m, k), matrix(writer, &b, &b_shape, k, n));
    let shape = extents(writer, value);
    if shape.len() == batches.len() + 2 {
        return give_in(writer, computed, ("MatMul", &[&a, &b]), vec![], value);
    }
    let product = writer.node("MatMul", &[&a, &b], vec![], value);
    let product = cast(writer, product, [computed, writer.ty(value).dtype], value);
    let shape = writer.ints(&shape);
    writer.give("Reshape", &[&product, &shape], vec![int("allowzero", 1)], value);
}

/// The first k of each row in order, and their indices.
pub(super) fn top(writer: &mut Writer, (id, node): (usize, &Node), k: i64, largest: bool) {
    let [values, indices] = [0, 1].map(|port| Value { node: id, port });
    let dtype = writer.ty(values).dtype;
    let x = operand(writer, node.inputs[0], ordered(dtype), values);
    let k = writer.ints(&[k]);
    let settings = vec![int("axis", -1), int("largest", i64::from(largest)), int("sorted", 1)];
    let [sorted, found] = ["values", "indices"].map(|part| format!("{}.top.{part}", node.name()));
    writer.push("TopK", &[&x, &k], settings, vec![sorted.clone(), found.clone()]);
    let op = if ordered(dtype) == dtype { "Identity" } else { "Cast" };
    let to = vec![int("to", i64::from(number_of(dtype)))];
    writer.give(op, &[&sorted], if op == "Cast" { to } else { vec![] }, values);
    writer.give("Cast", &[&found], vec![int("to", i64::from(number_of(DType::I32)))], indices);
}
