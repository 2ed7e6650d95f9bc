//! The device model: one description of a device, which fusion, code generation and planning decide from.
//!
//! A runtime fills it in when it opens a device. The presets describe typical devices, so that every form of a graph can be
//! printed without one. It is plain data that serializes, so a model recorded on one machine can be used on another.

use crate::ir::DType;
use serde::{Deserialize, Serialize};

/// A device, as the compiler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceModel {
    // ---- Instructions.
    /// Whether elements of 8 and 16 bits are read and written by themselves, and neighbours as vectors. If not, narrow
    /// elements lie packed in words of 32 bits, and are computed in 32 bits.
    pub has_narrow: bool,
    /// Threads of a warp (CUDA) or subgroup (WGSL) that exchange values without memory, a power of two; 1 if there are none.
    pub plane: usize,
    /// Whether one instruction converts a half in a word to `f32`, exactly.
    pub reads_halves: bool,
    /// Whether one instruction converts `f32` to a half in a word, rounded to the nearest, ties to even.
    pub writes_halves: bool,
    /// Whether `exp`, `sin` and the like are exact to a few units in the last place, and comparisons know NaN. If not,
    /// functions of `f32` are made of sums and products.
    pub has_exact_functions: bool,
    /// Whether one instruction finds the larger of two `f32`, or NaN.
    pub has_extremes: bool,
    /// Whether compute-bound kernels may use approximate `exp` and `log`, to 10⁻⁵.
    pub has_fast_math: bool,
    /// Whether the language's own `exp` of NaN is NaN.
    pub exp_keeps_nan: bool,
    /// Whether `f32` in memory can be added to atomically.
    pub adds_f32: bool,
    /// Whether `f32` in shared memory can be added to atomically.
    #[serde(default)]
    pub adds_shared_f32: bool,
    /// Whether one instruction adds to four neighbours atomically.
    pub adds_four: bool,
    /// Whether `f64` in memory can be added to atomically.
    pub adds_f64: bool,
    /// Whether there is an `i64`.
    pub has_i64: bool,
    /// Whether comparisons of `i64` know the sign of an `i32` that was widened.
    #[serde(default = "holds")]
    pub compares_widened: bool,
    /// Whether there is an `f64`.
    pub has_f64: bool,
    /// Whether arithmetic may take subnormal numbers for zeros.
    pub may_flush: bool,
    // ---- Limits of a launch.
    /// Whether a launch takes as many blocks as are asked for. If not, it may get more, which have nothing to do.
    pub has_exact_grid: bool,
    /// Most blocks along an axis of the grid.
    pub most_blocks: usize,
    /// Most threads of a block, a power of two.
    pub most_threads: usize,
    /// Most threads that share a row; more would leave each without registers for what it holds.
    pub row_threads: usize,
    /// Most tensors that a launch reads and writes.
    pub most_tensors: usize,
    /// Most bytes of a tensor that a launch reaches.
    pub most_tensor_bytes: u64,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// Bytes of shared memory for asynchronous copies; 0 if copies do not overlap arithmetic.
    pub double_buffer_bytes: usize,
    // ---- The machine.
    /// Processors (SMs), each of which holds one block of most threads at a time.
    pub n_processors: usize,
    /// Most elements of a tensor that kernels find in cache, so that several may compute the same values from it.
    #[serde(default = "DeviceModel::cached_elements")]
    pub cached_elements: usize,
    /// Streams that plans are made for.
    pub n_streams: usize,
    /// Most bytes of a split that stay in device memory; rows of larger splits are streamed.
    pub most_resident_bytes: u64,
    /// Whether the device counts the trips of loops, which otherwise a kernel of each trip does.
    #[serde(default)]
    pub counts_trips: bool,
    // ---- Libraries and matrix units.
    /// The library of matmuls, if there is one.
    pub library: Option<Library>,
    /// Whether kernels use matrix units for halves through cooperative matrices.
    pub has_matrix_units: bool,
    /// The tensor cores that kernels multiply with, if frames of CUDA C++ are written for the device.
    #[serde(default)]
    pub tensor_cores: Option<TensorCores>,
    // ---- Kernels.
    /// Limits of the kernels that there are for the device; the fuser makes no others.
    pub kernels: KernelLimits,
}

/// How the threads of a block multiply matrices in shared memory, and how tiles get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TensorCores {
    /// Each warp multiplies on its own (`mma.sync`), and threads copy (`cp.async`): NVIDIA GPUs from Ampere on.
    Warps,
    /// Four warps multiply together (`wgmma`), and a copy engine reads boxes by tensor maps: Hopper.
    Warpgroups,
}

