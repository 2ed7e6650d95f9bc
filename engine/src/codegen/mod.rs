//! From fused kernels to CubeCL kernel definitions, and from those to CUDA C++.
//!
//! [`KernelSpec`] is a kernel that CubeCL can compile for any of its devices; [`cuda_source`] prints it as CUDA C++,
//! which needs no GPU. What the CUDA text expects of a launch:
//!
//! - one pointer per entry of [`KernelSource::arguments`], then the struct that [`KernelSource::info`] packs, by value;
//! - [`KernelSource::cube_count_for`] blocks of [`KernelSource::cube_dim`] threads and `shared_bytes` of dynamic
//!   shared memory; nothing to launch when that is 0 blocks;
//! - `bool` lies in memory as bytes 0 and 1;
//! - the error flag is [`assertion_words`] words `u32`, zero before, of which [`first_failure`] says what they tell. A guarded
//!   kernel writes nothing but them while the flag stands.
//!
//! Most kernels are one launch; a scatter writes its base first, and may sort its indices ([`KernelSpec::launches`]).
//! A contraction is one launch that adds up its own products, or, where a library has multiplied the matrices, one that
//! runs the epilogue on the product ([`KernelSpec::epilogue`]); sums beside it are launches of their own
//! ([`KernelSpec::side_sums`]). What a library can do of the epilogue says [`absorbed`].
//!
//! The number of points or rows and the seed are arguments; strides and inner extents are part of the text, so one
//! text serves every batch size. Entry names are the kinds of kernels, so that equal kernels have equal texts.
//!
//! CubeCL 0.10 pitfalls that shaped this module: its C++ printer numbers temporaries by a global counter (texts are
//! made under a lock), declares pooled mutable locals in the order of a hash map (none are pooled here), prints
//! `inf` and `NaN` literals that are not C++ (those are made from bits), has `max` and `min` that drop NaN, and knows
//! no `expm1` and no remainder of floats with C's sign. `&&` evaluates both sides, so guarded addresses are selected
//! before they are used.

mod analysis;
mod ir;
mod library;
#[cfg(test)]
mod on_host;
mod ops;
mod render;
mod schedule;
mod target;
#[cfg(test)]
mod tests;

pub use library::{Activation, LibraryEpilogue, LibraryMatrix, absorbed, library_matrices};
pub use ops::assertion::{ASSERTION_WORDS, FailedAssertion, assertion_words, first_failure};
pub use schedule::attention::most_keys;
pub use schedule::matmul_fold::{PANEL_BYTES, Panel, PanelFold};
pub use schedule::row::RowPlan;
pub use schedule::scatter::MOST_ROWS_CHECKED;
pub use schedule::split_k::SplitK;
pub use schedule::topk::{can_select, most_selected, select_rows};
pub use target::Target;

