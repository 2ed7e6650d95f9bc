//! The arguments of `engine import`.

use std::path::PathBuf;

use clap::Args;
use engine_core::ir::Symbol;
use engine_core::pipeline::Given;

use super::super::values::{parse_dim, parse_input};
use super::shared::ForceArgs;

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The model, with its data in the same folder
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    /// The graph; its weights go beside it, as .safetensors. By default, both are named after the model, in the present
    /// folder
    #[arg(short, long, value_name = "GRAPH.ron")]
    pub(crate) output: Option<PathBuf>,
    /// Give an open extent of the model a number, as in batch=8
    #[arg(long, value_name = "NAME=N", value_parser = parse_dim)]
    pub(crate) dim: Vec<(Symbol, usize)>,
    /// Make an input a constant, as in axes=[0,1]; inputs that determine shapes must be constants
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_input)]
    pub(crate) value: Vec<(String, Given)>,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}
