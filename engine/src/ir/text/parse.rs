//! Text as graphs. Lines and names are read here; types, settings and scalar bodies are expressions.

use super::is_plain_name;
use crate::diag::{Diagnostics, FileId, Sources, Span, Spanned};
use crate::ir::{
    Attr, Attrs, Binary, Body, Call, Combine, Contract, DType, Dim, E, Foreign, Graph, InputKind, Literal,
    Monoid, Node, NodeOp, Output, Scalar, StateLink, Symbol, Type, Unary, Value, View,
};
use crate::op::{AttrKind, Lower, OpForm, Registry};
use crate::source::Text;
use crate::source::expr::{BinaryOp, DimExpr, Expr, ExprKind, UnaryOp, parse_expr, parse_type};
use std::collections::HashMap;
use std::sync::Arc;

/// How deep regions may nest.
const MAX_REGIONS: usize = 32;

/// Why a text is no graph, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct TextError {
    /// Line, counted from 1.
    pub line: usize,
    /// Character of the line, counted from 1.
    pub column: usize,
    /// What is wrong: lower case, no full stop.
    pub message: String,
}

/// Reads one graph in the text form; calls are of the registry's ops. The result is well-formed as a text, with each
/// name defined once and before its use; whether its types agree is for [`verify`](crate::ir::verify) to say.
pub fn parse(text: &str, registry: &Registry) -> Result<Graph, TextError> {
    let file = Sources::new().add("graph", text);
    let mut reader = Reader { file, registry, lines: lines(text), at: 0, end: text.len() };
    let graph = reader.graph(0).and_then(|graph| reader.finish().map(|()| graph));
    graph.map_err(|fault| fault.locate(text))
}

/// What is wrong at a byte of the text.
struct Fault {
    at: usize,
    message: String,
}

impl Fault {
    fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into() }
    }

    fn locate(self, text: &str) -> TextError {
        let before = text.get(..self.at.min(text.len())).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        TextError { line: before.matches('\n').count() + 1, column, message: self.message }
    }
}

// ---- Pieces of the text.

/// A part of the text that knows where it stands.
#[derive(Clone, Copy)]
struct Piece<'t> {
    start: usize,
    text: &'t str,
}

/// All lines that say something, without comments and surrounding space.
fn lines(text: &str) -> Vec<Piece<'_>> {
    let mut start = 0;
    let mut lines = vec![];
    for line in text.split_inclusive('\n') {
        let piece = Piece { start, text: line };
        let piece = piece.find('#').map_or(piece, |comment| piece.split(comment).0).trim();
        lines.extend((!piece.text.is_empty()).then_some(piece));
        start += line.len();
    }
    lines
}

impl<'t> Piece<'t> {
    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::new(self.start, message))
    }

    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn trim(self) -> Piece<'t> {
        let text = self.text.trim_start();
        Piece { start: self.end() - text.len(), text: text.trim_end() }
    }

    /// What comes before the byte `at` and what from there on.
    fn split(self, at: usize) -> (Piece<'t>, Piece<'t>) {
        let (left, right) = self.text.split_at(at);
        (Piece { text: left, ..self }, Piece { start: self.start + at, text: right })
    }

    fn strip_prefix(self, prefix: &str) -> Option<Piece<'t>> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Piece { start: self.end() - text.len(), text }.trim())
    }

    fn strip_suffix(self, suffix: &str) -> Option<Piece<'t>> {
        Some(Piece { text: self.text.strip_suffix(suffix)?, ..self }.trim())
    }

    /// What follows a word and a space.
    fn strip_word(self, word: &str) -> Option<Piece<'t>> {
        let rest = Piece { text: self.text.strip_prefix(word)?, start: self.start + word.len() };
        rest.text.starts_with([' ', '\t']).then(|| rest.trim())
    }

    /// What stands on both sides of the first such character outside strings.
    fn cut(self, at: char) -> Option<(Piece<'t>, Piece<'t>)> {
        let (left, right) = self.split(self.find(at)?);
        let text = &right.text[at.len_utf8()..];
        Some((left.trim(), Piece { start: right.end() - text.len(), text }.trim()))
    }

    /// The first such character outside strings.
    fn find(&self, wanted: char) -> Option<usize> {
        self.plain_chars().find(|&(_, c)| c == wanted).map(|(at, _)| at)
    }

    /// The characters that are not part of a string.
    fn plain_chars(&self) -> impl Iterator<Item = (usize, char)> + use<'t> {
        let (mut in_string, mut escaped) = (false, false);
        self.text.char_indices().filter(move |&(_, c)| {
            let is_plain = !in_string && c != '"';
            let is_quote = c == '"' && !escaped;
            escaped = in_string && c == '\\' && !escaped;
            in_string ^= is_quote;
            is_plain
        })
    }

    /// Items between commas outside brackets and strings; none if there is nothing.
    fn items(self) -> Vec<Piece<'t>> {
        let (mut items, mut start, mut depth) = (vec![], 0, 0i64);
        for (at, c) in self.plain_chars() {
            depth += i64::from(matches!(c, '(' | '[')) - i64::from(matches!(c, ')' | ']'));
            if c == ',' && depth == 0 {
                items.push(self.split(at).0.split(start).1.trim());
                start = at + 1;
            }
        }
        let last = self.split(start).1.trim();
        if !(items.is_empty() && last.text.is_empty()) {
            items.push(last);
        }
        items
    }
}

