//! Prepared inferences.

use std::sync::{Arc, Mutex};

use dashmap::DashMap;
use engine_core::ir::{Symbol, Type};
use engine_core::pipeline::Behaviour;
use indexmap::IndexMap;

use super::batches::Ready;
use super::compiling::KEPT;
use super::error::SessionError;
use crate::device::DeviceBuffer;
use crate::tensor::HostTensor;

/// Prepared inferences by nodes, extents and mode. Threads that use different inferences do not wait for each other.
pub(super) type Cache = DashMap<(Vec<Symbol>, Vec<(Symbol, usize)>, Behaviour), Arc<Mutex<Inference>>>;

/// A plan with buffers for its plain inputs.
pub(super) struct Inference {
    pub(super) ready: Ready,
    pub(super) inputs: IndexMap<Symbol, (Type, DeviceBuffer)>,
}

impl Inference {
    /// The bytes of its plan on the device, without state and data.
    pub(super) fn bytes(&self) -> usize {
        let inputs: usize = self.inputs.values().map(|(_, buffer)| buffer.bytes()).sum();
        inputs + self.ready.executable.arena_bytes() + self.ready.executable.scratch_bytes()
    }

    /// The outputs, without the values of kept nodes.
    pub(super) fn read_outputs(&self) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let outputs = self.ready.outputs(|name| !name.starts_with(KEPT))?.into_iter();
        Ok(outputs.map(|(name, value)| (name.to_string(), value)).collect())
    }
}
