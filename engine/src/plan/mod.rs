//! The plan: kernels in launch order on streams, and one arena for all intermediate buffers.

mod build;
mod intervals;
mod loops;
mod memory;
mod occupied;
mod schedule;
mod slots;
#[cfg(test)]
mod tests;
mod text;
mod users;
mod verify;

pub use build::{plan, separate_states};
pub use memory::offsets;
pub use occupied::ALIGNMENT;
pub use verify::verify;

use crate::diag::Span;
use crate::fusion::{Kernel, KernelBody, LoopBody, Use};
use crate::ir::{InputKind, NodeId, Requirement, Symbol, Type, Value};
use crate::numerics::{Numerics, Precision};
use std::ops::Range;
use std::sync::Arc;

/// Index into [`Plan::buffers`].
pub type BufferId = usize;

/// The memory of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// In the plan's arena, at this byte offset.
    Arena(usize),
    /// Outside the arena: a graph input of this kind, bound by name. A `Param` or `State` buffer is updated in place.
    Input(InputKind),
}

/// A range of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The name of the value (of the input, for `Place::Input`).
    pub name: Symbol,
    /// The type of the content: dense, row-major.
    pub ty: Type,
    /// The memory.
    pub place: Place,
    /// First and last launch (positions in [`Plan::launches`]) that use it. Outputs live until the end.
    pub life: (usize, usize),
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Index into [`Plan::kernels`].
    pub kernel: usize,
    /// Buffers by kernel operand.
    pub buffers: Vec<BufferId>,
    /// The stream of the launch.
    pub stream: usize,
    /// Earlier launches on other streams that must have finished.
    pub waits: Vec<usize>,
    /// The workspace, as bytes of the arena. It is exclusive to the kernel while it runs, and empty for most.
    pub workspace: Range<usize>,
}

impl Plan {
    /// Lets another plan compute inputs of this one. Its own inputs become inputs of this plan, so that callers bind them.
    pub(crate) fn run_after(&mut self, once: Plan) {
        let is_own = |buffer: &Buffer| self.buffers.iter().any(|known| known.name == buffer.name);
        let further: Vec<Buffer> = once.inputs().filter(|buffer| !is_own(buffer)).cloned().collect();
        self.buffers.extend(further.into_iter().map(|buffer| Buffer { life: (0, 0), ..buffer }));
        self.once = Some(Arc::new(once));
    }

    /// The inputs that a caller binds: all but the number of the step and what is computed before the first step.
    pub fn inputs(&self) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().filter(|buffer| {
            matches!(buffer.place, Place::Input(kind) if kind != InputKind::Step && kind != InputKind::Once)
        })
    }

    /// The inputs that the plan before the first step computes.
    pub fn computed_once(&self) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().filter(|buffer| buffer.place == Place::Input(InputKind::Once))
    }

    /// The device memory of the plan in bytes: the arena, and what the plan before the first step computes and needs.
    pub fn bytes(&self) -> usize {
        let values: usize = self.computed_once().map(|buffer| buffer.ty.bytes()).sum();
        self.arena_bytes + values + self.once.as_ref().map_or(0, |once| once.arena_bytes)
    }

    /// The nodes with an assertion.
    pub fn check_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.assertions.iter().map(|check| check.node)
    }

    /// Whether a launch writes a state.
    pub fn writes_state(&self, launch: &Launch) -> bool {
        self.states_written(launch).next().is_some()
    }

    /// The states that a launch writes.
    pub fn states_written<'p>(&'p self, launch: &'p Launch) -> impl Iterator<Item = &'p Symbol> {
        let buffers = self.written(launch).map(|id| &self.buffers[id]);
        buffers.filter(|buffer| matches!(buffer.place, Place::Input(_))).map(|buffer| &buffer.name)
    }

    /// The buffers that a launch writes.
    pub fn written<'p>(&'p self, launch: &'p Launch) -> impl Iterator<Item = BufferId> {
        let operands = launch.buffers.iter().zip(&self.kernels[launch.kernel].operands);
        operands.filter(|(_, operand)| operand.usage == Use::Write).map(|(&id, _)| id)
    }

    /// Whether a launch is a scatter that adds to its base in place, so that nothing is copied.
    pub fn scatters_in_place(&self, launch: &Launch) -> bool {
        let KernelBody::Scatter(body) = &self.kernels[launch.kernel].body else { return false };
        let buffers = &launch.buffers;
        body.copied_base().is_some_and(|base| buffers[base] == buffers[body.result])
    }

    /// The place in the source of a tensor or a kernel, if it is known.
    pub fn place_of(&self, name: &str) -> Option<Span> {
        self.places.iter().find(|(known, _)| **known == *name).map(|&(_, span)| span)
    }
}

/// A node that checks integers.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// The node in the primitive graph.
    pub node: NodeId,
    /// Its name.
    pub name: Symbol,
    /// The place in the source.
    pub span: Option<Span>,
    /// The requirement.
    pub requirement: Requirement,
}

/// The launches and memory of one step of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The name of the graph.
    pub name: String,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Launches in topological order.
    pub launches: Vec<Launch>,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// Named results and the buffers that hold them after the last launch.
    pub outputs: Vec<(Symbol, BufferId)>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Number of streams.
    pub n_streams: usize,
    /// How matrices are multiplied.
    pub matmul: Precision,
    /// The permitted accuracy of functions.
    pub numerics: Numerics,
    /// The plans of loops.
    pub loops: Vec<LoopPlan>,
    /// The nodes that check, for error messages.
    pub assertions: Vec<Assertion>,
    /// Places in the source, by names of tensors. A kernel has the name of one of its tensors.
    pub places: Vec<(Symbol, Span)>,
    /// The first value of each buffer. Several values share a buffer when they are updated in place.
    pub values: Vec<(Value, BufferId)>,
    /// The plan that computes the inputs of the kind [`InputKind::Once`], which are its states. It must run before the first
    /// step, and again when an input of its own has changed.
    pub once: Option<Arc<Plan>>,
}

/// One trip of a loop. The carried values are states of its plan, and so is the number of the trip.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopPlan {
    /// The node of the loop.
    pub node: NodeId,
    /// The kernels of a trip.
    pub step: Arc<Plan>,
    /// The inputs of that plan that are carried, in the order of the loop's operands.
    pub carried: Vec<Symbol>,
    /// The input that is the number of the trip, `i32[]`.
    pub number: Symbol,
    /// The inputs that are given.
    pub given: Vec<Symbol>,
    /// The output that ends the loop, `bool[]`.
    pub ends: Option<Symbol>,
}

/// The memory of a buffer of a trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripPlace {
    /// From this byte of the loop's workspace on.
    Workspace(usize),
    /// The operand of that number of the loop's kernel.
    Operand(usize),
}

impl Plan {
    /// The plan of a trip of a loop.
    pub fn loop_of(&self, body: &LoopBody) -> &LoopPlan {
        let found = self.loops.iter().find(|trip| trip.node == body.node);
        found.unwrap_or_else(|| crate::bug!("the plan `{}` lacks the kernels of a loop", self.name))
    }
}
