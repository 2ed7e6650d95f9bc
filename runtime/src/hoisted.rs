//! Plans with a part that runs before the first step, and again when an input of that part has changed.

use crate::device::{Arrival, Device, DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use engine_core::plan::Plan;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

type Compile<'c> = dyn Fn(Arc<Plan>) -> Result<Box<dyn Executable>, DeviceError> + 'c;

/// Prepares a plan by `compile`, and the plan before its first step if there is one.
///
/// # Errors
/// As [`Device::prepare`].
pub fn prepare(
    device: &dyn Device,
    plan: Arc<Plan>,
    compile: &Compile,
) -> Result<Box<dyn Executable>, DeviceError> {
    let Some(once) = plan.once.clone() else { return compile(plan) };
    let mut parts = [compile(Arc::clone(&once))?, compile(Arc::clone(&plan))?];
    let mut values_bytes = 0;
    for value in plan.computed_once() {
        let memory = device.allocate(value.ty.bytes()).map_err(|error| error.of_buffer(&value.name))?;
        values_bytes += memory.bytes();
        for part in &mut parts {
            part.bind(&value.name, &memory)?;
        }
    }
    let is_value = |name: &str| plan.computed_once().any(|value| *value.name == *name);
    let inputs = once.inputs().filter(|input| !is_value(&input.name));
    let read = inputs.map(|input| (input.name.to_string(), Input::default())).collect();
    let [once, step] = parts;
    Ok(Box::new(Hoisted { once, step, read, values_bytes }))
}

/// The executables of both parts.
struct Hoisted {
    once: Box<dyn Executable>,
    step: Box<dyn Executable>,
    /// The inputs of the first part.
    read: HashMap<String, Input>,
    /// The bytes of the values that the first part computes.
    values_bytes: usize,
}

/// An input of the first part.
#[derive(Default)]
struct Input {
    buffer: Option<DeviceBuffer>,
    /// The version that the first part read; none before its first run.
    seen: Option<u64>,
}

impl Input {
    fn is_stale(&self) -> bool {
        self.seen.is_none() || self.seen != self.buffer.as_ref().map(DeviceBuffer::version)
    }
}

impl Hoisted {
    /// Runs the first part, unless its inputs are those of its last run.
    fn refresh(&mut self) -> Result<(), RunError> {
        if !self.read.values().any(Input::is_stale) {
            return Ok(());
        }
        let versions: Vec<Option<u64>> =
            self.read.values().map(|input| input.buffer.as_ref().map(DeviceBuffer::version)).collect();
        self.once.run(0, 1)?;
        self.read.values_mut().zip(versions).for_each(|(input, version)| input.seen = version);
        Ok(())
    }
}

impl Executable for Hoisted {
    fn arena_bytes(&self) -> usize {
        self.values_bytes + self.once.arena_bytes() + self.step.arena_bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.once.scratch_bytes() + self.step.scratch_bytes()
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        self.step.bind(input, buffer)?;
        let Some(read) = self.read.get_mut(input) else { return Ok(()) };
        self.once.bind(input, buffer)?;
        let is_known = read.buffer.as_ref().is_some_and(|known| known.is_same(buffer));
        if !is_known {
            *read = Input { buffer: Some(buffer.clone()), seen: None };
        }
        Ok(())
    }

    fn wait_for(&mut self, arrival: &Arrival) -> Result<(), DeviceError> {
        self.once.wait_for(arrival)?;
        self.step.wait_for(arrival)
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.refresh()?;
        self.step.run(first_step, n_steps)
    }

    fn cancel_by(&mut self, flag: Arc<AtomicBool>) {
        self.once.cancel_by(Arc::clone(&flag));
        self.step.cancel_by(flag);
    }

    fn host_seconds(&self) -> Option<f64> {
        self.step.host_seconds()
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.step.read_output(name, bytes)
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.refresh()?;
        self.step.profile(step)
    }
}

#[cfg(test)]
mod tests;
