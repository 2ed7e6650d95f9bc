//! Named tensors in, named tensors out: what serves a trained graph, and `Run` stages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dashmap::DashMap;
use engine_core::ir::{Dim, InputKind, NodeOp, Symbol, Type};
use engine_core::pipeline::{Given, Mode, Pipeline, RunStage};
use engine_core::plan::Place;
use indexmap::{IndexMap, IndexSet};

use super::batches::Ready;
use super::compiling::KEPT;
use super::error::SessionError;
use super::event::{Event, tell_kept};
use super::given::{GivenFault, tensor_of};
use super::plan::StagePlan;
use super::report::{OutputReport, StageReport};
use super::trace::traced_run;
use super::{Session, Subscriber};
use crate::data::source::DataSet;
use crate::device::DeviceBuffer;
use crate::tensor::{HostTensor, type_text};

/// Inferences made ready before, by the nodes asked for, the extents bound and the mode. Threads that ask for different ones do
/// not wait for each other.
pub(super) type Cache = DashMap<(Vec<Symbol>, Vec<(Symbol, usize)>, Mode), Arc<Mutex<Inference>>>;

/// A plan with buffers for its plain inputs.
pub(super) struct Inference {
    pub(super) ready: Ready,
    inputs: IndexMap<Symbol, (Type, DeviceBuffer)>,
}

impl Session {
    /// The named nodes for the given inputs of the pipeline; a node that is named twice is computed once. Named extents are
    /// bound by the inputs' shapes; a plan is made for each binding once. Several threads may call this at once; those of the same binding take turns.
    pub fn run(
        &self,
        outputs: &[Symbol],
        inputs: &IndexMap<String, HostTensor>,
    ) -> Result<IndexMap<String, HostTensor>, SessionError> {
        self.run_in(Mode::Eval, outputs, inputs)
    }