// ---- Lines.

/// Goes through the lines of a text.
struct Reader<'t> {
    file: FileId,
    registry: &'t Registry,
    lines: Vec<Piece<'t>>,
    at: usize,
    end: usize,
}

/// A graph under construction and what its names stand for.
#[derive(Default)]
struct Scope {
    graph: Graph,
    values: HashMap<Symbol, Value>,
}

impl<'t> Reader<'t> {
    fn next(&mut self, wanted: &str) -> Result<Piece<'t>, Fault> {
        let line = self.lines.get(self.at).copied();
        self.at += 1;
        line.ok_or_else(|| Fault::new(self.end, format!("expected {wanted}, found the end")))
    }

    fn finish(&self) -> Result<(), Fault> {
        match self.lines.get(self.at) {
            Some(line) => line.fault("expected the end of the text behind the graph"),
            None => Ok(()),
        }
    }

    fn graph(&mut self, depth: usize) -> Result<Graph, Fault> {
        let header = self.next("`graph NAME {`")?;
        let name = header.strip_word("graph").and_then(|rest| rest.strip_suffix("{"));
        let Some(name) = name else { return header.fault("expected `graph NAME {`") };
        if depth > MAX_REGIONS {
            return header.fault(format!("more than {MAX_REGIONS} levels of regions"));
        }
        let mut scope = Scope::default();
        scope.graph.name = self.name(name)?.to_string();
        loop {
            let line = self.next("`}`")?;
            match line.text {
                "}" => return Ok(scope.graph),
                _ => self.item(&mut scope, line, depth)?,
            }
        }
    }

    /// One line of a graph, with the regions that follow it.
    fn item(&mut self, scope: &mut Scope, line: Piece<'t>, depth: usize) -> Result<(), Fault> {
        const KINDS: [InputKind; 4] = [InputKind::Data, InputKind::Param, InputKind::State, InputKind::Step];
        let keyword = |word| line.strip_word(word).filter(|rest| !rest.text.starts_with([':', '=']));
        if let Some(rest) = keyword("output") {
            return self.output(scope, rest);
        }
        if let Some((input, next)) = keyword("state").and_then(|rest| rest.cut('=')) {
            let link = StateLink { input: self.value(scope, input)?.node, next: self.value(scope, next)? };
            scope.graph.state.push(link);
            return Ok(());
        }
        for kind in KINDS {
            if let Some(rest) = keyword(kind.name()) {
                let outputs = vec![self.typed_name(rest)?];
                return define(scope, rest, node(NodeOp::Input(kind), vec![], outputs));
            }
        }
        self.definition(scope, line, depth)
    }

    fn output(&mut self, scope: &mut Scope, rest: Piece<'t>) -> Result<(), Fault> {
        let Some((name, value)) = rest.cut('=') else { return rest.fault("expected `output NAME = VALUE`") };
        let output = (self.name(name)?, self.value(scope, value)?);
        scope.graph.outputs.push(output);
        Ok(())
    }

    /// `h: f32[2] = op(x)`, perhaps with a body or regions.
    fn definition(&mut self, scope: &mut Scope, line: Piece<'t>, depth: usize) -> Result<(), Fault> {
        let Some((binder, rest)) = line.cut('=') else {
            return line.fault("expected `NAME: TYPE = OP(…)`");
        };
        let outputs = self.binder(binder)?;
        let owns_regions = rest.strip_suffix("{");
        let call = owns_regions.unwrap_or(rest);
        let (call, body) = match call.find('|') {
            Some(at) => (call.split(at).0.trim(), Some(call.split(at).1)),
            None => (call, None),
        };
        let Some((callee, args)) = call.strip_suffix(")").and_then(|call| call.cut('(')) else {
            return call.fault("expected `OP(…)`");
        };
        let args = self.args(args)?;
        let (op, inputs) = match (callee.text, callee.strip_prefix("."), body) {
            ("map", _, Some(body)) => (NodeOp::Map(Arc::new(self.body(body)?)), args.operands()?),
            (_, _, Some(body)) => return body.fault("a scalar body belongs to `map`"),
            (_, Some(callee), None) => self.primitive(callee, args)?,
            (_, None, None) => self.call(callee, args)?,
        };
        let inputs = inputs.into_iter().map(|operand| self.value(scope, operand));
        let mut node = node(op, inputs.collect::<Result<_, _>>()?, outputs);
        if owns_regions.is_some() {
            node.regions = self.regions(depth)?;
        }
        define(scope, binder, node)
    }

    fn regions(&mut self, depth: usize) -> Result<Vec<Graph>, Fault> {
        let mut regions = vec![];
        while self.lines.get(self.at).is_some_and(|line| line.text != "}") {
            regions.push(self.graph(depth + 1)?);
        }
        self.next("`}`").map(|_| regions)
    }

    fn binder(&self, binder: Piece<'t>) -> Result<Vec<Output>, Fault> {
        match binder.strip_prefix("(").and_then(|rest| rest.strip_suffix(")")) {
            Some(several) => several.items().into_iter().map(|item| self.typed_name(item)).collect(),
            None => Ok(vec![self.typed_name(binder)?]),
        }
    }

    fn typed_name(&self, piece: Piece<'t>) -> Result<Output, Fault> {
        let Some((name, ty)) = piece.cut(':') else { return piece.fault("expected `NAME: TYPE`") };
        Ok(Output { name: self.name(name)?, ty: self.ty(ty)? })
    }

    fn name(&self, piece: Piece<'t>) -> Result<Symbol, Fault> {
        if is_plain_name(piece.text) {
            return Ok(piece.text.into());
        }
        if !piece.text.starts_with('"') {
            return piece.fault("expected a name");
        }
        match self.expr(piece)?.kind {
            ExprKind::Str(name) => Ok(name.into()),
            _ => piece.fault("expected a name"),
        }
    }

    fn value(&self, scope: &Scope, piece: Piece<'t>) -> Result<Value, Fault> {
        let name = self.name(piece)?;
        let value = scope.values.get(&name).copied();
        value.ok_or_else(|| Fault::new(piece.start, format!("`{name}` is not defined above")))
    }

    fn ty(&self, piece: Piece<'t>) -> Result<Type, Fault> {
        let mut diags = Diagnostics::new();
        let ty = parse_type(&self.text(piece), &mut diags).ok_or_else(|| first_fault(&diags, piece))?;
        let dtype = DType::from_name(&ty.dtype);
        let dtype = dtype.ok_or_else(|| at(ty.dtype.span, format!("`{}` is no element type", *ty.dtype)))?;
        let dims = ty.dims.into_iter().map(|dim| match dim.value {
            DimExpr::Fixed(n) => Dim::Fixed(n),
            DimExpr::Named(name) => Dim::Named(name.into()),
        });
        Ok(Type { dtype, shape: dims.collect() })
    }

    fn expr(&self, piece: Piece<'t>) -> Result<Expr, Fault> {
        let mut diags = Diagnostics::new();
        let expr = parse_expr(&self.text(piece), &mut diags);
        expr.filter(|_| !diags.has_errors()).ok_or_else(|| first_fault(&diags, piece))
    }

    fn text(&self, piece: Piece<'t>) -> Text {
        Text::verbatim(self.file, piece.start, piece.text)
    }
}

