//! Elements by their place in the order of a row: `kthvalue`, `median`, `quantile`.

use crate::axis::{along_axis, axis_attr, expect_rows, operand};
use crate::topk_rows;
use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Scalar, Type, Unary, Value};
use engine_core::op::{AttrKind, AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// The k-th smallest element along an axis, with its index. NaN counts as largest. The gradient goes to that element.
pub fn kthvalue() -> OpForm {
    OpForm::new("kthvalue", "Takes the k-th smallest element along an axis, and its index.")
        .inputs(operand())
        .results(&["values", "indices"])
        .attrs([AttrSpec::must("k", "which one, counted from 1", AttrKind::Int), axis_attr(), keepdim()])
        .types(|types, attrs| {
            expect_rows("kthvalue", &types[0])?;
            let axis = types[0].axis(attrs.int("axis"))?;
            let row = attrs.clone().with("pad", Attr::from(false));
            topk_rows::types("kthvalue", &types[0], axis, &row)?;
            let values = without(&types[0], &[axis], attrs);
            Ok(vec![values.clone(), values.with_dtype(DType::I32)])
        })
        .expand(|b, call| {
            let (x, k) = (call.inputs[0], call.attrs.int("k"));
            let smallest = Attrs::default().with("k", Attr::from(k)).with("largest", Attr::from(false));
            let found = along_axis(b, x, call.attrs.int("axis"), |b, x| {
                let all = checked(b.call("topk_rows", &[x], smallest));
                all.into_iter().map(|y| place(b, y, k as usize - 1)).collect()
            });
            let axis = checked(b.ty(x).axis(call.attrs.int("axis")));
            shaped(b, found, x, &[axis], call.attrs)
        })
        .example(
            "the second smallest of each row",
            "kthvalue(a, k=2)",
            &[("f32[2, 3]", &[3., 1., 2., -1., 5., 0.])],
            &[("f32[2]", &[2., 0.]), ("i32[2]", &[2., 2.])],
        )
}

/// The middle element along an axis, with its index. Of an even number it is the lower of both. It is NaN if an element is
/// NaN. The gradient goes to that element.
pub fn median() -> OpForm {
    OpForm::new("median", "Takes the middle element along an axis, and its index.")
        .inputs(operand())
        .results(&["values", "indices"])
        .attrs([open_axis(), keepdim()])
        .types(|types, attrs| {
            let values = without(&types[0], &some_axes("median", &types[0], attrs)?, attrs);
            Ok(vec![values.clone(), values.with_dtype(DType::I32)])
        })
        .expand(|b, call| {
            along(b, call, |b, x| {
                let (n, is_float) = (row_length(b, x), b.dtype(x).is_float());
                let [values, indices] = sorted(b, x);
                let [middle, number] = [values, indices].map(|y| place(b, y, (n - 1) / 2));
                if !is_float {
                    return vec![middle, number];
                }
                let [last, last_number] = [values, indices].map(|y| place(b, y, n - 1));
                let is_nan = b.unary(Unary::IsNan, last);
                [(last, middle), (last_number, number)]
                    .map(|(last, y)| b.scalar(Scalar::Select, &[is_nan, last, y]))
                    .to_vec()
            })
        })
        .example(
            "the lower of two in the middle",
            "median(a, axis=1)",
            &[("f32[2, 4]", &[3., 1., 2., 7., -1., 5., 0., 4.])],
            &[("f32[2]", &[2., 0.]), ("i32[2]", &[2., 2.])],
        )
        .example(
            "NaN wins",
            "median(a)",
            &[("f32[3]", &[3., f64::NAN, 2.])],
            &[("f32[]", &[f64::NAN]), ("i32[]", &[1.])],
        )
}

/// The number below which the share `q` of the elements along an axis lies. Its place is `q·(n - 1)` among n sorted elements.
/// Between two places, `interpolation` decides: `linear` weighs both, `midpoint` takes their mean, and `nearest` rounds
/// halves to the even place. It is NaN if an element is NaN. The gradient goes to the elements, by their weights.
pub fn quantile() -> OpForm {
    let words = ["linear", "lower", "higher", "midpoint", "nearest"];
    OpForm::new("quantile", "Takes the number below which a share of the elements along an axis lies.")
        .input("x", "floats")
        .attr(AttrSpec::must("q", "the share", AttrKind::Float).between(0.0, 1.0))
        .attrs([open_axis(), keepdim()])
        .attr(AttrSpec::choice("interpolation", "the number between two places", &words))
        .types(|types, attrs| {
            types[0].expect_dtype("quantile", 0, DType::is_float, "floats")?;
            Ok(vec![without(&types[0], &some_axes("quantile", &types[0], attrs)?, attrs)])
        })
        .expand(|b, call| {
            let (q, interpolation) = (call.attrs.float("q"), call.attrs.str("interpolation"));
            along(b, call, |b, x| {
                let n = row_length(b, x);
                let (lower, weight) = split(q * (n - 1) as f64, interpolation);
                let [values, _] = sorted(b, x);
                let ends = [lower, (lower + 1).min(n - 1), n - 1].map(|at| place(b, values, at));
                vec![b.map(&ends, |v| E::select(v[2].is_nan(), v[2], between(v[0], v[1], weight)))]
            })
        })
        .example(
            "a quarter of five, and between two places",
            "quantile(a, q=0.3, axis=1)",
            &[("f32[2, 5]", &[3., 1., 2., 7., 5., 0., 10., 20., 30., 40.])],
            &[("f32[2]", &[2.2, 12.])],
        )
        .example(
            "the upper of both",
            "quantile(a, q=0.3, interpolation=\"higher\")",
            &[("f32[5]", &[3., 1., 2., 7., 5.])],
            &[("f32[]", &[3.])],
        )
}

/// The place below a position, and the weight of the place above.
fn split(position: f64, interpolation: &str) -> (usize, f64) {
    let position = match interpolation {
        "lower" => position.floor(),
        "higher" => position.ceil(),
        "nearest" => position.round_ties_even(),
        _ => position,
    };
    let rest = position.fract();
    (position as usize, if interpolation == "midpoint" && rest > 0.0 { 0.5 } else { rest })
}

/// As `lerp`, exact at both ends.
fn between(low: E, high: E, weight: f64) -> E {
    match weight {
        0.0 => low,
        weight if weight < 0.5 => low + (high - low) * weight,
        weight => high - (high - low) * (1.0 - weight),
    }
}

fn keepdim() -> AttrSpec {
    AttrSpec::flag("keepdim", "whether the axis stays, with extent 1", false)
}

fn open_axis() -> AttrSpec {
    AttrSpec::open(
        "axis",
        "the axis, negative from the end; none for all elements in row-major order",
        AttrKind::Int,
    )
}

/// The axes of a call: one, or all. They have elements.
fn some_axes(op: &str, x: &Type, attrs: &Attrs) -> Result<Vec<usize>, TypeIssue> {
    let axes = match attrs.opt_int("axis") {
        Some(axis) => vec![x.axis(axis)?],
        None => (0..x.rank()).collect(),
    };
    match axes.iter().any(|&axis| x.shape[axis] == Dim::Fixed(0)) {
        true => {
            Err(TypeIssue::new(format!("`{op}` of no elements has no value")).at(0, format!("this is {x}")))
        }
        false => Ok(axes),
    }
}

/// The type without these axes, or with the extent 1 there.
fn without(x: &Type, axes: &[usize], attrs: &Attrs) -> Type {
    let kept = |axis: usize| match axes.contains(&axis) {
        true => attrs.bool("keepdim").then_some(Dim::Fixed(1)),
        false => Some(x.shape[axis].clone()),
    };
    Type { dtype: x.dtype, shape: (0..x.rank()).filter_map(kept).collect() }
}

/// Results of rows, without the row's axis or with the extent 1 there.
fn shaped(b: &mut Builder, found: Vec<Value>, x: Value, axes: &[usize], attrs: &Attrs) -> Vec<Value> {
    let extents = without(b.ty(x), axes, attrs).extents();
    found.into_iter().map(|y| b.reshape(y, &extents)).collect()
}

/// Applies `rows`, which makes one element of each row, along the axis of a call, or to all elements.
fn along(
    b: &mut Builder,
    call: &Lowering,
    rows: impl FnOnce(&mut Builder, Value) -> Vec<Value>,
) -> Vec<Value> {
    let x = call.inputs[0];
    let axes = checked(some_axes("", b.ty(x), call.attrs));
    let found = match call.attrs.opt_int("axis") {
        Some(axis) => along_axis(b, x, axis, rows),
        None => {
            let n_elements = b.ty(x).numel();
            let row = b.reshape(x, &[n_elements]);
            rows(b, row)
        }
    };
    shaped(b, found, x, &axes, call.attrs)
}

fn row_length(b: &Builder, x: Value) -> usize {
    b.extents(x).last().copied().unwrap_or(1)
}

fn sorted(b: &mut Builder, x: Value) -> [Value; 2] {
    let both = checked(b.call("sort_rows", &[x], Attrs::default()));
    [both[0], both[1]]
}

/// One place of each row, as an axis of extent 1.
fn place(b: &mut Builder, rows: Value, at: usize) -> Value {
    let mut count = b.extents(rows);
    let last = count.len() - 1;
    let mut start = vec![0; count.len()];
    (start[last], count[last]) = (at, 1);
    b.slice(rows, &start, &count, &vec![1; start.len()])
}
