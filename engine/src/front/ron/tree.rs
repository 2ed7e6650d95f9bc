//! RON values as trees.

use crate::diag::{Span, Spanned};
use crate::text::Text;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ron {
    /// From its first to its last character.
    pub span: Span,
    /// The value.
    pub kind: RonKind,
}

/// The content of a value. Fields, items and entries keep the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum RonKind {
    /// `true`
    Bool(bool),
    /// `-3`, `0xff`, `1_000`
    Int(i128),
    /// `0.5`, `1e-3`, `inf`, `NaN`
    Float(f64),
    /// `'x'`
    Char(char),
    /// `"text"`, `r"text"`
    Str(Text),
    /// `[1, 2]`
    List(Vec<Ron>),
    /// `{"a": 1}`
    Map(Vec<(Ron, Ron)>),
    /// `(a: 1)`, `Point(x: 1, y: 2)`
    Struct {
        /// The word before the parenthesis.
        name: Option<Spanned<String>>,
        /// Names and values; a name may occur twice.
        fields: Vec<(Spanned<String>, Ron)>,
    },
    /// `(1, 2)`, `Constant(0.1)`; also `()`
    Tuple {
        /// The word before the parenthesis.
        name: Option<Spanned<String>>,
        /// The items.
        items: Vec<Ron>,
    },
    /// A word alone: `Auto`
    Name(String),
    /// `None`, `Some(1)`
    Option(Option<Box<Ron>>),
    /// Something unreadable; reported already.
    Error,
}

impl Ron {
    /// The name of this kind of value in messages, with its article.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            RonKind::Bool(_) => "a truth value",
            RonKind::Int(_) => "a whole number",
            RonKind::Float(_) => "a number",
            RonKind::Char(_) => "a character",
            RonKind::Str(_) => "a string",
            RonKind::List(_) => "a list",
            RonKind::Map(_) => "a map",
            RonKind::Struct { .. } => "a group of fields",
            RonKind::Tuple { .. } => "a group of values",
            RonKind::Name(_) => "a word",
            RonKind::Option(_) => "an optional value",
            RonKind::Error => "something unreadable",
        }
    }

    /// Whether it could not be read, which has been reported.
    pub fn is_error(&self) -> bool {
        matches!(self.kind, RonKind::Error)
    }
}
