//! The arguments of `engine export`.

use std::path::PathBuf;

use clap::Args;
use engine_core::ir::Symbol;

use super::super::values::parse_dim;
use super::shared::{ForceArgs, GraphArgs};

#[derive(Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
    /// A node that becomes an output of the model; may be given several times
    #[arg(long = "output", value_name = "NODE", required = true)]
    pub(crate) outputs: Vec<String>,
    /// The model
    #[arg(short = 'o', value_name = "MODEL.onnx", required = true)]
    pub(crate) model: PathBuf,
    /// Trained parameters: a checkpoint, a safetensors file or an .npz archive; by default, those of `Load` stages
    #[arg(long, value_name = "CKPT")]
    pub(crate) load: Option<PathBuf>,
    /// Give an extent of inputs a number, as in B=8; the model has it fixed
    #[arg(long, value_name = "NAME=N", value_parser = parse_dim)]
    pub(crate) dim: Vec<(Symbol, usize)>,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}
