//! NumPy's `.npz` files: zip archives of `.npy` files.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use thiserror::Error;
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, ZipArchive};

use super::npy::{self, NpyError};
use crate::files;
use crate::tensor::HostTensor;

/// Why a `.npz` file cannot be used: the file, the fact.
#[derive(Debug, Error)]
#[error("{}: {fact}", .path.display())]
pub struct NpzError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fact: NpzFact,
}

/// A fault of a `.npz` file.
#[derive(Debug, Error)]
pub enum NpzFact {
    /// The file cannot be opened or read, or is no archive.
    #[error("cannot be read: {0}")]
    Unreadable(ZipError),
    /// A part of the archive is damaged.
    #[error("`{name}`: {error}")]
    BadEntry {
        /// The part.
        name: String,
        /// The fault.
        error: ZipError,
    },
    /// A part of the archive is longer than the archive says.
    #[error("`{name}`: the archive says {n_bytes} bytes but there are more")]
    TrailingBytes {
        /// The part.
        name: String,
        /// Bytes by the archive.
        n_bytes: u64,
    },
    /// An array of the archive is damaged.
    #[error(transparent)]
    BadArray(Box<NpyError>),
    /// The archive has several arrays or none, and no name picks one.
    #[error("holds not one array but {known}")]
    NotOne {
        /// Those there are.
        known: String,
    },
    /// The archive has no array of that name.
    #[error("there is no array `{name}`; there are {known}")]
    Missing {
        /// The requested array.
        name: String,
        /// Those there are.
        known: String,
    },
}

/// Reads the array of that name.
///
/// # Errors
/// If the file cannot be read, is damaged, or has no such array.
pub fn read_one(path: &Path, name: &str) -> Result<HostTensor, NpzError> {
    let mut archive = open(path)?;
    let fail = |fact| NpzError { path: path.to_path_buf(), fact };
    let entries = entries(&archive).map_err(|error| fail(NpzFact::Unreadable(error)))?;
    match entries.iter().find(|entry| array_name(entry) == name) {
        Some(entry) => read_entry(&mut archive, path, entry).map_err(fail),
        None => Err(fail(NpzFact::Missing { name: name.to_string(), known: names(&entries) })),
    }
}

/// Reads the only array of an archive.
///
/// # Errors
/// If the file cannot be read, is damaged, or has several arrays or none.
pub fn read_only(path: &Path) -> Result<HostTensor, NpzError> {
    let mut archive = open(path)?;
    let fail = |fact| NpzError { path: path.to_path_buf(), fact };
    let entries = entries(&archive).map_err(|error| fail(NpzFact::Unreadable(error)))?;
    match &entries[..] {
        [entry] => read_entry(&mut archive, path, entry).map_err(fail),
        [] => Err(fail(NpzFact::NotOne { known: "none".to_string() })),
        _ => Err(fail(NpzFact::NotOne { known: names(&entries) })),
    }
}

/// Reads all arrays, by name.
///
/// # Errors
/// If the file cannot be read or is damaged.
pub fn read_all(path: &Path) -> Result<IndexMap<String, HostTensor>, NpzError> {
    let mut archive = open(path)?;
    let fail = |fact| NpzError { path: path.to_path_buf(), fact };
    let entries = entries(&archive).map_err(|error| fail(NpzFact::Unreadable(error)))?;
    let array = |entry: &String| {
        let array = read_entry(&mut archive, path, entry).map_err(fail)?;
        Ok((array_name(entry).to_string(), array))
    };
    entries.iter().map(array).collect()
}

/// Writes arrays under their names. Types that NumPy lacks are converted as by [`npy::write`].
///
/// # Errors
/// If it cannot be written.
pub fn write(arrays: &IndexMap<String, HostTensor>, to: &mut dyn Write) -> io::Result<()> {
    let mut archive = ZipWriter::new_stream(to);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    for (name, tensor) in arrays {
        archive.start_file(format!("{name}.npy"), options)?;
        npy::write(tensor, &mut archive)?;
    }
    archive.set_comment(COMMENT)?;
    archive.finish()?.flush()
}

/// The last bytes of an archive that this program has written.
pub const COMMENT: &str = "written by engine";

type Archive = ZipArchive<BufReader<File>>;

fn open(path: &Path) -> Result<Archive, NpzError> {
    let fail = |error| NpzError { path: path.to_path_buf(), fact: NpzFact::Unreadable(error) };
    let (file, _) = files::open(path).map_err(|error| fail(ZipError::Io(error)))?;
    ZipArchive::new(BufReader::new(file)).map_err(fail)
}

