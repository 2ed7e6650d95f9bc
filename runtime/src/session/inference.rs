//! Named tensors in, named tensors out: what serves a trained graph, and `Run` stages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dashmap::DashMap;
use engine_core::ir::{Dim, InputKind, NodeOp, Symbol, Type};
use engine_core::pipeline::RunStage;
use engine_core::plan::Place;
use indexmap::IndexMap;

use super::batches::Ready;
use super::compiling::KEPT;
use super::error::SessionError;
use super::event::{Event, tell_kept};
use super::plan::StagePlan;
use super::report::{OutputReport, StageReport};
use super::trace::traced_run;
use super::{Session, Subscriber};
use crate::device::DeviceBuffer;
use crate::tensor::{HostTensor, type_text};

/// Inferences made ready before, by the nodes asked for and the extents bound. Threads that ask for different ones do
/// not wait for each other.
pub(super) type Cache = DashMap<(Vec<Symbol>, Vec<(Symbol, usize)>), Arc<Mutex<Inference>>>;

/// A plan with buffers for its plain inputs.
pub(super) struct Inference {
    pub(super) ready: Ready,
    inputs: IndexMap<Symbol, (Type, DeviceBuffer)>,
}

impl Session {
    /// The named nodes for the given inputs of the pipeline. Named extents are bound by the inputs' shapes; a plan is
    /// made for each binding once. Several threads may call this at once; those of the same binding take turns.
    pub fn run(
        &self,
        outputs: &[Symbol],
        inputs: &IndexMap<String, HostTensor>,
    ) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let extents = self.bind_extents(inputs)?;
        let inference = self.inference(outputs, extents)?;
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
    ) -> Result<Arc<Mutex<Inference>>, SessionError> {
        let key = (outputs.to_vec(), extents);
        if let Some(known) = self.inferences.get(&key) {
            return Ok(Arc::clone(&known));
        }
        // The cache is not locked meanwhile; if two threads make the same one, the first to finish is kept.
        let stage: Symbol = "predict".into();
        let named: Vec<_> = outputs.iter().map(|node| (node.clone(), node.clone())).collect();
        let plan = self.planner.inference(&named, &key.1);
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
            metrics: IndexMap::new(),
            kernels_per_step: inference.ready.plan.plan.launches.len(),
            peak_bytes: inference.ready.executable.arena_bytes(),
        })
    }

    /// A `Run` stage with its inputs fed.
    pub(super) fn prepare_running(&self, stage: &Symbol, run: &RunStage) -> Result<Inference, SessionError> {
        let plan = self.planner.running(run);
        let plan = plan.map_err(|source| SessionError::Plan { stage: stage.clone(), source })?;
        let inference = self.prepare_inference(stage, plan)?;
        let executable = &inference.ready.executable;
        let bytes = executable.arena_bytes() + executable.scratch_bytes();
        self.check_memory(stage, &[], (&inference.ready.plan.plan, bytes))?;
        self.feed_from_data(&inference)?;
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

    /// Feeds inputs that come from data with the first rows of the set's first split.
    fn feed_from_data(&self, inference: &Inference) -> Result<(), SessionError> {
        for (name, (ty, buffer)) in &inference.inputs {
            let decl = self.pipeline.inputs.iter().find(|decl| decl.name == *name);
            let Some((data, field)) = decl.and_then(|decl| decl.from.as_ref()) else {
                return Err(missing(name, ty));
            };
            let set = self.resident.set(data).ok_or_else(|| missing(name, ty))?;
            let split = set.splits.values().next().ok_or_else(|| missing(name, ty))?;
            let rows =
                split.field(field).map_err(|source| SessionError::Data { data: data.clone(), source })?;
            let extents = ty.extents();
            let rows = rows.first_rows(extents.first().copied().unwrap_or(0));
            if (rows.dtype(), rows.shape()) != (ty.dtype, &extents[..]) {
                return Err(unfit(name, ty, &rows));
            }
            self.device.write(buffer, 0, rows.bytes())?;
        }
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
    /// What was asked for, without what is kept besides.
    fn read_outputs(&self) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let outputs = self.ready.outputs(|name| !name.starts_with(KEPT))?.into_iter();
        Ok(outputs.map(|(name, value)| (name.to_string(), value)).collect())
    }
}

fn missing(name: &str, ty: &Type) -> SessionError {
    SessionError::Input { input: name.to_string(), why: format!("nothing is given for it, it is {ty}") }
}

fn unknown(name: &str) -> SessionError {
    SessionError::Input { input: name.to_string(), why: "the graph has no such input".to_string() }
}

fn unfit(name: &str, ty: &Type, given: &HostTensor) -> SessionError {
    let given = type_text(given.dtype(), given.shape());
    SessionError::Input { input: name.to_string(), why: format!("it is {ty}, {given} was given") }
}
