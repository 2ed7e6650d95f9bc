//! Matrix products by cuBLASLt.

use super::algorithm::{Algorithm, AlgorithmTrial, Tensors, fastest};
use super::context::{Context, no_room_for};
use crate::autotune::Choice;
use crate::device::DeviceError;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayoutAttribute_t,
    cublasLtReductionScheme_t, cudaDataType,
};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::MatrixOperand;
use engine_core::ir::DType;
use engine_core::plan::{ALIGNMENT, Precision};
use engine_core::program::{Activation, Epilogue, LibraryMatrix, MatmulCall};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

/// The library, open.
pub struct Library {
    handle: sys::cublasLtHandle_t,
}

// SAFETY: the library lets any thread use its handle.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The context of the GPU must be entered. `is_there`: whether it is open.
    pub fn new(is_there: bool) -> Result<Library, DeviceError> {
        if !is_there {
            return Err(DeviceError::Failed(
                "NVIDIA's library of matrix products is missing: libcublasLt.so is not on the library path; install the \
                 CUDA toolkit, or add its folder to LD_LIBRARY_PATH"
                    .to_string(),
            ));
        }
        let handle = result::create_handle().map_err(|error| failed("starting cuBLASLt", error))?;
        Ok(Library { handle })
    }

    /// `13.0.2`
    pub fn version_text(&self) -> String {
        // SAFETY: the library is open.
        let version = unsafe { sys::cublasLtGetVersion() };
        // Five or six digits, as in 120805 and 130002.
        format!("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once. Nothing can be done about a failure.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

fn failed(what: &str, error: CublasError) -> DeviceError {
    match error.0 {
        sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => no_room_for(what),
        _ => DeviceError::Failed(format!("{what}: cuBLASLt says {error}")),
    }
}

/// A product with its algorithm chosen.
pub struct Product {
    context: Arc<Context>,
    matmul: Matmul,
    layouts: [Layout; 3],
    algorithm: cublasLtMatmulAlgo_t,
    /// The factors as the library takes them.
    factors: [LibraryMatrix; 2],
    element_bytes: i64,
    is_double: bool,
    has_bias: bool,
}

// SAFETY: handles of one owner, which the library lets any thread use.
unsafe impl Send for Product {}

/// Where the tensors of a product lie.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Start of each factor's operand, before its offset.
    pub factors: [CUdeviceptr; 2],
    /// Start of the result.
    pub result: CUdeviceptr,
    /// Start of the bias, if there is one.
    pub bias: Option<CUdeviceptr>,
}

impl Product {
    /// The product of a call; none if the library cannot compute it, or not as it should be.
    pub fn new(context: &Arc<Context>, call: &MatmulCall) -> Result<Option<Product>, DeviceError> {
        context.enter()?;
        let Some(factors) = call.matrices() else { return Ok(None) };
        let library_error = |error| failed("describing a matrix product", error);
        let matmul = Matmul::new(call, &factors).map_err(library_error)?;
        let MatmulCall { batch, m, n, k, result, .. } = *call;
        let layouts = [
            Layout::of_factor(call, &factors[0], [n, k]).map_err(library_error)?,
            Layout::of_factor(call, &factors[1], [k, m]).map_err(library_error)?,
            Layout::new(result, [n, m], n as i64, batch, (m * n) as i64).map_err(library_error)?,
        ];
        let product = Product {
            context: Arc::clone(context),
            has_bias: call.epilogue.has_bias,
            is_double: call.dtype == DType::F64,
            matmul,
            layouts,
            algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
            factors,
            element_bytes: call.dtype.size() as i64,
        };
        Ok(product.chosen(call)?.map(|algorithm| Product { algorithm, ..product }))
    }

    /// The algorithm that is recorded for a call, or the fastest; none if the library has none.
    fn chosen(&self, call: &MatmulCall) -> Result<Option<cublasLtMatmulAlgo_t>, DeviceError> {
        // Some of the library's algorithms turn NaN into 0 there.
        let clamps = call.epilogue.activation == Activation::Relu;
        let is_possible = |Algorithm(known): &Algorithm| known.is_none_or(|known| self.is_possible(&known));
        // The library's advice on the first product takes as long as all else, so it is asked for where nothing is known.
        let advised = || self.advised(call.result);
        let (tuner, disk) = (&self.context.tuner, &self.context.kernels.disk);
        let chosen = tuner.recall(disk, &call.key(), is_possible, || {
            let mut algorithms = advised()?;
            if algorithms.len() < 2 && !clamps {
                return Ok(Algorithm(algorithms.first().copied()));
            }
            let trial = AlgorithmTrial::new(&self.context, &tensors(call))?;
            if clamps {
                algorithms = trial.nan_preserving(self, algorithms)?;
            }
            if let [] | [_] = algorithms[..] {
                return Ok(Algorithm(algorithms.first().copied()));
            }
            trial.fill()?;
            let seconds = |algorithm| trial.seconds(self, &algorithm);
            Ok(Algorithm(Some(fastest(&self.context, &algorithms, seconds)?)))
        });
        let Algorithm(chosen) = match chosen {
            // There is no room to try any.
            Err(DeviceError::OutOfMemory { .. }) if clamps => Algorithm(None),
            Err(DeviceError::OutOfMemory { .. }) => Algorithm(advised()?.first().copied()),
            chosen => chosen?,
        };
        Ok(chosen)
    }

    /// The text of its algorithm.
    pub fn algorithm_text(&self) -> String {
        Algorithm(Some(self.algorithm)).to_text()
    }

    /// Starts the product on a stream.
    pub fn launch(
        &self,
        places: Places,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        self.launch_by(&self.algorithm, places, workspace, stream)
    }

    /// Starts the product, computed by this algorithm.
    pub fn launch_by(
        &self,
        algorithm: &cublasLtMatmulAlgo_t,
        places: Places,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        let (one, zero) = (1f64, 0f64);
        let (one_single, zero_single) = (1f32, 0f32);
        let [alpha, beta]: [*const c_void; 2] = match self.is_double {
            true => [(&raw const one).cast(), (&raw const zero).cast()],
            false => [(&raw const one_single).cast(), (&raw const zero_single).cast()],
        };
        let factor = |i: usize| {
            let bytes = self.factors[i].offset * self.element_bytes;
            places.factors[i].wrapping_add_signed(bytes) as *const c_void
        };
        let [first, second, result] = &self.layouts;
        let target = places.result as *mut c_void;
        // SAFETY: the tensors lie where the plan says, with the sizes and strides of the layouts; the scalars are read
        // during the call.
        let done = unsafe {
            let biased = match places.bias.filter(|_| self.has_bias) {
                Some(bias) => self.matmul.set(BIAS_POINTER, &bias),
                None => Ok(()),
            };
            biased.and_then(|()| {
                result::matmul(
                    self.context.library.handle,
                    self.matmul.0,
                    alpha,
                    beta,
                    factor(0),
                    first.0,
                    factor(1),
                    second.0,
                    target,
                    result.0,
                    target,
                    result.0,
                    &raw const *algorithm,
                    workspace.start as *mut c_void,
                    (workspace.end - workspace.start) as usize,
                    stream.cast(),
                )
            })
        };
        done.map_err(|error| failed("starting a matrix product", error))
    }
}

/// The tensors of a call.
fn tensors(call: &MatmulCall) -> Tensors {
    let &MatmulCall { batch, m, n, k, dtype, result, .. } = call;
    Tensors {
        elements: [dtype, result],
        factor_bytes: [
            matrix_bytes(&call.rhs, [batch, k, n], dtype),
            matrix_bytes(&call.lhs, [batch, m, k], dtype),
        ],
        result_bytes: call.result_bytes(),
        bias_bytes: n * result.size(),
        workspace_bytes: LIBRARY.workspace_bytes,
    }
}

/// Limits of the library on all devices.
const LIBRARY: engine_core::device_model::Library = match DeviceModel::H200.library {
    Some(library) => library,
    None => panic!("CUDA without a library"),
};

const BIAS_POINTER: cublasLtMatmulDescAttributes_t =
    cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;

/// The largest power of two up to 256 that all matrices of a factor start at.
fn alignment(factor: &LibraryMatrix, element_bytes: i64) -> u32 {
    let bits = (factor.offset | factor.batch) * element_bytes;
    if bits == 0 { 256 } else { 1 << bits.trailing_zeros().min(8) }
}

/// Bytes of a matrix's operand that are read, from its start; `extents` are batch, rows and columns.
fn matrix_bytes(matrix: &MatrixOperand, extents: [usize; 3], dtype: DType) -> usize {
    let strides = [matrix.batch, matrix.row, matrix.col];
    let last: i64 = extents.iter().zip(strides).map(|(&extent, stride)| (extent as i64 - 1) * stride).sum();
    (matrix.offset + last + 1) as usize * dtype.size()
}

/// Algorithms that are asked for.
const MOST_ALGORITHMS: usize = 16;

impl Product {
    /// What the library can compute it with; what it takes to be the fastest comes first.
    fn advised(&self, dtype: DType) -> Result<Vec<cublasLtMatmulAlgo_t>, DeviceError> {
        let Product { matmul, layouts: [first, second, result], .. } = self;
        let library = &self.context.library;
        let [first_alignment, second_alignment] =
            self.factors.map(|factor| alignment(&factor, self.element_bytes));
        use cublasLtMatmulPreferenceAttributes_t as Attribute;
        use cublasLtReductionScheme_t as Reduction;
        // Parts of a sum that are kept in the type of the result lose digits in half precision, and overflow where the sum does not.
        let reductions = match dtype == dtype.accumulator() {
            true => Reduction::CUBLASLT_REDUCTION_SCHEME_MASK,
            false => Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
        };
        let library_error = |error| failed("choosing a matrix product", error);
        let preference = Preference::new().map_err(library_error)?;
        let mut found = [const { MaybeUninit::<cublasLtMatmulHeuristicResult_t>::zeroed() }; MOST_ALGORITHMS];
        let mut n_found = 0;
        // SAFETY: all descriptions live, the attributes have these types, and there is room for so many results.
        let status = unsafe {
            preference
                .set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &LIBRARY.workspace_bytes)
                .and_then(|()| {
                    preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first_alignment)
                })
                .and_then(|()| {
                    preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second_alignment)
                })
                .and_then(|()| {
                    preference
                        .set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &(reductions as u32))
                })
                .map_err(library_error)?;
            sys::cublasLtMatmulAlgoGetHeuristic(
                library.handle,
                matmul.0,
                first.0,
                second.0,
                result.0,
                result.0,
                preference.0,
                MOST_ALGORITHMS as c_int,
                found.as_mut_ptr().cast(),
                &raw mut n_found,
            )
        };
        match status.result() {
            Ok(()) => {}
            Err(CublasError(
                sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED
                | sys::cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE,
            )) => return Ok(vec![]),
            Err(error) => return Err(library_error(error)),
        }
        // SAFETY: the library has written so many of them.
        let found = found[..n_found as usize].iter().map(|result| unsafe { result.assume_init_ref() });
        let usable = found.filter(|result| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Ok(usable.map(|result| result.algo).collect())
    }

    /// Whether the library still knows an algorithm, and has the scratch for it.
    fn is_possible(&self, algorithm: &cublasLtMatmulAlgo_t) -> bool {
        let Product { matmul, layouts: [first, second, result], .. } = self;
        let library = &self.context.library;
        let mut found = MaybeUninit::<cublasLtMatmulHeuristicResult_t>::zeroed();
        // SAFETY: all descriptions live, and there is room for what is found, of which zeros are a value.
        let (status, found) = unsafe {
            let status = sys::cublasLtMatmulAlgoCheck(
                library.handle,
                matmul.0,
                first.0,
                second.0,
                result.0,
                result.0,
                &raw const *algorithm,
                found.as_mut_ptr(),
            );
            (status, found.assume_init())
        };
        status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS && found.workspaceSize <= LIBRARY.workspace_bytes
    }
}

