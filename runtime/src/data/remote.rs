//! Data sets on the web.

#[cfg(feature = "download")]
mod download;
mod set;

use std::path::PathBuf;

use super::source::LoadContext;

pub use set::RemoteSet;

impl RemoteSet<'_> {
    /// Fetches the files into the set's folder under the first root, and returns that folder.
    ///
    /// # Errors
    /// If downloads are off, or no mirror has a file. The text names the cause.
    pub fn fetch(&self, context: &LoadContext) -> Result<PathBuf, String> {
        #[cfg(feature = "download")]
        return match context.offline {
            true => Err("downloads are off".to_string()),
            false => download::download(self, context),
        };
        #[cfg(not(feature = "download"))]
        {
            _ = context;
            Err("this build cannot download".to_string())
        }
    }
}