    /// As [`Session::run`], with ops that behave as the mode says.
    pub fn run_in(
        &self,
        mode: Mode,
        outputs: &[Symbol],
        inputs: &IndexMap<String, HostTensor>,
    ) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let extents = self.bind_extents(inputs)?;
        let inference = self.inference(outputs, extents, mode)?;
        let mut inference = inference.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, (ty, buffer)) in &inference.inputs {
            let given = inputs.get(&**name).ok_or_else(|| missing(name, ty))?;
            self.device.write(buffer, 0, given.bytes())?;
        }
        inference.ready.run(0, 1).map_err(|source| SessionError::Run { stage: "predict".into(), source })?;
        inference.read_outputs()
    }

    /// The inference of that binding, from the cache or made for it.
    fn inference(
        &self,
        outputs: &[Symbol],
        extents: Vec<(Symbol, usize)>,
        mode: Mode,
    ) -> Result<Arc<Mutex<Inference>>, SessionError> {
        let outputs: IndexSet<Symbol> = outputs.iter().cloned().collect();
        let key = (outputs.into_iter().collect::<Vec<_>>(), extents, mode);
        if let Some(known) = self.inferences.get(&key) {
            return Ok(Arc::clone(&known));
        }
        // The cache is not locked meanwhile; if two threads make the same one, the first to finish is kept.
        let stage: Symbol = "predict".into();
        let named: Vec<_> = key.0.iter().map(|node| (node.clone(), node.clone())).collect();
        let plan = self.planner.inference(&named, &key.1, mode);
        let plan = plan.map_err(|source| SessionError::Plan { stage: stage.clone(), source })?;
        let plan = StagePlan { plan, graph: Arc::default(), sums: vec![], nan_step: None };
        let made = Arc::new(Mutex::new(self.prepare_inference(&stage, plan)?));
        Ok(Arc::clone(&self.inferences.entry(key).or_insert(made)))
    }

    pub(super) fn running_stage(
        &mut self,
        stage: &Symbol,
        run: &RunStage,
        reported: &mut IndexMap<String, OutputReport>,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, SessionError> {
        let start = Instant::now();
        let mut inference = self.prepare_running(stage, run)?;
        tell(&Event::StageStarted { stage, kind: "run", n_steps: run.steps as u64 });
        let steps_start = Instant::now();
        for step in 0..run.steps {
            self.run_once(stage, &mut inference, step as u32)?;
            let is_last = self.inspection.every.is_none() && step + 1 == run.steps;
            if is_last || self.is_kept_after(step as u64 + 1) {
                tell_kept(stage, step as u64, inference.ready.kept()?, tell);
            }
            if self.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None });
            }
        }
        let stepping = steps_start.elapsed();
        let outputs = inference.read_outputs()?;
        tell(&Event::Outputs { stage, outputs: &outputs });
        reported.extend(outputs.iter().map(|(name, tensor)| (name.clone(), tensor.into())));
        Ok(StageReport {
            name: stage.to_string(),
            kind: "run".to_string(),
            seconds: start.elapsed().as_secs_f64(),
            steps: run.steps as u64,
            step_us: stepping.as_secs_f64() * 1e6 / run.steps.max(1) as f64,
            epochs: vec![],
            end: None,
            metrics: IndexMap::new(),
            kernels_per_step: inference.ready.plan.plan.launches.len(),
            ..StageReport::default()
        }
        .with_memory(self.memory(&[], inference.bytes())?))
    }

    /// A `Run` stage with its inputs fed.
    pub(super) fn prepare_running(&self, stage: &Symbol, run: &RunStage) -> Result<Inference, SessionError> {
        let plan = self.planner.running(run);
        let plan = plan.map_err(|source| SessionError::Plan { stage: stage.clone(), source })?;
        let inference = self.prepare_inference(stage, plan)?;
        self.check_memory(stage, &[], (&inference.ready.plan.plan, inference.bytes()))?;
        self.feed(run, &inference)?;
        Ok(inference)
    }

    fn run_once(&self, stage: &Symbol, inference: &mut Inference, step: u32) -> Result<(), SessionError> {
        if !self.inspection.trace_nan {
            let ran = inference.ready.run(step, 1);
            return ran.map_err(|source| SessionError::Run { stage: stage.clone(), source });
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

    fn prepare_inference(&self, stage: &Symbol, plan: StagePlan) -> Result<Inference, SessionError> {
        self.check_memory(stage, &[], (&plan.plan, plan.plan.arena_bytes))?;
        let executable = self.device.prepare(Arc::clone(&plan.plan), self.pipeline.seed);
        let mut executable = executable.map_err(|error| error.of_plan(&plan.plan))?;
        let mut inputs = IndexMap::new();
        for buffer in &plan.plan.buffers {
            match buffer.place {
                Place::Input(InputKind::Data) => {
                    let fed = self.device.allocate(buffer.ty.bytes());
                    let fed = fed.map_err(|error| error.of_buffer(&buffer.name).of_plan(&plan.plan))?;
                    executable.bind(&buffer.name, &fed)?;
                    inputs.insert(buffer.name.clone(), (buffer.ty.clone(), fed));
                }
                Place::Input(InputKind::Param | InputKind::State) => {
                    let Some(state) = self.state.buffer(&buffer.name) else {
                        engine_core::bug!("`{}` has no state", buffer.name)
                    };
                    executable.bind(&buffer.name, state)?;
                }
                Place::Input(InputKind::Step) | Place::Arena(_) => {}
            }
        }
        Ok(Inference { ready: Ready { plan, executable }, inputs })
    }

    /// Feeds the inputs of a `Run` stage.
    fn feed(&self, run: &RunStage, inference: &Inference) -> Result<(), SessionError> {
        let values = Values { given: &self.given, pipeline: &self.pipeline, sets: self.resident.sets() };
        for (name, (ty, buffer)) in &inference.inputs {
            self.device.write(buffer, 0, values.of_input(run, name, ty)?.bytes())?;
        }
        Ok(())
    }

    /// Gives an input of `Run` stages its value, in place of what the pipeline gives it.
    ///
    /// # Errors
    /// If the graph has no such input.
    pub fn give(&mut self, input: &str, value: Given) -> Result<(), SessionError> {
        if self.input_type(input).is_none() {
            return Err(unknown(input));
        }
        self.given.insert(input.into(), value);
        Ok(())
    }

    /// What the given inputs make of the pipeline's named extents, sorted by name.
    fn bind_extents(
        &self,
        inputs: &IndexMap<String, HostTensor>,
    ) -> Result<Vec<(Symbol, usize)>, SessionError> {
        let mut extents: Vec<(Symbol, usize)> = vec![];
        for (name, given) in inputs {
            let Some(ty) = self.input_type(name) else { return Err(unknown(name)) };
            if given.dtype() != ty.dtype || given.shape().len() != ty.rank() {
                return Err(unfit(name, ty, given));
            }
            for (dim, &extent) in ty.shape.iter().zip(given.shape()) {
                let bound = match dim {
                    Dim::Fixed(expected) => *expected,
                    Dim::Named(dim) => match extents.iter().find(|(bound, _)| bound == dim) {
                        Some((_, bound)) => *bound,
                        None => {
                            extents.push((dim.clone(), extent));
                            extent
                        }
                    },
                };
                if bound != extent {
                    return Err(unfit(name, ty, given));
                }
            }
        }
        extents.sort();
        Ok(extents)
    }

    pub(super) fn input_type(&self, name: &str) -> Option<&Type> {
        let nodes = self.pipeline.graph.nodes.iter();
        let mut inputs = nodes.filter(|node| node.op == NodeOp::Input(InputKind::Data));
        inputs.find(|node| **node.name() == *name).map(|node| &node.outputs[0].ty)
    }
}

impl Inference {
    /// Bytes that its plan takes on the device, beside state and data.
    fn bytes(&self) -> usize {
        let inputs: usize = self.inputs.values().map(|(_, buffer)| buffer.bytes()).sum();
        inputs + self.ready.executable.arena_bytes() + self.ready.executable.scratch_bytes()
    }

    /// What was asked for, without what is kept besides.
    fn read_outputs(&self) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let outputs = self.ready.outputs(|name| !name.starts_with(KEPT))?.into_iter();
        Ok(outputs.map(|(name, value)| (name.to_string(), value)).collect())
    }
}

