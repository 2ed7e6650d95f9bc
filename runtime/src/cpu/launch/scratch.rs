//! The scratch of workers.

use super::super::interp::{Buffer, ScratchSize, Worker};
use super::super::memory::{Memory, sizes};
use crate::device::DeviceError;
use engine_numerics::gemm::Scratch;

sizes! {
    /// The scratch that launches need of each worker.
    pub struct LaunchSize {
        /// For programs.
        pub programs: ScratchSize,
        /// The bytes of the largest tile of a product.
        pub tile: usize,
        /// The bytes of the parts of a split product, which the first worker has for all.
        pub parts: usize,
        /// For attention.
        pub attention: AttentionSize,
        /// For matrix sources.
        pub source: MatrixSourceSize,
    }

    /// The bytes of scratch that attention needs.
    pub struct AttentionSize {
        /// Of scores, and again of weights.
        pub scores: usize,
        /// Of queries.
        pub query: usize,
        /// Of keys or values.
        pub matrix: usize,
        /// Of weighted sums.
        pub end: usize,
        /// Of running values of rows.
        pub rows: usize,
    }

    /// The scratch that matrix sources need.
    pub struct MatrixSourceSize {
        /// The bytes of a row.
        pub row: usize,
        /// The rows that are picked at a time.
        pub n_rows: usize,
        /// The operands of the kernel.
        pub n_operands: usize,
        /// The bytes of rows that are computed at a time.
        pub computed: usize,
    }
}

impl LaunchSize {
    /// The scratch of launches that only run programs.
    pub fn of_programs(programs: ScratchSize) -> LaunchSize {
        LaunchSize { programs, ..LaunchSize::default() }
    }
}

/// The scratch of one worker.
pub struct WorkerScratch {
    /// For programs.
    pub worker: Worker,
    /// For products of f32.
    pub f32: Box<Scratch<f32>>,
    /// For products of f64.
    pub f64: Box<Scratch<f64>>,
    /// A tile of a product that is not stored as it is.
    pub tile: Memory,
    /// The parts of a split product.
    pub parts: Memory,
    /// For attention.
    pub attention: AttentionScratch,
    /// For matrix sources.
    pub source: MatrixSourceScratch,
}

/// The scratch of one worker for attention.
pub struct AttentionScratch {
    /// The scores of a block.
    pub scores: Memory,
    /// The weights of a block.
    pub weights: Memory,
    /// Queries.
    pub query: Memory,
    /// Keys or values.
    pub matrix: Memory,
    /// Weighted sums.
    pub end: Memory,
    /// Running values of rows.
    pub rows: Memory,
}

/// The scratch of one worker for matrix sources.
pub struct MatrixSourceScratch {
    /// The indices of rows.
    pub indices: Memory,
    /// A row of zeros, for indices out of range.
    pub zeros: Memory,
    /// The addresses of rows.
    pub pointers: Vec<*const u8>,
    /// The operands of the kernel, and the target of a computed source.
    pub buffers: Vec<Buffer>,
    /// Computed rows.
    pub computed: Memory,
}

// SAFETY: the pointers are to operands and to the scratch itself, and are set before every use.
unsafe impl Send for MatrixSourceScratch {}

impl WorkerScratch {
    /// The bytes of the panels of products.
    pub const PANEL_BYTES: usize = size_of::<Scratch<f32>>() + size_of::<Scratch<f64>>();

    /// Scratch of a size.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(size: LaunchSize) -> Result<WorkerScratch, DeviceError> {
        let LaunchSize { programs, tile, parts, attention, source } = size;
        Ok(WorkerScratch {
            worker: Worker::new(programs)?,
            f32: Scratch::new(),
            f64: Scratch::new(),
            tile: Memory::new(tile)?,
            parts: Memory::new(parts)?,
            attention: AttentionScratch {
                scores: Memory::new(attention.scores)?,
                weights: Memory::new(attention.scores)?,
                query: Memory::new(attention.query)?,
                matrix: Memory::new(attention.matrix)?,
                end: Memory::new(attention.end)?,
                rows: Memory::new(attention.rows)?,
            },
            source: MatrixSourceScratch {
                indices: Memory::new(8 * source.n_rows)?,
                zeros: Memory::new(source.row)?,
                pointers: vec![std::ptr::null(); source.n_rows],
                buffers: Vec::with_capacity(source.n_operands + 1),
                computed: Memory::new(source.computed)?,
            },
        })
    }
}
