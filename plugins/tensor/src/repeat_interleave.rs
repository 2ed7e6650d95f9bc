//! `repeat_interleave`.

use crate::repeat::{counts, merged};
use engine_core::ir::{Attrs, Builder, Combine, DType, Dim, E, Literal, Monoid, NodeOp, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// Each element several times in a row, along an axis: `repeats` times, or as often as `counts` says, which has a number
/// for each element. Their sum is `total`. Numbers that have another sum, or of which one is negative, end in the error
/// of an index out of range.
pub fn repeat_interleave() -> OpForm {
    OpForm::new("repeat_interleave", "Repeats each element several times along an axis.")
        .follows_operands()
        .input("x", "any tensor")
        .optional(
            "counts",
            "how often each element along the axis, instead of `repeats`: a vector of integers other than u32",
        )
        .attr(AttrSpec::open("repeats", "how often", AttrKind::Int))
        .attr(AttrSpec::open("axis", "the axis; none for all elements as a vector", AttrKind::Int))
        .attr(AttrSpec::open("total", "the sum of `counts`", AttrKind::Int))
        .types(|types, attrs| match types.get(1) {
            None => Ok(vec![interleaved(&types[0], attrs)?.1]),
            Some(counts) => Ok(vec![counted(&types[0], counts, attrs)?.1]),
        })
        .expand(|b, call| match call.inputs.get(1) {
            None => vec![by_number(b, call.inputs[0], call.attrs)],
            Some(&counts) => vec![by_counts(b, call.inputs[0], counts, call.attrs)],
        })
        .example(
            "each row twice",
            "repeat_interleave(a, repeats=2, axis=0)",
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[4, 2]", &[1., 2., 1., 2., 3., 4., 3., 4.])],
        )
        .example(
            "each element twice",
            "repeat_interleave(a, repeats=2)",
            &[("f32[2]", &[1., 2.])],
            &[("f32[4]", &[1., 1., 2., 2.])],
        )
        .example(
            "each column as often as a number says",
            "repeat_interleave(a, b, axis=1, total=4)",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.]), ("i32[3]", &[1., 0., 3.])],
            &[("f32[2, 4]", &[1., 3., 3., 3., 4., 6., 6., 6.])],
        )
}

fn by_number(b: &mut Builder, x: Value, attrs: &Attrs) -> Value {
    let (blocks, ty) = checked(interleaved(b.ty(x), attrs));
    let axis = attrs.opt_int("axis").map(|axis| checked(b.ty(x).axis(axis)));
    let added = axis.map_or(b.ty(x).rank(), |axis| axis + 1);
    let own: Vec<usize> = (0..blocks.len()).filter(|&axis| axis != added).collect();
    let spread = b.broadcast_axes(x, &own, &blocks);
    b.reshape(spread, &ty.extents())
}

/// The extents with an axis of repeats, and the type of the result.
fn interleaved(x: &Type, attrs: &Attrs) -> Result<(Vec<Dim>, Type), TypeIssue> {
    if *attrs.get("repeats") == engine_core::ir::Attr::None {
        return Err(TypeIssue::new("`repeat_interleave` without a number of repeats")
            .at_setting("repeats")
            .help("give `repeats`, or a number for each element as the second operand"));
    }
    let n = Dim::Fixed(counts(attrs)?.first().copied().unwrap_or(1));
    let mut blocks = x.shape.clone();
    let ty = match attrs.opt_int("axis") {
        None => {
            blocks.push(n);
            merged(x, [&blocks[..]].into_iter())?
        }
        Some(axis) => {
            let axis = x.axis(axis)?;
            blocks.insert(axis + 1, n);
            let (before, rest) = blocks.split_at(axis);
            let (two, after) = rest.split_at(2);
            merged(x, before.chunks(1).chain([two]).chain(after.chunks(1)))?
        }
    };
    Ok((blocks, ty))
}

