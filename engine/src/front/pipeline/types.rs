//! Written types become types.

use crate::diag::{Code, Diagnostics, Span, nearest};
use crate::front::Ron;
use crate::ir::{DType, Dim, Type};
use crate::text::expr::{DimExpr, TypeExpr, parse_type};
use indexmap::IndexMap;

/// Extents that the pipeline gives names: `dims: {"H": 256}`.
pub(super) type Dims = IndexMap<String, usize>;

/// A type in a string: `"f32[B, 784]"`.
pub(super) fn read_type(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Option<Type> {
    let text = value.string("a type", diags)?;
    let written = parse_type(text, diags)?;
    resolve(&written, dims, diags)
}

fn resolve(written: &TypeExpr, dims: &Dims, diags: &mut Diagnostics) -> Option<Type> {
    let dtype = read_dtype(&written.dtype, written.dtype.span, diags)?;
    let shape = written.dims.iter().map(|dim| match &dim.value {
        DimExpr::Fixed(n) => Dim::Fixed(*n),
        DimExpr::Named(name) => named_dim(name, dims),
    });
    let ty = Type { dtype, shape: shape.collect() };
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

/// The extent of that name: a number if the pipeline has fixed it.
pub(super) fn named_dim(name: &str, dims: &Dims) -> Dim {
    dims.get(name).map_or_else(|| Dim::Named(name.into()), |&n| Dim::Fixed(n))
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
