//! Batches of matrices: their types, and expressions of them.

use engine_core::ir::{
    Attrs, Binary, Builder, DType, Dim, E, Literal, MatmulSpec, Monoid, Scalar, Type, Unary, Value,
};
use engine_core::op::{TypeIssue, checked};

/// Refuses other types than matrices of `f32` or `f64` along the last two axes.
pub fn expect_matrices(op: &str, operand: usize, ty: &Type) -> Result<(), TypeIssue> {
    ty.expect_dtype(op, operand, |dtype| matches!(dtype, DType::F32 | DType::F64), "f32 or f64")?;
    match ty.rank() {
        0 | 1 => Err(TypeIssue::new(format!("`{op}` of {ty}, which is no matrix"))
            .at(operand, format!("this is {ty}"))
            .help("give at least two axes")),
        _ => Ok(()),
    }
}

/// Refuses matrices that are not square.
pub fn expect_square(op: &str, operand: usize, ty: &Type) -> Result<(), TypeIssue> {
    expect_matrices(op, operand, ty)?;
    match ty.shape[ty.rank() - 2] == ty.shape[ty.rank() - 1] {
        true => Ok(()),
        false => {
            Err(TypeIssue::new(format!("`{op}` takes square matrices")).at(operand, format!("this is {ty}")))
        }
    }
}

/// The extents of the last two axes, which must be known.
pub fn known_extents(op: &str, ty: &Type) -> Result<[usize; 2], TypeIssue> {
    expect_matrices(op, 0, ty)?;
    match ty.shape[ty.rank() - 2..] {
        [Dim::Fixed(rows), Dim::Fixed(columns)] => Ok([rows, columns]),
        _ => Err(TypeIssue::new(format!("`{op}` of matrices whose extents are not known"))
            .at(0, format!("this is {ty}"))
            .help("give the last two axes as numbers or names of `dims`")),
    }
}

/// The largest extent that one block factors or solves for. Larger matrices are cut into blocks of it, and what is left
/// of them is products.
pub const BLOCK: usize = 64;

/// Refuses matrices whose extents are not known, or whose last one is above the block.
pub fn expect_small(op: &str, ty: &Type) -> Result<(), TypeIssue> {
    match known_extents(op, ty)?[1] {
        ..=BLOCK => Ok(()),
        n => Err(TypeIssue::new(format!("`{op}` of {n} columns, where {BLOCK} are the most"))
            .at(0, format!("this is {ty}"))),
    }
}

/// Rows and columns of the last two axes.
pub fn sides(b: &Builder, x: Value) -> [usize; 2] {
    let extents = b.extents(x);
    [2, 1].map(|from_end| extents[extents.len() - from_end])
}

/// The part of each matrix that begins at a row and a column.
pub fn part(b: &mut Builder, x: Value, start: [usize; 2], count: [usize; 2]) -> Value {
    let mut counts = b.extents(x);
    let rank = counts.len();
    let mut starts = vec![0; rank];
    starts[rank - 2..].copy_from_slice(&start);
    counts[rank - 2..].copy_from_slice(&count);
    b.slice(x, &starts, &counts, &vec![1; rank])
}

/// Matrices of the given sides that have the parts at their rows and columns, and zeros elsewhere.
pub fn assembled(b: &mut Builder, parts: &[(Value, [usize; 2])], whole: [usize; 2]) -> Value {
    let padded: Vec<Value> = parts.iter().map(|&(x, start)| placed(b, x, start, whole)).collect();
    match padded.into_iter().reduce(|sum, x| b.add(sum, x)) {
        Some(whole) => whole,
        None => engine_core::bug!("a matrix has parts"),
    }
}

fn placed(b: &mut Builder, x: Value, start: [usize; 2], whole: [usize; 2]) -> Value {
    let (own, rank) = (sides(b, x), b.ty(x).rank());
    let [mut low, mut high] = [vec![0; rank], vec![0; rank]];
    for axis in 0..2 {
        low[rank - 2 + axis] = start[axis];
        high[rank - 2 + axis] = whole[axis] - own[axis] - start[axis];
    }
    b.pad(x, &low, &high, Literal::Float(0.0))
}

/// A call of an op whose operands fit.
pub fn call(b: &mut Builder, op: &str, inputs: &[Value], attrs: Attrs) -> Vec<Value> {
    checked(b.call(op, inputs, attrs))
}

/// Rows and columns exchanged.
pub fn transposed(b: &mut Builder, x: Value) -> Value {
    let rank = b.ty(x).rank();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    b.permute(x, &perm)
}

/// `x · y`, matrix by matrix.
pub fn product(b: &mut Builder, x: Value, y: Value) -> Value {
    let lead = b.ty(x).rank() - 2;
    let batch = (0..lead).map(|axis| (axis, axis)).collect();
    b.matmul(x, y, MatmulSpec::new(batch, vec![(lead + 1, lead)]))
}

/// `x · yᵀ`, matrix by matrix.
pub fn product_by_rows(b: &mut Builder, x: Value, y: Value) -> Value {
    let lead = b.ty(x).rank() - 2;
    let batch = (0..lead).map(|axis| (axis, axis)).collect();
    b.matmul(x, y, MatmulSpec::new(batch, vec![(lead + 1, lead + 1)]))
}

/// Whether row and column of each element compare so, such as `Ge` for the lower triangle.
pub fn where_row(b: &mut Builder, compare: Binary, like: Value) -> Value {
    let ty = b.ty(like).with_dtype(DType::I32);
    let [row, column] = [2, 1].map(|from_end| b.iota(ty.rank() - from_end, ty.clone()));
    b.binary(compare, row, column)
}

/// The elements of `x` where row and column compare so, and 0 elsewhere.
pub fn only(b: &mut Builder, compare: Binary, x: Value) -> Value {
    let kept = where_row(b, compare, x);
    let zero = b.full_like(x, 0.0);
    b.scalar(Scalar::Select, &[kept, x, zero])
}

/// The norms of the rows, as a column: `[…, rows, 1]`.
pub fn row_norms(b: &mut Builder, x: Value) -> Value {
    let last = b.ty(x).rank() - 1;
    let squares = b.mul(x, x);
    let sums = b.sum(squares, &[last]);
    let norms = b.unary(Unary::Sqrt, sums);
    let mut extents = b.extents(norms);
    extents.push(1);
    b.reshape(norms, &extents)
}

/// Rows and others of the same number, each pair times 1 or -1, such that the row's element of largest magnitude is
/// positive.
pub fn signed(b: &mut Builder, rows: Value, others: Value) -> [Value; 2] {
    let last = b.ty(rows).rank() - 1;
    let mut extents = b.extents(rows);
    extents[last] = 1;
    let [high, low] = [Monoid::Max, Monoid::Min].map(|monoid| {
        let extreme = b.reduce(monoid, rows, &[last]);
        b.reshape(extreme, &extents)
    });
    [rows, others].map(|x| b.map(&[x, high, low], |v| E::select((v[1] + v[2]).lt(0.0), -v[0], v[0])))
}
