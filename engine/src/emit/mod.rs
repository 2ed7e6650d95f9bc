//! From fused kernels to CubeCL kernel definitions, and from those to CUDA C++.
//!
//! [`FusedKernel`] is a kernel that CubeCL can compile for any of its devices; [`cuda_source`] prints it as CUDA C++,
//! which needs no GPU. What the CUDA text expects of a launch:
//!
//! - one pointer per operand in the kernel's order, then the error flag if [`KernelSource::checks`], then the struct
//!   that [`KernelSource::info`] packs, by value;
//! - [`KernelSource::cube_count_for`] blocks of [`KernelSource::cube_dim`] threads and `shared_bytes` of dynamic
//!   shared memory; nothing to launch when that is 0 blocks;
//! - `bool` lies in memory as bytes 0 and 1;
//! - the error flag is [`FLAG_WORDS`] words `u32`, zero before: primitive node + 1 of the first failed index check,
//!   the index (low and high word), the point of the kernel (low and high word).
//!
//! The number of points or rows and the seed are arguments; strides and inner extents are part of the text, so one
//! text serves every batch size. Entry names are the kinds of kernels, so that equal kernels have equal texts.
//!
//! CubeCL 0.10 pitfalls that shaped this module: its C++ printer numbers temporaries by a global counter (texts are
//! made under a lock), declares pooled mutable locals in the order of a hash map (none are pooled here), prints
//! `inf` and `NaN` literals that are not C++ (those are made from bits), has `max` and `min` that drop NaN, and knows
//! no `expm1` and no remainder of floats with C's sign. `&&` evaluates both sides, so guarded addresses are selected
//! before they are used.

mod access;
mod code;
mod map;
#[cfg(test)]
mod on_host;
mod philox;
mod row;
mod scalar;
mod segmented;
#[cfg(test)]
mod tests;
mod tile;

pub use row::RowPlan;
pub use tile::FLAG_WORDS;

use crate::fuse::{Kernel, KernelBody, Operand, Segment, Tile, TileOp, Use};
use crate::ir::{DType, Literal};
use code::{Code, U32, U64};
use cubecl_core::codegen::{InfoBuilder, KernelSettings};
use cubecl_core::compute::KernelBuilder;
use cubecl_core::ir::{AddressType, ElemType, StorageType, Type, Variable};
use cubecl_core::prelude::{CubeDim, CubeKernel, ExecutionMode, KernelDefinition, KernelId, KernelMetadata};
use cubecl_cpp::cuda::{CudaDialect, mma::CudaWmmaCompiler};
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::KernelTask;
use scalar::memory_type;
use std::sync::{Mutex, PoisonError};
use thiserror::Error;
use tile::Memory;

/// Why a kernel has no text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EmitError {
    /// Kernels of that kind are not made here.
    #[error("a {0} kernel has no cube form")]
    Kind(&'static str),
    /// A primitive that the device lacks for a type.
    #[error("`{op}` of {dtype} has no cube form")]
    Scalar {
        /// The primitive.
        op: String,
        /// The type of its operands.
        dtype: String,
    },
    /// CubeCL refused the kernel.
    #[error("cubecl: {0}")]
    Compiler(String),
}

/// The CUDA C++ of a kernel, with what a launch has to know. See the module for the calling convention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// The translation unit.
    pub text: String,
    /// Name of its `extern "C"` function.
    pub entry: String,
    /// Threads per block, by axis.
    pub cube_dim: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: usize,
    /// Whether the error flag is an operand, behind the others.
    pub checks: bool,
    /// Whether the seed is an argument.
    pub random: bool,
    /// Points (of a map) or rows (of a row kernel) of this kernel.
    pub points: usize,
    kernel: FusedKernel,
}

impl KernelSource {
    /// Blocks to launch for so many points of a map or rows of a row kernel.
    pub fn cube_count_for(&self, points: usize) -> usize {
        self.kernel.cube_count_for(points)
    }

    /// The last argument, to be passed by value: the number of points or rows, the seed, and lengths that the text
    /// does not read.
    pub fn info(&self, points: usize, seed: u32) -> Vec<u64> {
        self.kernel.info(points, seed)
    }
}

