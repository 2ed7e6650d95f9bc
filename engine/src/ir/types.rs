//! Tensor types: an element type and a shape. Extents may have names until a plan binds them.

use super::{DType, Dim};
use std::fmt;

/// The type of a tensor: `f32[B, 784]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first. Empty for a scalar.
    pub shape: Vec<Dim>,
}

impl Type {
    /// A type with all extents known.
    pub fn new(dtype: DType, extents: &[usize]) -> Type {
        Type { dtype, shape: extents.iter().map(|&n| Dim::Fixed(n)).collect() }
    }

    /// A scalar of `dtype`.
    pub fn scalar(dtype: DType) -> Type {
        Type { dtype, shape: vec![] }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Type {
        Type { dtype, shape: self.shape.clone() }
    }

    /// All extents. It is a bug if one is still named.
    pub fn extents(&self) -> Vec<usize> {
        self.shape
            .iter()
            .map(|dim| dim.fixed().unwrap_or_else(|| crate::bug!("`{dim}` of `{self}` is not bound")))
            .collect()
    }

    /// Whether all extents are known.
    pub fn is_bound(&self) -> bool {
        self.shape.iter().all(|dim| dim.fixed().is_some())
    }

    /// Whether a machine can hold a tensor of this type, as far as its extents are known: at most 2⁴⁰ elements.
    pub fn is_holdable(&self) -> bool {
        const MOST_ELEMENTS: usize = 1 << 40;
        // Zeros are left out: an empty tensor with absurd other extents is absurd too.
        let mut extents = self.shape.iter().filter_map(Dim::fixed).filter(|&n| n > 0);
        let elements = extents.try_fold(1usize, |product, n| product.checked_mul(n));
        elements.is_some_and(|n| n <= MOST_ELEMENTS)
    }

    /// Number of elements. It is a bug if an extent is still named.
    pub fn numel(&self) -> usize {
        self.extents().iter().product()
    }

    /// Number of bytes. It is a bug if an extent is still named.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, dim) in self.shape.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// Row-major strides, in elements, of a dense tensor.
pub fn dense_strides(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}

/// The common shape of operands under the numpy rule, if there is one.
pub fn broadcast_shapes(types: &[Type]) -> Option<Vec<Dim>> {
    let rank = types.iter().map(Type::rank).max().unwrap_or(0);
    let mut shape = vec![Dim::Fixed(1); rank];
    for ty in types {
        for (slot, dim) in shape[rank - ty.rank()..].iter_mut().zip(&ty.shape) {
            if *slot == Dim::Fixed(1) {
                *slot = dim.clone();
            } else if *dim != Dim::Fixed(1) && dim != slot {
                return None;
            }
        }
    }
    Some(shape)
}