fn entries(archive: &Archive) -> Result<Vec<String>, ZipError> {
    archive.file_names().map(|name| Ok(name?.into_owned())).collect()
}

fn names(entries: &[String]) -> String {
    entries.iter().map(|entry| array_name(entry)).collect::<Vec<_>>().join(", ")
}

fn array_name(entry: &str) -> &str {
    entry.strip_suffix(".npy").unwrap_or(entry)
}

fn read_entry(archive: &mut Archive, path: &Path, entry: &str) -> Result<HostTensor, NpzFact> {
    let bad = |error| NpzFact::BadEntry { name: entry.to_string(), error };
    let mut part = archive.by_name(entry).map_err(bad)?;
    // The archive's size is compared with the array's own, and both with the bytes present.
    let n_bytes = part.size();
    let array = npy::read_stream(&path.join(entry), n_bytes, &mut part);
    let array = array.map_err(|error| NpzFact::BadArray(Box::new(error)))?;
    // The reader compares the checksum at the end of a part.
    match part.read(&mut [0]) {
        Ok(0) => Ok(array),
        Ok(_) => Err(NpzFact::TrailingBytes { name: entry.to_string(), n_bytes }),
        Err(error) => Err(bad(ZipError::Io(error))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use engine_core::ir::DType;

    use super::*;
    use crate::fuzz::many_times;

    fn written(path: &Path, method: CompressionMethod) -> HostTensor {
        let x = HostTensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let w = HostTensor::from_slice(&[2], &[7i64, 8]).unwrap();
        let mut archive = ZipWriter::new(File::create(path).unwrap());
        // Names that no single bit turns into each other: nothing in an archive guards its names.
        for (name, tensor) in [("x.npy", &x), ("w.npy", &w)] {
            let options = SimpleFileOptions::default().compression_method(method);
            archive.start_file(name, options).unwrap();
            let mut bytes = vec![];
            npy::write(tensor, &mut bytes).unwrap();
            archive.write_all(&bytes).unwrap();
        }
        archive.finish().unwrap();
        x
    }

    #[test]
    fn arrays_are_read_by_name_compressed_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let x = written(&path, method);
            assert_eq!(read_one(&path, "x").unwrap(), x);
            let all = read_all(&path).unwrap();
            assert_eq!(format!("{all:?}"), r#"{"x": f32[2,3], "w": i64[2]}"#);
        }
        let several = read_only(&path).unwrap_err().to_string();
        assert!(several.ends_with("a.npz: holds not one array but x, w"), "{several}");
        let missing = read_one(&path, "z").unwrap_err().to_string();
        assert!(missing.ends_with("a.npz: there is no array `z`; there are x, w"), "{missing}");
        assert!(read_all(&dir.path().join("none.npz")).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn written_arrays_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let array = |dtype| HostTensor::from_slice(&[3], &[1.0f32, -2.5, 3.0]).unwrap().cast(dtype).unwrap();
        let arrays: IndexMap<String, HostTensor> =
            DType::ALL.into_iter().map(|dtype| (format!("layer.{dtype}"), array(dtype))).collect();
        write(&arrays, &mut File::create(&path).unwrap()).unwrap();
        let read = read_all(&path).unwrap();
        assert_eq!(read.len(), arrays.len());
        for (name, array) in &arrays {
            let expected = match array.dtype() {
                DType::BF16 => array.cast(DType::F32).unwrap(),
                _ => array.clone(),
            };
            assert_eq!(read[name], expected);
        }
    }

    /// Damage is an error or does not matter; it never is a panic or a wrong shape.
    #[test]
    fn survives_random_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let x = written(&path, CompressionMethod::Deflated);
        let sound = fs::read(&path).unwrap();
        let mut n_errors = 0;
        let n_runs = many_times(0x2e7, |stream| {
            let mut bytes = sound.clone();
            let place = stream.below(bytes.len() as u32) as usize;
            match stream.below(3) {
                0 => bytes.truncate(place),
                _ => bytes[place] ^= 1 << stream.below(8),
            }
            fs::write(&path, bytes).unwrap();
            match read_all(&path) {
                Ok(arrays) => assert!(arrays.get("x").is_none_or(|found| found.shape() == x.shape())),
                Err(_) => n_errors += 1,
            }
        });
        assert!(n_errors > n_runs / 4, "{n_errors} errors in {n_runs} runs");
    }
}
