//! Other names of ops.

use super::{Example, Grad, Lower, Lowering, OpForm, Role, checked};
use crate::ir::{Builder, Value};

impl OpForm {
    /// This op under the name that other systems give it. `call` is the call of its first example.
    pub fn alias(self, name: &str, call: &'static str) -> OpForm {
        let target = self.name;
        OpForm {
            name: name.into(),
            summary: format!("Another name of `{target}`."),
            lower: Lower::expand(move |b, call| forward(b, call, &target)),
            grad: Grad::Derive,
            examples: self.examples.into_iter().take(1).map(|example| Example { call, ..example }).collect(),
            role: Role::Plain,
            ..self
        }
    }
}

/// The results of the same call of another op.
fn forward(b: &mut Builder, call: &Lowering, target: &str) -> Vec<Value> {
    checked(b.call(target, call.inputs, call.attrs.clone()))
}
