//! Patterns of operands: `x: "[..., T, D]"` gives names to extents.

use super::super::constants::Constants;
use super::super::dims::Dims;
use super::super::names::{Meaning, Names};
use super::super::nodes::references;
use crate::ir::{Dim, Symbol, Type, read_extent};
use crate::op::TypeIssue;
use crate::text::expr::{Expr, ExprKind, Further, TypePattern};

/// Compares the type of operand number `at` with its pattern, and defines names that the pattern has first.
///
/// # Errors
/// If they do not fit.
pub(super) fn bind_operand(
    (at, input): (usize, &Symbol),
    pattern: &TypePattern,
    ty: &Type,
    names: &mut Names,
    dims: &Dims,
) -> Result<(), TypeIssue> {
    let misfit = |message: String| Err(TypeIssue::new(message).at(at, format!("this is {ty}")));
    if let Some(dtype) = pattern.dtype.as_ref().filter(|dtype| dtype.value != ty.dtype.name()) {
        return misfit(format!("`{input}` is {}, not {}", dtype.value, ty.dtype));
    }
    let n_named = pattern.dims.len();
    let is_open = pattern.further != Further::None;
    if ty.rank() < n_named || (ty.rank() > n_named && !is_open) {
        let axes = if n_named == 1 { "axis" } else { "axes" };
        let at_least = if is_open { "at least " } else { "" };
        return misfit(format!("`{input}` has {at_least}{n_named} {axes}, not {}", ty.rank()));
    }
    let first = if pattern.further == Further::First { ty.rank() - n_named } else { 0 };
    for (axis, (written, found)) in pattern.dims.iter().zip(&ty.shape[first..]).enumerate() {
        if let Err(wanted) = bind_extent(written, found, names, dims) {
            let misfit = misfit(format!("axis {} of `{input}` is {found}, not {wanted}", first + axis));
            return match settled(written, names, dims) {
                Some(help) => misfit.map_err(|issue| issue.help(help)),
                None => misfit,
            };
        }
    }
    Ok(())
}

/// Compares one extent with its pattern. A pattern with one unknown name as a factor defines that name.
///
/// # Errors
/// The extent or the form that is expected.
fn bind_extent(written: &Expr, found: &Dim, names: &mut Names, dims: &Dims) -> Result<(), String> {
    let unknown = match unknown_names(written, names, dims).as_slice() {
        [] => {
            let wanted = Constants { names, dims }.extent(written).map_err(|(_, message)| message)?;
            return if wanted == *found { Ok(()) } else { Err(wanted.to_string()) };
        }
        ["_"] => return Ok(()),
        [name] => Symbol::from(*name),
        _ => return Err("one unknown name".to_owned()),
    };
    let constants = Constants { names, dims };
    let with = |extent: Dim| {
        read_extent(written, &|name| match *name == *unknown {
            true => Some(extent.clone()),
            false => constants.extent(&Expr::new(written.span, ExprKind::Name(name.to_owned()))).ok(),
        })
    };
    let open = Dim::Named(unknown.clone());
    let multiple =
        || format!("a multiple of {}", with(Dim::Fixed(1)).map_or("it".into(), |dim| dim.to_string()));
    let whole = with(open.clone()).map_err(|(_, message)| message)?;
    let factor = whole.divided_by(&open).filter(|factor| !factor.names().contains(&&unknown));
    let extent = factor.and_then(|factor| found.divided_by(&factor)).ok_or_else(multiple)?;
    names.insert(unknown, Meaning::Extent(extent));
    Ok(())
}

/// The help for a pattern with a name that the pipeline's `dims` settle.
fn settled(written: &Expr, names: &Names, dims: &Dims) -> Option<String> {
    let mut used = references(written).into_iter().filter(|name| !names.contains_key(name.value));
    let (name, extent) = used.find_map(|name| Some((name.value, dims.get(name.value)?)))?;
    Some(format!(
        "`dims` of the pipeline make `{name}` {extent}; a name that is not among them takes any extent"
    ))
}

/// Names in a pattern that nothing has defined yet, each once.
fn unknown_names<'e>(written: &'e Expr, names: &Names, dims: &Dims) -> Vec<&'e str> {
    let mut unknown = vec![];
    for name in references(written) {
        let is_known = names.contains_key(name.value) || dims.contains_key(name.value);
        if !is_known && !unknown.contains(&name.value) {
            unknown.push(name.value);
        }
    }
    unknown
}
