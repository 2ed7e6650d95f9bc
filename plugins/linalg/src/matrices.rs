//! Batches of matrices: their types, and expressions of them.

use engine_core::ir::{Attrs, Binary, Builder, Contract, DType, Dim, E, Monoid, Scalar, Type, Unary, Value};
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
    b.contract(x, y, Contract { batch, contracted: vec![(lead + 1, lead)] })
}

/// `x · yᵀ`, matrix by matrix.
pub fn product_by_rows(b: &mut Builder, x: Value, y: Value) -> Value {
    let lead = b.ty(x).rank() - 2;
    let batch = (0..lead).map(|axis| (axis, axis)).collect();
    b.contract(x, y, Contract { batch, contracted: vec![(lead + 1, lead + 1)] })
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
