//! `slice` and `select`.

use engine_core::ir::{Attrs, Builder, Dim, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, Range, TypeIssue, checked};

/// `x[start:stop:step]` along one axis, with Python's rules: negative positions count from the end, positions beyond
/// the ends are clipped, a negative step walks backwards.
pub fn slice() -> OpForm {
    OpForm::new("slice", "Takes the elements from one position to another along an axis.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::int("axis", "the axis", 0))
        .attr(AttrSpec::open(
            "start",
            "the first position; none for the end that the step leaves",
            AttrKind::Int,
        ))
        .attr(AttrSpec::open(
            "stop",
            "the position after the last; none for the end that the step reaches",
            AttrKind::Int,
        ))
        .attr(AttrSpec::int("step", "distance of neighbours, not 0", 1))
        .types(|types, attrs| {
            let axis = types[0].axis(attrs.int("axis"))?;
            let mut ty = types[0].clone();
            if !is_whole(attrs) {
                let n = fixed(&ty, axis)?;
                ty.shape[axis] = Dim::Fixed(range(n, attrs)?.count);
            }
            Ok(vec![ty])
        })
        .expand(|b, call| vec![sliced(b, call.inputs[0], call.attrs)])
        .example(
            "all but the first",
            "slice(a, start=1)",
            &[("f32[4]", &[1., 2., 3., 4.])],
            &[("f32[3]", &[2., 3., 4.])],
        )
        .example(
            "columns backwards",
            "slice(a, axis=1, step=-2)",
            &[("f32[1, 4]", &[1., 2., 3., 4.])],
            &[("f32[1, 2]", &[4., 2.])],
        )
}

/// `x[index]` along one axis, which is removed. A negative index counts from the end.
pub fn select() -> OpForm {
    OpForm::new("select", "Takes one position along an axis, which vanishes.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::int("axis", "the axis", 0))
        .attr(AttrSpec::must("index", "the position", AttrKind::Int))
        .types(|types, attrs| {
            let (axis, _) = position(&types[0], attrs)?;
            let mut ty = types[0].clone();
            ty.shape.remove(axis);
            Ok(vec![ty])
        })
        .expand(|b, call| {
            let x = call.inputs[0];
            let (axis, index) = checked(position(b.ty(x), call.attrs));
            let mut extents = b.extents(x);
            let one = along(b, x, axis, index, 1, 1);
            extents.remove(axis);
            vec![b.reshape(one, &extents)]
        })
        .example(
            "the last column",
            "select(a, axis=1, index=-1)",
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[2]", &[2., 4.])],
        )
}

fn sliced(b: &mut Builder, x: Value, attrs: &Attrs) -> Value {
    let axis = checked(b.ty(x).axis(attrs.int("axis")));
    let range = checked(range(b.extents(x)[axis], attrs));
    along(b, x, axis, range.start, range.count, range.step)
}

fn range(n: usize, attrs: &Attrs) -> Result<Range, TypeIssue> {
    Range::of(n, attrs.opt_int("start"), attrs.opt_int("stop"), attrs.int("step"))
}

fn along(b: &mut Builder, x: Value, axis: usize, start: usize, count: usize, step: i64) -> Value {
    let mut counts = b.extents(x);
    let mut starts = vec![0; counts.len()];
    let mut steps = vec![1; counts.len()];
    (starts[axis], counts[axis], steps[axis]) = (start, count, step);
    b.slice(x, &starts, &counts, &steps)
}

/// Whether a slice takes all elements in order, so that the extent need not be known.
fn is_whole(attrs: &Attrs) -> bool {
    attrs.opt_int("start").unwrap_or(0) == 0 && attrs.opt_int("stop").is_none() && attrs.int("step") == 1
}

fn fixed(ty: &Type, axis: usize) -> Result<usize, TypeIssue> {
    ty.shape[axis].fixed().ok_or_else(|| {
        TypeIssue::new(format!("axis {axis} of {ty} cannot be cut before its extent is known"))
            .at(0, format!("this is {ty}"))
            .help("give the extent as a number")
    })
}

fn position(ty: &Type, attrs: &Attrs) -> Result<(usize, usize), TypeIssue> {
    let axis = ty.axis(attrs.int("axis"))?;
    let (n, index) = (fixed(ty, axis)? as i64, attrs.int("index"));
    if (-n..n).contains(&index) {
        return Ok((axis, index.rem_euclid(n) as usize));
    }
    Err(TypeIssue::new(format!("axis {axis} of {ty} has no index {index}")).at(0, format!("this is {ty}")))
}
