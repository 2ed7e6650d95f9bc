//! Files of results of a search.

use std::io::{self, Write};
use std::path::Path;

use engine_core::ir::DType;

use super::npy;
use super::vecs::{self, Form};
use crate::files::{self, Format, Overwrite, Target, WriteFault};
use crate::tensor::HostTensor;

/// Writes a matrix in the format of the file's extension: `.npy`, or vectors with their lengths.
///
/// # Errors
/// If the name or the element type does not fit a format, or the file cannot be written.
pub fn write(tensor: &HostTensor, path: &Path) -> std::io::Result<()> {
    let is_npy = path.extension().is_some_and(|extension| extension == "npy");
    let fits = |(_, dtype): &(Form, DType)| *dtype == tensor.dtype() && tensor.shape().len() == 2;
    let form = vecs::kind_of(path).filter(fits).map(|(form, _)| form);
    if !is_npy && form.is_none() {
        let message = format!(
            "a {tensor:?} goes to a .npy file, an f32 matrix also to .fvecs or .fbin, an i32 matrix to .ivecs or .ibin"
        );
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
    }
    let target = Target::new(path, &RESULTS, Overwrite::Own).map_err(io::Error::other)?;
    let content = |file: &mut dyn Write| match form {
        None => npy::write(tensor, file),
        Some(form) => vecs::write(tensor, form, file),
    };
    files::write(&target, &content).map_err(WriteFault::into_error)
}

/// Files of results. A file of vectors has no mark of its writer.
pub const RESULTS: Format = Format { name: "a file of results", is_own: |_| Ok(true), into_special: true };

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
}
