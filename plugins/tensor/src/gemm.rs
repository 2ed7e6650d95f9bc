//! `gemm` and `addmm`.

use crate::matmul::{expect_matrix, product_type};
use engine_core::ir::{Attrs, Builder, MatmulSpec, Type, Value, broadcast_shapes};
use engine_core::op::{AttrSpec, OpForm, TypeIssue};

/// `alpha · op(a) · op(b) + beta · c`, where op transposes on request and c broadcasts, such as a bias row. If the
/// contracted axis is empty it is `beta · c`, or 0.
pub fn gemm() -> OpForm {
    OpForm::new("gemm", "Multiplies two matrices, either of them transposed if asked to, and adds a third.")
        .rounds_operands()
        .input("a", "[m, k], or [k, m] if transposed")
        .input("b", "[k, n], or [n, k] if transposed")
        .optional("c", "the addend; it broadcasts to [m, n]")
        .attr(AttrSpec::flag("trans_a", "whether the left is transposed", false))
        .attr(AttrSpec::flag("trans_b", "whether the right is transposed", false))
        .attr(alpha())
        .attr(beta())
        .types(|types, attrs| {
            let a = oriented("gemm", 0, &types[0], attrs.bool("trans_a"))?;
            let b = oriented("gemm", 1, &types[1], attrs.bool("trans_b"))?;
            let y = product_type(&a, &b)?;
            types.get(2).map_or(Ok(()), |c| expect_addend("gemm", 2, c, &y))?;
            Ok(vec![y])
        })
        .expand(|b, call| {
            let lhs_axis = if call.attrs.bool("trans_a") { 0 } else { 1 };
            let rhs_axis = if call.attrs.bool("trans_b") { 1 } else { 0 };
            let spec = MatmulSpec::new(vec![], vec![(lhs_axis, rhs_axis)]);
            let y = b.matmul(call.inputs[0], call.inputs[1], spec);
            vec![scaled_sum(b, y, call.inputs.get(2).copied(), call.attrs)]
        })
        .example(
            "with a bias row",
            "gemm(a, b, c)",
            &[("f32[1, 2]", &[1., 2.]), ("f32[2, 2]", &[1., 2., 3., 4.]), ("f32[2]", &[10., 20.])],
            &[("f32[1, 2]", &[17., 30.])],
        )
        .example(
            "transposed and scaled",
            "gemm(a, b, trans_b=true, alpha=2.0)",
            &[("f32[1, 2]", &[1., 2.]), ("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[1, 2]", &[10., 22.])],
        )
}

/// `beta · c + alpha · a · b`. c broadcasts, and is ignored if beta is 0.
pub fn addmm() -> OpForm {
    OpForm::new("addmm", "Adds a matrix product to a tensor.")
        .rounds_operands()
        .input("c", "the base; it broadcasts to [m, n]")
        .input("a", "[m, k]")
        .input("b", "[k, n]")
        .attr(alpha())
        .attr(beta())
        .types(|types, _| {
            expect_matrix("addmm", 1, &types[1])?;
            expect_matrix("addmm", 2, &types[2])?;
            let y = product_type(&types[1], &types[2])?;
            expect_addend("addmm", 0, &types[0], &y)?;
            Ok(vec![y])
        })
        .expand(|b, call| {
            let y = b.mm(call.inputs[1], call.inputs[2]);
            vec![scaled_sum(b, y, Some(call.inputs[0]), call.attrs)]
        })
        .example(
            "half of a bias",
            "addmm(a, b, c, beta=0.5)",
            &[("f32[2]", &[10., 20.]), ("f32[1, 2]", &[1., 2.]), ("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[1, 2]", &[12., 20.])],
        )
}

fn alpha() -> AttrSpec {
    AttrSpec::float("alpha", "factor of the product", 1.0)
}

fn beta() -> AttrSpec {
    AttrSpec::float("beta", "factor of the addend", 1.0)
}

fn oriented(op: &str, operand: usize, ty: &Type, transposed: bool) -> Result<Type, TypeIssue> {
    expect_matrix(op, operand, ty)?;
    let mut ty = ty.clone();
    if transposed {
        ty.shape.reverse();
    }
    Ok(ty)
}

/// Checks that `c` broadcasts to a matmul of type `y` without changing its shape.
pub fn expect_addend(op: &str, operand: usize, c: &Type, y: &Type) -> Result<(), TypeIssue> {
    let fits = broadcast_shapes(&[c.clone(), y.clone()]).as_ref() == Some(&y.shape) && c.dtype == y.dtype;
    if fits {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` cannot add {c} to {y}"))
        .at(operand, format!("this is {c}"))
        .help("trailing axes must agree or be 1, and the types must be the same"))
}

fn scaled_sum(b: &mut Builder, product: Value, addend: Option<Value>, attrs: &Attrs) -> Value {
    let y = scaled(b, product, attrs.float("alpha"));
    match addend {
        Some(c) if attrs.float("beta") != 0.0 => {
            let c = scaled(b, c, attrs.float("beta"));
            b.map(&[y, c], |v| v[0] + v[1])
        }
        _ => y,
    }
}

fn scaled(b: &mut Builder, x: Value, factor: f64) -> Value {
    if factor == 1.0 { x } else { b.map(&[x], |v| v[0] * factor) }
}
