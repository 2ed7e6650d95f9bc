//! The steps of a language model with a cache.

use std::sync::Arc;

use engine_core::ir::{DType, Symbol};
use engine_core::pipeline::GenerateStage;
use engine_core::stage::{Generation, StageIssue};
use indexmap::IndexMap;

use super::base::Session;
use super::error::{SessionError, StageFault};
use super::plan::Request;
use super::prepared::Inference;
use super::state::carried;
use crate::device::{Device, DeviceBuffer};
use crate::tensor::HostTensor;

/// The numbers of tokens for which steps have plans, so that a prompt of any length compiles nothing.
const SIZES: [usize; 3] = [256, 16, 1];
/// A step may take so many times the tokens that are left. The others are padding, which later steps overwrite.
const MOST_PADDING: usize = 4;

/// A language model with a cache of what it computed for earlier tokens.
///
/// All texts have one length at a time: the position of the next token. A longer prompt is fed while shorter ones are
/// continued, so no text is padded.
pub(super) struct Decoder {
    device: Arc<dyn Device>,
    /// By number of tokens, descending to 1.
    plans: Vec<(usize, Inference)>,
    tokens: Symbol,
    logits: Symbol,
    dtype: DType,
    n_texts: usize,
    cache_bytes: usize,
    /// The most tokens of a text.
    pub(super) capacity: usize,
    n_seen: usize,
}

impl Session {
    /// Prepares the steps for texts of up to `capacity` tokens.
    pub(super) fn decoder(
        &self,
        name: &Symbol,
        stage: &GenerateStage,
        model: &Generation,
        capacity: usize,
    ) -> Result<Decoder, SessionError> {
        self.decoder_of(name, stage, model, (capacity, &SIZES))
    }

    /// Prepares the step of one token alone, for texts of up to `capacity` tokens. The tokens are zeros.
    pub(super) fn token_decoder(
        &self,
        name: &Symbol,
        stage: &GenerateStage,
        model: &Generation,
        capacity: usize,
    ) -> Result<Decoder, SessionError> {
        let mut decoder = self.decoder_of(name, stage, model, (capacity, &[1]))?;
        decoder.feed(name, 0, 0, &[vec![]])?;
        Ok(decoder)
    }

    fn decoder_of(
        &self,
        name: &Symbol,
        stage: &GenerateStage,
        model: &Generation,
        (capacity, sizes): (usize, &[usize]),
    ) -> Result<Decoder, SessionError> {
        let n_texts = model.rows.fixed().unwrap_or(stage.prompts.len());
        let extents = model.extents(n_texts, capacity);
        let (mut caches, mut plans) = (IndexMap::new(), vec![]);
        for n_new in sizes.iter().copied().filter(|size| *size <= capacity) {
            let request = Request::Decoding { stage, extents: &extents, n_new };
            let plan = self.planner.plan_for(name, &request)?;
            self.add_caches(&plan.plan, &mut caches)?;
            plans.push((n_new, self.prepare_with(name, plan, &caches)?));
        }
        let dtype = self.input_type(&stage.tokens).map_or(DType::I32, |ty| ty.dtype);
        let (tokens, logits) = (stage.tokens.clone(), stage.logits.clone());
        let device = Arc::clone(&self.device);
        let cache_bytes = caches.values().map(DeviceBuffer::bytes).sum();
        Ok(Decoder { device, plans, tokens, logits, dtype, n_texts, cache_bytes, capacity, n_seen: 0 })
    }

    fn add_caches(
        &self,
        plan: &engine_core::plan::Plan,
        caches: &mut IndexMap<Symbol, DeviceBuffer>,
    ) -> Result<(), SessionError> {
        for (name, ty) in carried(plan) {
            if self.state.buffer(name).is_none() && !caches.contains_key(name) {
                let buffer =
                    self.device.allocate(ty.bytes()).map_err(|error| error.of_buffer(name).of_plan(plan))?;
                caches.insert(name.clone(), buffer);
            }
        }
        Ok(())
    }
}

impl Decoder {
    /// The bytes of its plans and its cache on the device.
    pub(super) fn bytes(&self) -> usize {
        self.cache_bytes + self.plans.iter().map(|(_, plan)| plan.bytes()).sum::<usize>()
    }

    /// The launches of a step that takes one token.
    pub(super) fn n_kernels(&self) -> usize {
        self.plans.last().map_or(0, |(_, step)| step.ready.plan.plan.launches.len())
    }

