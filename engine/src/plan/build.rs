//! From kernels to a plan: state in place, streams, then memory.

use super::memory::{Need, place};
use super::schedule::{Before, Scheduled, dependencies, finished_before, schedule};
use super::{Assertion, Buffer, BufferId, Launch, Place, Plan, Precision};
use crate::diag::Span;
use crate::fusion::{Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, Operand, Use};
use crate::ir::{Graph, Node, NodeId, NodeOp, Output, StateLink, Symbol, Value, View};
use crate::rules::Numerics;
use petgraph::graph::NodeIndex;
use petgraph::visit::Dfs;
use std::collections::{HashMap, HashSet};

/// Plans the kernels of a simplified primitive graph for `n_streams` streams.
pub fn plan(graph: &Graph, kernels: Vec<Kernel>, n_streams: usize) -> Plan {
    let kernels: Vec<Kernel> = kernels.into_iter().filter(has_work).collect();
    let mut planner = Planner { graph, kernels, in_place: HashMap::new() };
    planner.link_state();
    let before = planner.before();
    let order = schedule(&planner.kernels, &before, n_streams.max(1));
    planner.finish(order, n_streams.max(1))
}

/// Copies of states for all that must outlive their update: a next state that is another input, since two states may
/// change places, and an output that is a state, since outputs show the values before the step's updates.
pub fn separate_states(graph: &Graph) -> Graph {
    let mut separate = graph.clone();
    let mut names: HashSet<Symbol> =
        graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()).collect();
    for (i, link) in graph.state.iter().enumerate().filter(|(_, link)| is_updated(graph, link)) {
        if matches!(graph.nodes[link.next.node].op, NodeOp::Input(_)) {
            let name = format!("{}.next", graph.nodes[link.input].name());
            separate.state[i].next = copy_of(&mut separate, link.next, &name, &mut names);
        }
        let state = Value::of(link.input);
        let shown = (0..graph.outputs.len()).filter(|&i| graph.outputs[i].1 == state).collect::<Vec<_>>();
        if !shown.is_empty() {
            let name = format!("{}.old", graph.nodes[link.input].name());
            let copy = copy_of(&mut separate, state, &name, &mut names);
            shown.into_iter().for_each(|i| separate.outputs[i].1 = copy);
        }
    }
    separate
}

fn is_updated(graph: &Graph, link: &StateLink) -> bool {
    link.next != Value::of(link.input) && graph.ty(link.next).numel() > 0
}

/// A node of its own with the elements of `value`, under `name` or a longer one if that is taken.
fn copy_of(graph: &mut Graph, value: Value, name: &str, names: &mut HashSet<Symbol>) -> Value {
    let mut name: Symbol = name.into();
    while !names.insert(name.clone()) {
        name = format!("{name}.next").into();
    }
    let outputs = vec![Output { name, ty: graph.ty(value).clone() }];
    let op = NodeOp::View(View::Reshape);
    Value::of(graph.push(Node { op, inputs: vec![value], outputs, regions: vec![], span: None, apart: None }))
}

/// A kernel that writes nothing, because a tensor is empty, is not launched.
fn has_work(kernel: &Kernel) -> bool {
    kernel.bytes_written > 0
}

struct Planner<'g> {
    graph: &'g Graph,
    kernels: Vec<Kernel>,
    /// Next states that take the place of the state they follow.
    in_place: HashMap<Value, Value>,
}