use crate::fusion::{Class, FusedBody, FusedOp, Kernel, KernelBody, Operand, Segment, Use};
use crate::ir::{DType, Literal};
use crate::op::gpu::{CustomLaunch, View};
use cubecl_core::codegen::{InfoBuilder, KernelSettings};
use cubecl_core::compute::KernelBuilder;
use cubecl_core::ir::{AddressType, Builtin, ElemType, StorageType, Type, Variable};
use cubecl_core::prelude::{CubeDim, CubeKernel, ExecutionMode, KernelDefinition, KernelId, KernelMetadata};
use cubecl_cpp::cuda::{CudaDialect, mma::CudaWmmaCompiler};
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::KernelTask;
use ir::builder::{Code, U32, U64};
use ir::intrinsics::with_calls;
use ops::body::Memory;
pub(crate) use ops::packed_types::Buffer;
use render::ordered::{with_declarations_in_order, with_shared_in_order, with_vectors_in_order};
use schedule::custom_kernel::{custom_body, custom_launches};
use schedule::unpack::Unpack;
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// Why a kernel has no text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodegenError {
    /// A product whose rows are folded as they come, by something else than a selection that fits.
    #[error("rows of a product are folded so on the processor only; take the ops apart with `fuse: Never`")]
    Fold,
    /// Attention that does not fit.
    #[error(
        "attention over so many keys, to values so wide, or in f64, is no one kernel here; take the ops apart with \
         `fuse: Never`"
    )]
    Attend,
    /// An opaque op that brings no GPU launch.
    #[error("`{op}` runs on the processor only: {why}")]
    Opaque {
        /// The op.
        op: String,
        /// What its form says.
        why: &'static str,
    },
    /// A primitive that the device lacks for a type.
    #[error("`{op}` of {dtype} has no cube form")]
    Scalar {
        /// The primitive.
        op: String,
        /// The type of its operands.
        dtype: String,
    },
    /// A type that the device lacks.
    #[error("the device has no {dtype}")]
    Type {
        /// The type.
        dtype: DType,
    },
    /// Positions that take 64 bits, on a device that has 32.
    #[error("it counts more than 2³² elements, and the device has no 64-bit integers")]
    Wide,
    /// CubeCL refused the kernel.
    #[error("cubecl: {0}")]
    Compiler(String),
}

impl CodegenError {
    /// Whether the device lacks what the kernel needs. If not, the kernel should never have been made.
    pub fn is_of_device(&self) -> bool {
        match self {
            CodegenError::Opaque { .. } | CodegenError::Type { .. } | CodegenError::Wide => true,
            CodegenError::Fold
            | CodegenError::Attend
            | CodegenError::Scalar { .. }
            | CodegenError::Compiler(_) => false,
        }
    }
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
    /// What its pointers point to, in order.
    pub arguments: Vec<Argument>,
    /// Whether the seed is an argument.
    pub random: bool,
    /// Points (of a map) or rows (of a row kernel) of this kernel.
    pub points: usize,
    kernel: KernelSpec,
}

/// What a pointer of a launch points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// An operand of the kernel.
    Operand(usize),
    /// The product of a contraction that a library has computed: dense, in the accumulator type.
    Product,
    /// Part of a workspace that all launches of the kernel share.
    Workspace {
        /// Where it starts, in bytes; a multiple of 16.
        start: usize,
        /// How long it is.
        bytes: usize,
    },
    /// The error flag, to raise.
    Flag,
    /// The error flag, to heed, and to seal where it stands.
    Guard,
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

/// Translates a kernel to CUDA C++: a text for each of its launches. Equal kernels give equal texts.
///
/// # Errors
/// If it computes something that CUDA C++ through CubeCL cannot.
pub fn cuda_sources(kernel: &Kernel) -> Result<Vec<KernelSource>, CodegenError> {
    KernelSpec::launches(kernel, Target::CUDA)?.iter().map(KernelSpec::cuda_source).collect()
}

type CudaCompiler = CppCompiler<CudaDialect<CudaWmmaCompiler>>;

/// CubeCL's C++ printer numbers its temporaries by a global counter.
static PRINTING: Mutex<()> = Mutex::new(());

/// A fused kernel as CubeCL takes it: a description, from which the definition is made where it is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    tile: FusedBody,
    form: Form,
    operands: Vec<OperandForm>,
    is_guarded: bool,
    target: Target,
}

