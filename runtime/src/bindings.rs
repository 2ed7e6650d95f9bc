//! Bindings of inputs and outputs, checked in the same way for the executables of all devices.

use crate::device::{DeviceBuffer, DeviceError, RunError};
use engine_core::ir::InputKind;
use engine_core::plan::{BufferId, Place, Plan};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// The memory that is bound to the inputs of a plan.
pub struct Bindings<M> {
    plan: Arc<Plan>,
    /// By buffer of the plan.
    bound: Vec<Option<Arc<M>>>,
    /// The buffers of states that a step writes, as far as they are bound.
    updated: HashMap<BufferId, Option<DeviceBuffer>>,
}

impl<M: Any + Send + Sync> Bindings<M> {
    /// No bindings yet.
    pub fn new(plan: &Arc<Plan>) -> Bindings<M> {
        let is_input = |id: &BufferId| matches!(plan.buffers[*id].place, Place::Input(_));
        let updated = plan.launches.iter().flat_map(|launch| plan.written(launch)).filter(is_input);
        Bindings {
            plan: Arc::clone(plan),
            bound: plan.buffers.iter().map(|_| None).collect(),
            updated: updated.map(|id| (id, None)).collect(),
        }
    }

    /// Binds memory to an input. Returns its buffer if the binding has changed.
    ///
    /// # Errors
    /// If the plan has no such input, or the memory is too small for it or not of this device.
    pub fn bind(
        &mut self,
        input: &str,
        buffer: &DeviceBuffer,
        is_own: impl FnOnce(&M) -> bool,
    ) -> Result<Option<BufferId>, DeviceError> {
        let plan = &self.plan;
        let found =
            plan.buffers.iter().position(|buffer| &*buffer.name == input && is_bindable(&buffer.place));
        let unknown = || DeviceError::UnknownInput { plan: plan.name.clone(), input: input.into() };
        let id = found.ok_or_else(unknown)?;
        let (expected, found) = (plan.buffers[id].ty.bytes(), buffer.bytes());
        if found < expected {
            return Err(DeviceError::WrongSize { what: format!("`{input}`"), expected, found });
        }
        let memory = buffer.memory::<M>()?;
        if !is_own(&memory) {
            return Err(DeviceError::ForeignBuffer);
        }
        if let Some(updated) = self.updated.get_mut(&id) {
            *updated = Some(buffer.clone());
        }
        let is_same = self.bound[id].as_ref().is_some_and(|known| Arc::ptr_eq(known, &memory));
        self.bound[id] = Some(memory);
        Ok((!is_same).then_some(id))
    }

    /// The memory of an input, if it is bound.
    pub fn get(&self, id: BufferId) -> Option<&M> {
        self.bound[id].as_deref()
    }

    /// The memory of an input that was checked to be bound.
    pub fn memory(&self, id: BufferId) -> &M {
        let unbound = || engine_core::bug!("input `{}` is not bound", self.plan.buffers[id].name);
        self.get(id).unwrap_or_else(unbound)
    }

    /// Notes that a run updates states.
    pub fn note_writes(&self) {
        self.updated.values().flatten().for_each(DeviceBuffer::note_write);
    }

    /// An error that names the first input without memory.
    pub fn check(&self) -> Result<(), RunError> {
        let mut missing = self.plan.buffers.iter().zip(&self.bound).filter(|(_, bound)| bound.is_none());
        match missing.find(|(buffer, _)| is_bindable(&buffer.place)) {
            Some((buffer, _)) => Err(RunError::Unbound(buffer.name.to_string())),
            None => Ok(()),
        }
    }

    /// The buffer of an output, which must have so many bytes and, if it is an input as well, memory bound to it.
    pub fn output(&self, name: &str, n_bytes: usize) -> Result<BufferId, DeviceError> {
        let plan = &self.plan;
        let found = plan.outputs.iter().find(|(output, _)| &**output == name);
        let unknown = || DeviceError::UnknownOutput { plan: plan.name.clone(), output: name.into() };
        let &(_, id) = found.ok_or_else(unknown)?;
        let expected = plan.buffers[id].ty.bytes();
        if n_bytes != expected {
            return Err(DeviceError::WrongSize { what: format!("`{name}`"), expected, found: n_bytes });
        }
        if is_bindable(&plan.buffers[id].place) && self.bound[id].is_none() {
            return Err(unknown());
        }
        Ok(id)
    }
}

/// Whether the caller must bind memory to an input. The step number belongs to the executable.
fn is_bindable(place: &Place) -> bool {
    matches!(place, Place::Input(kind) if *kind != InputKind::Step)
}

/// Checks that a copy of `length` bytes from byte `offset` on lies within `bytes` bytes.
pub fn check_range(offset: usize, length: usize, bytes: usize) -> Result<(), DeviceError> {
    match offset.checked_add(length) {
        Some(end) if end <= bytes => Ok(()),
        _ => Err(DeviceError::OutOfRange { offset, length, bytes }),
    }
}
