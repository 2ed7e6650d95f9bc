//! Statistics of a buffer.

use crate::axes::{operand, widen};
use crate::spread::variance_over;
use engine_core::ir::{Builder, DType, Monoid, Type, Unary, Value};
use engine_core::op::{Example, Grad, GradCheck, Lower, OpForm, Role, TypeRule};

/// Mean, standard deviation of the population, smallest and largest element; all 0 for an empty buffer.
pub fn statistics() -> OpForm {
    OpForm {
        name: "statistics".into(),
        family: "reduce".into(),
        summary: "Computes mean, standard deviation, smallest and largest of all elements; zeros for none."
            .into(),
        inputs: operand(),
        outputs: ["mean", "std", "min", "max"].map(String::from).to_vec(),
        attrs: vec![],
        types: TypeRule::custom(|types, _| {
            types[0].expect_dtype("statistics", 0, DType::is_float, "floats")?;
            Ok(vec![Type::scalar(types[0].dtype); 4])
        }),
        lower: Lower::expand(|b, call| all_four(b, call.inputs[0])),
        grad: Grad::None {
            why: "statistics describe a buffer; use `mean`, `std`, `amin` and `amax` to train",
        },
        check: GradCheck::None { why: "there is no gradient" },
        examples: vec![
            Example::new(
                "of four numbers",
                "statistics(a)",
                &[("f32[4]", &[1., 3., 5., 7.])],
                &[("f32[]", &[4.]), ("f32[]", &[2.236068]), ("f32[]", &[1.]), ("f32[]", &[7.])],
            ),
            Example::new(
                "of none",
                "statistics(a)",
                &[("f32[0]", &[])],
                &[("f32[]", &[0.]), ("f32[]", &[0.]), ("f32[]", &[0.]), ("f32[]", &[0.])],
            ),
        ],
        role: Role::Plain,
    }
}

fn all_four(b: &mut Builder, x: Value) -> Vec<Value> {
    let dtype = b.dtype(x);
    let n_elements = b.ty(x).numel();
    if n_elements == 0 {
        let zero = b.constant(0.0, dtype);
        return vec![zero; 4];
    }
    let x = widen(b, x);
    let axes: Vec<usize> = (0..b.ty(x).rank()).collect();
    let mean = b.mean(x, &axes);
    let variance = variance_over(b, x, &axes, n_elements as f64);
    let deviation = b.unary(Unary::Sqrt, variance);
    let smallest = b.reduce(Monoid::Min, x, &axes);
    let largest = b.reduce(Monoid::Max, x, &axes);
    [mean, deviation, smallest, largest].map(|y| b.cast(y, dtype)).to_vec()
}