impl Planner<'_> {
    // ---- State.

    fn link_state(&mut self) {
        for link in &self.graph.state {
            if self.updates_in_place(link) {
                self.in_place.insert(link.next, Value::of(link.input));
            }
        }
        let copies: Vec<Kernel> = self
            .graph
            .state
            .iter()
            .filter(|link| link.next != Value::of(link.input))
            .filter(|link| self.in_place.get(&link.next) != Some(&Value::of(link.input)))
            .map(|link| self.copy(link))
            .collect();
        self.kernels.extend(copies);
    }

    /// Whether the next state can be written over the old one: its kernel reads at most its own elements of the old
    /// one, and whoever else reads the old one, or checks anything, can do so before.
    fn updates_in_place(&self, link: &StateLink) -> bool {
        let state = Value::of(link.input);
        let Some(writer) = self.writer(link.next) else { return false };
        let readers = self.readers(state);
        if self.in_place.contains_key(&link.next)
            || (readers.contains(&writer) && !reads_own_elements(&self.kernels[writer], state, link.next))
        {
            return false;
        }
        let is_after = self.after(writer);
        !readers.into_iter().chain(self.checkers()).any(|id| id != writer && is_after[id])
    }

    /// Kernels that may end the run: what they find must not come after a state has been overwritten.
    fn checkers(&self) -> impl Iterator<Item = usize> {
        (0..self.kernels.len()).filter(|&id| self.kernels[id].has_checks())
    }

    fn writer(&self, value: Value) -> Option<usize> {
        self.kernels.iter().position(|kernel| uses(kernel, value, Use::Write))
    }

    fn readers(&self, value: Value) -> Vec<usize> {
        (0..self.kernels.len()).filter(|&id| uses(&self.kernels[id], value, Use::Read)).collect()
    }

    /// By kernel: whether it is this one or must run after it, with the orders that in-place updates have imposed so far.
    fn after(&self, kernel: usize) -> Vec<bool> {
        let before = dependencies(&self.before());
        let mut is_after = vec![false; self.kernels.len()];
        let mut search = Dfs::new(&before, NodeIndex::new(kernel));
        while let Some(found) = search.next(&before) {
            is_after[found.index()] = true;
        }
        is_after
    }

    /// A kernel that copies a next state to where the state lives, after all who read the old one.
    fn copy(&self, link: &StateLink) -> Kernel {
        let ty = self.graph.ty(link.next).clone();
        let n_points = ty.numel();
        let (dtype, class) = (ty.dtype, Class::Element);
        let access = Access::strided(&[n_points], &[1]);
        let load = FusedOp::Load { operand: 0, access: access.clone(), index: None };
        let store = FusedOp::Store { operand: 1, access, value: 0 };
        let insts = [load, store].map(|op| FusedInst { op, dtype, class }).to_vec();
        let operand = |value: Value, usage: Use| Operand { value, ty: ty.clone(), usage };
        Kernel {
            name: format!("{}.next", self.graph.nodes[link.input].name()),
            body: KernelBody::Map(FusedBody { domain: Domain { outer: 1, row: n_points, inner: 1 }, insts }),
            operands: vec![operand(link.next, Use::Read), operand(Value::of(link.input), Use::Write)],
            nodes: vec![link.next.node],
            ops: vec!["copy".into()],
            bytes_read: ty.bytes() as u64,
            bytes_written: ty.bytes() as u64,
            flops: 0,
        }
    }

    /// By kernel: those that must finish before. A value is written before it is read, and a state is read, and all that
    /// is checked in a step has been, before it is overwritten.
    fn before(&self) -> Before {
        let mut before: Before = vec![vec![]; self.kernels.len()];
        for (id, kernel) in self.kernels.iter().enumerate() {
            for operand in &kernel.operands {
                match operand.usage {
                    Use::Read => before[id].extend(
                        self.writer(operand.value).filter(|&w| w != id && !self.is_state(operand.value)),
                    ),
                    Use::Write => {
                        let old = self.in_place.get(&operand.value).copied().unwrap_or(operand.value);
                        if self.is_state(old) {
                            let first = self.readers(old).into_iter().chain(self.checkers());
                            before[id].extend(first.filter(|&other| other != id));
                        }
                    }
                }
            }
            before[id].sort_unstable();
            before[id].dedup();
        }
        before
    }

    fn is_state(&self, value: Value) -> bool {
        matches!(self.graph.nodes[value.node].op, NodeOp::Input(_))
    }

    // ---- Buffers.

    fn finish(self, order: Vec<Scheduled>, n_streams: usize) -> Plan {
        let finished = finished_before(&order);
        let mut slots = self.slots(&order);
        self.reuse_dying(&order, &finished, &mut slots);
        let workspaces = order.iter().enumerate().map(|(at, launch)| self.workspace(at, launch.kernel));
        let needs: Vec<Need> =
            slots.needs.iter().map(|(_, need)| need.clone()).chain(workspaces.clone()).collect();
        let (offsets, arena_bytes) = place(&needs, &finished);
        let (offsets, workspace_offsets) = offsets.split_at(slots.needs.len());
        let last = order.len().saturating_sub(1);
        let mut buffers: Vec<Buffer> = vec![];
        let mut id_of_slot = vec![];
        for ((value, need), &offset) in slots.needs.iter().zip(offsets) {
            let end = if need.is_output { last } else { need.uses.iter().copied().max().unwrap_or(0) };
            let life = (need.uses.iter().copied().min().unwrap_or(0), end);
            id_of_slot.push(buffers.len());
            let (name, ty) = (self.graph.name_of(*value).clone(), self.graph.ty(*value).clone());
            buffers.push(Buffer { name, ty, place: Place::Arena(offset), life });
        }
        let mut values: Vec<(Value, BufferId)> = slots
            .of
            .iter()
            .filter(|(_, slot)| slot.1)
            .map(|(value, slot)| (*value, id_of_slot[slot.0]))
            .collect();
        for (node, kind) in self.graph.inputs() {
            let name = self.graph.nodes[node].name().clone();
            let ty = self.graph.ty(Value::of(node)).clone();
            values.push((Value::of(node), buffers.len()));
            buffers.push(Buffer { name, ty, place: Place::Input(kind), life: (0, last) });
        }
        let inputs: HashMap<Value, BufferId> = values.iter().copied().collect();
        values.extend(self.in_place.iter().map(|(next, state)| (*next, inputs[state])));
        values.sort_unstable();
        let buffer_of: HashMap<Value, BufferId> = values.iter().copied().collect();
        let launches = order
            .iter()
            .zip(workspace_offsets.iter().zip(workspaces))
            .map(|(launch, (&offset, need))| Launch {
                kernel: launch.kernel,
                buffers: self.kernels[launch.kernel]
                    .operands
                    .iter()
                    .map(|operand| buffer_of[&operand.value])
                    .collect(),
                stream: launch.stream,
                waits: launch.waits.clone(),
                workspace: offset..offset + need.bytes,
            })
            .collect();
        let outputs = self
            .graph
            .outputs
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), *buffer_of.get(value)?)))
            .collect();
        Plan {
            name: self.graph.name.clone(),
            assertions: assertions(self.graph),
            places: places(self.graph, &self.kernels),
            kernels: self.kernels,
            launches,
            buffers,
            outputs,
            arena_bytes,
            n_streams,
            matmul: Precision::default(),
            numerics: Numerics::default(),
            values,
        }
    }

    /// Scratch that a kernel needs at its launch and never again.
    fn workspace(&self, at: usize, kernel: usize) -> Need {
        Need { bytes: self.kernels[kernel].workspace_bytes(), uses: vec![at], is_output: false }
    }

    /// One slot of the arena for every value that a kernel writes elsewhere than over a state.
    fn slots(&self, order: &[Scheduled]) -> Slots {
        let mut slots = Slots::default();
        for (at, launch) in order.iter().enumerate() {
            for operand in &self.kernels[launch.kernel].operands {
                let value = operand.value;
                if self.is_state(value) || self.in_place.contains_key(&value) {
                    continue;
                }
                let is_output = self.graph.outputs.iter().any(|(_, output)| *output == value);
                let slot = slots.of.entry(value).or_insert_with(|| {
                    let need = Need { bytes: operand.ty.bytes(), uses: vec![], is_output };
                    slots.needs.push((value, need));
                    (slots.needs.len() - 1, true)
                });
                slots.needs[slot.0].1.uses.push(at);
            }
        }
        // An empty output is not written by any kernel but still has a name.
        for (_, output) in &self.graph.outputs {
            if !slots.of.contains_key(output)
                && !self.is_state(*output)
                && !self.in_place.contains_key(output)
            {
                slots.of.insert(*output, (slots.needs.len(), true));
                slots.needs.push((*output, Need { bytes: 0, uses: vec![], is_output: true }));
            }
        }
        slots
    }

    /// A map that is the last to use one of its operands writes its result over it.
    fn reuse_dying(&self, order: &[Scheduled], finished: &[Vec<bool>], slots: &mut Slots) {
        for (at, launch) in order.iter().enumerate() {
            let kernel = &self.kernels[launch.kernel];
            for written in kernel.operands.iter().filter(|operand| operand.usage == Use::Write) {
                let Some(&(target, _)) = slots.of.get(&written.value) else { continue };
                let dying =
                    kernel.operands.iter().filter(|operand| operand.usage == Use::Read).find_map(|operand| {
                        let &(slot, _) = slots.of.get(&operand.value)?;
                        let need = &slots.needs[slot].1;
                        let is_last =
                            !need.is_output && need.uses.iter().all(|&u| u == at || finished[at][u]);
                        let fits = slot != target && need.bytes == written.ty.bytes() && need.bytes > 0;
                        // Outputs are read back by the type of their buffer, which is that of its first value.
                        let is_typed = !slots.needs[target].1.is_output
                            || *self.graph.ty(slots.needs[slot].0) == written.ty;
                        (is_last
                            && fits
                            && is_typed
                            && operand.ty.dtype.size() == written.ty.dtype.size()
                            && reads_own_elements(kernel, operand.value, written.value))
                        .then_some(slot)
                    });
                if let Some(slot) = dying {
                    slots.join(slot, target);
                }
            }
        }
    }
}

