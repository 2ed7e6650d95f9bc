//! CUDA C++ of a kernel, which needs no GPU.
//!
//! The calling convention of the text:
//!
//! - one pointer per entry of [`KernelSource::arguments`], then the struct that [`KernelSource::info`] packs, by
//!   value;
//! - [`KernelSource::blocks_for`] blocks of [`KernelSource::block_dim`] threads and `shared_bytes` of dynamic
//!   shared memory; a launch of 0 blocks is left out;
//! - `bool` in memory as bytes 0 and 1;
//! - an error flag of [`crate::codegen::assertion_words`] words `u32`, zero before the run;
//! - each thread calls [`AWAIT`] first. On GPUs from sm_90 on, blocks may start while the kernel before still runs.
//!
//! Pitfalls of CubeCL 0.10 that shaped this module:
//!
//! - Its C++ printer numbers temporaries by a global counter, so texts are made under a lock.
//! - It declares pooled mutable locals in the order of a hash map, so none are pooled.
//! - It prints `inf` and `NaN` literals, which are not C++, so these are made from bits.
//! - Its `max` and `min` drop NaN.
//! - It has no `expm1`, and no remainder of floats with C's sign.
//! - Its `&&` evaluates both sides, so a guarded address is selected before it is used.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::intrinsics::with_calls;
use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::Argument;
use crate::codegen::render::ordered::{
    with_declarations_in_order, with_shared_in_order, with_vectors_in_order,
};
use crate::codegen::tensor_map::TensorMap;
use crate::device_model::DeviceModel;
use crate::fusion::Kernel;
use cubecl_core::prelude::{ExecutionMode, KernelMetadata};
use cubecl_cpp::cuda::{CudaDialect, mma::CudaWmmaCompiler};
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::KernelTask;
use std::sync::{Mutex, PoisonError};

/// The CUDA C++ of each launch of a kernel. Equal kernels have equal texts.
///
/// # Errors
/// If CUDA C++ through CubeCL lacks something that the kernel computes.
pub fn cuda_sources(kernel: &Kernel) -> Result<Vec<KernelSource>, CodegenError> {
    KernelSpec::launches(kernel, DeviceModel::H200)?.iter().map(KernelSpec::cuda_source).collect()
}

type CudaCompiler = CppCompiler<CudaDialect<CudaWmmaCompiler>>;

/// CubeCL's C++ printer numbers its temporaries by a global counter.
static PRINTING: Mutex<()> = Mutex::new(());

/// The CUDA C++ of a kernel, with the facts that a launch needs. The module describes the calling convention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// The translation unit.
    pub text: String,
    /// Name of its `extern "C"` function.
    pub entry: String,
    /// Threads per block, by axis.
    pub block_dim: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: usize,
    /// The tensor maps that a launch passes by value, before its pointers.
    pub maps: Vec<TensorMap>,
    /// The targets of its pointers, in order.
    pub arguments: Vec<Argument>,
    /// Whether the seed is an argument.
    pub random: bool,
    /// Points of a map, or rows of a row kernel.
    pub points: usize,
    kernel: KernelSpec,
}

impl KernelSource {
    /// Blocks to launch for `points` points of a map or rows of a row kernel.
    pub fn blocks_for(&self, points: usize) -> usize {
        self.kernel.blocks_for(points)
    }

    /// The last argument, passed by value: the number of points or rows, the seed, and lengths that the text does
    /// not read.
    pub fn info(&self, points: usize, seed: u32) -> Vec<u64> {
        self.kernel.info(points, seed)
    }
}

impl KernelSpec {
    /// The CUDA C++ of the kernel, with the facts that a launch needs.
    ///
    /// # Errors
    /// If CUDA C++ through CubeCL lacks something that the kernel computes.
    pub fn cuda_source(&self) -> Result<KernelSource, CodegenError> {
        // `define` cannot fail, so errors are found here.
        self.try_define()?;
        let mut options = CompilationOptions::default();
        options.supports_features.grid_constants = true;
        let task = KernelTask::<CudaCompiler, _>::new(self.clone());
        let compiled = {
            let _turn = PRINTING.lock().unwrap_or_else(PoisonError::into_inner);
            let address = self.address_type();
            task.compile(&mut CudaCompiler::default(), &options, ExecutionMode::Unchecked, address)
        };
        let compiled = compiled.map_err(|error| CodegenError::Compiler(error.to_string()))?;
        let text = with_declarations_in_order(&with_vectors_in_order(&compiled.source));
        let frame = self.schedule.frame();
        let products = frame.as_ref().map(|frame| (frame.cores, &frame.products[..]));
        let (text, shared_bytes) = with_shared_in_order(&with_calls(&text, products));
        let text = frame.as_ref().map_or(text.clone(), |frame| with_maps(&text, frame.passed_maps().len()));
        let text = with_await(&text);
        let shared_bytes = frame.as_ref().map(|frame| frame.shared_bytes).or(shared_bytes);
        let reported = || compiled.repr.as_ref().map_or(0, |repr| repr.shared_memory_size());
        Ok(KernelSource {
            shared_bytes: shared_bytes.unwrap_or_else(reported),
            text,
            maps: frame.map_or(vec![], |frame| frame.passed_maps().to_vec()),
            entry: compiled.entrypoint_name,
            block_dim: [compiled.cube_dim.x, compiled.cube_dim.y, compiled.cube_dim.z],
            arguments: self.arguments(),
            random: self.is_random(),
            points: self.n_points(),
            kernel: self.clone(),
        })
    }
}

/// The text with tensor maps before the pointers, and with all registers of an SM for one block.
fn with_maps(text: &str, n_maps: usize) -> String {
    const BOUNDS: &str = "__launch_bounds__(";
    let Some((before, after)) = text.split_once(BOUNDS) else {
        crate::bug!("a kernel without launch bounds")
    };
    let Some((bounds, after)) = after.split_once(')') else { crate::bug!("launch bounds without an end") };
    let Some((name, after)) = after.split_once('(') else { crate::bug!("a kernel without arguments") };
    let maps: String = (0..n_maps).map(|i| format!("const __grid_constant__ TensorMap map_{i}, ")).collect();
    format!("{before}{BOUNDS}{bounds}, 1){name}({maps}{after}")
}

/// The function that waits for the kernel before, then lets the blocks of the next one start.
pub const AWAIT: &str = "await_kernel_before";

/// The text with a call of [`AWAIT`] at the beginning of the kernel.
fn with_await(text: &str) -> String {
    const ENTRY: &str = "extern \"C\" __global__";
    let Some((before, kernel)) = text.split_once(ENTRY) else { crate::bug!("a text without a kernel") };
    let Some((head, body)) = kernel.split_once(") {\n") else { crate::bug!("a kernel without a body") };
    format!(
        "\
{before}__device__ __forceinline__ void {AWAIT}() {{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");
asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");
#endif
}}

{ENTRY}{head}) {{
{AWAIT}();
{body}"
    )
}
