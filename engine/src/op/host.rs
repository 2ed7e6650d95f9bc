//! Kernels of the CPU, and the memory that they borrow.
//!
//! A kernel sees no device and no thread. It borrows its operands, its results, a workspace placed by the plan, and an
//! interface to run parts of its work in parallel. The cut into parts must follow from shapes alone.

use super::call::KernelCall;
use crate::ir::DType;
use half::{bf16, f16};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Prepares a kernel for a call of known shapes.
pub type HostFn = Arc<dyn Fn(&KernelCall) -> HostKernel + Send + Sync>;

/// A kernel that is ready for one call.
pub struct HostKernel {
    /// Bytes of the workspace that the plan places for it. Its address is a multiple of 64.
    pub workspace_bytes: usize,
    /// Runs the kernel. It must not allocate.
    pub run: HostRun,
}

/// The signature of a kernel that is ready.
pub type HostRun = Box<dyn Fn(&mut Lent) + Send + Sync>;

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a kernel with {} bytes of workspace", self.workspace_bytes)
    }
}

// ---- Lent memory.

mod sealed {
    pub trait Sealed {}
}

/// Numbers without invalid bit patterns, so that memory can be viewed as a slice of them.
pub trait Plain: Copy + Send + Sync + sealed::Sealed + 'static {}

/// Elements of tensors in memory. Truth values are bytes 0 and 1.
pub trait Element: Plain {
    /// Whether tensors of that type hold these elements.
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
    f32: F32; f64: F64; f16: F16; bf16: BF16; i32: I32; i64: I64; u32: U32; u8: U8 | Bool; i8: I8;
    i16: I16; u16: U16;
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

// SAFETY: it is only an address. Code that reads or writes through it states its own safety argument.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn typed<T: Element>(self) -> *mut T {
        assert!(T::holds(self.dtype), "bug: a kernel takes its {} for something else", self.dtype);
        if self.len == 0 { std::ptr::NonNull::dangling().as_ptr() } else { self.start.cast() }
    }
}

/// Elements that can be read, of a type known at run time.
#[derive(Clone, Copy)]
pub struct Elements<'a> {
    memory: Memory,
    lifetime: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> Elements<'a> {
    /// Elements at an address.
    ///
    /// # Safety
    /// The memory must hold the elements, and no thread may write it during the lifetime.
    pub unsafe fn new(memory: Memory) -> Elements<'a> {
        Elements { memory, lifetime: std::marker::PhantomData }
    }

    /// The elements of a slice.
    pub fn of<T: Element>(slice: &'a [T], dtype: DType) -> Elements<'a> {
        assert!(T::holds(dtype));
        let memory = Memory { start: slice.as_ptr().cast_mut().cast(), len: slice.len(), dtype };
        Elements { memory, lifetime: std::marker::PhantomData }
    }

    /// The elements in a range.
    pub fn range(&self, range: Range<usize>) -> Elements<'a> {
        assert!(range.start <= range.end && range.end <= self.memory.len);
        let start = self.memory.start.wrapping_add(range.start * self.memory.dtype.size());
        Elements { memory: Memory { start, len: range.len(), ..self.memory }, ..*self }
    }

    /// The elements as a slice. `T` must be the tensor's element type.
    pub fn get<T: Element>(&self) -> &'a [T] {
        // SAFETY: the caller of `new` promised it, and the type is checked.
        unsafe { std::slice::from_raw_parts(self.memory.typed(), self.memory.len) }
    }
}

/// Runs chunks of work in parallel.
pub trait Threads {
    /// Calls `body` once for every number below `n_chunks`, in any order, and returns after the last call.
    fn run(&mut self, n_chunks: usize, body: &(dyn Fn(usize) + Sync));

    /// How many calls run at a time.
    fn count(&self) -> usize;
}

/// Runs one chunk after the other.
pub struct OneThread;

impl Threads for OneThread {
    fn run(&mut self, n_chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..n_chunks).for_each(body);
    }

    fn count(&self) -> usize {
        1
    }
}

