//! The operations on which the safety of a write rests, so that tests can make each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk, or what a test takes for one.
pub(crate) trait Disk: Send + Sync {
    /// Makes a folder and those above it.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// A new file that is to be called `name` when it is complete.
    fn create_temporary(&self, folder: &Path, name: &str) -> io::Result<TemporaryFile>;
    /// Opens a device or a pipe, as [`open_special`].
    fn open_special(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Removes temporary files of `name` whose writers have died.
    fn remove_stale(&self, folder: &Path, name: &str);
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file under a name of its own.
pub(crate) struct TemporaryFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Box<dyn DiskFile>,
}

/// A file that is being written.
pub(crate) trait DiskFile: Write + Send {
    /// Returns when all that was written is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk of this machine.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    /// A writer holds a lock on its temporary file. The system takes the lock away when the writer dies, which tells a
    /// leftover from a file in the making, on whatever machine its writer runs.
    fn create_temporary(&self, folder: &Path, name: &str) -> io::Result<TemporaryFile> {
        static N_CREATED: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = N_CREATED.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}{}-{number}{END}", start(name), process::id()));
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                // Of a dead process with this number, or of one in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Not every file system has locks; without one, leftovers stay.
            let is_locked = file.lock().is_ok();
            // Another process may have taken the file for a leftover before it was locked.
            if !is_locked || path.try_exists()? {
                return Ok(TemporaryFile { path, file: Box::new(file) });
            }
        }
    }

    fn open_special(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Special(open_special(path)?)))
    }

    fn remove_stale(&self, folder: &Path, name: &str) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let is_temporary = entry.file_name().to_str().is_some_and(|found| is_temporary(found, name));
            // What cannot be opened or removed harms nothing.
            let Some(file) =
                is_temporary.then(|| OpenOptions::new().write(true).open(entry.path()).ok()).flatten()
            else {
                continue;
            };
            if file.try_lock().is_ok() {
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Puts the new name itself on the disk, where the system can do that.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(not(unix)) {
            return Ok(());
        }
        match File::open(folder)?.sync_all() {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }
}

/// Opens a device, or a pipe that a program reads. Opening a pipe without a reader would wait for one.
#[cfg(unix)]
pub(super) fn open_special(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    let no_wait = OFlag::O_NONBLOCK;
    let opened = OpenOptions::new().write(true).custom_flags(no_wait.bits()).open(path);
    let is_pipe = || fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::ENXIO as i32 && is_pipe() => {
            io::Error::new(io::ErrorKind::BrokenPipe, "no program reads it")
        }
        _ => error,
    })?;
    // What is written waits for the reader.
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - no_wait))?;
    Ok(file)
}

#[cfg(not(unix))]
pub(super) fn open_special(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

impl DiskFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A device or a pipe, which has nothing to be synced.
struct Special(File);

impl Write for Special {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl DiskFile for Special {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const END: &str = ".tmp";

fn start(name: &str) -> String {
    format!(".{name}.")
}

/// Whether a file is a temporary one of `name`: `.NAME.PROCESS-NUMBER.tmp`.
fn is_temporary(found: &str, name: &str) -> bool {
    let middle = found.strip_prefix(&start(name)).and_then(|rest| rest.strip_suffix(END));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    middle
        .and_then(|middle| middle.split_once('-'))
        .is_some_and(|(process, number)| is_number(process) && is_number(number))
}
