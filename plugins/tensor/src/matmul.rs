//! Matmuls.

use engine_core::ir::{Builder, DType, Dim, MatmulSpec, Type, Value, broadcast_shapes};
use engine_core::op::{AttrSpec, OpForm, TypeIssue, checked};

/// The matmul `[…, m, k] · […, k, n] -> […, m, n]`, with numpy's rules: leading axes broadcast, a vector is a row on
/// the left and a column on the right. Small floats accumulate in f32. With `wide` their sums are the result, and not rounded
/// to the small type.
pub fn matmul() -> OpForm {
    OpForm::new("matmul", "Multiplies matrices, or stacks of them.")
        .rounds_operands()
        .input("lhs", "[…, m, k] or [k]")
        .input("rhs", "[…, k, n] or [k]")
        .attr(AttrSpec::flag("wide", "whether products of halves are f32, and not rounded to halves", false))
        .types(|types, attrs| {
            let ty = product_type(&types[0], &types[1])?;
            let dtype = if attrs.bool("wide") { ty.dtype.accumulator() } else { ty.dtype };
            Ok(vec![ty.with_dtype(dtype)])
        })
        .expand(|b, call| {
            let (lhs, rhs, spec) = factors(b, call.inputs[0], call.inputs[1]);
            vec![match call.attrs.bool("wide") {
                true => b.matmul_wide(lhs, rhs, spec),
                false => b.matmul(lhs, rhs, spec),
            }]
        })
        .example(
            "two matrices",
            "matmul(a, b)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("f32[2, 1]", &[5., 6.])],
            &[("f32[2, 1]", &[17., 39.])],
        )
        .example(
            "one matrix with a stack of two",
            "matmul(a, b)",
            &[("f32[1, 2]", &[1., 2.]), ("f32[2, 2, 1]", &[1., 0., 0., 1.])],
            &[("f32[2, 1, 1]", &[1., 2.])],
        )
        .example(
            "halves whose product is beyond their range",
            "matmul(a, b, wide=true)",
            &[("f16[1, 2]", &[400., 1.]), ("f16[2, 1]", &[400., 0.5])],
            &[("f32[1, 1]", &[160000.5])],
        )
}

/// The matmul of two matrices, `[m, k] · [k, n]`.
pub fn mm() -> OpForm {
    OpForm::new("mm", "Multiplies two matrices.")
        .rounds_operands()
        .input("lhs", "[m, k]")
        .input("rhs", "[k, n]")
        .types(|types, _| {
            expect_matrix("mm", 0, &types[0])?;
            expect_matrix("mm", 1, &types[1])?;
            Ok(vec![product_type(&types[0], &types[1])?])
        })
        .expand(|b, call| vec![b.mm(call.inputs[0], call.inputs[1])])
        .example(
            "a row and a matrix",
            "mm(a, b)",
            &[("f32[1, 2]", &[1., 2.]), ("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[1, 2]", &[7., 10.])],
        )
}

/// Checks that an operand is a matrix.
pub fn expect_matrix(op: &str, operand: usize, ty: &Type) -> Result<(), TypeIssue> {
    if ty.rank() == 2 {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` takes matrices, not {ty}"))
        .at(operand, format!("this is {ty}"))
        .help("`matmul` takes any number of axes"))
}

/// The type of a matmul.
pub fn product_type(lhs: &Type, rhs: &Type) -> Result<Type, TypeIssue> {
    let (lhs, rhs) = aligned(lhs, rhs)?;
    let spec = spec_of(lhs.rank(), rhs.rank());
    Ok(Type { dtype: lhs.dtype, shape: spec.shape(&lhs, &rhs) })
}

/// A matmul, for operands that [`product_type`] admits.
pub fn product(b: &mut Builder, lhs: Value, rhs: Value) -> Value {
    let (lhs, rhs, spec) = factors(b, lhs, rhs);
    b.matmul(lhs, rhs, spec)
}

/// The factors with their leading axes broadcast, and the pairs of their axes.
fn factors(b: &mut Builder, lhs: Value, rhs: Value) -> (Value, Value, MatmulSpec) {
    let (l, r) = checked(aligned(b.ty(lhs), b.ty(rhs)));
    let spec = spec_of(l.rank(), r.rank());
    (b.broadcast_dims(lhs, &l.shape), b.broadcast_dims(rhs, &r.shape), spec)
}

/// Operand types with leading axes broadcast, if both sides have them.
fn aligned(lhs: &Type, rhs: &Type) -> Result<(Type, Type), TypeIssue> {
    let mismatch = |note: &str| {
        TypeIssue::new(format!("cannot multiply {lhs} and {rhs}")).at(1, format!("this is {rhs}")).help(note)
    };
    if lhs.dtype != rhs.dtype || lhs.dtype == DType::Bool {
        return Err(mismatch("both must be of one numeric type; convert one with `cast`"));
    }
    let (Some(inner), Some(_)) = (lhs.shape.last(), rhs.shape.last()) else {
        return Err(mismatch("a scalar is multiplied by `*`"));
    };
    if *inner != rhs.shape[rhs.rank().saturating_sub(2)] {
        return Err(mismatch("the last extent of the left must be the second last of the right"));
    }
    if lhs.rank() < 2 || rhs.rank() <= 2 {
        return Ok((lhs.clone(), rhs.clone()));
    }
    let lead = |ty: &Type| Type { dtype: ty.dtype, shape: ty.shape[..ty.rank() - 2].to_vec() };
    let batch = broadcast_shapes(&[lead(lhs), lead(rhs)])
        .ok_or_else(|| mismatch("leading axes must agree or be 1"))?;
    let with_batch = |ty: &Type| -> Type {
        let shape: Vec<Dim> = batch.iter().chain(&ty.shape[ty.rank() - 2..]).cloned().collect();
        Type { dtype: ty.dtype, shape }
    };
    Ok((with_batch(lhs), with_batch(rhs)))
}

/// The batch axes and the contracted axes, for aligned operands.
fn spec_of(lhs_rank: usize, rhs_rank: usize) -> MatmulSpec {
    let n_batch = if lhs_rank < 2 || rhs_rank <= 2 { 0 } else { lhs_rank - 2 };
    MatmulSpec::new(
        (0..n_batch).map(|axis| (axis, axis)).collect(),
        vec![(lhs_rank - 1, rhs_rank.saturating_sub(2))],
    )
}
