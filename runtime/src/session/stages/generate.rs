//! `Generate` stages: a text, a token at a time.

use std::path::Path;
use std::time::Instant;

use engine_core::compile::Compiled;
use engine_core::ir::{DType, Symbol, stream_of};
use engine_core::pipeline::GenerateStage;
use engine_core::stage::{Generation, generation};
use indexmap::IndexMap;

use super::runnable::{Checking, Compiling, Runnable, StageRun, Stopped};
use crate::data::results;
use crate::data::tokenizer::{Tokenizer, TokenizerError, TokenizerFact};
use crate::files::Format;
use crate::philox::WordStream;
use crate::sampling::sample;
use crate::session::error::{SessionError, StageFault};
use crate::session::event::Event;
use crate::session::plan::Request;
use crate::session::report::StageReport;
use crate::session::{Session, Subscriber};
use crate::tensor::HostTensor;

impl Runnable for GenerateStage {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let start = Instant::now();
        let planned = generation(&run.session.pipeline, self);
        let model = planned.map_err(|issue| SessionError::plan(run.name, StageFault(issue)))?;
        let kind = "generate";
        (run.tell)(&Event::StageStarted { stage: run.name, kind, n_steps: self.length as u64 });
        let tokenizer = tokenizer_of(self)?;
        let prompt = tokenizer.encode(&self.prompt).map_err(|fact| fault(self, fact))?;
        let mut text = Text { bytes: self.prompt.clone().into_bytes(), n_shown: 0 };
        let (first, mut tokens) = (text.bytes.len(), prompt.clone());
        let mut draws = WordStream::new(run.session.pipeline.seed, stream_of(run.name), 0);
        text.show(run.name, run.tell);
        let stepping = Instant::now();
        while tokens.len() < prompt.len() + self.length && !text.ends_with(self.stop.as_deref(), first) {
            let logits = next_logits(run.session, self, &model, &tokens)?;
            let token = sample(&logits, &self.sampling, f64::from(draws.unit())) as u32;
            tokens.push(token);
            text.bytes.extend_from_slice(tokenizer.token(token).unwrap_or_default());
            text.show(run.name, run.tell);
            if run.session.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None }.into());
            }
        }
        let steps = (tokens.len() - prompt.len()) as u64;
        let step_us = stepping.elapsed().as_secs_f64() * 1e6 / steps.max(1) as f64;
        text.end(run.name, run.tell);
        if let Some(path) = self.write.as_deref().map(Path::new) {
            let failed = |source| SessionError::Output { path: path.to_path_buf(), source };
            results::write_text(&text.bytes, path).map_err(failed)?;
            (run.tell)(&Event::ResultsWritten { path });
        }
        let text = Some(String::from_utf8_lossy(&text.bytes).into_owned());
        Ok(Some(StageReport { steps, step_us, text, ..run.report(kind, start) }))
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        checking.planned(generation(checking.pipeline, self))?;
        tokenizer_of(self).map(|_| vec![])
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        let planned = generation(compiling.pipeline(), self);
        let model = planned.map_err(|issue| SessionError::plan(compiling.name, StageFault(issue)))?;
        let outputs = [(self.logits.clone(), self.logits.clone())];
        let extents = model.extents(model.window(self.prompt.len() + 1));
        let behaviour = (self.mode, self.precision).into();
        compiling.compile(&Request::Inference { outputs: &outputs, extents: &extents, behaviour })
    }

    fn files(&self) -> Vec<(&Path, &'static Format)> {
        self.write.iter().map(|path| (Path::new(path), &results::RESULTS)).collect()
    }
}

fn tokenizer_of(stage: &GenerateStage) -> Result<Tokenizer, SessionError> {
    let Some(path) = &stage.tokenizer else { return Ok(Tokenizer::bytes()) };
    Tokenizer::read(Path::new(path)).map_err(|error| fault(stage, error.fact))
}

fn fault(stage: &GenerateStage, fact: TokenizerFact) -> SessionError {
    let path = stage.tokenizer.clone().unwrap_or_default().into();
    let error = TokenizerError { path, fact };
    SessionError::Data { data: stage.tokens.clone(), source: Box::new(error.into()) }
}

/// The logits of the token after the text. The model sees the end of a text that is longer than its window. Tokens
/// behind the text are zeros, which a causal model does not see.
fn next_logits(
    session: &Session,
    stage: &GenerateStage,
    model: &Generation,
    text: &[u32],
) -> Result<Vec<f32>, SessionError> {
    let window = model.window(text.len());
    let seen = &text[text.len().saturating_sub(window)..];
    let rows = model.rows.fixed().unwrap_or(1);
    let mut elements = vec![0i32; rows * window];
    elements.iter_mut().zip(seen).for_each(|(element, &token)| *element = token as i32);
    let dtype = session.input_type(&stage.tokens).map_or(DType::I32, |ty| ty.dtype);
    let tokens = HostTensor::from_slice(&[rows, window], &elements)?.cast(dtype)?;
    let inputs = IndexMap::from([(stage.tokens.to_string(), tokens)]);
    let logits =
        session.run_in((stage.mode, stage.precision), std::slice::from_ref(&stage.logits), &inputs)?;
    let logits = logits[&*stage.logits].cast(DType::F32)?;
    let last = seen.len().max(1) - 1;
    Ok(logits.as_slice::<f32>()?[last * model.n_classes..][..model.n_classes].to_vec())
}

/// The text so far, and the bytes of it that were shown.
struct Text {
    bytes: Vec<u8>,
    n_shown: usize,
}

impl Text {
    /// Shows the whole characters that are new.
    fn show(&mut self, stage: &Symbol, tell: &mut Subscriber<'_>) {
        const LONGEST: usize = 4;
        let new = &self.bytes[self.n_shown..];
        let whole = match std::str::from_utf8(new) {
            Ok(_) => new.len(),
            Err(fault) if new.len() - fault.valid_up_to() < LONGEST => fault.valid_up_to(),
            Err(_) => new.len(),
        };
        if whole > 0 {
            tell(&Event::Generated { stage, text: &String::from_utf8_lossy(&new[..whole]) });
            self.n_shown += whole;
        }
    }

    /// Shows the rest.
    fn end(&mut self, stage: &Symbol, tell: &mut Subscriber<'_>) {
        let rest = String::from_utf8_lossy(&self.bytes[self.n_shown..]);
        tell(&Event::Generated { stage, text: &format!("{rest}\n") });
    }

    fn ends_with(&self, stop: Option<&str>, first: usize) -> bool {
        stop.is_some_and(|stop| self.bytes[first..].ends_with(stop.as_bytes()))
    }
}