fn data_type(dtype: DType) -> cudaDataType {
    match dtype {
        DType::F16 => cudaDataType::CUDA_R_16F,
        DType::BF16 => cudaDataType::CUDA_R_16BF,
        DType::F32 => cudaDataType::CUDA_R_32F,
        DType::F64 => cudaDataType::CUDA_R_64F,
        other => engine_core::bug!("a library product of {other}"),
    }
}

/// What is computed.
struct Matmul(sys::cublasLtMatmulDesc_t);

impl Matmul {
    fn new(call: &MatmulCall, factors: &[LibraryMatrix; 2]) -> Result<Matmul, CublasError> {
        let &MatmulCall { dtype, precision, epilogue, .. } = call;
        use cublasLtMatmulDescAttributes_t as Attribute;
        let (compute, scale) = match dtype {
            DType::F64 => (cublasComputeType_t::CUBLAS_COMPUTE_64F, DType::F64),
            DType::F32 if precision == Precision::Tf32 => {
                (cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, DType::F32)
            }
            _ => (cublasComputeType_t::CUBLAS_COMPUTE_32F, DType::F32),
        };
        let matmul = Matmul(result::create_matmul_desc(compute, data_type(scale))?);
        let operation = |factor: &LibraryMatrix| i32::from(factor.is_transposed);
        // SAFETY: the description lives, and the attributes have these types.
        unsafe {
            matmul.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &operation(&factors[0]))?;
            matmul.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &operation(&factors[1]))?;
            if epilogue != Epilogue::default() {
                matmul.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue_code(epilogue))?;
            }
            if epilogue.has_bias {
                // An algorithm is chosen by how the bias is aligned; where it lies is known at the launch.
                matmul.set(BIAS_POINTER, &(ALIGNMENT as CUdeviceptr))?;
            }
        }
        Ok(matmul)
    }

    /// # Safety
    /// The attribute must be of type `T`.
    unsafe fn set<T>(&self, attribute: cublasLtMatmulDescAttributes_t, value: &T) -> Result<(), CublasError> {
        // SAFETY: the caller's.
        unsafe {
            result::set_matmul_desc_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        }
    }
}