fn at(span: Span, message: impl Into<String>) -> Fault {
    Fault::new(span.start as usize, message)
}

fn first_fault(diags: &Diagnostics, piece: Piece) -> Fault {
    let Some(first) = diags.sorted().first().copied().cloned() else {
        return Fault::new(piece.start, "this cannot be read");
    };
    let start = first.labels.first().map_or(piece.start, |(span, _)| span.start as usize);
    let help = first.help.map(|help| format!("; {help}")).unwrap_or_default();
    Fault::new(start, first.message + &help)
}

fn node(op: NodeOp, inputs: Vec<Value>, outputs: Vec<Output>) -> Node {
    Node { op, inputs, outputs, regions: vec![], span: None }
}

fn define(scope: &mut Scope, place: Piece, node: Node) -> Result<(), Fault> {
    if node.outputs.is_empty() {
        return place.fault("a node has at least one result");
    }
    let id = scope.graph.nodes.len();
    for (port, output) in node.outputs.iter().enumerate() {
        if scope.values.insert(output.name.clone(), Value { node: id, port }).is_some() {
            return place.fault(format!("`{}` is defined twice", output.name));
        }
    }
    scope.graph.push(node);
    Ok(())
}

// ---- Calls: operands and settings.

/// What stands between the parentheses of a call.
struct Args<'t> {
    /// The closing parenthesis; what is missing is missing there.
    end: usize,
    operands: Vec<Piece<'t>>,
    settings: Vec<Setting<'t>>,
}

