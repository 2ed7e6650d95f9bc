//! Splits that are too large for the device: rows stay on the host and stream to it in windows.
//!
//! The device holds a ring of two windows, each the rows of some steps in their order. While steps run on one window, a
//! thread gathers the rows of the next, and the device copies them concurrently. The place of a step's rows in the ring
//! depends on the step's number alone, so plans never change.

mod gather;

use std::sync::Arc;

use engine_core::ir::{InputKind, Symbol};
use engine_core::plan::{Place, Plan};
use indexmap::IndexMap;

use super::layout::{Layout, Size};
use super::order::ORDER;
use crate::data::field::Field;
use crate::data::source::Split;
use crate::device::{Arrival, Device, DeviceBuffer, DeviceError, Executable};
use gather::{Gatherer, N_WINDOWS, Task};

/// Bytes of a window, unless a single step takes more.
const WINDOW_BYTES: usize = 64 << 20;
/// Steps of a window at most.
const WINDOW_STEPS: usize = 32;

/// Inputs of a plan by name.
pub(super) type Ring = IndexMap<Symbol, DeviceBuffer>;

/// The rows of a stage's steps, on their way.
pub(super) struct Windows {
    task: Task,
    /// Of whole batches, and of short ones.
    rings: [Ring; 2],
    gatherer: Option<Gatherer>,
    /// The window whose rows have been sent.
    current: Option<(u64, Arrival)>,
    /// The number of windows. After the last one, the first follows again.
    n_windows: u64,
}

impl Windows {
    /// Windows of the first `n_steps` steps of a layout, repeated; shuffled by a seed, or in file order.
    pub(super) fn new(split: &Split, layout: Layout, seed: Option<u64>, n_steps: u64) -> Windows {
        let row_bytes = |field: &Field| field.row_type().bytes();
        let step_bytes = layout.batch * split.fields().values().map(row_bytes).sum::<usize>();
        let n_steps_each = (WINDOW_BYTES / step_bytes.max(1)).clamp(1, WINDOW_STEPS);
        Windows {
            task: Task { split: split.clone(), layout, seed, n_steps: n_steps_each },
            rings: [Ring::new(), Ring::new()],
            gatherer: None,
            current: None,
            n_windows: n_steps.div_ceil(n_steps_each as u64).max(1),
        }
    }

    /// The number of batches in the ring. The place of a batch depends on its number alone.
    pub(super) fn n_batches(&self) -> usize {
        N_WINDOWS * self.task.n_steps * self.task.layout.n_parts
    }

    /// Makes room for the rows that a plan reads.
    pub(super) fn make_ring(
        &mut self,
        size: Size,
        plan: &Plan,
        device: &dyn Device,
    ) -> Result<(), DeviceError> {
        let mut ring = Ring::new();
        for buffer in plan.buffers.iter().filter(|buffer| buffer.place == Place::Input(InputKind::Data)) {
            let memory = device.allocate(buffer.ty.bytes());
            let memory = memory.map_err(|error| error.of_buffer(&buffer.name).of_plan(plan))?;
            // The whole ring is written once before steps run, since a device may clear memory at its first use.
            let first: Vec<u8> = match &*buffer.name == ORDER {
                true => (0..buffer.ty.numel() as i32).flat_map(|row| row.to_le_bytes()).collect(),
                false => vec![0; buffer.ty.bytes()],
            };
            device.write(&memory, 0, &first)?;
            ring.insert(buffer.name.clone(), memory);
        }
        self.rings[size as usize] = ring;
        Ok(())
    }

    /// The ring that the plans of a batch size bind.
    pub(super) fn ring(&self, size: Size) -> &Ring {
        &self.rings[size as usize]
    }

    /// The ring that the plan of a step binds.
    pub(super) fn ring_of_step(&self, step: u64) -> &Ring {
        self.ring(self.task.layout.size_of(step))
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        self.rings.iter().flat_map(Ring::values).map(DeviceBuffer::bytes).sum()
    }

    /// Steps of a window.
    pub(super) fn n_steps(&self) -> usize {
        self.task.n_steps
    }

    /// Starts the thread; all rings have been made.
    pub(super) fn start(&mut self, data: &Symbol, device: &Arc<dyn Device>) -> Result<(), DeviceError> {
        let rings = self.rings.each_ref().map(|ring| by_field(data, ring));
        self.gatherer = Some(Gatherer::start(self.task.clone(), rings, device)?);
        Ok(())
    }

    /// Lets an executable find the rows of a step, and returns of how many steps from that on.
    pub(super) fn bring(&mut self, step: u64, executable: &mut dyn Executable) -> Result<usize, DeviceError> {
        let n_steps = self.task.n_steps as u64;
        let window = step / n_steps;
        let Some(gatherer) = &mut self.gatherer else { engine_core::bug!("no gatherer was started") };
        if self.current.as_ref().is_none_or(|(current, _)| *current != window) {
            // Steps on the window before are done, so its half of the ring may be filled again.
            self.current = Some((window, gatherer.get(window)?));
            let next = (window + 1) % self.n_windows;
            if next % N_WINDOWS as u64 != window % N_WINDOWS as u64 {
                gatherer.ask(next);
            }
        }
        if let Some((_, arrival)) = &self.current {
            executable.wait_for(arrival)?;
        }
        Ok(((window + 1) * n_steps - step) as usize)
    }
}

/// The buffers of fields, by their names in the split.
fn by_field(data: &Symbol, ring: &Ring) -> IndexMap<String, DeviceBuffer> {
    let field = |name: &str| Some(name.strip_prefix(&**data)?.strip_prefix('.')?.to_string());
    ring.iter().filter_map(|(name, buffer)| Some((field(name)?, buffer.clone()))).collect()
}
