//! Plans on the device: their inputs are bound, and their memory is counted before it is allocated.

use std::sync::Arc;

use engine_core::ir::{InputKind, Symbol};
use engine_core::pipeline::SplitRef;
use engine_core::plan::{Place, Plan};

use super::base::Session;
use super::error::SessionError;
use super::order::ORDER;
use super::report::MemoryReport;
use super::rows::DataInputs;
use crate::device::{Executable, largest_tensors};

impl Session {
    /// Prepares a plan, with its inputs bound: state by name, and data as `data` says.
    pub(super) fn prepare(
        &mut self,
        stage: &Symbol,
        plan: &Arc<Plan>,
        data: DataInputs<'_>,
    ) -> Result<Box<dyn Executable>, SessionError> {
        // Before anything of that size is allocated.
        self.check_memory(stage, &[], (plan, plan.bytes()))?;
        self.state.ensure_all(plan).map_err(|error| error.of_plan(plan))?;
        let executable = self.device.prepare(Arc::clone(plan), self.pipeline.seed);
        let mut executable = executable.map_err(|error| error.of_plan(plan))?;
        for input in plan.inputs() {
            let name = &*input.name;
            let buffer = match input.place == Place::Input(InputKind::Data) {
                false => self.state.buffer(name),
                true => match data {
                    DataInputs::None => None,
                    DataInputs::Ring(ring) => ring.get(name),
                    DataInputs::Resident(_, order) if name == ORDER => order,
                    DataInputs::Resident(split, _) => self.resident.buffer(split, name),
                },
            };
            let Some(buffer) = buffer else {
                engine_core::bug!("nothing is bound to `{name}` of `{}`", plan.name)
            };
            executable.bind(name, buffer)?;
        }
        Ok(executable)
    }

    /// The device memory of a stage whose plans take `steps` bytes.
    pub(super) fn memory(&self, splits: &[&SplitRef], steps: usize) -> Result<MemoryReport, SessionError> {
        let mut data = 0;
        for split in splits {
            if self.is_resident(split)? {
                data += self.resident.bytes(split)?.unwrap_or_default();
            }
        }
        let params = self.pipeline.params.iter().filter(|param| param.kind == InputKind::Param);
        let parameters = params.map(|param| param.ty.bytes()).sum();
        Ok(MemoryReport { parameters, state: self.state.bytes().saturating_sub(parameters), data, steps })
    }

    /// As [`Session::memory`], given the largest plan and the bytes of all plans; fails if the device has less.
    pub(super) fn check_memory(
        &self,
        stage: &Symbol,
        splits: &[&SplitRef],
        (plan, plans): (&Plan, usize),
    ) -> Result<MemoryReport, SessionError> {
        let info = self.device.info();
        let memory = self.memory(splits, plans)?;
        let needed = memory.total() as u64;
        // A device that does not know its memory says 0.
        if info.memory_bytes == 0 || needed <= info.memory_bytes {
            return Ok(memory);
        }
        let (stage, available, largest) = (stage.clone(), info.memory_bytes, largest_tensors(plan));
        Err(SessionError::OutOfMemory { stage, needed, available, name: info.name, largest })
    }
}
