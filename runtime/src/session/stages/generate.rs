//! `Generate` stages: texts, a token at a time.

mod model;
mod output;
mod steps;
mod text;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine_core::compile::Compiled;
use engine_core::ir::{Symbol, stream_of};
use engine_core::pipeline::{GenerateStage, Pipeline};
use engine_core::stage::generation;
use indexmap::IndexMap;

use super::runnable::{Checking, Compiling, Runnable, Steps};
use super::stage_run::{StageRun, Stopped};
use crate::data::source::DataSet;
use crate::data::tokenizer::{Tokenizer, TokenizerError, TokenizerFact};
use crate::files::Format;
use crate::philox::WordStream;
use crate::sampling::sample;
use crate::session::Session;
use crate::session::error::{SessionError, StageFault};
use crate::session::event::Event;
use crate::session::plan::Request;
use crate::session::report::StageReport;
use model::Model;
use output::Output;
use steps::TokenSteps;
use text::Text;

impl Runnable for GenerateStage {
    fn run(&self, mut run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let start = Instant::now();
        let kind = "generate";
        (run.tell)(&Event::StageStarted { stage: run.name, kind, n_steps: self.length as u64 });
        let tokenizer = tokenizer_of(self, run.name, (&run.session.pipeline, run.session.resident.sets()))?;
        let mut texts = texts(self, &run, &tokenizer)?;
        let mut model = Model::new(&run, self, &texts)?;
        let (steps, step_us) = write(self, &mut run, &mut model, &tokenizer, &mut texts)?;
        if let Some(path) = self.write.as_deref().map(Path::new) {
            (run.tell)(&Event::ResultsWritten { path });
        }
        let tokens = Some(texts.iter().map(|text| text.n_drawn() as u64).sum());
        let texts = texts.iter().map(|text| String::from_utf8_lossy(&text.bytes).into_owned()).collect();
        let (bytes, kernels_per_step) = model.size();
        let report =
            StageReport { steps, step_us, tokens, texts, kernels_per_step, ..run.report(kind, start) };
        Ok(Some(report.with_memory(run.session.memory(&[], bytes)?)))
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        tokenizer_of(self, checking.name, (checking.pipeline, checking.sets)).map(|_| vec![])
    }

    /// With a cache, the steps of one token.
    fn steps(&self, session: &mut Session, name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        if !self.cache {
            return Ok(None);
        }
        let planned = generation(&session.pipeline, self);
        let model = planned.map_err(|issue| SessionError::plan(name, StageFault(issue)))?;
        let capacity = model.window(longest(self));
        Ok(Some(Box::new(TokenSteps(session.token_decoder(name, self, &model, capacity)?))))
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        let planned = generation(compiling.pipeline(), self);
        let model = planned.map_err(|issue| SessionError::plan(compiling.name, StageFault(issue)))?;
        let extents = model.extents(self.prompts.len(), model.window(longest(self)));
        if self.cache {
            return compiling.compile(&Request::Decoding { stage: self, extents: &extents, n_new: 1 });
        }
        let outputs = [(self.logits.clone(), self.logits.clone())];
        let behaviour = (self.mode, self.precision).into();
        compiling.compile(&Request::Inference { outputs: &outputs, extents: &extents, fixed: &[], behaviour })
    }

    fn files(&self) -> Vec<(&Path, &'static Format)> {
        self.write.iter().map(|path| (Path::new(path), output::format_of(Path::new(path)))).collect()
    }
}

/// The most tokens of a text, if each byte of a prompt is one.
fn longest(stage: &GenerateStage) -> usize {
    stage.prompts.iter().map(String::len).max().unwrap_or(1) + stage.length
}

/// The prompts. Each text draws by a random stream of its own, so it does not depend on the others.
fn texts(
    stage: &GenerateStage,
    run: &StageRun<'_, '_>,
    tokenizer: &Tokenizer,
) -> Result<Vec<Text>, SessionError> {
    let (seed, stream) = (run.session.pipeline.seed, stream_of(run.name));
    let prompts = stage.prompts.iter().enumerate();
    let text = |(number, prompt): (usize, &String)| {
        let tokens = tokenizer.encode(prompt).map_err(|fact| fault(stage, fact))?;
        Ok(Text::new(prompt, tokens, WordStream::new(seed, stream, number as u64)))
    };
    prompts.map(text).collect()
}

/// Draws tokens until all texts are done, and returns the number of steps and microseconds of one.
///
/// The texts grow together: while one is at its prompt, another may be behind its own. Classes behind the last token, as
/// in a table of padded size, are never drawn.
fn write(
    stage: &GenerateStage,
    run: &mut StageRun<'_, '_>,
    model: &mut Model,
    tokenizer: &Tokenizer,
    texts: &mut [Text],
) -> Result<(u64, f64), SessionError> {
    let start = Instant::now();
    let mut output = Output::open(stage, run.session.overwrite)?;
    output.show(run, texts)?;
    let n_tokens = tokenizer.n_tokens().min(model.n_classes());
    let stop = stage.stop.as_deref();
    let mut length = texts.iter().map(|text| text.tokens.len()).min().unwrap_or_default();
    let mut steps = 0;
    while texts.iter().any(|text| !text.is_done(stage.length, stop)) {
        let logits = model.next(run, stage, texts, length)?;
        steps += 1;
        let rows = logits.chunks_exact(model.n_classes());
        for (text, logits) in texts.iter_mut().zip(rows) {
            if text.tokens.len() == length && !text.is_done(stage.length, stop) {
                let token = sample(&logits[..n_tokens], &stage.sampling, f64::from(text.draws.unit())) as u32;
                text.push(token, tokenizer.token(token).unwrap_or_default());
            }
        }
        length += 1;
        output.show(run, texts)?;
        if run.session.is_cancelled() {
            return Err(SessionError::Interrupted { checkpoint: None });
        }
    }
    Ok((steps, start.elapsed().as_secs_f64() * 1e6 / steps.max(1) as f64))
}

/// The tokenizer that the stage names, or else that of the data which feeds the tokens. Data that is absent may have
/// any; then bytes stand for it.
fn tokenizer_of(
    stage: &GenerateStage,
    name: &Symbol,
    (pipeline, sets): (&Pipeline, &IndexMap<Symbol, DataSet>),
) -> Result<Arc<Tokenizer>, SessionError> {
    let planned = |issue| SessionError::plan(name, StageFault(issue));
    let model = generation(pipeline, stage).map_err(planned)?;
    if let Some(path) = &stage.tokenizer {
        return Tokenizer::read(Path::new(path)).map(Arc::new).map_err(|error| fault(stage, error.fact));
    }
    let input = pipeline.inputs.iter().find(|input| input.name == stage.tokens);
    let set = input.and_then(|input| input.from.as_ref()).map(|(data, _)| sets.get(data));
    match set {
        Some(Some(DataSet { tokenizer: Some(tokenizer), .. })) => return Ok(tokenizer.clone()),
        Some(None) => {}
        _ => model.expect_bytes(stage).map_err(planned)?,
    }
    Ok(Arc::new(Tokenizer::bytes()))
}

fn fault(stage: &GenerateStage, fact: TokenizerFact) -> SessionError {
    let path = stage.tokenizer.clone().unwrap_or_default().into();
    let error = TokenizerError { path, fact };
    SessionError::Data { data: stage.tokens.clone(), source: Box::new(error.into()) }
}
