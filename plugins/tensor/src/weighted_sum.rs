//! Weighted sums of rows.

use crate::matmul::{product, product_type};
use engine_core::ir::{Builder, MatmulSpec, Type, Value};
use engine_core::op::{OpForm, TypeIssue};

/// `Σₙ w[…, n] · v[…, n, d]`; values without leading axes are shared by all rows of weights.
pub fn weighted_sum() -> OpForm {
    OpForm::new("weighted_sum", "Adds up rows, each times its weight.")
        .rounds_operands()
        .input("weights", "[…, n]")
        .input("values", "[…, n, d]")
        .types(|types, _| Ok(vec![sum_type(&types[0], &types[1])?]))
        .expand(|b, call| vec![sum(b, call.inputs[0], call.inputs[1])])
        .example(
            "one row of weights",
            "weighted_sum(a, b)",
            &[("f32[1, 2]", &[0.25, 0.75]), ("f32[1, 2, 2]", &[1., 2., 3., 4.])],
            &[("f32[1, 2]", &[2.5, 3.5])],
        )
}

fn sum_type(weights: &Type, values: &Type) -> Result<Type, TypeIssue> {
    if values.rank() == 2 {
        return product_type(weights, values);
    }
    let lead = values.rank().saturating_sub(1);
    if weights.rank() == 0 || weights.shape != values.shape[..lead] || weights.dtype != values.dtype {
        return Err(TypeIssue::new(format!("`weighted_sum` of weights {weights} and values {values}"))
            .at(1, format!("this is {values}"))
            .help("values have the axes of the weights and one more"));
    }
    Ok(Type { dtype: values.dtype, shape: by_row(weights.rank()).shape(weights, values) })
}

fn sum(b: &mut Builder, weights: Value, values: Value) -> Value {
    if b.ty(values).rank() == 2 {
        return product(b, weights, values);
    }
    let spec = by_row(b.ty(weights).rank());
    b.matmul(weights, values, spec)
}

fn by_row(rank: usize) -> MatmulSpec {
    MatmulSpec::new((0..rank - 1).map(|axis| (axis, axis)).collect(), vec![(rank - 1, rank - 1)])
}
