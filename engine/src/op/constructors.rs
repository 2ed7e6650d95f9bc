//! Constructors of forms. A form states its particulars; the fields that most ops share are filled in here.
//!
//! ```
//! # use engine_core::{ir::DType, op::OpForm};
//! OpForm::unary("softsign", "Divides each element by one more than its magnitude.", DType::is_float, |x| {
//!     x / (x.abs() + 1.0)
//! })
//! .avoiding(&[0.0])
//! .example("of both signs", "softsign(a)", &[("f32[2]", &[-1.0, 3.0])], &[("f32[2]", &[-0.5, 0.75])]);
//! ```

use super::{
    AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, Rounding, TypeIssue,
    TypeRule,
};
use crate::ir::{Attrs, Body, Builder, DType, E, Type, Value};
use std::sync::Arc;

/// Constructors.
impl OpForm {
    /// A form with a name and a summary, one result `y` and no attributes. Its gradient is derived, and tested by
    /// finite differences on operands from -2 to 2. Its family is the plugin that registers it. Operands, types and
    /// lowering are still missing.
    pub fn new(name: &str, summary: &str) -> OpForm {
        OpForm {
            name: name.into(),
            family: String::new(),
            summary: summary.into(),
            inputs: vec![],
            outputs: vec!["y".into()],
            attrs: vec![],
            types: TypeRule::custom(|_, _| crate::bug!("an op has no type rule")),
            lower: Lower::expand(|_, _| crate::bug!("an op has no lowering")),
            grad: Grad::Derive,
            check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
            examples: vec![],
            role: Role::Plain,
            rounding: Rounding::Never,
        }
    }

    /// An op that maps each element of an operand `x` to one of the same type.
    pub fn unary(name: &str, summary: &str, takes: fn(DType) -> bool, formula: fn(E) -> E) -> OpForm {
        let lower = Lower::Map(Arc::new(move |_| Body::new(1, |x| vec![formula(x[0])])));
        OpForm::new(name, summary).input("x", "any shape").takes(takes).lower(lower)
    }

    /// An op on pairs of elements of operands `a` and `b`, which broadcast.
    pub fn binary(name: &str, summary: &str, takes: fn(DType) -> bool, formula: fn(E, E) -> E) -> OpForm {
        OpForm::new(name, summary)
            .input("a", "the left operand")
            .input("b", "the right operand; it broadcasts with `a`")
            .takes(takes)
            .lower(Lower::Map(Arc::new(move |_| Body::new(2, |x| vec![formula(x[0], x[1])]))))
    }
}

/// Family, operands, results and attributes.
impl OpForm {
    /// This form as a member of a family other than its plugin.
    pub fn family(self, family: &str) -> OpForm {
        OpForm { family: family.into(), ..self }
    }

    /// This form with one more required operand.
    pub fn input(self, name: &str, doc: &str) -> OpForm {
        self.inputs([InputSpec::required(name, doc)])
    }

    /// This form with one more operand, which may be omitted.
    pub fn optional(self, name: &str, doc: &str) -> OpForm {
        self.inputs([InputSpec::optional(name, doc)])
    }

    /// This form with more operands.
    pub fn inputs(mut self, inputs: impl IntoIterator<Item = InputSpec>) -> OpForm {
        self.inputs.extend(inputs);
        self
    }

    /// This form with results of these names.
    pub fn results(self, names: &[&str]) -> OpForm {
        OpForm { outputs: names.iter().map(|name| name.to_string()).collect(), ..self }
    }

    /// This form with one more attribute.
    pub fn attr(self, attr: AttrSpec) -> OpForm {
        self.attrs([attr])
    }

    /// This form with more attributes.
    pub fn attrs(mut self, attrs: impl IntoIterator<Item = AttrSpec>) -> OpForm {
        self.attrs.extend(attrs);
        self
    }
}

