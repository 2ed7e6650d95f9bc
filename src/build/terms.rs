//! The terms of a built pipeline: expressions of nodes, and values of settings.

use std::sync::Arc;

/// A tensor of a pipeline: an input, a parameter, a node, or an expression of them.
///
/// A clone is the same tensor. An expression that is used several times is computed once: the builder makes it a node
/// and chooses its name.
#[derive(Clone, Debug)]
pub struct Expr(pub(super) Arc<Form>);

/// The form of an expression.
#[derive(Debug)]
pub(super) enum Form {
    /// An input, a parameter or a named node.
    Name(String),
    /// A number.
    Number(f64),
    /// `a + b`
    Infix(&'static str, [Expr; 2]),
    /// `-a`
    Minus(Expr),
    /// `op(a, b, axis=1)`
    Call { op: String, operands: Vec<Expr>, attrs: Vec<(String, Value)> },
}

/// The value of a setting of a pipeline, a stage or a call.
#[derive(Clone, Debug)]
pub enum Value {
    /// `true`
    Bool(bool),
    /// `3`
    Int(i64),
    /// `0.5`
    Float(f64),
    /// `"text"`
    Text(String),
    /// `Adam(lr: 0.1)`, or a word alone.
    Word(String, Vec<(String, Value)>),
    /// `[1, 2]`
    List(Vec<Value>),
    /// `{"a": 1}`
    Map(Vec<(String, Value)>),
    /// A tensor that a stage reads. It becomes a node with a name.
    Tensor(Expr),
}

impl Value {
    /// A word with a further field. A value of another kind becomes the field `value` of a word that nothing reads, so
    /// the mistake is reported when the pipeline is read.
    pub fn with(self, name: &str, value: impl Into<Value>) -> Value {
        match self {
            Value::Word(word, mut fields) => {
                fields.push((name.to_owned(), value.into()));
                Value::Word(word, fields)
            }
            other => {
                let misused = vec![("value".to_owned(), other), (name.to_owned(), value.into())];
                Value::Word("With".to_owned(), misused)
            }
        }
    }

    /// A map from names to values.
    pub fn map<V: Into<Value>>(entries: impl IntoIterator<Item = (&'static str, V)>) -> Value {
        Value::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }
}

macro_rules! from {
    ($($ty:ty => $make:expr),* $(,)?) => {$(
        impl From<$ty> for Value {
            fn from(value: $ty) -> Value {
                ($make)(value)
            }
        }
    )*};
}

from!(
    bool => Value::Bool,
    i32 => |value: i32| Value::Int(value.into()),
    i64 => Value::Int,
    u32 => |value: u32| Value::Int(value.into()),
    f64 => Value::Float,
    &str => |value: &str| Value::Text(value.to_owned()),
    String => Value::Text,
    Expr => Value::Tensor,
    &Expr => |value: &Expr| Value::Tensor(value.clone()),
);

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        // A number above i64 is no extent and no count; reading reports its negative stand-in.
        Value::Int(i64::try_from(value).unwrap_or(-1))
    }
}

impl<V: Into<Value>, const N: usize> From<[V; N]> for Value {
    fn from(values: [V; N]) -> Value {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(values: Vec<V>) -> Value {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

impl Value {
    /// Calls `visit` with every tensor.
    pub(super) fn tensors<'v>(&'v self, visit: &mut dyn FnMut(&'v Expr)) {
        match self {
            Value::Tensor(expr) => visit(expr),
            Value::List(values) => values.iter().for_each(|value| value.tensors(visit)),
            Value::Word(_, fields) | Value::Map(fields) => {
                fields.iter().for_each(|(_, value)| value.tensors(visit));
            }
            _ => {}
        }
    }
}

impl Expr {
    /// The name of an input, a parameter or a named node.
    pub(super) fn name(&self) -> Option<&str> {
        match &*self.0 {
            Form::Name(name) => Some(name),
            _ => None,
        }
    }
}