    /// The step that takes one token.
    pub(super) fn token_step(&self) -> &Inference {
        let Some((_, step)) = self.plans.last() else { engine_core::bug!("no step takes one token") };
        step
    }

    /// As [`Decoder::token_step`], to run it.
    pub(super) fn token_step_mut(&mut self) -> &mut Inference {
        let Some((_, step)) = self.plans.last_mut() else { engine_core::bug!("no step takes one token") };
        step
    }

    /// The logits of the next token of each text, `[texts, classes]`. The texts continue those of the last call.
    pub(super) fn next(&mut self, stage: &Symbol, texts: &[Vec<u32>]) -> Result<HostTensor, SessionError> {
        let last = texts[0].len() - 1;
        while self.n_seen < last {
            let plan = self.plan_for(last - self.n_seen);
            self.feed(stage, plan, self.n_seen, texts)?;
            self.n_seen = (self.n_seen + self.plans[plan].0).min(last);
        }
        self.feed(stage, self.plans.len() - 1, last, texts)?;
        self.n_seen = last + 1;
        self.logits()
    }

    /// The plan that feeds the most of so many tokens at once.
    fn plan_for(&self, n_left: usize) -> usize {
        let room = self.capacity - self.n_seen;
        let mut fitting = (0..self.plans.len()).rev().filter(|&plan| self.plans[plan].0 <= room);
        let covers = |&plan: &usize| (n_left..=MOST_PADDING * n_left).contains(&self.plans[plan].0);
        fitting.clone().find(covers).unwrap_or_else(|| {
            let largest = fitting.rfind(|&plan| self.plans[plan].0 <= n_left);
            largest.unwrap_or_else(|| engine_core::bug!("no step takes one token"))
        })
    }

    /// Runs a plan on the tokens from `position` on. Tokens behind the end of a text are zeros.
    fn feed(
        &mut self,
        stage: &Symbol,
        plan: usize,
        position: usize,
        texts: &[Vec<u32>],
    ) -> Result<(), SessionError> {
        let (n_new, inference) = &mut self.plans[plan];
        let mut elements = Vec::with_capacity(self.n_texts * *n_new);
        for row in 0..self.n_texts {
            let text = texts.get(row).unwrap_or(&texts[0]);
            let tokens =
                (position..position + *n_new).map(|at| text.get(at).map_or(0, |&token| token as i32));
            elements.extend(tokens);
        }
        let tokens = HostTensor::from_slice(&[self.n_texts, *n_new], &elements)?.cast(self.dtype)?;
        if let Some((_, buffer)) = inference.inputs.get(&self.tokens) {
            self.device.write(buffer, 0, tokens.bytes())?;
        }
        let ran = inference.ready.run(position as u32, 1);
        ran.map_err(|source| SessionError::Run { stage: stage.clone(), source })
    }

    fn logits(&self) -> Result<HostTensor, SessionError> {
        let logits = self.token_step().read_outputs()?;
        Ok(logits[&*self.logits].cast(DType::F32)?)
    }

    /// Fails if the logits of a token depend on later tokens. The cache is of no meaning afterwards.
    pub(super) fn expect_causal(&mut self, stage: &Symbol, first: u32) -> Result<(), SessionError> {
        let (plan, n_later) = match self.plans.len() {
            1 => (0, 1),
            n => (n - 2, self.plans[n - 2].0 - 1),
        };
        let mut before = |later: u32| {
            let text = [vec![first], vec![later; n_later]].concat();
            let position = if self.plans[plan].0 == 1 { 1.min(self.capacity - 1) } else { 0 };
            self.feed(stage, plan, position, std::slice::from_ref(&text))?;
            self.feed(stage, self.plans.len() - 1, 0, &[text])?;
            self.logits()
        };
        let (zeros, ones) = (before(0)?, before(1)?);
        let (zeros, ones) = (zeros.as_slice::<f32>()?, ones.as_slice::<f32>()?);
        let largest = zeros.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        if zeros.iter().zip(ones).all(|(a, b)| (a - b).abs() <= 1e-4 * largest || a.to_bits() == b.to_bits())
        {
            return Ok(());
        }
        let message = format!("`{}` of a token depends on the tokens behind it", self.logits);
        let help =
            "hide them, as by `attention(…, causal=true)`; a model of another kind needs `cache: false`";
        Err(SessionError::plan(stage, StageFault(StageIssue::new(message, None).help(help))))
    }
}
