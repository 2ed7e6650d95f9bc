//! Loops: a function that is written out once and called for all positions of a sequence, or until a condition holds.

use super::super::manner::Until;
use super::state::{FunctionCall, Typing};
use super::written::Place;
use crate::diag::Span;
use crate::ir::{
    Combine, DType, Dim, Graph, InputKind, Keep, Literal, Node, NodeId, NodeOp, Output, Symbol, Type, Value,
};
use crate::op::TypeIssue;
use std::collections::HashMap;

/// The result of a loop with a condition that no function has: the number of its calls.
pub(super) const N_TRIPS: &str = "trips";

/// How often a function is called.
#[derive(Clone, Copy)]
pub(super) enum Trips {
    /// For n positions along an axis of the operand behind the carried ones.
    Over { axis: usize, n: usize },
    /// Until a result is true.
    Until(Until),
}

/// The region of a loop while it is written.
struct Region {
    /// Carried values by their inputs, and their initial and next values.
    carried: Vec<(Value, Value, Value)>,
    number: Value,
    /// The value that ends the loop.
    ends: Option<Value>,
    /// The first node of the region.
    first: NodeId,
    keep: Keep,
}

impl Typing<'_, '_> {
    /// Writes a function out once, as the region of a loop. The results are those of all positions, or those of the last
    /// call and the number of calls.
    pub(super) fn write_loop(
        &mut self,
        call: &FunctionCall,
        place: &Place,
        mut inputs: Vec<Value>,
        (trips, span): (Trips, Span),
    ) -> Result<Vec<Value>, TypeIssue> {
        let outputs = &call.function.form.outputs;
        let ends = match trips {
            Trips::Until(until) => Some(until.port),
            Trips::Over { .. } => None,
        };
        let handed_on: Vec<usize> = (0..outputs.len()).filter(|port| Some(*port) != ends).collect();
        self.builder.set_scope(&place.path, Some(span));
        let mut initial: Vec<Value> = inputs[..handed_on.len()].to_vec();
        for &operand in inputs.iter().take(handed_on.len()) {
            initial.extend(self.empty_stack(operand, trips)?);
        }
        initial.extend(ends.map(|_| self.builder.full(Literal::Bool(false), Type::scalar(DType::Bool))));
        let first = self.builder.graph.nodes.len();
        let types: Vec<Type> = initial.iter().map(|&value| self.builder.ty(value).clone()).collect();
        let carried: Vec<Value> = types.iter().map(|ty| self.region_input(ty.clone())).collect();
        let number = self.region_input(Type::scalar(DType::I32));
        inputs[..handed_on.len()].copy_from_slice(&carried[..handed_on.len()]);
        if let Trips::Over { axis, .. } = trips {
            let sequence = &mut inputs[handed_on.len()];
            *sequence = self.builder.gather(*sequence, number, axis, 0);
        }
        let results = self.write_copy(call, place, &inputs, span)?;
        let mut next: Vec<Value> = handed_on.iter().map(|&port| results[port]).collect();
        for (at, (value, &port)) in next.iter().zip(&handed_on).enumerate() {
            let (before, after) = (&types[at], self.builder.ty(*value));
            expect_same(&outputs[port], at, before, after)?;
        }
        self.builder.set_scope(&place.path, Some(span));
        if let Trips::Over { axis, .. } = trips {
            for at in 0..handed_on.len() {
                let (stack, value) = (carried[handed_on.len() + at], next[at]);
                next.push(self.builder.scatter(stack, number, value, axis, 0, Combine::Set));
            }
        }
        let ends = ends.map(|port| results[port]);
        if let (Some(ends), Trips::Until(until)) = (ends, trips) {
            expect_truth(&outputs[until.port], self.builder.ty(ends))?;
            next.push(ends);
        }
        let carried = carried.into_iter().zip(initial).zip(next);
        let carried = carried.map(|((input, initial), next)| (input, initial, next)).collect();
        let keep = call.manner.keep;
        let made = self.close(Region { carried, number, ends, first, keep }, trips, span)?;
        Ok(match trips {
            Trips::Over { .. } => made[handed_on.len()..].to_vec(),
            Trips::Until(until) => {
                let (n, mut of_results) = (made.len(), made[..made.len() - 2].to_vec());
                of_results.insert(until.port, made[n - 2]);
                of_results.push(made[n - 1]);
                of_results
            }
        })
    }

