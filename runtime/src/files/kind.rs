//! Kinds of files.

use std::fs::FileType;

/// The kind of a file that is not a regular file.
pub(super) fn kind_of(found: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.is_fifo() {
            return "a pipe";
        }
        if found.is_socket() {
            return "a socket";
        }
        if found.is_block_device() {
            return "a block device";
        }
        if found.is_char_device() {
            return "a device";
        }
    }
    if found.is_dir() { "a folder" } else { "something special" }
}
