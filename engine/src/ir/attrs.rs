//! Attributes: the compile-time settings of an op.

use super::{DType, Dim, Symbol};
use std::collections::BTreeMap;
use std::fmt;

/// A compile-time number or truth value.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// Truth value.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Floating point; compared and hashed by its bits, so that `-0.0` and `0.0` differ, but all NaN are one.
    Float(f64),
}

impl Literal {
    fn key(&self) -> (u8, u64) {
        match *self {
            Literal::Bool(b) => (0, b as u64),
            Literal::Int(i) => (1, i as u64),
            Literal::Float(x) if x.is_nan() => (2, f64::NAN.to_bits()),
            Literal::Float(x) => (2, x.to_bits()),
        }
    }

    /// The value as a float.
    pub fn as_f64(&self) -> f64 {
        match *self {
            Literal::Bool(b) => b as u8 as f64,
            Literal::Int(i) => i as f64,
            Literal::Float(x) => x,
        }
    }

    /// The value as an integer; floats are truncated.
    pub fn as_i64(&self) -> i64 {
        match *self {
            Literal::Bool(b) => b as i64,
            Literal::Int(i) => i,
            Literal::Float(x) => x as i64,
        }
    }

    /// The literal of the kind that `dtype` calls for.
    pub fn cast(&self, dtype: DType) -> Literal {
        match dtype {
            DType::Bool => Literal::Bool(self.as_f64() != 0.0),
            d if d.is_float() => Literal::Float(self.as_f64()),
            _ => Literal::Int(self.as_i64()),
        }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Literal {}
impl std::hash::Hash for Literal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state)
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Bool(b) => write!(f, "{b}"),
            Literal::Int(i) => write!(f, "{i}"),
            // `{:?}` is the shortest text that reads back to the same bits, and always looks like a float.
            Literal::Float(x) if x.is_nan() => f.write_str("nan"),
            Literal::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attr {
    /// Left open: `none`.
    None,
    /// A number or truth value.
    Lit(Literal),
    /// Text; also the value of a choice.
    Str(Symbol),
    /// An element type.
    DType(DType),
    /// A list of integers, such as axes.
    Ints(Vec<i64>),
    /// A list of extents.
    Shape(Vec<Dim>),
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::None => f.write_str("none"),
            Attr::Lit(lit) => write!(f, "{lit}"),
            Attr::Str(text) => write!(f, "{text:?}"),
            Attr::DType(dtype) => write!(f, "{dtype}"),
            Attr::Ints(items) => list(f, items),
            Attr::Shape(items) => list(f, items),
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    f.write_str("[")?;
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
    }
    f.write_str("]")
}

/// All attributes of a call, defaults filled in, sorted by name.
///
/// The typed getters panic on a missing or ill-typed attribute: calls are checked against the op's form when they
/// are made, so that would be a bug in the form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attrs(pub BTreeMap<Symbol, Attr>);

impl Attrs {
    /// Sets one attribute; for building calls in code.
    pub fn with(mut self, name: &str, value: Attr) -> Attrs {
        self.0.insert(name.into(), value);
        self
    }

    /// The attribute of that name.
    pub fn get(&self, name: &str) -> &Attr {
        self.0.get(name).unwrap_or_else(|| crate::bug!("attribute `{name}` is not in the op's form"))
    }

    /// An integer.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Attr::Lit(lit) => lit.as_i64(),
            other => crate::bug!("attribute `{name}` is {other}, not an integer"),
        }
    }

    /// An integer, or nothing if left open.
    pub fn opt_int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Attr::None => None,
            _ => Some(self.int(name)),
        }
    }

    /// A float.
    pub fn float(&self, name: &str) -> f64 {
        match self.get(name) {
            Attr::Lit(lit) => lit.as_f64(),
            other => crate::bug!("attribute `{name}` is {other}, not a number"),
        }
    }

    /// A float, or nothing if left open.
    pub fn opt_float(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Attr::None => None,
            _ => Some(self.float(name)),
        }
    }

    /// A truth value.
    pub fn bool(&self, name: &str) -> bool {
        match self.get(name) {
            Attr::Lit(Literal::Bool(b)) => *b,
            other => crate::bug!("attribute `{name}` is {other}, not a truth value"),
        }
    }

    /// A text or choice.
    pub fn str(&self, name: &str) -> &str {
        match self.get(name) {
            Attr::Str(text) => text,
            other => crate::bug!("attribute `{name}` is {other}, not a text"),
        }
    }

    /// An element type.
    pub fn dtype(&self, name: &str) -> DType {
        match self.get(name) {
            Attr::DType(dtype) => *dtype,
            other => crate::bug!("attribute `{name}` is {other}, not an element type"),
        }
    }

    /// A list of integers; a single integer counts as a list of one.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Attr::Ints(items) => items.clone(),
            Attr::Lit(lit) => vec![lit.as_i64()],
            other => crate::bug!("attribute `{name}` is {other}, not a list of integers"),
        }
    }

    /// A list of integers, or nothing if left open.
    pub fn opt_ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.get(name) {
            Attr::None => None,
            _ => Some(self.ints(name)),
        }
    }

    /// A list of extents.
    pub fn shape(&self, name: &str) -> Vec<Dim> {
        match self.get(name) {
            Attr::Shape(dims) => dims.clone(),
            Attr::Ints(items) => items.iter().map(|&n| Dim::Fixed(n.max(0) as usize)).collect(),
            other => crate::bug!("attribute `{name}` is {other}, not a shape"),
        }
    }
}