    fn region_input(&mut self, ty: Type) -> Value {
        let name = self.builder.fresh_name();
        self.builder.input(&name, InputKind::Data, ty)
    }

    /// Zeros in the shape of a result at all positions.
    fn empty_stack(&mut self, value: Value, trips: Trips) -> Result<Option<Value>, TypeIssue> {
        let Trips::Over { axis, n } = trips else { return Ok(None) };
        let mut ty = self.builder.ty(value).clone();
        expect_stackable(&ty, axis)?;
        ty.shape.insert(axis, Dim::Fixed(n));
        Ok(Some(self.builder.full(Literal::Int(0), ty)))
    }

    /// Takes the nodes of a region out of the graph, and adds the loop that has them. Returns its results.
    fn close(&mut self, region: Region, trips: Trips, span: Span) -> Result<Vec<Value>, TypeIssue> {
        let Region { carried, number, ends, first, keep } = region;
        let inputs: Vec<NodeId> = carried.iter().map(|(input, ..)| input.node).chain([number.node]).collect();
        let (nodes, hoisted) = self.cut(first, &inputs)?;
        let results: Vec<Value> = carried.iter().map(|(_, _, next)| *next).chain(ends).collect();
        let mut body =
            Body { graph: Graph::new("trip"), map: HashMap::new(), given: vec![], given_at: 0, first };
        let is_input = |node: &NodeId| inputs.contains(node);
        for (id, node) in nodes.iter().filter(|(id, _)| is_input(id)) {
            body.map.insert(*id, body.graph.push(node.clone()));
        }
        let read = nodes.iter().flat_map(|(_, node)| &node.inputs).chain(&results);
        body.find_given(read, &hoisted, &self.builder.graph);
        for (id, node) in nodes.into_iter().filter(|(id, _)| !is_input(id)) {
            let inputs = node.inputs.iter().map(|&input| body.moved(input, &hoisted)).collect();
            let made = body.graph.push(Node { inputs, ..node });
            body.map.insert(id, made);
        }
        let results: Vec<Value> = results.into_iter().map(|value| body.moved(value, &hoisted)).collect();
        let name = |at: usize| Symbol::from(format!("next.{at}"));
        body.graph.outputs = results.into_iter().enumerate().map(|(at, value)| (name(at), value)).collect();
        let (trips, until) = match trips {
            Trips::Over { n, .. } => (n, false),
            Trips::Until(until) => (until.most, true),
        };
        let mut types: Vec<Type> =
            carried.iter().map(|(_, initial, _)| self.builder.ty(*initial).clone()).collect();
        types.extend(until.then(|| Type::scalar(DType::I32)));
        let outputs: Vec<Output> =
            types.into_iter().map(|ty| Output { name: self.builder.fresh_name(), ty }).collect();
        let n_outputs = outputs.len();
        let (n_given, reverse) = (body.given.len(), false);
        let op = NodeOp::Loop { trips, n_given, until, counted: false, reverse, keep };
        let operands = carried.iter().map(|(_, initial, _)| *initial).chain(body.given).collect();
        self.builder.set_span(Some(span));
        let node = self.builder.push_node(op, operands, outputs);
        self.builder.graph.nodes[node].regions = vec![body.graph];
        Ok((0..n_outputs).map(|port| Value { node, port }).collect())
    }

