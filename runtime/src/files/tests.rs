#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Notes, a format of these tests.
const NOTE: Format = Format {
    name: "a note",
    is_own: |file| {
        let mut text = String::new();
        io::Read::read_to_string(file, &mut text)?;
        Ok(text.starts_with("note: "))
    },
    into_special: false,
};
const OPEN_NOTE: Format = Format { into_special: true, ..NOTE };

fn target(path: &Path) -> Result<Target, Refusal> {
    Target::new(path, &NOTE, Overwrite::Own)
}

fn write_note(disk: &dyn Disk, path: &Path, text: &str) -> Result<(), WriteFault> {
    // The content is written in pieces, each of which reaches the disk.
    let content = |file: &mut dyn Write| {
        ["note: ", text]
            .iter()
            .try_for_each(|part| file.write_all(part.as_bytes()).and_then(|()| file.flush()))
    };
    write_on(disk, &target(path).unwrap(), &content)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A disk with limited room, or with a failure at a later point.
struct BadDisk {
    room: Arc<AtomicUsize>,
    fails_at: &'static str,
}

impl BadDisk {
    fn new(room: usize, fails_at: &'static str) -> Self {
        BadDisk { room: Arc::new(AtomicUsize::new(room)), fails_at }
    }

    fn check(&self, point: &str) -> io::Result<()> {
        if self.fails_at == point { Err(io::Error::other(point.to_string())) } else { Ok(()) }
    }
}

impl Disk for BadDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.check("folder").and_then(|()| RealDisk.create_folder(folder))
    }
    fn create_temporary(&self, folder: &Path, name: &str) -> io::Result<TemporaryFile> {
        self.check("create")?;
        let TemporaryFile { path, file } = RealDisk.create_temporary(folder, name)?;
        let file = BadFile { file, room: Arc::clone(&self.room), fails_to_sync: self.fails_at == "sync" };
        Ok(TemporaryFile { path, file: Box::new(file) })
    }
    fn open_special(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_special(path)
    }
    fn remove_stale(&self, folder: &Path, name: &str) {
        RealDisk.remove_stale(folder, name);
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check("rename").and_then(|()| RealDisk.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check("sync folder").and_then(|()| RealDisk.sync_folder(folder))
    }
}

struct BadFile {
    file: Box<dyn DiskFile>,
    room: Arc<AtomicUsize>,
    fails_to_sync: bool,
}

impl Write for BadFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room.load(Ordering::Relaxed);
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let n_written = self.file.write(&bytes[..bytes.len().min(room)])?;
        self.room.store(room - n_written, Ordering::Relaxed);
        Ok(n_written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for BadFile {
    fn sync(&mut self) -> io::Result<()> {
        if self.fails_to_sync { Err(io::Error::other("sync")) } else { self.file.sync() }
    }
}

#[test]
fn a_full_disk_leaves_the_previous_file_and_no_litter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    write_note(&RealDisk, &path, "before").unwrap();
    for room in 0..11 {
        let fault = write_note(&BadDisk::new(room, ""), &path, "later").unwrap_err();
        let is_full =
            matches!(&fault, WriteFault::Unwritable(error) if error.kind() == io::ErrorKind::StorageFull);
        assert!(is_full, "room for {room}: {fault:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "note: before");
        assert_eq!(names(dir.path()), ["a"]);
    }
    write_note(&BadDisk::new(11, ""), &path, "later").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "note: later");
}