fn epilogue_code(epilogue: Epilogue) -> cublasLtEpilogue_t {
    match (epilogue.has_bias, epilogue.activation) {
        (false, Activation::Identity) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
        (true, Activation::Identity) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
        (false, Activation::Relu) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU,
        (true, Activation::Relu) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS,
    }
}

impl Drop for Matmul {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

/// How a matrix lies in memory.
struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    /// `[rows, columns]` are those of the factor as it is multiplied.
    fn of_factor(
        call: &MatmulCall,
        factor: &LibraryMatrix,
        [rows, columns]: [usize; 2],
    ) -> Result<Layout, CublasError> {
        let shape = if factor.is_transposed { [columns, rows] } else { [rows, columns] };
        Layout::new(call.dtype, shape, factor.leading, call.batch, factor.batch)
    }

    fn new(
        dtype: DType,
        [rows, columns]: [usize; 2],
        leading: i64,
        batch: usize,
        batch_stride: i64,
    ) -> Result<Layout, CublasError> {
        use cublasLtMatrixLayoutAttribute_t as Attribute;
        let created = result::create_matrix_layout(data_type(dtype), rows as u64, columns as u64, leading);
        let layout = Layout(created?);
        if batch > 1 {
            let count = batch as i32;
            // SAFETY: the layout lives, and the attributes have these types.
            unsafe {
                layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count)?;
                layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride)?;
            }
        }
        Ok(layout)
    }

    /// # Safety
    /// The attribute must be of type `T`.
    unsafe fn set<T>(
        &self,
        attribute: cublasLtMatrixLayoutAttribute_t,
        value: &T,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's.
        unsafe {
            result::set_matrix_layout_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        }
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// What an algorithm may use.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new() -> Result<Preference, CublasError> {
        Ok(Preference(result::create_matmul_pref()?))
    }

    /// # Safety
    /// The attribute must be of type `T`.
    unsafe fn set<T>(
        &self,
        attribute: cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), CublasError> {
        // SAFETY: the caller's.
        unsafe {
            result::set_matmul_pref_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        }
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
