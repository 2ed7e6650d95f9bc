//! The place of a stage's rows: on the device, or on the host, from where they stream in windows.

use std::sync::Arc;

use engine_core::ir::{DType, Symbol};
use engine_core::pipeline::SplitRef;
use engine_core::stage::{Rows, SplitShape};

use super::base::Session;
use super::batches::Batches;
use super::error::SessionError;
use super::event::{Event, Subscriber};
use super::layout::Layout;
use super::order::ORDER;
use super::plan::StagePlan;
use super::windows::{Ring, Windows};
use crate::data::field::Field;
use crate::device::DeviceBuffer;
use crate::tensor::HostTensor;

/// Where a plan finds the rows of its steps.
#[derive(Clone, Copy)]
pub(super) enum DataInputs<'a> {
    /// It takes none.
    None,
    /// A split on the device, with the order in which its rows are visited.
    Resident(&'a SplitRef, Option<&'a DeviceBuffer>),
    /// The ring of windows that rows stream to.
    Ring(&'a Ring),
}

impl Session {
    /// Whether the rows of a split are kept on the device. Computed rows are not, and rows on disk are not copied to a
    /// device that reads the host's memory.
    pub(super) fn is_resident(&self, split: &SplitRef) -> Result<bool, SessionError> {
        let most = self.most_resident_bytes.unwrap_or_else(|| self.device.model().most_resident_bytes);
        let stays_on_disk = most == u64::MAX && self.resident.is_on_disk(split)?;
        Ok(!stays_on_disk && self.resident.bytes(split)?.is_some_and(|bytes| bytes as u64 <= most))
    }

    /// Starts to send a split to the device, if the split stays there.
    pub(super) fn prefetch(&mut self, split: &SplitRef) -> Result<(), SessionError> {
        match self.is_resident(split)? {
            true => self.resident.prefetch(split, &self.device, &self.background),
            false => Ok(()),
        }
    }

    /// The windows of a split that is not kept on the device, `shuffled` or in order.
    pub(super) fn windows(
        &self,
        split: &SplitRef,
        layout: Layout,
        shuffled: bool,
        n_steps: u64,
    ) -> Result<Option<Windows>, SessionError> {
        if self.is_resident(split)? {
            return Ok(None);
        }
        let seed = shuffled.then_some(self.pipeline.seed);
        Ok(Some(Windows::new(self.resident.split(split)?, layout, seed, n_steps)))
    }

    /// Reports a split that is too large for the device.
    pub(super) fn report_windows(&self, split: &SplitRef, batches: &Batches, tell: &mut Subscriber<'_>) {
        let (Some(windows), Ok(Some(bytes))) = (&batches.windows, self.resident.bytes(split)) else { return };
        let (data, split, mib) = (&split.data, &split.split, bytes.div_ceil(1 << 20));
        let place = match self.resident.is_on_disk(&SplitRef { data: data.clone(), split: split.clone() }) {
            Ok(true) => "on disk",
            _ => "on the host",
        };
        tell(&Event::Note(&format!(
            "`{data}.{split}` stays {place} ({mib} MiB); its rows are copied to the device {} steps ahead",
            windows.n_steps()
        )));
    }

    /// Plans the batches of a stage by `plan`, which receives the shape of the split and the rows of a step.
    pub(super) fn batches(
        &mut self,
        stage: &Symbol,
        (split, shape): (&SplitRef, &SplitShape),
        (layout, mut windows): (Layout, Option<Windows>),
        plan: &dyn Fn(&SplitShape, Rows) -> Result<StagePlan, SessionError>,
        order: Option<&DeviceBuffer>,
    ) -> Result<Batches, SessionError> {
        let n_batches = windows.as_ref().map(Windows::n_batches);
        let device = Arc::clone(&self.device);
        let mut prepare = |size, plan: &StagePlan| {
            let Some(windows) = &mut windows else {
                return self.prepare(stage, &plan.plan, DataInputs::Resident(split, order));
            };
            windows.make_ring(size, &plan.plan, &*device)?;
            self.prepare(stage, &plan.plan, DataInputs::Ring(windows.ring(size)))
        };
        let mut planned = |rows: Rows| match n_batches {
            Some(n_batches) => {
                let batch = rows.per_step();
                let shape = SplitShape { n_held: n_batches * batch, ..shape.clone() };
                plan(&shape, Rows::Batches { batch, per_epoch: n_batches })
            }
            None => plan(shape, rows),
        };
        let mut batches = Batches::new(layout, &mut planned, &mut prepare)?;
        if let Some(windows) = &mut windows {
            windows.start(&split.data, &device)?;
        }
        batches.windows = windows;
        Ok(batches)
    }

    /// The value of an input of a plan that is neither a parameter nor state.
    pub(super) fn data_input(
        &self,
        name: &str,
        split: &SplitRef,
        (order, ring): (Option<&DeviceBuffer>, Option<&Ring>),
    ) -> Result<Option<HostTensor>, SessionError> {
        let field = self.resident.field(split, name);
        let lies_in = match ring {
            Some(ring) => ring.get(name),
            None => order.filter(|_| name == ORDER),
        };
        let Some(buffer) = lies_in else { return Ok(field.map(Field::tensor).transpose()?) };
        let dtype = field.map_or(DType::I32, |field| field.row_type().dtype);
        let mut tensor = HostTensor::zeros(dtype, &[buffer.bytes() / dtype.size()])?;
        self.device.read(buffer, 0, tensor.bytes_mut())?;
        Ok(Some(tensor))
    }
}
