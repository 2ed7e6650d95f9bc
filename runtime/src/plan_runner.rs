//! Runs a plan on given tensors, for comparisons of a device with the oracle.

use std::collections::HashMap;
use std::sync::Arc;

use engine_core::ir::{DType, Symbol, Type};
use engine_core::oracle::{Elements, OracleTensor};
use engine_core::plan::Plan;
use half::{bf16, f16};
use indexmap::IndexMap;

use crate::device::{Device, DeviceBuffer, DeviceError, Executable, RunError};
use crate::tensor::{HostTensor, TensorError};

/// A plan with its own buffers on a device.
pub struct Once {
    device: Arc<dyn Device>,
    plan: Arc<Plan>,
    executable: Box<dyn Executable>,
    inputs: IndexMap<Symbol, (Type, DeviceBuffer)>,
}

impl Once {
    /// Prepares a plan. Its inputs hold the tensors of their names, or zeros.
    ///
    /// # Errors
    /// If memory does not suffice or the device cannot run a kernel.
    pub fn new(
        device: &Arc<dyn Device>,
        plan: Arc<Plan>,
        inputs: &HashMap<String, OracleTensor>,
        seed: u64,
    ) -> Result<Once, DeviceError> {
        let mut executable = device.prepare(Arc::clone(&plan), seed)?;
        let mut buffers = IndexMap::new();
        for buffer in plan.inputs() {
            let memory = device.allocate(buffer.ty.bytes())?;
            if let Some(tensor) = inputs.get(&*buffer.name) {
                let tensor = host_tensor(tensor).map_err(|error| DeviceError::Failed(error.to_string()))?;
                device.write(&memory, 0, tensor.bytes())?;
            }
            executable.bind(&buffer.name, &memory)?;
            buffers.insert(buffer.name.clone(), (buffer.ty.clone(), memory));
        }
        Ok(Once { device: Arc::clone(device), plan, executable, inputs: buffers })
    }

    /// Runs one step.
    ///
    /// # Errors
    /// As for [`Executable::run`].
    pub fn run(&mut self, step: u32) -> Result<(), RunError> {
        self.executable.run(step, 1)
    }

    /// Runs one step and measures each launch in seconds, in the order of the plan.
    ///
    /// # Errors
    /// As for [`Executable::run`].
    pub fn profile(&mut self, step: u32) -> Result<Vec<f64>, RunError> {
        Ok(self.executable.profile(step)?.into_iter().map(|time| time.seconds).collect())
    }

    /// The outputs after the last step, by name.
    ///
    /// # Errors
    /// If the device fails.
    pub fn outputs(&self) -> Result<IndexMap<Symbol, HostTensor>, DeviceError> {
        let mut outputs = IndexMap::new();
        for (name, buffer) in &self.plan.outputs {
            let mut tensor = zeros(&self.plan.buffers[*buffer].ty)?;
            self.executable.read_output(name, tensor.bytes_mut())?;
            outputs.insert(name.clone(), tensor);
        }
        Ok(outputs)
    }

    /// The present value of an input; steps change that of a state.
    ///
    /// # Errors
    /// If there is no such input, or the device fails.
    pub fn input(&self, name: &str) -> Result<HostTensor, DeviceError> {
        let unknown = || DeviceError::UnknownInput { plan: self.plan.name.clone(), input: name.to_string() };
        let (ty, memory) = self.inputs.get(name).ok_or_else(unknown)?;
        let mut tensor = zeros(ty)?;
        self.device.read(memory, 0, tensor.bytes_mut())?;
        Ok(tensor)
    }
}

fn zeros(ty: &Type) -> Result<HostTensor, DeviceError> {
    HostTensor::zeros(ty.dtype, &ty.extents()).map_err(|error| DeviceError::Failed(error.to_string()))
}

/// A tensor of the oracle in its own element type.
///
/// # Errors
/// If memory does not suffice.
pub fn host_tensor(tensor: &OracleTensor) -> Result<HostTensor, TensorError> {
    let extents = &tensor.extents;
    match &tensor.elements {
        Elements::Float(x) => match tensor.dtype {
            DType::F16 => HostTensor::from_slice(extents, &cast(x, f16::from_f64)),
            DType::BF16 => HostTensor::from_slice(extents, &cast(x, bf16::from_f64)),
            DType::F32 => HostTensor::from_slice(extents, &cast(x, |x| x as f32)),
            _ => HostTensor::from_slice(extents, x),
        },
        Elements::Int(x) => match tensor.dtype {
            DType::Bool => HostTensor::from_bytes(DType::Bool, extents, &cast(x, |x| (x != 0) as u8)),
            DType::U8 => HostTensor::from_slice(extents, &cast(x, |x| x as u8)),
            DType::I8 => HostTensor::from_slice(extents, &cast(x, |x| x as i8)),
            DType::I16 => HostTensor::from_slice(extents, &cast(x, |x| x as i16)),
            DType::U16 => HostTensor::from_slice(extents, &cast(x, |x| x as u16)),
            DType::I32 => HostTensor::from_slice(extents, &cast(x, |x| x as i32)),
            DType::U32 => HostTensor::from_slice(extents, &cast(x, |x| x as u32)),
            _ => HostTensor::from_slice(extents, x),
        },
    }
}

fn cast<A: Copy, B>(values: &[A], to: impl Fn(A) -> B) -> Vec<B> {
    values.iter().map(|&value| to(value)).collect()
}
