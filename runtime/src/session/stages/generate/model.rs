//! The logits of the next tokens: by a cache, or by a run of all tokens that the model sees.

use std::collections::VecDeque;

use engine_core::ir::DType;
use engine_core::pipeline::GenerateStage;
use engine_core::stage::{Generation, StageIssue, generation};
use indexmap::IndexMap;

use super::text::Text;
use crate::session::Session;
use crate::session::decoder::Decoder;
use crate::session::error::{SessionError, StageFault};
use crate::session::stages::StageRun;
use crate::tensor::HostTensor;

/// A language model that is ready to run.
pub struct Model {
    shape: Generation,
    /// By the size of the cache, ascending. The first one is in use; texts that outgrow it are fed to the next one.
    decoders: VecDeque<Decoder>,
    size: (usize, usize),
}

impl Model {
    /// Prepares the model for these texts.
    pub fn new(run: &StageRun<'_, '_>, stage: &GenerateStage, texts: &[Text]) -> Result<Model, SessionError> {
        let planned = generation(&run.session.pipeline, stage);
        let shape = planned.map_err(|issue| SessionError::plan(run.name, StageFault(issue)))?;
        let longest = texts.iter().map(|text| text.tokens.len()).max().unwrap_or_default();
        if !stage.cache || longest == 0 || shape.context < 2 {
            return Ok(Model { shape, decoders: VecDeque::new(), size: (0, 0) });
        }
        let sizes = shape.caches(longest + 1, longest + stage.length).into_iter();
        let decoder = |size| run.session.decoder(run.name, stage, &shape, size);
        let mut decoders: VecDeque<Decoder> = sizes.map(decoder).collect::<Result<_, _>>()?;
        if let Some(first) = decoders.front_mut() {
            first.expect_causal(run.name, texts[0].tokens[0])?;
        }
        let bytes = decoders.iter().map(Decoder::bytes).sum();
        let size = (bytes, decoders.back().map_or(0, Decoder::n_kernels));
        Ok(Model { shape, decoders, size })
    }

    /// Classes of a token.
    pub fn n_classes(&self) -> usize {
        self.shape.n_classes
    }

    /// The bytes of the steps on the device, and the kernels of one. Without a cache, neither is known.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The logits that follow the first `length` tokens of each text.
    pub fn next(
        &mut self,
        run: &StageRun<'_, '_>,
        stage: &GenerateStage,
        texts: &[Text],
        length: usize,
    ) -> Result<Vec<f32>, SessionError> {
        if length > self.shape.context && !stage.slide {
            return Err(too_long(run, stage, self.shape.context));
        }
        // A text that is done is fed zeros.
        let tokens = |text: &Text| {
            let mut tokens = text.tokens.clone();
            tokens.resize(length, 0);
            tokens
        };
        let texts: Vec<Vec<u32>> = texts.iter().map(tokens).collect();
        while self.decoders.front().is_some_and(|decoder| decoder.capacity < length) {
            self.decoders.pop_front();
        }
        match self.decoders.front_mut() {
            Some(decoder) => Ok(decoder.next(run.name, &texts)?.as_slice::<f32>()?.to_vec()),
            None => self.all(run.session, stage, &texts),
        }
    }

    /// The logits by a run of all tokens. The model sees the end of a text that is longer than its window. Tokens behind
    /// the text are zeros, which a causal model does not see.
    fn all(
        &self,
        session: &Session,
        stage: &GenerateStage,
        texts: &[Vec<u32>],
    ) -> Result<Vec<f32>, SessionError> {
        let length = texts[0].len();
        let window = self.shape.window(length);
        let rows = self.shape.rows.fixed().unwrap_or(texts.len());
        let mut elements = vec![0i32; rows * window];
        for (row, text) in elements.chunks_exact_mut(window).zip(texts) {
            let seen = &text[length.saturating_sub(window)..];
            row.iter_mut().zip(seen).for_each(|(element, &token)| *element = token as i32);
        }
        let dtype = session.input_type(&stage.tokens).map_or(DType::I32, |ty| ty.dtype);
        let tokens = HostTensor::from_slice(&[rows, window], &elements)?.cast(dtype)?;
        let inputs = IndexMap::from([(stage.tokens.to_string(), tokens)]);
        let logits =
            session.run_in((stage.mode, stage.precision), std::slice::from_ref(&stage.logits), &inputs)?;
        let logits = logits[&*stage.logits].cast(DType::F32)?;
        let last = length.clamp(1, window) - 1;
        let n_classes = self.shape.n_classes;
        let of_rows = logits.as_slice::<f32>()?.chunks_exact(window * n_classes);
        Ok(of_rows.flat_map(|row| &row[last * n_classes..][..n_classes]).copied().collect())
    }
}

fn too_long(run: &StageRun<'_, '_>, stage: &GenerateStage, context: usize) -> SessionError {
    let message = format!("a text of `{}` has reached the {context} tokens that the model sees", run.name);
    let help = match run.session.input_type(&stage.tokens).and_then(|ty| ty.shape[1].fixed()) {
        Some(_) => "write `slide: true`, with which the model sees the end of the text",
        None => "raise `context`, or write `slide: true`, with which the model sees the end of the text",
    };
    SessionError::plan(run.name, StageFault(StageIssue::new(message, None).help(help)))
}
