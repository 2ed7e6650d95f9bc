//! Capacities, and what a capacity has room for.

use engine_core::ir::{Attrs, DType, Dim, Type};
use engine_core::op::{AttrKind, AttrSpec, TypeIssue};

/// `cap`.
pub fn cap(doc: &str) -> AttrSpec {
    AttrSpec::must("cap", doc, AttrKind::Int)
}

/// The capacity of a call.
pub fn capacity(op: &str, attrs: &Attrs, least: i64) -> Result<usize, TypeIssue> {
    let given = attrs.int("cap");
    let is_valid = (least..i64::from(i32::MAX)).contains(&given);
    usize::try_from(given).ok().filter(|_| is_valid).ok_or_else(|| {
        TypeIssue::new(format!("`{op}` of capacity {given}"))
            .at_setting("cap")
            .help(format!("it is at least {least}, and less than 2³¹"))
    })
}

/// The type of the limits of rows.
pub fn limits(op: &str, n_rows: &Dim) -> Result<Type, TypeIssue> {
    let shape = n_rows.plus(&Dim::Fixed(1)).map(|dim| vec![dim]);
    let shape = shape.ok_or_else(|| TypeIssue::new(format!("`{op}` of {n_rows} rows")))?;
    Ok(Type { dtype: DType::I32, shape })
}

/// Refuses more elements than `i32` counts.
pub fn expect_countable(op: &str, ty: &Type) -> Result<(), TypeIssue> {
    let numbers = ty.shape.iter().map(Dim::fixed).collect::<Option<Vec<usize>>>();
    let n = numbers.map_or(Some(0), |dims| dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim)));
    match n.is_some_and(|n| n < i32::MAX as usize) {
        true => Ok(()),
        false => Err(TypeIssue::new(format!("`{op}` of {ty}"))
            .at(0, format!("this is {ty}"))
            .help("positions are `i32`: take fewer than 2³¹ elements at a time")),
    }
}
