//! Tensor maps in the encoding of the driver.

use super::error::failed;
use crate::device::DeviceError;
use cudarc::driver::sys::{self, CUdeviceptr, CUtensorMap};
use engine_core::codegen::{MAP_AXES, TensorMap};
use engine_core::ir::DType;
use std::mem::MaybeUninit;

/// The maps of a launch, whose matrices lie at some of its pointers.
///
/// # Errors
/// If the driver refuses a map. The message names extents and strides.
pub fn encoded(maps: &[TensorMap], pointers: &[CUdeviceptr]) -> Result<Vec<CUtensorMap>, DeviceError> {
    maps.iter().map(|map| encode(map, pointers[map.argument])).collect()
}

fn encode(map: &TensorMap, start: CUdeviceptr) -> Result<CUtensorMap, DeviceError> {
    let &TensorMap { dtype, offset, n_axes, extents, strides, of_box, .. } = map;
    let bytes = |n: usize| (n * dtype.size()) as u64;
    let (extents, strides) = (extents.map(|n| n as u64), strides.map(bytes));
    let [along, across] = of_box.map(|n| n as u32);
    let (of_box, steps) = ([along, across, 1, 1, 1], [1u32; MAP_AXES]);
    let mut encoded = MaybeUninit::uninit();
    // SAFETY: the driver reads an extent, a stride except for the first, and an extent of a box of each of up to five axes,
    // and writes the map.
    let code = unsafe {
        sys::cuTensorMapEncodeTiled(
            encoded.as_mut_ptr(),
            element(dtype),
            n_axes as u32,
            (start + bytes(offset)) as *mut _,
            extents.as_ptr(),
            strides.as_ptr(),
            of_box.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    let (extents, strides) = (&extents[..n_axes], &strides[..n_axes - 1]);
    let what = || format!("describing a tensor of {extents:?} elements with strides of {strides:?} bytes");
    code.result().map_err(|error| failed(&what(), &error))?;
    // SAFETY: the driver has written the map.
    Ok(unsafe { encoded.assume_init() })
}

fn element(dtype: DType) -> sys::CUtensorMapDataType {
    match dtype {
        DType::BF16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        other => engine_core::bug!("a tensor map of {other}"),
    }
}
