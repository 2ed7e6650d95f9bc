//! Convolutions as cuDNN describes them.

use super::super::library_call::{CallAddresses, LIBRARY, LibraryCall};
use super::Cudnn;
use super::algorithm::{Algorithm, OF_IMAGE, OF_WEIGHTS};
use crate::device::DeviceError;
use cudarc::cudnn::result::CudnnError;
use cudarc::cudnn::sys::{
    self, cudnnConvolutionMode_t, cudnnDataType_t, cudnnMathType_t, cudnnTensorFormat_t,
};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::fusion::{Computed, Convolution, TensorLayout};
use engine_core::ir::DType;
use engine_core::numerics::Precision;
use engine_core::program::MatmulCall;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

/// The bytes that the addresses of tensors are multiples of.
const ALIGNMENT: i64 = 16;

/// A convolution as cuDNN describes it, without an algorithm.
pub struct Descriptor {
    cudnn: Arc<Cudnn>,
    computed: Computed,
    image: Tensor,
    weights: Filter,
    result: Tensor,
    windows: Windows,
    /// Bytes of the left and of the right operand before their tensors.
    offsets: [i64; 2],
    is_double: bool,
}

// SAFETY: the handles have one owner, and the library permits their use by any thread, one at a time.
unsafe impl Send for Descriptor {}

impl Descriptor {
    /// The description of a call; `None` if the library has no form for it.
    pub fn new(cudnn: &Arc<Cudnn>, call: &MatmulCall, convolution: &Convolution) -> Option<Descriptor> {
        let described = Descriptor::described(cudnn, call, convolution).ok()?;
        let is_aligned = described.offsets.iter().all(|offset| offset % ALIGNMENT == 0);
        is_aligned.then_some(described)
    }

    /// The algorithms that the library accepts, the most likely one first.
    pub fn candidates(&self) -> Vec<Algorithm> {
        let candidates = Algorithm::candidates(self.computed).iter().copied();
        candidates.filter(|algorithm| self.accepts(algorithm)).collect()
    }

    fn described(
        cudnn: &Arc<Cudnn>,
        call: &MatmulCall,
        convolution: &Convolution,
    ) -> Result<Descriptor, CudnnError> {
        let element_bytes = call.dtype.size() as i64;
        let axes = axes(convolution);
        Ok(Descriptor {
            cudnn: Arc::clone(cudnn),
            computed: convolution.computed,
            image: Tensor::of(&convolution.image, &axes, call.dtype)?,
            weights: Filter::of(&convolution.weights, &axes, call.dtype)?,
            result: Tensor::of(&convolution.result, &axes, call.dtype)?,
            windows: Windows::of(convolution, &axes, call)?,
            offsets: [call.lhs.offset, call.rhs.offset].map(|offset| offset * element_bytes),
            is_double: call.dtype == DType::F64,
        })
    }
}

impl LibraryCall for Descriptor {
    type Algorithm = Algorithm;

    fn launch(
        &self,
        algorithm: &Algorithm,
        addresses: CallAddresses,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        let (one, zero, one_single, zero_single) = (1f64, 0f64, 1f32, 0f32);
        let [alpha, beta]: [*const c_void; 2] = match self.is_double {
            true => [(&raw const one).cast(), (&raw const zero).cast()],
            false => [(&raw const one_single).cast(), (&raw const zero_single).cast()],
        };
        let at = |address: CUdeviceptr, offset: i64| address.wrapping_add_signed(offset) as *const c_void;
        let [left, right] =
            [at(addresses.factors[1], self.offsets[0]), at(addresses.factors[0], self.offsets[1])];
        let to = addresses.result as *mut c_void;
        let (scratch, bytes) = (workspace.start as *mut c_void, (workspace.end - workspace.start) as usize);
        let Descriptor { image, weights, result, windows, .. } = self;
        self.cudnn.call("starting a convolution", stream, |handle| {
            // SAFETY: all descriptors live, the tensors are as large as they say, and the factors outlive the call.
            let status = unsafe {
                match self.computed {
                    Computed::Result => sys::cudnnConvolutionForward(
                        handle,
                        alpha,
                        image.0,
                        right,
                        weights.0,
                        left,
                        windows.0,
                        algorithm.of_result(),
                        scratch,
                        bytes,
                        beta,
                        result.0,
                        to,
                    ),
                    Computed::Image => sys::cudnnConvolutionBackwardData(
                        handle, alpha, weights.0, left, result.0, right, windows.0, OF_IMAGE, scratch, bytes,
                        beta, image.0, to,
                    ),
                    Computed::Weights => sys::cudnnConvolutionBackwardFilter(
                        handle, alpha, image.0, right, result.0, left, windows.0, OF_WEIGHTS, scratch, bytes,
                        beta, weights.0, to,
                    ),
                }
            };
            status.result()
        })
    }

