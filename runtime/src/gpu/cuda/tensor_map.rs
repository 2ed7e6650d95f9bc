//! Tensor maps in the encoding of the driver.

use super::error::failed;
use crate::device::DeviceError;
use cudarc::driver::sys::{self, CUdeviceptr, CUtensorMap};
use engine_core::codegen::TensorMap;
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
    let &TensorMap { dtype, offset, extents, strides, of_box, .. } = map;
    let bytes = |n: usize| (n * dtype.size()) as u64;
    let (extents, strides) = (extents.map(|n| n as u64), strides.map(bytes));
    let (of_box, steps) = ([of_box[0] as u32, of_box[1] as u32, 1], [1u32; 3]);
    let mut encoded = MaybeUninit::uninit();
    // SAFETY: the driver reads arrays of three extents, two strides and three extents of a box, and writes the map.
    let code = unsafe {
        sys::cuTensorMapEncodeTiled(
            encoded.as_mut_ptr(),
            element(dtype),
            3,
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
    let what = || format!("describing a matrix of {extents:?} elements with strides of {strides:?} bytes");
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
