//! How expressions are written.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

use super::terms::{Expr, Form, Value};

/// A call of an op, a function or a layer. Operands follow by [`Expr::on`], attributes by [`Expr::with`].
///
/// ```
/// use engine::build::{PipelineBuilder, op};
///
/// let mut p = PipelineBuilder::new("softmax");
/// let x = p.input("x", "f32[B, 10]");
/// p.node("y", op("softmax").on(&x).with("axis", 1));
/// assert!(p.text().contains(r#""y": "softmax(x, axis=1)""#));
/// ```
pub fn op(name: &str) -> Expr {
    Expr::of(Form::Call { op: name.to_owned(), operands: vec![], attrs: vec![] })
}

impl Expr {
    pub(super) fn of(form: Form) -> Expr {
        Expr(Arc::new(form))
    }

    /// The value that the pipeline calls by this name, such as a result of an op (`"y.lse"`) or a parameter of a layer
    /// (`"embed.w"`).
    pub fn named(name: &str) -> Expr {
        Expr::of(Form::Name(name.to_owned()))
    }

    /// The call with a further operand. Any other expression becomes the call of an op `on`, which nothing has, so the
    /// mistake is reported when the pipeline is read.
    pub fn on(self, operand: impl Into<Expr>) -> Expr {
        let (op, mut operands, attrs) = self.into_call("on");
        operands.push(operand.into());
        Expr::of(Form::Call { op, operands, attrs })
    }

    /// The call with an attribute. See [`Expr::on`].
    pub fn with(self, name: &str, value: impl Into<Value>) -> Expr {
        let (op, operands, mut attrs) = self.into_call("with");
        attrs.push((name.to_owned(), value.into()));
        Expr::of(Form::Call { op, operands, attrs })
    }

    fn into_call(self, method: &str) -> (String, Vec<Expr>, Vec<(String, Value)>) {
        match &*self.0 {
            Form::Call { op, operands, attrs } => (op.clone(), operands.clone(), attrs.clone()),
            _ => (method.to_owned(), vec![self.clone()], vec![]),
        }
    }

    /// The matmul `self @ other`.
    pub fn dot(&self, other: impl Into<Expr>) -> Expr {
        self.infix("@", other)
    }

    /// `self == other`, by element.
    pub fn equals(&self, other: impl Into<Expr>) -> Expr {
        self.infix("==", other)
    }

    /// `self < other`, by element.
    pub fn less(&self, other: impl Into<Expr>) -> Expr {
        self.infix("<", other)
    }

    /// `self > other`, by element.
    pub fn greater(&self, other: impl Into<Expr>) -> Expr {
        self.infix(">", other)
    }

    fn infix(&self, operator: &'static str, other: impl Into<Expr>) -> Expr {
        Expr::of(Form::Infix(operator, [self.clone(), other.into()]))
    }
}

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Expr {
        expr.clone()
    }
}

impl From<f64> for Expr {
    fn from(number: f64) -> Expr {
        Expr::of(Form::Number(number))
    }
}

macro_rules! infix {
    ($($trait:ident $method:ident $operator:literal),*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                self.infix($operator, other)
            }
        }

        impl<T: Into<Expr>> $trait<T> for &Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                self.infix($operator, other)
            }
        }

        impl $trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                Expr::from(self).infix($operator, other)
            }
        }

        impl $trait<&Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                Expr::from(self).infix($operator, other)
            }
        }
    )*};
}

infix!(Add add "+", Sub sub "-", Mul mul "*", Div div "/");

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::of(Form::Minus(self))
    }
}

impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::of(Form::Minus(self.clone()))
    }
}
