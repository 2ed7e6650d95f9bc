//! Rotary position embeddings from tables.

use crate::rotation::{attrs, expect_rows, positions, positions_spec, rotated};
use engine_core::ir::{Builder, DType, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// [`rotary`](crate::rotary()) by tables of cosines and sines, `[P, N]`, for angles of another kind. A row at position p
/// turns by row p of the tables. A position outside the tables is an index error.
pub fn apply_rotary_embedding() -> OpForm {
    OpForm::new(
        "apply_rotary_embedding",
        "Turns pairs of elements of each row by angles from a table, at its position.",
    )
    .follows_operands()
    .input("x", "rows of queries or keys, […, S, D]")
    .input("cos", "[P, N], the cosines of N angles at each of P positions; 2·N elements of a row turn")
    .input("sin", "the sines, of the same type")
    .inputs([positions_spec()])
    .attrs(attrs())
    .types(|types, _| {
        let n_dims = expect_tables(&types[1], &types[2])?;
        expect_rows("apply_rotary_embedding", &types[0], n_dims, types.get(3).map(|ty| (3, ty)))?;
        Ok(vec![types[0].clone()])
    })
    .expand(|b, call| vec![turned(b, call)])
    .example(
        "a quarter turn at position 1",
        "apply_rotary_embedding(a, b, c)",
        &[("f32[2, 2]", &[1., 2., 1., 2.]), ("f32[3, 1]", &[1., 0., -1.]), ("f32[3, 1]", &[0., 1., 0.])],
        &[("f32[2, 2]", &[1., 2., -2., 1.])],
    )
}

/// The number of elements that these tables turn, if it is known.
fn expect_tables(cos: &Type, sin: &Type) -> Result<Option<usize>, TypeIssue> {
    cos.expect_dtype("apply_rotary_embedding", 1, DType::is_float, "floats")?;
    match &cos.shape[..] {
        [_, n_pairs] if sin == cos => Ok(n_pairs.fixed().map(|n| 2 * n)),
        _ => Err(TypeIssue::new(format!("`apply_rotary_embedding` by tables {cos} and {sin}"))
            .at(2, format!("this is {sin}"))
            .help("both tables are [P, N], of one type")),
    }
}

fn turned(b: &mut Builder, call: &Lowering) -> Value {
    let x = b.widen(call.inputs[0]);
    let n_positions = b.extents(call.inputs[1])[0];
    let at = positions(b, x, call.inputs.get(3).copied());
    let at = b.check_index(at, n_positions);
    let tables = [1, 2].map(|operand| {
        let table = b.cast(call.inputs[operand], b.dtype(x));
        b.gather(table, at, 0, 0)
    });
    let y = rotated(b, x, tables, call.attrs);
    b.cast(y, b.dtype(call.inputs[0]))
}