/// What the threads share out between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Map,
    Row,
    Segmented(Vec<SegmentForm>),
    Matmul(schedule::matmul::ProductForm),
    MatmulBlocked {
        product: schedule::matmul::ProductForm,
        n_batches: usize,
        /// Points of a thread along each axis.
        each: [usize; 2],
    },
    Scatter(schedule::scatter::ScatterForm),
    /// Updates in the order of their rows.
    ScatterSorted(schedule::scatter_sorted::ScatterSortedForm),
    /// Part of putting keys in order.
    RadixSort(schedule::radix_sort::RadixForm),
    Scan(schedule::scan::ScanForm),
    /// The tile is that over the scores.
    Attention(Box<schedule::attention::AttentionForm>),
    /// The tile is the epilogue.
    MatmulFold(Box<schedule::matmul_fold::FoldForm>),
    /// What an op brings along.
    Custom(CustomLaunch),
    /// A copy of an operand for what an op brings along, or back.
    Unpack(Unpack),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SegmentForm {
    operands: Vec<usize>,
    points: usize,
    constants: Vec<Literal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OperandForm {
    argument: Argument,
    dtype: DType,
    is_written: bool,
    is_empty: bool,
    is_wide: bool,
    /// Whether a written operand may share its memory.
    may_share: bool,
    /// Whether threads add to the same elements.
    is_atomic: bool,
    /// Whether the bits of elements are seen, as unsigned integers.
    as_bits: bool,
}

impl OperandForm {
    /// Words of the workspace.
    fn words(start: usize, n_words: usize) -> OperandForm {
        OperandForm {
            argument: Argument::Workspace { start, bytes: 4 * n_words },
            dtype: DType::U32,
            is_written: true,
            is_empty: false,
            is_wide: n_words > LARGEST_NARROW,
            may_share: true,
            is_atomic: false,
            as_bits: false,
        }
    }

    /// The type that a kernel sees in memory.
    fn element(&self, target: Target) -> ElemType {
        if self.as_bits { View::bits(self.dtype).0 } else { target.memory(self.dtype) }
    }
}

impl KernelSpec {
    /// The launches that make up a kernel, in their order, where no library takes part.
    ///
    /// # Errors
    /// If it is an opaque op that brings none.
    pub fn launches(kernel: &Kernel, target: Target) -> Result<Vec<KernelSpec>, CodegenError> {
        let whole = |tile: &FusedBody, form: Form| {
            let operands = operand_forms(kernel);
            KernelSpec { tile: tile.clone(), form, operands, is_guarded: false, target }
        };
        Ok(match &kernel.body {
            KernelBody::Map(tile) => vec![whole(tile, Form::Map)],
            KernelBody::Row(tile) => vec![whole(tile, Form::Row)],
            KernelBody::Segmented { body: tile, segments } => schedule::segmented::launches(
                kernel,
                tile,
                segments.iter().map(segment_form).collect(),
                target,
            ),
            KernelBody::Attention(body) => vec![schedule::attention::launch(kernel, body, target)?],
            KernelBody::Matmul(body) => {
                if let Some(rows) = &body.rows {
                    let launches = schedule::matmul_fold::launches(kernel, body, rows, &target.limits())?;
                    return Ok(launches.into_iter().map(|fused| fused.on(target)).collect());
                }
                let mut launches = match schedule::split_k::splits(body, target).first() {
                    Some(&cut) => schedule::split_k::launches(kernel, body, cut),
                    None => vec![schedule::matmul::own_product(kernel, body, target)],
                };
                launches.extend(KernelSpec::side_sums(kernel));
                launches.into_iter().map(|fused| fused.on(target)).collect()
            }
            KernelBody::Scatter(body) => schedule::scatter::launches(kernel, body, target),
            KernelBody::Scan { monoid, domain } => {
                let tile = FusedBody { domain: *domain, insts: vec![] };
                vec![whole(&tile, Form::Scan(schedule::scan::ScanForm::of(kernel, *monoid)))]
            }
            KernelBody::Opaque(body) => {
                return custom_launches(kernel, &body.call, target);
            }
        })
    }

    /// The same for another language.
    pub fn on(self, target: Target) -> KernelSpec {
        KernelSpec { target, ..self }
    }

    /// The same, but it writes no tensor while the error flag stands.
    pub fn guarded(self) -> KernelSpec {
        // What sorts row numbers relies on what the launches before it wrote.
        let is_guarded = match &self.form {
            Form::ScatterSorted(form) => form.writes_tensors(),
            Form::RadixSort(_) => false,
            _ => true,
        };
        KernelSpec { is_guarded, ..self }
    }

    /// The kernel without its stores: it finds bad indices before anything is written. None if it checks none.
    pub fn checks_only(&self) -> Option<KernelSpec> {
        if let Form::ScatterSorted(_) = self.form {
            // Indices are looked at by the launch that makes keys of them, before anything is written.
            return self.sorted_checks().filter(|checks| checks.checks());
        }
        let mut checks = self.clone();
        // Stores are last, so registers keep their numbers.
        checks.tile.insts.retain(|inst| !matches!(inst.op, FusedOp::Store { .. }));
        match &mut checks.form {
            Form::Attention(form) => form.without_stores(),
            Form::Scatter(form) => *form = form.clone().only_checks(),
            _ => {}
        }
        self.checks().then_some(checks)
    }

    /// Whether it looks for bad indices itself before it writes anything, so that nobody has to do so before.
    pub fn looks_first(&self) -> bool {
        matches!(&self.form, Form::Scatter(form) if form.rows_checked > 0)
    }

    /// The CUDA C++ of the kernel, with what a launch has to know.
    ///
    /// # Errors
    /// If it computes something that CUDA C++ through CubeCL cannot.
    pub fn cuda_source(&self) -> Result<KernelSource, CodegenError> {
        // `define` cannot fail, so failures are found before.
        self.try_define()?;
        let mut options = CompilationOptions::default();
        options.supports_features.grid_constants = true;
        let task = KernelTask::<CudaCompiler, _>::new(self.clone());
        let compiled = {
            let _turn = PRINTING.lock().unwrap_or_else(PoisonError::into_inner);
            let address = self.address().unsigned_type();
            task.compile(&mut CudaCompiler::default(), &options, ExecutionMode::Unchecked, address)
        };
        let compiled = compiled.map_err(|error| CodegenError::Compiler(error.to_string()))?;
        let text = with_declarations_in_order(&with_vectors_in_order(&compiled.source));
        let (text, shared_bytes) = with_shared_in_order(&with_calls(&text));
        let said = || compiled.repr.as_ref().map_or(0, |repr| repr.shared_memory_size());
        Ok(KernelSource {
            shared_bytes: shared_bytes.unwrap_or_else(said),
            text,
            entry: compiled.entrypoint_name,
            cube_dim: [compiled.cube_dim.x, compiled.cube_dim.y, compiled.cube_dim.z],
            arguments: self.arguments(),
            random: self.is_random(),
            points: self.n_points(),
            kernel: self.clone(),
        })
    }

    /// Blocks to launch for so many points or rows.
    pub fn cube_count_for(&self, points: usize) -> usize {
        match &self.form {
            Form::Map => points.div_ceil(schedule::map::THREADS * schedule::map::width(&self.tile)),
            Form::Matmul(_) | Form::Unpack(_) => points.div_ceil(schedule::map::THREADS),
            Form::Scatter(form) => points.div_ceil(schedule::map::THREADS * form.width),
            Form::ScatterSorted(form) => points.div_ceil(schedule::map::THREADS * form.width),
            Form::MatmulBlocked { product, each, .. } => {
                schedule::matmul_blocked::cubes(product, *each, points)
            }
            Form::Scan(_) => schedule::scan::cubes(&self.tile.domain, points),
            Form::Row => schedule::row::cubes(&self.tile, self.target, points),
            Form::Attention(_) | Form::MatmulFold(_) | Form::Custom(_) | Form::RadixSort(_) => points,
            Form::Segmented(segments) => {
                schedule::segmented::cubes(segments, schedule::segmented::width(&self.tile, segments))
                    .last()
                    .copied()
                    .unwrap_or(0)
            }
        }
    }

    /// Bytes of workspace that the launch reaches.
    pub fn workspace_bytes(&self) -> usize {
        let ends = self.operands.iter().filter_map(|operand| match operand.argument {
            Argument::Workspace { start, bytes } => Some(start + bytes),
            _ => None,
        });
        ends.max().unwrap_or(0)
    }

    /// What a launch passes by value.
    pub fn info(&self, points: usize, seed: u32) -> Vec<u64> {
        match &self.form {
            Form::Segmented(_) => self.info_of(&[], seed),
            Form::MatmulFold(form) => self.info_of(form.scalars(), seed),
            Form::Custom(own) => self.info_of(&own.launch.scalars, seed),
            Form::RadixSort(form) => self.info_of(&form.scalars, seed),
            _ => self.info_of(&[points], seed),
        }
    }

    fn info_of(&self, scalars: &[usize], seed: u32) -> Vec<u64> {
        let mut info = InfoBuilder::default();
        for &scalar in scalars {
            match self.address() {
                AddressType::U32 => info.scalars.push(scalar as u32),
                AddressType::U64 => info.scalars.push(scalar as u64),
            }
        }
        if self.is_random() {
            info.scalars.push(seed);
        }
        for _ in self.arguments() {
            info.metadata.register_array(0, 0, self.address());
        }
        info.finish(self.address()).data
    }

    /// Points of a map, or rows of a row kernel.
    pub fn n_points(&self) -> usize {
        let domain = &self.tile.domain;
        match &self.form {
            Form::Scatter(form) => form.n_points,
            Form::ScatterSorted(form) => form.n_points,
            Form::RadixSort(form) => form.cubes,
            Form::MatmulFold(form) => form.n_blocks(),
            Form::Custom(own) => own.launch.cubes,
            Form::Unpack(form) => form.n_words(),
            Form::Row | Form::Scan(_) | Form::Attention(_) => domain.points(Class::Row),
            _ => domain.points(Class::Element),
        }
    }

    fn checks(&self) -> bool {
        self.any_inst(|op| matches!(op, FusedOp::Check { .. }))
    }

    /// Whether the seed is an argument.
    pub fn is_random(&self) -> bool {
        self.any_inst(|op| matches!(op, FusedOp::Random { .. }))
    }

    fn any_inst(&self, is_wanted: impl Fn(&FusedOp) -> bool) -> bool {
        self.tiles().any(|tile| tile.insts.iter().any(|inst| is_wanted(&inst.op)))
    }

    fn tiles(&self) -> impl Iterator<Item = &FusedBody> {
        let more = match &self.form {
            Form::Attention(form) => form.tiles().to_vec(),
            _ => vec![],
        };
        [&self.tile].into_iter().chain(more)
    }

    /// The type of its element numbers.
    pub fn address(&self) -> AddressType {
        let of_tiles =
            self.tiles().map(|FusedBody { domain, .. }| domain.outer * domain.row * domain.inner).max();
        let n_points = of_tiles.max(Some(self.n_points()));
        // Threads past the end must not wrap around to the first points.
        let is_wide = n_points.is_some_and(|n| n > LARGEST_NARROW)
            || self.operands.iter().any(|operand| operand.is_wide);
        if is_wide { AddressType::U64 } else { AddressType::U32 }
    }

    fn n_threads(&self) -> usize {
        match self.form {
            Form::Scan(_) => schedule::scan::THREADS,
            Form::Attention(_) => schedule::attention::threads(self.target),
            Form::MatmulFold(ref form) => form.threads(),
            Form::Custom(ref own) => own.launch.threads,
            Form::RadixSort(ref form) => form.threads(),
            Form::Map
            | Form::Segmented(_)
            | Form::Matmul(_)
            | Form::Scatter(_)
            | Form::ScatterSorted(_)
            | Form::Unpack(_) => schedule::map::THREADS,
            Form::MatmulBlocked { .. } => schedule::matmul_blocked::THREADS,
            Form::Row => RowPlan::of(&self.tile, self.target).cube_threads(),
        }
    }

    fn entry(&self) -> &'static str {
        match self.form {
            Form::Map => "map",
            Form::Row => "row",
            Form::Segmented(_) => "segmented_map",
            Form::Matmul(_) | Form::MatmulBlocked { .. } => "contract",
            Form::Scatter(_) => "scatter",
            Form::ScatterSorted(ref form) => form.entry(),
            Form::RadixSort(ref form) => form.entry(),
            Form::Scan(_) => "scan",
            Form::Attention(_) => "attend",
            Form::MatmulFold(_) => "fold",
            Form::Custom(ref own) => own.launch.name,
            Form::Unpack(_) => "repack",
        }
    }

    /// What the pointers of a launch point to.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = self.operands.iter().map(|operand| operand.argument).collect();
        arguments.extend(self.checks().then_some(Argument::Flag));
        arguments.extend(self.is_guarded.then_some(Argument::Guard));
        arguments
    }

    /// What it is compiled for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// What CubeCL compiles.
    ///
    /// # Errors
    /// If it computes something that its target cannot.
    pub fn try_define(&self) -> Result<KernelDefinition, CodegenError> {
        self.check_types()?;
        let mut builder = KernelBuilder::new();
        self.address().register(&mut builder.scope);
        let index = if self.address() == AddressType::U64 { U64 } else { U32 };
        let buffers = self.buffers(&mut builder);
        let n_scalars = match &self.form {
            Form::Segmented(_) => 0,
            Form::MatmulFold(form) => form.n_scalars(),
            Form::Custom(own) => own.launch.scalars.len(),
            Form::RadixSort(form) => form.scalars.len(),
            _ => 1,
        };
        let scalars: Vec<Variable> = (0..n_scalars).map(|_| builder.scalar(index.into()).consume()).collect();
        let points = scalars.first().copied();
        let seed = self.is_random().then(|| builder.scalar(U32.into()).consume());
        let mut code = Code::new(&mut builder.scope, index, self.target);
        // Where memory bounds a kernel, exact functions cost nothing.
        code.target.has_fast_math &=
            self.form == Form::Row && ops::fast_math::is_bound_by_arithmetic(&self.tile, self.target);
        let heeded = buffers.guard.filter(|_| !self.looks_first());
        let is_clear = heeded.map(|flag| ops::assertion::is_clear(&mut code, flag));
        let buffers = Buffers { seed, is_clear, ..buffers };
        match (&self.form, points) {
            (Form::Map, Some(points)) => schedule::map::map(&mut code, &self.tile, &buffers, points)?,
            (Form::Row, Some(rows)) => {
                let tile = ops::body::BodyCode { tile: &self.tile, buffers: &buffers, shared: &buffers };
                schedule::row::row(&mut code, tile, rows)?;
            }
            (Form::Matmul(product), Some(points)) => {
                schedule::matmul::contract(&mut code, &self.tile, &buffers, product, points)?;
            }
            (Form::MatmulBlocked { product, each, .. }, Some(points)) => {
                schedule::matmul_blocked::product(&mut code, product, &self.tile, &buffers, (*each, points))?;
            }
            (Form::Segmented(segments), _) => {
                schedule::segmented::map(&mut code, &self.tile, &buffers, segments)?
            }
            (Form::Scatter(form), Some(points)) => {
                schedule::scatter::scatter(&mut code, form, &self.tile, &buffers, points)?;
            }
            (Form::ScatterSorted(form), Some(points)) => {
                form.emit(&mut code, &self.tile, &buffers, points)?
            }
            (Form::RadixSort(form), _) => self.in_grid(&mut code, |code| {
                let arrays: Vec<Variable> = buffers.operands.iter().map(|operand| operand.array).collect();
                form.emit(code, &arrays, &scalars);
                Ok(())
            })?,
            (Form::Attention(form), Some(rows)) => {
                schedule::attention::attend(&mut code, form, &self.tile, &buffers, rows)?
            }
            (Form::Scan(form), Some(rows)) => {
                schedule::scan::scan(&mut code, form, &self.tile.domain, &buffers, rows);
            }
            (Form::MatmulFold(form), _) => {
                self.in_grid(&mut code, |code| {
                    schedule::matmul_fold::fold(code, form, &self.tile, &buffers, &scalars)
                })?;
            }
            (Form::Custom(own), _) => self.in_grid(&mut code, |code| {
                custom_body(code, own, &buffers, scalars);
                Ok(())
            })?,
            (Form::Unpack(form), Some(words)) => schedule::unpack::repack(&mut code, form, &buffers, words),
            (_, None) => crate::bug!("a kernel without its number of points"),
        }
        let dim = CubeDim::new_1d(self.n_threads() as u32);
        let settings = KernelSettings::default().cube_dim(dim).address_type(self.address());
        Ok(builder.build(settings.kernel_name(self.entry())))
    }

    /// Emits `body` for the cubes that were asked for, if there may be more.
    fn in_grid(
        &self,
        code: &mut Code,
        body: impl FnOnce(&mut Code) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        if self.target.has_exact_grid {
            return body(code);
        }
        let cube = code.builtin(Builtin::CubePos);
        let n_cubes = code.at(self.n_points() as i64);
        let is_one = code.less(cube, n_cubes);
        let mut result = Ok(());
        code.when(is_one, |code| result = body(code));
        result
    }

    fn check_types(&self) -> Result<(), CodegenError> {
        let of_tiles = self.tiles().flat_map(|tile| tile.insts.iter().map(|inst| inst.dtype));
        let mut dtypes = of_tiles.chain(self.operands.iter().map(|operand| operand.dtype));
        match dtypes.find(|&dtype| !self.target.has(dtype)) {
            Some(dtype) => Err(CodegenError::Type { dtype }),
            None if self.address() == AddressType::U64 && !self.target.has_i64 => Err(CodegenError::Wide),
            None => Ok(()),
        }
    }

    /// Words of the vectors that an operand is declared as an array of; 1 if it is not, or if the language takes vectors
    /// out of any array.
    fn vector_words(&self, i: usize, form: &OperandForm) -> usize {
        let of_tile =
            |width: usize| if ops::vector_group::is_all_vectors(&self.tile, i, width) { width } else { 1 };
        let width = match self.form {
            Form::Map => of_tile(schedule::map::width(&self.tile)),
            Form::Row => of_tile(RowPlan::of(&self.tile, self.target).width),
            Form::ScatterSorted(ref by_row) if matches!(form.argument, Argument::Operand(_)) => {
                of_tile(by_row.width)
            }
            Form::Attention(ref attend) => attend.vector_width(&self.tile, i),
            _ => 1,
        };
        let words = width / self.target.lanes(form.dtype);
        let is_told = !self.target.has_narrow && !form.is_empty && words <= 4;
        if is_told { words.max(1) } else { 1 }
    }

    fn buffers(&self, builder: &mut KernelBuilder) -> Buffers {
        let mut operands = vec![];
        for (i, form) in self.operands.iter().enumerate() {
            let elem = form.element(self.target);
            let lanes = if form.as_bits { 1 } else { self.target.lanes(form.dtype) };
            let width = self.vector_words(i, form);
            // Threads that write single elements share words.
            let is_atomic = form.is_atomic || (lanes > 1 && form.is_written && width == 1);
            let storage = if is_atomic { StorageType::Atomic(elem) } else { StorageType::Scalar(elem) };
            let ty = Type::new(storage).with_vector_size(width);
            // CUDA inputs become `const __restrict__`, which would be a lie for shared memory.
            let is_plain = form.is_written || form.may_share;
            let buffer = if is_plain { builder.output_array(ty) } else { builder.input_array(ty) };
            operands.push(Buffer {
                array: buffer.consume(),
                is_empty: form.is_empty,
                lanes,
                is_atomic,
                width,
            });
        }
        let word = Type::new(StorageType::Atomic(ElemType::UInt(cubecl_core::ir::UIntKind::U32)));
        let flag = self.checks().then(|| builder.output_array(word).consume());
        let guard = self.is_guarded.then(|| builder.output_array(Type::scalar(U32)).consume());
        Buffers { operands, flag, guard, is_clear: None, seed: None }
    }
}

