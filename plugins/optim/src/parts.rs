//! Shared parts of optimizers.

use engine_core::ir::{Attrs, Builder, E, Type, Value};
use engine_core::op::{AttrSpec, InputSpec, Lower, OpForm, Role, TypeIssue};

/// The form of an optimizer, with operands parameter, gradient, learning rate and the slots. Results are the next
/// parameter and slots.
pub fn optimizer(name: &str, summary: &str, slots: &[(&str, &str)]) -> OpForm {
    let results: Vec<String> = ["param"]
        .into_iter()
        .chain(slots.iter().map(|slot| slot.0))
        .map(|name| format!("{name}_next"))
        .collect();
    let form = OpForm::new(name, summary)
        .input("param", "the parameter")
        .input("grad", "its gradient, of the same type")
        .input("lr", "the learning rate, `f32[]`")
        .inputs(slots.iter().map(|(name, doc)| InputSpec::required(name, doc)))
        .types(|types, _| update_types(types))
        .no_grad("an update is the end of a training step")
        .role(Role::Optimizer { slots: slots.iter().map(|slot| slot.0.to_owned()).collect() });
    OpForm { outputs: results, ..form }
}

/// Parameter, gradient and slots have one float type, and the rate is a scalar. Results have the parameter's type.
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
        AttrSpec::float("weight_decay", doc, decay).at_least(0.0),
        AttrSpec::flag("maximize", "climb instead of descend", false),
    ]
}

/// The gradient, negated for maximizing, and with an L2 penalty added if `coupled`.
pub fn effective_gradient(param: E, grad: E, attrs: &Attrs, coupled: bool) -> E {
    let grad = if attrs.bool("maximize") { -grad } else { grad };
    let decay = attrs.float("weight_decay");
    if coupled && decay != 0.0 { grad + param * decay } else { grad }
}

/// `beta1` and `beta2`.
pub fn moment_attrs() -> Vec<AttrSpec> {
    vec![
        AttrSpec::float("beta1", "how much of the mean stays", 0.9).below(0.0, 1.0),
        AttrSpec::float("beta2", "how much of the mean of squares stays", 0.999).below(0.0, 1.0),
    ]
}

/// The next running means of gradients and of their squares: `β₁m + (1-β₁)g` and `β₂v + (1-β₂)g²`.
pub fn moments(grad: E, m: E, v: E, attrs: &Attrs) -> [E; 2] {
    let (beta1, beta2) = (attrs.float("beta1"), attrs.float("beta2"));
    [m * beta1 + grad * (1.0 - beta1), v * beta2 + grad * grad * (1.0 - beta2)]
}

/// `1 - βᵗ` as `-expm1(t · ln β)`, in the type of `like`. The plain form loses its digits while t is small.
pub fn correction(b: &mut Builder, beta: f64, like: Value) -> Value {
    let step = b.step();
    let t = b.cast(step, b.dtype(like));
    b.map(&[t], |t| -((t[0] + 1.0) * beta.ln()).expm1())
}
