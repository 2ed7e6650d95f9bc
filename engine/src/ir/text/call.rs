//! Calls: operands and settings, and the operation that they make with the name before them.

use super::extent::open_extent;
use super::parse::Reader;
use super::piece::{Fault, Piece, at};
use crate::ir::{
    Attr, AttrKind, Attrs, Call, Combine, DType, Keep, Literal, MatmulSpec, Monoid, NodeOp, OpSet,
    Requirement, Scalar, View,
};
use crate::numerics::Precision;
use crate::text::expr::{Expr, ExprKind};

/// The text between the parentheses of a call.
pub(super) struct Args<'t> {
    /// The closing parenthesis, which is the place of errors about missing operands.
    end: usize,
    operands: Vec<Piece<'t>>,
    settings: Vec<Setting<'t>>,
}

struct Setting<'t> {
    name: Piece<'t>,
    value: Expr,
}

impl<'t> Reader<'t> {
    pub(super) fn args(&self, piece: Piece<'t>) -> Result<Args<'t>, Fault> {
        let mut args = Args { end: piece.end(), operands: vec![], settings: vec![] };
        for item in piece.items() {
            match item.cut('=') {
                Some((name, value)) => {
                    if args.settings.iter().any(|known| known.name.text == name.text) {
                        return name.fault(format!("`{}` is set twice", name.text));
                    }
                    args.settings.push(Setting { name, value: self.expr(value)? });
                }
                None if args.settings.is_empty() => args.operands.push(item),
                None => return item.fault("operands come before settings"),
            }
        }
        Ok(args)
    }
}

impl<'t> Args<'t> {
    pub(super) fn missing<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::new(self.end, message))
    }

    fn has(&self, name: &str) -> bool {
        self.settings.iter().any(|setting| setting.name.text == name)
    }

    fn take_open(&mut self, name: &str) -> Option<Expr> {
        let at = self.settings.iter().position(|setting| setting.name.text == name)?;
        Some(self.settings.remove(at).value)
    }

    fn take(&mut self, name: &str) -> Result<Expr, Fault> {
        self.take_open(name).map_or_else(|| self.missing(format!("`{name}` is not set")), Ok)
    }

    fn count<T: TryFrom<i64>>(&mut self, name: &str) -> Result<T, Fault> {
        integer(&self.take(name)?)
    }

    fn counts<T: TryFrom<i64>>(&mut self, name: &str) -> Result<Vec<T>, Fault> {
        integers(&self.take(name)?)
    }

    fn axis_and_batch(&mut self) -> Result<(usize, usize), Fault> {
        let batch = if self.has("batch") { self.count("batch")? } else { 0 };
        Ok((self.count("axis")?, batch))
    }

    /// The operands. Unread settings are an error.
    pub(super) fn operands(self) -> Result<Vec<Piece<'t>>, Fault> {
        match self.settings.first() {
            Some(Setting { name, .. }) => name.fault(format!("there is no setting `{}` here", name.text)),
            None => Ok(self.operands),
        }
    }
}

fn integer<T: TryFrom<i64>>(expr: &Expr) -> Result<T, Fault> {
    let value = match expr.kind {
        ExprKind::Int(value) => T::try_from(value).ok(),
        _ => return Err(at(expr.span, "expected an integer")),
    };
    value.ok_or_else(|| at(expr.span, "this integer is out of range"))
}

fn integers<T: TryFrom<i64>>(expr: &Expr) -> Result<Vec<T>, Fault> {
    list(expr)?.iter().map(integer).collect()
}

fn list(expr: &Expr) -> Result<&[Expr], Fault> {
    match &expr.kind {
        ExprKind::List(items) => Ok(items),
        _ => Err(at(expr.span, "expected a list such as `[0, 1]`")),
    }
}

fn pairs(expr: &Expr) -> Result<Vec<(usize, usize)>, Fault> {
    let pair = |item: &Expr| match integers(item)?[..] {
        [left, right] => Ok((left, right)),
        _ => Err(at(item.span, "expected a pair such as `[1, 0]`")),
    };
    list(expr)?.iter().map(pair).collect()
}

fn truth(expr: &Expr) -> Result<bool, Fault> {
    match literal(expr)? {
        Literal::Bool(truth) => Ok(truth),
        _ => Err(at(expr.span, "expected `true` or `false`")),
    }
}

