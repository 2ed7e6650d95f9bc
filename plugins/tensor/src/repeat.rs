//! Repetition: `repeat`, `tile`, `roll`, `meshgrid`.

use engine_core::ir::{Attrs, Builder, Dim, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, Lowering, OpForm, TypeIssue, checked};

/// The operand as often after itself as `repeats` says, along each axis. Missing leading axes are added.
pub fn repeat() -> OpForm {
    tiled("repeat", "Repeats a tensor as a whole along its axes.", |ty, repeats| {
        if repeats.len() >= ty.rank() {
            return Ok(repeats);
        }
        Err(TypeIssue::new(format!("`repeat` of {ty} has {} numbers of repeats", repeats.len()))
            .at_setting("repeats")
            .help("give one for each axis; `tile` takes fewer"))
    })
    .example(
        "a row, twice down and twice across",
        "repeat(a, repeats=[2, 2])",
        &[("f32[2]", &[1., 2.])],
        &[("f32[2, 4]", &[1., 2., 1., 2., 1., 2., 1., 2.])],
    )
}

/// As [`repeat`]. Fewer numbers than axes are those of the last axes.
pub fn tile() -> OpForm {
    tiled("tile", "Repeats a tensor as a whole along its last axes.", |ty, repeats| {
        let n_missing = ty.rank().saturating_sub(repeats.len());
        Ok(std::iter::repeat_n(1, n_missing).chain(repeats).collect())
    })
    .example(
        "each row twice",
        "tile(a, repeats=2)",
        &[("f32[2, 2]", &[1., 2., 3., 4.])],
        &[("f32[2, 4]", &[1., 2., 1., 2., 3., 4., 3., 4.])],
    )
}

/// Numbers of repeats for all axes of the result, from those that a call gives.
type Complete = fn(&Type, Vec<usize>) -> Result<Vec<usize>, TypeIssue>;

fn tiled(name: &str, summary: &str, complete: Complete) -> OpForm {
    OpForm::new(name, summary)
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must("repeats", "how often, for each axis", AttrKind::Ints))
        .types(move |types, attrs| {
            let repeats = complete(&types[0], counts(attrs)?)?;
            let blocks = blocks(&types[0], &repeats);
            Ok(vec![merged(&types[0], blocks.chunks(2))?])
        })
        .expand(move |b, call| {
            let x = call.inputs[0];
            let repeats = checked(counts(call.attrs).and_then(|counts| complete(b.ty(x), counts)));
            let blocks = blocks(b.ty(x), &repeats);
            let ty = checked(merged(b.ty(x), blocks.chunks(2)));
            let lead = repeats.len() - b.ty(x).rank();
            let own: Vec<usize> = (lead..repeats.len()).map(|axis| 2 * axis + 1).collect();
            let spread = b.broadcast_axes(x, &own, &blocks);
            vec![b.reshape(spread, &ty.extents())]
        })
}

/// Repeats, none of them negative.
pub fn counts(attrs: &Attrs) -> Result<Vec<usize>, TypeIssue> {
    let count = |n: i64| {
        let issue = || TypeIssue::new(format!("nothing can be repeated {n} times")).at_setting("repeats");
        usize::try_from(n).map_err(|_| issue().help("give at least 0"))
    };
    attrs.ints("repeats").into_iter().map(count).collect()
}

/// The repeats of each axis before its extent. Axes that the operand lacks have the extent 1.
fn blocks(x: &Type, repeats: &[usize]) -> Vec<Dim> {
    let lead = repeats.len() - x.rank();
    let extents = std::iter::repeat_n(Dim::Fixed(1), lead).chain(x.shape.iter().cloned());
    repeats.iter().zip(extents).flat_map(|(&n, extent)| [Dim::Fixed(n), extent]).collect()
}

/// The type whose extents are products of these.
pub fn merged<'d>(x: &Type, groups: impl Iterator<Item = &'d [Dim]>) -> Result<Type, TypeIssue> {
    let shape = groups.map(Dim::product).collect::<Option<Vec<_>>>();
    let shape =
        shape.ok_or_else(|| TypeIssue::new(format!("{x} is repeated too often")).at_setting("repeats"))?;
    Ok(Type { dtype: x.dtype, shape })
}

