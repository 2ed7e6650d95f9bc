//! Values that are known while a model is imported: numbers, and extents that still have names.

use engine_core::ir::{DType, Dim};

use crate::node::single;
use crate::tensor::Stored;

/// The most elements of a known value. Larger tensors are parameters.
pub(crate) const MOST_ELEMENTS: usize = 1 << 13;

/// One element of a known value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An extent that is not a number.
    Dim(Dim),
}

/// A tensor whose elements are known. Each is exactly a number of the element type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    pub(crate) elements: Vec<Number>,
}

impl Number {
    /// Whole numbers in a list.
    pub(crate) fn vector(numbers: impl IntoIterator<Item = i64>) -> Vec<Number> {
        numbers.into_iter().map(Number::Int).collect()
    }

    /// An extent, as a number if it is one.
    pub(crate) fn of(dim: &Dim) -> Number {
        match dim.fixed() {
            Some(n) => Number::Int(n as i64),
            None => Number::Dim(dim.clone()),
        }
    }

    /// The extent that the number stands for.
    pub(crate) fn dim(&self) -> Option<Dim> {
        match self {
            Number::Int(n) => usize::try_from(*n).ok().map(Dim::Fixed),
            Number::Dim(dim) => Some(dim.clone()),
            Number::Bool(_) | Number::Float(_) => None,
        }
    }

    /// The whole number, if it is one.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Number::Int(n) => Some(*n),
            Number::Bool(b) => Some(i64::from(*b)),
            Number::Float(_) | Number::Dim(_) => None,
        }
    }

    /// The number as a float.
    pub(crate) fn float(&self) -> Option<f64> {
        match self {
            Number::Float(x) => Some(*x),
            other => other.int().map(|n| n as f64),
        }
    }

    /// The stream of random numbers that a seed names. ONNX has floats for seeds: those that are no whole numbers go by their
    /// bits.
    pub(crate) fn stream(&self) -> Option<i64> {
        match self {
            Number::Float(x) if x.fract() == 0.0 && x.abs() < 2f64.powi(53) => Some(*x as i64),
            Number::Float(x) => Some(i64::from((*x as f32).to_bits())),
            other => other.int(),
        }
    }

    /// The number as an element of this type: floats are rounded, integers lose the bits beyond its width. An open extent is
    /// an integer only.
    pub(crate) fn in_type(&self, dtype: DType) -> Option<Number> {
        // ONNX's runtimes reach 16 bits by way of 32.
        let rounded = |x: f64| match dtype {
            DType::F16 => half::f16::from_f32(x as f32).to_f64(),
            DType::BF16 => half::bf16::from_f32(x as f32).to_f64(),
            DType::F32 => f64::from(x as f32),
            _ => x,
        };
        match self {
            Number::Dim(_) => dtype.is_int().then(|| self.clone()),
            _ if dtype == DType::Bool => Some(Number::Bool(self.float()? != 0.0)),
            Number::Int(n) if dtype == DType::F32 => Some(Number::Float(f64::from(*n as f32))),
            _ if dtype.is_float() => Some(Number::Float(rounded(self.float()?))),
            Number::Float(x) => Some(Number::Int(dtype.wrap(*x as i64))),
            other => Some(Number::Int(dtype.wrap(other.int()?))),
        }
    }

    /// An element of this type as a formula has it: in single precision, the shortest decimal.
    pub(crate) fn decimal(&self, dtype: DType) -> Number {
        match self {
            Number::Float(x) if dtype == DType::F32 => Number::Float(single(*x as f32)),
            other => other.clone(),
        }
    }

    /// `self + other`, if it is a number or an extent.
    pub(crate) fn plus(&self, other: &Number) -> Option<Number> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.checked_add(*b).map(Number::Int),
            (Number::Float(a), Number::Float(b)) => Some(Number::Float(a + b)),
            (Number::Dim(_), Number::Int(n)) if *n < 0 => self.minus(&Number::Int(n.checked_neg()?)),
            (Number::Int(n), Number::Dim(_)) if *n < 0 => other.minus(&Number::Int(n.checked_neg()?)),
            _ => Some(Number::of(&self.dim()?.plus(&other.dim()?)?)),
        }
    }

    /// `self - other`, if it is a number or an extent.
    pub(crate) fn minus(&self, other: &Number) -> Option<Number> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.checked_sub(*b).map(Number::Int),
            (Number::Float(a), Number::Float(b)) => Some(Number::Float(a - b)),
            (Number::Dim(_), Number::Int(n)) if *n < 0 => self.plus(&Number::Int(n.checked_neg()?)),
            _ => {
                let (a, b) = (self.dim()?, other.dim()?);
                if let Some(rest) = a.minus(&b) {
                    return Some(Number::of(&rest));
                }
                b.minus(&a)?.fixed().map(|n| Number::Int(-(n as i64)))
            }
        }
    }

    /// `self * other`, if it is a number or an extent.
    pub(crate) fn times(&self, other: &Number) -> Option<Number> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.checked_mul(*b).map(Number::Int),
            (Number::Float(a), Number::Float(b)) => Some(Number::Float(a * b)),
            _ => Some(Number::of(&self.dim()?.times(&other.dim()?)?)),
        }
    }

    /// `self / other`; of whole numbers, rounded towards zero.
    pub(crate) fn over(&self, other: &Number) -> Option<Number> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.checked_div(*b).map(Number::Int),
            (Number::Float(a), Number::Float(b)) => Some(Number::Float(a / b)),
            _ => Some(Number::of(&self.dim()?.divided_by(&other.dim()?)?)),
        }
    }

    /// Whether two numbers are equal, if that is certain. Extents are not negative.
    pub(crate) fn equals(&self, other: &Number) -> Option<bool> {
        match (self, other) {
            (Number::Dim(_), Number::Int(n)) | (Number::Int(n), Number::Dim(_)) if *n < 0 => Some(false),
            (Number::Dim(_), _) | (_, Number::Dim(_)) => Some(self.minus(other)?.int()? == 0),
            (Number::Int(a), Number::Int(b)) => Some(a == b),
            _ => Some(self.float()? == other.float()?),
        }
    }

    /// Whether the first number is smaller, if that is certain.
    pub(crate) fn below(&self, other: &Number) -> Option<bool> {
        match (self, other) {
            (Number::Dim(_), Number::Int(n)) if *n <= 0 => Some(false),
            (Number::Int(n), Number::Dim(_)) if *n < 0 => Some(true),
            (Number::Dim(_), _) | (_, Number::Dim(_)) => Some(self.minus(other)?.int()? < 0),
            (Number::Int(a), Number::Int(b)) => Some(a < b),
            _ => Some(self.float()? < other.float()?),
        }
    }
}

