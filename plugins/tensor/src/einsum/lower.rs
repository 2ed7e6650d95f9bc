//! An einsum as transposes, sums, products and matmuls.

use super::equation::{Equation, Label};
use super::order::{Tree, best, set};
use engine_core::ir::{Builder, Dim, MatmulSpec, Value};

/// A value with the label of each axis. No label stands twice.
#[derive(Clone)]
struct Factor {
    value: Value,
    labels: Vec<Label>,
}

/// The value of an equation, whose extents are all known.
pub fn product(b: &mut Builder, inputs: &[Value], equation: &Equation) -> Value {
    let extents: Vec<usize> = equation.extents.iter().filter_map(Dim::fixed).collect();
    let dtype = b.dtype(inputs[0]);
    let operands = inputs.iter().zip(&equation.operands);
    let mut factors: Vec<Factor> = operands.map(|(&x, labels)| distinct(b, x, labels, &extents)).collect();
    for i in 0..factors.len() {
        let others = factors.iter().enumerate().filter(|(other, _)| *other != i);
        let needed: Vec<Label> = others.flat_map(|(_, factor)| factor.labels.clone()).collect();
        factors[i] =
            summed(b, &factors[i], |label| needed.contains(&label) || equation.output.contains(&label));
    }
    let labels: Vec<_> = factors.iter().map(|factor| set(&factor.labels)).collect();
    let tree = best(&labels, set(&equation.output), &extents);
    let whole = evaluate(b, &tree, &factors, &equation.output);
    let order = equation.output.iter().map(|label| place(&whole, *label));
    let perm: Vec<usize> = order.collect();
    let y = b.permute(whole.value, &perm);
    b.cast(y, dtype)
}

/// The axis of a label.
fn place(factor: &Factor, label: Label) -> usize {
    factor
        .labels
        .iter()
        .position(|known| *known == label)
        .unwrap_or_else(|| engine_core::bug!("a label is lost"))
}

/// The operand without axes that only repeat. Of axes with one label, the diagonal is taken.
fn distinct(b: &mut Builder, x: Value, labels: &[Label], extents: &[usize]) -> Factor {
    let own = b.extents(x);
    let repeats = |axis: &usize| own[*axis] == 1 && extents[labels[*axis]] != 1;
    let kept: Vec<usize> = (0..own.len()).filter(|axis| !repeats(axis)).collect();
    let shape: Vec<usize> = kept.iter().map(|&axis| own[axis]).collect();
    let value = b.reshape(x, &shape);
    let mut factor = Factor { value, labels: kept.into_iter().map(|axis| labels[axis]).collect() };
    while let Some((first, second)) = twice(&factor.labels) {
        factor = diagonal(b, &factor, first, second);
    }
    factor
}

/// Two axes of one label.
fn twice(labels: &[Label]) -> Option<(usize, usize)> {
    let second = |first: usize| labels[first + 1..].iter().position(|label| *label == labels[first]);
    (0..labels.len()).find_map(|first| Some((first, first + 1 + second(first)?)))
}

/// The diagonal of two axes of one extent, as the last axis.
fn diagonal(b: &mut Builder, factor: &Factor, first: usize, second: usize) -> Factor {
    let rank = factor.labels.len();
    let mut perm: Vec<usize> = (0..rank).filter(|&axis| axis != first && axis != second).collect();
    let mut labels: Vec<Label> = perm.iter().map(|&axis| factor.labels[axis]).collect();
    labels.push(factor.labels[first]);
    perm.extend([first, second]);
    let moved = b.permute(factor.value, &perm);
    let mut extents = b.extents(moved);
    let n = extents[rank - 1];
    extents.truncate(rank - 2);
    extents.push(n * n);
    let flat = b.reshape(moved, &extents);
    extents[rank - 2] = n;
    let mut step = vec![1; rank - 1];
    step[rank - 2] = if n < 2 { 1 } else { n as i64 + 1 };
    Factor { value: b.slice(flat, &vec![0; rank - 1], &extents, &step), labels }
}