/// `y[i] = x[i - shift]` along an axis, where positions wrap around. Without an axis, elements count in row-major order.
pub fn roll() -> OpForm {
    OpForm::new("roll", "Moves elements along axes; those that leave at one end come in at the other.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must("shifts", "by how many positions, for each axis", AttrKind::Ints))
        .attr(AttrSpec::open("axis", "the axes; none for all elements as a vector", AttrKind::Ints))
        .types(|types, attrs| {
            moves(&types[0], attrs)?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| vec![rolled(b, call)])
        .example(
            "by one",
            "roll(a, shifts=1)",
            &[("f32[4]", &[1., 2., 3., 4.])],
            &[("f32[4]", &[4., 1., 2., 3.])],
        )
        .example(
            "columns to the left",
            "roll(a, shifts=-1, axis=1)",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
            &[("f32[2, 3]", &[2., 3., 1., 5., 6., 4.])],
        )
}

/// Axes with their shifts. Without an axis, that of the flattened operand.
fn moves(x: &Type, attrs: &Attrs) -> Result<Vec<(usize, i64)>, TypeIssue> {
    let shifts = attrs.ints("shifts");
    let axes = match attrs.opt_ints("axis") {
        None => vec![0],
        Some(axes) => axes.iter().map(|&axis| x.axis(axis)).collect::<Result<_, _>>()?,
    };
    if axes.len() == shifts.len() {
        return Ok(axes.into_iter().zip(shifts).collect());
    }
    Err(TypeIssue::new(format!("`roll` of {} axes by {} shifts", axes.len(), shifts.len()))
        .at_setting("shifts")
        .help("give one shift for each axis"))
}

fn rolled(b: &mut Builder, call: &Lowering) -> Value {
    let x = call.inputs[0];
    let (extents, count) = (b.extents(x), b.ty(x).numel());
    let moves = checked(moves(b.ty(x), call.attrs));
    let flat = match call.attrs.opt_ints("axis") {
        None => b.reshape(x, &[count]),
        Some(_) => x,
    };
    let y = moves.into_iter().fold(flat, |x, (axis, shift)| rolled_along(b, x, axis, shift));
    b.reshape(y, &extents)
}

fn rolled_along(b: &mut Builder, x: Value, axis: usize, shift: i64) -> Value {
    let extents = b.extents(x);
    let n = extents[axis];
    let shift = if n == 0 { 0 } else { shift.rem_euclid(n as i64) as usize };
    if shift == 0 {
        return x;
    }
    let parts = [(n - shift, shift), (0, n - shift)].map(|(from, count)| {
        let (mut start, mut counts) = (vec![0; extents.len()], extents.clone());
        (start[axis], counts[axis]) = (from, count);
        b.slice(x, &start, &counts, &vec![1; extents.len()])
    });
    b.concat(&parts, axis)
}

/// The most operands of `meshgrid`.
const MOST: usize = 6;

/// For vectors of n, m, … elements: a tensor `[n, m, …]` for each, in which the vector lies along its own axis and repeats
/// along all others. With `indexing=xy`, the first two axes are exchanged.
pub fn meshgrid() -> OpForm {
    let names: Vec<String> = (0..MOST).map(|i| format!("y{i}")).collect();
    OpForm::new("meshgrid", "Spreads up to 6 vectors over the grid of all their combinations.")
        .follows_operands()
        .inputs((0..MOST).map(|i| InputSpec {
            name: format!("x{i}"),
            doc: format!("the vector along axis {i}"),
            optional: i > 0,
            range: None,
        }))
        .results(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .attr(AttrSpec::choice("indexing", "the order of the first two axes", &["ij", "xy"]))
        .types(|types, attrs| {
            let shape = grid(types, attrs)?;
            Ok(types.iter().map(|ty| Type { dtype: ty.dtype, shape: shape.clone() }).collect())
        })
        .expand(|b, call| {
            let types: Vec<Type> = call.inputs.iter().map(|&x| b.ty(x).clone()).collect();
            let shape = checked(grid(&types, call.attrs));
            let order = axes_of(types.len(), call.attrs);
            let spread = |(&x, axis): (&Value, usize)| {
                let n_elements = b.ty(x).numel();
                let vector = b.reshape(x, &[n_elements]);
                b.broadcast_axes(vector, &[axis], &shape)
            };
            call.inputs.iter().zip(order).map(spread).collect()
        })
        .example(
            "two by three",
            "meshgrid(a, b)",
            &[("f32[2]", &[1., 2.]), ("f32[3]", &[3., 4., 5.])],
            &[("f32[2, 3]", &[1., 1., 1., 2., 2., 2.]), ("f32[2, 3]", &[3., 4., 5., 3., 4., 5.])],
        )
}

/// The axis of each operand.
fn axes_of(n_operands: usize, attrs: &Attrs) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..n_operands).collect();
    if attrs.str("indexing") == "xy" && n_operands > 1 {
        axes.swap(0, 1);
    }
    axes
}

fn grid(types: &[Type], attrs: &Attrs) -> Result<Vec<Dim>, TypeIssue> {
    if let Some(i) = types.iter().position(|ty| ty.rank() > 1) {
        return Err(TypeIssue::new(format!("`meshgrid` of {}, which is no vector", types[i]))
            .at(i, format!("this is {}", types[i]))
            .help("`flatten(x, start=0)` makes one"));
    }
    let mut shape = vec![Dim::Fixed(1); types.len()];
    for (ty, axis) in types.iter().zip(axes_of(types.len(), attrs)) {
        shape[axis] = ty.shape.first().cloned().unwrap_or(Dim::Fixed(1));
    }
    Ok(shape)
}