/// The memory and threads that a kernel borrows for one run.
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
    /// Each memory must hold its elements. During the lifetime, no thread may write the inputs, and only this kernel
    /// may use the outputs. No two outputs may overlap.
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
        // SAFETY: promised by the caller of `new`.
        unsafe { Elements::new(self.inputs[operand]) }
    }

    /// How many parts run at a time. Results must not depend on it.
    pub fn n_threads(&self) -> usize {
        self.threads.count()
    }

    /// Cuts `n_units` units, such as rows, into `n_parts` parts and calls `body` for each in parallel. A part gets its
    /// units' share of each result and an equal share of the workspace. The elements of a result must divide evenly
    /// among units.
    pub fn parallel_for(&mut self, n_units: usize, n_parts: usize, body: &(dyn Fn(Part) + Sync)) {
        if n_units == 0 {
            return;
        }
        let n_parts = n_parts.clamp(1, n_units);
        let n_words = self.workspace.len() / n_parts;
        let workspace = Words(self.workspace.as_mut_ptr());
        let (inputs, outputs) = (self.inputs, self.outputs);
        self.threads.run(n_parts, &|index| {
            let units = n_units * index / n_parts..n_units * (index + 1) / n_parts;
            // SAFETY: parts have disjoint units and disjoint words of the workspace, and each index runs once.
            let part = unsafe {
                Part {
                    units: units.clone(),
                    results: Share { inputs, ..Share::new(outputs, units, n_units) },
                    workspace: workspace.part(index, n_words),
                }
            };
            body(part);
        });
    }

    /// The whole workspace, for use between parallel regions.
    pub fn workspace(&mut self) -> &mut [u64] {
        self.workspace
    }
}

struct Words(*mut u64);
// SAFETY: it is only an address; `part` has the safety argument.
unsafe impl Sync for Words {}

impl Words {
    /// # Safety
    /// At most one part per index may exist at a time, and all parts must lie inside the workspace.
    unsafe fn part<'p>(&self, index: usize, n_words: usize) -> &'p mut [u64] {
        // SAFETY: required of the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(index * n_words), n_words) }
    }
}

/// The memory of one part of a parallel region.
pub struct Part<'p> {
    /// The units that the part computes.
    pub units: Range<usize>,
    /// Their share of the results.
    pub results: Share<'p>,
    /// The part's share of the workspace.
    pub workspace: &'p mut [u64],
}

/// The words of a workspace as numbers of another type of at most 64 bits, with arbitrary contents.
pub fn words_as<T: Plain>(words: &mut [u64]) -> &mut [T] {
    const { assert!(align_of::<T>() <= align_of::<u64>() && size_of::<u64>().is_multiple_of(size_of::<T>())) };
    let len = size_of_val(words) / size_of::<T>();
    // SAFETY: alignment and length fit, and every bit pattern is a number of a plain type.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
}

/// Some units' share of all results, and of operands.
pub struct Share<'p> {
    inputs: &'p [Memory],
    outputs: &'p [Memory],
    units: Range<usize>,
    n_units: usize,
    /// One bit for each result that was taken.
    taken: u64,
}

impl<'p> Share<'p> {
    /// The share of some of `n_units` units.
    ///
    /// # Safety
    /// As for [`Lent::new`]; in addition, only this share may use the results of these units.
    pub unsafe fn new(outputs: &'p [Memory], units: Range<usize>, n_units: usize) -> Share<'p> {
        Share { inputs: &[], outputs, units, n_units, taken: 0 }
    }

    /// The share of one unit, counted from 0 over all units.
    pub fn unit(&mut self, unit: usize) -> Share<'_> {
        assert!(
            self.taken == 0 && self.units.contains(&unit),
            "bug: a kernel writes the results of another part"
        );
        Share { units: unit..unit + 1, taken: 0, ..*self }
    }

    /// The share of an operand whose elements divide evenly among units. Behind a matmul there are no operands.
    pub fn operand<T: Element>(&self, operand: usize) -> &'p [T] {
        // SAFETY: promised by the caller of `Lent::new`.
        let elements = unsafe { Elements::new(self.inputs[operand]) };
        let per_unit = elements.memory.len / self.n_units;
        assert_eq!(
            per_unit * self.n_units,
            elements.memory.len,
            "bug: an operand does not divide among units"
        );
        elements.range(self.units.start * per_unit..self.units.end * per_unit).get()
    }

    /// Takes a result. Each can be taken once.
    pub fn take<T: Element>(&mut self, output: usize) -> &'p mut [T] {
        let memory = self.outputs[output];
        let bit = 1 << output;
        assert!(self.taken & bit == 0, "bug: a kernel takes a result twice");
        self.taken |= bit;
        let per_unit = memory.len / self.n_units;
        assert_eq!(per_unit * self.n_units, memory.len, "bug: results do not divide evenly among units");
        let start: *mut T = memory.typed();
        // SAFETY: promised by the caller of `new`. The range is in bounds, and each result is taken once.
        unsafe {
            std::slice::from_raw_parts_mut(
                start.add(self.units.start * per_unit),
                self.units.len() * per_unit,
            )
        }
    }
}