fn precision_of(expr: &Expr) -> Result<Precision, Fault> {
    let named = |name: &str| [Precision::F32, Precision::Tf32].into_iter().find(|known| known.name() == name);
    let precision = match &expr.kind {
        ExprKind::Name(name) => named(name),
        _ => None,
    };
    precision.ok_or_else(|| at(expr.span, "expected `f32` or `tf32`"))
}

fn kept(expr: &Expr) -> Result<Keep, Fault> {
    let named = |name: &str| Keep::NAMED.iter().find(|(known, _)| *known == name).map(|(_, keep)| *keep);
    let keep = match &expr.kind {
        ExprKind::Name(name) => named(name),
        _ => None,
    };
    keep.ok_or_else(|| at(expr.span, "expected `all`, `sqrt` or `carried`"))
}

pub(super) fn literal(expr: &Expr) -> Result<Literal, Fault> {
    match expr.kind {
        ExprKind::Int(value) => Ok(Literal::Int(value)),
        ExprKind::Float(value) => Ok(Literal::Float(value)),
        ExprKind::Bool(value) => Ok(Literal::Bool(value)),
        _ => Err(at(expr.span, "expected a number or truth value")),
    }
}

pub(super) fn dtype(expr: &Expr) -> Result<DType, Fault> {
    match &expr.kind {
        ExprKind::Name(name) => DType::from_name(name),
        _ => None,
    }
    .ok_or_else(|| at(expr.span, "expected an element type such as `f32`"))
}

fn string(expr: &Expr) -> Result<&str, Fault> {
    match &expr.kind {
        ExprKind::Str(text) => Ok(text),
        _ => Err(at(expr.span, "expected a text in quotes")),
    }
}

/// An operation and its operands.
pub(super) type Parsed<'t> = (NodeOp, Vec<Piece<'t>>);

impl<'t> Reader<'t> {
    pub(super) fn call(&self, callee: Piece<'t>, mut args: Args<'t>) -> Result<Parsed<'t>, Fault> {
        let op = self.ops.find(callee.text).ok_or_else(|| self.unknown_op(callee))?;
        let mut attrs = Attrs::default();
        for spec in op.attrs() {
            if let Some(value) = args.take_open(&spec.name) {
                let attr = attr(&value, &spec.kind)?;
                if !spec.admits(&attr) {
                    return Err(at(value.span, format!("`{}` cannot be {attr}", spec.name)));
                }
                attrs = attrs.with(&spec.name, attr);
            } else if spec.default.is_none() {
                return args.missing(format!("`{}` is not set", spec.name));
            }
        }
        let attrs = attrs.filled(op.attrs());
        Ok((NodeOp::Call(Call { op, attrs }), args.operands()?))
    }

    fn unknown_op(&self, callee: Piece<'t>) -> Fault {
        let near = self.ops.nearest(callee.text);
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Fault::new(callee.start, format!("there is no op `{}`{hint}", callee.text))
    }

    pub(super) fn primitive(&self, callee: Piece<'t>, mut args: Args<'t>) -> Result<Parsed<'t>, Fault> {
        if callee.text == "const" {
            return self.constant(args);
        }
        for family in [indexing, control, view, reduction] {
            if let Some(op) = family(callee.text, &mut args)? {
                return Ok((op, args.operands()?));
            }
        }
        let scalar = self.scalar(callee, &mut args)?;
        Ok((NodeOp::Scalar(scalar), args.operands()?))
    }

    fn constant(&self, args: Args<'t>) -> Result<Parsed<'t>, Fault> {
        match args.operands[..] {
            [value] => Ok((NodeOp::Const(literal(&self.expr(value)?)?), args.operands()?.split_off(1))),
            _ => args.missing("expected one number or truth value"),
        }
    }

    fn scalar(&self, callee: Piece<'t>, args: &mut Args<'t>) -> Result<Scalar, Fault> {
        match callee.text {
            "cast" => Ok(Scalar::Cast(dtype(&args.take("dtype")?)?)),
            "foreign" => foreign(self.ops, &args.take("key")?),
            name => Scalar::from_name(name)
                .ok_or_else(|| Fault::new(callee.start, format!("there is no primitive `{name}`"))),
        }
    }
}

