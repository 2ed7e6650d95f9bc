//! Running sums, products and extremes.

use crate::axes::{axis, last_axis};
use engine_core::ir::{Attrs, Builder, Combine, DType, E, Literal, Monoid, NodeOp, Type, Value};
use engine_core::op::{Grad, GradCall, Lowering, OpForm, TypeIssue};
use std::f64::consts::LN_2;

/// `y[i] = x[0] + … + x[i]` along an axis; floats accumulate in f32 or wider, integers in their own type. Truth values are
/// counted as `i32`.
pub fn cumsum() -> OpForm {
    running("cumsum", "Adds up along an axis and keeps every intermediate sum.", "sums", Monoid::Sum).example(
        "along rows",
        "cumsum(a)",
        &[("f32[2, 3]", &[1., 2., 3., -1., 0.5, 4.])],
        &[("f32[2, 3]", &[1., 3., 6., -1., -0.5, 3.5])],
    )
}

/// `y[i] = x[0] · … · x[i]` along an axis; floats accumulate in f32 or wider, integers in their own type and wrap around.
/// Truth values count as `i32`. The gradient is exact also at zeros.
pub fn cumprod() -> OpForm {
    running(
        "cumprod",
        "Multiplies along an axis and keeps every intermediate product.",
        "products",
        Monoid::Prod,
    )
    .example(
        "along rows",
        "cumprod(a)",
        &[("f32[2, 3]", &[1., 2., 3., -1., 0.5, 4.])],
        &[("f32[2, 3]", &[1., 2., 6., -1., -0.5, -2.])],
    )
}

fn running(name: &'static str, summary: &str, what: &str, monoid: Monoid) -> OpForm {
    OpForm::new(name, summary)
        .input("x", "the operand")
        .attr(last_axis(&format!("axis along which {what} run")))
        .types(|types, attrs| {
            types[0].axis(attrs.int("axis"))?;
            Ok(vec![types[0].with_dtype(counted(types[0].dtype))])
        })
        .expand(move |b, call| {
            let dtype = counted(b.dtype(call.inputs[0]));
            let x = b.cast(call.inputs[0], dtype);
            let x = b.widen(x);
            let axis = axis(b, x, call.attrs.int("axis"));
            let y = scan(b, monoid, axis, x);
            vec![b.cast(y, dtype)]
        })
}

/// Truth values are counted.
fn counted(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::I32 } else { dtype }
}

fn scan(b: &mut Builder, monoid: Monoid, axis: usize, x: Value) -> Value {
    let ty = b.ty(x).clone();
    b.push(NodeOp::Scan { monoid, axis }, vec![x], ty)
}

/// The largest element so far along an axis, and the index of its last occurrence, `i32`. From the first NaN on it is NaN.
/// The gradient goes to the index.
pub fn cummax() -> OpForm {
    extreme("cummax", "Takes the largest element so far along an axis, and its last index.", Monoid::Max)
        .example(
            "a tie goes to the last",
            "cummax(a)",
            &[("f32[4]", &[1., 3., 2., 3.])],
            &[("f32[4]", &[1., 3., 3., 3.]), ("i32[4]", &[0., 1., 1., 3.])],
        )
}

/// The smallest element so far along an axis, and the index of its last occurrence, `i32`. From the first NaN on it is NaN.
/// The gradient goes to the index.
pub fn cummin() -> OpForm {
    extreme("cummin", "Takes the smallest element so far along an axis, and its last index.", Monoid::Min)
        .example(
            "a tie goes to the last",
            "cummin(a)",
            &[("f32[4]", &[3., 1., 2., 1.])],
            &[("f32[4]", &[3., 1., 1., 1.]), ("i32[4]", &[0., 1., 1., 3.])],
        )
}

fn extreme(name: &'static str, summary: &str, monoid: Monoid) -> OpForm {
    OpForm::new(name, summary)
        .input("x", "the operand")
        .results(&["values", "indices"])
        .attr(last_axis("axis along which extremes run"))
        .types(|types, attrs| {
            types[0].axis(attrs.int("axis"))?;
            Ok(vec![types[0].clone(), types[0].with_dtype(DType::I32)])
        })
        .expand(move |b, call| extremes(b, call, monoid))
        .grad(Grad::rule(to_the_indices))
}

fn extremes(b: &mut Builder, call: &Lowering, monoid: Monoid) -> Vec<Value> {
    let x = call.inputs[0];
    let axis = axis(b, x, call.attrs.int("axis"));
    let values = scan(b, monoid, axis, x);
    let position = b.iota(axis, b.ty(x).with_dtype(DType::I32));
    let is_float = b.dtype(x).is_float();
    let found = b.map(&[x, values, position], |v| {
        let is_extreme = v[0].eq(v[1]);
        let is_found = if is_float { is_extreme | v[0].is_nan() } else { is_extreme };
        E::select(is_found, v[2], 0i64)
    });
    vec![values, scan(b, Monoid::Max, axis, found)]
}

