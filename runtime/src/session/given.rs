//! Values of inputs that a pipeline or a caller writes down.

use std::path::Path;

use engine_core::ir::{DType, Literal, Type};
use engine_core::pipeline::Given;

use crate::data::cells::{Cells, Policy};
use crate::data::rows::Reading;
use crate::data::table::{self, TableError};
use crate::tensor::{HostTensor, type_text};

/// A value as the tensor that an input takes, all extents known.
///
/// # Errors
/// Why it is none.
pub(super) fn tensor_of(given: &Given, ty: &Type) -> Result<HostTensor, GivenFault> {
    match given {
        Given::File(path) => from_file(Path::new(path), ty),
        Given::Elements { shape, elements } if *shape == ty.extents() => from_elements(elements, ty),
        Given::Elements { shape, .. } => {
            Err(GivenFault::Unfit(format!("it is {ty}, a value of shape {shape:?} was given")))
        }
    }
}

/// Why a value is not that of an input.
pub(super) enum GivenFault {
    /// It does not fit.
    Unfit(String),
    /// Its file cannot be used.
    File(TableError),
}

impl From<TableError> for GivenFault {
    fn from(error: TableError) -> Self {
        GivenFault::File(error)
    }
}

fn from_file(path: &Path, ty: &Type) -> Result<HostTensor, GivenFault> {
    let rows = table::read_as(path, &Reading { dtype: ty.dtype, ..Reading::default() })?;
    let (tensor, extents) = (rows.tensor, ty.extents());
    let same_rows = extents.first().is_none_or(|n_rows| tensor.shape().first() == Some(n_rows));
    if tensor.n_elements() != ty.numel() || !same_rows {
        let found = type_text(tensor.dtype(), tensor.shape());
        return Err(GivenFault::Unfit(format!("it is {ty}, {} has {found}", path.display())));
    }
    if let Some(note) = rows.notes.into_iter().next() {
        return Err(GivenFault::Unfit(note));
    }
    let tensor = tensor.reshaped(&extents).map_err(TableError::from)?;
    let row_elements = extents.iter().skip(1).product::<usize>().max(1);
    let converted = table::converted(&tensor, ty.dtype, 0, row_elements);
    Ok(converted.map_err(|error| error.in_file(path))?)
}

/// Every element exactly, or rounded if it has a fraction.
fn from_elements(elements: &[Literal], ty: &Type) -> Result<HostTensor, GivenFault> {
    let mut cells = Cells::new(ty.dtype, Policy { non_finite: true, ..Policy::default() });
    for element in elements {
        let is_truth = matches!(element, Literal::Bool(_));
        let text = match element {
            Literal::Bool(truth) => u8::from(*truth).to_string(),
            // The shortest form, so that 1e15 is not read as a whole number of 16 digits.
            Literal::Float(x) => format!("{x:e}"),
            number => number.to_string(),
        };
        let fits = is_truth == (ty.dtype == DType::Bool);
        if !fits || cells.take(&text).is_err() || cells.n_rounded() > 0 {
            return Err(GivenFault::Unfit(format!("it is {ty}, and {element} is no {}", ty.dtype)));
        }
    }
    Ok(cells.tensor(&ty.extents())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::data::npy;

    fn given(text: &str, dtype: DType, extents: &[usize]) -> Result<HostTensor, String> {
        let given = engine_core::front::given_text(text)?;
        tensor_of(&given, &Type::new(dtype, extents)).map_err(|fault| match fault {
            GivenFault::Unfit(why) => why,
            GivenFault::File(error) => error.to_string(),
        })
    }

    #[test]
    fn written_values_are_tensors_of_their_input() {
        assert_eq!(given("[[1, 2], [3, 4]]", DType::I32, &[2, 2]).unwrap().to_f64(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            given("[1, -inf, 0.5]", DType::F32, &[3]).unwrap().to_f64(),
            [1.0, f64::NEG_INFINITY, 0.5]
        );
        assert_eq!(given("[true, false]", DType::Bool, &[2]).unwrap().to_f64(), [1.0, 0.0]);
        assert_eq!(given("7", DType::U8, &[]).unwrap().to_f64(), [7.0]);
        assert_eq!(given("[1e15]", DType::F32, &[1]).unwrap().to_f64(), [f64::from(1e15f32)]);
        let exact = given("[9007199254740993]", DType::I64, &[1]).unwrap();
        assert_eq!(exact.as_slice::<i64>().unwrap(), [9_007_199_254_740_993]);
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let refused = |text: &str, dtype, extents: &[usize]| given(text, dtype, extents).unwrap_err();
        assert_eq!(refused("[1, 2, 3]", DType::F32, &[2]), "it is f32[2], a value of shape [3] was given");
        assert_eq!(refused("[300]", DType::U8, &[1]), "it is u8[1], and 300 is no u8");
        assert_eq!(refused("[0.5]", DType::I32, &[1]), "it is i32[1], and 0.5 is no i32");
        assert_eq!(refused("[16777217]", DType::F32, &[1]), "it is f32[1], and 16777217 is no f32");
        assert_eq!(refused("[16777217.0]", DType::F32, &[1]), "it is f32[1], and 16777217.0 is no f32");
        assert_eq!(refused("[true]", DType::F32, &[1]), "it is f32[1], and true is no f32");
        assert_eq!(
            refused("[[1], [2, 3]]", DType::F32, &[2, 1]),
            "expected a list of 1 here, as before in this value"
        );
        assert!(refused("none.npy", DType::F32, &[1]).starts_with("none.npy: cannot be read: "));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        std::fs::write(&path, "1,2\n3,4\n").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(given(path, DType::F32, &[2, 2]).unwrap().to_f64(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(refused(path, DType::F32, &[4]), format!("it is f32[4], {path} has f32[2,2]"));
    }

    #[test]
    fn numbers_that_do_not_fit_are_named_with_their_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npy");
        let refused = |numbers: &HostTensor, dtype| {
            npy::write(numbers, &mut std::fs::File::create(&path).unwrap()).unwrap();
            let error = given(path.to_str().unwrap(), dtype, numbers.shape()).unwrap_err();
            error.strip_prefix(&format!("{}: ", path.display())).unwrap().to_string()
        };
        let large = HostTensor::from_slice(&[2, 2], &[1.0, 2.0, 3.0, 1e300]).unwrap();
        assert_eq!(refused(&large, DType::F32), "row 1, element 1: 1e300 is no f32");
        assert_eq!(refused(&HostTensor::scalar(0.5), DType::I64), "row 0: 0.5 is no i64");
        let beyond = HostTensor::from_slice(&[2], &[1.0, 2f64.powi(63)]).unwrap();
        assert_eq!(refused(&beyond, DType::I64), "row 1: 9.223372036854776e18 is no i64");
    }
}
