//! Advanced indexing: `index` and `index_put`.

use crate::indices::{Indices, expect_index, indices, linear, masked, policy_wrapping, position_dtype};
use crate::scatter::{expect_addable, write};
use crate::subscript::{Part, Subscript, leading};
use engine_core::ir::{Attr, Attrs, Builder, Combine, DType, Dim, E, Literal, Type, Value, broadcast_shapes};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, Lowering, OpForm, TypeIssue, checked};

/// The maximum number of index operands of a call.
const MOST: usize = 8;

/// `x[…]` by numpy's rules. Index operands broadcast and together name one element. Their axes stay in place, or move
/// to the front if other items stand between them. `at` is the text between the brackets: `#` for the next index
/// operand, positions, `start:stop:step`, `...`, and `new` for a new axis. Without it, index operands stand for the
/// leading axes. The gradient adds up at the indices.
pub fn index() -> OpForm {
    OpForm::new(
        "index",
        "Reads the elements that index operands name together, by numpy's rules of advanced indexing.",
    )
    .follows_operands()
    .input("x", "the source")
    .inputs(index_operands())
    .attrs(attrs())
    .types(|types, attrs| {
        refuse_masks(&types[1..])?;
        let subscript = fit("index", types, 1, attrs)?;
        Ok(vec![Type { dtype: types[0].dtype, shape: subscript.shape }])
    })
    .expand(|b, call| vec![read(b, call)])
    .example(
        "two elements, from the end",
        "index(a, b, c)",
        &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.]), ("i32[2]", &[0., -1.]), ("i32[2]", &[2., 0.])],
        &[("f32[2]", &[3., 4.])],
    )
    .example(
        "columns",
        "index(a, b, at=\":, #\")",
        &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.]), ("i32[2]", &[2., 0.])],
        &[("f32[2, 2]", &[3., 1., 6., 4.])],
    )
}

/// `x` with `x[…] = values`, or `x[…] += values` if they accumulate; see [`index`] for the text between the brackets.
/// Values broadcast. Among equal indices, the last one in row-major order wins, and it alone gets a gradient. A single
/// `bool` operand over leading axes of `x` writes where it holds. Then values broadcast to the axes behind it.
pub fn index_put() -> OpForm {
    OpForm::new(
        "index_put",
        "Writes the elements that index operands name together, by numpy's rules of advanced indexing.",
    )
    .input("x", "the base")
    .input("values", "the new values; they broadcast to the result of `index`")
    .inputs(index_operands())
    .attrs(attrs())
    .attr(AttrSpec::flag("accumulate", "whether values are added to the present elements", false))
    .types(|types, attrs| {
        expect_addable("index_put", types[0].dtype, combine(attrs))?;
        let wanted = match is_mask(types) {
            true => masked_shape(&types[0], &types[2], attrs)?,
            false => {
                refuse_masks(&types[2..])?;
                fit("index_put", types, 2, attrs)?.shape
            }
        };
        expect_values(&types[0], &types[1], wanted)?;
        Ok(vec![types[0].clone()])
    })
    .expand(|b, call| vec![put(b, call)])
    .example(
        "the last one that meets",
        "index_put(a, b, c)",
        &[("f32[3]", &[1., 2., 3.]), ("f32[2]", &[7., 8.]), ("i32[2]", &[-1., 2.])],
        &[("f32[3]", &[1., 2., 8.])],
    )
    .example(
        "updates of one element add up",
        "index_put(a, b, c, accumulate=true)",
        &[("f32[3]", &[1., 2., 3.]), ("f32[2]", &[7., 8.]), ("i32[2]", &[-1., 2.])],
        &[("f32[3]", &[1., 2., 18.])],
    )
    .example(
        "where a mask holds",
        "index_put(a, b, c)",
        &[("f32[2, 2]", &[1., 2., 3., 4.]), ("f32[2]", &[7., 8.]), ("bool[2]", &[0., 1.])],
        &[("f32[2, 2]", &[1., 2., 7., 8.])],
    )
}

fn index_operands() -> impl Iterator<Item = InputSpec> {
    (0..MOST).map(|i| InputSpec {
        name: format!("i{i}"),
        doc: format!("index operand {i}; index operands broadcast"),
        optional: i > 0,
        range: None,
    })
}

fn attrs() -> Vec<AttrSpec> {
    let doc = "the subscript, such as `#, 1:-1, ..., #`; none if index operands stand for leading axes";
    [AttrSpec::open("at", doc, AttrKind::Str)].into_iter().chain(policy_wrapping(true)).collect()
}

fn combine(attrs: &Attrs) -> Combine {
    if attrs.bool("accumulate") { Combine::Add } else { Combine::Set }
}

/// The subscript of the first operand, with index operands from number `first` on.
fn fit(op: &str, types: &[Type], first: usize, attrs: &Attrs) -> Result<Subscript, TypeIssue> {
    for (i, ty) in types.iter().enumerate().skip(first) {
        expect_index(op, i, ty)?;
    }
    let operands = &types[first..];
    let text = match attrs.get("at") {
        Attr::None => leading(operands.len()),
        _ => attrs.str("at").to_owned(),
    };
    Subscript::fit(&text, &types[0], operands)
}

fn refuse_masks(operands: &[Type]) -> Result<(), TypeIssue> {
    match operands.iter().find(|ty| ty.dtype == DType::Bool) {
        Some(mask) => Err(TypeIssue::new(format!("how much {mask} picks depends on data"))
            .help("extents are known beforehand: use `where`, or `index_put` with one mask alone")),
        None => Ok(()),
    }
}

