//! `unique`.

use super::capacity::{cap, capacity, expect_countable};
use super::compacted::Compacted;
use crate::axis::called;
use engine_core::ir::{Attrs, Builder, DType, E, Literal, Type, Value};
use engine_core::op::{Lowering, OpForm};

/// The distinct elements in ascending order, `[cap]`; the place of each element's value, of the shape of `x`; how often each
/// value occurs, `i32[cap]`; and the number of values. Values and counts behind the end are 0. -0 equals 0, the first of
/// them is shown, and NaN is one value behind all numbers. More than `cap` values are an error (E0612).
pub fn unique() -> OpForm {
    OpForm::new("unique", "Lists distinct elements in ascending order, with their counts.")
        .input("x", "numbers of any shape, less than 2³¹ of them")
        .results(&["values", "inverse", "counts", "count"])
        .attr(cap("the most values"))
        .types(|types, attrs| {
            let x = &types[0];
            x.expect_dtype("unique", 0, |dtype| dtype != DType::Bool, "numbers")?;
            expect_countable("unique", x)?;
            let values = Type::new(x.dtype, &[capacity("unique", attrs, 1)?]);
            let counts = values.with_dtype(DType::I32);
            Ok(vec![values, x.with_dtype(DType::I32), counts, Type::scalar(DType::I32)])
        })
        .expand(expansion)
        .no_grad("the places of values are piecewise constant")
        .example(
            "two of three values are equal",
            "unique(a, cap=4)",
            &[("f32[3]", &[2., -1., 2.])],
            &[
                ("f32[4]", &[-1., 2., 0., 0.]),
                ("i32[3]", &[1., 0., 1.]),
                ("i32[4]", &[1., 2., 0., 0.]),
                ("i32[]", &[2.]),
            ],
        )
}

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let (x, cap) = (call.inputs[0], call.attrs.int("cap") as usize);
    let (extents, n) = (b.extents(x), b.ty(x).numel());
    if n == 0 {
        let none = b.full(Literal::Int(0).cast(b.dtype(x)), Type::new(b.dtype(x), &[cap]));
        let [inverse, counts, count] = [&extents[..], &[cap], &[]]
            .map(|extents| b.full(Literal::Int(0), Type::new(DType::I32, extents)));
        return vec![none, inverse, counts, count];
    }
    let row = b.reshape(x, &[1, n]);
    let sorted = called(b, "sort_rows", &[row], Attrs::default())[0];
    let sorted = b.reshape(sorted, &[n]);
    let flags = firsts(b, sorted);
    let flat = b.reshape(x, &[n]);
    let place = called(b, "searchsorted", &[sorted, flat], Attrs::default().with("right", false.into()))[0];
    // The first of equal elements is flagged, so its value has the number of flags before it.
    let found = Compacted::new(b, flags, place, cap);
    let inverse = found.lims;
    let values = found.taken(b, sorted);
    let counts = lengths(b, &found, n);
    vec![values, b.reshape(inverse, &extents), counts, found.count]
}

/// Whether each element of an ascending row differs from the one before it.
fn firsts(b: &mut Builder, sorted: Value) -> Value {
    let n = b.extents(sorted)[0];
    let is_float = b.dtype(sorted).is_float();
    let before = b.slice(sorted, &[0], &[n - 1], &[1]);
    let before = b.pad(before, &[1], &[0], Literal::Int(0));
    let number = b.iota(0, Type::new(DType::I32, &[n]));
    b.map(&[number, sorted, before], |v| {
        let is_equal = v[1].eq(v[2]);
        let is_equal = if is_float { is_equal | (v[1].is_nan() & v[2].is_nan()) } else { is_equal };
        E::select(v[0].eq(0.0), true, E::select(is_equal, false, true))
    })
}

/// The distance of each position from the next one, or from n; 0 behind the end.
fn lengths(b: &mut Builder, found: &Compacted, n: usize) -> Value {
    let cap = b.extents(found.positions)[0];
    let next = b.slice(found.positions, &[1], &[cap - 1], &[1]);
    let next = b.pad(next, &[0], &[1], Literal::Int(0));
    let number = b.iota(0, Type::new(DType::I32, &[cap]));
    b.map(&[number, found.count, found.positions, next], |v| {
        let end = E::select((v[0] + 1.0).lt(v[1]), v[3], n as f64);
        E::select(v[0].lt(v[1]), end - v[2], 0.0)
    })
}