/// The value of an attribute. The op's form decides the meaning of a word or an empty list.
fn attr(expr: &Expr, kind: &AttrKind) -> Result<Attr, Fault> {
    match (&expr.kind, kind) {
        (ExprKind::Name(name), _) if name == "none" => Ok(Attr::None),
        (ExprKind::Str(text), _) => Ok(Attr::Str(text.as_str().into())),
        (ExprKind::Name(_), _) => dtype(expr).map(Attr::DType),
        (ExprKind::List(items), AttrKind::Shape) => match items.iter().map(open_extent).collect() {
            Ok(dims) => Ok(Attr::Shape(dims)),
            Err(_) => integers(expr).map(Attr::Ints),
        },
        (ExprKind::List(_), _) => integers(expr).map(Attr::Ints),
        _ => literal(expr).map(Attr::Lit),
    }
}

// ---- Primitives, by family. Each function returns `None` for a name outside its family.

fn indexing(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    let scatter = |combine, (axis, batch)| NodeOp::Scatter { axis, batch, combine };
    Ok(Some(match name {
        "iota" => NodeOp::Iota { axis: args.count("axis")? },
        "check" => NodeOp::Check(Requirement::Index { bound: args.count("bound")? }),
        "nonzero" => NodeOp::Check(Requirement::Divisor),
        "capacity" => NodeOp::Check(Requirement::Capacity { room: args.count("room")? }),
        "distance" => NodeOp::Check(Requirement::Distance),
        "condition" => NodeOp::Check(Requirement::Condition),
        "gather" => {
            let (axis, batch) = args.axis_and_batch()?;
            NodeOp::Gather { axis, batch }
        }
        "scatter_add" => scatter(Combine::Add, args.axis_and_batch()?),
        "scatter_set" => scatter(Combine::Set, args.axis_and_batch()?),
        "matmul" => {
            let batch = args.take_open("batch").map_or(Ok(vec![]), |batch| pairs(&batch))?;
            let contracted = pairs(&args.take("contracted")?)?;
            let precision =
                args.take_open("precision").map(|precision| precision_of(&precision)).transpose()?;
            NodeOp::Matmul(MatmulSpec { batch, contracted, precision })
        }
        _ => return Ok(None),
    }))
}

fn control(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    Ok(Some(match name {
        "random" => NodeOp::Random { stream: args.count("stream")? },
        "loop" => NodeOp::Loop {
            trips: args.count("trips")?,
            n_given: if args.has("given") { args.count("given")? } else { 0 },
            until: args.take_open("until").map_or(Ok(false), |until| truth(&until))?,
            counted: args.take_open("counted").map_or(Ok(false), |counted| truth(&counted))?,
            reverse: args.take_open("reverse").map_or(Ok(false), |reverse| truth(&reverse))?,
            keep: args.take_open("keep").map_or(Ok(Keep::All), |keep| kept(&keep))?,
        },
        "cond" => NodeOp::Cond,
        _ => return Ok(None),
    }))
}

fn view(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    Ok(Some(NodeOp::View(match name {
        "reshape" => View::Reshape,
        "permute" => View::Permute { perm: args.counts("perm")? },
        "broadcast" => View::Broadcast { axes: args.counts("axes")? },
        "slice" => {
            let start: Vec<usize> = args.counts("start")?;
            let step = args.take_open("step").map_or(Ok(vec![1; start.len()]), |step| integers(&step))?;
            View::Slice { start, step }
        }
        "pad" => View::Pad {
            low: args.counts("low")?,
            high: args.counts("high")?,
            fill: literal(&args.take("fill")?)?,
        },
        "window" => View::Window {
            axis: args.count("axis")?,
            step: args.count("step")?,
            dilation: args.count("dilation")?,
        },
        _ => return Ok(None),
    })))
}

fn reduction(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    let monoid = |name: &str| Monoid::ALL.into_iter().find(|monoid| monoid.name() == name);
    if let Some(monoid) = name.strip_prefix("scan_").and_then(monoid) {
        return Ok(Some(NodeOp::Scan { monoid, axis: args.count("axis")? }));
    }
    // The maximum of two operands and the maximum of many share a name.
    let is_scalar = Scalar::from_name(name).is_some() && !args.has("axes");
    match monoid(name).filter(|_| !is_scalar) {
        Some(monoid) => Ok(Some(NodeOp::Reduce { monoid, axes: args.counts("axes")? })),
        None => Ok(None),
    }
}

/// The foreign function with that key.
pub(super) fn foreign(ops: &dyn OpSet, key: &Expr) -> Result<Scalar, Fault> {
    let name = string(key)?;
    let known = ops.foreign(name);
    known.map(Scalar::Foreign).ok_or_else(|| at(key.span, format!("no op brings a function `{name}`")))
}
