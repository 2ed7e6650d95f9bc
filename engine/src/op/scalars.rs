//! Ops along an axis that take scalars, too.

use super::form::{GradFn, TypeFn};
use super::{Grad, GradCall, Lower, Lowering, OpForm, TypeRule, checked};
use crate::ir::{Builder, Dim, Type, Value};

impl OpForm {
    /// This form for scalars as well, as PyTorch has it: a scalar counts as a vector of one element, whose axis is 0 or
    /// -1, and a result `[1]` is a scalar again. The form has one operand, a custom type rule and an expansion.
    pub fn takes_scalars(self) -> OpForm {
        let OpForm { types: TypeRule::Custom(types), lower: Lower::Expand(expand), .. } = &self else {
            crate::bug!("`{}` has no rule for vectors", self.name)
        };
        let (of_vectors, types, expand) = (types.clone(), types.clone(), expand.clone());
        let lower = Lower::expand(move |b, call| {
            let Some(x) = lifted(b, call.inputs[0]) else { return expand(b, call) };
            let results = expand(b, &Lowering { inputs: &[x], attrs: call.attrs });
            results.into_iter().map(|y| if b.extents(y) == [1] { b.reshape(y, &[]) } else { y }).collect()
        });
        let grad = match self.grad {
            Grad::Rule(rule) => {
                let of_vectors = of_vectors.clone();
                Grad::rule(move |b, call| match lifted(b, call.inputs[0]) {
                    Some(x) => vec![gradient(b, call, x, &of_vectors, &rule)],
                    None => rule(b, call),
                })
            }
            other => other,
        };
        let types = TypeRule::custom(move |given, attrs| match given[0].rank() {
            0 => Ok(of_vectors(&[vector(&given[0])], attrs)?.into_iter().map(scalar).collect()),
            _ => types(given, attrs),
        });
        OpForm { types, lower, grad, ..self }
    }
}

/// The gradient of a call on a scalar by the rule for vectors.
fn gradient(b: &mut Builder, call: &GradCall, x: Value, types: &TypeFn, rule: &GradFn) -> Option<Value> {
    let types = checked(types(&[b.ty(x).clone()], call.attrs));
    let extents: Vec<Vec<usize>> = types.iter().map(Type::extents).collect();
    let outputs: Vec<Value> = call.outputs.iter().zip(&extents).map(|(&y, to)| b.reshape(y, to)).collect();
    let grads: Vec<Option<Value>> =
        call.grads.iter().zip(&extents).map(|(g, to)| g.map(|g| b.reshape(g, to))).collect();
    let of_vector = GradCall { inputs: &[x], outputs: &outputs, grads: &grads, attrs: call.attrs };
    rule(b, &of_vector).into_iter().next().flatten().map(|g| b.reshape(g, &[]))
}

/// A scalar as a vector of one element.
fn lifted(b: &mut Builder, x: Value) -> Option<Value> {
    (b.ty(x).rank() == 0).then(|| b.reshape(x, &[1]))
}

fn vector(ty: &Type) -> Type {
    Type { dtype: ty.dtype, shape: vec![Dim::Fixed(1)] }
}

fn scalar(ty: Type) -> Type {
    if ty.shape == [Dim::Fixed(1)] { Type::scalar(ty.dtype) } else { ty }
}
