//! The graph of a step, made of the demanded forms of each node.

use super::demand::{Demand, all};
use super::need::{Part, operands};
use super::place::Place;
use super::places::Places;
use crate::ir::{
    Binary, Builder, Combine, DType, Graph, InputKind, Literal, NodeId, NodeOp, OpSet, Output, StateLink,
    Symbol, Type, Value,
};
use indexmap::IndexSet;
use std::collections::HashMap;

/// The graph under construction.
pub struct Rebuilt {
    /// The nodes so far.
    pub graph: Graph,
    made: HashMap<(NodeId, Demand), Vec<Value>>,
}

impl Rebuilt {
    /// The rows of a value at a place.
    pub fn rows(&self, value: Value, place: Place) -> Value {
        self.made[&(value.node, Demand::Rows(place))][value.port]
    }
}

/// Builds all demanded forms.
pub fn rebuild(
    old: &Graph,
    places: &Places,
    demands: &[IndexSet<Demand>],
    (tokens, n_new): (Value, usize),
    ops: &dyn OpSet,
) -> Rebuilt {
    let n = old.ty(tokens).extents()[1];
    let mut builder = Builder::new(Graph::new(old.name.clone()), ops);
    builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
    let step = builder.step();
    builder.set_scope("decode", None);
    // A check would have to come before each write to a cache.
    let last = builder.full(Literal::Int((n - n_new) as i64), Type::scalar(DType::I32));
    let first = builder.binary(Binary::Min, step, last);
    let new = Type::new(DType::I32, &[n_new]);
    let first = builder.broadcast_axes(first, &[], &new.shape);
    let coordinate = builder.iota(0, new);
    let at = builder.add(first, coordinate);
    let mut rebuild = Rebuild { old, places, builder, made: HashMap::new(), n, n_new, at, tokens };
    for (id, demands) in demands.iter().enumerate() {
        rebuild.node(id, demands);
    }
    Rebuilt { graph: rebuild.builder.graph, made: rebuild.made }
}

struct Rebuild<'r> {
    old: &'r Graph,
    places: &'r Places,
    builder: Builder<'r>,
    made: HashMap<(NodeId, Demand), Vec<Value>>,
    /// All tokens.
    n: usize,
    n_new: usize,
    /// The places of the new tokens, `i32[n_new]`.
    at: Value,
    tokens: Value,
}

