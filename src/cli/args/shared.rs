//! Arguments of several commands.

use std::path::PathBuf;

use clap::Args;
use engine_runtime::files::Overwrite;

use super::super::values::parse_override;

/// The treatment of existing files.
#[derive(Args, Clone, Copy)]
pub(crate) struct ForceArgs {
    /// Replace files that this program has not written, and write into devices
    #[arg(long)]
    pub(crate) force: bool,
}

impl ForceArgs {
    pub(crate) fn overwrite(self) -> Overwrite {
        if self.force { Overwrite::Any } else { Overwrite::Own }
    }
}

/// A pipeline and its overrides.
#[derive(Args, Clone)]
pub(crate) struct GraphArgs {
    /// The pipeline file
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
}

/// Overrides and plugins of a pipeline.
#[derive(Args, Clone)]
pub(crate) struct ChangeArgs {
    /// Override a field by its path, such as seed=1 or train.epochs=2
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_override)]
    pub(crate) set: Vec<(String, String)>,
    /// A RON file with functions that the pipeline may call
    #[arg(long, value_name = "FILE.ron")]
    pub(crate) plugin: Vec<PathBuf>,
}
