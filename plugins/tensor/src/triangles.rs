//! Triangles and diagonals: `tril`, `triu`, `eye`, `diag`.

use engine_core::ir::{Attrs, Binary, Builder, DType, Dim, Literal, Scalar, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// x on a diagonal of its last two axes and below, 0 above. Diagonal 0 is the main one, and 1 is the one above it.
pub fn tril() -> OpForm {
    triangle("tril", "Keeps the lower triangle of each matrix, and clears the rest.", Binary::Le).example(
        "the main diagonal and below",
        "tril(a)",
        &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
        &[("f32[2, 3]", &[1., 0., 0., 4., 5., 0.])],
    )
}

/// x on a diagonal of its last two axes and above, 0 below. Diagonal 0 is the main one, and 1 is the one above it.
pub fn triu() -> OpForm {
    triangle("triu", "Keeps the upper triangle of each matrix, and clears the rest.", Binary::Ge).example(
        "above the main diagonal",
        "triu(a, diagonal=1)",
        &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
        &[("f32[2, 3]", &[0., 2., 3., 0., 0., 6.])],
    )
}

fn triangle(name: &'static str, summary: &str, side: Binary) -> OpForm {
    OpForm::new(name, summary)
        .follows_operands()
        .input("x", "matrices, along the last two axes")
        .attr(diagonal())
        .types(move |types, _| match types[0].rank() {
            0 | 1 => Err(TypeIssue::new(format!("`{name}` of {}, which is no matrix", types[0]))
                .at(0, format!("this is {}", types[0]))
                .help("give at least two axes")),
            _ => Ok(vec![types[0].clone()]),
        })
        .expand(move |b, call| {
            let x = call.inputs[0];
            let kept = beside(b, b.ty(x).clone(), call.attrs.int("diagonal"), side);
            let zero = b.full_like(x, 0.0);
            vec![b.scalar(Scalar::Select, &[kept, x, zero])]
        })
}

fn diagonal() -> AttrSpec {
    AttrSpec::int("diagonal", "0 for the main diagonal, 1 for the one above it, -1 for the one below", 0)
}

/// Beyond all diagonals.
const LARGEST: i64 = i32::MAX as i64;

/// Whether each element of the last two axes lies on a side of a diagonal, or on the diagonal itself.
fn beside(b: &mut Builder, ty: Type, diagonal: i64, side: Binary) -> Value {
    let ty = ty.with_dtype(DType::I32);
    let [row, column] = [2, 1].map(|from_end| b.iota(ty.rank() - from_end, ty.clone()));
    let offset = b.sub(column, row);
    let diagonal = b.full(Literal::Int(diagonal.clamp(-LARGEST, LARGEST)), ty);
    b.binary(side, offset, diagonal)
}

/// The matrix with ones on its main diagonal and zeros elsewhere.
pub fn eye() -> OpForm {
    OpForm::new("eye", "Makes a matrix with ones on its main diagonal.")
        .attr(AttrSpec::must("n", "rows", AttrKind::Int))
        .attr(AttrSpec::open("m", "columns; none for as many as rows", AttrKind::Int))
        .attr(AttrSpec::dtype("dtype", "its element type", DType::F32))
        .types(|_, attrs| Ok(vec![identity(attrs)?]))
        .expand(|b, call| {
            let ty = checked(identity(call.attrs));
            let is_one = beside(b, ty.clone(), 0, Binary::Eq);
            vec![b.cast(is_one, ty.dtype)]
        })
        .no_grad("a constant depends on nothing")
        .example("two rows of three", "eye(n=2, m=3)", &[], &[("f32[2, 3]", &[1., 0., 0., 0., 1., 0.])])
}

fn identity(attrs: &Attrs) -> Result<Type, TypeIssue> {
    let rows = attrs.int("n");
    let extent = |n: i64, name| {
        usize::try_from(n).map_err(|_| {
            TypeIssue::new(format!("`eye` cannot have {n} rows or columns"))
                .at_setting(name)
                .help("give at least 0")
        })
    };
    let (rows, columns) = (extent(rows, "n")?, extent(attrs.opt_int("m").unwrap_or(rows), "m")?);
    Ok(Type::new(attrs.dtype("dtype"), &[rows, columns]))
}

/// Of a vector: the matrix with the vector on a diagonal and 0 elsewhere. Of a matrix: the vector on a diagonal.
pub fn diag() -> OpForm {
    OpForm::new("diag", "Makes a diagonal matrix of a vector, or takes a diagonal of a matrix.")
        .follows_operands()
        .input("x", "a vector or a matrix")
        .attr(diagonal())
        .types(|types, attrs| Ok(vec![diag_type(&types[0], attrs.int("diagonal"))?]))
        .expand(|b, call| vec![diag_of(b, call)])
        .example(
            "a vector above the main diagonal",
            "diag(a, diagonal=1)",
            &[("f32[2]", &[1., 2.])],
            &[("f32[3, 3]", &[0., 1., 0., 0., 0., 2., 0., 0., 0.])],
        )
        .example(
            "the main diagonal of a matrix",
            "diag(a)",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
            &[("f32[2]", &[1., 5.])],
        )
}

fn diag_type(x: &Type, diagonal: i64) -> Result<Type, TypeIssue> {
    let shape = match &x.shape[..] {
        [n] => n.plus(&Dim::Fixed(diagonal.unsigned_abs() as usize)).map(|n| vec![n.clone(), n]),
        [rows, columns] if rows == columns && diagonal == 0 => Some(vec![rows.clone()]),
        [Dim::Fixed(rows), Dim::Fixed(columns)] => Some(vec![Dim::Fixed(length(*rows, *columns, diagonal))]),
        _ => None,
    };
    let issue = || TypeIssue::new(format!("`diag` of {x}")).at(0, format!("this is {x}"));
    let shape = shape.ok_or_else(|| issue().help("give a vector, or a matrix whose extents are known"))?;
    Ok(Type { dtype: x.dtype, shape })
}

/// The number of elements on a diagonal.
fn length(rows: usize, columns: usize, diagonal: i64) -> usize {
    let off = diagonal.unsigned_abs() as usize;
    if diagonal < 0 { rows.saturating_sub(off).min(columns) } else { columns.saturating_sub(off).min(rows) }
}

fn diag_of(b: &mut Builder, call: &Lowering) -> Value {
    let (x, diagonal) = (call.inputs[0], call.attrs.int("diagonal"));
    let off = diagonal.unsigned_abs() as usize;
    let extents = b.extents(x);
    if let &[rows, columns] = &extents[..] {
        let count = length(rows, columns, diagonal);
        let first = if diagonal < 0 { off * columns } else { off };
        let flat = b.reshape(x, &[rows * columns]);
        let start = if count == 0 { 0 } else { first };
        return b.slice(flat, &[start], &[count], &[if count < 2 { 1 } else { columns as i64 + 1 }]);
    }
    let ty = checked(diag_type(b.ty(x), diagonal));
    // The padded vector lies along the rows, or along the columns if the diagonal is below the main one.
    let longer = b.pad(x, &[0], &[off], Literal::Int(0));
    let spread = b.broadcast_axes(longer, &[(diagonal < 0) as usize], &ty.shape);
    let is_on = beside(b, ty.clone(), diagonal, Binary::Eq);
    let zero = b.full_like(spread, 0.0);
    b.scalar(Scalar::Select, &[is_on, spread, zero])
}
