//! Forms and registries as graphs see them, and the way back.

use super::form::{Lower, OpForm};
use super::kernel::{KernelCall, KernelForm};
use super::registry::Registry;
use crate::ir::{AttrSpec, Attrs, Builder, Call, Foreign, Inst, OpInterface, OpSet, Scalar, Type, TypeIssue};
use std::any::Any;
use std::sync::Arc;

impl OpInterface for OpForm {
    fn name(&self) -> &str {
        &self.name
    }

    fn attrs(&self) -> &[AttrSpec] {
        &self.attrs
    }

    fn infer(&self, inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
        self.infer(inputs, attrs)
    }

    fn is_opaque(&self) -> bool {
        matches!(self.lower, Lower::Kernel(_))
    }
}

impl Call {
    /// The form of the op.
    pub fn form(&self) -> &OpForm {
        let op: &dyn Any = &*self.op;
        op.downcast_ref().unwrap_or_else(|| crate::bug!("`{}` has no form", self.op.name()))
    }
}

impl KernelCall {
    /// The implementations of the op.
    pub fn form(&self) -> &KernelForm {
        match &self.call.form().lower {
            Lower::Kernel(form) => form,
            _ => crate::bug!("`{}` is not opaque", self.call.form().name),
        }
    }
}

impl OpSet for Registry {
    fn find(&self, name: &str) -> Option<Arc<dyn OpInterface>> {
        self.op(name).map(|form| form as Arc<dyn OpInterface>)
    }

    fn nearest(&self, name: &str) -> Option<&str> {
        self.nearest(name)
    }

    fn foreign(&self, key: &str) -> Option<Arc<Foreign>> {
        self.ops().flat_map(|form| foreigns(form)).find(|foreign| &*foreign.key == key)
    }
}

impl<'a> Builder<'a> {
    /// The registry of the ops that can be called.
    pub fn registry(&self) -> &'a Registry {
        let ops: &dyn Any = self.ops;
        ops.downcast_ref().unwrap_or_else(|| crate::bug!("the ops of a builder are in no registry"))
    }
}

/// The foreign functions in the scalar body of an op whose settings all have defaults.
fn foreigns(form: &OpForm) -> Vec<Arc<Foreign>> {
    match &form.lower {
        Lower::Map(body) if form.attrs.iter().all(|spec| spec.default.is_some()) => {
            let insts = body(&form.fill_attrs(Attrs::default())).insts.into_iter();
            insts
                .filter_map(|inst| match inst {
                    Inst::Apply(Scalar::Foreign(foreign), _) => Some(foreign),
                    _ => None,
                })
                .collect()
        }
        _ => vec![],
    }
}
