//! The order of each epoch on the device, computed while the epoch before it runs.

use std::sync::Arc;

use engine_core::ir::DType;

use super::background::{Background, Task};
use super::error::SessionError;
use crate::data::shuffle::epoch_order;
use crate::device::{Device, DeviceBuffer};
use crate::tensor::HostTensor;

/// The input that holds the order in which training visits the rows.
pub(super) const ORDER: &str = "order";

/// The input `order` of a training stage.
pub(super) struct Order {
    device: Arc<dyn Device>,
    buffer: DeviceBuffer,
    seed: u64,
    /// The order that the background thread computes, or the storage for the next one.
    next: Next,
}

enum Next {
    Idle(HostTensor),
    Underway(u64, Task<HostTensor>),
    /// Only within `begin`.
    Taken,
}

impl Order {
    pub(super) fn new(device: Arc<dyn Device>, seed: u64, n_rows: usize) -> Result<Self, SessionError> {
        let storage = HostTensor::zeros(DType::I32, &[n_rows])?;
        let buffer = device.allocate(storage.bytes().len())?;
        Ok(Order { device, buffer, seed, next: Next::Idle(storage) })
    }

    /// The buffer on the device.
    pub(super) fn buffer(&self) -> &DeviceBuffer {
        &self.buffer
    }

    /// Puts the order of an epoch on the device and starts to compute that of the next.
    pub(super) fn begin(&mut self, epoch: u64, background: &Background) -> Result<(), SessionError> {
        let order = match std::mem::replace(&mut self.next, Next::Taken) {
            Next::Underway(underway, task) => {
                let order = task.wait().unwrap_or_else(|| engine_core::bug!("the shuffle panicked"));
                if underway == epoch { order } else { shuffled(self.seed, epoch, order) }
            }
            Next::Idle(storage) => shuffled(self.seed, epoch, storage),
            Next::Taken => engine_core::bug!("the order was taken twice"),
        };
        let written = self.device.write(&self.buffer, 0, order.bytes());
        let seed = self.seed;
        self.next = Next::Underway(epoch + 1, background.start(move || shuffled(seed, epoch + 1, order)));
        Ok(written?)
    }
}

fn shuffled(seed: u64, epoch: u64, mut storage: HostTensor) -> HostTensor {
    match storage.as_mut_slice() {
        Ok(order) => epoch_order(seed, epoch, order),
        Err(error) => engine_core::bug!("{error}"),
    }
    storage
}
