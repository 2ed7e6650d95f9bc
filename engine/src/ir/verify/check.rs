//! The result of a check, and checks that the others share.

use crate::ir::Type;
use crate::ir::TypeIssue;

pub(super) type Check = Result<(), TypeIssue>;

pub(super) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(TypeIssue::new(message())) }
}

pub(super) fn same_types(expected: &[Type], given: &[Type]) -> Check {
    ensure(expected == given, || format!("the result is {}, not {}", list(expected), list(given)))
}

pub(super) fn list(types: &[Type]) -> String {
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn same_type(expected: Type, given: &Type) -> Check {
    same_types(&[expected], std::slice::from_ref(given))
}
