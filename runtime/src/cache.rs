//! Compiled kernels on disk, for devices whose compilers take a while.
//!
//! An entry holds its complete key, the machine code and a checksum. An entry with any wrong byte is not used: its
//! kernel is compiled again and the entry is overwritten.

use engine_core::program::fnv1a;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const MAGIC: &[u8; 8] = b"engine\x01\n";

/// A folder of compiled kernels. Without a folder, nothing is cached.
pub struct DiskCache {
    folder: Option<PathBuf>,
    /// The extension of its files.
    extension: &'static str,
    /// Notes about faults of the cache.
    notes: Mutex<Vec<String>>,
}

impl DiskCache {
    /// The cache of a device in `ENGINE_CACHE_DIR`, or else in the user's cache folder.
    pub fn from_env(device: &str, extension: &'static str) -> DiskCache {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let user = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let folder = variable("ENGINE_CACHE_DIR").or_else(|| Some(user()?.join("engine")));
        DiskCache { folder: folder.map(|folder| folder.join(device)), extension, notes: Mutex::default() }
    }

    /// A cache in a folder.
    #[cfg(test)]
    pub fn within(folder: &Path) -> DiskCache {
        DiskCache { folder: Some(folder.to_path_buf()), extension: "code", notes: Mutex::default() }
    }

    /// The machine code of a key, if the cache has a valid entry for it.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let bytes = fs::read(&path).ok()?;
        let Some((found, code)) = whole(&bytes) else {
            self.note(&format!("{} is damaged; its content is computed again", path.display()));
            return None;
        };
        (found == key.as_bytes()).then(|| code.to_vec())
    }

    /// Adds a note for the user.
    pub fn note(&self, text: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.iter().any(|known| known == text) {
            notes.push(text.to_string());
        }
    }

    /// Takes the notes for the user.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores the machine code of a key. A failed write is no error, since the kernel can be compiled again.
    pub fn write(&self, key: &str, code: &[u8]) {
        if let Some(path) = self.path(key) {
            // The next start will try again.
            let _ = write_whole(&path, &entry(key, code));
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        // The file name is a hash of the key. The entry holds the whole key, which is compared.
        Some(self.folder.as_ref()?.join(format!("{:016x}.{}", fnv1a(key.as_bytes()), self.extension)))
    }
}

/// The key and the content of an entry. `None` if any byte is wrong.
fn whole(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(MAGIC.len() + 4)?;
    let (magic, sum) = head.split_at_checked(MAGIC.len())?;
    let sum = u32::from_le_bytes(sum.try_into().ok()?);
    if magic != MAGIC || sum != crc32fast::hash(rest) {
        return None;
    }
    let (length, rest) = rest.split_at_checked(8)?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    rest.split_at_checked(length)
}

fn entry(key: &str, code: &[u8]) -> Vec<u8> {
    let mut rest = (key.len() as u64).to_le_bytes().to_vec();
    rest.extend_from_slice(key.as_bytes());
    rest.extend_from_slice(code);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&rest).to_le_bytes());
    bytes.extend(rest);
    bytes
}

/// Writes under a temporary name first, so that no reader sees a partial entry.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static N_WRITTEN: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let number = N_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{}.{number}.tmp", std::process::id()));
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn only_file(folder: &Path) -> PathBuf {
        let mut files = fs::read_dir(folder).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none());
        file
    }

    #[test]
    fn entries_read_back_and_damaged_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::within(dir.path());
        assert_eq!(cache.read("a"), None);
        cache.write("a", b"code");
        assert_eq!((cache.read("a"), cache.read("b")), (Some(b"code".to_vec()), None));
        cache.write("a", b"other code");
        assert_eq!(cache.read("a"), Some(b"other code".to_vec()));
    }

    #[test]
    fn a_damaged_entry_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::within(dir.path());
        cache.write("key", b"machine code");
        let file = only_file(dir.path());
        let whole = fs::read(&file).unwrap();
        for i in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[i] ^= 1 << (i % 8);
            fs::write(&file, &damaged).unwrap();
            assert_eq!(cache.read("key"), None, "byte {i}");
            fs::write(&file, &whole[..i]).unwrap();
            assert_eq!(cache.read("key"), None, "{i} bytes");
        }
        let note = format!("{} is damaged; its content is computed again", file.display());
        assert_eq!((cache.take_notes(), cache.take_notes()), (vec![note], vec![]));
        cache.write("key", b"machine code");
        assert_eq!(cache.read("key"), Some(b"machine code".to_vec()));
    }
}