    fn accepts(&self, algorithm: &Algorithm) -> bool {
        let Descriptor { image, weights, result, windows, .. } = self;
        let mut bytes = 0;
        let asked = self.cudnn.call("asking for a workspace", null_mut(), |handle| {
            let bytes = &raw mut bytes;
            // SAFETY: all descriptors live, and the library writes one number.
            let status = unsafe {
                match self.computed {
                    Computed::Result => sys::cudnnGetConvolutionForwardWorkspaceSize(
                        handle,
                        image.0,
                        weights.0,
                        windows.0,
                        result.0,
                        algorithm.of_result(),
                        bytes,
                    ),
                    Computed::Image => sys::cudnnGetConvolutionBackwardDataWorkspaceSize(
                        handle, weights.0, result.0, windows.0, image.0, OF_IMAGE, bytes,
                    ),
                    Computed::Weights => sys::cudnnGetConvolutionBackwardFilterWorkspaceSize(
                        handle, image.0, result.0, windows.0, weights.0, OF_WEIGHTS, bytes,
                    ),
                }
            };
            status.result()
        });
        asked.is_ok() && bytes <= LIBRARY.workspace_bytes
    }
}

/// The axes of tensors that the library sees: it wants two spatial axes or three.
fn axes(convolution: &Convolution) -> Vec<usize> {
    let depths = [convolution.image.extents[2], convolution.weights[2], convolution.result.extents[2]];
    if depths == [1; 3] { vec![0, 1, 3, 4] } else { (0..5).collect() }
}

fn integers<T: Copy>(axes: &[usize], numbers: &[T], as_integer: impl Fn(T) -> c_int) -> Vec<c_int> {
    axes.iter().map(|&axis| as_integer(numbers[axis])).collect()
}

fn data_type(dtype: DType) -> cudnnDataType_t {
    match dtype {
        DType::F16 => cudnnDataType_t::CUDNN_DATA_HALF,
        DType::BF16 => cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        DType::F32 => cudnnDataType_t::CUDNN_DATA_FLOAT,
        DType::F64 => cudnnDataType_t::CUDNN_DATA_DOUBLE,
        other => engine_core::bug!("a library convolution of {other}"),
    }
}

/// A descriptor of the library, destroyed when dropped.
macro_rules! descriptor {
    ($(#[$about:meta])* $name:ident: $raw:ident, $create:ident, $destroy:ident) => {
        $(#[$about])*
        struct $name(sys::$raw);

        impl $name {
            fn new() -> Result<$name, CudnnError> {
                let mut raw = null_mut();
                // SAFETY: the library is open, and the pointer refers to a live handle.
                unsafe { sys::$create(&raw mut raw) }.result()?;
                Ok($name(raw))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: created by `new`, destroyed once. `drop` cannot report an error.
                let _ = unsafe { sys::$destroy(self.0) };
            }
        }
    };
}

descriptor! {
    /// A tensor with its strides.
    Tensor: cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor
}

descriptor! {
    /// Dense weights.
    Filter: cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor
}

descriptor! {
    /// The windows, and how products are rounded and summed.
    Windows: cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor
}

impl Tensor {
    fn of(layout: &TensorLayout, axes: &[usize], dtype: DType) -> Result<Tensor, CudnnError> {
        let tensor = Tensor::new()?;
        let extents = integers(axes, &layout.extents, |extent| extent as c_int);
        let strides = integers(axes, &layout.strides, |stride| stride as c_int);
        let n_axes = axes.len() as c_int;
        // SAFETY: the descriptor lives, and both arrays have as many numbers as there are axes.
        let set = unsafe {
            sys::cudnnSetTensorNdDescriptor(
                tensor.0,
                data_type(dtype),
                n_axes,
                extents.as_ptr(),
                strides.as_ptr(),
            )
        };
        set.result().map(|()| tensor)
    }
}

impl Filter {
    fn of(extents: &[usize], axes: &[usize], dtype: DType) -> Result<Filter, CudnnError> {
        let filter = Filter::new()?;
        let extents = integers(axes, extents, |extent| extent as c_int);
        let format = cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
        let n_axes = axes.len() as c_int;
        // SAFETY: as above.
        let set = unsafe {
            sys::cudnnSetFilterNdDescriptor(filter.0, data_type(dtype), format, n_axes, extents.as_ptr())
        };
        set.result().map(|()| filter)
    }
}

impl Windows {
    fn of(convolution: &Convolution, axes: &[usize], call: &MatmulCall) -> Result<Windows, CudnnError> {
        let windows = Windows::new()?;
        let spatial: Vec<usize> = axes[2..].iter().map(|axis| axis - 2).collect();
        let of = |numbers: &[usize; 3]| integers(&spatial, numbers, |number| number as c_int);
        let [padding, stride, dilation] =
            [&convolution.padding, &convolution.stride, &convolution.dilation].map(of);
        // A window is not reversed.
        let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let math = match call.dtype {
            DType::F16 | DType::BF16 => cudnnMathType_t::CUDNN_TENSOR_OP_MATH,
            DType::F32 if call.precision == Precision::Tf32 => cudnnMathType_t::CUDNN_DEFAULT_MATH,
            _ => cudnnMathType_t::CUDNN_FMA_MATH,
        };
        // SAFETY: as above.
        unsafe {
            sys::cudnnSetConvolutionNdDescriptor(
                windows.0,
                spatial.len() as c_int,
                padding.as_ptr(),
                stride.as_ptr(),
                dilation.as_ptr(),
                mode,
                data_type(call.dtype.accumulator()),
            )
            .result()?;
            sys::cudnnSetConvolutionGroupCount(windows.0, convolution.groups as c_int).result()?;
            sys::cudnnSetConvolutionMathType(windows.0, math).result()?;
        }
        Ok(windows)
    }
}
