//! `pad`.

use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// Elements around a tensor: a value, the elements mirrored at the ends without the ends themselves, the ends repeated, or
/// the elements from the other end.
pub fn pad() -> OpForm {
    OpForm::new("pad", "Adds elements before and behind along axes.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must("before", "elements added before, one number for each axis", AttrKind::Ints))
        .attr(AttrSpec::open("after", "elements added behind; by default as many as before", AttrKind::Ints))
        .attr(AttrSpec::choice("mode", "what is added", &["value", "reflect", "edge", "wrap"]))
        .attr(AttrSpec::element("value", "the added value", 0))
        .types(|types, attrs| Ok(vec![padded(&types[0], attrs)?]))
        .expand(|b, call| {
            let x = call.inputs[0];
            let [before, after] = checked(amounts(b.ty(x), call.attrs));
            let mode = call.attrs.str("mode");
            if mode == "value" {
                return vec![b.pad(x, &before, &after, call.attrs.literal("value"))];
            }
            let axes = (0..before.len()).filter(|&axis| before[axis] + after[axis] > 0);
            vec![axes.fold(x, |x, axis| continued(b, x, axis, [before[axis], after[axis]], mode))]
        })
        .example(
            "zeros",
            "pad(a, before=[0, 1], after=[1, 0])",
            &[("f32[1, 2]", &[1., 2.])],
            &[("f32[2, 3]", &[0., 1., 2., 0., 0., 0.])],
        )
        .example(
            "mirrored",
            "pad(a, before=2, mode=\"reflect\")",
            &[("f32[3]", &[1., 2., 3.])],
            &[("f32[7]", &[3., 2., 1., 2., 3., 2., 1.])],
        )
        .example(
            "the ends repeated",
            "pad(a, before=1, after=2, mode=\"edge\")",
            &[("i32[2]", &[1., 2.])],
            &[("i32[5]", &[1., 1., 2., 2., 2.])],
        )
        .example(
            "around the end",
            "pad(a, before=1, after=2, mode=\"wrap\")",
            &[("f32[3]", &[1., 2., 3.])],
            &[("f32[6]", &[3., 1., 2., 3., 1., 2.])],
        )
}

fn padded(x: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let [before, after] = amounts(x, attrs)?;
    let mode = attrs.str("mode");
    let mut shape = x.shape.clone();
    for (axis, extent) in shape.iter_mut().enumerate().filter(|(axis, _)| before[*axis] + after[*axis] > 0) {
        let Some(n) = extent.fixed() else {
            let message = format!("axis {axis} of {x} cannot be padded before its extent is known");
            return Err(TypeIssue::new(message).at(0, format!("this is {x}")));
        };
        let longest = before[axis].max(after[axis]);
        let most = match mode {
            "value" => usize::MAX,
            "edge" if n > 0 => usize::MAX,
            "reflect" => n.saturating_sub(1),
            _ => n,
        };
        if longest > most {
            let message =
                format!("axis {axis} of {x} is padded by {longest}, and `{mode}` adds at most {most}");
            return Err(TypeIssue::new(message).at_setting("mode"));
        }
        *extent = Dim::Fixed(n + before[axis] + after[axis]);
    }
    Ok(Type { dtype: x.dtype, shape })
}

fn amounts(x: &Type, attrs: &Attrs) -> Result<[Vec<usize>; 2], TypeIssue> {
    let after = if *attrs.get("after") == Attr::None { "before" } else { "after" };
    let read = |name: &str| {
        let given = attrs.ints(name);
        let amounts: Option<Vec<usize>> =
            given.iter().map(|&n| usize::try_from(n).ok().filter(|n| *n < 1 << 31)).collect();
        amounts.filter(|amounts| amounts.len() == x.rank()).ok_or_else(|| {
            TypeIssue::new(format!(
                "`{name}` has a number from 0 on for each of the {} axes of {x}",
                x.rank()
            ))
            .at_setting(name)
        })
    };
    Ok([read("before")?, read(after)?])
}

/// An axis with elements of its own around it, picked by their positions.
fn continued(b: &mut Builder, x: Value, axis: usize, [before, after]: [usize; 2], mode: &str) -> Value {
    let n = b.extents(x)[axis];
    let position = b.iota(0, Type::new(DType::I32, &[n + before + after]));
    let (before, last) = (before as i64, n as i64 - 1);
    let picked = b.map(&[position], |v| {
        let at = v[0] - E::from(before);
        match mode {
            "edge" => at.max(0_i64).min(last),
            "wrap" => {
                let n = E::from(last + 1);
                E::select(at.lt(0_i64), at + n, E::select(at.gt(last), at - n, at))
            }
            _ => {
                let folded = at.abs();
                E::select(folded.gt(last), E::from(2 * last) - folded, folded)
            }
        }
    });
    b.gather(x, picked, axis, 0)
}
