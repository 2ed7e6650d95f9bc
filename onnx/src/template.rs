//! Rows of the table become expressions: operands and settings are put in the places of their names.

use engine_core::diag::{Diagnostic, Spanned};
use engine_core::ir::{DType, Type};
use engine_core::op::{AttrKind, TypeRule};
use engine_core::text::expr::{BinaryOp, Expr, ExprKind};

use crate::node::Node;
use crate::scope::{Scope, Setting};
use crate::table::{Row, expression};
use crate::values::{Values, name_of};

/// The most operands of `concat`.
const MOST_PARTS: usize = 16;

/// A node on its way to an expression.
pub(crate) struct Template<'t, 'r> {
    pub(crate) node: &'t Node,
    pub(crate) row: &'t Row,
    pub(crate) values: &'t mut Values<'r>,
    /// The name of the first result, for the further ones.
    pub(crate) first: Option<String>,
}

impl Template<'_, '_> {
    fn scope(&self) -> Scope<'_> {
        Scope { node: self.node, row: self.row, values: self.values }
    }

    fn fault(&self, fact: String) -> Diagnostic {
        self.scope().fault(fact)
    }

    /// The value of the model that the result merely passes on, if it does.
    pub(crate) fn passed_on(&self, expr: &Expr) -> Result<Option<String>, Diagnostic> {
        let scope = self.scope();
        Ok(match &expr.kind {
            ExprKind::Name(name) => {
                scope.operand(name).and_then(|names| names.first().map(|name| name.to_string()))
            }
            ExprKind::Call { callee, args, .. } if callee.value == "when" && args.len() == 3 => {
                let chosen = if scope.condition(&args[0])? { &args[1] } else { &args[2] };
                return self.passed_on(chosen);
            }
            ExprKind::Call { callee, args, named }
                if callee.value == "cast"
                    && name_of(&args[0]).is_some_and(|name| scope.operand(name).is_some()) =>
            {
                let setting = named.first().map(|(_, value)| scope.setting(value)).transpose()?;
                let ty = scope.type_of(&args[0])?;
                let is_same = setting == Some(Setting::Text(ty.dtype.name().to_owned()));
                return if is_same { self.passed_on(&args[0]) } else { Ok(None) };
            }
            _ => None,
        })
    }

    /// The expression of a result.
    ///
    /// # Errors
    /// If an operand is missing, or a setting is not known.
    pub(crate) fn result(&mut self, expr: &Expr) -> Result<Expr, Diagnostic> {
        let beside = self.rank_beside(expr);
        self.tensor(expr, beside)
    }

    /// The largest rank of the tensors of an elementwise expression, beside which numbers may stand. Nothing if it is not
    /// elementwise.
    fn rank_beside(&self, expr: &Expr) -> Option<usize> {
        if !self.is_elementwise(expr) {
            return None;
        }
        let names = self.node.inputs.iter().filter(|name| !name.is_empty());
        let (numbers, tensors): (Vec<_>, Vec<_>) = names.partition(|name| self.values.known(name).is_some());
        let types = |names: Vec<&String>| -> Vec<Type> {
            names.iter().filter_map(|name| self.values.type_of(name)).collect()
        };
        let (numbers, tensors) = (types(numbers), types(tensors));
        // Alone, a number is f32, i32 or a truth value by its spelling.
        let is_clear = |number: &Type| {
            matches!(number.dtype, DType::F32 | DType::I32 | DType::Bool)
                || tensors.iter().any(|tensor| tensor.dtype == number.dtype)
        };
        let rank = tensors.iter().map(Type::rank).max()?;
        numbers.iter().all(is_clear).then_some(rank)
    }

    /// Whether all ops of an expression broadcast their operands.
    fn is_elementwise(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call { callee, args, .. } if callee.value == "when" && args.len() == 3 => {
                let chosen = self.scope().condition(&args[0]).map(|holds| &args[if holds { 1 } else { 2 }]);
                chosen.is_ok_and(|chosen| self.is_elementwise(chosen))
            }
            ExprKind::Call { callee, args, .. } => {
                let op = match callee.value.as_str() {
                    "like" | "count" => None,
                    "chain" => args.first().and_then(name_of),
                    name => Some(name),
                };
                let form = op.map(|op| self.values.registry.op(op));
                let is_fit = form.is_none_or(|form| {
                    form.is_some_and(|form| {
                        !matches!(form.types, TypeRule::Custom(_)) || form.name == "where"
                    })
                });
                is_fit && args.iter().all(|arg| self.is_elementwise(arg))
            }
            ExprKind::Binary { op, left, right } => {
                op.value != BinaryOp::MatMul && self.is_elementwise(left) && self.is_elementwise(right)
            }
            ExprKind::Unary(_, operand) => self.is_elementwise(operand),
            ExprKind::Port { .. } => false,
            _ => true,
        }
    }

    fn tensor(&mut self, expr: &Expr, beside: Option<usize>) -> Result<Expr, Diagnostic> {
        let kind = match &expr.kind {
            ExprKind::Name(name) => return self.named(name, beside),
            ExprKind::Call { callee, args, .. } if callee.value == "when" && args.len() == 3 => {
                let chosen = if self.scope().condition(&args[0])? { &args[1] } else { &args[2] };
                return self.tensor(chosen, beside);
            }
            ExprKind::Call { callee, args, named } => return self.call(&callee.value, args, named, beside),
            ExprKind::Binary { op, left, right } => ExprKind::Binary {
                op: *op,
                left: Box::new(self.tensor(left, beside)?),
                right: Box::new(self.tensor(right, beside)?),
            },
            ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(self.tensor(operand, beside)?)),
            _ => return Ok(expr.clone()),
        };
        Ok(Expr::new(expr.span, kind))
    }

    fn named(&mut self, name: &str, beside: Option<usize>) -> Result<Expr, Diagnostic> {
        if let (Some(first), Some(part)) = (&self.first, name.strip_prefix('y'))
            && (part.is_empty() || part.starts_with('.'))
        {
            return Ok(expression(&format!("{first}{part}")));
        }
        let operand = self.scope().operand(name).map(|names| names.first().map(|name| name.to_string()));
        match operand {
            Some(Some(operand)) => self.values.operand(&operand, beside),
            Some(None) => Err(self.fault(format!("lacks the operand `{name}`"))),
            None => {
                let setting = self.scope().attribute(name);
                let number = setting.transpose()?.and_then(|setting| setting.expr());
                number.ok_or_else(|| self.fault(format!("has no `{name}`")))
            }
        }
    }

    fn call(
        &mut self,
        callee: &str,
        args: &[Expr],
        named: &[(Spanned<String>, Expr)],
        beside: Option<usize>,
    ) -> Result<Expr, Diagnostic> {
        let operands = |template: &mut Self, args: &[Expr]| -> Result<Vec<Expr>, Diagnostic> {
            let found = args.iter().map(|arg| template.operands(arg, beside));
            Ok(found.collect::<Result<Vec<_>, _>>()?.concat())
        };
        match (callee, args) {
            ("like", [value, other]) => self.like(value, other, beside),
            ("or", [value, default]) => {
                let is_given = self.scope().condition(&expression(&format!("given({value})")))?;
                self.tensor(if is_given { value } else { default }, Some(usize::MAX))
            }
            ("extent", [_, _]) => {
                let extent = self.scope().setting(&Expr::new(args[0].span, call_of("extent", args)))?;
                extent.expr().ok_or_else(|| self.fault("has no such extent".to_owned()))
            }
            ("number", [value]) => {
                let number = self.scope().setting(value)?;
                number.expr().ok_or_else(|| self.fault(format!("lacks `{value}`")))
            }
            ("count", [_]) => Ok(expression(&self.node.inputs.len().to_string())),
            ("flat", [value]) => {
                let value = self.tensor(value, None)?;
                Ok(expression(&format!("reshape({value}, shape=[_])")))
            }
            ("chain", [op, values]) => {
                let parts = operands(self, std::slice::from_ref(values))?;
                let joined = joined(parts, &|a, b| match name_of(op) {
                    Some("add") => expression(&format!("{a} + {b}")),
                    _ => expression(&format!("{op}({a}, {b})")),
                });
                joined.ok_or_else(|| self.fault("has no operands".to_owned()))
            }
            _ => {
                let parts = operands(self, args)?;
                let settings = self.settings(callee, named)?;
                Ok(grouped(callee, parts, settings))
            }
        }
    }

    /// An operand of a call; none if it is left out, several if it stands for them.
    fn operands(&mut self, arg: &Expr, beside: Option<usize>) -> Result<Vec<Expr>, Diagnostic> {
        if let ExprKind::Call { callee, args, .. } = &arg.kind
            && callee.value == "flat"
            && let Some(name) = args.first().and_then(name_of)
            && self.scope().operand(name).is_some_and(|names| names.is_empty())
        {
            return Ok(vec![]);
        }
        let Some(names) = name_of(arg).and_then(|name| self.scope().operand(name).map(owned)) else {
            return Ok(vec![self.tensor(arg, beside)?]);
        };
        names.iter().map(|name| self.values.operand(name, beside)).collect()
    }

    /// An operand in the element type of another.
    fn like(&mut self, value: &Expr, other: &Expr, beside: Option<usize>) -> Result<Expr, Diagnostic> {
        let [own, wanted] = [value, other].map(|operand| self.scope().type_of(operand));
        let (own, wanted) = (own?.dtype, wanted?);
        // A number takes the type of the tensor beside it.
        let named = name_of(value).and_then(|name| self.scope().operand(name).map(owned)).unwrap_or_default();
        let operand = match named.first() {
            Some(name) if own != wanted.dtype => self.values.operand(name, Some(wanted.rank()))?,
            _ => self.tensor(value, beside)?,
        };
        let is_number = matches!(operand.kind, ExprKind::Int(_) | ExprKind::Float(_));
        let is_fit = own == wanted.dtype || is_number;
        Ok(if is_fit { operand } else { expression(&format!("cast({operand}, dtype={})", wanted.dtype)) })
    }

    /// Settings without those that are defaults of the op.
    fn settings(
        &self,
        callee: &str,
        named: &[(Spanned<String>, Expr)],
    ) -> Result<Vec<(Spanned<String>, Expr)>, Diagnostic> {
        let form = self.values.registry.op(callee);
        let mut settings = vec![];
        for (name, value) in named {
            let spec = form.as_ref().and_then(|form| form.attrs.iter().find(|spec| spec.name == name.value));
            let takes_list = spec.is_none_or(|spec| matches!(spec.kind, AttrKind::Ints | AttrKind::Shape));
            let setting = match self.scope().setting(value)? {
                Setting::List(items) if !takes_list && items.len() == 1 => Setting::Number(items[0].clone()),
                setting => setting,
            };
            let Some(value) = setting.expr() else { continue };
            let default = spec.and_then(|spec| spec.default.as_ref()).map(|default| default.to_string());
            let is_default = default
                .is_some_and(|default| default.trim_matches('"') == value.to_string().trim_matches('"'));
            if !is_default {
                settings.push((name.clone(), value));
            }
        }
        Ok(settings)
    }
}

