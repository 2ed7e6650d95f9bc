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
    /// Floating point, compared and hashed by bits: `-0.0` and `0.0` differ, and all NaN are equal.
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

    /// Converts to an element of `dtype`, by the rules of [`Scalar::Cast`](super::Scalar::Cast). Integers saturate at
    /// the limits of their type, and floats beyond the range become infinite. Every constant of a graph is made here.
    /// Floats keep excess digits, so that a device rounds them once.
    pub fn cast(&self, dtype: DType) -> Literal {
        match dtype.int_range() {
            Some((low, high)) => Literal::Int(self.as_i64().clamp(low, high)),
            None if dtype == DType::Bool => Literal::Bool(self.as_f64() != 0.0),
            None => Literal::Float(match self.as_f64() {
                x if is_beyond(x, dtype) => f64::INFINITY.copysign(x),
                x => x,
            }),
        }
    }

    /// The element of `dtype`, rounded to the digits of that type.
    pub fn rounded(&self, dtype: DType) -> Literal {
        match self.cast(dtype) {
            Literal::Float(x) => Literal::Float(held(x, dtype)),
            whole => whole,
        }
    }

    /// The largest finite element of a float type below this number.
    pub fn below(&self, dtype: DType) -> f64 {
        let bound = self.as_f64();
        let mut near = held(bound, dtype);
        while near >= bound || near == f64::INFINITY {
            near = next_below(near, dtype);
        }
        near
    }

    /// The element of `dtype` with exactly this value. It is `None` for a fraction among integers, or a number beyond
    /// the range. Excess digits of floats are ignored.
    pub fn element(&self, dtype: DType) -> Option<Literal> {
        let element = self.cast(dtype);
        let is_same = match (self, element) {
            (Literal::Int(n), Literal::Int(m)) => *n == m,
            (literal, Literal::Float(_)) => match literal.as_f64() {
                x if x.is_finite() => x.abs() <= dtype.largest(),
                _ => true,
            },
            // As a float, the largest 64-bit integer becomes its successor.
            (literal, element) => literal.as_f64() == element.as_f64() && literal.as_f64() < 2f64.powi(63),
        };
        is_same.then_some(element)
    }
}

/// A float rounded to its type.
fn held(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f64(x).to_f64(),
        DType::BF16 => half::bf16::from_f64(x).to_f64(),
        DType::F32 => f64::from(x as f32),
        _ => x,
    }
}

/// The element before this one in a float type. Elements of one sign are ordered like their bits.
fn next_below(x: f64, dtype: DType) -> f64 {
    let next = |bits: u16| match bits {
        0 | 0x8000 => 0x8001,
        _ if bits < 0x8000 => bits - 1,
        _ => bits + 1,
    };
    match dtype {
        DType::F16 => half::f16::from_bits(next(half::f16::from_f64(x).to_bits())).to_f64(),
        DType::BF16 => half::bf16::from_bits(next(half::bf16::from_f64(x).to_bits())).to_f64(),
        DType::F32 => f64::from((x as f32).next_down()),
        _ => x.next_down(),
    }
}

/// Whether a finite number rounds to an infinite one.
fn is_beyond(x: f64, dtype: DType) -> bool {
    x.is_finite() && held(x, dtype).is_infinite()
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
    /// No value: `none`.
    None,
    /// A number or a truth value.
    Lit(Literal),
    /// Text, or the value of a choice.
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

/// All attributes of a call with defaults filled in, sorted by name.
///
/// The typed getters panic on a missing or ill-typed attribute. Each call is checked against its op's form when it is
/// made, so such an attribute is a bug in the form.
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

    /// An integer, or `None`.
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

    /// A float, or `None`.
    pub fn opt_float(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Attr::None => None,
            _ => Some(self.float(name)),
        }
    }

    /// A number or truth value as it was written.
    pub fn literal(&self, name: &str) -> Literal {
        match self.get(name) {
            Attr::Lit(literal) => *literal,
            other => crate::bug!("attribute `{name}` is {other}, not a number"),
        }
    }

    /// A number as it was written, or `None`.
    pub fn opt_literal(&self, name: &str) -> Option<Literal> {
        match self.get(name) {
            Attr::None => None,
            _ => Some(self.literal(name)),
        }
    }

    /// A truth value.
    pub fn bool(&self, name: &str) -> bool {
        match self.get(name) {
            Attr::Lit(Literal::Bool(b)) => *b,
            other => crate::bug!("attribute `{name}` is {other}, not a truth value"),
        }
    }

    /// An attribute of kind [`Mode`](super::AttrKind::Mode). It may still be open in a graph that no stage has set
    /// up. The op then behaves as in training.
    pub fn trains(&self, name: &str) -> bool {
        *self.get(name) == Attr::None || self.bool(name)
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

    /// A list of integers. A single integer counts as a list of one.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Attr::Ints(items) => items.clone(),
            Attr::Lit(lit) => vec![lit.as_i64()],
            other => crate::bug!("attribute `{name}` is {other}, not a list of integers"),
        }
    }

    /// A list of integers, or `None`.
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
