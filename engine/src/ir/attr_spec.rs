//! The attributes that a call of an op may have: kinds, ranges and defaults.

use super::{Attr, Attrs, Literal};

/// The kind of an attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrKind {
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A truth value.
    Bool,
    /// Whether the op behaves as in training. If it is open, the stage decides.
    Mode,
    /// Any text.
    Str,
    /// One word of a list.
    Choice(Vec<String>),
    /// An element type.
    DType,
    /// A list of integers. One integer counts as a list of one.
    Ints,
    /// A list of extents.
    Shape,
    /// An element of the result: a number or truth value of its type.
    Element,
    /// A number that is compared with elements of the result. Beyond the range of their type, it saturates.
    Bound,
}

/// Half a sentence for users: "a whole number".
impl std::fmt::Display for AttrKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AttrKind::Int => "a whole number",
            AttrKind::Float | AttrKind::Bound => "a number",
            AttrKind::Bool | AttrKind::Mode => "`true` or `false`",
            AttrKind::Str => "a string",
            AttrKind::Choice(choices) => return write!(f, "one of `{}`", choices.join("`, `")),
            AttrKind::DType => "an element type such as `f32`",
            AttrKind::Ints => "a list of whole numbers",
            AttrKind::Shape => "a list of extents such as `[B, 64]`",
            AttrKind::Element => "a number or a truth value",
        })
    }
}

/// One attribute of an op.
#[derive(Clone, Debug)]
pub struct AttrSpec {
    /// Name.
    pub name: String,
    /// The meaning of the attribute, half a sentence; empty for a setting of a function, which has none.
    pub doc: String,
    /// The kind of its value.
    pub kind: AttrKind,
    /// The default. `None` if the attribute is required, `Some(Attr::None)` if it is optional without a default.
    pub default: Option<Attr>,
    /// The range of its numbers; unlimited if `None`.
    pub range: Option<AttrRange>,
}

/// The range of an attribute's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttrRange {
    /// The lower end, which is in the range.
    pub low: f64,
    /// The upper end, which may be infinite.
    pub high: f64,
    /// Whether the upper end is in the range. Infinity never is.
    pub is_closed: bool,
}

impl AttrRange {
    /// Whether a number is in the range.
    pub fn contains(&self, x: f64) -> bool {
        x.is_finite() && self.low <= x && (x < self.high || self.is_closed && x == self.high)
    }
}

impl std::fmt::Display for AttrRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AttrRange { low, high, is_closed } = self;
        match (high.is_finite(), is_closed) {
            (false, _) => write!(f, "a finite number of at least {low}"),
            (true, true) => write!(f, "a number between {low} and {high}"),
            (true, false) => write!(f, "a number from {low} to below {high}"),
        }
    }
}

impl AttrSpec {
    /// The help for a call that lacks the attribute.
    pub fn wanted(&self) -> String {
        match self.doc.is_empty() {
            true => format!("add `{}=…`: {}", self.name, self.kind),
            false => format!("add `{}=…`: {}", self.name, self.doc),
        }
    }

    /// Whether a value is a number outside the attribute's range.
    pub fn is_out_of_range(&self, value: &Attr) -> bool {
        match (self.range, value) {
            (Some(range), Attr::Lit(literal)) => !range.contains(literal.as_f64()),
            _ => false,
        }
    }

    /// Whether the attribute can hold `value`.
    pub fn admits(&self, value: &Attr) -> bool {
        !self.is_out_of_range(value) && self.is_of_kind(value)
    }

    fn is_of_kind(&self, value: &Attr) -> bool {
        match (&self.kind, value) {
            (_, Attr::None) => self.default == Some(Attr::None),
            (AttrKind::Int | AttrKind::Float | AttrKind::Ints, Attr::Lit(Literal::Int(_))) => true,
            (AttrKind::Float, Attr::Lit(Literal::Float(_))) => true,
            (AttrKind::Bool | AttrKind::Mode, Attr::Lit(Literal::Bool(_)))
            | (AttrKind::Element, Attr::Lit(_)) => true,
            (AttrKind::Bound, Attr::Lit(Literal::Int(_) | Literal::Float(_))) => true,
            (AttrKind::Str, Attr::Str(_)) | (AttrKind::DType, Attr::DType(_)) => true,
            (AttrKind::Choice(words), Attr::Str(word)) => words.iter().any(|known| **known == **word),
            (AttrKind::Ints | AttrKind::Shape, Attr::Ints(_)) | (AttrKind::Shape, Attr::Shape(_)) => true,
            _ => false,
        }
    }
}

impl Attrs {
    /// The attributes with defaults filled in. Given ones are unchanged.
    pub fn filled(mut self, specs: &[AttrSpec]) -> Attrs {
        for spec in specs {
            if let Some(default) = &spec.default {
                self.0.entry(spec.name.as_str().into()).or_insert_with(|| default.clone());
            }
        }
        self
    }
}
