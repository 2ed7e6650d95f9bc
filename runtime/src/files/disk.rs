//! The disk operations that make a write safe, behind a trait so that tests can make each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk, or a test's substitute.
pub(crate) trait Disk: Send + Sync {
    /// Makes a folder and its missing parents.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// A temporary file whose final name will be `name`.
    fn create_temporary(&self, folder: &Path, name: &str) -> io::Result<TemporaryFile>;
    /// Opens a device or a pipe; see [`open_special`].
    fn open_special(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Removes temporary files of `name` whose writers have died.
    fn remove_stale(&self, folder: &Path, name: &str);
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file under a temporary name.
pub(crate) struct TemporaryFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Box<dyn DiskFile>,
}

/// A file that is being written.
pub(crate) trait DiskFile: Write + Send {
    /// Returns when all written bytes are on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk of this machine.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    /// A writer holds a lock on its temporary file. The system releases the lock when the writer dies. So a leftover
    /// can be told from a file in use, also if its writer runs on another machine.
    fn create_temporary(&self, folder: &Path, name: &str) -> io::Result<TemporaryFile> {
        static N_CREATED: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = N_CREATED.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}{}-{number}{END}", start(name), process::id()));
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                // A file of a dead process with this number, or of a process in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Some file systems have no locks; there, leftovers stay.
            let is_locked = file.lock().is_ok();
            // Another process may have removed the file as a leftover before it was locked.
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
            // A leftover that cannot be opened or removed does no harm.
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

    /// Syncs the folder, and with it the new name, where the system supports it.
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

/// Opens a device, or a pipe with a reader. Opening a pipe without a reader would block until one appears.
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
    // Writes block until the reader takes the bytes.
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

/// A device or a pipe, which cannot be synced.
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
