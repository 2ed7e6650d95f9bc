//! Long scans of few rows in parts that many blocks scan at once.
//!
//! A block scans a row, chunk by chunk, so one long row would keep the other processors of a GPU idle. The parts of a row are
//! scanned like rows. A scan of their totals gives what lies before each part, which a map adds.

use super::Settings;
use super::domain::{Class, Domain};
use super::rewrite::Rewrite;
use crate::ir::{Binary, DType, Graph, Literal, Monoid, Node, NodeId, NodeOp, Scalar, Type, Value, View};

/// The fewest rows that are scanned whole: so many blocks use much of a GPU.
const MANY_ROWS: usize = 64;
/// The shortest and the longest part, unless a row has no divisor in between.
const PARTS: [usize; 2] = [256, 2048];
/// The length of parts of a row that is padded.
const PADDED_PART: usize = 1024;

/// The graph with its long scans in parts, the scans of totals as well; none if there are none.
pub fn split_scans(graph: &Graph, settings: &Settings) -> Option<Graph> {
    let is_long = |&id: &NodeId| {
        let NodeOp::Scan { axis, .. } = graph.nodes[id].op else { return false };
        let domain = Domain::of_reduction(&graph.ty(Value::of(id)).extents(), &[axis]);
        domain.row > settings.longest_scan() && domain.points(Class::Row) < MANY_ROWS
    };
    let long: Vec<NodeId> = (0..graph.nodes.len()).filter(is_long).collect();
    if long.is_empty() {
        return None;
    }
    let mut rewrite = Rewrite::new(graph);
    for id in 0..graph.nodes.len() {
        let new = match graph.nodes[id].op {
            NodeOp::Scan { monoid, axis } if long.binary_search(&id).is_ok() => {
                Split::new(&mut rewrite, id, monoid, axis).scan()
            }
            _ => rewrite.copied(id),
        };
        rewrite.map.push(new);
    }
    Some(rewrite.finish())
}

/// The length of the parts of a row.
fn part_of(row: usize) -> usize {
    let [shortest, longest] = PARTS;
    (shortest..=longest).rev().find(|&part| row.is_multiple_of(part)).unwrap_or(PADDED_PART)
}

/// A scan that is split.
struct Split<'r, 'g> {
    rewrite: &'r mut Rewrite<'g>,
    id: NodeId,
    monoid: Monoid,
    /// Sums and products of halves stay in `f32`.
    dtype: DType,
    domain: Domain,
    n_parts: usize,
    part: usize,
}

impl<'r, 'g> Split<'r, 'g> {
    fn new(rewrite: &'r mut Rewrite<'g>, id: NodeId, monoid: Monoid, axis: usize) -> Split<'r, 'g> {
        let ty = rewrite.old.ty(Value::of(id));
        let adds = matches!(monoid, Monoid::Sum | Monoid::Prod);
        let dtype = if adds { ty.dtype.accumulator() } else { ty.dtype };
        let domain = Domain::of_reduction(&ty.extents(), &[axis]);
        let part = part_of(domain.row);
        Split { rewrite, id, monoid, dtype, domain, n_parts: domain.row.div_ceil(part), part }
    }

    /// The new node of the scan.
    fn scan(mut self) -> NodeId {
        let Domain { outer, row, inner } = self.domain;
        let whole = [outer, self.n_parts, self.part, inner];
        let rows = self.rows();
        let parts = self.node("parts", NodeOp::View(View::Reshape), &[rows], &whole);
        let within = self.node("within", NodeOp::Scan { monoid: self.monoid, axis: 2 }, &[parts], &whole);
        let mut y = self.with_earlier(within, &whole);
        let length = self.n_parts * self.part;
        if length > row {
            y = self.node("joined", NodeOp::View(View::Reshape), &[y], &[outer, length, inner]);
            y = self.node("inside", slice(vec![0; 3]), &[y], &[outer, row, inner]);
        }
        let old = &self.rewrite.old.nodes[self.id];
        if self.dtype != old.outputs[0].ty.dtype {
            let (narrow, extents) = (old.outputs[0].ty.dtype, self.rewrite.new.ty(y).extents());
            self.dtype = narrow;
            y = self.node("narrow", NodeOp::Scalar(Scalar::Cast(narrow)), &[y], &extents);
        }
        let node = Node { op: NodeOp::View(View::Reshape), inputs: vec![y], ..old.clone() };
        self.rewrite.new.push(node)
    }

