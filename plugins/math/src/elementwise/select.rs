//! `where`.

use engine_core::ir::{DType, E, Type, broadcast_shapes};
use engine_core::op::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeIssue, TypeRule};

/// `a` where the condition holds, else `b`. The unselected operand has no influence: its NaN does not propagate, and
/// its gradient is 0.
pub fn select() -> OpForm {
    OpForm {
        name: "where".into(),
        family: "elementwise".into(),
        summary: "Chooses between two tensors element by element.".into(),
        inputs: vec![
            InputSpec::required("condition", "truth values; it broadcasts with the others"),
            InputSpec::required("a", "taken where the condition holds"),
            InputSpec::required("b", "taken elsewhere; of the type of `a`"),
        ],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| chosen_type(inputs).map(|ty| vec![ty])),
        lower: Lower::map(3, |x| E::select(x[0], x[1], x[2])),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "the unselected operand does not leak",
            call: "where(a, b, c)",
            inputs: vec![
                ("bool[3]", vec![1.0, 0.0, 1.0]),
                ("f32[3]", vec![1.0, f64::NAN, 3.0]),
                ("f32[]", vec![-1.0]),
            ],
            outputs: vec![("f32[3]", vec![1.0, -1.0, 3.0])],
        }],
        role: Role::Plain,
    }
}

fn chosen_type(inputs: &[Type]) -> Result<Type, TypeIssue> {
    let [condition, a, b] = inputs else { return Err(TypeIssue::new("`where` takes 3 operands")) };
    if condition.dtype != DType::Bool {
        return Err(TypeIssue::new(format!("the condition of `where` is {condition}"))
            .at(0, format!("this is {condition}"))
            .help("compare it: `x != 0`"));
    }
    if a.dtype != b.dtype {
        return Err(TypeIssue::new(format!("`where` of {} and {}", a.dtype, b.dtype))
            .at(2, format!("this is {b}"))
            .help(format!("convert one of them, for example with `cast(x, dtype={})`", a.dtype)));
    }
    let shape = broadcast_shapes(inputs).ok_or_else(|| {
        TypeIssue::new(format!("cannot broadcast {condition} with {a} and {b}"))
            .help("trailing axes must agree or be 1")
    })?;
    Ok(Type { dtype: a.dtype, shape })
}