/// Translates a map, row or segmented kernel to CUDA C++. Equal kernels give equal texts.
///
/// # Errors
/// If the kernel is of another kind, or computes something that CUDA C++ through CubeCL cannot.
pub fn cuda_source(kernel: &Kernel) -> Result<KernelSource, EmitError> {
    let kernel = FusedKernel::new(kernel)?;
    // `define` cannot fail, so failures are found before.
    kernel.try_define()?;
    let mut options = CompilationOptions::default();
    options.supports_features.grid_constants = true;
    let task = KernelTask::<CudaCompiler, _>::new(kernel.clone());
    let compiled = {
        let _turn = PRINTING.lock().unwrap_or_else(PoisonError::into_inner);
        let address = kernel.address().unsigned_type();
        task.compile(&mut CudaCompiler::default(), &options, ExecutionMode::Unchecked, address)
    };
    let compiled = compiled.map_err(|error| EmitError::Compiler(error.to_string()))?;
    Ok(KernelSource {
        shared_bytes: compiled.repr.as_ref().map_or(0, |repr| repr.shared_memory_size()),
        text: compiled.source,
        entry: compiled.entrypoint_name,
        cube_dim: [compiled.cube_dim.x, compiled.cube_dim.y, compiled.cube_dim.z],
        checks: kernel.checks(),
        random: kernel.is_random(),
        points: kernel.n_points(),
        kernel,
    })
}

type CudaCompiler = CppCompiler<CudaDialect<CudaWmmaCompiler>>;

/// CubeCL's C++ printer numbers its temporaries by a global counter.
static PRINTING: Mutex<()> = Mutex::new(());

/// A fused kernel as CubeCL takes it: a description, from which the definition is made where it is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedKernel {
    tile: Tile,
    form: Form,
    operands: Vec<OperandForm>,
}

