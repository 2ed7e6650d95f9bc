//! `any` and `all`.

use crate::axes::{axes, keep, over_axes, reduced};
use engine_core::ir::{Builder, DType, Literal, Monoid, Value};
use engine_core::op::{Lowering, OpForm};

/// Whether an element along axes is true. A number is true unless it is 0; NaN is true. Of no elements it is false.
pub fn any() -> OpForm {
    truth("any", "Holds where at least one element along axes holds, or is not 0.", Monoid::Max).example(
        "along rows",
        "any(a, axis=1)",
        &[("bool[3, 2]", &[1., 0., 0., 0., 1., 1.])],
        &[("bool[3]", &[1., 0., 1.])],
    )
}

/// Whether all elements along axes are true. A number is true unless it is 0; NaN is true. Of no elements it is true.
pub fn all() -> OpForm {
    truth("all", "Holds where every element along axes holds, or is not 0.", Monoid::Min).example(
        "along rows",
        "all(a, axis=1)",
        &[("f32[3, 2]", &[1., 0., 0., 0., 2., -1.])],
        &[("bool[3]", &[0., 0., 1.])],
    )
}

fn truth(name: &str, summary: &str, monoid: Monoid) -> OpForm {
    over_axes(name, summary)
        .types(|types, attrs| {
            let axes = types[0].axes(attrs)?;
            Ok(vec![reduced(&types[0], DType::Bool, &axes, attrs.bool("keepdim"))])
        })
        .expand(move |b, call| vec![folded(b, call, monoid)])
        .no_grad("a truth value has no derivative")
}

fn folded(b: &mut Builder, call: &Lowering, monoid: Monoid) -> Value {
    let (x, keepdim) = (call.inputs[0], call.attrs.bool("keepdim"));
    let axes = axes(b, x, call.attrs);
    let extents = b.extents(x);
    if axes.iter().any(|&axis| extents[axis] == 0) {
        let ty = reduced(b.ty(x), DType::Bool, &axes, keepdim);
        return b.full(Literal::Bool(monoid == Monoid::Min), ty);
    }
    let holds = if b.dtype(x) == DType::Bool { x } else { b.map(&[x], |x| x[0].ne(0.0)) };
    let y = b.reduce(monoid, holds, &axes);
    keep(b, y, x, &axes, keepdim)
}
