//! Convolutions as cuDNN describes them.

use super::super::library_call::{CallAddresses, LIBRARY, LibraryCall};
use super::Cudnn;
use super::algorithm::{Algorithm, OF_IMAGE, OF_WEIGHTS, Sums};
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
/// The same for copies.
const COPY_ALIGNMENT: usize = 256;
/// Axes of the tensors of pictures.
const FLAT_AXES: usize = 4;

/// A convolution as cuDNN describes it, without an algorithm.
pub struct Descriptor {
    cudnn: Arc<Cudnn>,
    computed: Computed,
    tensors: Tensors,
    /// The same with neighbouring channels; none where the library has no kernels for it.
    last: Option<ChannelsLast>,
    windows: Windows,
    /// Bytes of the left and of the right operand before their tensors.
    offsets: [i64; 2],
    is_double: bool,
    /// Bytes of workspace that an algorithm may use.
    most_workspace: usize,
}

// SAFETY: the handles have one owner, and the library permits their use by any thread, one at a time.
unsafe impl Send for Descriptor {}

/// The tensors of a convolution.
struct Tensors {
    image: Tensor,
    weights: Filter,
    /// The weights as a tensor, to copy them.
    weights_as_tensor: Tensor,
    result: Tensor,
}

/// A convolution of copies whose neighbours are channels.
struct ChannelsLast {
    tensors: Tensors,
    /// Bytes of the image, of the weights and of the result in the workspace.
    bytes: [usize; 3],
}

/// Numbers by which a call multiplies its result and what was there.
struct Factors {
    single: [f32; 2],
    double: [f64; 2],
    is_double: bool,
}

impl Factors {
    fn new(is_double: bool) -> Factors {
        Factors { single: [1.0, 0.0], double: [1.0, 0.0], is_double }
    }

    fn pointers(&self) -> [*const c_void; 2] {
        match self.is_double {
            true => self.double.each_ref().map(|factor| (&raw const *factor).cast()),
            false => self.single.each_ref().map(|factor| (&raw const *factor).cast()),
        }
    }
}

impl Descriptor {
    /// The description of a call; `None` if the library has no form for it.
    pub fn new(cudnn: &Arc<Cudnn>, call: &MatmulCall, convolution: &Convolution) -> Option<Descriptor> {
        let described = Descriptor::described(cudnn, call, convolution).ok()?;
        let is_aligned = described.offsets.iter().all(|offset| offset % ALIGNMENT == 0);
        is_aligned.then_some(described)
    }

    /// The algorithms that the library accepts, the most likely one first.
    pub fn candidates(&self) -> Vec<Algorithm> {
        Algorithm::candidates(self.computed).into_iter().filter(|algorithm| self.accepts(algorithm)).collect()
    }

    fn described(
        cudnn: &Arc<Cudnn>,
        call: &MatmulCall,
        convolution: &Convolution,
    ) -> Result<Descriptor, CudnnError> {
        let element_bytes = call.dtype.size() as i64;
        let axes = axes(convolution);
        let is_copied = axes.len() == FLAT_AXES && convolution.groups == 1 && call.dtype != DType::F64;
        let last = || ChannelsLast::of(convolution, &axes, call.dtype);
        Ok(Descriptor {
            cudnn: Arc::clone(cudnn),
            computed: convolution.computed,
            tensors: Tensors::of(convolution, &axes, call.dtype, cudnnTensorFormat_t::CUDNN_TENSOR_NCHW)?,
            last: is_copied.then(last).transpose()?,
            windows: Windows::of(convolution, &axes, call)?,
            offsets: [call.lhs.offset, call.rhs.offset].map(|offset| offset * element_bytes),
            is_double: call.dtype == DType::F64,
            most_workspace: call.workspace_bytes(LIBRARY),
        })
    }

    /// Computes the result at `to` from a left and a right tensor.
    ///
    /// # Safety
    /// The addresses must be those of live tensors as large as their descriptions say.
    unsafe fn compute(
        &self,
        handle: sys::cudnnHandle_t,
        (sums, tensors): (Sums, &Tensors),
        [left, right, to]: [CUdeviceptr; 3],
        scratch: Range<CUdeviceptr>,
    ) -> sys::cudnnStatus_t {
        let Tensors { image, weights, result, .. } = tensors;
        let factors = Factors::new(self.is_double);
        let ([alpha, beta], windows) = (factors.pointers(), self.windows.0);
        let [left, right] = [left as *const c_void, right as *const c_void];
        let to = to as *mut c_void;
        let (bytes, scratch) = ((scratch.end - scratch.start) as usize, scratch.start as *mut c_void);
        // SAFETY: all descriptors live; the rest is the caller's.
        unsafe {
            match self.computed {
                Computed::Result => sys::cudnnConvolutionForward(
                    handle,
                    alpha,
                    image.0,
                    right,
                    weights.0,
                    left,
                    windows,
                    sums.of_result(),
                    scratch,
                    bytes,
                    beta,
                    result.0,
                    to,
                ),
                Computed::Image => sys::cudnnConvolutionBackwardData(
                    handle, alpha, weights.0, left, result.0, right, windows, OF_IMAGE, scratch, bytes, beta,
                    image.0, to,
                ),
                Computed::Weights => sys::cudnnConvolutionBackwardFilter(
                    handle, alpha, image.0, right, result.0, left, windows, OF_WEIGHTS, scratch, bytes, beta,
                    weights.0, to,
                ),
            }
        }
    }

