//! Regions of loops in primitives: random nodes take the number of the trip, and the step is a given value.

use crate::ir::{
    Binary, DType, Graph, InputKind, Keep, Literal, Node, NodeId, NodeOp, Output, Scalar, Type, Value,
};

/// A loop of primitives. The step becomes its last given value if the region reads it. Returns the op, the region, and
/// whether it takes the step.
pub fn counted(op: &NodeOp, region: Graph, n_outputs: usize) -> (NodeOp, Graph, bool) {
    let &NodeOp::Loop { trips, n_given, until, counted, reverse, .. } = op else {
        crate::bug!("{op:?} is no loop")
    };
    let n_carried = n_outputs - usize::from(until);
    let takes_step = reads_step(&region);
    let mut counter = Counter {
        new: Graph::new(region.name.clone()),
        map: vec![],
        step: None,
        number: None,
        is_counted: counted,
        is_reverse: reverse,
    };
    counter.rebuild(&region, (trips, n_carried), takes_step);
    let n_given = n_given + usize::from(takes_step);
    let op = NodeOp::Loop { trips, n_given, until, counted: true, reverse: false, keep: Keep::All };
    (op, counter.new, takes_step)
}

fn is_step(node: &Node) -> bool {
    node.op == NodeOp::Input(InputKind::Step)
}

fn reads_step(region: &Graph) -> bool {
    let reads = |input: &Value| is_step(region.node(input.node));
    region.nodes.iter().any(|node| node.inputs.iter().any(reads))
}

/// Whether a region draws random numbers, or one within it.
fn draws(region: &Graph) -> bool {
    region.nodes.iter().any(|node| matches!(node.op, NodeOp::Random { .. }) || node.regions.iter().any(draws))
}

struct Counter {
    new: Graph,
    map: Vec<NodeId>,
    step: Option<Value>,
    /// The iteration: the number of the trip, counted from the last if the loop is reversed.
    number: Option<Value>,
    /// Whether random nodes take it already.
    is_counted: bool,
    /// Whether the iteration counts from the last trip to the first.
    is_reverse: bool,
}

impl Counter {
    /// Copies a region, inputs first.
    fn rebuild(&mut self, region: &Graph, (trips, n_carried): (usize, usize), takes_step: bool) {
        self.map = vec![usize::MAX; region.nodes.len()];
        let inputs: Vec<NodeId> =
            region.inputs().map(|(id, _)| id).filter(|&id| !is_step(region.node(id))).collect();
        for &id in &inputs {
            self.map[id] = self.new.push(region.node(id).clone());
        }
        if takes_step {
            let step = region.nodes.iter().position(is_step);
            self.step =
                step.map(|id| self.push(NodeOp::Input(InputKind::Data), vec![], region.node(id).name()));
        }
        let number = Value::of(self.map[inputs[n_carried]]);
        self.number = Some(number);
        if self.is_reverse {
            let name = format!("{}.back", self.new.name_of(number));
            let last =
                self.push(NodeOp::Const(Literal::Int(trips as i64 - 1)), vec![], &format!("{name}.last"));
            let iteration = self.push(NodeOp::Scalar(Scalar::Binary(Binary::Sub)), vec![last, number], &name);
            (self.number, self.map[inputs[n_carried]]) = (Some(iteration), iteration.node);
        }
        for (id, node) in
            region.nodes.iter().enumerate().filter(|(_, node)| !matches!(node.op, NodeOp::Input(_)))
        {
            self.copy(id, node, trips);
        }
        let moved = |value: &Value| Value { node: self.map[value.node], port: value.port };
        self.new.outputs = region.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
    }

    fn copy(&mut self, id: NodeId, node: &Node, trips: usize) {
        let moved = |input: &Value| match self.map[input.node] {
            usize::MAX => self.step.unwrap_or_else(|| crate::bug!("a region reads what it lacks")),
            node => Value { node, port: input.port },
        };
        let mut copy = Node { inputs: node.inputs.iter().map(moved).collect(), ..node.clone() };
        match &mut copy.op {
            NodeOp::Random { .. } if !self.is_counted => {
                let around = copy.inputs.get(1).copied();
                copy.inputs.truncate(1);
                let number = self.number_within(around, trips, node.name());
                copy.inputs.push(number);
            }
            NodeOp::Loop { trips: inner, n_given, .. }
                if !self.is_counted && node.regions.iter().any(draws) =>
            {
                let around = self.number_within(None, trips, node.name());
                copy.inputs.push(around);
                *n_given += 1;
                copy.regions = node.regions.iter().map(|region| within(region, *inner)).collect();
            }
            _ => {}
        }
        self.map[id] = self.new.push(copy);
    }

    /// The number of this trip, counted through those of a loop around.
    fn number_within(&mut self, around: Option<Value>, trips: usize, name: &str) -> Value {
        let Some(number) = self.number else { crate::bug!("a loop without a number") };
        let Some(around) = around else { return number };
        through(&mut self.new, around, number, trips, name)
    }

    fn push(&mut self, op: NodeOp, inputs: Vec<Value>, name: &str) -> Value {
        push(&mut self.new, op, inputs, name)
    }
}

/// A region of a loop within a loop: its random nodes count through the trips of the loop around, whose number is a
/// further input.
fn within(region: &Graph, trips: usize) -> Graph {
    let mut new = Graph::new(region.name.clone());
    let mut map = vec![usize::MAX; region.nodes.len()];
    for (id, _) in region.inputs() {
        map[id] = new.push(region.node(id).clone());
    }
    let around = push(&mut new, NodeOp::Input(InputKind::Data), vec![], "around");
    for (id, node) in region.nodes.iter().enumerate().filter(|(_, node)| !matches!(node.op, NodeOp::Input(_)))
    {
        let moved = |input: &Value| Value { node: map[input.node], port: input.port };
        let mut copy = Node { inputs: node.inputs.iter().map(moved).collect(), ..node.clone() };
        match &mut copy.op {
            NodeOp::Random { .. } => {
                let inner = copy.inputs[1];
                copy.inputs[1] = through(&mut new, around, inner, trips, node.name());
            }
            // The number that the inner loop is given counts through this one, too.
            NodeOp::Loop { .. } if node.regions.iter().any(draws) => {
                let at = copy.inputs.len() - 1;
                copy.inputs[at] = through(&mut new, around, copy.inputs[at], trips, node.name());
            }
            _ => {}
        }
        map[id] = new.push(copy);
    }
    let moved = |value: &Value| Value { node: map[value.node], port: value.port };
    new.outputs = region.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
    new
}

/// `around · trips + number`.
fn through(graph: &mut Graph, around: Value, number: Value, trips: usize, name: &str) -> Value {
    let trips = push(graph, NodeOp::Const(Literal::Int(trips as i64)), vec![], &format!("{name}.trips"));
    let by = |op| NodeOp::Scalar(Scalar::Binary(op));
    let before = push(graph, by(Binary::Mul), vec![around, trips], &format!("{name}.before"));
    push(graph, by(Binary::Add), vec![before, number], &format!("{name}.trip"))
}

/// Appends a node whose result is an `i32[]`.
fn push(graph: &mut Graph, op: NodeOp, inputs: Vec<Value>, name: &str) -> Value {
    let outputs = vec![Output { name: name.into(), ty: Type::scalar(DType::I32) }];
    Value::of(graph.push(Node { op, inputs, outputs, regions: vec![], span: None, no_fuse: None }))
}