const LARGEST_NARROW: usize = u32::MAX as usize - schedule::map::THREADS;

fn operand_forms(kernel: &Kernel) -> Vec<OperandForm> {
    let operands = kernel.operands.iter().enumerate();
    operands.map(|(i, operand)| operand_form(i, operand, &kernel.operands)).collect()
}

fn operand_form(i: usize, operand: &Operand, all: &[Operand]) -> OperandForm {
    let n = operand.ty.numel();
    let is_written = operand.usage == Use::Write;
    let may_share =
        all.iter().any(|other| other.usage == Use::Write && other.ty.bytes() == operand.ty.bytes());
    OperandForm {
        argument: Argument::Operand(i),
        dtype: operand.ty.dtype,
        is_written,
        is_empty: n == 0,
        is_wide: n > LARGEST_NARROW,
        may_share,
        is_atomic: false,
        as_bits: false,
    }
}

fn segment_form(segment: &Segment) -> SegmentForm {
    let Segment { operands, points, constants } = segment.clone();
    SegmentForm { operands, points, constants }
}

impl KernelMetadata for KernelSpec {
    fn name(&self) -> &'static str {
        self.entry()
    }

    fn id(&self) -> KernelId {
        KernelId::new::<KernelSpec>().info(self.clone()).cube_dim(CubeDim::new_1d(self.n_threads() as u32))
    }

    fn address_type(&self) -> StorageType {
        self.address().unsigned_type()
    }
}

