//! The settings of fusion, and the limits of the device that it fuses for.
//!
//! This is the only file of the folder that reads the device model.

use super::cost::CostModel;
use super::kernel::attention::AttentionBody;
use super::kernel::row_fold::RowConsumer;
use crate::device_model::{DeviceModel, RowFolds};
use crate::ir::{DType, NodeId};

/// How far fusion goes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Off, every node that computes something becomes a kernel of its own.
    pub fuse: bool,
    /// Names of passes, of [`crate::fusion::PASSES`], that are switched off.
    pub without: Vec<String>,
    /// Most joins of groups: bisects a wrong fusion.
    pub fuel: usize,
    /// The limits of the device.
    pub device: DeviceModel,
    /// Whether sums have a fixed order on every device, at any price.
    pub deterministic: bool,
    /// Whether a device has a kernel for an attention in which many queries share their keys.
    pub attends: fn(&AttentionBody, &DeviceModel) -> bool,
    /// Added to the numbers of nodes that check, so that those of different graphs of one plan differ.
    pub first_site: NodeId,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            fuse: true,
            without: vec![],
            fuel: usize::MAX,
            device: DeviceModel::CPU,
            deterministic: false,
            attends: |_, _| false,
            first_site: 0,
        }
    }
}

impl Settings {
    /// Whether a pass is on.
    pub fn runs(&self, pass: &str) -> bool {
        self.fuse && self.fuel > 0 && !self.without.iter().any(|name| name == pass)
    }

    /// The cost model of the device.
    pub fn cost_model(&self) -> CostModel {
        CostModel::default()
    }

    /// Most buffers of a kernel.
    pub fn most_operands(&self) -> usize {
        self.device.kernels.most_operands
    }

    /// Whether the device has an attention kernel for so many queries and keys.
    pub fn has_attention(&self, n_queries: usize, n_keys: usize) -> bool {
        n_queries <= self.device.kernels.most_queries && n_keys <= self.device.kernels.most_keys
    }

    /// Whether the device has an attention kernel for this body, whose queries, keys and values are in memory.
    pub fn has_attention_of(&self, body: &AttentionBody) -> bool {
        (self.attends)(body, &self.device)
    }

    /// Whether the attention kernel of the device computes in `f64`.
    pub fn has_attention_in_f64(&self) -> bool {
        self.device.kernels.attention_in_f64
    }

    /// Whether the device has a kernel of the gradient of attention.
    pub fn has_attention_gradients(&self) -> bool {
        self.device.kernels.attention_gradients
    }

    /// Whether the device can fuse a row reduction into a matmul.
    pub fn can_fold(&self, consumer: &RowConsumer) -> bool {
        match self.device.kernels.row_folds {
            RowFolds::Any => true,
            RowFolds::Blocks => consumer.has_block_fold(&self.device),
        }
    }

    /// Whether elements of a type lie several to a word, which threads would share at the ends of a row.
    pub fn packs(&self, dtype: DType) -> bool {
        self.device.lanes(dtype) > 1
    }

    /// Most rows of a scatter into state that checks its own indices.
    pub fn most_rows_checked(&self) -> usize {
        if self.deterministic { 0 } else { self.device.kernels.most_rows_checked }
    }
}