/// A library that multiplies matrices, such as cuBLASLt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Library {
    /// Workspace that an algorithm may use, in bytes.
    pub workspace_bytes: usize,
    /// Fewest operations of a matmul that the library is tried on. Starting it takes longer than fewer operations.
    pub fewest_flops: usize,
    /// Most operations of a matmul that is tried without the library as well.
    pub most_own_flops: usize,
}

/// Limits of the kernels of a device. The default is the CPU's, which are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelLimits {
    /// Most queries that share the keys of an attention kernel; for more, two matmuls are faster.
    pub most_queries: usize,
    /// Most keys of a query in an attention kernel; 0 if the device has no such kernel.
    pub most_keys: usize,
    /// Whether attention kernels compute in `f64`, too.
    pub attention_in_f64: bool,
    /// Whether there is a kernel of the gradient of attention, which computes scores and their gradients tile by tile.
    #[serde(default)]
    pub attention_gradients: bool,
    /// The most columns of queries and values for which attention of many queries runs in tiles of `f32`, which store no
    /// scores; 0 if there are no such kernels.
    #[serde(default)]
    pub columns_in_tiles: usize,
    /// Most indices of a scatter into state that each block checks itself before it writes. More indices are checked by a
    /// kernel of their own.
    pub most_rows_checked: usize,
    /// Row reductions that a matmul can hand its rows to.
    pub row_folds: RowFolds,
    /// Most tensors of a fused kernel.
    pub most_operands: usize,
    /// The longest rows across memory that a kernel reduces in one step.
    #[serde(default = "KernelLimits::longest_column")]
    pub longest_column: usize,
    /// The longest rows that a kernel scans in one step, if there are few.
    #[serde(default = "KernelLimits::longest_scan")]
    pub longest_scan: usize,
    /// Whether matmuls of `f32` and `f64` read right matrices whose rows and columns are not evenly spaced.
    #[serde(default)]
    pub uneven_matrices: bool,
    /// Whether kernels compute maps where they read them in another order, as fast as in their own.
    #[serde(default)]
    pub moved_maps: bool,
    /// Whether a launch takes as long as a short reduction, so that several whose results meet should be one kernel.
    #[serde(default)]
    pub joined_sums: bool,
    /// Whether there is a library of convolutions, which reads the images of matmuls of windows.
    #[serde(default)]
    pub convolutions: bool,
}

/// A kernel takes at most this many distinct buffers: more exceed a GPU's registers and argument space.
pub const MAX_OPERANDS: usize = 24;

/// Row reductions that a matmul can hand its rows to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RowFolds {
    /// Any row reduction, by its functions for the CPU.
    Any,
    /// Row reductions with a block fold for the device.
    Blocks,
}

impl KernelLimits {
    /// As on the CPU, whose kernels take any attention and any row reduction.
    pub const CPU: KernelLimits = KernelLimits {
        most_queries: usize::MAX,
        most_keys: usize::MAX,
        attention_in_f64: true,
        attention_gradients: true,
        columns_in_tiles: 0,
        most_rows_checked: 0,
        row_folds: RowFolds::Any,
        most_operands: MAX_OPERANDS,
        longest_column: usize::MAX,
        longest_scan: usize::MAX,
        uneven_matrices: true,
        moved_maps: false,
        joined_sums: false,
        convolutions: false,
    };

    /// That of a GPU.
    fn longest_column() -> usize {
        DeviceModel::WEBGPU.kernels.longest_column
    }

    /// That of a GPU.
    fn longest_scan() -> usize {
        DeviceModel::WEBGPU.kernels.longest_scan
    }
}

impl Default for KernelLimits {
    fn default() -> KernelLimits {
        KernelLimits::CPU
    }
}

/// What a model says that was recorded before its device was asked.
fn holds() -> bool {
    true
}

