//! Written types become types.

use super::constants::Constants;
use crate::diag::{Code, Diagnostics, Span, nearest};
use crate::front::Ron;
use crate::ir::{DType, Type};
use crate::text::expr::{TypeExpr, parse_type};

/// The help of messages about extents.
pub(super) const EXTENT_HELP: &str = "an extent is a number, a name such as `B`, or arithmetic of them";

/// A type in a string: `"f32[B, 784]"`.
pub(super) fn read_type(value: &Ron, known: Constants, diags: &mut Diagnostics) -> Option<Type> {
    resolve(&parse_type(value.string("a type", diags)?, diags)?, known, diags)
}

/// A type as written, with the extents that are known.
pub(super) fn resolve(written: &TypeExpr, known: Constants, diags: &mut Diagnostics) -> Option<Type> {
    let dtype = read_dtype(&written.dtype, written.dtype.span, diags)?;
    let mut shape = vec![];
    for dim in &written.dims {
        match known.extent(dim) {
            Ok(extent) => shape.push(extent),
            Err((span, message)) => {
                diags.error(Code::E0117, span, message).help(EXTENT_HELP);
                return None;
            }
        }
    }
    let ty = Type { dtype, shape };
    check_size(&ty, written.span, diags).map(|()| ty)
}

/// The element type of that name.
pub(super) fn read_dtype(name: &str, span: Span, diags: &mut Diagnostics) -> Option<DType> {
    let dtype = DType::from_name(name);
    if dtype.is_none() {
        let names = DType::ALL.map(DType::name);
        let help = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("element types are {}", names.join(", ")),
        };
        diags.error(Code::E0111, span, format!("there is no element type `{name}`")).help(help);
    }
    dtype
}

/// Reports a tensor that no machine can hold.
pub(super) fn check_size(ty: &Type, span: Span, diags: &mut Diagnostics) -> Option<()> {
    if ty.is_holdable() {
        return Some(());
    }
    let message = format!("{ty} has more elements than a machine can hold");
    diags.error(Code::E0116, span, message).help("the limit is 2^40");
    None
}