// ---- Numbers.

/// The positions of the elements that a subscript names.
struct Places {
    /// Row-major positions within `indexed`, by the leading axes of the result.
    idx: Indices,
    /// `x` with the indexed axes joined into one.
    lines: Value,
}

fn places(b: &mut Builder, x: Value, operands: &[Value], attrs: &Attrs, subscript: &Subscript) -> Places {
    let extents = b.extents(x);
    let (indexed, rest) = extents.split_at(subscript.parts.len());
    let n_leading = subscript.shape.len() - rest.len();
    let leading = Type { dtype: position_dtype(indexed), shape: subscript.shape[..n_leading].to_vec() };
    let mut numbers = vec![];
    for (part, &bound) in subscript.parts.iter().zip(indexed) {
        numbers.push(match *part {
            Part::Operand(i) => {
                let own = indices(b, operands[i], bound, attrs);
                placed(b, own, subscript, &leading)
            }
            Part::Position(at) => {
                Indices { at: b.full(Literal::Int(at as i64), leading.clone()), counts: None }
            }
            Part::Range { start, step, axis } => {
                let j = b.iota(axis, leading.clone());
                let at = b.map(&[j], |j| j[0] * E::from(step) + E::from(start as i64));
                Indices { at, counts: None }
            }
        });
    }
    let lines: Vec<usize> = [indexed.iter().product()].iter().chain(rest).copied().collect();
    Places { idx: linear(b, numbers, indexed), lines: b.reshape(x, &lines) }
}

/// Moves the axes of an index operand to their place in the result.
fn placed(b: &mut Builder, own: Indices, subscript: &Subscript, leading: &Type) -> Indices {
    let end = subscript.index_axis + subscript.index_rank;
    let axes: Vec<usize> = (end - b.ty(own.at).rank()..end).collect();
    let mut spread = |x: Value| b.broadcast_axes(x, &axes, &leading.shape);
    Indices { at: spread(own.at), counts: own.counts.map(spread) }
}

fn read(b: &mut Builder, call: &Lowering) -> Value {
    let subscript = subscript_of(b, "index", call, 1);
    let Places { idx, lines } = places(b, call.inputs[0], &call.inputs[1..], call.attrs, &subscript);
    let y = b.gather(lines, idx.at, 0, 0);
    let axes: Vec<usize> = (0..b.ty(idx.at).rank()).collect();
    masked(b, y, idx.counts, &axes)
}

fn subscript_of(b: &Builder, op: &str, call: &Lowering, first: usize) -> Subscript {
    let types: Vec<Type> = call.inputs.iter().map(|&x| b.ty(x).clone()).collect();
    checked(fit(op, &types, first, call.attrs))
}

fn put(b: &mut Builder, call: &Lowering) -> Value {
    let [x, values] = [call.inputs[0], call.inputs[1]];
    if b.dtype(call.inputs[2]) == DType::Bool {
        return put_where(b, x, values, call.inputs[2], call.attrs);
    }
    let subscript = subscript_of(b, "index_put", call, 2);
    let updates = b.broadcast_dims(values, &subscript.shape);
    let Places { idx, lines } = places(b, x, &call.inputs[2..], call.attrs, &subscript);
    let y = write(b, lines, idx, updates, 0, 0, combine(call.attrs));
    let extents = b.extents(x);
    b.reshape(y, &extents)
}

// ---- Masks.

fn is_mask(types: &[Type]) -> bool {
    types.len() == 3 && types[2].dtype == DType::Bool
}

/// The shape that values broadcast to: the axes behind those of the mask.
fn masked_shape(x: &Type, mask: &Type, attrs: &Attrs) -> Result<Vec<Dim>, TypeIssue> {
    if mask.rank() > x.rank() || mask.shape != x.shape[..mask.rank()] || *attrs.get("at") != Attr::None {
        return Err(TypeIssue::new(format!("`index_put` into {x} where {mask} holds"))
            .at(2, format!("this is {mask}"))
            .help("a mask covers leading axes, and has no subscript beside it"));
    }
    Ok(x.shape[mask.rank()..].to_vec())
}

fn put_where(b: &mut Builder, x: Value, values: Value, mask: Value, attrs: &Attrs) -> Value {
    let shape = b.ty(x).shape.clone();
    let axes: Vec<usize> = (0..b.ty(mask).rank()).collect();
    let mask = b.broadcast_axes(mask, &axes, &shape);
    let values = b.broadcast_dims(values, &shape);
    match combine(attrs) {
        Combine::Set => b.map(&[mask, values, x], |v| E::select(v[0], v[1], v[2])),
        Combine::Add => b.map(&[mask, values, x], |v| E::select(v[0], v[2] + v[1], v[2])),
    }
}

fn expect_values(x: &Type, values: &Type, wanted: Vec<Dim>) -> Result<(), TypeIssue> {
    let wanted = Type { dtype: x.dtype, shape: wanted };
    let broadcast = broadcast_shapes(&[values.clone(), wanted.clone()]);
    if values.dtype == x.dtype && broadcast.as_ref() == Some(&wanted.shape) {
        return Ok(());
    }
    Err(TypeIssue::new(format!("{values} cannot be put where {wanted} stands"))
        .at(1, format!("this is {values}"))
        .help("values must broadcast to the replaced elements, in the same element type"))
}