    /// The nodes from `first` on, without the inputs that calls have made there, such as parameters of layers. These stay
    /// in the graph; their new places are returned by the old ones.
    #[allow(clippy::type_complexity)]
    fn cut(
        &mut self,
        first: NodeId,
        inputs: &[NodeId],
    ) -> Result<(Vec<(NodeId, Node)>, HashMap<NodeId, NodeId>), TypeIssue> {
        let nodes = self.builder.graph.nodes.split_off(first);
        let mut hoisted = HashMap::new();
        let mut kept = vec![];
        for (offset, node) in nodes.into_iter().enumerate() {
            let id = first + offset;
            match node.op {
                NodeOp::Input(_) if !inputs.contains(&id) => {
                    hoisted.insert(id, self.builder.graph.push(node));
                }
                _ => kept.push((id, node)),
            }
        }
        if let Some(step) = &mut self.builder.step
            && let Some(&node) = hoisted.get(&step.node)
        {
            step.node = node;
        }
        for (_, value) in self.written.params.values_mut() {
            value.node = hoisted.get(&value.node).copied().unwrap_or(value.node);
        }
        if let Some((state, _)) = self.written.updates.iter().find(|(_, value)| value.node >= first) {
            let issue = TypeIssue::new(format!("the state `{state}` of a layer cannot change in a loop"));
            return Err(issue.help("hand it on as an operand and a result"));
        }
        self.written.calls.retain(|_, called| called.results.iter().all(|value| value.node < first));
        for range in self.written.full_precision.extract_if(.., |range| range.start >= first) {
            let inside = kept.iter().filter(|(id, _)| range.contains(id));
            self.written.full_in_loops.extend(inside.flat_map(|(_, node)| node.names_within()));
        }
        self.written.recomputed.retain(|(_, range)| range.start < first);
        Ok((kept, hoisted))
    }
}

/// The graph of a region.
struct Body {
    graph: Graph,
    map: HashMap<NodeId, NodeId>,
    /// Values of the graph around, in the order of the inputs behind the number.
    given: Vec<Value>,
    /// The first of these inputs.
    given_at: NodeId,
    first: NodeId,
}

impl Body {
    /// Makes an input of each value of the graph around that the region reads.
    fn find_given<'v>(
        &mut self,
        read: impl Iterator<Item = &'v Value>,
        hoisted: &HashMap<NodeId, NodeId>,
        around: &Graph,
    ) {
        self.given_at = self.graph.nodes.len();
        for &input in read {
            let Some(value) = outside(input, self.first, hoisted) else { continue };
            if !self.given.contains(&value) {
                self.given.push(value);
                let ty = around.ty(value).clone();
                let outputs = vec![Output { name: around.name_of(value).clone(), ty }];
                let op = NodeOp::Input(InputKind::Data);
                self.graph.push(Node {
                    op,
                    inputs: vec![],
                    outputs,
                    regions: vec![],
                    span: None,
                    no_fuse: None,
                });
            }
        }
    }

    /// A value as the region has it.
    fn moved(&self, value: Value, hoisted: &HashMap<NodeId, NodeId>) -> Value {
        match outside(value, self.first, hoisted) {
            Some(value) => {
                let at = self.given.iter().position(|known| *known == value);
                let at = at.unwrap_or_else(|| crate::bug!("a loop is not given what it reads"));
                Value::of(self.given_at + at)
            }
            None => Value { node: self.map[&value.node], port: value.port },
        }
    }
}

/// The value of the graph around that a node of the region reads.
fn outside(value: Value, first: NodeId, hoisted: &HashMap<NodeId, NodeId>) -> Option<Value> {
    match hoisted.get(&value.node) {
        Some(&node) => Some(Value { node, ..value }),
        None => (value.node < first).then_some(value),
    }
}

fn expect_same(result: &str, operand: usize, before: &Type, after: &Type) -> Result<(), TypeIssue> {
    if before == after {
        return Ok(());
    }
    let message = format!("the result `{result}` is {after}, and the operand that it becomes is {before}");
    let issue = TypeIssue::new(message).at(operand, format!("this is {before}"));
    Err(issue.help("values that a loop hands on keep their type"))
}

fn expect_truth(result: &str, ty: &Type) -> Result<(), TypeIssue> {
    if *ty == Type::scalar(DType::Bool) {
        return Ok(());
    }
    let issue = TypeIssue::new(format!("the result `{result}` ends the loop, and it is {ty}"));
    Err(issue.help("it is a single truth value: `all(x < 1e-4)`"))
}

/// Fails unless results of a type can lie side by side along a new axis.
pub(super) fn expect_stackable(ty: &Type, axis: usize) -> Result<(), TypeIssue> {
    if axis <= ty.rank() {
        return Ok(());
    }
    let issue = TypeIssue::new(format!("results of {ty} cannot be stacked along axis {axis}"));
    Err(issue.help("they lie along the axis of the sequence"))
}
