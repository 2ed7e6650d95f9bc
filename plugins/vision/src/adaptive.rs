//! Pooling to a given extent.

use crate::windows::{LEAD, per_axis, spatial};
use engine_core::ir::{Attrs, Builder, Contract, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// Means of windows that divide each spatial axis as evenly as its extent allows: of n elements and m windows, window j
/// has those from ⌊j·n/m⌋ to ⌈(j + 1)·n/m⌉. One window is the mean of the whole axis.
pub fn adaptive_avg_pool() -> OpForm {
    OpForm::new("adaptive_avg_pool", "Takes the means of so many windows that divide each axis.")
        .input("x", "[N, C, …], one to three spatial axes")
        .attr(AttrSpec::must("size", "windows, a number or one for each axis", AttrKind::Ints))
        .types(|types, attrs| {
            let (_, counts) = extents(&types[0], attrs)?;
            let shape = types[0].shape[..LEAD].iter().cloned().chain(counts.into_iter().map(Dim::Fixed));
            Ok(vec![Type { dtype: types[0].dtype, shape: shape.collect() }])
        })
        .expand(|b, call| {
            let given = call.inputs[0];
            let (extents, counts) = checked(extents(b.ty(given), call.attrs));
            let mut x = b.widen(given);
            for (axis, (&n, &m)) in (LEAD..).zip(extents.iter().zip(&counts)) {
                x = pooled(b, x, axis, [n, m]);
            }
            vec![b.cast(x, b.dtype(given))]
        })
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

fn extents(x: &Type, attrs: &Attrs) -> Result<(Vec<usize>, Vec<usize>), TypeIssue> {
    let op = "adaptive_avg_pool";
    if !x.dtype.is_float() {
        return Err(TypeIssue::new(format!("`{op}` takes floats, not {x}")).at(0, format!("this is {x}")));
    }
    let extents = spatial(op, x, x.rank().saturating_sub(LEAD))?;
    let counts = per_axis(attrs, "size", extents.len(), 1)?;
    if extents.contains(&0) {
        return Err(
            TypeIssue::new(format!("{x} has nothing to take the mean of")).at(0, format!("this is {x}"))
        );
    }
    Ok((extents, counts))
}

/// One axis of n elements as m means. Even windows are a reshape; others are a product with a matrix of shares.
fn pooled(b: &mut Builder, x: Value, axis: usize, [n, m]: [usize; 2]) -> Value {
    let mut extents = b.extents(x);
    if n % m == 0 {
        extents.splice(axis..=axis, [m, n / m]);
        let x = b.reshape(x, &extents);
        return b.mean(x, &[axis + 1]);
    }
    let ty = Type::new(engine_core::ir::DType::I32, &[n, m]);
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
    let y = b.contract(x, shares, Contract { batch: vec![], contracted: vec![(axis, 0)] });
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
