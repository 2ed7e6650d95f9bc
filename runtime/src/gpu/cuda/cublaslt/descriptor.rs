//! Matmuls as cuBLASLt describes them.

use super::super::library_call::{CallAddresses, LIBRARY, LibraryCall};
use super::{Library, failed};
use crate::device::DeviceError;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayoutAttribute_t,
    cublasLtReductionScheme_t, cudaDataType,
};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::ir::DType;
use engine_core::numerics::Precision;
use engine_core::plan::ALIGNMENT;
use engine_core::program::{Activation, Epilogue, LibraryMatrix, MatmulCall};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

/// A matmul as cuBLASLt describes it, without an algorithm.
pub struct Descriptor {
    library: Arc<Library>,
    matmul: Matmul,
    layouts: [Layout; 3],
    /// The factors in the library's order.
    factors: [LibraryMatrix; 2],
    element_bytes: i64,
    is_double: bool,
    has_bias: bool,
}

// SAFETY: the handles have one owner, and the library permits their use by any thread.
unsafe impl Send for Descriptor {}

impl Descriptor {
    /// The description of a call; `None` if the library has no form for its operands.
    pub fn new(library: &Arc<Library>, call: &MatmulCall) -> Result<Option<Descriptor>, DeviceError> {
        let Some(factors) = call.matrices() else { return Ok(None) };
        let library_error = |error| failed("describing a matrix product", error);
        let matmul = Matmul::new(call, &factors).map_err(library_error)?;
        let MatmulCall { batch, m, n, k, result, .. } = *call;
        let layouts = [
            Layout::of_factor(call, &factors[0], [n, k]).map_err(library_error)?,
            Layout::of_factor(call, &factors[1], [k, m]).map_err(library_error)?,
            Layout::new(result, [n, m], n as i64, batch, (m * n) as i64).map_err(library_error)?,
        ];
        Ok(Some(Descriptor {
            library: Arc::clone(library),
            has_bias: call.epilogue.has_bias,
            is_double: call.dtype == DType::F64,
            matmul,
            layouts,
            factors,
            element_bytes: call.dtype.size() as i64,
        }))
    }
}

const BIAS_POINTER: cublasLtMatmulDescAttributes_t =
    cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;

/// The alignment of all matrices of a factor: a power of two up to 256.
fn alignment(factor: &LibraryMatrix, element_bytes: i64) -> u32 {
    let bits = (factor.offset | factor.batch) * element_bytes;
    if bits == 0 { 256 } else { 1 << bits.trailing_zeros().min(8) }
}

/// The number of algorithms requested from the heuristic.
const MOST_ALGORITHMS: usize = 16;

impl Descriptor {
    /// The algorithms that the library proposes. Its heuristic sorts them by estimated time.
    pub fn proposed(&self, dtype: DType) -> Result<Vec<cublasLtMatmulAlgo_t>, DeviceError> {
        let Descriptor { matmul, layouts: [first, second, result], .. } = self;
        let [first_alignment, second_alignment] =
            self.factors.map(|factor| alignment(&factor, self.element_bytes));
        use cublasLtMatmulPreferenceAttributes_t as Attribute;
        use cublasLtReductionScheme_t as Reduction;
        // Split-K partial sums in half precision lose digits, and may overflow where the total does not.
        let reductions = match dtype == dtype.accumulator() {
            true => Reduction::CUBLASLT_REDUCTION_SCHEME_MASK,
            false => Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
        };
        let library_error = |error| failed("choosing a matrix product", error);
        let preference = Preference(result::create_matmul_pref().map_err(library_error)?);
        let mut found = [const { MaybeUninit::<cublasLtMatmulHeuristicResult_t>::zeroed() }; MOST_ALGORITHMS];
        let mut n_found = 0;
        // SAFETY: all descriptors live, the attributes have these types, and the buffer holds the requested number.
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
                self.library.handle,
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
        // SAFETY: the library has written the first `n_found` results.
        let found = found[..n_found as usize].iter().map(|result| unsafe { result.assume_init_ref() });
        let usable = found.filter(|result| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Ok(usable.map(|result| result.algo).collect())
    }
}

impl LibraryCall for Descriptor {
    type Algorithm = cublasLtMatmulAlgo_t;

