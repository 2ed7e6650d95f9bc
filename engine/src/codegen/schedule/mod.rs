//! Schedules: how the points of a kernel are divided among blocks and threads, one file per schedule.

pub mod attention;
pub mod attention_blocked;
mod attention_blocked_code;
pub mod attention_code;
pub mod attention_gradient_blocked;
pub mod attention_parts;
pub mod by_column;
pub mod column_blocks;
pub mod custom_kernel;
pub mod double_buffer;
pub mod epilogue;
pub mod extreme_fold;
pub mod map;
pub mod matmul;
pub mod matmul_blocked;
pub mod matmul_fold;
pub mod matmul_point;
pub mod matmul_sliced;
pub mod panel;
mod panel_product;
pub mod radix_sort;
pub mod row;
pub mod row_code;
pub mod row_emit;
pub mod row_exchange;
pub mod row_fold;
pub mod row_place;
pub mod row_plan;
pub mod row_reduce;
pub mod scan;
pub mod scatter;
mod scatter_long;
mod scatter_rows;
mod scatter_shared;
pub mod scatter_sorted;
pub mod scatter_update;
pub mod segmented;
pub mod source;
pub mod split_k;
pub mod tensor_core;
pub mod thread_fold;
pub mod tile_block;
pub mod unpack;
mod windows;

use crate::codegen::error::CodegenError;
use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::OperandForm;
use crate::device_model::DeviceModel;
use crate::fusion::{Kernel, KernelBody};
use map::Map;
use row::Row;

impl KernelSpec {
    /// The launches of a kernel, in their order, without a library.
    ///
    /// # Errors
    /// If the device has no kernel for it.
    pub fn launches(kernel: &Kernel, device: DeviceModel) -> Result<Vec<KernelSpec>, CodegenError> {
        let operands = || OperandForm::of(kernel);
        Ok(match &kernel.body {
            KernelBody::Map(body) => vec![KernelSpec::new(body.clone(), Map, operands(), device)],
            KernelBody::Row(body) => vec![KernelSpec::new(body.clone(), Row, operands(), device)],
            KernelBody::Segmented(body) => segmented::launches(kernel, body, device),
            KernelBody::Attention(body) => attention::launches(kernel, body, device)?,
            KernelBody::AttentionGradient(body) => {
                tensor_core::attention_gradient::launches(kernel, body, device)
                    .or_else(|| attention_gradient_blocked::launches(kernel, body, device))
                    .ok_or(CodegenError::AttentionGradient)?
            }
            KernelBody::Matmul(body) => matmul::launches(kernel, body, device)?,
            KernelBody::Scatter(body) => scatter::launches(kernel, body, device),
            KernelBody::Scan(body) => vec![scan::launch(kernel, body, device)],
            KernelBody::Opaque(body) => custom_kernel::launches(kernel, &body.call, device)?,
            KernelBody::Loop(_) => crate::bug!("a loop is the kernels of its trips"),
        })
    }
}
