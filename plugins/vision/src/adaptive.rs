//! Pooling to a given extent.

use crate::windows::{LEAD, per_axis, spatial};
use engine_core::ir::{Attrs, Builder, DType, Dim, E, MatmulSpec, Monoid, Scalar, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// Means of windows that divide each spatial axis as evenly as its extent allows: of n elements and m windows, window j
/// has those from ⌊j·n/m⌋ to ⌈(j + 1)·n/m⌉. One window is the mean of the whole axis.
pub fn adaptive_avg_pool() -> OpForm {
    pooling("adaptive_avg_pool", "Takes the means of so many windows that divide each axis.", mean)
        .example(
            "five elements in two windows",
            "adaptive_avg_pool(a, size=2)",
            &[("f32[1, 1, 5]", &[1., 2., 6., 4., 5.])],
            &[("f32[1, 1, 2]", &[3., 5.])],
        )
        .example(
            "a whole image",
            "adaptive_avg_pool(a, size=1)",
            &[("f32[1, 1, 2, 2]", &[1., 2., 3., 6.])],
            &[("f32[1, 1, 1, 1]", &[3.])],
        )
}

/// The largest elements of the windows of [`adaptive_avg_pool`]. Gradients of ties are shared evenly.
pub fn adaptive_max_pool() -> OpForm {
    pooling(
        "adaptive_max_pool",
        "Takes the largest elements of so many windows that divide each axis.",
        largest,
    )
    .example(
        "five elements in three windows",
        "adaptive_max_pool(a, size=3)",
        &[("f32[1, 1, 5]", &[1., 2., 6., 4., 5.])],
        &[("f32[1, 1, 3]", &[2., 6., 5.])],
    )
}

/// One axis of n elements as m windows.
type Pooled = fn(b: &mut Builder, x: Value, axis: usize, [usize; 2]) -> Value;

fn pooling(name: &'static str, summary: &str, pooled: Pooled) -> OpForm {
    OpForm::new(name, summary)
        .input("x", "[N, C, …], one to three spatial axes")
        .attr(AttrSpec::must("size", "windows, a number or one for each axis", AttrKind::Ints))
        .types(move |types, attrs| {
            let (_, counts) = extents(name, &types[0], attrs)?;
            let shape = types[0].shape[..LEAD].iter().cloned().chain(counts.into_iter().map(Dim::Fixed));
            Ok(vec![Type { dtype: types[0].dtype, shape: shape.collect() }])
        })
        .expand(move |b, call| {
            let given = call.inputs[0];
            let (extents, counts) = checked(extents(name, b.ty(given), call.attrs));
            let mut x = b.widen(given);
            for (axis, (&n, &m)) in (LEAD..).zip(extents.iter().zip(&counts)) {
                x = pooled(b, x, axis, [n, m]);
            }
            vec![b.cast(x, b.dtype(given))]
        })
}

fn extents(op: &str, x: &Type, attrs: &Attrs) -> Result<(Vec<usize>, Vec<usize>), TypeIssue> {
    if !x.dtype.is_float() {
        return Err(TypeIssue::new(format!("`{op}` takes floats, not {x}")).at(0, format!("this is {x}")));
    }
    let extents = spatial(op, x, x.rank().saturating_sub(LEAD))?;
    let counts = per_axis(attrs, "size", extents.len(), 1)?;
    if extents.contains(&0) {
        return Err(
            TypeIssue::new(format!("`{op}` of {x}, which has no elements")).at(0, format!("this is {x}"))
        );
    }
    Ok((extents, counts))
}

/// Even windows as an axis of their own.
fn divided(b: &mut Builder, x: Value, axis: usize, [n, m]: [usize; 2]) -> Option<Value> {
    let mut extents = b.extents(x);
    extents.splice(axis..=axis, [m, n / m]);
    (n % m == 0).then(|| b.reshape(x, &extents))
}

/// Uneven windows are gathered with as many elements as the largest one has; those behind a window are -∞.
fn largest(b: &mut Builder, x: Value, axis: usize, [n, m]: [usize; 2]) -> Value {
    if let Some(x) = divided(b, x, axis, [n, m]) {
        return b.reduce(Monoid::Max, x, &[axis + 1]);
    }
    let bounds = |j: usize| (j * n / m, ((j + 1) * n).div_ceil(m));
    let size = (0..m).map(|j| bounds(j).1 - bounds(j).0).max().unwrap_or(1);
    let ty = Type::new(DType::I32, &[m, size]);
    let (window, place) = (b.iota(0, ty.clone()), b.iota(1, ty));
    let (n, m) = (n as i64, m as i64);
    let at = b.map(&[window, place], |v| v[0] * E::from(n) / E::from(m) + v[1]);
    let is_inside = b.map(&[window, at], |v| ((v[1]) * E::from(m)).lt((v[0] + E::from(1)) * E::from(n)));
    let at = b.map(&[at], |v| v[0].min(n - 1));
    let windows = b.gather(x, at, axis, 0);
    let shape = b.ty(windows).shape.clone();
    let is_inside = b.broadcast_axes(is_inside, &[axis, axis + 1], &shape);
    let lowest = b.full_like(windows, f64::NEG_INFINITY);
    let windows = b.scalar(Scalar::Select, &[is_inside, windows, lowest]);
    b.reduce(Monoid::Max, windows, &[axis + 1])
}

/// Even windows are a reshape; others are a product with a matrix of shares.
fn mean(b: &mut Builder, x: Value, axis: usize, [n, m]: [usize; 2]) -> Value {
    let extents = b.extents(x);
    if let Some(x) = divided(b, x, axis, [n, m]) {
        return b.mean(x, &[axis + 1]);
    }
    let ty = Type::new(DType::I32, &[n, m]);
    let (element, window) = (b.iota(0, ty.clone()), b.iota(1, ty));
    let dtype = b.dtype(x);
    let (elements, windows) = (n as i64, m as i64);
    let is_inside = b.map(&[element, window], |v| {
        let is_behind_start = ((v[0] + E::from(1)) * E::from(windows)).gt(v[1] * E::from(elements));
        let is_before_end = (v[0] * E::from(windows)).lt((v[1] + E::from(1)) * E::from(elements));
        (is_behind_start & is_before_end).cast(dtype)
    });
    let count = b.sum(is_inside, &[0]);
    let count = b.broadcast_like(count, is_inside);
    let shares = b.div(is_inside, count);
    let y = b.matmul(x, shares, MatmulSpec::new(vec![], vec![(axis, 0)]));
    let rank = extents.len();
    let order: Vec<usize> = (0..rank)
        .map(|a| match a {
            a if a < axis => a,
            a if a == axis => rank - 1,
            a => a - 1,
        })
        .collect();
    b.permute(y, &order)
}