struct Setting<'t> {
    name: Piece<'t>,
    value: Expr,
}

impl<'t> Reader<'t> {
    fn args(&self, piece: Piece<'t>) -> Result<Args<'t>, Fault> {
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
    fn has(&self, name: &str) -> bool {
        self.settings.iter().any(|setting| setting.name.text == name)
    }

    fn take_open(&mut self, name: &str) -> Option<Expr> {
        let at = self.settings.iter().position(|setting| setting.name.text == name)?;
        Some(self.settings.remove(at).value)
    }

    fn take(&mut self, name: &str) -> Result<Expr, Fault> {
        self.take_open(name).ok_or_else(|| Fault::new(self.end, format!("`{name}` is not set")))
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

    /// The operands, if no setting is left.
    fn operands(self) -> Result<Vec<Piece<'t>>, Fault> {
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

fn literal(expr: &Expr) -> Result<Literal, Fault> {
    match expr.kind {
        ExprKind::Int(value) => Ok(Literal::Int(value)),
        ExprKind::Float(value) => Ok(Literal::Float(value)),
        ExprKind::Bool(value) => Ok(Literal::Bool(value)),
        _ => Err(at(expr.span, "expected a number or truth value")),
    }
}

fn dtype(expr: &Expr) -> Result<DType, Fault> {
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

type Parsed<'t> = (NodeOp, Vec<Piece<'t>>);

impl<'t> Reader<'t> {
    fn call(&self, callee: Piece<'t>, mut args: Args<'t>) -> Result<Parsed<'t>, Fault> {
        let form = self.registry.op(callee.text).ok_or_else(|| self.unknown_op(callee))?;
        let mut attrs = Attrs::default();
        for spec in &form.attrs {
            if let Some(value) = args.take_open(&spec.name) {
                let attr = attr(&value, &spec.kind)?;
                if !spec.admits(&attr) {
                    return Err(at(value.span, format!("`{}` cannot be {attr}", spec.name)));
                }
                attrs = attrs.with(&spec.name, attr);
            } else if spec.default.is_none() {
                return Err(Fault::new(args.end, format!("`{}` is not set", spec.name)));
            }
        }
        let attrs = form.fill_attrs(attrs);
        Ok((NodeOp::Call(Call { form, attrs }), args.operands()?))
    }

    fn unknown_op(&self, callee: Piece<'t>) -> Fault {
        let near = self.registry.nearest(callee.text);
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Fault::new(callee.start, format!("there is no op `{}`{hint}", callee.text))
    }

    fn primitive(&self, callee: Piece<'t>, mut args: Args<'t>) -> Result<Parsed<'t>, Fault> {
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
        let end = args.end;
        match args.operands()?[..] {
            [value] => Ok((NodeOp::Const(literal(&self.expr(value)?)?), vec![])),
            _ => Err(Fault::new(end, "expected one number or truth value")),
        }
    }

    fn scalar(&self, callee: Piece<'t>, args: &mut Args<'t>) -> Result<Scalar, Fault> {
        match callee.text {
            "cast" => Ok(Scalar::Cast(dtype(&args.take("dtype")?)?)),
            "foreign" => foreign(self.registry, &args.take("key")?),
            name => Scalar::from_name(name)
                .ok_or_else(|| Fault::new(callee.start, format!("there is no primitive `{name}`"))),
        }
    }
}

/// The value of an attribute. The form decides what a word or an empty list means.
fn attr(expr: &Expr, kind: &AttrKind) -> Result<Attr, Fault> {
    match (&expr.kind, kind) {
        (ExprKind::Name(name), _) if name == "none" => Ok(Attr::None),
        (ExprKind::Str(text), _) => Ok(Attr::Str(text.as_str().into())),
        (ExprKind::Name(_), _) => dtype(expr).map(Attr::DType),
        (ExprKind::List(items), AttrKind::Shape) => match items.iter().map(dim).collect() {
            Some(dims) => Ok(Attr::Shape(dims)),
            None => integers(expr).map(Attr::Ints),
        },
        (ExprKind::List(_), _) => integers(expr).map(Attr::Ints),
        _ => literal(expr).map(Attr::Lit),
    }
}

fn dim(expr: &Expr) -> Option<Dim> {
    match &expr.kind {
        ExprKind::Int(n) => usize::try_from(*n).ok().map(Dim::Fixed),
        ExprKind::Name(name) => Some(Dim::Named(name.as_str().into())),
        _ => None,
    }
}

// ---- Primitives, by family. Each yields nothing for a name that is not of the family.

fn indexing(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    let scatter = |combine, (axis, batch)| NodeOp::Scatter { axis, batch, combine };
    Ok(Some(match name {
        "iota" => NodeOp::Iota { axis: args.count("axis")? },
        "check" => NodeOp::Check { bound: args.count("bound")? },
        "gather" => {
            let (axis, batch) = args.axis_and_batch()?;
            NodeOp::Gather { axis, batch }
        }
        "scatter_add" => scatter(Combine::Add, args.axis_and_batch()?),
        "scatter_set" => scatter(Combine::Set, args.axis_and_batch()?),
        "contract" => {
            let batch = args.take_open("batch").map_or(Ok(vec![]), |batch| pairs(&batch))?;
            NodeOp::Contract(Contract { batch, contracted: pairs(&args.take("contracted")?)? })
        }
        _ => return Ok(None),
    }))
}

fn control(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    Ok(Some(match name {
        "random" => NodeOp::Random { stream: args.count("stream")? },
        "loop" => NodeOp::Loop { trips: args.count("trips")? },
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
        _ => return Ok(None),
    })))
}

fn reduction(name: &str, args: &mut Args) -> Result<Option<NodeOp>, Fault> {
    let monoid = |name: &str| Monoid::ALL.into_iter().find(|monoid| monoid.name() == name);
    if let Some(monoid) = name.strip_prefix("scan_").and_then(monoid) {
        return Ok(Some(NodeOp::Scan { monoid, axis: args.count("axis")? }));
    }
    // The larger of two operands goes by the same name as the largest of many.
    let is_scalar = Scalar::from_name(name).is_some() && !args.has("axes");
    match monoid(name).filter(|_| !is_scalar) {
        Some(monoid) => Ok(Some(NodeOp::Reduce { monoid, axes: args.counts("axes")? })),
        None => Ok(None),
    }
}

/// The foreign function of that key. It is known through the ops that use it.
fn foreign(registry: &Registry, key: &Expr) -> Result<Scalar, Fault> {
    let name = string(key)?;
    let known = registry.ops().flat_map(|form| foreigns(form)).find(|foreign| &*foreign.key == name);
    known.map(Scalar::Foreign).ok_or_else(|| at(key.span, format!("no op brings a function `{name}`")))
}

/// The foreign functions in the scalar body of an op that can do without settings.
fn foreigns(form: &OpForm) -> Vec<Arc<Foreign>> {
    match &form.lower {
        Lower::Map(body) if form.attrs.iter().all(|spec| spec.default.is_some()) => {
            let insts = body(&form.fill_attrs(Attrs::default())).insts.into_iter();
            insts
                .filter_map(|inst| match inst {
                    crate::ir::Inst::Apply(Scalar::Foreign(foreign), _) => Some(foreign),
                    _ => None,
                })
                .collect()
        }
        _ => vec![],
    }
}

// ---- Scalar bodies.

impl<'t> Reader<'t> {
    /// `|a, b| a + b, a - b`
    fn body(&self, piece: Piece<'t>) -> Result<Body, Fault> {
        let Some((params, results)) = piece.strip_prefix("|").and_then(|rest| rest.cut('|')) else {
            return piece.fault("expected `|a, b| …`");
        };
        let params: Vec<Symbol> =
            params.items().into_iter().map(|param| self.name(param)).collect::<Result<_, _>>()?;
        let results: Vec<Expr> =
            results.items().into_iter().map(|result| self.expr(result)).collect::<Result<_, _>>()?;
        let mut fault = None;
        let body = Body::new(params.len(), |values| {
            let named = params.iter().cloned().zip(values.iter().copied()).collect();
            let formula = Formula { registry: self.registry, params: named };
            let built = results.iter().map(|result| formula.build(result)).collect::<Result<Vec<E>, _>>();
            built.unwrap_or_else(|found| {
                fault = Some(found);
                vec![]
            })
        });
        fault.map_or(Ok(body), Err)
    }
}

/// Builds the steps of a scalar body out of expressions.
struct Formula<'t> {
    registry: &'t Registry,
    params: HashMap<Symbol, E>,
}