fn call_of(callee: &str, args: &[Expr]) -> ExprKind {
    ExprKind::Call {
        callee: Spanned::new(args[0].span, callee.to_owned()),
        args: args.to_vec(),
        named: vec![],
    }
}

/// Parts joined in pairs, and the results again, so that the expression stays shallow. Few parts are joined in order.
fn joined(mut parts: Vec<Expr>, join: &dyn Fn(&Expr, &Expr) -> Expr) -> Option<Expr> {
    const FEW: usize = 16;
    while parts.len() > FEW {
        let pairs = parts.chunks(2).map(|pair| match pair {
            [a, b] => join(a, b),
            _ => pair[0].clone(),
        });
        parts = pairs.collect();
    }
    parts.into_iter().reduce(|a, b| join(&a, &b))
}

fn owned(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// A call; one of too many operands is a call of calls.
fn grouped(callee: &str, parts: Vec<Expr>, named: Vec<(Spanned<String>, Expr)>) -> Expr {
    if callee == "concat" && parts.len() > MOST_PARTS {
        let groups = parts.chunks(MOST_PARTS).map(|group| grouped(callee, group.to_vec(), named.clone()));
        let groups = groups.collect();
        return grouped(callee, groups, named);
    }
    let span = parts.first().map_or_else(|| expression("x").span, |part: &Expr| part.span);
    let callee = Spanned::new(span, callee.to_owned());
    Expr::new(span, ExprKind::Call { callee, args: parts, named })
}
