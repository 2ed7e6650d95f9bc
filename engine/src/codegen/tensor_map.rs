//! Tensor maps: how a GPU's copy engine reads boxes of a matrix into shared memory.

use crate::codegen::ir::ptx::WarpgroupProduct;
use crate::device_model::TensorCores;
use crate::ir::DType;

/// What the text of a schedule needs beside its code, if the schedule writes CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The tensor cores that it is written for.
    pub cores: TensorCores,
    /// The tensor maps `map_0`, `map_1` and so on. A copy engine gets them by value, before the pointers.
    pub maps: Vec<TensorMap>,
    /// Bytes of shared memory.
    pub shared_bytes: usize,
    /// The products that the text calls.
    pub products: Vec<WarpgroupProduct>,
}

impl Frame {
    /// The tensor maps that a launch passes. Threads that copy find theirs in the text.
    pub fn passed_maps(&self) -> &[TensorMap] {
        match self.cores {
            TensorCores::Warps => &[],
            TensorCores::Warpgroups => &self.maps,
        }
    }
}

/// The most axes of a tensor map.
pub const MAP_AXES: usize = 5;

/// A tensor from which boxes are copied: matrices, stacked along further axes. Elements of a box beyond the tensor are
/// zeros. Rows of a box have 128 bytes and are swizzled by 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The position of the tensor among the kernel's arguments.
    pub argument: usize,
    /// Element type: `f32`, `f16` or `bf16`.
    pub dtype: DType,
    /// Elements before the first.
    pub offset: usize,
    /// The number of axes.
    pub n_axes: usize,
    /// Extents: along memory, across, and of the further axes; 1 past the last axis.
    pub extents: [usize; MAP_AXES],
    /// Elements from neighbour to neighbour of each axis after the first; 0 past the last axis.
    pub strides: [usize; MAP_AXES - 1],
    /// Extents of a box along memory and across.
    pub of_box: [usize; 2],
}

impl TensorMap {
    /// The map as a C++ initializer, of a tensor that lies at pointer `tensor`.
    pub fn initializer(&self, tensor: &str) -> String {
        let &TensorMap { dtype, offset, extents, strides, of_box, .. } = self;
        let (size, start) = (dtype.size(), offset * dtype.size());
        let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let [extents, strides, of_box] = [list(&extents), list(&strides), list(&of_box)];
        format!("{{(const char *){tensor} + {start}, {size}, {{{extents}}}, {{{strides}}}, {{{of_box}}}}}")
    }
}
