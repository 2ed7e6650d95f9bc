//! Attributes against the type of a result.

use crate::ir::{Attr, AttrKind, AttrSpec, DType, TypeIssue};

/// Checks that a setting can be an element of that type, or be compared with one.
pub(super) fn check_element(spec: &AttrSpec, attr: Option<&Attr>, dtype: DType) -> Result<(), TypeIssue> {
    let Some(Attr::Lit(literal)) = attr else { return Ok(()) };
    let is_fit = match spec.kind {
        AttrKind::Element => literal.element(dtype).is_some(),
        AttrKind::Bound => dtype.is_float() || !literal.as_f64().is_nan(),
        _ => true,
    };
    if is_fit {
        return Ok(());
    }
    let issue = TypeIssue::new(format!("`{literal}` is no element of {dtype}")).at_setting(&spec.name);
    Err(issue.help(format!(
        "`{}` becomes an element of the result, which is {dtype}: {}",
        spec.name,
        range_of(dtype)
    )))
}

/// The elements of a type, in words for users.
fn range_of(dtype: DType) -> String {
    match dtype.int_range() {
        Some((low, high)) => format!("whole numbers from {low} to {high}"),
        None if dtype == DType::Bool => "`true` or `false`".into(),
        None => format!("numbers up to {:e}, and infinite ones", dtype.largest()),
    }
}
