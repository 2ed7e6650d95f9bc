//! Cosine similarity.

use crate::length::{eps, lengths};
use engine_core::ir::{Builder, DType, Dim, MatmulSpec, Type, Value, broadcast_shapes};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// `Σ a·b / ((‖a‖ + ε)(‖b‖ + ε))` along the last axis, computed in f32 or wider. The similarity of a row of zeros is 0.
/// Rows broadcast. If one side has an axis less, each of its rows is compared with all rows of the other side.
pub fn cosine_similarity() -> OpForm {
    OpForm::new("cosine_similarity", "Computes the cosine of the angle between rows.")
        .input("a", "[…, D]")
        .input("b", "[…, D], or […, N, D] to compare each row with N others")
        .attr(eps())
        .types(|types, _| Ok(vec![paired("cosine_similarity", &types[0], &types[1])?]))
        .expand(|b, call| vec![of_pairs(b, call)])
        .example(
            "two pairs",
            "cosine_similarity(a, b)",
            &[("f32[2, 2]", &[3., 4., 0., 0.]), ("f32[2, 2]", &[-4., 3., 1., 0.])],
            &[("f32[2]", &[0., 0.])],
        )
        .example(
            "one against two",
            "cosine_similarity(a, b)",
            &[("f32[1, 2]", &[3., 4.]), ("f32[1, 2, 2]", &[6., 8., 0., -2.])],
            &[("f32[1, 2]", &[1., -0.8])],
        )
}

/// The cosines of all rows of `a` with all rows of `b`: one matmul, divided by the lengths in its epilogue. `b_norms`
/// are known lengths of the rows of `b`, such as from `l2_normalize`.
pub fn cosine_matrix() -> OpForm {
    OpForm::new("cosine_matrix", "Computes the cosines of the angles between all rows of two matrices.")
        .input("a", "[…, M, D]")
        .input("b", "[…, N, D]")
        .optional("b_norms", "[…, N, 1], the lengths of the rows of `b`")
        .attr(eps())
        .types(|types, _| Ok(vec![matrix_type(types)?]))
        .expand(|b, call| vec![of_all(b, call)])
        .tested_on(0.5, 2.0)
        .example(
            "two rows with two",
            "cosine_matrix(a, b)",
            &[("f32[2, 2]", &[3., 4., 1., 0.]), ("f32[2, 2]", &[6., 8., 0., -2.])],
            &[("f32[2, 2]", &[1., -0.8, 0.6, 0.])],
        )
        .example(
            "with lengths that are known",
            "cosine_matrix(a, b, c)",
            &[("f32[1, 2]", &[3., 4.]), ("f32[1, 2]", &[6., 8.]), ("f32[1, 1]", &[10.])],
            &[("f32[1, 1]", &[1.])],
        )
}

/// The aligned operands: the side with an axis less gets one of extent 1 before its last.
fn lined_up(a: &Type, b: &Type) -> [Vec<Dim>; 2] {
    let lift = |shorter: &Type, longer: &Type| {
        let mut shape = shorter.shape.clone();
        if shorter.rank() + 1 == longer.rank() && shorter.rank() > 0 {
            shape.insert(shape.len() - 1, Dim::Fixed(1));
        }
        shape
    };
    [lift(a, b), lift(b, a)]
}

fn paired(op: &str, a: &Type, b: &Type) -> Result<Type, TypeIssue> {
    a.expect_dtype(op, 0, DType::is_float, "floats")?;
    let shapes = lined_up(a, b).map(|shape| Type { dtype: a.dtype, shape });
    let agree = a.rank() > 0 && b.rank() > 0 && a.dtype == b.dtype && a.shape.last() == b.shape.last();
    match broadcast_shapes(&shapes) {
        Some(mut shape) if agree => {
            shape.pop();
            Ok(Type { dtype: a.dtype, shape })
        }
        _ => Err(TypeIssue::new(format!("`{op}` of {a} and {b}"))
            .at(1, format!("this is {b}"))
            .help("rows must be of one type and length, and the other axes must broadcast")),
    }
}

fn of_pairs(b: &mut Builder, call: &Lowering) -> Value {
    let [x, y] = [call.inputs[0], call.inputs[1]];
    let dtype = b.dtype(x);
    let shapes = lined_up(b.ty(x), b.ty(y));
    let [x, y] = [x, y].map(|side| b.widen(side));
    let x_extents = Type { dtype, shape: shapes[0].clone() }.extents();
    let y_extents = Type { dtype, shape: shapes[1].clone() }.extents();
    let (x, y) = (b.reshape(x, &x_extents), b.reshape(y, &y_extents));
    let products = b.map(&[x, y], |v| v[0] * v[1]);
    let last = b.ty(products).rank() - 1;
    let dot = b.sum(products, &[last]);
    let [x_norm, y_norm] = [x, y].map(|side| {
        let axis = b.ty(side).rank() - 1;
        lengths(b, side, axis)
    });
    let eps = call.attrs.float("eps");
    let cosine = b.map(&[dot, x_norm, y_norm], |v| v[0] / ((v[1] + eps) * (v[2] + eps)));
    b.cast(cosine, dtype)
}

fn matrix_type(types: &[Type]) -> Result<Type, TypeIssue> {
    let (a, b) = (&types[0], &types[1]);
    a.expect_dtype("cosine_matrix", 0, DType::is_float, "floats")?;
    let rank = a.rank();
    let fits = rank >= 2
        && b.rank() == rank
        && a.dtype == b.dtype
        && a.shape[..rank - 2] == b.shape[..rank - 2]
        && a.shape[rank - 1] == b.shape[rank - 1];
    if !fits {
        return Err(TypeIssue::new(format!("`cosine_matrix` of {a} and {b}"))
            .at(1, format!("this is {b}"))
            .help("it takes […, M, D] and [… , N, D] of one type"));
    }
    if let Some(norms) = types.get(2) {
        let rows = b.shape[..rank - 1].iter().cloned().chain([Dim::Fixed(1)]).collect::<Vec<_>>();
        if norms.shape != rows || !norms.dtype.is_float() {
            return Err(TypeIssue::new(format!("`cosine_matrix` of rows {b} with lengths {norms}"))
                .at(2, format!("this is {norms}"))
                .help("there is one length for each row, with a last axis of 1"));
        }
    }
    Ok(Type { dtype: a.dtype, shape: all_pairs(rank).shape(a, b) })
}

fn all_pairs(rank: usize) -> MatmulSpec {
    MatmulSpec::new((0..rank - 2).map(|axis| (axis, axis)).collect(), vec![(rank - 1, rank - 1)])
}

fn of_all(b: &mut Builder, call: &Lowering) -> Value {
    let dtype = b.dtype(call.inputs[0]);
    let [x, y] = [call.inputs[0], call.inputs[1]].map(|side| b.widen(side));
    let rank = b.ty(x).rank();
    let dot = b.matmul(x, y, all_pairs(rank));
    let x_norm = lengths(b, x, rank - 1);
    let y_norm = match call.inputs.get(2) {
        Some(&norms) => {
            let wide = b.cast(norms, b.dtype(y));
            let rows = b.extents(y)[..rank - 1].to_vec();
            b.reshape(wide, &rows)
        }
        None => lengths(b, y, rank - 1),
    };
    let (by_row, by_column) = (b.unreduce(x_norm, &[rank - 1], dot), b.unreduce(y_norm, &[rank - 2], dot));
    let eps = call.attrs.float("eps");
    let cosine = b.map(&[dot, by_row, by_column], |v| v[0] / ((v[1] + eps) * (v[2] + eps)));
    b.cast(cosine, dtype)
}
