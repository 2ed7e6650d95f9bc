//! Bindings of inputs and outputs, checked in the same way for the executables of all devices.

use crate::device::{DeviceBuffer, DeviceError, RunError};
use engine_core::ir::InputKind;
use engine_core::plan::{BufferId, Place, Plan};

/// Whether the caller must bind memory to an input. The step number belongs to the executable.
fn is_bindable(place: &Place) -> bool {
    matches!(place, Place::Input(kind) if *kind != InputKind::Step)
}

/// The buffer of an input, which must fit into `memory`.
pub fn input(plan: &Plan, name: &str, memory: &DeviceBuffer) -> Result<BufferId, DeviceError> {
    let found = plan.buffers.iter().position(|buffer| &*buffer.name == name && is_bindable(&buffer.place));
    let unknown = || DeviceError::UnknownInput { plan: plan.name.clone(), input: name.into() };
    let id = found.ok_or_else(unknown)?;
    let (expected, found) = (plan.buffers[id].ty.bytes(), memory.bytes());
    if found < expected {
        return Err(DeviceError::WrongSize { what: format!("`{name}`"), expected, found });
    }
    Ok(id)
}

/// The buffer of an output, which must have so many bytes and, if it is an input as well, memory bound to it.
pub fn output(
    plan: &Plan,
    name: &str,
    n_bytes: usize,
    is_bound: impl Fn(BufferId) -> bool,
) -> Result<BufferId, DeviceError> {
    let found = plan.outputs.iter().find(|(output, _)| &**output == name);
    let unknown = || DeviceError::UnknownOutput { plan: plan.name.clone(), output: name.into() };
    let &(_, id) = found.ok_or_else(unknown)?;
    let expected = plan.buffers[id].ty.bytes();
    if n_bytes != expected {
        return Err(DeviceError::WrongSize { what: format!("`{name}`"), expected, found: n_bytes });
    }
    if is_bindable(&plan.buffers[id].place) && !is_bound(id) {
        return Err(unknown());
    }
    Ok(id)
}

/// An error that names the first input without memory.
pub fn check_bound(plan: &Plan, is_bound: impl Fn(BufferId) -> bool) -> Result<(), RunError> {
    let mut missing = plan.buffers.iter().enumerate().filter(|(id, _)| !is_bound(*id));
    match missing.find(|(_, buffer)| is_bindable(&buffer.place)) {
        Some((_, buffer)) => Err(RunError::Unbound(buffer.name.to_string())),
        None => Ok(()),
    }
}