    fn accepts(&self, algorithm: &cublasLtMatmulAlgo_t) -> bool {
        let Descriptor { matmul, layouts: [first, second, result], .. } = self;
        let mut found = MaybeUninit::<cublasLtMatmulHeuristicResult_t>::zeroed();
        // SAFETY: all descriptors live, `found` has room for the result, and zeros are a valid value of it.
        let (status, found) = unsafe {
            let status = sys::cublasLtMatmulAlgoCheck(
                self.library.handle,
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

    fn launch(
        &self,
        algorithm: &cublasLtMatmulAlgo_t,
        addresses: CallAddresses,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        // The library computes `alpha·product + beta·added`, and reads nothing for a beta of 0.
        let factors = [1.0, if addresses.added.is_some() { 1.0 } else { 0.0 }];
        let singles = factors.map(|factor| factor as f32);
        let scalar = |i: usize| -> *const c_void {
            if self.is_double { (&raw const factors[i]).cast() } else { (&raw const singles[i]).cast() }
        };
        let [alpha, beta] = [scalar(0), scalar(1)];
        let factor = |i: usize| {
            let bytes = self.factors[i].offset * self.element_bytes;
            addresses.factors[i].wrapping_add_signed(bytes) as *const c_void
        };
        let [first, second, result] = &self.layouts;
        let target = addresses.result as *mut c_void;
        let added = addresses.added.map_or(target.cast_const(), |added| added as *const c_void);
        // SAFETY: the tensors lie where the plan says, with the sizes and strides of the layouts; the scalars are read
        // during the call.
        let done = unsafe {
            let biased = match addresses.bias.filter(|_| self.has_bias) {
                Some(bias) => self.matmul.set(BIAS_POINTER, &bias),
                None => Ok(()),
            };
            biased.and_then(|()| {
                result::matmul(
                    self.library.handle,
                    self.matmul.0,
                    alpha,
                    beta,
                    factor(0),
                    first.0,
                    factor(1),
                    second.0,
                    added,
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

fn data_type(dtype: DType) -> cudaDataType {
    match dtype {
        DType::F16 => cudaDataType::CUDA_R_16F,
        DType::BF16 => cudaDataType::CUDA_R_16BF,
        DType::F32 => cudaDataType::CUDA_R_32F,
        DType::F64 => cudaDataType::CUDA_R_64F,
        other => engine_core::bug!("a library product of {other}"),
    }
}

/// A handle of the library, destroyed when dropped, and its attributes.
macro_rules! handle {
    ($(#[$about:meta])* $name:ident: $raw:ident, $attribute:ident, $set:ident, $destroy:ident) => {
        $(#[$about])*
        struct $name(sys::$raw);

        impl $name {
            /// # Safety
            /// The attribute must be of type `T`.
            unsafe fn set<T>(&self, attribute: $attribute, value: &T) -> Result<(), CublasError> {
                // SAFETY: the caller guarantees the type.
                unsafe { result::$set(self.0, attribute, (&raw const *value).cast(), size_of::<T>()) }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: created by `new`, destroyed once. `drop` cannot report an error.
                let _ = unsafe { result::$destroy(self.0) };
            }
        }
    };
}

handle! {
    /// A descriptor of the operation.
    Matmul: cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, set_matmul_desc_attribute, destroy_matmul_desc
}

handle! {
    /// The layout of a matrix in memory.
    Layout: cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, set_matrix_layout_attribute, destroy_matrix_layout
}

handle! {
    /// The preferences for the heuristic.
    Preference:
        cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, set_matmul_pref_attribute,
        destroy_matmul_pref
}

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
        // SAFETY: the descriptor lives, and the attributes have these types.
        unsafe {
            matmul.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &operation(&factors[0]))?;
            matmul.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &operation(&factors[1]))?;
            if epilogue != Epilogue::default() {
                matmul.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue_code(epilogue))?;
            }
            if epilogue.has_bias {
                // The heuristic reads the alignment of the bias. The launch sets its address.
                matmul.set(BIAS_POINTER, &(ALIGNMENT as CUdeviceptr))?;
            }
        }
        Ok(matmul)
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

impl Layout {
    /// `[rows, columns]` is the shape of the factor in the product.
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
}
