//! Opaque kernels: what an op brings along that is not made of bodies and primitives, such as a sort.
//!
//! A kernel never sees a device or a thread. It is lent its operands, its results, a workspace that the plan has set
//! aside, and a way to run parts of its work side by side; how the work is cut must follow from shapes alone.

use super::form::Lower;
use super::gpu::GpuFn;
use super::rows::RowReduction;
use crate::ir::{Attrs, Call, DType, Graph, Node, Type};
use crate::oracle::OracleTensor;
use half::{bf16, f16};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What an opaque op computes with.
#[derive(Clone)]
pub struct KernelForm {
    /// On the processor.
    pub host: HostFn,
    /// In double precision, slow and plain: what every device is tested against. Operands to results.
    pub oracle: OracleFn,
    /// On a GPU.
    pub gpu: GpuForm,
}

/// The signature of what makes a kernel ready for a call of known shapes.
pub type HostFn = Arc<dyn Fn(&KernelCall) -> HostKernel + Send + Sync>;

/// The signature of an oracle.
pub type OracleFn = Arc<dyn Fn(&KernelCall, &[&OracleTensor]) -> Vec<OracleTensor> + Send + Sync>;

/// What an opaque op launches on a GPU.
#[derive(Clone)]
pub enum GpuForm {
    /// Nothing: a device that needs it says so and why.
    None {
        /// Said to whoever runs the op there.
        why: &'static str,
    },
    /// Launches that follow from shapes and from what a block of the device has.
    Launches(GpuFn),
}

/// One call of an opaque op, all extents known.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelCall {
    /// The op and its attributes.
    pub call: Call,
    /// Types of the operands.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub outputs: Vec<Type>,
}

impl KernelCall {
    /// A call in a graph whose extents are all known.
    pub fn new(graph: &Graph, node: &Node, call: &Call) -> KernelCall {
        KernelCall {
            call: call.clone(),
            inputs: node.inputs.iter().map(|&input| graph.ty(input).clone()).collect(),
            outputs: node.outputs.iter().map(|output| output.ty.clone()).collect(),
        }
    }

    /// What the op computes with.
    pub fn form(&self) -> &KernelForm {
        match &self.call.form.lower {
            Lower::Kernel(form) => form,
            _ => crate::bug!("`{}` is not opaque", self.call.form.name),
        }
    }

    /// The attributes, defaults filled in.
    pub fn attrs(&self) -> &Attrs {
        &self.call.attrs
    }

    /// Operand 0 as rows along its last axis: their number and their length.
    pub fn rows(&self) -> (usize, usize) {
        let extents = self.inputs[0].extents();
        let (&n, lead) = extents.split_last().unwrap_or((&1, &[]));
        (lead.iter().product(), n)
    }
}

/// A kernel made ready for one call.
pub struct HostKernel {
    /// Bytes of scratch that the plan sets aside for it, at a multiple of 64.
    pub workspace_bytes: usize,
    /// Runs it; must not allocate.
    pub run: HostRun,
}

/// The signature of a kernel that is ready.
pub type HostRun = Box<dyn Fn(&mut Lent) + Send + Sync>;

impl KernelForm {
    /// The kernel of an op that folds each row of its one operand, along the last axis, by a monoid.
    pub fn of_rows(monoid: &RowReduction, oracle: OracleFn) -> KernelForm {
        let (monoid, on_host) = (monoid.clone(), monoid.clone());
        let host = Arc::new(move |call: &KernelCall| super::rows::host_kernel(&on_host, call));
        let gpu = match monoid.selects() {
            true => GpuForm::Launches(Arc::new(move |call, limits| match monoid.selection(call) {
                Some(selection) => crate::codegen::select_rows(&selection, call, limits),
                None => crate::bug!("a row monoid that selects no longer does"),
            })),
            false => GpuForm::None { why: "a fold of its own runs on the processor only" },
        };
        KernelForm { host, oracle, gpu }
    }
}

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a kernel with {} bytes of workspace", self.workspace_bytes)
    }
}