impl Rebuild<'_> {
    /// The forms of a node: all rows first, since rows may be taken from them, and the cache last, which takes rows.
    fn node(&mut self, id: NodeId, demands: &IndexSet<Demand>) {
        let node = self.old.node(id);
        self.builder.set_scope(node.name(), node.span);
        self.builder.set_no_fuse(node.no_fuse.clone());
        let mut order: Vec<Demand> = demands.iter().copied().collect();
        order.sort_by_key(|demand| match demand {
            Demand::Whole => 0,
            Demand::Rows(place) if self.is_own(id, *place) => 1,
            Demand::Cached(_) => 2,
            Demand::Rows(_) => 3,
        });
        for (number, demand) in order.into_iter().enumerate() {
            let name = (number == 0).then(|| node.name().clone());
            let made = match demand {
                Demand::Whole => self.whole(id, name),
                Demand::Rows(place) => self.rows(id, place, name),
                Demand::Cached(place) => vec![self.cached(id, place)],
            };
            self.made.insert((id, demand), made);
        }
    }

    /// Whether the rows at a place are computed, rather than taken from all rows.
    fn is_own(&self, id: NodeId, place: Place) -> bool {
        id == self.tokens.node || operands(self.old, id, place, self.n).is_some()
    }

    /// The whole node, with names of its own unless it is the first form.
    fn whole(&mut self, id: NodeId, name: Option<Symbol>) -> Vec<Value> {
        let node = self.old.node(id);
        if node.op == NodeOp::Input(InputKind::Step) {
            return vec![self.builder.step()];
        }
        let inputs = node.inputs.iter().map(|&input| self.form(input, Part::All)).collect();
        let outputs = node.outputs.iter().map(|output| Output {
            name: if name.is_some() { output.name.clone() } else { self.builder.fresh_name() },
            ty: output.ty.clone(),
        });
        let outputs: Vec<Output> = outputs.collect();
        let n_outputs = outputs.len();
        let made = self.builder.push_node(node.op.clone(), inputs, outputs);
        self.builder.graph.nodes[made].regions = node.regions.clone();
        (0..n_outputs).map(|port| Value { node: made, port }).collect()
    }

    /// The rows of the new tokens, by output.
    fn rows(&mut self, id: NodeId, place: Place, name: Option<Symbol>) -> Vec<Value> {
        let node = self.old.node(id);
        let parts = match &node.op {
            NodeOp::Input(_) if id == self.tokens.node && place == (Place { axis: 1, inner: 1 }) => {
                Some(vec![])
            }
            _ => operands(self.old, id, place, self.n),
        };
        let Some(parts) = parts else { return self.taken(id, place) };
        let ty = self.shortened(Value::of(id), place);
        if let NodeOp::Iota { axis } = node.op
            && axis == place.axis
        {
            return vec![self.coordinates(&ty, place)];
        }
        let inputs = node.inputs.iter().zip(parts).map(|(&input, part)| self.form(input, part)).collect();
        let name = name.unwrap_or_else(|| self.builder.fresh_name());
        vec![self.builder.push_named(name, node.op.clone(), inputs, ty)]
    }

    fn shortened(&self, value: Value, place: Place) -> Type {
        let ty = self.old.ty(value);
        Type::new(ty.dtype, &place.shortened(&ty.extents(), self.n, self.n_new))
    }

    fn form(&self, input: Value, part: Part) -> Value {
        let demand = match part {
            Part::Rows(place) => Demand::Rows(place),
            Part::All => all(self.places, input),
        };
        self.made[&(input.node, demand)][input.port]
    }

    /// The rows of the new tokens, taken from all rows, by output.
    fn taken(&mut self, id: NodeId, place: Place) -> Vec<Value> {
        let whole = Demand::Whole;
        let cached = self.places.of(Value::of(id)).first().map(|place| Demand::Cached(*place));
        let known = [Some(whole), cached].into_iter().flatten().find_map(|form| self.made.get(&(id, form)));
        let Some(whole) = known.cloned() else { crate::bug!("no rows to take from") };
        whole.into_iter().map(|output| self.taken_from(output, place)).collect()
    }

    /// The rows of one output. An output without such rows stays as it is: the place is another output's.
    fn taken_from(&mut self, whole: Value, place: Place) -> Value {
        if place.outer(&self.builder.extents(whole), self.n).is_none() {
            return whole;
        }
        let split = place.split(&self.builder.extents(whole), self.n);
        let short = place.shortened(&self.builder.extents(whole), self.n, self.n_new);
        let split = self.builder.reshape(whole, &split);
        let rows = self.builder.gather(split, self.at, place.axis + 1, 0);
        self.builder.reshape(rows, &short)
    }

    /// A state with the rows of earlier tokens, after the new ones are inserted.
    fn cached(&mut self, id: NodeId, place: Place) -> Value {
        let extents = self.old.ty(Value::of(id)).extents();
        let rows = self.made[&(id, Demand::Rows(place))][0];
        let (long, short) =
            (place.split(&extents, self.n), place.split(&self.builder.extents(rows), self.n_new));
        let name = format!("cache.{}", self.old.node(id).name());
        let ty = Type::new(self.builder.dtype(rows), &long);
        let state = self.builder.input(&name, InputKind::State, ty);
        let rows = self.builder.reshape(rows, &short);
        let next = self.builder.scatter(state, self.at, rows, place.axis + 1, 0, Combine::Set);
        self.builder.graph.state.push(StateLink { input: state.node, next });
        self.builder.reshape(next, &extents)
    }

    /// The coordinates of new rows along an axis: `(j / (s·i))·n·i + at·i + j % i` for coordinate j among s new tokens
    /// with i elements each.
    fn coordinates(&mut self, ty: &Type, place: Place) -> Value {
        let extents = ty.extents();
        let split = place.split(&extents, self.n_new);
        let over = Type::new(DType::I32, &split);
        let [outer, inner] = [place.axis, place.axis + 2].map(|axis| self.builder.iota(axis, over.clone()));
        let at = self.builder.broadcast_axes(self.at, &[place.axis + 1], &over.shape);
        let outer = self.builder.scale(outer, (self.n * place.inner) as f64);
        let at = self.builder.scale(at, place.inner as f64);
        let sum = self.builder.binary(Binary::Add, outer, at);
        let sum = self.builder.add(sum, inner);
        let flat = self.builder.reshape(sum, &extents);
        self.builder.cast(flat, ty.dtype)
    }
}
