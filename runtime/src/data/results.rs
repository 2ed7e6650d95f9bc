//! Files of results of a search.

use std::io::{self, Write};
use std::path::Path;

use engine_core::ir::DType;

use super::npy;
use super::vecs::{self, Form};
use crate::files::{self, Format, Overwrite, Target, WriteFault, starts_with};
use crate::tensor::HostTensor;

/// Writes a matrix in the format of the file's extension: `.npy`, or vectors with their lengths. It replaces files of
/// that format alone.
///
/// # Errors
/// If the name or the element type does not fit a format, or the file cannot be written.
pub fn write(tensor: &HostTensor, path: &Path) -> io::Result<()> {
    write_over(tensor, path, Overwrite::Own)
}

/// As [`write()`], with that treatment of existing files.
///
/// # Errors
/// As for [`write()`].
pub fn write_over(tensor: &HostTensor, path: &Path, overwrite: Overwrite) -> io::Result<()> {
    let is_npy = path.extension().is_some_and(|extension| extension == "npy");
    let fits = |(_, dtype): &(Form, DType)| *dtype == tensor.dtype() && tensor.shape().len() == 2;
    let form = vecs::kind_of(path).filter(fits).map(|(form, _)| form);
    if !is_npy && form.is_none() {
        let message = format!(
            "a {tensor:?} goes to a .npy file, an f32 matrix also to .fvecs or .fbin, an i32 matrix to .ivecs or .ibin"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let target = Target::new(path, format_of(path), overwrite).map_err(io::Error::other)?;
    let content = |file: &mut dyn Write| match form {
        None => npy::write(tensor, file),
        Some(form) => vecs::write(tensor, form, file),
    };
    files::write(&target, &content).map_err(WriteFault::into_error)
}

/// Arrays of results.
pub const ARRAY: Format =
    Format { name: "an array", is_own: |file| starts_with(file, npy::MAGIC), into_special: true };
/// Vectors of results. Their files have no mark, but counts that make up their sizes.
const VECTORS: Format = Format {
    name: "a file of vectors",
    is_own: |file| vecs::has_form(Form::LengthOfEach, file),
    into_special: true,
};
const COUNTED_VECTORS: Format = Format { is_own: |file| vecs::has_form(Form::CountsOnce, file), ..VECTORS };

/// The format of results, by the extension of their file.
pub fn format_of(path: &Path) -> &'static Format {
    match vecs::kind_of(path) {
        Some((Form::LengthOfEach, _)) => &VECTORS,
        Some((Form::CountsOnce, _)) => &COUNTED_VECTORS,
        None => &ARRAY,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_name_of_a_file_must_fit_the_elements() {
        let found = HostTensor::from_slice(&[2, 3], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        let wrong = write(&found, Path::new("found.fvecs")).unwrap_err().to_string();
        assert!(wrong.contains("i32[2,3] goes to a .npy file"), "{wrong}");
    }

    #[test]
    fn results_replace_files_of_their_own_format() {
        let dir = tempfile::tempdir().unwrap();
        let found = HostTensor::from_slice(&[2, 3], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        for name in ["found.npy", "found.ivecs", "found.ibin"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "notes of mine").unwrap();
            let refused = write(&found, &path).unwrap_err().to_string();
            assert!(refused.starts_with("already exists, and is not "), "{name}: {refused}");
            assert_eq!(std::fs::read(&path).unwrap(), b"notes of mine");
            write_over(&found, &path, Overwrite::Any).unwrap();
            write(&found, &path).unwrap();
        }
    }
}
