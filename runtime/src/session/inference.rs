//! Inference: named tensors in, named tensors out.

use std::sync::{Arc, Mutex, PoisonError};

use engine_core::ir::{Dim, InputKind, NodeOp, Symbol, Type};
use engine_core::pipeline::{Behaviour, Given, Mode};
use engine_core::plan::Place;
use indexmap::{IndexMap, IndexSet};

use super::base::Session;
use super::batches::Ready;
use super::error::SessionError;
use super::plan::{Request, StagePlan};
use super::prepared::Inference;
use crate::device::DeviceBuffer;
use crate::tensor::{HostTensor, type_text};

impl Session {
    /// The named nodes for the given inputs of the pipeline. A node that is named twice is computed once.
    ///
    /// The inputs' shapes bind named extents, and each binding is planned once. Several threads may call this at once;
    /// threads of one binding take turns.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// use engine::runtime::tensor::HostTensor;
    ///
    /// let x = HostTensor::from_slice(&[2], &[1.0f32, 3.0])?;
    /// let outputs = session.run(&["y".into()], &[("x".to_string(), x)].into_iter().collect())?;
    /// assert_eq!(outputs["y"].as_slice::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(
        &self,
        outputs: &[Symbol],
        inputs: &IndexMap<String, HostTensor>,
    ) -> Result<IndexMap<String, HostTensor>, SessionError> {
        self.run_in((Mode::Eval, self.pipeline.precision), outputs, inputs)
    }

    /// As [`Session::run`], with ops that behave in this way.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// use engine::core::pipeline::{MixedPrecision, Mode};
    /// use engine::runtime::tensor::HostTensor;
    ///
    /// let x = HostTensor::from_slice(&[2], &[1.0f32, 3.0])?;
    /// let inputs = [("x".to_string(), x)].into_iter().collect();
    /// let outputs = session.run_in((Mode::Train, MixedPrecision::default()), &["y".into()], &inputs)?;
    /// assert_eq!(outputs["y"].as_slice::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_in(
        &self,
        behaviour: impl Into<Behaviour>,
        outputs: &[Symbol],
        inputs: &IndexMap<String, HostTensor>,
    ) -> Result<IndexMap<String, HostTensor>, SessionError> {
        let extents = self.bind_extents(inputs)?;
        let inference = self.inference(outputs, extents, behaviour.into())?;
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
        behaviour: Behaviour,
    ) -> Result<Arc<Mutex<Inference>>, SessionError> {
        let outputs: IndexSet<Symbol> = outputs.iter().cloned().collect();
        let key = (outputs.into_iter().collect::<Vec<_>>(), extents, behaviour);
        if let Some(known) = self.inferences.get(&key) {
            return Ok(Arc::clone(&known));
        }
        // The cache is not locked during the preparation. If two threads prepare one inference, the first result stays.
        let stage: Symbol = "predict".into();
        let named: Vec<_> = key.0.iter().map(|node| (node.clone(), node.clone())).collect();
        let request = Request::Inference { outputs: &named, extents: &key.1, fixed: &[], behaviour };
        let plan = self.planner.plan_for(&stage, &request)?;
        let prepared = Arc::new(Mutex::new(self.prepare_inference(&stage, plan)?));
        Ok(Arc::clone(&self.inferences.entry(key).or_insert(prepared)))
    }

    pub(super) fn prepare_inference(
        &self,
        stage: &Symbol,
        plan: StagePlan,
    ) -> Result<Inference, SessionError> {
        self.prepare_with(stage, plan, &IndexMap::new())
    }

    /// As [`Session::prepare_inference`], with state of its own.
    pub(super) fn prepare_with(
        &self,
        stage: &Symbol,
        plan: StagePlan,
        own: &IndexMap<Symbol, DeviceBuffer>,
    ) -> Result<Inference, SessionError> {
        let own_bytes: usize = own.values().map(DeviceBuffer::bytes).sum();
        self.check_memory(stage, &[], (&plan.plan, plan.plan.bytes() + own_bytes))?;
        let executable = self.device.prepare(Arc::clone(&plan.plan), self.pipeline.seed);
        let mut executable = executable.map_err(|error| error.of_plan(&plan.plan))?;
        let mut inputs = IndexMap::new();
        for buffer in plan.plan.inputs() {
            if buffer.place == Place::Input(InputKind::Data) {
                let fed = self.device.allocate(buffer.ty.bytes());
                let fed = fed.map_err(|error| error.of_buffer(&buffer.name).of_plan(&plan.plan))?;
                executable.bind(&buffer.name, &fed)?;
                inputs.insert(buffer.name.clone(), (buffer.ty.clone(), fed));
                continue;
            }
            let state = self.state.buffer(&buffer.name).or_else(|| own.get(&buffer.name));
            let Some(state) = state else { engine_core::bug!("`{}` has no state", buffer.name) };
            executable.bind(&buffer.name, state)?;
        }
        Ok(Inference { ready: Ready { plan, executable }, inputs })
    }

    /// Gives an input of `Run` stages its value, in place of the pipeline's.
    ///
    /// ```
    #[doc = include_str!("examples/multiply.md")]
    /// use engine::core::ir::Literal;
    /// use engine::core::pipeline::Given;
    ///
    /// let elements = vec![Literal::Float(1.0), Literal::Float(2.0)];
    /// session.give("x", Given::Elements { shape: vec![2], elements })?;
    /// let report = session.run_stages(None, &mut |_| {})?;
    /// assert_eq!(report.outputs["y"].values.to_f64(), [2.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// The pipeline's named extents as the given inputs bind them, sorted by name.
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
                    Dim::Polynomial(_) => return Err(unfit(name, ty, given)),
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

fn missing(name: &str, ty: &Type) -> SessionError {
    SessionError::NoInput { input: name.to_string(), stages: vec![], ty: ty.to_string() }
}

fn unknown(name: &str) -> SessionError {
    SessionError::Input { input: name.to_string(), why: "the graph has no such input".to_string() }
}

pub(super) fn unfit(name: &str, ty: &Type, given: &HostTensor) -> SessionError {
    let given = type_text(given.dtype(), given.shape());
    SessionError::Input { input: name.to_string(), why: format!("it is {ty}, {given} was given") }
}
