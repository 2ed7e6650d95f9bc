//! Arguments of several commands.

use clap::Args;
use engine_runtime::files::Overwrite;

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