// ---- Lent memory.

mod sealed {
    pub trait Sealed {}
}

/// Numbers that have no forbidden bit patterns, so that memory can be seen as a slice of them.
pub trait Plain: Copy + Send + Sync + sealed::Sealed + 'static {}

/// Elements of tensors as they lie in memory. Truth values are bytes 0 and 1.
pub trait Element: Plain {
    /// Whether tensors of that type hold them.
    fn holds(dtype: DType) -> bool;
}

macro_rules! plain {
    ($($ty:ty: $($dtype:ident)|*;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Plain for $ty {}
        impl Element for $ty {
            fn holds(dtype: DType) -> bool {
                matches!(dtype, $(DType::$dtype)|*)
            }
        }
    )*};
}
plain! {
    f32: F32; f64: F64; f16: F16; bf16: BF16; i32: I32; i64: I64; u32: U32; u8: U8 | Bool;
}
impl sealed::Sealed for u64 {}
impl Plain for u64 {}

/// The address, length and type of a dense tensor.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The first element; a multiple of the element's size.
    pub start: *mut u8,
    /// Number of elements.
    pub len: usize,
    /// Element type.
    pub dtype: DType,
}

// SAFETY: it is an address; whoever reads or writes through it argues for itself.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn typed<T: Element>(self) -> *mut T {
        assert!(T::holds(self.dtype), "bug: a kernel takes its {} for something else", self.dtype);
        if self.len == 0 { std::ptr::NonNull::dangling().as_ptr() } else { self.start.cast() }
    }
}

/// Elements that are read, of a type known at run time.
#[derive(Clone, Copy)]
pub struct Elements<'a> {
    memory: Memory,
    lifetime: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> Elements<'a> {
    /// Elements at an address.
    ///
    /// # Safety
    /// The memory must hold them, and nobody may write it during the lifetime.
    pub unsafe fn new(memory: Memory) -> Elements<'a> {
        Elements { memory, lifetime: std::marker::PhantomData }
    }

    /// The elements of a slice.
    pub fn of<T: Element>(slice: &'a [T], dtype: DType) -> Elements<'a> {
        assert!(T::holds(dtype));
        let memory = Memory { start: slice.as_ptr().cast_mut().cast(), len: slice.len(), dtype };
        Elements { memory, lifetime: std::marker::PhantomData }
    }

    /// Some of them.
    pub fn range(&self, range: Range<usize>) -> Elements<'a> {
        assert!(range.start <= range.end && range.end <= self.memory.len);
        let start = self.memory.start.wrapping_add(range.start * self.memory.dtype.size());
        Elements { memory: Memory { start, len: range.len(), ..self.memory }, ..*self }
    }

    /// The elements as a slice; their type must be that of the tensor.
    pub fn get<T: Element>(&self) -> &'a [T] {
        // SAFETY: as promised when this was made; the type is checked.
        unsafe { std::slice::from_raw_parts(self.memory.typed(), self.memory.len) }
    }
}

/// Runs chunks of work side by side.
pub trait Threads {
    /// Calls `body` once for every number below `n_chunks`, in any order, and returns when all have returned.
    fn run(&mut self, n_chunks: usize, body: &(dyn Fn(usize) + Sync));
}

/// One chunk after the other.
pub struct OneThread;

impl Threads for OneThread {
    fn run(&mut self, n_chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..n_chunks).for_each(body);
    }
}

/// What a kernel is lent for one run.
pub struct Lent<'a> {
    inputs: &'a [Memory],
    outputs: &'a [Memory],
    workspace: &'a mut [u64],
    threads: &'a mut dyn Threads,
}

