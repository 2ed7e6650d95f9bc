//! Ops as graphs see them. Their whole forms are values of the module `op`.

use super::{AttrSpec, Attrs, Foreign, Type, TypeIssue};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What a graph must know of an op that it calls.
pub trait OpInterface: Any + fmt::Debug + Send + Sync {
    /// The name, which is unique in its set.
    fn name(&self) -> &str;

    /// The attributes that a call may have.
    fn attrs(&self) -> &[AttrSpec];

    /// Types of the results. The number of operands and the attributes are checked first.
    ///
    /// # Errors
    /// If operands or attributes do not fit.
    fn infer(&self, inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue>;

    /// Whether lowering keeps its calls.
    fn is_opaque(&self) -> bool;
}

/// The ops that a graph can call by name.
pub trait OpSet: Any {
    /// The op with that name.
    fn find(&self, name: &str) -> Option<Arc<dyn OpInterface>>;

    /// The known name closest to `name`, if one is close.
    fn nearest(&self, name: &str) -> Option<&str>;

    /// The foreign function with that key, if an op brings it.
    fn foreign(&self, key: &str) -> Option<Arc<Foreign>>;

    /// The issue of a name that no op has, with the name that was probably meant.
    fn unknown(&self, name: &str) -> TypeIssue {
        let issue = TypeIssue::new(format!("there is no op `{name}`"));
        match self.nearest(name) {
            Some(near) => issue.help(format!("did you mean `{near}`?")),
            None => issue,
        }
    }
}
