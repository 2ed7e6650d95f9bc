//! The settings (attributes) of a call, as its op's form wants them.

use super::constants::Constants;
use super::names::Meaning;
use super::nodes::references;
use super::types::EXTENT_HELP;
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::ir::{Attr, Attrs, DType, Dim, Literal, Symbol};
use crate::op::{AttrKind, AttrSpec, OpForm};
use crate::text::expr::{Expr, ExprKind};
use std::collections::HashMap;

/// Reads the settings of a call and fills in defaults. `span` is where to say that one is missing.
pub(super) fn read(
    form: &OpForm,
    given: &[(Spanned<String>, Expr)],
    span: Span,
    known: Constants,
    diags: &mut Diagnostics,
) -> Option<Attrs> {
    let mut reader = Reader { form, known, diags };
    let mut attrs = Attrs::default();
    let mut sound = true;
    let mut first: HashMap<&str, Span> = HashMap::new();
    for (name, value) in given {
        let earlier = *first.entry(name).or_insert(name.span);
        let attr = match earlier == name.span {
            true => reader.setting(name, value),
            false => reader.repeated(name, earlier),
        };
        sound &= attr.is_some();
        attrs.0.extend(attr.map(|attr| (Symbol::from(name.as_str()), attr)));
    }
    for spec in form.attrs.iter().filter(|spec| spec.default.is_none()) {
        if !first.contains_key(spec.name.as_str()) {
            sound = false;
            let message = format!("`{}` needs the setting `{}`", form.name, spec.name);
            reader.diags.error(Code::E0109, span, message).help(spec.wanted());
        }
    }
    sound.then(|| form.fill_attrs(attrs))
}

struct Reader<'a> {
    form: &'a OpForm,
    known: Constants<'a>,
    diags: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn repeated(&mut self, name: &Spanned<String>, earlier: Span) -> Option<Attr> {
        self.diags
            .error(Code::E0013, name.span, format!("`{}` is given twice", name.value))
            .also(earlier, "first here");
        None
    }

    fn setting(&mut self, name: &Spanned<String>, value: &Expr) -> Option<Attr> {
        let Some(spec) = self.form.attrs.iter().find(|spec| spec.name == name.value) else {
            return self.unknown(name);
        };
        let attr = self.attr(spec, value);
        if attr.is_none()
            && let (AttrKind::Shape, ExprKind::List(items)) = (&spec.kind, &value.kind)
            && let Some((span, message)) = items.iter().find_map(|item| self.known.extent(item).err())
        {
            self.diags.error(Code::E0117, span, message).help(EXTENT_HELP);
        } else if attr.is_none() {
            let message = format!("`{}` must be {}", spec.name, spec.kind);
            let help = self.counts_to(spec, value);
            let help =
                help.or_else(|| (!spec.doc.is_empty()).then(|| format!("`{}`: {}", spec.name, spec.doc)));
            let error = self.diags.error(Code::E0108, value.span, message);
            help.into_iter().for_each(|help| _ = error.help(help));
        }
        if let (Some(attr), Some(range)) = (&attr, spec.range)
            && spec.is_out_of_range(attr)
        {
            let message = format!("`{}` cannot be {attr}", spec.name);
            self.diags.error(Code::E0015, value.span, message).help(format!("it is {range}"));
            return None;
        }
        attr
    }

    /// The help for an `arange` up to an extent that is open: the op that counts up to it.
    fn counts_to(&self, spec: &AttrSpec, value: &Expr) -> Option<String> {
        if (&*self.form.name, &*spec.name) != ("arange", "stop") {
            return None;
        }
        let is_extent = |name: &str| matches!(self.known.names.get(name), None | Some(Meaning::Extent(_)));
        let names = references(value);
        let extent = self.known.extent(value).ok().filter(|extent| extent.fixed().is_none())?;
        let is_open = names.iter().all(|name| is_extent(name.value));
        is_open.then(|| format!("if `{extent}` is an open extent, `iota(shape=[{extent}])` counts up to it"))
    }

    fn unknown(&mut self, name: &Spanned<String>) -> Option<Attr> {
        let help = self.form.other_setting(name);
        let message = format!("`{}` has no setting `{}`", self.form.name, name.value);
        self.diags.error(Code::E0107, name.span, message).help(help);
        None
    }

    /// The value of a setting, or nothing if it is of the wrong kind.
    fn attr(&self, spec: &AttrSpec, value: &Expr) -> Option<Attr> {
        // Some choices have this word as well.
        let is_choice =
            matches!(&spec.kind, AttrKind::Choice(choices) if choices.iter().any(|word| word == "none"));
        if !is_choice && matches!(&value.kind, ExprKind::Name(name) if name == "none") {
            return (spec.default == Some(Attr::None)).then_some(Attr::None);
        }
        match &spec.kind {
            AttrKind::Int => self.known.int(value).map(|n| Attr::Lit(Literal::Int(n))),
            AttrKind::Float => match self.known.literal(value)? {
                Literal::Bool(_) => None,
                number => Some(Attr::Lit(Literal::Float(number.as_f64()))),
            },
            AttrKind::Bool | AttrKind::Mode => match self.known.literal(value)? {
                Literal::Bool(b) => Some(Attr::Lit(Literal::Bool(b))),
                _ => None,
            },
            AttrKind::Element => self.known.literal(value).map(Attr::Lit),
            AttrKind::Bound => {
                self.known.literal(value).filter(|n| !matches!(n, Literal::Bool(_))).map(Attr::Lit)
            }
            AttrKind::Str => self.known.word(value).map(|word| Attr::Str(word.as_str().into())),
            AttrKind::Choice(choices) => self
                .known
                .word(value)
                .filter(|word| choices.contains(word))
                .map(|word| Attr::Str(word.as_str().into())),
            AttrKind::DType => self.dtype(value),
            AttrKind::Ints => self.ints(value).map(Attr::Ints),
            AttrKind::Shape => self.shape(value).map(Attr::Shape),
        }
    }

    fn dtype(&self, value: &Expr) -> Option<Attr> {
        if let Some(Attr::DType(dtype)) = self.known.setting(value) {
            return Some(Attr::DType(*dtype));
        }
        let word = self.known.word(value)?;
        DType::from_name(&word).map(Attr::DType)
    }

    fn ints(&self, value: &Expr) -> Option<Vec<i64>> {
        match (&value.kind, self.known.setting(value)) {
            (_, Some(Attr::Ints(items))) => Some(items.clone()),
            (ExprKind::List(items), _) => items.iter().map(|item| self.known.int(item)).collect(),
            _ => self.known.int(value).map(|n| vec![n]),
        }
    }

    fn shape(&self, value: &Expr) -> Option<Vec<Dim>> {
        match (&value.kind, self.known.setting(value)) {
            (_, Some(Attr::Shape(dims))) => Some(dims.clone()),
            (_, Some(Attr::Ints(items))) => {
                items.iter().map(|&n| usize::try_from(n).ok().map(Dim::Fixed)).collect()
            }
            (ExprKind::List(items), _) => items.iter().map(|item| self.known.extent(item).ok()).collect(),
            _ => None,
        }
    }
}
