//! `Generate` stages: the shape of the window that the model sees.

use super::{StageIssue, Wanted, inference, part, select};
use crate::decode::{self, Decoding};
use crate::diag::Span;
use crate::ir::{Dim, Graph, InputKind, Level, NodeOp, Symbol, Target};
use crate::lower::primitives_for;
use crate::op::Registry;
use crate::pass::sound;
use crate::pipeline::{GenerateStage, Pipeline, StageKind};

/// The most classes of a model whose tokens are bytes.
const N_BYTES: usize = 256;
/// The shortest window of an open extent.
const SHORTEST: usize = 16;
/// The smallest cache that may grow, in tokens. Attention over fewer takes little of a step.
const FIRST_CACHE: usize = 256;
/// The factor between two sizes of a cache that grows.
const GROWTH: usize = 4;

impl StageKind for GenerateStage {
    fn keyword(&self) -> &'static str {
        "Generate"
    }

    fn rehearse(&self, _: &str, pipeline: &Pipeline, registry: &Registry) -> Result<(), StageIssue> {
        let generation = generation(pipeline, self)?;
        let input = pipeline.inputs.iter().find(|input| input.name == self.tokens);
        // The data may have a tokenizer.
        if self.tokenizer.is_none() && input.is_none_or(|input| input.from.is_none()) {
            generation.expect_bytes(self)?;
        }
        let extents = generation.extents(self.prompts.len(), generation.window(1));
        let outputs = [(self.logits.clone(), self.logits.clone())];
        let wanted = Wanted { outputs: &outputs, state: &[], mode: self.mode, precision: self.precision };
        match self.cache {
            true => decoding(pipeline, self, &extents, 1, registry).map(drop),
            false => select(pipeline, &wanted, &extents).map(drop),
        }
    }
}

/// The input and the result of a language model.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Rows of the input: texts at a time.
    pub rows: Dim,
    /// Tokens of a row.
    pub tokens: Dim,
    /// The most tokens that the model sees at once.
    pub context: usize,
    /// Logits of a token.
    pub n_classes: usize,
    /// Where the input is declared.
    span: Option<Span>,
}

impl Generation {
    /// The tokens of a row for a text of `length` tokens: all that fit, in a power of two if the model takes any number.
    pub fn window(&self, length: usize) -> usize {
        match self.tokens.fixed() {
            Some(extent) => extent,
            None => length.next_power_of_two().clamp(SHORTEST.min(self.context), self.context),
        }
    }

    /// The sizes of the cache, in tokens, for a text that grows from `first` to `last` tokens. They ascend to the window
    /// of `last`.
    pub fn caches(&self, first: usize, last: usize) -> Vec<usize> {
        let (first, last) = (self.window(first.max(FIRST_CACHE)), self.window(last));
        let larger = |size: &usize| Some(size * GROWTH);
        let growing = std::iter::successors(Some(first), larger).take_while(|size| *size < last);
        growing.chain([last]).collect()
    }

    /// The values of open extents for so many texts and that window.
    pub fn extents(&self, n_texts: usize, window: usize) -> Vec<(Symbol, usize)> {
        let named = [(self.rows.name(), n_texts), (self.tokens.name(), window)];
        named.into_iter().filter_map(|(name, extent)| Some((name?.clone(), extent))).collect()
    }

    /// Checks that the classes can be bytes, for a stage whose tokens are bytes.
    ///
    /// # Errors
    /// If there are more.
    pub fn expect_bytes(&self, stage: &GenerateStage) -> Result<(), StageIssue> {
        if self.n_classes <= N_BYTES {
            return Ok(());
        }
        let message = format!("`{}` has {} classes, and tokens are bytes", stage.logits, self.n_classes);
        let help = "name the `tokenizer` of the model; bytes have at most 256 classes";
        Err(StageIssue::new(message, self.span).help(help))
    }
}

