//! `Run` stages: the graph on its inputs.

use std::time::{Duration, Instant};

use engine_core::compile::Compiled;
use engine_core::ir::{InputKind, NodeOp, Symbol, Type};
use engine_core::pipeline::{Given, Pipeline, RunStage};
use engine_core::plan::Plan;
use engine_core::stage;
use indexmap::IndexMap;
use std::sync::Arc;

use super::part::Part;
use super::runnable::{Checking, Compiling, Runnable, Steps};
use super::stage_run::{StageRun, Stopped};
use crate::data::source::DataSet;
use crate::device::{DeviceBuffer, KernelTime, RunError};
use crate::session::Session;
use crate::session::error::SessionError;
use crate::session::event::{Event, report_kept};
use crate::session::given::{GivenFault, tensor_of};
use crate::session::inference::unfit;
use crate::session::plan::Request;
use crate::session::prepared::Inference;
use crate::session::report::StageReport;
use crate::session::resume::Progress;
use crate::session::trace::traced_run;
use crate::tensor::HostTensor;

impl Runnable for RunStage {
    fn run(&self, mut run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let mut running = Box::new(Running::new(run.session, run.name, self)?);
        // A part of a `Repeat` ends between steps instead, since its checkpoint holds whole steps.
        running.inference.ready.executable.cancel_by(run.session.cancel_flag());
        (run.tell)(&Event::StageStarted { stage: run.name, kind: "run", n_steps: self.steps as u64 });
        running.trip(&mut run)?;
        match run.session.is_cancelled() {
            true => Err(SessionError::Interrupted { checkpoint: None }.into()),
            false => running.conclude(&mut run, true),
        }
    }

