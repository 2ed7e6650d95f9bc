//! The batches of a split: whole ones by one plan, a short last one by another.

use std::sync::Arc;

use engine_core::ir::Symbol;
use engine_core::pipeline::ParamDecl;
use engine_core::plan::Plan;
use engine_core::stage::{Rows, ScaleStates};

use super::compiling::KEPT;
use super::error::SessionError;
use super::layout::{Layout, Size};
use super::plan::{StagePlan, Sum};
use super::state::{State, carried, states};
use super::windows::Windows;
use crate::device::{Executable, KernelTime, RunError};
use crate::tensor::{HostTensor, number_of};

type Prepared = Result<Box<dyn Executable>, SessionError>;

/// A plan that is ready to run.
pub(super) struct Ready {
    pub(super) plan: StagePlan,
    pub(super) executable: Box<dyn Executable>,
}

impl Ready {
    /// Runs steps. The first ones may fail to allocate memory of the driver.
    pub(super) fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.executable.run(first_step, n_steps).map_err(|error| error.of_plan(&self.plan.plan))
    }

    /// Takes a step and times its launches.
    pub(super) fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.executable.profile(step).map_err(|error| error.of_plan(&self.plan.plan))
    }

    /// The nodes whose values are kept, by name, with those of the last run.
    pub(super) fn kept(&self) -> Result<Vec<(Symbol, HostTensor)>, SessionError> {
        let kept = self.outputs(|name| name.starts_with(KEPT))?.into_iter();
        Ok(kept.map(|(name, value)| (name[KEPT.len()..].into(), value)).collect())
    }

    /// The value of a scalar output of the last run, without an allocation; none if there is no such output.
    fn number(&self, name: &str) -> Option<f64> {
        let Plan { outputs, buffers, .. } = &*self.plan.plan;
        let (_, buffer) = outputs.iter().find(|(known, _)| **known == *name)?;
        let (ty, mut bytes) = (&buffers[*buffer].ty, [0; 8]);
        self.executable.read_output(name, bytes.get_mut(..ty.bytes())?).ok()?;
        Some(number_of(ty.dtype, bytes))
    }

    /// Some outputs of the last run.
    pub(super) fn outputs(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(Symbol, HostTensor)>, SessionError> {
        let mut outputs = vec![];
        for (name, buffer) in self.plan.plan.outputs.iter().filter(|(name, _)| is_wanted(name)) {
            let ty = &self.plan.plan.buffers[*buffer].ty;
            let mut tensor = HostTensor::zeros(ty.dtype, &ty.extents())?;
            self.executable.read_output(name, tensor.bytes_mut())?;
            outputs.push((name.clone(), tensor));
        }
        Ok(outputs)
    }
}

/// The plans of a stage, ready to run.
pub(super) struct Batches {
    pub(super) layout: Layout,
    /// The plan of a whole batch, or of the short one if there is no other.
    pub(super) plan: Arc<Plan>,
    full: Option<Ready>,
    last: Option<Ready>,
    /// The step of the optimizer after the batches of a step.
    apply: Option<Ready>,
    pub(super) sums: Vec<Sum>,
    pub(super) nan_step: Option<Symbol>,
    pub(super) loss_scale: Option<ScaleStates>,
    /// Parameters and state of either plan.
    pub(super) carried: Vec<Symbol>,
    /// State that starts every step at zero, and ends it so.
    pub(super) used_up: Vec<Symbol>,
    pub(super) kernels_per_step: usize,
    /// Whether the short batch ran last.
    last_ran: bool,
    /// The windows of rows that are not resident on the device.
    pub(super) windows: Option<Windows>,
}

