//! What differs between the languages that kernels are compiled to.

use crate::codegen::ir::types::{BF16, BOOL, F16, F32, F64, I32, I64, U8, U32};
use crate::ir::DType;
use crate::op::gpu::GpuLimits;
use cubecl_core::ir::ElemType;

/// Threads of a warp on CUDA, and threads that share a short row everywhere.
pub const PLANE: usize = 32;

/// A language with what its devices can do. One definition of a kernel serves all; what a language lacks is made of what
/// it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether elements of 8 and 16 bits are read and written by themselves, and neighbours as vectors. If not, narrow
    /// elements lie packed in words of 32 bits, and are computed in 32 bits.
    pub has_narrow: bool,
    /// Neighbouring threads that exchange values without memory, a power of two; 1 if there are none.
    pub plane: usize,
    /// Whether a half in a word becomes an `f32` at once, exactly.
    pub reads_halves: bool,
    /// Whether an `f32` becomes a half in a word at once, rounded to the nearest, ties to even.
    pub writes_halves: bool,
    /// Whether `exp`, `sin` and the like are exact to a few units of the last place, and comparisons know NaN. If not,
    /// functions of `f32` are made of sums and products.
    pub has_exact_functions: bool,
    /// Whether one instruction finds the larger of two `f32`, or NaN.
    pub has_extremes: bool,
    /// Whether `exp` and `log` may be taken to 10⁻⁵ where arithmetic bounds a kernel, with the instructions there are.
    pub has_fast_math: bool,
    /// Whether the language's own `exp` of NaN is NaN.
    pub exp_keeps_nan: bool,
    /// Bytes of shared memory that rows may be copied ahead to; 0 if no copy goes on beside other work.
    pub double_buffer_bytes: usize,
    /// Processors, each of which has one cube of most threads at a time.
    pub n_processors: usize,
    /// Whether `f32` in memory can be added to at once.
    pub adds_f32: bool,
    /// Whether four neighbours at once are added to by one instruction.
    pub adds_four: bool,
    /// Whether `f64` in memory can be added to at once.
    pub adds_f64: bool,
    /// Whether there is an `i64`.
    pub has_i64: bool,
    /// Whether there is an `f64`.
    pub has_f64: bool,
    /// Whether large products are a library's.
    pub has_library: bool,
    /// Whether a launch takes as many cubes as are asked for; if not, it may get some more, which have nothing to do.
    pub has_exact_grid: bool,
    /// Threads of a cube, at most; a power of two.
    pub most_threads: usize,
    /// Threads that share a row, at most: so few that each has registers for all it holds, and for what it computes.
    pub row_threads: usize,
    /// Tensors that a launch reads and writes, at most.
    pub most_tensors: usize,
    /// Bytes that the threads of a cube share, at most.
    pub shared_bytes: usize,
}

impl Target {
    /// CUDA C++ for the latest chips.
    pub const CUDA: Target = Target {
        has_narrow: true,
        plane: PLANE,
        reads_halves: false,
        writes_halves: false,
        has_exact_functions: true,
        has_extremes: true,
        has_fast_math: true,
        exp_keeps_nan: true,
        double_buffer_bytes: 200 << 10,
        n_processors: 132,
        adds_f32: true,
        adds_four: true,
        adds_f64: true,
        has_i64: true,
        has_f64: true,
        has_library: true,
        has_exact_grid: true,
        most_threads: 1024,
        row_threads: 1024,
        most_tensors: usize::MAX,
        shared_bytes: 48 << 10,
    };

    /// WGSL without any of its extensions.
    pub const WGSL: Target = Target {
        has_narrow: false,
        plane: 1,
        reads_halves: false,
        writes_halves: false,
        has_exact_functions: false,
        has_extremes: false,
        has_fast_math: true,
        exp_keeps_nan: false,
        double_buffer_bytes: 0,
        n_processors: 1,
        adds_f32: false,
        adds_four: false,
        adds_f64: false,
        has_i64: false,
        has_f64: false,
        has_library: false,
        has_exact_grid: false,
        most_threads: 256,
        // With 1024 of them, compilers keep registers in memory that loads need.
        row_threads: 512,
        most_tensors: 5,
        shared_bytes: 16 << 10,
    };

    /// What the launches that an op brings along may use.
    pub fn limits(&self) -> GpuLimits {
        let (threads, shared_bytes) = (self.most_threads, self.shared_bytes);
        GpuLimits { threads, shared_bytes, has_narrow: self.has_narrow }
    }

    /// The type in which registers of a dtype are held.
    pub fn register(&self, dtype: DType) -> ElemType {
        match dtype {
            DType::Bool => BOOL,
            DType::U8 if self.has_narrow => U8,
            DType::U8 | DType::U32 => U32,
            DType::I32 => I32,
            DType::I64 => I64,
            DType::F16 | DType::BF16 | DType::F32 => F32,
            DType::F64 => F64,
        }
    }

    /// The type in which an element is handed to memory and back: its bits in the low end of a word where it is packed.
    pub fn memory(&self, dtype: DType) -> ElemType {
        match dtype {
            _ if self.lanes(dtype) > 1 => U32,
            DType::Bool => U8,
            DType::F16 => F16,
            DType::BF16 => BF16,
            other => self.register(other),
        }
    }

    /// The type in which values of a dtype are exchanged between threads: narrow integers travel as words.
    pub fn carried(dtype: DType) -> ElemType {
        match Target::CUDA.register(dtype) {
            BOOL | U8 => U32,
            elem => elem,
        }
    }

    /// Elements of a word in memory.
    pub fn lanes(&self, dtype: DType) -> usize {
        if self.has_narrow { 1 } else { 4 / dtype.size().min(4) }
    }

    /// Whether values of a type can be computed with.
    pub fn has(&self, dtype: DType) -> bool {
        match dtype {
            DType::I64 => self.has_i64,
            DType::F64 => self.has_f64,
            _ => true,
        }
    }

    /// Whether a number of a type in memory can be added to at once.
    pub fn adds(&self, dtype: DType) -> bool {
        match dtype {
            DType::I32 | DType::U32 => true,
            DType::F32 => self.adds_f32,
            DType::F64 => self.adds_f64,
            _ => false,
        }
    }
}
