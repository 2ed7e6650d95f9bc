//! Steps of a program, and the memory that they read and write.

use super::library::MatmulCall;
use super::variant::Choice;
use crate::codegen::KernelSpec;
use crate::device_model::Library;
use std::sync::Arc;

/// What a device does for one launch of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// In the order in which they are enqueued.
    pub steps: Vec<Step>,
    /// Bytes of workspace that its steps share.
    pub workspace_bytes: usize,
    /// The variant that was chosen where there were several.
    pub chosen: Option<Choice>,
}

/// One action on one branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// 0 is the stream of the launch; 1 runs beside it.
    pub branch: usize,
    /// Earlier steps on other branches that must have finished, as positions in the program.
    pub waits: Vec<usize>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Launches a kernel.
    Kernel(KernelStep),
    /// Calls a library of matmuls or convolutions, or the device's own kernel on matrix units.
    Matmul(MatmulStep),
    /// Copies bytes.
    Copy {
        /// From here.
        from: Place,
        /// To here.
        to: Place,
        /// So many.
        bytes: usize,
    },
    /// Fills memory with one byte.
    Fill {
        /// The memory.
        to: Place,
        /// So many bytes.
        bytes: usize,
        /// The byte.
        byte: u8,
    },
    /// Repeats steps.
    Loop {
        /// The steps of one trip.
        body: Vec<Step>,
        /// The variants that were chosen for launches of a trip: the first step of each, its name and its choice.
        chosen: Vec<(usize, String, Choice)>,
        /// How many trips, or the most of them.
        trips: usize,
        /// The truth value that ends the loop after a trip, if it may end early.
        until: Option<Place>,
        /// The number of trips so far, `i32[]`. The body counts it, unless the device does.
        number: Place,
    },
    /// Combines memory of several devices.
    Collective(Collective),
}

/// An operation of several devices on the same place of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The sum of all, on each.
    AllReduce {
        /// The memory.
        at: Place,
        /// So many bytes.
        bytes: usize,
    },
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelStep {
    /// The kernel; steps of one kernel share it.
    pub kernel: Arc<KernelSpec>,
    /// What its pointers point to.
    pub arguments: Vec<Place>,
    /// Blocks along each axis of the grid.
    pub grid: [usize; 3],
    /// Numbers that the launch passes by value, before the seed.
    pub scalars: Vec<usize>,
}

/// A matmul that is not a kernel of code generation.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulStep {
    /// What is computed; steps of one shape share it.
    pub call: Arc<MatmulCall>,
    /// The left and the right factor, before the offsets of the call.
    pub factors: [Place; 2],
    /// The result.
    pub result: Place,
    /// What is added to each element, if the call adds something.
    pub added: Option<Place>,
    /// The bias, if the call has one.
    pub bias: Option<Place>,
    /// The algorithm, if one was chosen already.
    pub algorithm: Option<String>,
}

/// Memory of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An operand of the kernel, from a byte on.
    Operand {
        /// Its number.
        operand: usize,
        /// The first byte.
        offset: usize,
    },
    /// Part of the workspace.
    Workspace {
        /// The first byte.
        start: usize,
        /// How many.
        bytes: usize,
    },
    /// The record of failed assertions.
    Assertions,
}

impl Place {
    /// A whole operand.
    pub fn operand(operand: usize) -> Place {
        Place::Operand { operand, offset: 0 }
    }
}

impl Program {
    /// Bytes of workspace that its calls of a library may use; none without a call.
    pub fn library_bytes(&self, library: Library) -> Option<usize> {
        library_bytes(&self.steps, library)
    }

    /// Appends a step on branch 0.
    pub(super) fn push(&mut self, action: Action) {
        self.steps.push(Step { action, branch: 0, waits: vec![] });
    }
}

fn library_bytes(steps: &[Step], library: Library) -> Option<usize> {
    let of_step = |step: &Step| match &step.action {
        Action::Matmul(step) => step.call.multiplier.is_library().then(|| step.call.workspace_bytes(library)),
        Action::Loop { body, .. } => library_bytes(body, library),
        _ => None,
    };
    steps.iter().filter_map(of_step).max()
}
