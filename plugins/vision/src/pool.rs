//! Pooling.

use crate::windows::{LEAD, Windows, places, settings, spatial, unfolded, windows};
use engine_core::ir::{Attr, Attrs, Builder, Dim, Monoid, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// The largest element of each window. Padding is never the largest. Gradients of ties are shared evenly.
pub fn max_pool() -> OpForm {
    pooling("max_pool", "Takes the largest element of each window.")
        .expand(|b, call| {
            let windows = checked(fitting("max_pool", b.ty(call.inputs[0]), call.attrs));
            let x = unfolded(b, call.inputs[0], &windows, f64::NEG_INFINITY);
            let (x, places) = by_place(b, x, LEAD, windows.len());
            vec![b.reduce(Monoid::Max, x, &places)]
        })
        .example(
            "an image in windows of 2",
            "max_pool(a, size=2)",
            &[("f32[1, 1, 2, 4]", &[1., 5., 3., 3.5, 4., 2., -1., 0.])],
            &[("f32[1, 1, 1, 2]", &[5., 3.5])],
        )
        .example(
            "overlapping windows with a border",
            "max_pool(a, size=3, stride=2, padding=1)",
            &[("f32[1, 1, 4]", &[-1., -2., -3., -4.])],
            &[("f32[1, 1, 2]", &[-1., -2.])],
        )
}

/// The mean of each window. Zeros of the padding count as elements unless `count_padding` is false.
pub fn avg_pool() -> OpForm {
    pooling("avg_pool", "Takes the mean of each window.")
        .attr(AttrSpec::flag("count_padding", "whether zeros of the padding count as elements", true))
        .expand(|b, call| {
            let given = call.inputs[0];
            let windows = checked(fitting("avg_pool", b.ty(given), call.attrs));
            let x = b.widen(given);
            let sums = sums(b, x, &windows, LEAD);
            let counts = match call.attrs.bool("count_padding") {
                true => {
                    b.full_like(sums, windows.iter().map(|windows| windows.size).product::<usize>() as f64)
                }
                false => counts(b, sums, &windows),
            };
            let y = b.div(sums, counts);
            vec![b.cast(y, b.dtype(given))]
        })
        .example(
            "a signal in windows of 2",
            "avg_pool(a, size=2)",
            &[("f32[1, 1, 5]", &[1., 5., 3., 4., 9.])],
            &[("f32[1, 1, 2]", &[3., 3.5])],
        )
        .example(
            "with a border that does not count",
            "avg_pool(a, size=2, padding=1, count_padding=false)",
            &[("f32[1, 1, 2, 2]", &[1., 2., 3., 4.])],
            &[("f32[1, 1, 2, 2]", &[1., 2., 3., 4.])],
        )
}

fn pooling(name: &'static str, summary: &str) -> OpForm {
    let size = "elements of a window, a number or one for each axis";
    let [stride, padding, dilation] = settings();
    let stride =
        AttrSpec { default: Some(Attr::None), doc: format!("{}; by default `size`", stride.doc), ..stride };
    OpForm::new(name, summary)
        .input("x", "[N, C, …], one to three spatial axes")
        .attr(AttrSpec::must("size", size, AttrKind::Ints))
        .attrs([stride, padding, dilation])
        .types(move |types, attrs| {
            let x = &types[0];
            let windows = fitting(name, x, attrs)?;
            let lead = x.shape[..LEAD].iter().cloned();
            let shape = lead.chain(windows.iter().map(|windows| Dim::Fixed(windows.count()))).collect();
            Ok(vec![Type { dtype: x.dtype, shape }])
        })
}

fn fitting(op: &str, x: &Type, attrs: &Attrs) -> Result<Vec<Windows>, TypeIssue> {
    if !x.dtype.is_float() {
        return Err(TypeIssue::new(format!("`{op}` takes floats, not {x}")).at(0, format!("this is {x}")));
    }
    let n = x.rank().saturating_sub(LEAD);
    spatial(op, x, n)?;
    let sizes = crate::windows::per_axis(attrs, "size", n, 1)?;
    let attrs = match attrs.get("stride") {
        Attr::None => attrs.clone().with("stride", attrs.get("size").clone()),
        _ => attrs.clone(),
    };
    windows(op, x, &sizes, &attrs)
}

fn sums(b: &mut Builder, x: Value, windows: &[Windows], lead: usize) -> Value {
    let x = unfolded(b, x, windows, 0.0);
    let (x, places) = by_place(b, x, lead, windows.len());
    b.sum(x, &places)
}

/// Windows `[…, windows, size, windows, size]` as `[…, size, size, windows, windows]`, and the axes of the sizes. The
/// places of a window are few, so the reduction runs over long rows of windows, place by place.
fn by_place(b: &mut Builder, x: Value, lead: usize, n: usize) -> (Value, Vec<usize>) {
    let counts = (0..n).map(|i| lead + 2 * i);
    let perm: Vec<usize> = (0..lead).chain(places(lead, n)).chain(counts).collect();
    (b.permute(x, &perm), (lead..lead + n).collect())
}

/// How many elements each window has without padding, in the shape of `like`.
fn counts(b: &mut Builder, like: Value, windows: &[Windows]) -> Value {
    let extents: Vec<usize> = windows.iter().map(|windows| windows.extent).collect();
    let ones = b.full(engine_core::ir::Literal::Float(1.0), Type::new(b.dtype(like), &extents));
    let counts = sums(b, ones, windows, 0);
    b.broadcast_like(counts, like)
}