/// Arena slots under construction: by value, its slot and whether it holds data.
#[derive(Default)]
struct Slots {
    of: HashMap<Value, (usize, bool)>,
    needs: Vec<(Value, Need)>,
}

impl Slots {
    /// `target` moves into `slot`; its own becomes empty.
    fn join(&mut self, slot: usize, target: usize) {
        let need =
            std::mem::replace(&mut self.needs[target].1, Need { bytes: 0, uses: vec![], is_output: false });
        self.needs[slot].1.uses.extend(need.uses);
        self.needs[slot].1.is_output |= need.is_output;
        self.of.values_mut().filter(|known| known.0 == target).for_each(|known| known.0 = slot);
    }
}

fn uses(kernel: &Kernel, value: Value, usage: Use) -> bool {
    kernel.operands.iter().any(|operand| operand.value == value && operand.usage == usage)
}

/// Whether each point of a map that reads an element of `value` writes that element of `written`, and nothing reads
/// others.
fn reads_own_elements(kernel: &Kernel, value: Value, written: Value) -> bool {
    let position = |value: Value, usage: Use| {
        kernel.operands.iter().position(|operand| operand.value == value && operand.usage == usage)
    };
    let Some(operand) = position(value, Use::Read) else { return true };
    let target = position(written, Use::Write);
    let tile = match &kernel.body {
        // Each slot of a segmented map reads its own elements by construction, but other segments may come earlier.
        KernelBody::Segmented { segments, .. } => {
            return segments.iter().filter(|segment| segment.operands.contains(&operand)).all(|segment| {
                let is_target = target.is_some_and(|target| segment.operands.contains(&target));
                is_target && kernel.operands[operand].ty.numel() == segment.points
            });
        }
        KernelBody::Map(tile) | KernelBody::Row(tile) => tile,
        // The base may lie where the result goes if nothing is computed from it.
        KernelBody::Scatter(body) => {
            return body.copied_base() == Some(operand) && !loads(&body.updates, operand);
        }
        _ => return false,
    };
    tile.insts.iter().all(|inst| match &inst.op {
        FusedOp::Load { operand: o, access, index } if *o == operand => {
            index.is_none() && is_own(tile, inst.class, access)
        }
        _ => true,
    })
}

