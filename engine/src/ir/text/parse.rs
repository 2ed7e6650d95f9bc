//! Reads graphs from text. This file reads lines and names. Types, settings and scalar bodies are expressions.

use super::error::TextError;
use super::extent::open_extent;
use super::is_plain_name;
use super::piece::{Fault, Piece, at, first_fault, lines};
use crate::diag::{Diagnostics, FileId, Sources};
use crate::ir::{DType, Graph, InputKind, Node, NodeOp, OpSet, Output, StateLink, Symbol, Type, Value};
use crate::text::Text;
use crate::text::expr::{Expr, ExprKind, parse_expr, parse_type};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum nesting of regions.
const MAX_REGIONS: usize = 32;

/// Reads one graph in the text form. Calls are of these ops. The result is well-formed as a text: each name is
/// defined once, before its use. [`verify`](crate::ir::verify) checks that its types agree.
pub fn parse(text: &str, ops: &dyn OpSet) -> Result<Graph, TextError> {
    let file = Sources::new().add("graph", text);
    let mut reader = Reader { file, ops, lines: lines(text), at: 0, end: text.len() };
    let graph = reader.graph(0).and_then(|graph| reader.finish().map(|()| graph));
    graph.map_err(|fault| fault.locate(text))
}

/// Reads the lines of a text in order.
pub(super) struct Reader<'t> {
    file: FileId,
    pub(super) ops: &'t dyn OpSet,
    lines: Vec<Piece<'t>>,
    at: usize,
    end: usize,
}

/// A graph under construction and the values of its names.
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
        const KINDS: [InputKind; 5] =
            [InputKind::Data, InputKind::Param, InputKind::State, InputKind::Once, InputKind::Step];
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

    /// `h: f32[2] = op(x)`, optionally with a body or regions, after `[h]` if the node has `fuse: Never`.
    fn definition(&mut self, scope: &mut Scope, line: Piece<'t>, depth: usize) -> Result<(), Fault> {
        let (no_fuse, line) = match line.strip_prefix("[").and_then(|rest| rest.cut(']')) {
            Some((no_fuse, rest)) => (Some(self.name(no_fuse)?), rest),
            None => (None, line),
        };
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
            ("map", _, None) => return args.missing("a scalar body such as `|a| -a` follows `map(…)`"),
            (_, _, Some(body)) => return body.fault("a scalar body belongs to `map`"),
            (_, Some(callee), None) => self.primitive(callee, args)?,
            (_, None, None) => self.call(callee, args)?,
        };
        let inputs = inputs.into_iter().map(|operand| self.value(scope, operand));
        let mut node = node(op, inputs.collect::<Result<_, _>>()?, outputs);
        node.no_fuse = no_fuse;
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

    pub(super) fn name(&self, piece: Piece<'t>) -> Result<Symbol, Fault> {
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
        let extent = |dim| open_extent(dim).map_err(|(span, message)| at(span, message));
        Ok(Type { dtype, shape: ty.dims.iter().map(extent).collect::<Result<_, _>>()? })
    }

    pub(super) fn expr(&self, piece: Piece<'t>) -> Result<Expr, Fault> {
        let mut diags = Diagnostics::new();
        let expr = parse_expr(&self.text(piece), &mut diags);
        expr.filter(|_| !diags.has_errors()).ok_or_else(|| first_fault(&diags, piece))
    }

    fn text(&self, piece: Piece<'t>) -> Text {
        Text::verbatim(self.file, piece.start, piece.text)
    }
}

fn node(op: NodeOp, inputs: Vec<Value>, outputs: Vec<Output>) -> Node {
    Node { op, inputs, outputs, regions: vec![], span: None, no_fuse: None }
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