impl DeviceModel {
    /// An NVIDIA H200 with CUDA 13. Kernels use the 48 KiB of shared memory that need no opt-in; only double-buffered rows
    /// take all of it.
    pub const H200: DeviceModel = DeviceModel {
        has_narrow: true,
        plane: 32,
        reads_halves: false,
        writes_halves: false,
        has_exact_functions: true,
        has_extremes: true,
        has_fast_math: true,
        exp_keeps_nan: true,
        adds_f32: true,
        adds_shared_f32: true,
        adds_four: true,
        adds_f64: true,
        has_i64: true,
        compares_widened: true,
        has_f64: true,
        may_flush: false,
        has_exact_grid: true,
        most_blocks: i32::MAX as usize,
        most_threads: 1024,
        row_threads: 1024,
        most_tensors: usize::MAX,
        most_tensor_bytes: u64::MAX,
        shared_bytes: 48 << 10,
        double_buffer_bytes: 219 << 10,
        n_processors: 132,
        // docs/decisions/096-measured-thresholds.md
        cached_elements: 1 << 18,
        n_streams: 3,
        most_resident_bytes: 70 << 30,
        counts_trips: true,
        // 32 MiB is the workspace that NVIDIA recommends for Hopper.
        library: Some(Library {
            workspace_bytes: 32 << 20,
            fewest_flops: 100_000,
            most_own_flops: 400_000_000,
        }),
        has_matrix_units: false,
        tensor_cores: Some(TensorCores::Warpgroups),
        // The longest key that fits into 48 KiB; code generation has a test of it.
        kernels: KernelLimits {
            most_queries: 8,
            most_keys: 7168,
            attention_in_f64: false,
            attention_gradients: false,
            columns_in_tiles: 0,
            most_rows_checked: 1024,
            row_folds: RowFolds::Blocks,
            most_operands: MAX_OPERANDS,
            longest_column: 1024,
            longest_scan: 16384,
            uneven_matrices: false,
            moved_maps: true,
            joined_sums: true,
            convolutions: false,
        },
    };

    /// An NVIDIA A100, which stands for GPUs before Hopper that have tensor cores.
    pub const A100: DeviceModel = DeviceModel {
        adds_four: false,
        double_buffer_bytes: 155 << 10,
        n_processors: 108,
        most_resident_bytes: 40 << 30,
        tensor_cores: Some(TensorCores::Warps),
        ..DeviceModel::H200
    };

    /// The least that WebGPU promises: WGSL without extensions, within the default limits.
    pub const WEBGPU: DeviceModel = DeviceModel {
        has_narrow: false,
        plane: 1,
        reads_halves: false,
        writes_halves: false,
        has_exact_functions: false,
        has_extremes: false,
        has_fast_math: true,
        exp_keeps_nan: false,
        adds_f32: false,
        adds_shared_f32: false,
        adds_four: false,
        adds_f64: false,
        has_i64: false,
        compares_widened: true,
        has_f64: false,
        may_flush: true,
        has_exact_grid: false,
        most_blocks: 65_535,
        most_threads: 256,
        // With 1024 threads, compilers spill registers that hold loads.
        row_threads: 512,
        most_tensors: 5,
        most_tensor_bytes: 128 << 20,
        shared_bytes: 16 << 10,
        double_buffer_bytes: 0,
        n_processors: 1,
        cached_elements: 1 << 16,
        n_streams: 1,
        most_resident_bytes: 128 << 20,
        counts_trips: false,
        library: None,
        has_matrix_units: false,
        tensor_cores: None,
        kernels: KernelLimits {
            most_queries: 8,
            most_keys: 0,
            attention_in_f64: false,
            attention_gradients: false,
            columns_in_tiles: 0,
            most_rows_checked: 0,
            row_folds: RowFolds::Blocks,
            most_operands: 5,
            longest_column: 1024,
            longest_scan: 16384,
            uneven_matrices: false,
            moved_maps: true,
            joined_sums: true,
            convolutions: false,
        },
    };

    /// A desktop GPU through wgpu, with the extensions and limits that most have.
    pub const DESKTOP: DeviceModel = DeviceModel {
        has_i64: true,
        compares_widened: true,
        has_f64: true,
        adds_f32: true,
        plane: 32,
        reads_halves: true,
        writes_halves: true,
        most_threads: 1024,
        most_tensors: MAX_OPERANDS,
        most_tensor_bytes: 2 << 30,
        most_resident_bytes: 2 << 30,
        shared_bytes: 48 << 10,
        kernels: KernelLimits {
            most_keys: 7168,
            columns_in_tiles: 256,
            row_folds: RowFolds::Blocks,
            most_operands: MAX_OPERANDS,
            ..DeviceModel::WEBGPU.kernels
        },
        ..DeviceModel::WEBGPU
    };

    /// The CPU.
    pub const CPU: DeviceModel = DeviceModel {
        has_i64: true,
        compares_widened: true,
        has_f64: true,
        has_exact_functions: true,
        may_flush: false,
        most_tensors: usize::MAX,
        most_tensor_bytes: u64::MAX,
        most_resident_bytes: u64::MAX,
        counts_trips: true,
        kernels: KernelLimits::CPU,
        ..DeviceModel::WEBGPU
    };

    /// Those of a device that was not asked.
    fn cached_elements() -> usize {
        DeviceModel::WEBGPU.cached_elements
    }

    /// Bytes of the unsigned integers that a kernel sees the bits of an element as.
    pub fn bits_size(&self, dtype: DType) -> usize {
        if self.has_narrow { dtype.size().min(4) } else { 4 }
    }
}

impl Default for DeviceModel {
    fn default() -> DeviceModel {
        DeviceModel::CPU
    }
}