impl<'a> Lent<'a> {
    /// Lends memory to a kernel.
    ///
    /// # Safety
    /// Memory must hold what it says. During the lifetime nobody may write the inputs, and nobody else may use the
    /// outputs; no two outputs may overlap.
    pub unsafe fn new(
        inputs: &'a [Memory],
        outputs: &'a [Memory],
        workspace: &'a mut [u64],
        threads: &'a mut dyn Threads,
    ) -> Lent<'a> {
        Lent { inputs, outputs, workspace, threads }
    }

    /// An operand.
    pub fn input<T: Element>(&self, operand: usize) -> &'a [T] {
        self.elements(operand).get()
    }

    /// An operand of any type.
    pub fn elements(&self, operand: usize) -> Elements<'a> {
        // SAFETY: as promised when this was made.
        unsafe { Elements::new(self.inputs[operand]) }
    }

    /// Cuts `n_units` units (rows, for example) into `n_parts` parts and calls `body` for each, side by side. A part has
    /// the units' share of each result, whose elements must divide evenly among units, and an equal share of the
    /// workspace.
    pub fn parallel_for(&mut self, n_units: usize, n_parts: usize, body: &(dyn Fn(Part) + Sync)) {
        if n_units == 0 {
            return;
        }
        let n_parts = n_parts.clamp(1, n_units);
        let n_words = self.workspace.len() / n_parts;
        let workspace = Words(self.workspace.as_mut_ptr());
        let outputs = self.outputs;
        self.threads.run(n_parts, &|index| {
            let units = n_units * index / n_parts..n_units * (index + 1) / n_parts;
            // SAFETY: parts have disjoint units and disjoint words of the workspace, and each index runs once.
            let part = unsafe {
                Part {
                    units: units.clone(),
                    results: Share::new(outputs, units, n_units),
                    workspace: workspace.part(index, n_words),
                }
            };
            body(part);
        });
    }

    /// The whole workspace, to be read between parallel regions.
    pub fn workspace(&mut self) -> &mut [u64] {
        self.workspace
    }
}

struct Words(*mut u64);
// SAFETY: it is an address; `part` argues for itself.
unsafe impl Sync for Words {}

impl Words {
    /// # Safety
    /// No two parts of one index may live at the same time, and all must be inside the workspace.
    unsafe fn part<'p>(&self, index: usize, n_words: usize) -> &'p mut [u64] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(index * n_words), n_words) }
    }
}

/// What one part of a parallel region works on.
pub struct Part<'p> {
    /// Which units it computes.
    pub units: Range<usize>,
    /// Their share of the results.
    pub results: Share<'p>,
    /// A share of the workspace.
    pub workspace: &'p mut [u64],
}

/// Some units' share of all results.
pub struct Share<'p> {
    outputs: &'p [Memory],
    units: Range<usize>,
    n_units: usize,
    /// One bit for each result that was handed out.
    taken: u64,
}

impl<'p> Share<'p> {
    /// The share of some of `n_units` units.
    ///
    /// # Safety
    /// As for [`Lent::new`]; nobody else may use the results of these units.
    pub unsafe fn new(outputs: &'p [Memory], units: Range<usize>, n_units: usize) -> Share<'p> {
        Share { outputs, units, n_units, taken: 0 }
    }

    /// The share of one unit, counted from 0 over all units.
    pub fn unit(&mut self, unit: usize) -> Share<'_> {
        assert!(
            self.taken == 0 && self.units.contains(&unit),
            "bug: a kernel writes the results of another part"
        );
        Share { outputs: self.outputs, units: unit..unit + 1, n_units: self.n_units, taken: 0 }
    }

    /// A result, once.
    pub fn take<T: Element>(&mut self, output: usize) -> &'p mut [T] {
        let memory = self.outputs[output];
        let bit = 1 << output;
        assert!(self.taken & bit == 0, "bug: a kernel takes a result twice");
        self.taken |= bit;
        let per_unit = memory.len / self.n_units;
        assert_eq!(per_unit * self.n_units, memory.len, "bug: results do not divide evenly among units");
        let start: *mut T = memory.typed();
        // SAFETY: as promised when this was made; the range is inside, and is handed out once.
        unsafe {
            std::slice::from_raw_parts_mut(
                start.add(self.units.start * per_unit),
                self.units.len() * per_unit,
            )
        }
    }
}