/// Where the inputs of `Run` stages come from.
pub(super) struct Values<'v> {
    /// What the caller gives.
    pub(super) given: &'v IndexMap<Symbol, Given>,
    pub(super) pipeline: &'v Pipeline,
    pub(super) sets: &'v IndexMap<Symbol, DataSet>,
}

impl Values<'_> {
    /// The value of an input whose extents are known: what the caller gives, what the stage gives, or the first rows of
    /// the first split of its data.
    pub(super) fn of_input(
        &self,
        run: &RunStage,
        name: &Symbol,
        ty: &Type,
    ) -> Result<HostTensor, SessionError> {
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
            return Err(missing(name, ty));
        };
        let set = self.sets.get(data).ok_or_else(|| missing(name, ty))?;
        let split = set.splits.values().next().ok_or_else(|| missing(name, ty))?;
        let rows = split
            .field(field)
            .map_err(|source| SessionError::Data { data: data.clone(), source: Box::new(source) })?;
        let extents = ty.extents();
        let rows = rows.first_rows(extents.first().copied().unwrap_or(0))?;
        match (rows.dtype(), rows.shape()) == (ty.dtype, &extents[..]) {
            true => Ok(rows),
            false => Err(unfit(name, ty, &rows)),
        }
    }
}

fn missing(name: &str, ty: &Type) -> SessionError {
    SessionError::NoInput { input: name.to_string(), ty: ty.to_string() }
}

fn unknown(name: &str) -> SessionError {
    SessionError::Input { input: name.to_string(), why: "the graph has no such input".to_string() }
}

fn unfit(name: &str, ty: &Type, given: &HostTensor) -> SessionError {
    let given = type_text(given.dtype(), given.shape());
    SessionError::Input { input: name.to_string(), why: format!("it is {ty}, {given} was given") }
}