/// Adds each gradient up at its index.
fn to_the_indices(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = call.inputs[0];
    let last = b.ty(x).rank() - 1;
    // Exchanging two axes is its own inverse.
    let mut perm: Vec<usize> = (0..=last).collect();
    perm.swap(axis(b, x, call.attrs.int("axis")), last);
    let wide = b.widen(g);
    let [g, indices] = [wide, call.outputs[1]].map(|y| b.permute(y, &perm));
    let zeros = b.full_like(g, 0.0);
    let sums = b.scatter(zeros, indices, g, last, last, Combine::Add);
    let dx = b.permute(sums, &perm);
    vec![Some(b.cast(dx, b.dtype(x)))]
}

/// `y[i] = ln(exp x[0] + … + exp x[i])` along an axis, without overflow, accumulated in f32 or wider. Of n elements it takes
/// ⌈log₂ n⌉ passes, each of which adds sums that lie twice as far apart. The gradient is `Σ g[i]·exp(x - y[i])` over all
/// later i.
pub fn logcumsumexp() -> OpForm {
    OpForm::new("logcumsumexp", "Computes the logarithm of running sums of exponentials, without overflow.")
        .input("x", "the operand")
        .attr(last_axis("axis along which sums run"))
        .types(|types, attrs| Ok(vec![float_rows(&types[0], attrs)?]))
        .expand(|b, call| {
            let x = b.widen(call.inputs[0]);
            let axis = axis(b, x, call.attrs.int("axis"));
            let y = log_sums(b, x, axis, false);
            vec![b.cast(y, b.dtype(call.inputs[0]))]
        })
        .grad(Grad::rule(from_later_sums))
        .example(
            "of a row",
            "logcumsumexp(a)",
            &[("f32[8]", &[0.5, -1., 2., 1.25, -0.75, 0.25, 3., -2.])],
            &[(
                "f32[8]",
                &[
                    0.5,
                    0.7014132779827524,
                    2.241311296657157,
                    2.556917167794674,
                    2.5928911937456696,
                    2.6846035806834347,
                    3.547832134996241,
                    3.55172045952234,
                ],
            )],
        )
        .example(
            "large numbers do not overflow",
            "logcumsumexp(a)",
            &[("f32[4]", &[1000., 1000., f64::NEG_INFINITY, 1001.])],
            &[("f32[4]", &[1000., 1000.6931471805599, 1000.6931471805599, 1001.551444713932])],
        )
}

fn float_rows(x: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    x.expect_dtype("logcumsumexp", 0, DType::is_float, "floats")?;
    x.axis(attrs.int("axis"))?;
    Ok(x.clone())
}

/// Running log-sums of exponentials, from the end if `backwards`.
fn log_sums(b: &mut Builder, x: Value, axis: usize, backwards: bool) -> Value {
    let extents = b.extents(x);
    let (mut y, mut reach) = (x, 1);
    while reach < extents[axis] {
        let (mut count, mut start) = (extents.clone(), vec![0; extents.len()]);
        let (mut low, mut high) = (start.clone(), start.clone());
        count[axis] -= reach;
        if backwards {
            (start[axis], high[axis]) = (reach, reach);
        } else {
            low[axis] = reach;
        }
        let moved = b.slice(y, &start, &count, &vec![1; extents.len()]);
        let moved = b.pad(moved, &low, &high, Literal::Float(f64::NEG_INFINITY));
        y = b.map(&[y, moved], |v| log_sum(v[0], v[1]));
        reach *= 2;
    }
    y
}

/// ln(exp a + exp b). Equal operands are apart, since the difference of equal infinities is NaN.
fn log_sum(a: E, b: E) -> E {
    E::select(a.eq(b), a + LN_2, a.max(b) + (-(a - b).abs()).exp().log1p())
}

/// Positive and negative gradients are summed apart, as logarithms, so that no exponential overflows.
fn from_later_sums(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let [x, y, g] = [call.inputs[0], call.outputs[0], g].map(|value| b.widen(value));
    let axis = axis(b, x, call.attrs.int("axis"));
    let [rising, falling] = [1.0, -1.0].map(|sign| {
        let logs = b.map(&[g, y], |v| {
            let size = v[0] * sign;
            let counts = size.gt(0.0) & v[1].gt(f64::NEG_INFINITY);
            E::select(counts, size.log() - v[1], f64::NEG_INFINITY)
        });
        log_sums(b, logs, axis, true)
    });
    let dx = b.map(&[x, rising, falling], |v| (v[0] + v[1]).exp() - (v[0] + v[2]).exp());
    vec![Some(b.cast(dx, b.dtype(call.inputs[0])))]
}