#[test]
fn a_failure_at_any_other_point_is_as_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    write_note(&RealDisk, &path, "before").unwrap();
    for point in ["folder", "create", "sync", "rename"] {
        let fault = write_note(&BadDisk::new(usize::MAX, point), &path, "later").unwrap_err();
        assert!(matches!(&fault, WriteFault::Unwritable(error) if error.to_string() == point), "{fault:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "note: before");
        assert_eq!(names(dir.path()), ["a"]);
    }
    let fault = write_note(&BadDisk::new(usize::MAX, "sync folder"), &path, "later").unwrap_err();
    assert!(matches!(fault, WriteFault::Unflushed(_)), "{fault:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "note: later");
}

#[test]
fn leftovers_are_removed_and_files_in_use_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let foreign = [".a.tmp", ".a.1-2.tmp.bak", ".a.x-2.tmp", ".b.1-2.tmp", "a.1-2.tmp"];
    let stale = [".a.1-2.tmp", ".a.4000000000-0.tmp"];
    let restore =
        || foreign.iter().chain(&stale).for_each(|name| fs::write(dir.path().join(name), "half").unwrap());
    let living = RealDisk.create_temporary(dir.path(), "a").unwrap();
    let clean: [fn(&Path); 2] =
        [|path| write_note(&RealDisk, path, "new").unwrap(), |path| target(path).unwrap().probe().unwrap()];
    for clean in clean {
        restore();
        clean(&path);
        let left = names(dir.path());
        assert!(foreign.iter().all(|name| left.contains(&name.to_string())), "{left:?}");
        assert!(stale.iter().all(|name| !left.contains(&name.to_string())), "{left:?}");
        assert!(living.path.exists());
    }
    drop(living);
    target(&path).unwrap().probe().unwrap();
    assert_eq!(names(dir.path()).len(), foreign.len() + 1);
}

#[test]
fn a_probe_makes_no_folder_and_names_a_path_that_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let new = target(&dir.path().join("some/new/folder/a")).unwrap();
    new.probe().unwrap();
    assert_eq!(names(dir.path()), [] as [&str; 0]);
    write(&new, &|file| file.write_all(b"note: ")).unwrap();
    assert!(dir.path().join("some/new/folder/a").is_file());

    fs::write(dir.path().join("file"), "").unwrap();
    for below in ["file/a", "file/folder/a"] {
        let refusal = target(&dir.path().join(below)).unwrap_err();
        assert!(refusal.to_string().ends_with("file` is not a folder"), "{refusal}");
    }
    assert_eq!(target(dir.path()).unwrap_err().to_string(), "is a folder, not a regular file");
    assert_eq!(
        Target::new(dir.path(), &NOTE, Overwrite::Any).unwrap_err().help(),
        "add a file name to the path"
    );
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_and_their_targets_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("folder")).unwrap();
        symlink("folder/note", at("near")).unwrap();
        symlink(at("near"), at("far")).unwrap();
        for text in ["first", "second"] {
            write_note(&RealDisk, &at("far"), text).unwrap();
            assert_eq!(fs::read_to_string(at("real/note")).unwrap(), format!("note: {text}"));
            assert!(["near", "far", "folder"].iter().all(|link| at(link).is_symlink()));
            assert_eq!(names(&at("real")), ["note"]);
        }
        fs::write(at("real/note"), "not ours").unwrap();
        assert!(matches!(target(&at("far")), Err(Refusal::Foreign { format: "a note" })));
        symlink("round", at("round")).unwrap();
        assert!(matches!(target(&at("round")), Err(Refusal::Unwritable(_))));
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let null = PathBuf::from("/dev/null");
        for (path, what) in [(&pipe, "a pipe"), (&null, "a device")] {
            assert_eq!(target(path).unwrap_err().to_string(), format!("is {what}, not a regular file"));
            assert!(Target::new(path, &OPEN_NOTE, Overwrite::Own).unwrap().is_special());
            assert!(Target::new(path, &NOTE, Overwrite::Any).unwrap().is_special());
        }
        let target = Target::new(&pipe, &OPEN_NOTE, Overwrite::Own).unwrap();
        let through = || write(&target, &|file| file.write_all(b"through"));
        assert!(matches!(target.hold(), Err(Refusal::NoReader)));
        assert_eq!(through().unwrap_err().into_error().to_string(), "no program reads it");
        // The pipe is opened for reading and writing, so it has a reader at once.
        let mut reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        assert!(target.hold().unwrap().is_some());
        through().unwrap();
        let mut text = [0; 7];
        io::Read::read_exact(&mut reader, &mut text).unwrap();
        assert_eq!(&text, b"through");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        write(&Target::new(&null, &NOTE, Overwrite::Any).unwrap(), &|file| file.write_all(b"gone")).unwrap();
        assert_eq!(open(&pipe).unwrap_err().to_string(), "it is a pipe, not a regular file");
        assert_eq!(open(&null).unwrap_err().to_string(), "it is a device, not a regular file");
        assert_eq!(open(dir.path()).unwrap_err().to_string(), "it is a folder, not a regular file");
    }
}
