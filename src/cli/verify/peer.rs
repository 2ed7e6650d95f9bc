//! Devices that are compared with each other.

use std::sync::Arc;

use engine_core::compile::Options;
use engine_runtime::device::Device;

use crate::devices::Choice;

/// A device and its name on the command line.
pub(super) struct Peer {
    pub(super) choice: Choice,
    /// The device.
    pub(super) device: Arc<dyn Device>,
    pub(super) options: Options,
}

impl Peer {
    pub(super) fn name(&self) -> String {
        self.choice.to_string()
    }
}
