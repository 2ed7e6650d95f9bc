//! The stages of verified graphs.

use std::path::Path;

use engine_core::compile::{Compiled, Options};
use engine_core::ir::Symbol;

use crate::Engine;
use crate::cli::args::VerifyArgs;
use crate::cli::comparison::part::MOST_ROWS;
use crate::cli::explain::compile_stages;
use crate::cli::open::open;
use crate::cli::output::Failure;

/// The stages of a graph, compiled with these options for short data sets, and whether they must be deterministic.
pub(super) fn stages_of(
    engine: &Engine,
    args: &VerifyArgs,
    graph: &Path,
    options: Options,
) -> Result<(Vec<(Symbol, Compiled)>, bool), Failure> {
    let mut registry = engine.registry.clone();
    let opened = open(&args.graph(graph), &mut registry)?;
    let data_dir = args.data_dir.as_deref();
    let stages = compile_stages(&opened, registry, &engine.sources, data_dir, options, Some(MOST_ROWS), &[])?;
    Ok((stages, opened.pipeline.deterministic))
}
