//! Data sets on the web.

#[cfg(feature = "download")]
mod download;

use std::path::PathBuf;

use super::source::LoadContext;

/// The gzipped files of a set that the web offers.
pub struct RemoteSet<'s> {
    /// The set, which the folder of the files is called by.
    pub name: &'s str,
    /// The files, without `.gz`.
    pub files: &'s [&'s str],
    /// Folders on the web that hold all files.
    pub mirrors: &'s [&'s str],
    /// SHA-256 of the gzipped files, in their order.
    pub sha256: &'s [&'s str],
}

impl RemoteSet<'_> {
    /// Fetches the files into the set's folder under the first root, and returns that folder.
    ///
    /// # Errors
    /// If downloads are off, or a file is on no mirror; the text says why.
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
