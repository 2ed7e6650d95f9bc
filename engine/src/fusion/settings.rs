//! The settings of fusion, and the limits of the device that it fuses for.
//!
//! This is the only file of the folder that reads the device model.

use super::cost::CostModel;
use super::kernel::attention::AttentionBody;
use super::kernel::attention_gradient::AttentionGradientBody;
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
    /// The attentions of many queries or keys that devices have kernels for.
    pub shared_attention: SharedAttention,
    /// Added to the numbers of nodes that check, so that those of different graphs of one plan differ.
    pub first_site: NodeId,
}

/// Which attentions a device has kernels for, besides those of few queries and keys. Code generation knows.
#[derive(Clone, Copy, Debug)]
pub struct SharedAttention {
    /// Whether there is a kernel for an attention.
    pub takes: fn(&AttentionBody, &DeviceModel) -> bool,
    /// Whether there is a kernel for an attention of few queries to more keys than a block holds.
    pub takes_in_parts: fn(&AttentionBody, &DeviceModel) -> bool,
    /// Whether there is a kernel for a gradient of attention.
    pub takes_gradient: fn(&AttentionGradientBody, &DeviceModel) -> bool,
}

impl SharedAttention {
    /// No device has such a kernel.
    pub const NONE: SharedAttention =
        SharedAttention { takes: |_, _| false, takes_in_parts: |_, _| false, takes_gradient: |_, _| false };
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            fuse: true,
            without: vec![],
            fuel: usize::MAX,
            device: DeviceModel::CPU,
            deterministic: false,
            shared_attention: SharedAttention::NONE,
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
        CostModel::of(self.device.cached_elements)
    }

    /// Most buffers of a kernel.
    pub fn most_operands(&self) -> usize {
        self.device.kernels.most_operands
    }

    /// Whether attention of so many queries that share their keys computes what it reads. It is read from memory if many do.
    pub fn is_of_few(&self, n_queries: usize) -> bool {
        n_queries <= self.device.kernels.most_queries && self.device.kernels.most_keys > 0
    }

    /// Whether the device has a kernel for any attention of few queries to so many keys.
    pub fn has_attention_to(&self, n_keys: usize) -> bool {
        n_keys <= self.device.kernels.most_keys
    }

    /// Whether the device has a kernel for this attention of few queries to more keys than a block holds.
    pub fn has_attention_in_parts(&self, body: &AttentionBody) -> bool {
        (self.shared_attention.takes_in_parts)(body, &self.device)
    }

    /// Whether the device has an attention kernel for this body, whose queries, keys and values are in memory.
    pub fn has_attention_of(&self, body: &AttentionBody) -> bool {
        (self.shared_attention.takes)(body, &self.device)
    }

    /// Whether the attention kernel of the device computes in `f64`.
    pub fn has_attention_in_f64(&self) -> bool {
        self.device.kernels.attention_in_f64
    }

    /// Whether the device has a kernel for some gradients of attention.
    pub fn has_attention_gradients(&self) -> bool {
        let limits = &self.device.kernels;
        let adds_in_any_order = self.device.tensor_cores.is_some() && !self.deterministic;
        limits.attention_gradients || limits.columns_in_tiles > 0 || adds_in_any_order
    }

    /// Whether the device has a kernel for this gradient of attention.
    pub fn has_attention_gradient_of(&self, body: &AttentionGradientBody) -> bool {
        // Tensor cores add up in any order, tiles in a fixed one.
        let is_allowed = !self.deterministic || self.device.kernels.columns_in_tiles > 0;
        let has_kernel = is_allowed && (self.shared_attention.takes_gradient)(body, &self.device);
        self.device.kernels.attention_gradients || has_kernel
    }

    /// Whether the device can fuse a row reduction into a matmul.
    pub fn can_fold(&self, consumer: &RowConsumer) -> bool {
        let is_of_columns = matches!(consumer, RowConsumer::Blocks { .. });
        match self.device.kernels.row_folds {
            RowFolds::Any => true,
            // Only tensor cores leave the scores of a block in registers.
            RowFolds::Blocks if is_of_columns => self.device.tensor_cores.is_some(),
            RowFolds::Blocks => consumer.has_block_fold(&self.device),
        }
    }

    /// The longest rows across memory that the device reduces in one step.
    pub fn longest_column(&self) -> usize {
        self.device.kernels.longest_column
    }

    /// The longest rows that the device scans in one step, if there are few.
    pub fn longest_scan(&self) -> usize {
        self.device.kernels.longest_scan
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