impl CubeKernel for KernelSpec {
    /// # Panics
    /// If [`cuda_source`] would fail.
    fn define(&self) -> KernelDefinition {
        self.try_define().unwrap_or_else(|error| crate::bug!("{error}"))
    }
}

/// The arguments of a kernel.
#[derive(Clone)]
struct Buffers {
    operands: Vec<Buffer>,
    flag: Option<Variable>,
    guard: Option<Variable>,
    /// Whether the error flag does not stand; none if nobody asks.
    is_clear: Option<Variable>,
    seed: Option<Variable>,
}

impl Buffers {
    /// Emits `write`, which is skipped while the error flag stands if the kernel is guarded.
    fn unless_raised(&self, code: &mut Code, write: impl FnOnce(&mut Code)) {
        match self.is_clear {
            Some(is_clear) => code.when(is_clear, write),
            None => write(code),
        }
    }

    /// Where an element lies that threads add to at once.
    fn place(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        code.place(self.operands[operand].array, index)
    }

    fn store_unless_raised(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        self.unless_raised(code, |code| self.store(code, operand, index, value));
    }
}

impl Memory for Buffers {
    fn is_empty(&self, operand: usize) -> bool {
        self.operands[operand].is_empty
    }

    fn load(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        self.operands[operand].load(code, index)
    }

    fn store(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        self.operands[operand].store(code, index, value);
    }

    fn load_vector(&self, code: &mut Code, operand: usize, first: Variable, width: usize) -> Vec<Variable> {
        self.operands[operand].load_vector(code, first, width)
    }

    fn store_vector(&self, code: &mut Code, operand: usize, first: Variable, values: &[Variable]) {
        self.operands[operand].store_vector(code, first, values);
    }

    fn constant(&self, _: usize) -> Option<Variable> {
        None
    }
}
