//! The shared parts of rotary position embeddings: pairs of elements, positions, and the rotation.

use engine_core::ir::{Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrSpec, InputSpec, TypeIssue};

/// `positions`, which may be omitted.
pub fn positions_spec() -> InputSpec {
    let doc = "`[]`, the position of the first row; `[S]`, one per row; or `[B, S]`, where B is the first extent of `x`; \
               by default 0, 1, …";
    InputSpec::optional("positions", doc)
}

/// `layout` and `inverse`.
pub fn attrs() -> [AttrSpec; 2] {
    let layout = "a pair is an element and its counterpart in the other half, or two neighbours";
    [
        AttrSpec::choice("layout", layout, &["half", "interleaved"]),
        AttrSpec::flag("inverse", "whether to rotate by the opposite angles", false),
    ]
}

/// Checks rows of floats, `[…, S, D]`, of which `n_dims` elements are rotated, and the positions of these rows.
pub fn expect_rows(
    op: &str,
    x: &Type,
    n_dims: Option<usize>,
    positions: Option<(usize, &Type)>,
) -> Result<(), TypeIssue> {
    x.expect_dtype(op, 0, DType::is_float, "floats")?;
    let refuse =
        |message: String, help: &str| Err(TypeIssue::new(message).at(0, format!("this is {x}")).help(help));
    let [.., rows, depth] = &x.shape[..] else {
        return refuse(format!("`{op}` of {x}"), "it takes rows, […, S, D]");
    };
    let n_rotated = n_dims.or(depth.fixed());
    if n_rotated.is_some_and(|n| !n.is_multiple_of(2)) {
        return refuse(
            format!("`{op}` of rows with an odd number of elements"),
            "elements are rotated in pairs",
        );
    }
    if n_rotated.zip(depth.fixed()).is_some_and(|(n, depth)| n > depth) {
        return refuse(format!("`{op}` of more elements than a row has"), "rotate at most the last extent");
    }
    positions.map_or(Ok(()), |(operand, ty)| expect_positions(op, x, rows, operand, ty))
}

fn expect_positions(op: &str, x: &Type, rows: &Dim, operand: usize, ty: &Type) -> Result<(), TypeIssue> {
    ty.expect_dtype(op, operand, |dtype| matches!(dtype, DType::I32 | DType::I64), "i32 or i64")?;
    let fits = match &ty.shape[..] {
        [] => true,
        [n] => n == rows,
        [batch, n] => x.rank() > 2 && *batch == x.shape[0] && n == rows,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of {x} at positions {ty}"))
        .at(operand, format!("this is {ty}"))
        .help("positions are `[]`, `[S]` or `[B, S]` for rows `[B, …, S, D]`"))
}

/// The position of each row of `x`, `[S]` or `[B, S]`.
pub fn positions(b: &mut Builder, x: Value, given: Option<Value>) -> Value {
    let n_rows = b.extents(x)[b.ty(x).rank() - 2];
    let dtype = given.map_or(DType::I32, |given| b.dtype(given));
    let row = b.iota(0, Type::new(dtype, &[n_rows]));
    match given {
        None => row,
        Some(first) if b.ty(first).rank() == 0 => b.add(row, first),
        Some(each) => each,
    }
}

/// Rotates pairs of `x` […, S, D] by angles whose cosine and sine are `[S, N]` or `[B, S, N]`, one for each of N pairs. A
/// pair (u, v) becomes `(u·cos - v·sin, v·cos + u·sin)`. Elements after the first 2N stay.
pub fn rotated(b: &mut Builder, x: Value, [cos, sin]: [Value; 2], attrs: &Attrs) -> Value {
    let extents = b.extents(x);
    let (rank, n_pairs) = (extents.len(), b.extents(cos)[b.ty(cos).rank() - 1]);
    let is_half = attrs.str("layout") == "half";
    let (side, pair) = if is_half { (rank - 1, rank) } else { (rank, rank - 1) };
    let mut paired = extents.clone();
    paired.push(2);
    (paired[side], paired[pair]) = (2, n_pairs);
    let mut turning = extents.clone();
    turning[rank - 1] = 2 * n_pairs;
    let first = part(b, x, 0, &turning);
    let pairs = b.reshape(first, &paired);
    let partners = exchanged(b, pairs, side);
    let shape = b.ty(pairs).shape.clone();
    let signed = signed(b, sin, is_half, if attrs.bool("inverse") { -1.0 } else { 1.0 });
    let rows: &[usize] = if b.ty(cos).rank() == 2 { &[rank - 2] } else { &[0, rank - 2] };
    let cos = b.broadcast_axes(cos, &[rows, &[pair]].concat(), &shape);
    let signed = b.broadcast_axes(signed, &[rows, &[rank - 1, rank]].concat(), &shape);
    let y = b.map(&[pairs, partners, cos, signed], |v| v[0] * v[2] + v[1] * v[3]);
    let y = b.reshape(y, &turning);
    joined(b, y, x)
}

/// Sines `[…, N]` as factors of the partners of both sides of each pair: `-sin` and `sin`, times `sign`. The result is a
/// small table, `[…, 2, N]` for halves, `[…, N, 2]` for neighbours, which kernels read beside the cosines.
fn signed(b: &mut Builder, sin: Value, is_half: bool, sign: f64) -> Value {
    let mut extents = b.extents(sin);
    let last = extents.len() - 1;
    let (side, pair) = if is_half { (last, last + 1) } else { (last + 1, last) };
    extents.insert(side, 2);
    let ty = Type::new(b.dtype(sin), &extents);
    let axes: Vec<usize> = (0..last).chain([pair]).collect();
    let both = b.broadcast_axes(sin, &axes, &ty.shape);
    let number = b.iota(side, ty.with_dtype(DType::I32));
    b.map(&[both, number], |v| E::select(v[1].eq(0i64), v[0] * -sign, v[0] * sign))
}

/// The other element of each pair.
fn exchanged(b: &mut Builder, pairs: Value, side: usize) -> Value {
    let extents = b.extents(pairs);
    let (mut start, mut step) = (vec![0; extents.len()], vec![1; extents.len()]);
    (start[side], step[side]) = (1, -1);
    b.slice(pairs, &start, &extents, &step)
}

/// `count` elements of the last axis from `start` on.
fn part(b: &mut Builder, x: Value, start: usize, extents: &[usize]) -> Value {
    if b.extents(x) == extents {
        return x;
    }
    let mut starts = vec![0; extents.len()];
    starts[extents.len() - 1] = start;
    b.slice(x, &starts, extents, &vec![1; extents.len()])
}

/// `y`, and after it the elements of `x` along the last axis that `y` lacks.
fn joined(b: &mut Builder, y: Value, x: Value) -> Value {
    let (extents, last) = (b.extents(x), b.ty(x).rank() - 1);
    let n_turned = b.extents(y)[last];
    if n_turned == extents[last] {
        return y;
    }
    let mut missing = vec![0; extents.len()];
    missing[last] = extents[last] - n_turned;
    let longer = b.pad(y, &vec![0; extents.len()], &missing, engine_core::ir::Literal::Float(0.0));
    let element = b.iota(last, b.ty(x).with_dtype(DType::I32));
    b.map(&[element, longer, x], |v| E::select(v[0].lt(n_turned as i64), v[1], v[2]))
}