impl Known {
    /// A tensor of these numbers, each of which is brought to the element type. Nothing if one has no place in it.
    pub(crate) fn new(dtype: DType, dims: Vec<usize>, numbers: Vec<Number>) -> Option<Known> {
        let elements = numbers.iter().map(|number| number.in_type(dtype)).collect::<Option<_>>()?;
        Some(Known { dtype, dims, elements })
    }

    /// A vector of whole numbers and extents.
    pub(crate) fn vector(elements: Vec<Number>) -> Known {
        Known { dtype: DType::I64, dims: vec![elements.len()], elements }
    }

    /// The value of a small tensor.
    pub(crate) fn of(stored: &Stored) -> Option<Known> {
        let n = stored.dims.iter().product::<usize>();
        if n > MOST_ELEMENTS {
            return None;
        }
        let elements =
            stored.bytes.chunks_exact(stored.dtype.size()).map(|bytes| number(bytes, stored.dtype));
        Some(Known {
            dtype: stored.dtype,
            dims: stored.dims.clone(),
            elements: elements.collect::<Option<_>>()?,
        })
    }

    /// The one element.
    pub(crate) fn single(&self) -> Option<&Number> {
        if self.elements.len() == 1 { self.elements.first() } else { None }
    }

    /// All elements as a formula has them.
    pub(crate) fn decimals(&self) -> Vec<Number> {
        self.elements.iter().map(|element| element.decimal(self.dtype)).collect()
    }

    /// All elements as whole numbers.
    pub(crate) fn ints(&self) -> Option<Vec<i64>> {
        self.elements.iter().map(Number::int).collect()
    }

    /// The tensor, unless an extent has a name.
    pub(crate) fn stored(&self) -> Option<Stored> {
        let bytes =
            self.elements.iter().map(|number| bytes_of(number, self.dtype)).collect::<Option<Vec<_>>>()?;
        Some(Stored::new(self.dtype, self.dims.clone(), bytes.concat().into()))
    }
}

/// The number of little-endian bytes.
fn number(bytes: &[u8], dtype: DType) -> Option<Number> {
    fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    Some(match dtype {
        DType::Bool => Number::Bool(bytes[0] != 0),
        DType::F16 => Number::Float(half::f16::from_le_bytes(fixed(bytes)?).to_f64()),
        DType::BF16 => Number::Float(half::bf16::from_le_bytes(fixed(bytes)?).to_f64()),
        DType::F32 => Number::Float(f64::from(f32::from_le_bytes(fixed(bytes)?))),
        DType::F64 => Number::Float(f64::from_le_bytes(fixed(bytes)?)),
        _ => Number::Int(dtype.wrap(bytes.iter().rev().fold(0, |n, &byte| n << 8 | i64::from(byte)))),
    })
}

fn bytes_of(number: &Number, dtype: DType) -> Option<Vec<u8>> {
    let int = || number.int();
    Some(match dtype {
        DType::Bool => vec![u8::from(int()? != 0)],
        DType::F16 => half::f16::from_f64(number.float()?).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(number.float()?).to_le_bytes().to_vec(),
        DType::F32 => (number.float()? as f32).to_le_bytes().to_vec(),
        DType::F64 => number.float()?.to_le_bytes().to_vec(),
        _ => int()?.to_le_bytes()[..dtype.size()].to_vec(),
    })
}
