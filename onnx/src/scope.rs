//! The names within a row of the table, and the values of its settings and conditions.

use engine_core::diag::Diagnostic;
use engine_core::ir::Type;
use engine_core::text::expr::{BinaryOp, Expr, ExprKind, UnaryOp};

use crate::fault::unsupported;
use crate::known::{Known, Number};
use crate::literal::{list, of_number, of_word};
use crate::node::{Attribute, Node};
use crate::shapes;
use crate::table::{Row, expression};
use crate::tensor::dtype_from;
use crate::values::Values;

/// The help of messages about values that must be known.
pub(crate) const KNOWN_HELP: &str =
    "make it a constant: `engine import --value NAME=[…]`, or export the model with constant shapes";

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    /// It is left out.
    Absent,
    Number(Number),
    List(Vec<Number>),
    Text(String),
}

/// A node and the row that translates it.
pub(crate) struct Scope<'s> {
    pub(crate) node: &'s Node,
    pub(crate) row: &'s Row,
    pub(crate) values: &'s Values<'s>,
}

impl Scope<'_> {
    /// The values that an operand of the row stands for; empty if it is left out, nothing if the row has no such operand.
    pub(crate) fn operand(&self, name: &str) -> Option<Vec<&str>> {
        let at = self.row.inputs.iter().position(|input| input.name == name)?;
        let given = self.node.inputs.get(at..).unwrap_or_default();
        let n = if self.row.inputs[at].is_variadic { given.len() } else { given.len().min(1) };
        Some(given[..n].iter().map(String::as_str).filter(|name| !name.is_empty()).collect())
    }

    /// The value of an attribute of the row; nothing if it has no such attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<Result<Setting, Diagnostic>> {
        let (_, default) = self.row.attrs.iter().find(|(known, _)| known == name)?;
        Some(match (self.node.attributes.get(name), default) {
            (Some(value), _) => self.given(name, value),
            (None, Some(default)) => self.setting(default),
            (None, None) => Err(self.fault(format!("has no attribute `{name}`"))),
        })
    }

    fn given(&self, name: &str, value: &Attribute) -> Result<Setting, Diagnostic> {
        Ok(match value {
            Attribute::Int(n) => Setting::Number(Number::Int(*n)),
            Attribute::Float(x) => Setting::Number(Number::Float(*x)),
            Attribute::Text(text) => Setting::Text(text.clone()),
            Attribute::Ints(items) => Setting::List(items.iter().map(|&n| Number::Int(n)).collect()),
            Attribute::Floats(items) => Setting::List(items.iter().map(|&x| Number::Float(x)).collect()),
            _ => return Err(self.fault(format!("has an attribute `{name}` of an unexpected kind"))),
        })
    }

    /// A fault of the node.
    pub(crate) fn fault(&self, fact: String) -> Diagnostic {
        unsupported(format!("{} {fact}", self.node.describe()), KNOWN_HELP)
    }

    /// The type of the operand that an expression names.
    pub(crate) fn type_of(&self, expr: &Expr) -> Result<Type, Diagnostic> {
        let found = match &expr.kind {
            ExprKind::Name(name) => self.operand(name).and_then(|names| names.first().copied()),
            _ => None,
        };
        found
            .and_then(|name| self.values.type_of(name))
            .ok_or_else(|| self.fault(format!("lacks the operand `{expr}`")))
    }

    /// The known value of the operand that an expression names.
    fn known(&self, expr: &Expr) -> Option<&Known> {
        let ExprKind::Name(name) = &expr.kind else { return None };
        self.values.known(self.operand(name)?.first()?)
    }

    /// The value of an expression in the place of a setting.
    ///
    /// # Errors
    /// If it depends on data, or on extents that are open.
    pub(crate) fn setting(&self, expr: &Expr) -> Result<Setting, Diagnostic> {
        Ok(match &expr.kind {
            ExprKind::Name(name) => return self.named(name, expr),
            ExprKind::Int(n) => Setting::Number(Number::Int(*n)),
            ExprKind::Float(x) => Setting::Number(Number::Float(*x)),
            ExprKind::Bool(b) => Setting::Number(Number::Bool(*b)),
            ExprKind::Str(text) => Setting::Text(text.clone()),
            ExprKind::List(items) => {
                let items = items.iter().map(|item| self.number(item));
                Setting::List(items.collect::<Result<_, _>>()?)
            }
            ExprKind::Call { callee, args, .. } if callee.value == "when" && args.len() == 3 => {
                let chosen = if self.condition(&args[0])? { &args[1] } else { &args[2] };
                return self.setting(chosen);
            }
            ExprKind::Call { callee, args, .. } => return self.function(&callee.value, args, expr),
            ExprKind::Unary(UnaryOp::Neg, operand) => match self.number(operand)? {
                Number::Float(x) => Setting::Number(Number::Float(-x)),
                other => Setting::Number(Number::Int(0).minus(&other).ok_or_else(|| self.unclear(expr))?),
            },
            ExprKind::Binary { op, left, right } if is_arithmetic(op.value) => {
                let (a, b) = (self.number(left)?, self.number(right)?);
                let found = match op.value {
                    BinaryOp::Add => a.plus(&b),
                    BinaryOp::Sub => a.minus(&b),
                    BinaryOp::Mul => a.times(&b),
                    BinaryOp::Div => a.over(&b),
                    _ => None,
                };
                Setting::Number(found.ok_or_else(|| self.unclear(expr))?)
            }
            _ => Setting::Number(Number::Bool(self.condition(expr)?)),
        })
    }

    fn named(&self, name: &str, expr: &Expr) -> Result<Setting, Diagnostic> {
        if name == "none" {
            return Ok(Setting::Absent);
        }
        if name == "_" {
            return Ok(Setting::Number(shapes::open()));
        }
        if let Some(operands) = self.operand(name) {
            let Some(operand) = operands.first() else {
                return self.attribute(name).unwrap_or(Ok(Setting::Absent));
            };
            let known = self.values.known(operand).ok_or_else(|| self.unclear(expr))?;
            return Ok(match known.dims.is_empty() {
                true => Setting::Number(known.elements[0].decimal(known.dtype)),
                false => Setting::List(known.decimals()),
            });
        }
        self.attribute(name).unwrap_or_else(|| Ok(Setting::Text(name.to_owned())))
    }

    fn unclear(&self, expr: &Expr) -> Diagnostic {
        self.fault(format!("needs `{expr}` as a number, which is not known at import"))
    }

    fn number(&self, expr: &Expr) -> Result<Number, Diagnostic> {
        match self.setting(expr)? {
            Setting::Number(number) => Ok(number),
            Setting::List(items) if items.len() == 1 => Ok(items[0].clone()),
            _ => Err(self.unclear(expr)),
        }
    }

    fn int(&self, expr: &Expr) -> Result<i64, Diagnostic> {
        self.number(expr)?.int().ok_or_else(|| self.unclear(expr))
    }

    fn list(&self, expr: &Expr) -> Result<Option<Vec<Number>>, Diagnostic> {
        match self.setting(expr)? {
            Setting::Absent => Ok(None),
            Setting::List(items) => Ok(Some(items)),
            Setting::Number(number) => Ok(Some(vec![number])),
            Setting::Text(_) => Err(self.unclear(expr)),
        }
    }

    /// A function of settings.
    fn function(&self, name: &str, args: &[Expr], whole: &Expr) -> Result<Setting, Diagnostic> {
        let unclear = || self.unclear(whole);
        let first = args.first().ok_or_else(unclear)?;
        match name {
            "truth" => return Ok(Setting::Number(Number::Bool(self.condition(first)?))),
            "text" => return self.setting(first),
            "stream" => {
                return Ok(match self.setting(first)? {
                    Setting::Number(seed) => Setting::Number(Number::Int(seed.stream().ok_or_else(unclear)?)),
                    other => other,
                });
            }
            "dtype" => {
                let number = self.int(first)?;
                let dtype = dtype_from(number)
                    .ok_or_else(|| self.fault(format!("asks for the element type {number}")))?;
                return Ok(Setting::Text(dtype.name().to_owned()));
            }
            _ => {}
        }
        let shape = self.type_of(first)?.shape;
        let second = || args.get(1).ok_or_else(unclear);
        let listed = || self.list(second()?)?.ok_or_else(unclear);
        let at = |end| shapes::axis(self.int(second()?)?, shape.len(), end).ok_or_else(unclear);
        let list = |found: Option<Vec<Number>>| found.map(Setting::List).ok_or_else(unclear);
        let number = |found: Option<Number>| found.map(Setting::Number).ok_or_else(unclear);
        match name {
            "element" => Ok(Setting::Text(self.type_of(first)?.dtype.name().to_owned())),
            "shape" => Ok(Setting::List(shape.iter().map(Number::of).collect())),
            "rank" => Ok(Setting::Number(Number::Int(shape.len() as i64))),
            "extent" => number(shape.get(at(0)?).map(Number::of)),
            "leading" => number(shapes::product(&shape[..at(1)?])),
            "trailing" => number(shapes::product(&shape[at(1)?..])),
            "along" => number(shapes::along(&shape, &self.list(second()?)?.unwrap_or_default())),
            "from" => list(Some((at(0)? as i64..shape.len() as i64).map(Number::Int).collect())),
            "axes" => Ok(match self.list(second()?)? {
                Some(axes) if axes.len() == 1 => Setting::Number(axes[0].clone()),
                Some(axes) if !axes.is_empty() => Setting::List(axes),
                _ => Setting::Absent,
            }),
            "unsqueezed" => list(shapes::unsqueezed(&shape, &listed()?)),
            "squeezed" => list(shapes::squeezed(&shape, self.list(second()?)?.as_deref())),
            "reshaped" => {
                let allow_zero = args.get(2).map_or(Ok(false), |arg| self.condition(arg))?;
                list(shapes::reshaped(&shape, &listed()?, allow_zero))
            }
            "expanded" => list(shapes::expanded(&shape, &listed()?)),
            "channels" => list(shapes::channels(&shape)),
            "channels_last" => list(shapes::channels_last(&shape)),
            "channels_first" => list(shapes::channels_first(&shape)),
            "batch_last" => list(shapes::batch_last(&shape)),
            "apart" => list(shapes::apart(&shape)),
            "spatial" => list(shapes::spatial(&shape)),
            "reversed" => list(shapes::reversed(&shape)),
            "tile_1" => list(shapes::tile_1(&shape)),
            "tile_2" => list(shapes::tile_2(&shape, &listed()?)),
            "tile_3" => list(shapes::tile_3(&shape, &listed()?)),
            _ => engine_core::bug!("ops.ron: there is no function `{name}`"),
        }
    }

    /// The value of a condition.
    ///
    /// # Errors
    /// If it is not known at import.
    pub(crate) fn condition(&self, expr: &Expr) -> Result<bool, Diagnostic> {
        match &expr.kind {
            ExprKind::Unary(UnaryOp::Not, operand) => Ok(!self.condition(operand)?),
            ExprKind::Binary { op, left, right } => match op.value {
                BinaryOp::And => Ok(self.condition(left)? && self.condition(right)?),
                BinaryOp::Or => Ok(self.condition(left)? || self.condition(right)?),
                BinaryOp::Eq => Ok(self.word(left)? == self.word(right)?),
                BinaryOp::Lt => {
                    let below = self.number(left)?.below(&self.number(right)?);
                    below.ok_or_else(|| self.unclear(expr))
                }
                _ => Err(self.unclear(expr)),
            },
            ExprKind::Call { callee, args, .. } if args.len() == 1 => {
                self.question(&callee.value, &args[0], expr)
            }
            ExprKind::Call { callee, args, .. } if callee.value == "whole" && args.len() == 2 => {
                let rank = self.type_of(&args[0])?.rank();
                Ok(shapes::axis(self.int(&args[1])?, rank, 1) == rank.checked_sub(1))
            }
            _ => Ok(match self.setting(expr)? {
                Setting::Absent => false,
                Setting::Number(number) => number.float().is_some_and(|x| x != 0.0),
                Setting::List(items) => !items.is_empty(),
                Setting::Text(_) => true,
            }),
        }
    }

    /// A word or a number in a comparison. `none` is a word here.
    fn word(&self, expr: &Expr) -> Result<Setting, Diagnostic> {
        match &expr.kind {
            ExprKind::Name(name) if name == "none" => Ok(Setting::Text(name.clone())),
            _ => self.setting(expr),
        }
    }

    /// `given(c)`: is it there? `some(c)`: is it there, and not empty? `known(c)`: is it there, and known? `scalar(c)`: is it
    /// one known number? `counts(c)`: are its elements known, and none negative? `integer(c)`: is its element type one of
    /// integers?
    fn question(&self, name: &str, arg: &Expr, whole: &Expr) -> Result<bool, Diagnostic> {
        let ExprKind::Name(operand) = &arg.kind else { return Err(self.unclear(whole)) };
        let is_given = match self.operand(operand) {
            Some(names) => !names.is_empty(),
            None => self.node.attributes.contains_key(operand),
        };
        let known = self.known(arg);
        let is_count = |n: &Number| n.dim().is_some();
        Ok(match name {
            "given" => is_given,
            "some" => is_given && known.is_none_or(|known| !known.elements.is_empty()),
            "known" => !is_given || known.is_some_and(|known| known.elements.len() == 1),
            "scalar" => known.is_some_and(|known| known.dims.is_empty() && known.elements[0].int().is_some()),
            "counts" => known.is_some_and(|known| known.elements.iter().all(is_count)),
            "integer" => self.type_of(arg)?.dtype.is_int(),
            _ => {
                return Ok(
                    matches!(self.setting(whole)?, Setting::Number(n) if n.float().is_some_and(|x| x != 0.0)),
                );
            }
        })
    }
}

impl Setting {
    /// The setting as an expression; nothing if it is left out.
    pub(crate) fn expr(&self) -> Option<Expr> {
        match self {
            Setting::Absent => None,
            Setting::Number(number) => Some(of_number(number)),
            Setting::List(items) => Some(expression(&list(items))),
            Setting::Text(text) => Some(of_word(text)),
        }
    }
}

fn is_arithmetic(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div)
}