/// The factor with all axes summed whose label is not needed.
fn summed(b: &mut Builder, factor: &Factor, is_needed: impl Fn(Label) -> bool) -> Factor {
    let axes: Vec<usize> = (0..factor.labels.len()).filter(|&axis| !is_needed(factor.labels[axis])).collect();
    let labels = factor.labels.iter().copied().filter(|&label| is_needed(label)).collect();
    let value = if axes.is_empty() { factor.value } else { b.widen(factor.value) };
    let sum = b.sum(value, &axes);
    Factor { value: b.cast(sum, b.dtype(factor.value)), labels }
}

fn evaluate(b: &mut Builder, tree: &Tree, factors: &[Factor], output: &[Label]) -> Factor {
    fn operands(tree: &Tree) -> Vec<usize> {
        match tree {
            Tree::Operand(i) => vec![*i],
            Tree::Pair(left, right) => [operands(left), operands(right)].concat(),
        }
    }
    let Tree::Pair(left, right) = tree else { return factors[operands(tree)[0]].clone() };
    let inside = operands(tree);
    let outside = (0..factors.len()).filter(|i| !inside.contains(i));
    let needed: Vec<Label> = outside.flat_map(|i| factors[i].labels.clone()).chain(output.to_vec()).collect();
    let [left, right] = [left, right].map(|side| evaluate(b, side, factors, output));
    multiplied(b, &left, &right, &needed)
}

/// The product of two factors, summed over their common labels that are not needed. Without a sum, or without axes that only
/// one of them has, it is no matmul but a product by element.
fn multiplied(b: &mut Builder, left: &Factor, right: &Factor, needed: &[Label]) -> Factor {
    let shared = |label: &&Label| right.labels.contains(label);
    let (common, own): (Vec<Label>, Vec<Label>) =
        (left.labels.iter().filter(shared).copied().collect(), without(&left.labels, &right.labels));
    let (batch, contracted): (Vec<Label>, Vec<Label>) =
        common.iter().partition(|label| needed.contains(label));
    let others = without(&right.labels, &left.labels);
    if contracted.is_empty() || own.is_empty() && others.is_empty() {
        return by_element(
            b,
            left,
            right,
            [&batch[..], &own, &others, &contracted].concat(),
            contracted.len(),
        );
    }
    let pairs =
        |labels: &[Label]| labels.iter().map(|&label| (place(left, label), place(right, label))).collect();
    let mut batch_axes: Vec<(usize, usize)> = pairs(&batch);
    batch_axes.sort_unstable();
    let spec = MatmulSpec::new(batch_axes, pairs(&contracted));
    let value = b.matmul(left.value, right.value, spec);
    Factor { value, labels: [batch, own, others].concat() }
}

/// The labels that are not among others.
fn without(labels: &[Label], others: &[Label]) -> Vec<Label> {
    labels.iter().copied().filter(|label| !others.contains(label)).collect()
}

/// The product over all these labels, of which the last `n_summed` are summed.
fn by_element(b: &mut Builder, left: &Factor, right: &Factor, labels: Vec<Label>, n_summed: usize) -> Factor {
    let extent = |label: &Label| {
        let side = if left.labels.contains(label) { left } else { right };
        b.ty(side.value).shape[place(side, *label)].clone()
    };
    let shape: Vec<Dim> = labels.iter().map(extent).collect();
    let [x, y] = [left, right].map(|factor| {
        let mut perm: Vec<usize> = (0..factor.labels.len()).collect();
        perm.sort_by_key(|&axis| labels.iter().position(|label| *label == factor.labels[axis]));
        let places = |axis: &usize| labels.iter().position(|label| *label == factor.labels[*axis]);
        let axes: Vec<usize> = perm.iter().filter_map(places).collect();
        let moved = b.permute(factor.value, &perm);
        let wide = b.widen(moved);
        b.broadcast_axes(wide, &axes, &shape)
    });
    let points = b.mul(x, y);
    let kept = labels.len() - n_summed;
    let summed: Vec<usize> = (kept..labels.len()).collect();
    let sum = b.sum(points, &summed);
    Factor { value: b.cast(sum, b.dtype(left.value)), labels: labels[..kept].to_vec() }
}
