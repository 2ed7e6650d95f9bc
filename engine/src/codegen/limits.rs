//! Limits of a device's kernels.

use crate::codegen::schedule::attention::{MOST_QUERIES, most_keys};
use crate::codegen::schedule::attention_blocked;
use crate::codegen::schedule::attention_gradient_blocked;
use crate::codegen::schedule::attention_parts;
use crate::codegen::schedule::row_plan::LONG_COLUMN;
use crate::codegen::schedule::scan::LONG_SCAN;
use crate::codegen::schedule::scatter::MOST_ROWS_CHECKED;
use crate::codegen::schedule::tensor_core;
use crate::device_model::{DeviceModel, KernelLimits, MAX_OPERANDS, RowFolds};
use crate::fusion::SharedAttention;

/// The attentions of many queries or keys that there are kernels for.
pub const SHARED_ATTENTION: SharedAttention = SharedAttention {
    takes: |body, device| {
        tensor_core::attention::takes(body, device) || attention_blocked::takes(body, device)
    },
    takes_in_parts: attention_parts::takes,
    takes_gradient: |body, device| {
        tensor_core::attention_gradient::takes(body, device)
            || attention_gradient_blocked::takes(body, device)
    },
};

/// The limits of a GPU's kernels, from its shared memory and its most tensors per launch. Blocks of an inexact
/// grid cannot check indices before they write.
fn kernel_limits(device: &DeviceModel) -> KernelLimits {
    KernelLimits {
        most_queries: MOST_QUERIES,
        most_keys: most_keys(device),
        attention_in_f64: false,
        attention_gradients: false,
        columns_in_tiles: attention_blocked::most_columns(device),
        most_rows_checked: if device.has_exact_grid { MOST_ROWS_CHECKED } else { 0 },
        row_folds: RowFolds::Blocks,
        most_operands: device.most_tensors.min(MAX_OPERANDS),
        longest_column: LONG_COLUMN,
        longest_scan: LONG_SCAN,
        uneven_matrices: false,
        moved_maps: true,
        joined_sums: true,
        convolutions: device.kernels.convolutions,
    }
}

impl DeviceModel {
    /// The device model with the limits of its kernels, computed from its other limits.
    pub fn with_kernel_limits(self) -> DeviceModel {
        DeviceModel { kernels: kernel_limits(&self), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_have_the_limits_of_their_kernels() {
        for device in [DeviceModel::H200, DeviceModel::WEBGPU, DeviceModel::DESKTOP] {
            assert_eq!(device.kernels, kernel_limits(&device));
        }
    }
}