    fn part(
        &self,
        run: &mut StageRun<'_, '_>,
        name: &Symbol,
        _: Option<u64>,
    ) -> Result<Box<dyn Part>, SessionError> {
        Ok(Box::new(Running::new(run.session, name, self)?))
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        let pipeline = checking.pipeline;
        let graph = checking.planned(stage::running(pipeline, self, checking.registry))?;
        let values = Values { stage: checking.name, given: checking.given, pipeline, sets: checking.sets };
        let is_fed_by_caller =
            |input: &Symbol| pipeline.inputs.iter().all(|decl| decl.name != *input || decl.from.is_none());
        let mut open = vec![];
        for node in graph.nodes.iter().filter(|node| node.op == NodeOp::Input(InputKind::Data)) {
            match values.of_input(self, node.name(), &node.outputs[0].ty) {
                Ok(_) => {}
                Err(error @ SessionError::NoInput { .. }) if is_fed_by_caller(node.name()) => {
                    open.push(error);
                }
                Err(SessionError::NoInput { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        compiling.compile(&Request::Running(self))
    }

    fn steps(&self, session: &mut Session, name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        Ok(Some(Box::new(session.prepare_running(name, self)?.0)))
    }

    fn runs_before_measures(&self) -> bool {
        !self.state.is_empty()
    }
}

/// A `Run` stage on its way. Its steps are numbered on from trip to trip.
struct Running {
    name: Symbol,
    inference: Inference,
    /// The steps of a trip, at most.
    steps: u64,
    /// The state that says whether the trip has ended, if a condition can end it.
    ended: Option<DeviceBuffer>,
    /// Steps of all trips, those before a resumed checkpoint included.
    step: u64,
    /// Steps of this process, and their time.
    n_done: u64,
    stepping: Duration,
    start: Instant,
}

impl Running {
    fn new(session: &Session, name: &Symbol, stage: &RunStage) -> Result<Running, SessionError> {
        let start = Instant::now();
        let (inference, ended) = session.prepare_running(name, stage)?;
        let (name, steps) = (name.clone(), stage.steps as u64);
        Ok(Running { name, inference, steps, ended, step: 0, n_done: 0, stepping: Duration::ZERO, start })
    }
}

impl Running {
    /// Forgets that the trip before has ended.
    fn begin(&self, session: &Session) -> Result<(), SessionError> {
        let Some(ended) = &self.ended else { return Ok(()) };
        Ok(session.device.write(ended, 0, &[0; 4])?)
    }

    /// Whether the condition has held.
    fn has_ended(&self, session: &Session) -> Result<bool, SessionError> {
        let Some(ended) = &self.ended else { return Ok(false) };
        let mut word = [0; 4];
        session.device.read(ended, 0, &mut word)?;
        Ok(word != [0; 4])
    }
}

impl Part for Running {
    fn trip(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped> {
        let (session, start) = (&*run.session, Instant::now());
        let end = (self.step / self.steps + 1) * self.steps;
        self.begin(session)?;
        while self.step < end {
            session.run_once(&self.name, &mut self.inference, self.step as u32)?;
            (self.step, self.n_done) = (self.step + 1, self.n_done + 1);
            let has_ended = self.has_ended(session)?;
            let is_last = session.inspection.every.is_none() && (self.step == end || has_ended);
            if is_last || session.is_kept_after(self.step) {
                report_kept(&self.name, self.step - 1, self.inference.ready.kept()?, run.tell);
            }
            if has_ended {
                // The steps that are left have numbers, too, so the next trip starts at a multiple.
                self.step = end;
            }
            // A complete trip is not interrupted here. A `Repeat` first counts its part as done.
            if self.step < end && session.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None }.into());
            }
        }
        self.stepping += start.elapsed();
        Ok(())
    }

    fn progress(&self) -> Vec<(Symbol, Progress)> {
        let step = [("step".to_string(), self.step.to_string())];
        vec![(self.name.clone(), step.into_iter().collect())]
    }

    fn resume(&mut self, run: &mut StageRun<'_, '_>, progress: &Progress) -> Result<(), SessionError> {
        let Some(resume) = &run.resume else { return Ok(()) };
        let step = progress.get("step").and_then(|step| step.parse().ok());
        let why = || resume.cannot(format!("the progress of stage `{}` is not understood", self.name));
        self.step = step.ok_or_else(why)?;
        Ok(())
    }

    fn conclude(
        self: Box<Self>,
        run: &mut StageRun<'_, '_>,
        _: bool,
    ) -> Result<Option<StageReport>, Stopped> {
        if self.n_done > 0 {
            let outputs = self.inference.read_outputs()?;
            (run.tell)(&Event::Outputs { stage: &self.name, outputs: &outputs });
            run.add_outputs(&outputs);
        } else if self.step > 0 && !self.inference.ready.plan.plan.outputs.is_empty() {
            let note = format!(
                "stage `{}` ended before the checkpoint was written; its outputs are those of the run before",
                self.name
            );
            (run.tell)(&Event::Note(&note));
        }
        let report = StageReport {
            name: self.name.to_string(),
            steps: self.n_done,
            step_us: self.stepping.as_secs_f64() * 1e6 / self.n_done.max(1) as f64,
            kernels_per_step: self.inference.ready.plan.plan.launches.len(),
            ..run.report("run", self.start)
        };
        Ok(Some(report.with_memory(run.session.memory(&[], self.inference.bytes())?)))
    }
}

impl Steps for Inference {
    fn plan(&self) -> &Arc<Plan> {
        &self.ready.plan.plan
    }

    fn run(&mut self, step: u64, n_steps: usize) -> Result<(), RunError> {
        self.ready.run(step as u32, n_steps as u32)
    }

    fn host_seconds(&self) -> Option<f64> {
        self.ready.executable.host_seconds()
    }

    fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError> {
        self.ready.profile(step as u32)
    }
}

impl Session {
    /// A `Run` stage with its inputs fed, and the state that says whether it has ended.
    fn prepare_running(
        &self,
        stage: &Symbol,
        run: &RunStage,
    ) -> Result<(Inference, Option<DeviceBuffer>), SessionError> {
        let ended = run.until.as_ref().map(|_| self.device.allocate(4)).transpose()?;
        if let Some(ended) = &ended {
            self.device.write(ended, 0, &[0; 4])?;
        }
        let own = ended.iter().map(|buffer| (stage::ENDED.into(), buffer.clone())).collect();
        let plan = self.planner.plan_for(stage, &Request::Running(run))?;
        let inference = self.prepare_with(stage, plan, &own)?;
        self.check_memory(stage, &[], (&inference.ready.plan.plan, inference.bytes()))?;
        self.feed((stage, run), &inference)?;
        Ok((inference, ended))
    }

    fn run_once(&self, stage: &Symbol, inference: &mut Inference, step: u32) -> Result<(), SessionError> {
        if !self.inspection.trace_nan {
            return inference.ready.run(step, 1).map_err(|source| match source {
                RunError::Cancelled => SessionError::Interrupted { checkpoint: None },
                source => SessionError::Run { stage: stage.clone(), source },
            });
        }
        let Inference { ready, inputs } = inference;
        let data = |name: &str| -> Result<Option<HostTensor>, SessionError> {
            let Some((ty, buffer)) = inputs.get(name) else { return Ok(None) };
            let mut tensor = HostTensor::zeros(ty.dtype, &ty.extents())?;
            self.device.read(buffer, 0, tensor.bytes_mut())?;
            Ok(Some(tensor))
        };
        traced_run(stage, ready, (&self.state, self.pipeline.seed, step), &data)
    }

    /// Feeds the inputs of a `Run` stage.
    fn feed(&self, (stage, run): (&Symbol, &RunStage), inference: &Inference) -> Result<(), SessionError> {
        let (given, pipeline, sets) = (&self.given, &self.pipeline, self.resident.sets());
        let values = Values { stage, given, pipeline, sets };
        for (name, (ty, buffer)) in &inference.inputs {
            self.device.write(buffer, 0, values.of_input(run, name, ty)?.bytes())?;
        }
        Ok(())
    }
}

/// The sources of values for inputs of `Run` stages.
struct Values<'v> {
    stage: &'v Symbol,
    /// Values from the caller.
    given: &'v IndexMap<Symbol, Given>,
    pipeline: &'v Pipeline,
    sets: &'v IndexMap<Symbol, DataSet>,
}

impl Values<'_> {
    /// The value of an input with known extents: from the caller, from the stage, or the first rows of the first split of its
    /// data.
    fn of_input(&self, run: &RunStage, name: &Symbol, ty: &Type) -> Result<HostTensor, SessionError> {
        let of_stage = || run.inputs.iter().find(|(input, _)| input == name).map(|(_, given)| given);
        match self.given.get(name).or_else(of_stage) {
            Some(given) => tensor_of(given, ty).map_err(|fault| match fault {
                GivenFault::Unfit(why) => SessionError::Input { input: name.to_string(), why },
                GivenFault::File(source) => {
                    SessionError::InputFile { input: name.to_string(), source: Box::new(source) }
                }
            }),
            None => self.rows_of_data(name, ty),
        }
    }

    fn rows_of_data(&self, name: &Symbol, ty: &Type) -> Result<HostTensor, SessionError> {
        let decl = self.pipeline.inputs.iter().find(|decl| decl.name == *name);
        let Some((data, field)) = decl.and_then(|decl| decl.from.as_ref()) else {
            return Err(self.missing(name, ty));
        };
        let set = self.sets.get(data).ok_or_else(|| self.missing(name, ty))?;
        let split = set.splits.values().next().ok_or_else(|| self.missing(name, ty))?;
        let field = split
            .field(field)
            .map_err(|source| SessionError::Data { data: data.clone(), source: Box::new(source) })?;
        let extents = ty.extents();
        let rows = field.first_rows(extents.first().copied().unwrap_or(0))?;
        match (rows.dtype(), rows.shape()) == (ty.dtype, &extents[..]) {
            true => Ok(rows),
            false => Err(unfit(name, ty, &rows)),
        }
    }

    fn missing(&self, input: &Symbol, ty: &Type) -> SessionError {
        let stages = vec![self.stage.clone()];
        SessionError::NoInput { input: input.to_string(), stages, ty: ty.to_string() }
    }
}