impl Formula<'_> {
    fn build(&self, expr: &Expr) -> Result<E, Fault> {
        match &expr.kind {
            ExprKind::Name(name) => {
                let param = self.params.get(name.as_str()).copied();
                param.ok_or_else(|| at(expr.span, format!("the body has no parameter `{name}`")))
            }
            ExprKind::Unary(UnaryOp::Neg, operand) => self.apply(Scalar::Unary(Unary::Neg), &[operand]),
            ExprKind::Unary(UnaryOp::Not, operand) => self.apply(Scalar::Unary(Unary::Not), &[operand]),
            ExprKind::Binary { op, left, right } => match infix(op.value) {
                Some(binary) => self.apply(Scalar::Binary(binary), &[left, right]),
                None => Err(at(op.span, format!("`{}` is no scalar operator", op.value))),
            },
            ExprKind::Call { callee, args, named } => {
                let scalar = self.scalar(callee, named)?;
                let wanted = scalar.arity();
                if args.len() != wanted {
                    return Err(at(callee.span, format!("`{}` takes {wanted} operands", callee.value)));
                }
                self.apply(scalar, &args.iter().collect::<Vec<_>>())
            }
            _ => literal(expr).map(E::lit),
        }
    }

    fn apply(&self, scalar: Scalar, operands: &[&Expr]) -> Result<E, Fault> {
        let operands: Vec<E> =
            operands.iter().map(|operand| self.build(operand)).collect::<Result<_, _>>()?;
        Ok(E::apply(scalar, &operands))
    }

    fn scalar(&self, callee: &Spanned<String>, named: &[(Spanned<String>, Expr)]) -> Result<Scalar, Fault> {
        let unknown = || at(callee.span, format!("there is no scalar primitive `{}`", callee.value));
        match (callee.as_str(), named) {
            ("cast", [(name, value)]) if **name == "dtype" => Ok(Scalar::Cast(dtype(value)?)),
            ("foreign", [(name, value)]) if **name == "key" => foreign(self.registry, value),
            (name, []) => Scalar::from_name(name).ok_or_else(unknown),
            (_, [(name, _), ..]) => Err(at(name.span, format!("there is no setting `{}` here", **name))),
        }
    }
}

fn infix(op: BinaryOp) -> Option<Binary> {
    Some(match op {
        BinaryOp::Add => Binary::Add,
        BinaryOp::Sub => Binary::Sub,
        BinaryOp::Mul => Binary::Mul,
        BinaryOp::Div => Binary::Div,
        BinaryOp::Rem => Binary::Rem,
        BinaryOp::Pow => Binary::Pow,
        BinaryOp::Lt => Binary::Lt,
        BinaryOp::Le => Binary::Le,
        BinaryOp::Gt => Binary::Gt,
        BinaryOp::Ge => Binary::Ge,
        BinaryOp::Eq => Binary::Eq,
        BinaryOp::Ne => Binary::Ne,
        BinaryOp::And => Binary::And,
        BinaryOp::Or => Binary::Or,
        BinaryOp::MatMul => return None,
    })
}
