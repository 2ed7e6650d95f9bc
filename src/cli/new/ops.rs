//! Ops in Rust. Each is a form with every field filled in: from it follow the type check, the kernels on every device,
//! fusion, the gradient, the page of `engine ops` and the tests.

use engine::core::ir::DType;
use engine::core::op::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule};

/// The ops of this family.
pub struct Ops;

impl engine::Plugin for Ops {
    fn name(&self) -> &str {
        "NAME"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![softsign(), centred()]
    }
}

/// A scalar body: x / (1 + |x|). It fuses into whatever stands beside it, and differentiates itself.
fn softsign() -> OpForm {
    OpForm {
        summary: "Divides each element by one more than its magnitude.".into(),
        lower: Lower::map(1, |x| x[0] / (x[0].abs() + 1.0)),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example::new(
            "of both signs",
            "softsign(a)",
            &[("f32[3]", &[-1.0, 0.0, 3.0])],
            &[("f32[3]", &[-0.5, 0.0, 0.75])],
        )],
        ..form("softsign")
    }
}

/// Written with other ops and primitives: the mean along the last axis, subtracted. It becomes one row kernel, with its
/// neighbours in it.
fn centred() -> OpForm {
    OpForm {
        summary: "Subtracts the mean along the last axis.".into(),
        lower: Lower::expand(|b, call| {
            let x = call.inputs[0];
            let mut extents = b.extents(x);
            let Some(axis) = extents.len().checked_sub(1) else { return vec![b.full_like(x, 0.0)] };
            let total = b.sum(x, &[axis]);
            let mean = b.scale(total, 1.0 / extents[axis] as f64);
            extents[axis] = 1;
            let mean = b.reshape(mean, &extents);
            vec![b.sub(x, mean)]
        }),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example::new(
            "of two rows",
            "centred(a)",
            &[("f32[2, 2]", &[1.0, 3.0, -4.0, 4.0])],
            &[("f32[2, 2]", &[-1.0, 1.0, -4.0, 4.0])],
        )],
        ..form("centred")
    }
}

/// What both have in common: one float operand, a result of its type.
fn form(name: &str) -> OpForm {
    OpForm {
        name: name.into(),
        family: "NAME".into(),
        summary: String::new(),
        inputs: vec![InputSpec::required("x", "the operand")],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map(1, |x| x[0]),
        grad: Grad::Derive,
        check: GradCheck::None { why: "to be filled in" },
        examples: vec![],
        role: Role::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::core::op::testing;

    #[test]
    fn the_forms_say_what_the_ops_do() {
        let engine = engine::Engine::bare().plugin(Ops);
        assert_eq!(testing::examples(&engine.registry), []);
        assert_eq!(testing::gradients(&engine.registry), []);
    }
}
