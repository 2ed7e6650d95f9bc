//! Shared parts of optimizers.

use engine_core::ir::{Attrs, Builder, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, Lower, Role, TypeIssue, TypeRule};

/// Parameter, gradient, learning rate, then the slots.
pub fn operands(slots: &[(&str, &str)]) -> Vec<InputSpec> {
    let fixed = [
        InputSpec::required("param", "the parameter"),
        InputSpec::required("grad", "its gradient, of the same type"),
        InputSpec::required("lr", "the learning rate, `f32[]`"),
    ];
    fixed.into_iter().chain(slots.iter().map(|(name, doc)| InputSpec::required(name, doc))).collect()
}

/// Names of the results: the next parameter and slots.
pub fn results(slots: &[(&str, &str)]) -> Vec<String> {
    ["param"]
        .into_iter()
        .chain(slots.iter().map(|(name, _)| *name))
        .map(|name| format!("{name}_next"))
        .collect()
}

/// The role that lets a training stage use the op.
pub fn role(slots: &[(&str, &str)]) -> Role {
    Role::Optimizer { slots: slots.iter().map(|(name, _)| name.to_string()).collect() }
}

/// Parameter, gradient and slots have one float type, and the rate is a scalar. Results have the parameter's type.
pub fn types() -> TypeRule {
    TypeRule::custom(|types, _| update_types(types))
}

/// The types of [`types`].
pub fn update_types(types: &[Type]) -> Result<Vec<Type>, TypeIssue> {
    let param = &types[0];
    if !param.dtype.is_float() {
        return Err(TypeIssue::new(format!("a parameter of {} cannot be trained", param.dtype))
            .at(0, format!("this is {param}"))
            .help("make it f32"));
    }
    if types[2].rank() != 0 {
        return Err(TypeIssue::new(format!("the learning rate is {}, not a scalar", types[2]))
            .at(2, "must be `f32[]`"));
    }
    for (operand, ty) in types.iter().enumerate().filter(|(operand, _)| *operand != 2) {
        if ty != param {
            return Err(TypeIssue::new(format!("{ty} beside a parameter of {param}"))
                .at(operand, format!("must be {param} too")));
        }
    }
    Ok(vec![param.clone(); types.len() - 2])
}

/// An update on operands of one type, f32 or wider, independent of the types of parameter and rate. Small floats are
/// rounded once, at the end.
pub fn widened(step: impl Fn(&mut Builder, &[Value], &Attrs) -> Vec<Value> + Send + Sync + 'static) -> Lower {
    Lower::expand(move |b, call| {
        let dtype = b.dtype(call.inputs[0]);
        let wide: Vec<Value> = call.inputs.iter().map(|&x| b.cast(x, dtype.accumulator())).collect();
        step(b, &wide, call.attrs).into_iter().map(|y| b.cast(y, dtype)).collect()
    })
}

/// `weight_decay` and `maximize`.
pub fn decay_attrs(decay: f64, doc: &str) -> Vec<AttrSpec> {
    vec![
        AttrSpec::with_default("weight_decay", doc, AttrKind::Float, decay).at_least(0.0),
        AttrSpec::with_default("maximize", "climb instead of descend", AttrKind::Bool, false),
    ]
}

/// The gradient, negated for maximizing, and with an L2 penalty added if `coupled`.
pub fn effective_gradient(param: E, grad: E, attrs: &Attrs, coupled: bool) -> E {
    let grad = if attrs.bool("maximize") { -grad } else { grad };
    let decay = attrs.float("weight_decay");
    if coupled && decay != 0.0 { grad + param * decay } else { grad }
}
