//! From kernels to a plan: in-place states, then streams, then memory.

use super::memory::{Life, Need, place};
use super::schedule::{Before, Clocks, Scheduled, after, is_circular, schedule};
use super::slots::Slots;
use super::users::Users;
use super::{Assertion, Buffer, BufferId, Launch, Place, Plan};
use crate::diag::Span;
use crate::fusion::{Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, Operand, Use};
use crate::ir::{
    Graph, InputKind, Node, NodeId, NodeOp, Output, StateLink, Symbol, Value, View, in_turn_with,
};
use crate::numerics::{Numerics, Precision};
use crate::work::steps;
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};

/// Plans the kernels of a simplified primitive graph for `n_streams` streams.
pub fn plan(graph: &Graph, kernels: Vec<Kernel>, n_streams: usize) -> Plan {
    let kernels: Vec<Kernel> = kernels.into_iter().filter(has_work).collect();
    let users = Users::new(&kernels);
    let mut planner = Planner { graph, kernels, users, in_place: HashMap::new() };
    planner.link_state();
    let before = in_turn(graph, &planner.kernels, planner.before());
    let order = schedule(&planner.kernels, &before, n_streams.max(1));
    planner.finish(order, n_streams.max(1))
}

/// Lets the kernels of each recomputed layer wait for those of the layer before it in the backward pass, and those of each part
/// of an op for those of the part before. So the values of one layer or part at a time are in memory.
fn in_turn(graph: &Graph, kernels: &[Kernel], before: Before) -> Before {
    let mut families: IndexMap<String, IndexMap<Symbol, (NodeId, Vec<usize>)>> = IndexMap::new();
    for (id, kernel) in kernels.iter().enumerate() {
        let Some(&first) = kernel.nodes.iter().min() else { continue };
        let Some(mark) = &graph.nodes[first].no_fuse else { continue };
        let Some(family) = in_turn_with(mark) else { continue };
        let family = families.entry(family.to_string()).or_default();
        let (start, members) = family.entry(mark.clone()).or_insert((first, vec![]));
        *start = first.min(*start);
        members.push(id);
    }
    families.into_values().fold(before, ordered)
}

/// The order in which members of each mark of a family also wait for those of the mark before.
fn ordered(before: Before, mut family: IndexMap<Symbol, (NodeId, Vec<usize>)>) -> Before {
    family.sort_by(|_, (a, _), _, (b, _)| a.cmp(b));
    let mut ordered = before.clone();
    let marks: Vec<Vec<usize>> = family.into_values().map(|(_, members)| members).collect();
    for pair in marks.windows(2) {
        for &member in &pair[1] {
            ordered[member].extend(&pair[0]);
            ordered[member].sort_unstable();
            ordered[member].dedup();
        }
    }
    // Kernels of several marks may have been joined with kernels of others.
    if is_circular(&ordered) { before } else { ordered }
}

/// Inserts copies of values that must outlive the update of a state. One case is a next state that is another input,
/// since two states may be swapped. The other is an output that is a parameter or a state. Outputs show the values before
/// the step's updates, and other plans may update them before an output is read.
pub fn separate_states(graph: &Graph) -> Graph {
    let mut separate = graph.clone();
    let mut names: HashSet<Symbol> =
        graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()).collect();
    for (i, link) in graph.state.iter().enumerate().filter(|(_, link)| is_updated(graph, link)) {
        if matches!(graph.nodes[link.next.node].op, NodeOp::Input(_)) {
            let name = format!("{}.next", graph.nodes[link.input].name());
            separate.state[i].next = copy_of(&mut separate, link.next, &name, &mut names);
        }
    }
    let mut copies = HashMap::new();
    for (i, &(_, value)) in graph.outputs.iter().enumerate() {
        let node = &graph.nodes[value.node];
        if matches!(node.op, NodeOp::Input(InputKind::Param | InputKind::State))
            && graph.ty(value).numel() > 0
        {
            let name = format!("{}.old", node.name());
            let copy =
                copies.entry(value).or_insert_with(|| copy_of(&mut separate, value, &name, &mut names));
            separate.outputs[i].1 = *copy;
        }
    }
    separate
}

fn is_updated(graph: &Graph, link: &StateLink) -> bool {
    link.next != Value::of(link.input) && graph.ty(link.next).numel() > 0
}