    /// The operand as rows of whole parts, `[outer, length, inner]`.
    fn rows(&mut self) -> Value {
        let Domain { outer, row, inner } = self.domain;
        let operand = self.rewrite.old.nodes[self.id].inputs[0];
        let (mut x, ty) = (self.rewrite.value(operand), self.rewrite.old.ty(operand).clone());
        if self.dtype != ty.dtype {
            x = self.node("wide", NodeOp::Scalar(Scalar::Cast(self.dtype)), &[x], &ty.extents());
        }
        x = self.node("rows", NodeOp::View(View::Reshape), &[x], &[outer, row, inner]);
        let length = self.n_parts * self.part;
        if length == row {
            return x;
        }
        let (low, high) = (vec![0; 3], vec![0, length - row, 0]);
        let pad = NodeOp::View(View::Pad { low, high, fill: self.zero() });
        self.node("padded", pad, &[x], &[outer, length, inner])
    }

    /// Scanned parts, with what lies before each. Nothing lies before the first one, and 0 plus -0 is not -0.
    fn with_earlier(&mut self, within: Value, whole: &[usize]) -> Value {
        let before = self.before(within);
        let spread = NodeOp::View(View::Broadcast { axes: vec![0, 1, 3] });
        let before = self.node("spread", spread, &[before], whole);
        let combine = NodeOp::Scalar(Scalar::Binary(combined_by(self.monoid)));
        let all = self.node("all", combine, &[before, within], whole);
        let integers = Split { rewrite: &mut *self.rewrite, dtype: DType::I32, ..*self };
        let is_first = integers.first_part(whole);
        self.node("scanned", NodeOp::Scalar(Scalar::Select), &[is_first, within, all], whole)
    }

    /// Whether a part is the first one.
    fn first_part(mut self, whole: &[usize]) -> Value {
        let part = self.node("part", NodeOp::Iota { axis: 1 }, &[], whole);
        let one = self.node("one", NodeOp::Const(Literal::Int(1)), &[], whole);
        self.dtype = DType::Bool;
        self.node("first", NodeOp::Scalar(Scalar::Binary(Binary::Lt)), &[part, one], whole)
    }

    /// What lies before each part, `[outer, parts, inner]`; 0 for the first one.
    fn before(&mut self, within: Value) -> Value {
        let (Domain { outer, inner, .. }, n_parts) = (self.domain, self.n_parts);
        let last =
            self.node("last", slice(vec![0, 0, self.part - 1, 0]), &[within], &[outer, n_parts, 1, inner]);
        let totals = self.node("totals", NodeOp::View(View::Reshape), &[last], &[outer, n_parts, inner]);
        let scan = NodeOp::Scan { monoid: self.monoid, axis: 1 };
        let upto = self.node("upto", scan, &[totals], &[outer, n_parts, inner]);
        let earlier = self.node("earlier", slice(vec![0; 3]), &[upto], &[outer, n_parts - 1, inner]);
        let pad = NodeOp::View(View::Pad { low: vec![0, 1, 0], high: vec![0; 3], fill: self.zero() });
        self.node("before", pad, &[earlier], &[outer, n_parts, inner])
    }

    fn node(&mut self, name: &str, op: NodeOp, inputs: &[Value], extents: &[usize]) -> Value {
        self.rewrite.beside(self.id, name, op, inputs.to_vec(), Type::new(self.dtype, extents))
    }

    fn zero(&self) -> Literal {
        Literal::Int(0).cast(self.dtype)
    }
}

fn slice(start: Vec<usize>) -> NodeOp {
    let step = vec![1; start.len()];
    NodeOp::View(View::Slice { start, step })
}

/// The scalar operation of a monoid.
pub fn combined_by(monoid: Monoid) -> Binary {
    match monoid {
        Monoid::Sum => Binary::Add,
        Monoid::Prod => Binary::Mul,
        Monoid::Max => Binary::Max,
        Monoid::Min => Binary::Min,
        Monoid::ArgMax | Monoid::ArgMin => crate::bug!("a scan by {}", monoid.name()),
    }
}
