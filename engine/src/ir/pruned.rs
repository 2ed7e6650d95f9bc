//! Graphs without what nothing reads, also within loops.

use super::{Graph, InputKind, Node, NodeId, NodeOp, StateLink, Value};

/// Operands of a loop that some of its results depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// By carried value.
    pub(crate) carried: Vec<bool>,
    /// By given value.
    pub(crate) given: Vec<bool>,
}

impl Needs {
    /// What the results of a loop need whose ports are marked. The end of a loop that may end early is always needed.
    pub(crate) fn of(node: &Node, ports: &[bool]) -> Needs {
        let &NodeOp::Loop { n_given, .. } = &node.op else { crate::bug!("{:?} is no loop", node.op) };
        let (region, n_carried) = (&node.regions[0], node.inputs.len() - n_given);
        let inputs = inputs_of(region);
        let mut needs = Needs { carried: ports[..n_carried].to_vec(), given: vec![] };
        loop {
            let live = region.live_values(results(region, &needs).map(|(_, value)| value));
            let is_live = |input: &NodeId| live[*input][0];
            needs.given = inputs[n_carried + 1..].iter().map(is_live).collect();
            let read = inputs[..n_carried].iter().map(is_live);
            let carried: Vec<bool> = read.zip(&needs.carried).map(|(read, known)| read || *known).collect();
            if carried == needs.carried {
                return needs;
            }
            needs.carried = carried;
        }
    }

    /// By operand of the loop.
    pub(crate) fn operands(&self) -> impl Iterator<Item = bool> {
        self.carried.iter().chain(&self.given).copied()
    }
}

/// A loop without the operands, and without the results, that are not needed.
pub(crate) fn with_needs(node: &Node, needs: &Needs) -> Node {
    let mut node = node.clone();
    let NodeOp::Loop { n_given, .. } = &mut node.op else { crate::bug!("{:?} is no loop", node.op) };
    *n_given = needs.given.iter().filter(|is_needed| **is_needed).count();
    let mut is_needed = needs.operands();
    node.inputs.retain(|_| is_needed.next().unwrap_or(false));
    let mut is_needed = needs.carried.iter().copied();
    node.outputs.retain(|_| is_needed.next().unwrap_or(true));
    let region = &node.regions[0];
    let number = [true];
    let taken = needs.carried.iter().chain(&number).chain(&needs.given);
    let inputs = inputs_of(region).into_iter().zip(taken).filter(|(_, taken)| **taken);
    let inputs: Vec<Value> = inputs.map(|(input, _)| Value::of(input)).collect();
    let outputs: Vec<_> = results(region, needs).map(|(at, _)| region.outputs[at].clone()).collect();
    let region = Graph { outputs, ..region.clone() };
    let roots: Vec<Value> = region.roots().chain(inputs).collect();
    node.regions = vec![region.with_values(roots)];
    node
}

/// The inputs of a region but the step.
fn inputs_of(region: &Graph) -> Vec<NodeId> {
    region.inputs().filter(|(_, kind)| *kind != InputKind::Step).map(|(id, _)| id).collect()
}

/// The results of a region that are needed, with their positions.
fn results(region: &Graph, needs: &Needs) -> impl Iterator<Item = (usize, Value)> {
    let is_needed = |at: usize| needs.carried.get(at).copied().unwrap_or(true);
    region
        .outputs
        .iter()
        .enumerate()
        .map(|(at, (_, value))| (at, *value))
        .filter(move |(at, _)| is_needed(*at))
}

/// The next port, which is used up if its result is kept.
fn next_port(next: &mut Value, is_kept: bool) -> Value {
    let value = *next;
    next.port += usize::from(is_kept);
    value
}

impl Graph {
    /// The graph without unneeded nodes and inputs. A loop loses the carried values that nothing reads.
    pub fn pruned(&self) -> Graph {
        let states = self.state.iter().map(|link| Value::of(link.input));
        self.with_values(self.roots().chain(states))
    }

    /// By node, the results that some values depend on, their own included.
    fn live_values(&self, values: impl IntoIterator<Item = Value>) -> Vec<Vec<bool>> {
        let mut live: Vec<Vec<bool>> =
            self.nodes.iter().map(|node| vec![false; node.outputs.len()]).collect();
        for value in values {
            live[value.node][value.port] = true;
        }
        for (id, node) in self.nodes.iter().enumerate().rev() {
            if !live[id].contains(&true) {
                continue;
            }
            let needs = matches!(node.op, NodeOp::Loop { .. }).then(|| Needs::of(node, &live[id]));
            if let Some(needs) = &needs {
                live[id].iter_mut().zip(&needs.carried).for_each(|(live, needed)| *live = *needed);
            }
            let mut is_needed = needs.iter().flat_map(Needs::operands);
            for input in &node.inputs {
                live[input.node][input.port] |= is_needed.next().unwrap_or(true);
            }
        }
        live
    }

    /// The graph with the nodes that some values depend on.
    fn with_values(&self, values: impl IntoIterator<Item = Value>) -> Graph {
        let live = self.live_values(values);
        let mut map: Vec<Vec<Value>> = vec![];
        let mut pruned = Graph::new(self.name.clone());
        let moved = |map: &[Vec<Value>], v: Value| map[v.node][v.port];
        for (node, live) in self.nodes.iter().zip(live) {
            if !live.contains(&true) {
                map.push(vec![]);
                continue;
            }
            let needs = matches!(node.op, NodeOp::Loop { .. }).then(|| Needs::of(node, &live));
            let mut node = needs.as_ref().map_or_else(|| node.clone(), |needs| with_needs(node, needs));
            node.inputs.iter_mut().for_each(|input| *input = moved(&map, *input));
            let id = pruned.push(node);
            let mut kept = needs.iter().flat_map(|needs| needs.carried.iter().copied());
            let mut next = Value { node: id, port: 0 };
            map.push(live.iter().map(|_| next_port(&mut next, kept.next().unwrap_or(true))).collect());
        }
        pruned.outputs = self.outputs.iter().map(|(name, v)| (name.clone(), moved(&map, *v))).collect();
        let link = |l: &StateLink| StateLink { input: map[l.input][0].node, next: moved(&map, l.next) };
        pruned.state = self.state.iter().map(link).collect();
        pruned
    }
}
