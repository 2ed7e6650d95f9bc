//! Lookup and normalisation in one.

use engine_core::ir::{Attrs, Builder, DType, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// [`rms_norm`](crate::rms_norm) of the rows that `embedding` looks up. The table's gradient adds up at the tokens, that
/// of the weights over all of them.
pub fn embedding_rms_norm() -> OpForm {
    OpForm::new("embedding_rms_norm", "Looks tokens up in a table and scales each row to a mean square of 1.")
        .input("table", "[V, D], a row for each token")
        .input("idx", "tokens, of any shape")
        .optional("weight", "[D], a factor for each element of a row")
        .attr(AttrSpec::float("eps", "added to the mean square", 1e-6))
        .types(|types, _| Ok(vec![row_types(types)?]))
        .expand(|b, call| vec![looked_up(b, call)])
        .example(
            "a token twice",
            "embedding_rms_norm(a, b, c, eps=0.0)",
            &[("f32[2, 2]", &[9., 9., 3., -4.]), ("i32[2]", &[1., 1.]), ("f32[2]", &[1., 2.])],
            &[("f32[2, 2]", &[0.84852814, -2.2627417, 0.84852814, -2.2627417])],
        )
}

fn row_types(types: &[Type]) -> Result<Type, TypeIssue> {
    let (table, idx) = (&types[0], &types[1]);
    table.expect_dtype("embedding_rms_norm", 0, |dtype| dtype.is_float(), "floats")?;
    idx.expect_dtype("embedding_rms_norm", 1, DType::is_index, "integers other than u32")?;
    let weight_fits = types.get(2).is_none_or(|weight| {
        weight.dtype == table.dtype && table.shape.get(1..) == Some(weight.shape.as_slice())
    });
    if table.rank() != 2 || !weight_fits {
        return Err(TypeIssue::new(format!("`embedding_rms_norm` of a table {table}"))
            .at(0, format!("this is {table}"))
            .help("it takes a table [V, D] and, if any, weights [D] of the same type"));
    }
    let shape = idx.shape.iter().chain(&table.shape[1..]).cloned().collect();
    Ok(Type { dtype: table.dtype, shape })
}

fn looked_up(b: &mut Builder, call: &Lowering) -> Value {
    let rows = checked(b.call("embedding", &call.inputs[..2], Attrs::default()))[0];
    let operands: Vec<Value> = [rows].into_iter().chain(call.inputs.get(2).copied()).collect();
    let eps = Attrs::default().with("eps", call.attrs.get("eps").clone());
    checked(b.call("rms_norm", &operands, eps))[0]
}
