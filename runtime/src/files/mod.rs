//! Files: input files must be regular files, and output files appear whole or not at all, except for those that
//! grow during a run.

mod disk;
mod kind;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use disk::{Disk, RealDisk};
#[cfg(test)]
pub(crate) use disk::{DiskFile, TemporaryFile};
pub use target::{Format, Overwrite, Refusal, Target, starts_with};

use kind::kind_of;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Opens a file for reading, and returns its size in bytes. Only regular files are opened: opening a pipe may block
/// forever, and a device has no size.
///
/// # Errors
/// If it cannot be opened or is no regular file.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        let message = format!("it is {}, not a regular file", kind_of(found.file_type()));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let file = File::open(path)?;
    let n_bytes = file.metadata()?.len();
    Ok((file, n_bytes))
}

/// An error of writing a file.
#[derive(Debug)]
pub enum WriteFault {
    /// The file is not written. The previous file is unchanged.
    Unwritable(io::Error),
    /// The file is complete, but a power failure might still undo it.
    Unflushed(io::Error),
}

impl WriteFault {
    /// The error of the system.
    pub fn into_error(self) -> io::Error {
        match self {
            WriteFault::Unwritable(error) | WriteFault::Unflushed(error) => error,
        }
    }
}

/// Writes the content of a file.
pub type Content<'c> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'c;

/// Writes a file under a temporary name, and renames it when all its bytes are on the disk.
///
/// # Errors
/// If it cannot be written. Then nothing has changed.
pub fn write(target: &Target, content: &Content<'_>) -> Result<(), WriteFault> {
    write_on(&RealDisk, target, content)
}

/// Like [`write`], on a disk that may fail.
pub(crate) fn write_on(disk: &dyn Disk, target: &Target, content: &Content<'_>) -> Result<(), WriteFault> {
    if target.is_special() {
        return disk
            .open_special(target.path())
            .and_then(|mut file| fill(&mut *file, content))
            .map_err(WriteFault::Unwritable);
    }
    let unwritable = WriteFault::Unwritable;
    disk.create_folder(target.folder()).map_err(unwritable)?;
    disk.remove_stale(target.folder(), target.name());
    let mut temporary = disk.create_temporary(target.folder(), target.name()).map_err(unwritable)?;
    let outcome = fill(&mut *temporary.file, content)
        .and_then(|()| temporary.file.sync())
        .and_then(|()| disk.rename(&temporary.path, target.path()));
    if let Err(error) = outcome {
        // If the temporary file cannot be removed either, the first error is reported.
        drop(disk.remove(&temporary.path));
        return Err(unwritable(error));
    }
    disk.sync_folder(target.folder()).map_err(WriteFault::Unflushed)
}

/// Opens a file that others may read while it grows, such as a text that is generated. It starts empty.
///
/// # Errors
/// If it cannot be opened.
pub fn open_growing(target: &Target) -> io::Result<File> {
    if target.is_special() {
        return disk::open_special(target.path());
    }
    fs::create_dir_all(target.folder())?;
    File::create(target.path())
}

fn fill(file: &mut dyn disk::DiskFile, content: &Content<'_>) -> io::Result<()> {
    let mut buffered = BufWriter::with_capacity(1 << 16, file);
    content(&mut buffered)?;
    buffered.flush()
}
