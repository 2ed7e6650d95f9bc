//! The files of a data set on the web.

/// The gzipped files of a set on the web.
pub struct RemoteSet<'s> {
    /// The name of the set and of the folder of its files.
    pub name: &'s str,
    /// The files, without `.gz`.
    pub files: &'s [&'s str],
    /// The addresses of folders that hold all files.
    pub mirrors: &'s [&'s str],
    /// The SHA-256 of the gzipped files, in their order.
    pub sha256: &'s [&'s str],
}