/// Types, lowering, gradient and role.
impl OpForm {
    /// This form for operands that broadcast and have one of these element types, as the result has.
    pub fn takes(self, allowed: fn(DType) -> bool) -> OpForm {
        self.type_rule(TypeRule::Broadcast { allowed })
    }

    /// This form with a type rule of its own.
    pub fn types(
        self,
        rule: impl Fn(&[Type], &Attrs) -> Result<Vec<Type>, TypeIssue> + Send + Sync + 'static,
    ) -> OpForm {
        self.type_rule(TypeRule::custom(rule))
    }

    /// This form with a type rule.
    pub fn type_rule(self, types: TypeRule) -> OpForm {
        OpForm { types, ..self }
    }

    /// This form with a scalar body over its operands.
    pub fn map(self, formula: fn(&[E], &Attrs) -> E) -> OpForm {
        let n_params = self.inputs.len();
        self.lower(Lower::map_with(n_params, formula))
    }

    /// This form with an expansion to other ops and primitives.
    pub fn expand(
        self,
        rule: impl Fn(&mut Builder, &Lowering) -> Vec<Value> + Send + Sync + 'static,
    ) -> OpForm {
        self.lower(Lower::expand(rule))
    }

    /// This form with a lowering.
    pub fn lower(self, lower: Lower) -> OpForm {
        OpForm { lower, ..self }
    }

    /// This form with a gradient other than the derived one.
    pub fn grad(self, grad: Grad) -> OpForm {
        OpForm { grad, ..self }
    }

    /// This form without a gradient, for a reason that users are shown.
    pub fn no_grad(self, why: &'static str) -> OpForm {
        self.grad(Grad::None { why }).check(GradCheck::None { why: "there is no gradient" })
    }

    /// This form with a role beyond its lowering.
    pub fn role(self, role: Role) -> OpForm {
        OpForm { role, ..self }
    }
}

/// Tests.
impl OpForm {
    /// This form with another test of its gradient.
    pub fn check(self, check: GradCheck) -> OpForm {
        OpForm { check, ..self }
    }

    /// This form with its gradient tested on operands between two numbers.
    pub fn tested_on(mut self, low: f64, high: f64) -> OpForm {
        if let GradCheck::FiniteDifferences { range, .. } = &mut self.check {
            *range = (low, high);
        }
        self
    }

    /// This form with its gradient tested away from these discontinuities of the derivative.
    pub fn avoiding(mut self, places: &'static [f64]) -> OpForm {
        if let GradCheck::FiniteDifferences { avoid, .. } = &mut self.check {
            *avoid = places;
        }
        self
    }

    /// This form with more examples.
    pub fn examples(mut self, examples: impl IntoIterator<Item = Example>) -> OpForm {
        self.examples.extend(examples);
        self
    }

    /// This form with one more example: title, call, operands and results, as (type, elements).
    pub fn example(
        self,
        title: &'static str,
        call: &'static str,
        inputs: &[(&'static str, &[f64])],
        outputs: &[(&'static str, &[f64])],
    ) -> OpForm {
        self.examples([Example::new(title, call, inputs, outputs)])
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

/// Mixed precision.
impl OpForm {
    /// This form with operands that may be rounded to a half type; see [`Rounding::Operands`]. Its lowering must add up in
    /// `f32`.
    pub fn rounds_operands(self) -> OpForm {
        OpForm { rounding: Rounding::Operands, ..self }
    }

    /// This form for an op that follows the element type of its operands; see [`Rounding::Follows`]. Scalar bodies over
    /// broadcast operands do so without a declaration.
    pub fn follows_operands(self) -> OpForm {
        OpForm { rounding: Rounding::Follows, ..self }
    }

    /// The declared rounding, or that of a scalar body.
    pub fn rounding_rule(&self) -> Rounding {
        match (&self.lower, self.rounding) {
            (Lower::Map(_), Rounding::Never) => Rounding::Follows,
            (_, declared) => declared,
        }
    }
}