    /// As [`Descriptor::compute`], on copies in the workspace.
    ///
    /// # Safety
    /// As there; the workspace must have room for the copies.
    unsafe fn compute_channels_last(
        &self,
        handle: sys::cudnnHandle_t,
        (sums, last): (Sums, &ChannelsLast),
        given: [CUdeviceptr; 3],
        workspace: Range<CUdeviceptr>,
    ) -> Result<(), CudnnError> {
        let factors = Factors::new(self.is_double);
        let [alpha, beta] = factors.pointers();
        let roles = roles(self.computed);
        let copies = last.places(workspace.start);
        let scratch = copies[3]..workspace.end;
        let copy = |from: (&Tensor, CUdeviceptr), to: (&Tensor, CUdeviceptr)| {
            let (source, target) = (from.1 as *const c_void, to.1 as *mut c_void);
            // SAFETY: both descriptors live; the rest is the caller's.
            unsafe { sys::cudnnTransformTensor(handle, alpha, from.0.0, source, beta, to.0.0, target) }
                .result()
        };
        let [left, right, to] = roles.map(|role| (self.tensors.tensor(role), last.tensors.tensor(role)));
        let [left_copy, right_copy, to_copy] = roles.map(|role| copies[role]);
        copy((left.0, given[0]), (left.1, left_copy))?;
        copy((right.0, given[1]), (right.1, right_copy))?;
        // SAFETY: the caller's.
        unsafe { self.compute(handle, (sums, &last.tensors), [left_copy, right_copy, to_copy], scratch) }
            .result()?;
        copy((to.1, to_copy), (to.0, given[2]))
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
        let at = |address: CUdeviceptr, offset: i64| address.wrapping_add_signed(offset);
        let [left, right] =
            [at(addresses.factors[1], self.offsets[0]), at(addresses.factors[0], self.offsets[1])];
        let (given, sums) = ([left, right, addresses.result], algorithm.sums);
        self.cudnn.call("starting a convolution", stream, |handle| {
            // SAFETY: the tensors are as large as they say, and `accepts` has found the workspace large enough.
            unsafe {
                match self.last.as_ref().filter(|_| algorithm.has_channels_last) {
                    Some(last) => self.compute_channels_last(handle, (sums, last), given, workspace.clone()),
                    None => self.compute(handle, (sums, &self.tensors), given, workspace.clone()).result(),
                }
            }
        })
    }

    fn accepts(&self, algorithm: &Algorithm) -> bool {
        let (tensors, copied) = match (algorithm.has_channels_last, &self.last) {
            (false, _) => (&self.tensors, 0),
            (true, Some(last)) => (&last.tensors, last.bytes.iter().sum()),
            (true, None) => return false,
        };
        let Tensors { image, weights, result, .. } = tensors;
        let windows = self.windows.0;
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
                        windows,
                        result.0,
                        algorithm.sums.of_result(),
                        bytes,
                    ),
                    Computed::Image => sys::cudnnGetConvolutionBackwardDataWorkspaceSize(
                        handle, weights.0, result.0, windows, image.0, OF_IMAGE, bytes,
                    ),
                    Computed::Weights => sys::cudnnGetConvolutionBackwardFilterWorkspaceSize(
                        handle, image.0, result.0, windows, weights.0, OF_WEIGHTS, bytes,
                    ),
                }
            };
            status.result()
        });
        asked.is_ok() && bytes + copied <= self.most_workspace
    }
}

/// The numbers of the left, the right and the computed tensor, where an image is 0, weights are 1 and a result is 2.
fn roles(computed: Computed) -> [usize; 3] {
    match computed {
        Computed::Result => [1, 0, 2],
        Computed::Image => [1, 2, 0],
        Computed::Weights => [2, 0, 1],
    }
}

impl Tensors {
    fn of(
        convolution: &Convolution,
        axes: &[usize],
        dtype: DType,
        format: cudnnTensorFormat_t,
    ) -> Result<Tensors, CudnnError> {
        let is_last = format == cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
        let of = |given: TensorLayout| {
            let layout = if is_last { TensorLayout::channels_last(given.extents) } else { given };
            Tensor::of(&layout, axes, dtype)
        };
        Ok(Tensors {
            image: of(convolution.image)?,
            weights: Filter::of(&convolution.weights, axes, dtype, format)?,
            weights_as_tensor: of(TensorLayout::dense(convolution.weights))?,
            result: of(convolution.result)?,
        })
    }

    fn tensor(&self, role: usize) -> &Tensor {
        [&self.image, &self.weights_as_tensor, &self.result][role]
    }
}

impl ChannelsLast {
    fn of(convolution: &Convolution, axes: &[usize], dtype: DType) -> Result<ChannelsLast, CudnnError> {
        let format = cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
        let bytes = |extents: &[usize]| {
            (extents.iter().product::<usize>() * dtype.size()).next_multiple_of(COPY_ALIGNMENT)
        };
        let extents: [&[usize]; 3] =
            [&convolution.image.extents, &convolution.weights, &convolution.result.extents];
        Ok(ChannelsLast {
            tensors: Tensors::of(convolution, axes, dtype, format)?,
            bytes: extents.map(bytes),
        })
    }

    /// Where image, weights and result lie from an address on, and where they end.
    fn places(&self, start: CUdeviceptr) -> [CUdeviceptr; 4] {
        let mut places = [start; 4];
        for (role, bytes) in self.bytes.iter().enumerate() {
            places[role + 1] = places[role] + *bytes as CUdeviceptr;
        }
        places
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
    fn of(
        extents: &[usize],
        axes: &[usize],
        dtype: DType,
        format: cudnnTensorFormat_t,
    ) -> Result<Filter, CudnnError> {
        let filter = Filter::new()?;
        let extents = integers(axes, extents, |extent| extent as c_int);
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
