//! Definitions of parameters. Types and initialisers wait for the extents of a call.

use super::super::nodes::read_expr;
use crate::diag::{Diagnostics, Spanned};
use crate::front::{Fields, Ron, RonKind, entries};
use crate::text::expr::{Expr, TypeExpr, parse_type};

/// A parameter as written.
#[derive(Clone, Debug)]
pub(crate) struct ParamDef {
    pub(crate) name: Spanned<String>,
    pub(crate) ty: TypeExpr,
    pub(crate) init: Option<Ron>,
    /// Whether it is state, which a step hands to the next and no optimizer trains.
    pub(crate) is_state: bool,
    /// The condition under which it exists.
    pub(crate) when: Option<Expr>,
}

/// `params: {"w": (type: "f32[784, 256]", init: Kaiming)}`; a type alone starts at zero. A faulty definition is reported
/// and leaves its name.
pub(crate) fn read_param_defs(
    value: &Ron,
    diags: &mut Diagnostics,
) -> Vec<(Spanned<String>, Option<ParamDef>)> {
    let written = entries(value, "`params`", diags).unwrap_or_default();
    let read = |(name, value): (Spanned<&str>, &Ron)| {
        let name = Spanned::new(name.span, name.value.to_owned());
        (name.clone(), read_param(name, value, diags))
    };
    written.into_iter().map(read).collect()
}

fn read_param(name: Spanned<String>, value: &Ron, diags: &mut Diagnostics) -> Option<ParamDef> {
    if let RonKind::Str(text) = &value.kind {
        let ty = parse_type(text, diags)?;
        return Some(ParamDef { name, ty, init: None, is_state: false, when: None });
    }
    let mut fields = Fields::of(value, "a parameter", diags)?;
    let ty = fields.required("type").and_then(|v| parse_type(v.string("a type", diags)?, diags));
    let is_state = fields.optional("state").and_then(|v| v.boolean("`state`", diags)).unwrap_or(false);
    let init = fields.optional("init").cloned();
    let when = fields.optional("when").map(|v| read_expr(v, diags));
    fields.finish(diags);
    let when = match when {
        Some(condition) => Some(condition?),
        None => None,
    };
    Some(ParamDef { name, ty: ty?, init, is_state, when })
}
