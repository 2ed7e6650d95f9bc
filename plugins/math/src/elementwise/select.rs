//! `where`.

use engine_core::ir::{DType, E, Type, broadcast_shapes};
use engine_core::op::{OpForm, TypeIssue};

/// `a` where the condition holds, else `b`. The unselected operand has no influence: its NaN does not propagate, and
/// its gradient is 0.
pub fn select() -> OpForm {
    OpForm::new("where", "Chooses between two tensors element by element.")
        .input("condition", "truth values; it broadcasts with the others")
        .input("a", "taken where the condition holds")
        .input("b", "taken elsewhere; of the type of `a`")
        .types(|inputs, _| chosen_type(inputs).map(|ty| vec![ty]))
        .map(|x, _| E::select(x[0], x[1], x[2]))
        .example(
            "the unselected operand does not leak",
            "where(a, b, c)",
            &[("bool[3]", &[1.0, 0.0, 1.0]), ("f32[3]", &[1.0, f64::NAN, 3.0]), ("f32[]", &[-1.0])],
            &[("f32[3]", &[1.0, -1.0, 3.0])],
        )
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