/// What the threads share out between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Map,
    Row,
    Segmented(Vec<SegmentForm>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SegmentForm {
    operands: Vec<usize>,
    points: usize,
    constants: Vec<Literal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OperandForm {
    dtype: DType,
    is_written: bool,
    is_empty: bool,
    is_wide: bool,
    /// Whether a written operand may share its memory.
    may_share: bool,
}

impl FusedKernel {
    /// The cube form of a kernel.
    ///
    /// # Errors
    /// If the kernel is not a map, row or segmented kernel.
    pub fn new(kernel: &Kernel) -> Result<FusedKernel, EmitError> {
        let (tile, form) = match &kernel.body {
            KernelBody::Map(tile) => (tile, Form::Map),
            KernelBody::Row(tile) => (tile, Form::Row),
            KernelBody::Segmented { tile, segments } => {
                (tile, Form::Segmented(segments.iter().map(segment_form).collect()))
            }
            KernelBody::Contract(_) | KernelBody::Attend(_) | KernelBody::Scatter(_) | KernelBody::Scan { .. } => {
                return Err(EmitError::Kind(kernel.kind()));
            }
        };
        let operands =
            kernel.operands.iter().map(|operand| operand_form(operand, &kernel.operands)).collect();
        Ok(FusedKernel { tile: tile.clone(), form, operands })
    }

    /// Blocks to launch for so many points or rows.
    pub fn cube_count_for(&self, points: usize) -> usize {
        match &self.form {
            Form::Map => points.div_ceil(map::THREADS),
            Form::Row => points.div_ceil(RowPlan::of(&self.tile.domain).rows),
            Form::Segmented(segments) => segmented::cubes(segments).last().copied().unwrap_or(0),
        }
    }

    /// What a launch passes by value.
    pub fn info(&self, points: usize, seed: u32) -> Vec<u64> {
        let mut info = InfoBuilder::default();
        if !matches!(self.form, Form::Segmented(_)) {
            match self.address() {
                AddressType::U32 => info.scalars.push(points as u32),
                AddressType::U64 => info.scalars.push(points as u64),
            }
        }
        if self.is_random() {
            info.scalars.push(seed);
        }
        for _ in 0..self.operands.len() + usize::from(self.checks()) {
            info.metadata.register_array(0, 0, self.address());
        }
        info.finish(self.address()).data
    }

    fn n_points(&self) -> usize {
        let domain = &self.tile.domain;
        match self.form {
            Form::Row => domain.outer * domain.inner,
            Form::Map | Form::Segmented(_) => domain.outer * domain.row * domain.inner,
        }
    }

    fn checks(&self) -> bool {
        self.tile.insts.iter().any(|inst| matches!(inst.op, TileOp::Check { .. }))
    }

    fn is_random(&self) -> bool {
        self.tile.insts.iter().any(|inst| matches!(inst.op, TileOp::Random { .. }))
    }

    fn address(&self) -> AddressType {
        let domain = &self.tile.domain;
        let n_points = domain.outer * domain.row * domain.inner;
        // Threads past the end must not wrap around to the first points.
        let is_wide = n_points > LARGEST_NARROW || self.operands.iter().any(|operand| operand.is_wide);
        if is_wide { AddressType::U64 } else { AddressType::U32 }
    }

    fn n_threads(&self) -> usize {
        match self.form {
            Form::Map | Form::Segmented(_) => map::THREADS,
            Form::Row => RowPlan::of(&self.tile.domain).cube_threads(),
        }
    }

    fn entry(&self) -> &'static str {
        match self.form {
            Form::Map => "map",
            Form::Row => "row",
            Form::Segmented(_) => "segmented_map",
        }
    }

    fn try_define(&self) -> Result<KernelDefinition, EmitError> {
        let mut builder = KernelBuilder::new();
        self.address().register(&mut builder.scope);
        let index = if self.address() == AddressType::U64 { U64 } else { U32 };
        let buffers = self.buffers(&mut builder);
        let is_segmented = matches!(self.form, Form::Segmented(_));
        let points = (!is_segmented).then(|| builder.scalar(index.into()).consume());
        let seed = self.is_random().then(|| builder.scalar(U32.into()).consume());
        let buffers = Buffers { seed, ..buffers };
        let mut code = Code { scope: &mut builder.scope, index };
        match (&self.form, points) {
            (Form::Map, Some(points)) => map::map(&mut code, &self.tile, &buffers, points)?,
            (Form::Row, Some(rows)) => {
                let tile = tile::TileCode { tile: &self.tile, buffers: &buffers, shared: &buffers };
                row::row(&mut code, tile, rows)?;
            }
            (Form::Segmented(segments), _) => segmented::map(&mut code, &self.tile, &buffers, segments)?,
            (Form::Map | Form::Row, None) => crate::bug!("a kernel without its number of points"),
        }
        let dim = CubeDim::new_1d(self.n_threads() as u32);
        let settings = KernelSettings::default().cube_dim(dim).address_type(self.address());
        Ok(builder.build(settings.kernel_name(self.entry())))
    }

    fn buffers(&self, builder: &mut KernelBuilder) -> Buffers {
        let mut operands = vec![];
        for form in &self.operands {
            let ty = Type::scalar(memory_type(form.dtype));
            // CUDA inputs become `const __restrict__`, which would be a lie for shared memory.
            let is_plain = form.is_written || form.may_share;
            let buffer = if is_plain { builder.output_array(ty) } else { builder.input_array(ty) };
            operands.push((buffer.consume(), form.is_empty));
        }
        let word = Type::new(StorageType::Atomic(ElemType::UInt(cubecl_core::ir::UIntKind::U32)));
        let flag = self.checks().then(|| builder.output_array(word).consume());
        Buffers { operands, flag, seed: None }
    }
}

const LARGEST_NARROW: usize = u32::MAX as usize - map::THREADS;

fn operand_form(operand: &Operand, all: &[Operand]) -> OperandForm {
    let n = operand.ty.numel();
    let is_written = operand.usage == Use::Write;
    let may_share =
        all.iter().any(|other| other.usage == Use::Write && other.ty.bytes() == operand.ty.bytes());
    OperandForm {
        dtype: operand.ty.dtype,
        is_written,
        is_empty: n == 0,
        is_wide: n > LARGEST_NARROW,
        may_share,
    }
}

fn segment_form(segment: &Segment) -> SegmentForm {
    let Segment { operands, points, constants } = segment.clone();
    SegmentForm { operands, points, constants }
}

impl KernelMetadata for FusedKernel {
    fn name(&self) -> &'static str {
        self.entry()
    }

    fn id(&self) -> KernelId {
        KernelId::new::<FusedKernel>().info(self.clone()).cube_dim(CubeDim::new_1d(self.n_threads() as u32))
    }

    fn address_type(&self) -> StorageType {
        self.address().unsigned_type()
    }
}

impl CubeKernel for FusedKernel {
    /// # Panics
    /// If [`cuda_source`] would fail.
    fn define(&self) -> KernelDefinition {
        self.try_define().unwrap_or_else(|error| crate::bug!("{error}"))
    }
}

/// The arguments of a kernel.
struct Buffers {
    /// Each operand, and whether it has no elements.
    operands: Vec<(Variable, bool)>,
    flag: Option<Variable>,
    seed: Option<Variable>,
}

impl Memory for Buffers {
    fn is_empty(&self, operand: usize) -> bool {
        self.operands[operand].1
    }

    fn load(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        code.load(self.operands[operand].0, index)
    }

    fn store(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        code.store(self.operands[operand].0, index, value);
    }

    fn constant(&self, _: usize) -> Option<Variable> {
        None
    }
}