fn loads(tile: &FusedBody, operand: usize) -> bool {
    tile.insts.iter().any(|inst| matches!(inst.op, FusedOp::Load { operand: o, .. } if o == operand))
}

/// Whether a load takes each point's own element, at a time when no other point can have written it: points of a map,
/// and the row of a kernel that has a single one. (A row kernel may read its elements once more after a store.)
fn is_own(tile: &FusedBody, class: Class, access: &Access) -> bool {
    let n_rows = tile.domain.points(Class::Row);
    match class {
        Class::Element => {
            let has_rows = tile.insts.iter().any(|inst| inst.class == Class::Row);
            !has_rows && access.is_identity(tile.domain.points(Class::Element))
        }
        Class::Row | Class::Uniform => n_rows == 1 && access.is_uniform(),
    }
}

fn places(graph: &Graph, kernels: &[Kernel]) -> Vec<(Symbol, Span)> {
    let operands = kernels.iter().flat_map(|kernel| &kernel.operands);
    let mut values: Vec<Value> = operands.map(|operand| operand.value).collect();
    values.sort_unstable();
    values.dedup();
    let place = |value: Value| Some((graph.name_of(value).clone(), graph.nodes[value.node].span?));
    values.into_iter().filter_map(place).collect()
}

fn assertions(graph: &Graph) -> Vec<Assertion> {
    let site = |(id, node): (NodeId, &Node)| match node.op {
        NodeOp::Check(requirement) => {
            Some(Assertion { node: id, name: node.name().clone(), span: node.span, requirement })
        }
        _ => None,
    };
    graph.nodes.iter().enumerate().filter_map(site).collect()
}
