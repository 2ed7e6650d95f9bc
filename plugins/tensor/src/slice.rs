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
            ty.shape[axis] = match ty.shape[axis].fixed() {
                Some(n) => Dim::Fixed(range(n, attrs)?.count),
                None => open_count(&ty, axis, attrs)?,
            };
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
            let axis = match types[0].axis(attrs.int("axis"))? {
                axis if types[0].shape[axis].fixed().is_none() => axis,
                _ => position(&types[0], attrs)?.0,
            };
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

/// The number of positions on an axis whose extent n is open, if n is not below the positions that the slice names.
/// Binding infers it anew.
fn open_count(ty: &Type, axis: usize, attrs: &Attrs) -> Result<Dim, TypeIssue> {
    let n = &ty.shape[axis];
    let (start, stop, step) = (attrs.opt_int("start"), attrs.opt_int("stop"), attrs.int("step"));
    let size = |at: i64| Dim::Fixed(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX));
    let count = match (start, stop, step) {
        (None, None, -1) => Some(n.clone()),
        (_, _, 1) => match (start.unwrap_or(0), stop) {
            (start @ 0.., None) => n.minus(&size(start)),
            (start @ 0.., Some(stop @ 0..)) => Some(size((stop - start).max(0))),
            (start @ 0.., Some(stop)) => n.minus(&size(stop)).and_then(|end| end.minus(&size(start))),
            (start, None) => Some(size(start)),
            (start, Some(stop)) if stop < 0 => Some(size((stop - start).max(0))),
            _ => None,
        },
        _ => None,
    };
    count.ok_or_else(|| open_extent(ty, axis))
}

fn fixed(ty: &Type, axis: usize) -> Result<usize, TypeIssue> {
    ty.shape[axis].fixed().ok_or_else(|| open_extent(ty, axis))
}

fn open_extent(ty: &Type, axis: usize) -> TypeIssue {
    TypeIssue::new(format!("axis {axis} of {ty} cannot be cut before its extent is known"))
        .at(0, format!("this is {ty}"))
        .help("give the extent as a number")
}

fn position(ty: &Type, attrs: &Attrs) -> Result<(usize, usize), TypeIssue> {
    let axis = ty.axis(attrs.int("axis"))?;
    let (n, index) = (fixed(ty, axis)? as i64, attrs.int("index"));
    if (-n..n).contains(&index) {
        return Ok((axis, index.rem_euclid(n) as usize));
    }
    Err(TypeIssue::new(format!("axis {axis} of {ty} has no index {index}")).at(0, format!("this is {ty}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use engine_core::ir::{Attr, DType, Literal};

    /// The extent that a slice of `n + 1` elements has, as a text; nothing if it needs the number.
    fn extent(start: Option<i64>, stop: Option<i64>, step: i64) -> Option<String> {
        let n = Dim::Named("n".into()).plus(&Dim::Fixed(1)).unwrap();
        let number = |n: Option<i64>| n.map_or(Attr::None, |n| Attr::Lit(Literal::Int(n)));
        let attrs = Attrs::default().with("axis", number(Some(0))).with("step", number(Some(step)));
        let attrs = attrs.with("start", number(start)).with("stop", number(stop));
        let types = slice().infer(&[Type { dtype: DType::F32, shape: vec![n] }], &attrs);
        types.ok().map(|types| types[0].shape[0].to_string())
    }

    #[test]
    fn an_open_extent_is_cut_where_the_result_is_clear() {
        let text = |found: &str| Some(found.to_owned());
        assert_eq!(extent(None, None, 1), text("n + 1"));
        assert_eq!(extent(None, None, -1), text("n + 1"));
        assert_eq!(extent(Some(1), None, 1), text("n"));
        assert_eq!(extent(None, Some(-1), 1), text("n"));
        assert_eq!(extent(Some(2), Some(-3), 1), text("n - 4"));
        assert_eq!(extent(None, Some(3), 1), text("3"));
        assert_eq!(extent(Some(5), Some(3), 1), text("0"));
        assert_eq!(extent(Some(-2), None, 1), text("2"));
        assert_eq!(extent(Some(-3), Some(-1), 1), text("2"));
        assert_eq!(extent(Some(-3), Some(1), 1), None);
        assert_eq!(extent(None, None, 2), None);
    }
}