impl Batches {
    /// Plans and prepares the batch sizes of the layout.
    pub(super) fn new(
        layout: Layout,
        plan: &mut dyn FnMut(Rows) -> Result<StagePlan, SessionError>,
        prepare: &mut dyn FnMut(Size, &StagePlan) -> Prepared,
    ) -> Result<Self, SessionError> {
        let (full_rows, last_rows) = layout.ways();
        let plans = [full_rows.map(&mut *plan).transpose()?, last_rows.map(&mut *plan).transpose()?];
        let Some(first) = plans.iter().flatten().next().cloned() else {
            engine_core::bug!("a layout without batches")
        };
        let mut names: Vec<Symbol> = vec![];
        for (name, _) in plans.iter().flatten().flat_map(|plan| carried(&plan.plan)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let mut ready = |size: Size, plan: Option<StagePlan>| {
            let ready =
                plan.map(|plan| Ok::<_, SessionError>(Ready { executable: prepare(size, &plan)?, plan }));
            ready.transpose()
        };
        let [full, last] = plans;
        let (full, last) = (ready(Size::Whole, full)?, ready(Size::Short, last)?);
        Ok(Batches {
            layout,
            plan: Arc::clone(&first.plan),
            sums: first.sums.clone(),
            nan_step: first.nan_step.clone(),
            loss_scale: first.loss_scale.clone(),
            carried: names,
            used_up: vec![],
            kernels_per_step: first.plan.launches.len(),
            full,
            last,
            apply: None,
            last_ran: false,
            windows: None,
        })
    }

    /// Ends every step with a second plan. `declared` are the pipeline's parameters.
    pub(super) fn end_steps_with(&mut self, ready: Ready, declared: &[ParamDecl]) {
        let plan = &*ready.plan.plan;
        self.kernels_per_step = self.kernels_per_step * self.layout.n_parts + plan.launches.len();
        // The stage's own state in both plans is consumed at the end of a step, so checkpoints omit it.
        let is_declared = |name: &Symbol| declared.iter().any(|param| param.name == *name);
        let stays = |name: &Symbol| self.loss_scale.iter().any(|states| states.all().contains(&name));
        let own = states(plan).filter(|name| !is_declared(name));
        let (used_up, own): (Vec<Symbol>, Vec<Symbol>) =
            own.partition(|name| self.carried.contains(name) && !stays(name));
        self.carried.retain(|name| !used_up.contains(name) && !own.contains(name));
        self.carried.extend(own);
        self.used_up = used_up;
        self.apply = Some(ready);
    }

    /// The bytes of all arenas, workspaces and windows of rows.
    pub(super) fn bytes(&self) -> usize {
        let ready = [&self.full, &self.last, &self.apply].into_iter().flatten();
        let ready = ready.map(|ready| &ready.executable);
        let plans: usize = ready.map(|ready| ready.arena_bytes() + ready.scratch_bytes()).sum();
        plans + self.windows.as_ref().map_or(0, Windows::bytes)
    }

    /// Runs at most `most` steps from `step` on, up to the first of another batch size, and returns their number.
    pub(super) fn run(&mut self, step: u64, most: usize) -> Result<usize, RunError> {
        let position = (step % self.layout.steps() as u64) as usize;
        let n_left = self.layout.n_full.saturating_sub(position);
        self.last_ran = n_left == 0;
        let (ready, n_steps) = match n_left {
            0 => (&mut self.last, 1),
            n_left => (&mut self.full, n_left.min(most)),
        };
        let Some(ready) = ready else { engine_core::bug!("no plan for batch {position}") };
        let n_steps = match &mut self.windows {
            Some(windows) => n_steps.min(windows.bring(step, &mut *ready.executable)?),
            None => n_steps,
        };
        let Some(apply) = &mut self.apply else {
            ready.run(step as u32, n_steps as u32)?;
            return Ok(n_steps);
        };
        let n_parts = self.layout.n_parts as u32;
        for step in step as u32..step as u32 + n_steps as u32 {
            ready.run(step * n_parts, n_parts)?;
            apply.run(step, 1)?;
        }
        Ok(n_steps)
    }

    /// Takes one step through `take`, which runs each plan of it, given the number for that plan.
    pub(super) fn step_by(
        &mut self,
        step: u64,
        take: &mut dyn FnMut(&mut Ready, u32) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let position = (step % self.layout.steps() as u64) as usize;
        self.last_ran = position >= self.layout.n_full;
        let ready = if self.last_ran { &mut self.last } else { &mut self.full };
        let Some(ready) = ready else { engine_core::bug!("no plan for batch {position}") };
        if let Some(windows) = &mut self.windows {
            windows.bring(step, &mut *ready.executable)?;
        }
        let n_parts = self.layout.n_parts as u32;
        for part in 0..n_parts {
            take(ready, step as u32 * n_parts + part)?;
        }
        self.apply.as_mut().map_or(Ok(()), |apply| take(apply, step as u32))
    }

    /// Seconds that submitting the last run of whole or short batches took; none where no work is submitted.
    pub(super) fn host_seconds(&self) -> Option<f64> {
        self.latest()?.executable.host_seconds()
    }

    /// Takes a step and times the launches of the plan of a whole batch.
    pub(super) fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError> {
        let Some(ready) = self.full.as_mut().or(self.last.as_mut()) else {
            engine_core::bug!("a layout without batches")
        };
        if let Some(windows) = &mut self.windows {
            windows.bring(step, &mut *ready.executable)?;
        }
        ready.profile(step as u32 * self.layout.n_parts as u32)
    }

    /// The value of a scalar output of any type after the last step; none if there is no such output.
    pub(super) fn output(&self, name: &str) -> Option<f64> {
        [self.latest(), self.apply.as_ref()].into_iter().flatten().find_map(|ready| ready.number(name))
    }

    /// The nodes whose values are kept, by name, with those of the last step.
    pub(super) fn kept(&self) -> Result<Vec<(Symbol, HostTensor)>, SessionError> {
        let ready = [self.latest(), self.apply.as_ref()].into_iter().flatten();
        let kept: Result<Vec<_>, SessionError> = ready.map(Ready::kept).collect();
        Ok(kept?.into_iter().flatten().collect())
    }

    /// Whether there are values to keep.
    pub(super) fn keeps(&self) -> bool {
        let ready = [&self.full, &self.last, &self.apply].into_iter().flatten();
        ready.flat_map(|ready| &ready.plan.plan.outputs).any(|(name, _)| name.starts_with(KEPT))
    }

    /// The plan of the batch that ran last.
    fn latest(&self) -> Option<&Ready> {
        if self.last_ran { self.last.as_ref() } else { self.full.as_ref() }
    }

    /// Resets the sums.
    pub(super) fn reset_sums(&self, state: &State) -> Result<(), SessionError> {
        Ok(state.zero(self.sums.iter().map(|sum| &sum.state))?)
    }

    /// Means over `n_rows` rows, in the order of the sums.
    pub(super) fn means(&self, state: &State, n_rows: usize) -> Result<Vec<(Symbol, f64)>, SessionError> {
        let mean = |sum: &Sum| {
            let total = f32::from_le_bytes(state.word(&sum.state)?);
            Ok((sum.metric.clone(), f64::from(total) / n_rows as f64))
        };
        self.sums.iter().map(mean).collect()
    }
}