/// Checks a `Generate` stage.
///
/// # Errors
/// If the input does not take rows of tokens, or the logits are no logits of these tokens.
pub fn generation(pipeline: &Pipeline, stage: &GenerateStage) -> Result<Generation, StageIssue> {
    let outputs = [(stage.logits.clone(), stage.logits.clone())];
    let graph = part(
        pipeline,
        &Wanted { outputs: &outputs, state: &[], mode: stage.mode, precision: stage.precision },
    )?;
    let data = graph.nodes.iter().filter(|node| node.op == NodeOp::Input(InputKind::Data));
    let mut found = None;
    for node in data {
        if *node.name() != stage.tokens {
            let message = format!("`{}` needs the input `{}`, too", stage.logits, node.name());
            let help = format!("logits follow from the tokens `{}` alone", stage.tokens);
            return Err(StageIssue::new(message, node.span).help(help));
        }
        found = Some((&node.outputs[0].ty, node.span));
    }
    let Some((ty, span)) = found else {
        let message = format!("`{}` does not depend on `{}`", stage.logits, stage.tokens);
        return Err(StageIssue::new(message, None).help("name the input that takes the tokens"));
    };
    let [rows, tokens] = &ty.shape[..] else {
        let message = format!("`{}: {ty}` takes no rows of tokens", stage.tokens);
        return Err(StageIssue::new(message, span).help("its type is like `i32[B, T]`"));
    };
    if !ty.dtype.is_int() {
        let message = format!("`{}: {ty}` takes no tokens", stage.tokens);
        return Err(StageIssue::new(message, span).help("tokens are integers"));
    }
    if stage.tokenizer.is_some() && ty.dtype.size() < 4 {
        let message = format!("`{}: {ty}` cannot hold the tokens of a tokenizer", stage.tokens);
        return Err(StageIssue::new(message, span).help("declare the input as `i32`"));
    }
    expect_prompts(stage, rows)?;
    let logits = graph.ty(graph.outputs[0].1);
    let lead = logits.shape.len().saturating_sub(1);
    let fits = Dim::product(&logits.shape[..lead]) == rows.times(tokens);
    let n_classes = logits.shape.last().and_then(Dim::fixed).filter(|_| fits && logits.dtype.is_float());
    let Some(n_classes) = n_classes else {
        let message =
            format!("`{}` is {logits}, which are no logits of `{}: {ty}`", stage.logits, stage.tokens);
        let help = "logits have a row of classes for each token: `f32[B, T, V]` or `f32[B * T, V]`";
        return Err(StageIssue::new(message, graph.nodes[graph.outputs[0].1.node].span).help(help));
    };
    let context = tokens.fixed().unwrap_or(stage.context);
    Ok(Generation { rows: rows.clone(), tokens: tokens.clone(), context, n_classes, span })
}

fn expect_prompts(stage: &GenerateStage, rows: &Dim) -> Result<(), StageIssue> {
    let n_texts = stage.prompts.len();
    if n_texts == 0 || stage.prompts.iter().any(String::is_empty) {
        let message = "a prompt is empty, so no logits follow it";
        return Err(StageIssue::new(message, None).help("begin with a line break: `prompt: \"\\n\"`"));
    }
    if rows.fixed().is_some_and(|rows| rows < n_texts) {
        let message =
            format!("`{}` takes {rows} texts at a time, and there are {n_texts} prompts", stage.tokens);
        return Err(
            StageIssue::new(message, None).help("name the first extent of the input, as in `i32[B, T]`")
        );
    }
    let is_plain = stage.write.as_ref().is_some_and(|path| !path.ends_with(".jsonl"));
    if is_plain && n_texts > 1 {
        let message = format!("{n_texts} texts do not go to one plain file");
        return Err(StageIssue::new(message, None).help("end the name of the file in `.jsonl`"));
    }
    Ok(())
}

/// One step of a `Generate` stage with a cache: `n_new` tokens of each text. A step of one token yields its logits. Other
/// steps fill the cache with all but the last token of a prompt, and yield nothing.
///
/// # Errors
/// As for [`generation`], and if the logits do not follow the tokens one by one.
pub fn decoding(
    pipeline: &Pipeline,
    stage: &GenerateStage,
    extents: &[(Symbol, usize)],
    n_new: usize,
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    let outputs = [(stage.logits.clone(), stage.logits.clone())];
    let graph = inference(pipeline, &outputs, extents, (stage.mode, stage.precision))?;
    let wanted = Decoding { tokens: &stage.tokens, n_new };
    // A step has few queries, so no device stores scores that a causal mask hides.
    let target = Target { attended_in_f32: usize::MAX, attended_in_halves: usize::MAX, ..Target::default() };
    let whole = primitives_for(&graph, registry, target);
    let Some(mut step) = decode::decoding(&whole, &wanted, registry) else {
        let message = format!("`{}` does not follow `{}` token by token", stage.logits, stage.tokens);
        let span = graph.nodes[graph.outputs[0].1.node].span;
        return Err(
            StageIssue::new(message, span).help("write `cache: false`, which runs all tokens in each step")
        );
    };
    if n_new > 1 {
        step.outputs.clear();
    }
    Ok(sound("decode", Level::Primitive, step.pruned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_grows_from_the_prompt_to_the_window() {
        let tokens = Dim::Named("T".into());
        let open = Generation { rows: Dim::Fixed(1), tokens, context: 4096, n_classes: 2, span: None };
        assert_eq!(open.caches(6, 35), [64]);
        assert_eq!(open.caches(6, 1500), [256, 1024, 2048]);
        assert_eq!(open.caches(600, 700), [1024]);
        assert_eq!(open.caches(600, 9999), [1024, 4096]);
        let closed = Generation { tokens: Dim::Fixed(80), ..open };
        assert_eq!(closed.caches(6, 70), [80]);
    }
}
