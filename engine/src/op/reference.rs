//! Tensors in which an opaque op states its results: floats are `f64`, integers and truth values `i64`.

use crate::ir::{DType, Literal, Type};

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Elements of a float type.
    Float(Vec<f64>),
    /// Elements of an integer type, or truth values as 0 and 1.
    Int(Vec<i64>),
}

/// A dense tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleTensor {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub extents: Vec<usize>,
    /// Elements of the kind that `dtype` requires.
    pub elements: Elements,
}

impl OracleTensor {
    /// A tensor of any type from numbers. Integers are truncated and saturate, and truth values are `x != 0`.
    ///
    /// # Panics
    /// If the number of elements does not fit the extents.
    pub fn new(dtype: DType, extents: &[usize], elements: &[f64]) -> OracleTensor {
        if dtype.is_float() {
            return OracleTensor::floats(dtype, extents, elements.to_vec());
        }
        let int = |&x: &f64| Literal::Float(x).cast(dtype).as_i64();
        OracleTensor::ints(dtype, extents, elements.iter().map(int).collect())
    }

    /// A tensor of a float type.
    pub fn floats(dtype: DType, extents: &[usize], elements: Vec<f64>) -> OracleTensor {
        assert_eq!(elements.len(), extents.iter().product::<usize>(), "elements of {extents:?}");
        OracleTensor { dtype, extents: extents.to_vec(), elements: Elements::Float(elements) }
    }

    /// A tensor of an integer or boolean type.
    pub fn ints(dtype: DType, extents: &[usize], elements: Vec<i64>) -> OracleTensor {
        assert_eq!(elements.len(), extents.iter().product::<usize>(), "elements of {extents:?}");
        let elements = elements.into_iter().map(|x| dtype.wrap(x)).collect();
        OracleTensor { dtype, extents: extents.to_vec(), elements: Elements::Int(elements) }
    }

    /// A tensor filled with one number.
    pub fn filled(ty: &Type, value: f64) -> OracleTensor {
        OracleTensor::of_literal(ty, Literal::Float(value))
    }

    /// A tensor filled with one literal.
    pub(crate) fn of_literal(ty: &Type, literal: Literal) -> OracleTensor {
        let (extents, count) = (ty.extents(), ty.numel());
        match ty.dtype.is_float() {
            true => OracleTensor::floats(ty.dtype, &extents, vec![literal.as_f64(); count]),
            false => OracleTensor::ints(ty.dtype, &extents, vec![literal.cast(ty.dtype).as_i64(); count]),
        }
    }

    /// The type.
    pub fn ty(&self) -> Type {
        Type::new(self.dtype, &self.extents)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Float(elements) => elements.len(),
            Elements::Int(elements) => elements.len(),
        }
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements as floats.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.float(i)).collect()
    }

    /// An element as a float.
    pub fn float(&self, i: usize) -> f64 {
        match &self.elements {
            Elements::Float(elements) => elements[i],
            Elements::Int(elements) => elements[i] as f64,
        }
    }

    /// An element as an integer. Floats are truncated.
    pub fn int(&self, i: usize) -> i64 {
        match &self.elements {
            Elements::Float(elements) => elements[i] as i64,
            Elements::Int(elements) => elements[i],
        }
    }
}
