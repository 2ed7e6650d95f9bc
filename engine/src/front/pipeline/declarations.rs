//! Declarations: extents, data, inputs, parameters.

use super::constants::Constants;
use super::dims::Dims;
use super::function::read_param_defs;
use super::params::{declare, exists};
use super::set::mentions;
use super::types::read_type;
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::front::fields::report_unknown;
use crate::front::{Fields, Ron, RonKind, entries};
use crate::ir::{Attr, Symbol, Type};
use crate::pipeline::{DataDecl, InputDecl, ParamDecl};
use crate::text::lex::shorten;

/// `dims: {"H": 256}`
pub(super) fn read_dims(value: &Ron, root: &Ron, diags: &mut Diagnostics) -> Dims {
    let (mut dims, mentioned) = (Dims::new(), mentions(root));
    for (name, value) in entries(value, "`dims`", diags).unwrap_or_default() {
        let extent = value.integer("an extent", 0..=1 << 40, diags);
        dims.extend(extent.map(|extent| (name.value.to_owned(), extent)));
        if !mentioned.contains(name.value) {
            let message = format!("nothing uses the extent `{}`", name.value);
            diags
                .warning(Code::E0303, name.span, message)
                .help("types and expressions name it, or it is left out");
        }
    }
    dims
}

/// `data: {"digits": (source: "mnist", …)}`
pub(super) fn read_data(value: &Ron, known: Constants, diags: &mut Diagnostics) -> Vec<DataDecl> {
    let mut data = vec![];
    for (name, value) in entries(value, "`data`", diags).unwrap_or_default() {
        let Some(all) = entries(value, "a data source", diags) else {
            continue;
        };
        let source = all.iter().find(|(field, _)| field.value == "source");
        if source.is_none() {
            diags
                .error(Code::E0011, value.span, "a data source needs the field `source`")
                .help("add `source: \"mnist\"`, or another source that the engine knows");
        }
        let source = source.and_then(|(_, v)| v.word("`source`", diags)).map(|word| word.value.to_owned());
        let options = all.iter().filter(|(field, _)| field.value != "source");
        let options =
            options.filter_map(|(field, value)| Some((field.value.into(), option(value, known, diags)?)));
        let options = options.collect();
        data.push(DataDecl {
            name: name.value.into(),
            source: source.unwrap_or_default(),
            options,
            span: Some(name.span),
        });
    }
    data
}

/// A number, a truth value, a text, the name of an extent, or a list of whole numbers.
fn option(value: &Ron, known: Constants, diags: &mut Diagnostics) -> Option<Attr> {
    match &value.kind {
        RonKind::Name(name) if known.dims.contains_key(name) => Some(Attr::from(known.dims[name] as i64)),
        RonKind::Bool(b) => Some(Attr::from(*b)),
        RonKind::Float(x) => Some(Attr::from(*x)),
        RonKind::Str(_) => value.string("an option", diags).map(|text| Attr::from(&*text.to_string())),
        RonKind::List(items) => {
            let number = |item: &Ron| item.integer("an element", i64::MIN..=i64::MAX, diags);
            items.iter().map(number).collect::<Option<Vec<i64>>>().map(Attr::Ints)
        }
        _ => value.integer("an option", i64::MIN..=i64::MAX, diags).map(Attr::from),
    }
}

/// `inputs: {"image": (type: "u8[B, 784]", from: "digits.images")}`; a type alone is fed by the caller.
pub(super) fn read_inputs(
    value: &Ron,
    data: &[DataDecl],
    known: Constants,
    diags: &mut Diagnostics,
) -> Vec<(InputDecl, Option<Type>)> {
    let mut inputs = vec![];
    for (name, value) in entries(value, "`inputs`", diags).unwrap_or_default() {
        let (ty, from) = match &value.kind {
            RonKind::Str(_) => (read_input_type(value, known, diags), None),
            _ => read_input(value, data, known, diags),
        };
        inputs.push((InputDecl { name: name.value.into(), from, span: Some(name.span) }, ty));
    }
    inputs
}

/// The type of an input. Its extents bind names, so each is a number or a name alone.
fn read_input_type(value: &Ron, known: Constants, diags: &mut Diagnostics) -> Option<Type> {
    let ty = read_type(value, known, diags)?;
    let open = ty.shape.iter().find(|dim| dim.fixed().is_none() && dim.name().is_none());
    if let Some(dim) = open {
        diags
            .error(Code::E0117, value.span, format!("an input cannot have the extent `{dim}`"))
            .help("give the extent a name of its own, and compute with it in nodes");
        return None;
    }
    Some(ty)
}

type From = Option<(Symbol, Symbol)>;

fn read_input(
    value: &Ron,
    data: &[DataDecl],
    known: Constants,
    diags: &mut Diagnostics,
) -> (Option<Type>, From) {
    let Some(mut fields) = Fields::of(value, "an input", diags) else {
        return (None, None);
    };
    let ty = fields.required("type").and_then(|v| read_input_type(v, known, diags));
    let from = fields.optional("from").and_then(|v| read_path(v, "digits.images", data, diags));
    fields.finish(diags);
    (ty, from)
}

/// A data source of the pipeline and one of its fields or splits: `digits.images`.
pub(super) fn read_path(value: &Ron, example: &str, data: &[DataDecl], diags: &mut Diagnostics) -> From {
    let text = value.string("a part of a data source", diags)?;
    let Some((source, part)) = text.split_once('.') else {
        let message = format!("`{}` names no part of a data source", shorten(text));
        diags.error(Code::E0203, text.whole(), message).help(format!("it looks like `{example}`"));
        return None;
    };
    if !data.iter().any(|decl| &*decl.name == source) {
        let written = Spanned::new(text.span(0, source.len()), source);
        let known = data.iter().map(|decl| &*decl.name);
        report_unknown(Code::E0202, written, "there is no data source", known, diags);
        return None;
    }
    Some((source.into(), part.into()))
}

/// A parameter: its name, its place, and its declaration if that is sound.
pub(super) type Param = (Symbol, Span, Option<ParamDecl>);

/// `params: {"w1": (type: "f32[784, 256]", init: Kaiming)}`; a type alone starts at zero.
pub(super) fn read_params(value: &Ron, known: Constants, diags: &mut Diagnostics) -> Vec<Param> {
    let mut params = vec![];
    for (name, def) in read_param_defs(value, diags) {
        let symbol = Symbol::from(name.as_str());
        if def.as_ref().and_then(|def| exists(def, known, diags)) != Some(false) {
            let decl = def.and_then(|def| declare(&def, symbol.clone(), known, diags));
            params.push((symbol, name.span, decl));
        }
    }
    params
}
