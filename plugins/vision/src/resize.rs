//! `resize`.

use crate::windows::{LEAD, per_axis, spatial};
use engine_core::ir::{Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// Spatial axes with other extents. The element at j of m lies at (j + ½)·n/m - ½ among n, or at j·(n - 1)/(m - 1) with
/// `corners`. `nearest` takes element ⌊j·n/m⌋; `linear` weighs the two neighbours along each axis.
pub fn resize() -> OpForm {
    OpForm::new("resize", "Samples an image at another size.")
        .input("x", "[N, C, …], one to three spatial axes")
        .attr(AttrSpec::must("size", "the extents, a number or one for each axis", AttrKind::Ints))
        .attr(AttrSpec::choice("mode", "how elements are sampled", &["nearest", "linear"]))
        .attr(AttrSpec::flag("corners", "whether the first and last elements stay, with `linear`", false))
        .types(|types, attrs| {
            let (_, sizes) = extents(&types[0], attrs)?;
            let shape = types[0].shape[..LEAD].iter().cloned().chain(sizes.into_iter().map(Dim::Fixed));
            Ok(vec![Type { dtype: types[0].dtype, shape: shape.collect() }])
        })
        .expand(|b, call| {
            let given = call.inputs[0];
            let (extents, sizes) = checked(extents(b.ty(given), call.attrs));
            let axes = (LEAD..).zip(extents.into_iter().zip(sizes)).filter(|(_, (n, m))| n != m);
            if call.attrs.str("mode") == "nearest" {
                return vec![axes.fold(given, |x, (axis, (n, m))| nearest(b, x, axis, [n, m]))];
            }
            let corners = call.attrs.bool("corners");
            let x = b.widen(given);
            let y = axes.fold(x, |x, (axis, (n, m))| linear(b, x, axis, [n, m], corners));
            vec![b.cast(y, b.dtype(given))]
        })
        .example(
            "nearest",
            "resize(a, size=[2, 4])",
            &[("f32[1, 1, 1, 2]", &[1., 2.])],
            &[("f32[1, 1, 2, 4]", &[1., 1., 2., 2., 1., 1., 2., 2.])],
        )
        .example(
            "linear",
            "resize(a, size=4, mode=\"linear\")",
            &[("f32[1, 1, 2]", &[1., 2.])],
            &[("f32[1, 1, 4]", &[1., 1.25, 1.75, 2.])],
        )
        .example(
            "linear between the corners",
            "resize(a, size=4, mode=\"linear\", corners=true)",
            &[("f32[1, 1, 2]", &[1., 4.])],
            &[("f32[1, 1, 4]", &[1., 2., 3., 4.])],
        )
}

fn extents(x: &Type, attrs: &Attrs) -> Result<(Vec<usize>, Vec<usize>), TypeIssue> {
    let extents = spatial("resize", x, x.rank().saturating_sub(LEAD))?;
    let sizes = per_axis(attrs, "size", extents.len(), 1)?;
    let fault = |message: String| TypeIssue::new(message).at(0, format!("this is {x}"));
    if attrs.str("mode") == "linear" && !x.dtype.is_float() {
        return Err(fault(format!("`resize` with `linear` takes floats, not {x}")));
    }
    if extents.contains(&0) {
        return Err(fault(format!("{x} has nothing to sample")));
    }
    Ok((extents, sizes))
}

/// The integers that hold places among n elements in parts of 2·m.
fn wide([n, m]: [usize; 2]) -> DType {
    let largest = n.saturating_mul(m).saturating_mul(2).saturating_add(n);
    if i32::try_from(largest).is_ok() { DType::I32 } else { DType::I64 }
}

fn nearest(b: &mut Builder, x: Value, axis: usize, [n, m]: [usize; 2]) -> Value {
    let position = b.iota(0, Type::new(DType::I32, &[m]));
    let picked = b.map(&[position], |v| {
        let product = v[0].cast(wide([n, m])) * E::from(n as i64);
        (product / E::from(m as i64)).cast(DType::I32)
    });
    b.gather(x, picked, axis, 0)
}

fn linear(b: &mut Builder, x: Value, axis: usize, [n, m]: [usize; 2], corners: bool) -> Value {
    let (dtype, wide) = (b.dtype(x), wide([n, m]));
    let position = b.iota(0, Type::new(DType::I32, &[m]));
    let (n, m) = (n as i64, m as i64);
    // Places are fractions of this denominator, so that shares are exact up to one rounding.
    let parts = if corners { (m - 1).max(1) } else { 2 * m };
    let place = b.map(&[position], |v| {
        let j = v[0].cast(wide);
        let place = match corners {
            true => j * E::from(n - 1),
            false => (j * E::from(2) + E::from(1)) * E::from(n) - E::from(m),
        };
        place.max(0_i64).min((n - 1) * parts)
    });
    let left = b.map(&[place], |v| (v[0] / E::from(parts)).cast(DType::I32));
    let right = b.map(&[left], |v| (v[0] + E::from(1)).min(n - 1));
    let share = b.map(&[place], |v| (v[0] % E::from(parts)).cast(dtype) / parts as f64);
    let (first, second) = (b.gather(x, left, axis, 0), b.gather(x, right, axis, 0));
    let shape = b.ty(first).shape.clone();
    let share = b.broadcast_axes(share, &[axis], &shape);
    b.map(&[first, second, share], |v| v[0] + (v[1] - v[0]) * v[2])
}
