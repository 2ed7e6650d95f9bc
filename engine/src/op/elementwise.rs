//! Forms of elementwise ops without attributes. Their common fields are filled in here.

use super::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule};
use crate::ir::{Body, DType, E};
use std::sync::Arc;

/// An op that maps each element `x` to one of the same type.
pub struct Unary {
    /// Unique, snake case.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Whether the op takes an element type.
    pub takes: fn(DType) -> bool,
    /// The result for one element.
    pub formula: fn(E) -> E,
    /// The gradient.
    pub grad: Grad,
    /// The test of the gradient.
    pub check: GradCheck,
    /// Worked examples.
    pub examples: Vec<Example>,
}

impl Unary {
    /// The form, as a member of `family`.
    pub fn form(self, family: &str) -> OpForm {
        let formula = self.formula;
        OpForm {
            name: self.name.into(),
            family: family.into(),
            summary: self.summary.into(),
            inputs: vec![InputSpec::required("x", "any shape")],
            outputs: vec!["y".into()],
            attrs: vec![],
            types: TypeRule::Broadcast { allowed: self.takes },
            lower: Lower::Map(Arc::new(move |_| Body::new(1, |x| vec![formula(x[0])]))),
            grad: self.grad,
            check: self.check,
            examples: self.examples,
            role: Role::Plain,
        }
    }
}

/// An op on pairs of elements of operands `a` and `b` that broadcast.
pub struct Binary {
    /// Unique, snake case.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Types of operands and result.
    pub types: TypeRule,
    /// The result for one pair.
    pub formula: fn(E, E) -> E,
    /// The gradient.
    pub grad: Grad,
    /// The test of the gradient.
    pub check: GradCheck,
    /// Worked examples.
    pub examples: Vec<Example>,
}

impl Binary {
    /// The form, as a member of `family`.
    pub fn form(self, family: &str) -> OpForm {
        let formula = self.formula;
        OpForm {
            name: self.name.into(),
            family: family.into(),
            summary: self.summary.into(),
            inputs: vec![
                InputSpec::required("a", "the left operand"),
                InputSpec::required("b", "the right operand; it broadcasts with `a`"),
            ],
            outputs: vec!["y".into()],
            attrs: vec![],
            types: self.types,
            lower: Lower::Map(Arc::new(move |_| Body::new(2, |x| vec![formula(x[0], x[1])]))),
            grad: self.grad,
            check: self.check,
            examples: self.examples,
            role: Role::Plain,
        }
    }
}

impl Grad {
    /// The gradient of an op of one operand from its result `y` and the upstream gradient `g`. The backward pass does
    /// not need the operand.
    pub fn by_result(formula: fn(y: E, g: E) -> E) -> Grad {
        Grad::rule(move |b, call| {
            vec![call.grads[0].map(|g| b.map(&[call.outputs[0], g], |v| formula(v[0], v[1])))]
        })
    }

    /// The gradient of an op of one operand `x` from the upstream gradient `g`.
    pub fn by_operand(formula: fn(x: E, g: E) -> E) -> Grad {
        Grad::rule(move |b, call| {
            vec![call.grads[0].map(|g| b.map(&[call.inputs[0], g], |v| formula(v[0], v[1])))]
        })
    }
}
