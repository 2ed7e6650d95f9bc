//! Expressions, types and statements as trees.

use crate::diag::{Span, Spanned};
use std::fmt;

/// The port that stands for all results, as operands of a call.
pub const ALL_RESULTS: &str = "*";

/// How many levels of sub-expressions an expression may have.
pub const MAX_LEVELS: usize = 200;

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// From its first to its last character; parentheses around it are left out.
    pub span: Span,
    /// What it is.
    pub kind: ExprKind,
    /// Levels of sub-expressions below it; at most [`MAX_LEVELS`].
    pub(super) levels: usize,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `x`, `digits.images`
    Name(String),
    /// `3`, `-1`
    Int(i64),
    /// `0.5`, `-1e-3`, `inf`, `nan`
    Float(f64),
    /// `true`
    Bool(bool),
    /// `"text"`, `'text'`
    Str(String),
    /// `[1, -1]`
    List(Vec<Expr>),
    /// `op(a, b, attr=value)`
    Call {
        /// What is called.
        callee: Spanned<String>,
        /// Operands.
        args: Vec<Expr>,
        /// Settings; a name may occur twice.
        named: Vec<(Spanned<String>, Expr)>,
    },
    /// `-x`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`
    Binary {
        /// The operator and its place.
        op: Spanned<BinaryOp>,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `topk(x, k=3).indices`: one of several results. For a plain name on the left see [`ExprKind::Name`]. `t.*` stands for
    /// all of them.
    Port {
        /// What has several results.
        base: Box<Expr>,
        /// The name or number of one.
        port: Spanned<String>,
    },
}

impl Expr {
    /// An expression made of others.
    pub fn new(span: Span, kind: ExprKind) -> Expr {
        let deepest =
            |parts: &mut dyn Iterator<Item = &Expr>| 1 + parts.map(|part| part.levels).max().unwrap_or(0);
        let levels = match &kind {
            ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_) => 0,
            ExprKind::List(items) => deepest(&mut items.iter()),
            ExprKind::Call { args, named, .. } => {
                deepest(&mut args.iter().chain(named.iter().map(|(_, v)| v)))
            }
            ExprKind::Unary(_, operand) => 1 + operand.levels,
            ExprKind::Binary { left, right, .. } => 1 + left.levels.max(right.levels),
            ExprKind::Port { base, .. } => 1 + base.levels,
        };
        Expr { span, kind, levels }
    }
}

/// Operators before their operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `!x`
    Not,
}

/// Operators between their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// `a % b`
    Rem,
    /// `a @ b`
    MatMul,
    /// `a ** b`
    Pow,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a & b`
    And,
    /// `a | b`
    Or,
}

impl BinaryOp {
    /// Every operator, in order of declaration.
    pub const ALL: [BinaryOp; 15] = {
        use BinaryOp::*;
        [Add, Sub, Mul, Div, Rem, MatMul, Pow, Lt, Le, Gt, Ge, Eq, Ne, And, Or]
    };

    /// How it is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::MatMul => "@",
            BinaryOp::Pow => "**",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::And => "&",
            BinaryOp::Or => "|",
        }
    }

    /// Whether it compares.
    pub(super) const fn is_comparison(self) -> bool {
        self.strength() == COMPARISON
    }

    /// How tightly it binds; more is tighter.
    pub(super) const fn strength(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And => 2,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => {
                COMPARISON
            }
            BinaryOp::Add | BinaryOp::Sub => 4,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem | BinaryOp::MatMul => 5,
            BinaryOp::Pow => 7,
        }
    }
}

pub(super) const COMPARISON: u8 = 3;
/// Between products and powers.
pub(super) const UNARY: u8 = 6;

impl fmt::Display for BinaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

/// A type as written: `f32[B, 784]`, `i32[]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// All of it.
    pub span: Span,
    /// The element type's name, not checked yet.
    pub dtype: Spanned<String>,
    /// Extents, outermost first: numbers, names and arithmetic of them.
    pub dims: Vec<Expr>,
}

/// Where a pattern of types has `...`, for any number of further axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Further {
    /// It has none.
    None,
    /// Before all extents.
    First,
    /// Behind all extents.
    Last,
}

/// A pattern of types: `[..., T, D]`, `f32[B, 4]`, `[N, C, ...]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypePattern {
    /// All of it.
    pub span: Span,
    /// The element type's name, if the pattern has one. It is not checked yet.
    pub dtype: Option<Spanned<String>>,
    /// Whether there may be further axes.
    pub further: Further,
    /// The extents in order. `_` stands for any.
    pub dims: Vec<Expr>,
}

/// A line of the text form: `h: f32[B, 128] = relu(x)` or `(m: f32[B], i: i32[B]) = max_with_index(x, axis=1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// All of it.
    pub span: Span,
    /// What is defined: names with their types, where given.
    pub targets: Vec<(Spanned<String>, Option<TypeExpr>)>,
    /// What it is.
    pub value: Expr,
}

/// The meaning of a name alone.
pub(super) fn word(name: &str) -> ExprKind {
    match name {
        "true" => ExprKind::Bool(true),
        "false" => ExprKind::Bool(false),
        "inf" => ExprKind::Float(f64::INFINITY),
        "nan" => ExprKind::Float(f64::NAN),
        _ => ExprKind::Name(name.to_owned()),
    }
}