/// A new node with the elements of `value`. Its name is `name`, or a longer one if that is taken.
fn copy_of(graph: &mut Graph, value: Value, name: &str, names: &mut HashSet<Symbol>) -> Value {
    let mut name: Symbol = name.into();
    while !names.insert(name.clone()) {
        name = format!("{name}.next").into();
    }
    let outputs = vec![Output { name, ty: graph.ty(value).clone() }];
    let op = NodeOp::View(View::Reshape);
    Value::of(graph.push(Node {
        op,
        inputs: vec![value],
        outputs,
        regions: vec![],
        span: None,
        no_fuse: None,
    }))
}

/// Whether a kernel writes anything. A kernel whose results are empty is not launched.
fn has_work(kernel: &Kernel) -> bool {
    kernel.bytes_written > 0
}

struct Planner<'g> {
    graph: &'g Graph,
    kernels: Vec<Kernel>,
    users: Users,
    /// Next states that overwrite the state they follow.
    in_place: HashMap<Value, Value>,
}

impl Planner<'_> {
    // ---- State.

    fn link_state(&mut self) {
        let mut after = after(&self.before());
        for link in &self.graph.state {
            let Some(writer) = self.updates_in_place(link, &after) else { continue };
            self.in_place.insert(link.next, Value::of(link.input));
            self.first(writer, Value::of(link.input)).for_each(|first| after[first].push(writer));
        }
        let copied = self.graph.state.iter().filter(|link| {
            let state = Value::of(link.input);
            link.next != state && self.in_place.get(&link.next) != Some(&state)
        });
        for copy in copied.map(|link| self.copy(link)).collect::<Vec<_>>() {
            self.users.add(self.kernels.len(), &copy);
            self.kernels.push(copy);
        }
    }

    /// The kernel that writes the next state, if it can write over the old one. It must read at most its own elements
    /// of the old one. All other kernels that read the old one or check anything must be able to run before. `after`
    /// lists the kernels that wait for each, with the order that in-place updates have imposed so far.
    fn updates_in_place(&self, link: &StateLink, after: &[Vec<usize>]) -> Option<usize> {
        let state = Value::of(link.input);
        let writer = self.users.writer(link.next)?;
        // A check may fail after the first trips, and the kernels of later ones do not ask for those of this plan.
        if matches!(self.kernels[writer].body, KernelBody::Loop(_)) && !self.users.checkers().is_empty() {
            return None;
        }
        let is_reader = self.users.readers(state).contains(&writer);
        if self.in_place.contains_key(&link.next)
            || (is_reader && !reads_own_elements(&self.kernels[writer], state, link.next))
        {
            return None;
        }
        let first: HashSet<usize> = self.first(writer, state).collect();
        let (mut open, mut seen) = (vec![writer], HashSet::from([writer]));
        while let Some(kernel) = open.pop() {
            steps(1);
            if first.contains(&kernel) {
                return None;
            }
            open.extend(after[kernel].iter().filter(|&&next| seen.insert(next)));
        }
        Some(writer)
    }

    /// Kernels that must run before `writer` overwrites a state: readers of the state, and kernels that may end the
    /// run. A failed check must be recorded before any state is overwritten.
    fn first(&self, writer: usize, state: Value) -> impl Iterator<Item = usize> {
        let first = self.users.readers(state).iter().chain(self.users.checkers());
        first.copied().filter(move |&kernel| kernel != writer)
    }

    /// A kernel that copies a next state to the memory of the state, after all readers of the old one.
    fn copy(&self, link: &StateLink) -> Kernel {
        let ty = self.graph.ty(link.next).clone();
        let n_points = ty.numel();
        let (dtype, class) = (ty.dtype, Class::Element);
        let access = Access::strided(&[n_points], &[1]);
        let load = FusedOp::Load { operand: 0, access: access.clone(), index: None };
        let store = FusedOp::Store { operand: 1, access, value: 0, index: None };
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

    /// The kernels that must finish before each kernel. A value is written before it is read. Reads of a state and all
    /// checks of the step come before the state is overwritten.
    fn before(&self) -> Before {
        let mut before: Before = vec![vec![]; self.kernels.len()];
        for (id, kernel) in self.kernels.iter().enumerate() {
            for operand in &kernel.operands {
                match operand.usage {
                    Use::Read => {
                        let writer = self.users.writer(operand.value);
                        before[id].extend(writer.filter(|&w| w != id && !self.is_state(operand.value)));
                    }
                    Use::Write => {
                        let old = self.in_place.get(&operand.value).copied().unwrap_or(operand.value);
                        if self.is_state(old) {
                            before[id].extend(self.first(id, old));
                        }
                    }
                }
            }
            steps(before[id].len());
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
        let clocks = Clocks::new(&order, n_streams);
        let mut slots = self.slots(&order, &clocks);
        self.reuse_dying(&order, &clocks, &mut slots);
        let workspaces =
            order.iter().enumerate().map(|(at, launch)| self.workspace(at, launch.kernel, &clocks));
        let needs: Vec<Need> =
            slots.needs.iter().map(|(_, need)| need.clone()).chain(workspaces.clone()).collect();
        let (offsets, arena_bytes) = place(&needs, &clocks);
        let (offsets, workspace_offsets) = offsets.split_at(slots.needs.len());
        let last = order.len().saturating_sub(1);
        let (buffers, values) = self.buffers(&slots, offsets, last);
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
            loops: vec![],
            values,
            once: None,
        }
    }

    /// The buffers of a plan whose last launch is `last`: slots of the arena at these offsets, then the inputs. Also the
    /// buffer of each value.
    fn buffers(
        &self,
        slots: &Slots,
        offsets: &[usize],
        last: usize,
    ) -> (Vec<Buffer>, Vec<(Value, BufferId)>) {
        let mut buffers: Vec<Buffer> = vec![];
        let mut id_of_slot = vec![];
        for ((value, need), &offset) in slots.needs.iter().zip(offsets) {
            let (start, end) = need.life.span.unwrap_or((0, 0));
            let life = (start, if need.is_output { last } else { end });
            id_of_slot.push(buffers.len());
            let (name, ty) = (self.graph.name_of(*value).clone(), self.graph.ty(*value).clone());
            buffers.push(Buffer { name, ty, place: Place::Arena(offset), life });
        }
        let mut values: Vec<(Value, BufferId)> =
            slots.of.iter().map(|(value, &slot)| (*value, id_of_slot[slot])).collect();
        for (node, kind) in self.graph.inputs() {
            let name = self.graph.nodes[node].name().clone();
            let ty = self.graph.ty(Value::of(node)).clone();
            values.push((Value::of(node), buffers.len()));
            buffers.push(Buffer { name, ty, place: Place::Input(kind), life: (0, last) });
        }
        let inputs: HashMap<Value, BufferId> = values.iter().copied().collect();
        values.extend(self.in_place.iter().map(|(next, state)| (*next, inputs[state])));
        values.sort_unstable();
        (buffers, values)
    }

    /// The workspace of a kernel, which is used only during its launch.
    fn workspace(&self, at: usize, kernel: usize, clocks: &Clocks) -> Need {
        let mut life = Life::unused(clocks.launches.len());
        life.extend(at, clocks);
        Need { bytes: self.kernels[kernel].workspace_bytes(), life, is_output: false }
    }

    /// Arena slots for all values that kernels write, except over a state.
    fn slots(&self, order: &[Scheduled], clocks: &Clocks) -> Slots {
        let outputs: HashSet<Value> = self.graph.outputs.iter().map(|(_, value)| *value).collect();
        let mut slots = Slots::new(clocks.launches.len());
        for (at, launch) in order.iter().enumerate() {
            for operand in &self.kernels[launch.kernel].operands {
                let value = operand.value;
                if self.is_state(value) || self.in_place.contains_key(&value) {
                    continue;
                }
                let slot = slots.slot_of(value, operand.ty.bytes(), outputs.contains(&value));
                slots.needs[slot].1.life.extend(at, clocks);
            }
        }
        // An empty output has a name, although no kernel writes it.
        for (_, output) in &self.graph.outputs {
            if !self.is_state(*output) && !self.in_place.contains_key(output) {
                slots.slot_of(*output, 0, true);
            }
        }
        slots
    }

    /// Lets a map write its result over an operand whose last use it is. A loop carries a value on where the initial one is.
    fn reuse_dying(&self, order: &[Scheduled], clocks: &Clocks, slots: &mut Slots) {
        for (at, launch) in order.iter().enumerate() {
            let kernel = &self.kernels[launch.kernel];
            for written in kernel.operands.iter().filter(|operand| operand.usage == Use::Write) {
                let Some(&target) = slots.of.get(&written.value) else { continue };
                let mut reads = kernel.operands.iter().filter(|operand| operand.usage == Use::Read);
                let dying = reads.find_map(|operand| {
                    let &slot = slots.of.get(&operand.value)?;
                    let need = &slots.needs[slot].1;
                    let is_last = !need.is_output && need.life.ends_with(at, clocks);
                    let fits = slot != target && need.bytes == written.ty.bytes() && need.bytes > 0;
                    // Outputs are read back by the type of their buffer, which is the type of its first value.
                    let is_typed =
                        !slots.needs[target].1.is_output || *self.graph.ty(slots.needs[slot].0) == written.ty;
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

/// Whether each point of a map that reads an element of `value` writes that element of `written`, and no other read of
/// `value` exists.
fn reads_own_elements(kernel: &Kernel, value: Value, written: Value) -> bool {
    let position = |value: Value, usage: Use| {
        kernel.operands.iter().position(|operand| operand.value == value && operand.usage == usage)
    };
    let Some(operand) = position(value, Use::Read) else { return true };
    let target = position(written, Use::Write);
    let body = match &kernel.body {
        // Each slot of a segmented map reads its own elements by construction, but other segments may run earlier.
        KernelBody::Segmented(body) => {
            return body.segments.iter().filter(|segment| segment.operands.contains(&operand)).all(
                |segment| {
                    let is_target = target.is_some_and(|target| segment.operands.contains(&target));
                    is_target && kernel.operands[operand].ty.numel() == segment.points
                },
            );
        }
        KernelBody::Map(body) | KernelBody::Row(body) => body,
        // Sums beside a product are written at any time.
        KernelBody::Matmul(body)
            if body.rows.is_none()
                && ![body.lhs.operand, body.rhs.operand].contains(&operand)
                && target.is_some_and(|target| stores(&body.epilogue, target)) =>
        {
            &body.epilogue
        }
        // The base may share memory with the result if no computation uses the base.
        KernelBody::Scatter(body) => {
            return body.copied_base() == Some(operand) && !loads(&body.updates, operand);
        }
        // Initial values are read before the first trip only.
        KernelBody::Loop(body) => {
            let mut given = kernel.operands[body.given(0)..body.carried(0)].iter();
            let is_initial = operand < body.n_carried && given.all(|given| given.value != value);
            return is_initial && target == Some(body.carried(operand));
        }
        _ => return false,
    };
    let is_single = kernel.operands[operand].ty.numel() == 1;
    !decides(body, operand)
        && body.insts.iter().all(|inst| match &inst.op {
            FusedOp::Load { operand: o, access, index } if *o == operand => {
                index.is_none() && is_own(body, inst.class, access, is_single)
            }
            _ => true,
        })
}

/// Whether a row's element of an operand is checked or is an index. All threads of a row's block read it, some perhaps after
/// another one has written the row's result. Their results are dropped, but not their assertions.
fn decides(body: &FusedBody, operand: usize) -> bool {
    let mut derived = vec![false; body.insts.len()];
    for (reg, inst) in body.insts.iter().enumerate() {
        derived[reg] = match &inst.op {
            FusedOp::Load { operand: o, .. } if *o == operand => inst.class != Class::Element,
            FusedOp::Scalar(_, operands) => operands.iter().any(|&operand| derived[operand]),
            FusedOp::Check { value, .. } if derived[*value] => return true,
            FusedOp::Load { index: Some((index, _)), .. }
            | FusedOp::Store { index: Some((index, _)), .. }
                if derived[*index] =>
            {
                return true;
            }
            _ => false,
        };
    }
    false
}

fn stores(body: &FusedBody, operand: usize) -> bool {
    body.insts.iter().any(|inst| matches!(inst.op, FusedOp::Store { operand: o, .. } if o == operand))
}

fn loads(body: &FusedBody, operand: usize) -> bool {
    body.insts.iter().any(|inst| matches!(inst.op, FusedOp::Load { operand: o, .. } if o == operand))
}

/// Whether a load reads each point's own element before any other point can write it. This holds for the points of a
/// map, and for the row of a kernel with a single row, if it is the `is_single` element of its tensor. A row kernel may
/// read its elements again after a store.
fn is_own(body: &FusedBody, class: Class, access: &Access, is_single: bool) -> bool {
    let n_rows = body.domain.points(Class::Row);
    match class {
        Class::Element => {
            let has_rows = body.insts.iter().any(|inst| inst.class == Class::Row);
            !has_rows && access.is_identity(body.domain.points(Class::Element))
        }
        Class::Row | Class::Uniform => n_rows == 1 && is_single && access.is_uniform(),
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
