//! What an opaque op launches on a GPU: a list of launches over its operands, its results and a workspace, each the body
//! of a kernel in the language of `#[cube]`.
//!
//! A body appends instructions to a scope: mostly by calling the `expand` of a `#[cube]` function with the arrays it is
//! given. To run on every GPU it keeps to words of 32 bits and barriers.

mod block_fold;
mod buffer;
mod entries;

pub use block_fold::{BlockFold, BlockFoldCode, BlockFoldFn, BlockMemory, BlockState, Bound, ThreadFold};
pub use buffer::Buffer;
pub use entries::{Shape, before, put, put_last, sort};

use super::call::KernelCall;
use crate::device_model::DeviceModel;
use crate::ir::DType;
use cubecl_core::ir::{ElemType, ManagedVariable, Scope, UIntKind, Variable};
use cubecl_core::prelude::{Array, CubePrimitive, NativeExpand};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The signature of what makes a call of known shapes ready for a GPU.
pub type GpuFn = Arc<dyn Fn(&KernelCall, &DeviceModel) -> GpuKernel + Send + Sync>;

/// The signature of the body of a kernel.
pub type CubeBody = Arc<dyn Fn(&mut Scope, &GpuArguments) + Send + Sync>;

/// A kernel made ready for one call: launches, one after the other.
#[derive(Clone, Debug)]
pub struct GpuKernel {
    /// Bytes of scratch that all launches share.
    pub workspace_bytes: usize,
    /// In order; one that has no blocks is left out.
    pub launches: Vec<GpuLaunch>,
}

/// One launch.
#[derive(Clone)]
pub struct GpuLaunch {
    /// Name of the kernel.
    pub name: &'static str,
    /// Blocks.
    pub cubes: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Memory that the body is given, in this order.
    pub arguments: Vec<GpuArgument>,
    /// Numbers that the body is given: what differs between launches that share a text.
    pub scalars: Vec<usize>,
    /// What a thread does.
    pub body: CubeBody,
}

/// Where parts of a workspace may start, in bytes: what every device can bind from.
pub const WORKSPACE_ALIGNMENT: usize = 256;

/// Memory that a launch is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GpuArgument {
    /// An operand of the call, read.
    Input(usize, View),
    /// A result of the call, written; a launch may read what an earlier one wrote.
    Output(usize, View),
    /// Part of the workspace; a launch may read what an earlier one wrote.
    Workspace {
        /// Where it starts, in bytes; a multiple of [`WORKSPACE_ALIGNMENT`].
        start: usize,
        /// How many elements.
        n_elements: usize,
        /// Their type, of at least 32 bits.
        dtype: DType,
    },
}

/// What a tensor is seen as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Elements of its type; truth values are bytes. Where there are no narrow types, a copy of it: halves as `f32`, small
    /// integers as `u32` or `i32`.
    Elements,
    /// The bits of its elements as unsigned integers of their size, 64 bits as two words, the lower one first. Where there
    /// are no narrow types, a copy of it, the bits of an element in a word each.
    Bits,
    /// As it lies in memory, for bodies that take words apart themselves: where there are no narrow types, words of 32 bits
    /// with several elements each, the first in the lowest bits; those of results are atomic.
    Stored,
}

impl View {
    /// The type of the unsigned integers that elements of a type are seen as, and how many make up an element.
    pub(crate) fn bits(dtype: DType) -> (ElemType, usize) {
        match dtype.size() {
            1 => (ElemType::UInt(UIntKind::U8), 1),
            2 => (ElemType::UInt(UIntKind::U16), 1),
            size => (ElemType::UInt(UIntKind::U32), size / 4),
        }
    }
}

impl fmt::Debug for GpuLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GpuLaunch { name, cubes, threads, arguments, scalars, .. } = self;
        write!(f, "{name} {cubes}x{threads} {arguments:?} {scalars:?}")
    }
}

/// What a body is given.
pub struct GpuArguments {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) scalars: Vec<Variable>,
    pub(crate) index: ElemType,
    pub(crate) device: DeviceModel,
}

impl GpuArguments {
    /// An argument as an array; `T` is the type that it is seen as.
    pub fn array<T: CubePrimitive>(&self, argument: usize) -> NativeExpand<Array<T>> {
        ManagedVariable::Plain(self.buffers[argument].array).into()
    }

    /// A number.
    pub fn scalar(&self, number: usize) -> NativeExpand<usize> {
        ManagedVariable::Plain(self.scalars[number]).into()
    }
}

/// A launch with what tells it from others: two of one identity have one body.
#[derive(Clone, Debug)]
pub(crate) struct CustomLaunch {
    pub identity: String,
    pub launch: GpuLaunch,
}

impl PartialEq for CustomLaunch {
    fn eq(&self, other: &CustomLaunch) -> bool {
        self.identity == other.identity
    }
}

impl Eq for CustomLaunch {}

impl Hash for CustomLaunch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}
