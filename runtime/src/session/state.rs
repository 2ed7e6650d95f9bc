//! The state that a session carries from step to step, shared by the plans of all stages.

use std::path::Path;
use std::sync::Arc;

use engine_core::ir::{InputKind, Symbol, Type};
use engine_core::pipeline::{Init, ParamDecl};
use engine_core::plan::{Place, Plan};
use indexmap::IndexMap;

use super::error::SessionError;
use crate::checkpoint::{Mismatch, TensorType, compare};
use crate::device::{Device, DeviceBuffer, DeviceError};
use crate::init::initial_values;
use crate::tensor::HostTensor;

/// Parameters and other state on the device, by name.
pub(super) struct State {
    device: Arc<dyn Device>,
    entries: IndexMap<Symbol, Entry>,
}

struct Entry {
    ty: Type,
    buffer: DeviceBuffer,
}

impl State {
    /// The pipeline's parameters with their initial values.
    pub(super) fn new(
        device: Arc<dyn Device>,
        params: &[ParamDecl],
        seed: u64,
    ) -> Result<Self, SessionError> {
        let mut state = State { device, entries: IndexMap::new() };
        for param in params {
            state.ensure(&param.name, &param.ty)?;
            // New memory is zero.
            if !matches!(param.init, Init::Zeros) {
                state.write(&param.name, &initial_values(param, seed)?)?;
            }
        }
        Ok(state)
    }

    /// Allocates the undeclared state of a plan, such as moments. It starts at zero.
    pub(super) fn ensure_all(&mut self, plan: &Plan) -> Result<(), DeviceError> {
        carried(plan).try_for_each(|(name, ty)| self.ensure(name, ty))
    }

    /// The buffer of that name.
    pub(super) fn buffer(&self, name: &str) -> Option<&DeviceBuffer> {
        self.entries.get(name).map(|entry| &entry.buffer)
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        self.entries.values().map(|entry| entry.ty.bytes()).sum()
    }

    pub(super) fn write(&self, name: &str, tensor: &HostTensor) -> Result<(), DeviceError> {
        self.entries.get(name).map_or(Ok(()), |entry| self.device.write(&entry.buffer, 0, tensor.bytes()))
    }

    /// The bits of a state of one element of 4 bytes. Nothing is allocated: this is read between steps.
    pub(super) fn word(&self, name: &str) -> Result<[u8; 4], DeviceError> {
        let mut bytes = [0; 4];
        if let Some(entry) = self.entries.get(name) {
            self.device.read(&entry.buffer, 0, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Sets the bits of a state of one element of 4 bytes.
    pub(super) fn write_word(&self, name: &str, word: [u8; 4]) -> Result<(), DeviceError> {
        self.entries.get(name).map_or(Ok(()), |entry| self.device.write(&entry.buffer, 0, &word))
    }

    /// Sets states of one element, of 4 bytes each, to zero.
    pub(super) fn zero<'n>(&self, names: impl IntoIterator<Item = &'n Symbol>) -> Result<(), DeviceError> {
        let zero = HostTensor::scalar(0i32);
        names.into_iter().try_for_each(|name| self.write(name, &zero))
    }

    /// Sets states of any type to zero.
    pub(super) fn clear(&self, names: &[Symbol]) -> Result<(), SessionError> {
        for (name, entry) in self.entries.iter().filter(|(name, _)| names.contains(name)) {
            self.write(name, &HostTensor::zeros(entry.ty.dtype, &entry.ty.extents())?)?;
        }
        Ok(())
    }

    /// The named states, copied to the host.
    pub(super) fn snapshot(&self, names: &[Symbol]) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let mut tensors = IndexMap::new();
        for (name, entry) in self.entries.iter().filter(|(name, _)| names.contains(name)) {
            let mut tensor = HostTensor::zeros(entry.ty.dtype, &entry.ty.extents())?;
            self.device.read(&entry.buffer, 0, tensor.bytes_mut())?;
            tensors.insert(name.to_string(), tensor);
        }
        Ok(tensors)
    }

    /// Takes over the named states from a checkpoint, which must have all of them, and nothing else if `exact`.
    /// Nothing is changed unless all of them fit.
    pub(super) fn restore(
        &self,
        path: &Path,
        names: &[Symbol],
        tensors: &IndexMap<String, HostTensor>,
        exact: bool,
    ) -> Result<(), SessionError> {
        let needed = self.entries.iter().filter(|(name, _)| names.contains(name));
        let needed: Vec<TensorType> = needed.map(|(name, entry)| tensor_type(name, &entry.ty)).collect();
        expect_tensors(path, &needed, tensors, exact)?;
        for needed in &needed {
            self.write(&needed.name, &tensors[&needed.name])?;
        }
        Ok(())
    }

    fn ensure(&mut self, name: &Symbol, ty: &Type) -> Result<(), DeviceError> {
        if !self.entries.contains_key(name) {
            let buffer = self.device.allocate(ty.bytes()).map_err(|error| error.of_buffer(name))?;
            self.entries.insert(name.clone(), Entry { ty: ty.clone(), buffer });
        }
        Ok(())
    }
}

/// Fails unless the tensors of a file are those that are needed, or, unless `exact`, those and others.
pub(super) fn expect_tensors(
    path: &Path,
    needed: &[TensorType],
    tensors: &IndexMap<String, HostTensor>,
    exact: bool,
) -> Result<(), SessionError> {
    let mismatch = compare(needed, tensors).err().unwrap_or_default();
    let unexpected = if exact { mismatch.unexpected } else { vec![] };
    let mismatch = Mismatch { unexpected, ..mismatch };
    match mismatch == Mismatch::default() {
        true => Ok(()),
        false => Err(SessionError::Mismatch { path: path.to_path_buf(), mismatch }),
    }
}

/// State that a plan reads or updates, without the parameters.
pub(super) fn states(plan: &Plan) -> impl Iterator<Item = Symbol> {
    plan.buffers.iter().filter_map(|buffer| match buffer.place {
        Place::Input(InputKind::State) => Some(buffer.name.clone()),
        _ => None,
    })
}

/// Parameters and state that a plan reads or updates.
pub(super) fn carried(plan: &Plan) -> impl Iterator<Item = (&Symbol, &Type)> {
    plan.buffers.iter().filter_map(|buffer| match buffer.place {
        Place::Input(InputKind::Param | InputKind::State) => Some((&buffer.name, &buffer.ty)),
        Place::Input(InputKind::Data | InputKind::Once | InputKind::Step) | Place::Arena(_) => None,
    })
}

pub(super) fn tensor_type(name: &str, ty: &Type) -> TensorType {
    TensorType { name: name.to_string(), dtype: ty.dtype, shape: ty.extents() }
}
