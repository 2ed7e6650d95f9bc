//! The target of a write: links are followed, and files of other programs are kept.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::disk::open_special;
use super::disk::{Disk, RealDisk};
use super::kind::kind_of;

/// The files that may be overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Files in the format of the write, as this program writes it.
    #[default]
    Own,
    /// Any regular file. Devices and pipes are written into, including block devices.
    Any,
}

/// A file format that this program writes, and a test that recognizes it.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name with its article: `a checkpoint`.
    pub name: &'static str,
    /// Whether a non-empty file was written by this program.
    pub is_own: fn(&mut File) -> io::Result<bool>,
    /// Whether devices and pipes are written into, as command-line users expect.
    pub into_special: bool,
}

/// Whether a file starts with these bytes, as a test of a [`Format`].
///
/// # Errors
/// If it cannot be read.
pub fn starts_with(file: &mut File, start: &[u8]) -> io::Result<bool> {
    let mut found = vec![];
    file.take(start.len() as u64).read_to_end(&mut found)?;
    Ok(found == start)
}

/// An error of a path at which a file is to be written.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The path names no file.
    #[error("is not the name of a file")]
    NoFileName,
    /// The path is no regular file.
    #[error("is {what}, not a regular file")]
    NotRegular {
        /// The kind of file, with its article.
        what: &'static str,
    },
    /// A pipe without a reader.
    #[error("is a pipe that no program reads")]
    NoReader,
    /// The path is a file that this program has not written.
    #[error("already exists, and is not {format} of this program")]
    Foreign {
        /// The format of the new file.
        format: &'static str,
    },
    /// A part of the path is no folder.
    #[error("cannot be written: `{}` is not a folder", .folder.display())]
    NoFolder {
        /// That part.
        folder: PathBuf,
    },
    /// Another output of the run goes to the same file.
    #[error("is the file of the latest state, and of the best one")]
    Taken,
    /// The system refused the write.
    #[error("cannot be written: {0}")]
    Unwritable(io::Error),
}

impl Refusal {
    /// One concrete fix.
    pub fn help(&self) -> &'static str {
        match self {
            Refusal::NoFileName => "end the path with a file name",
            Refusal::NotRegular { what: "a folder" } => "add a file name to the path",
            Refusal::NotRegular { .. } => "choose another path",
            Refusal::NoReader => "start the program that reads it first, or choose another path",
            Refusal::Taken => "choose another file for `best`",
            Refusal::Foreign { .. } => "choose another path, or replace the file with `--force`",
            Refusal::NoFolder { .. } | Refusal::Unwritable(_) => "make room or choose another folder",
        }
    }

    /// Whether the cause is the machine, not the path.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Refusal::NoFolder { .. } | Refusal::Unwritable(_))
    }
}

/// A place where a file can be written.
#[derive(Clone, Debug)]
pub struct Target {
    path: PathBuf,
    folder: PathBuf,
    name: String,
    is_special: bool,
}

impl Target {
    /// The target of a path, if a file of that format may be written there.
    ///
    /// # Errors
    /// If the path names no file, a file that is not regular, or a file that this program has not written.
    pub fn new(path: &Path, format: &Format, overwrite: Overwrite) -> Result<Target, Refusal> {
        let Some(name) = path.file_name() else { return Err(Refusal::NoFileName) };
        let is_forced = overwrite == Overwrite::Any;
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Target::absent(&dangling(path)?),
            Err(error) => return Err(Refusal::Unwritable(error)),
        };
        if !found.is_file() {
            let what = kind_of(found.file_type());
            let is_taken = match what {
                "a folder" | "a socket" => false,
                "a block device" => is_forced,
                _ => format.into_special || is_forced,
            };
            return is_taken.then(|| Target::at(path, name, true)).ok_or(Refusal::NotRegular { what });
        }
        if is_stream(path) && format.into_special {
            return Ok(Target::at(path, name, true));
        }
        let path = fs::canonicalize(path).map_err(Refusal::Unwritable)?;
        let is_own = || File::open(&path).and_then(|mut file| (format.is_own)(&mut file));
        if found.len() > 0 && !is_forced && !is_own().map_err(Refusal::Unwritable)? {
            return Err(Refusal::Foreign { format: format.name });
        }
        Ok(Target::at(&path, path.file_name().unwrap_or(name), false))
    }

    /// The target of a file that does not exist yet.
    fn absent(path: &Path) -> Result<Target, Refusal> {
        let target = Target::at(path, path.file_name().ok_or(Refusal::NoFileName)?, false);
        match existing(&target.folder) {
            folder if folder.is_dir() => Ok(target),
            folder => Err(Refusal::NoFolder { folder: folder.to_path_buf() }),
        }
    }

    fn at(path: &Path, name: &OsStr, is_special: bool) -> Target {
        let name = name.to_string_lossy().into_owned();
        Target { path: path.to_path_buf(), folder: folder_of(path).to_path_buf(), name, is_special }
    }

    /// Checks whether the file could be written now, and removes leftovers of killed processes. Makes no folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn probe(&self) -> Result<(), Refusal> {
        if self.is_special {
            return Ok(());
        }
        RealDisk.remove_stale(&self.folder, &self.name);
        let temporary =
            RealDisk.create_temporary(existing(&self.folder), &self.name).map_err(Refusal::Unwritable)?;
        RealDisk.remove(&temporary.path).map_err(Refusal::Unwritable)
    }

    /// Opens a device or a pipe for a later write. The reader of a pipe stays as long as that file is open.
    ///
    /// # Errors
    /// If it cannot be opened, such as a pipe without a reader.
    pub fn hold(&self) -> Result<Option<File>, Refusal> {
        let opened = self.is_special.then(|| open_special(&self.path)).transpose();
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Refusal::NoReader,
            _ => Refusal::Unwritable(error),
        })
    }

    /// Whether writes to both targets would go to one regular file.
    pub(crate) fn is_same_file(&self, other: &Target) -> bool {
        let folder =
            |target: &Target| fs::canonicalize(&target.folder).unwrap_or_else(|_| target.folder.clone());
        !self.is_special && !other.is_special && self.name == other.name && folder(self) == folder(other)
    }

    /// The path with all links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_special(&self) -> bool {
        self.is_special
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a path is a standard stream of the process. A stream may be a regular file.
fn is_stream(path: &Path) -> bool {
    path.starts_with("/proc")
        || path.starts_with("/dev/fd")
        || ["/dev/stdout", "/dev/stderr"].map(Path::new).contains(&path)
}

/// The path at the end of links that lead to a missing file.
fn dangling(path: &Path) -> Result<PathBuf, Refusal> {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(Refusal::Unwritable(io::Error::other("its links lead nowhere")))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The longest existing prefix of a path.
fn existing(folder: &Path) -> &Path {
    let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.symlink_metadata().is_ok();
    let found = folder.ancestors().find(is_there).unwrap_or(folder);
    if found.as_os_str().is_empty() { Path::new(".") } else { found }
}