/// The axis and the type of the result, of the flattened operand if no axis is given.
fn counted(x: &Type, counts: &Type, attrs: &Attrs) -> Result<(usize, Type), TypeIssue> {
    let mismatch = |help: &str| {
        TypeIssue::new(format!("`repeat_interleave` of {x} by {counts}"))
            .at(1, format!("this is {counts}"))
            .help(help)
    };
    counts.expect_dtype("repeat_interleave", 1, DType::is_index, "integers other than u32")?;
    let (axis, mut ty) = match attrs.opt_int("axis") {
        Some(axis) => (x.axis(axis)?, x.clone()),
        None => (0, merged(x, [&x.shape[..]].into_iter())?),
    };
    if counts.shape != [ty.shape[axis].clone()] {
        return Err(mismatch("give a number for each element along the axis"));
    }
    let total = attrs.opt_int("total").and_then(|total| usize::try_from(total).ok());
    match (attrs.opt_int("repeats"), total.filter(|&total| total < i32::MAX as usize)) {
        (None, Some(total)) => ty.shape[axis] = Dim::Fixed(total),
        (Some(_), _) => return Err(mismatch("give `repeats` or the numbers, not both")),
        (None, None) => return Err(mismatch("give the sum of the numbers as `total`")),
    }
    Ok((axis, ty))
}

fn by_counts(b: &mut Builder, x: Value, counts: Value, attrs: &Attrs) -> Value {
    let (axis, ty) = checked(counted(b.ty(x), b.ty(counts), attrs));
    let n = b.ty(counts).numel();
    let total = ty.extents()[axis];
    let mut extents = ty.extents();
    extents[axis] = n;
    let x = b.reshape(x, &extents);
    let counts = within(b, counts, total);
    let ends = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 0 }, vec![counts], b.ty(counts).clone());
    let places = b.map(&[ends], |v| v[0].max(0i64).min(total as i64));
    // An element of the result comes from the number of elements that end before it.
    let line = Type::new(DType::I32, &[total + 1]);
    let none = b.full(Literal::Int(0), line.clone());
    let one = b.full_like(places, 1.0);
    let n_ends = b.scatter(none, places, one, 0, 0, Combine::Add);
    let from = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 0 }, vec![n_ends], line);
    let from = b.slice(from, &[0], &[total], &[1]);
    let negative = b.map(&[counts], |v| v[0].lt(0i64).cast(DType::I32));
    let [sum, n_negative] = [counts, negative].map(|x| b.sum(x, &[0]));
    let from = b.map(&[from, sum, n_negative], |v| {
        let is_right = v[1].eq(total as i64) & v[2].eq(0i64);
        E::select(is_right, v[0], E::from(n as i64))
    });
    let from = b.check_index(from, n);
    b.gather(x, from, axis, 0)
}

/// Numbers as `i32`, none above `total + 1`.
fn within(b: &mut Builder, counts: Value, total: usize) -> Value {
    let counts = b.cast(counts, b.dtype(counts).index_type());
    let counts = b.map(&[counts], |v| v[0].max(-1i64).min(total as i64 + 1));
    b.cast(counts, DType::I32)
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use engine_core::op::Example;
    use engine_core::testing;

    #[test]
    fn numbers_of_another_sum_and_negative_ones_are_errors() {
        let registry = testing::registry(&[&Tensor]);
        let of = |counts: &[f64]| {
            let inputs: [(&str, &[f64]); 2] = [("f32[2]", &[1., 2.]), ("i64[2]", counts)];
            let call = "repeat_interleave(a, b, total=3)";
            testing::check(&Example::new("of a sum", call, &inputs, &[("f32[3]", &[1., 1., 2.])]), &registry)
        };
        assert_eq!(of(&[2., 1.]), Ok(()));
        for counts in [[2., 0.], [2., 2.], [4., -1.], [4294967296., 3.]] {
            let message = of(&counts).expect_err("an index error");
            assert!(message.contains("index 2"), "{counts:?}: {message}");
        }
    }
}
