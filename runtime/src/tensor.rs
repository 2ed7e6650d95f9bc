//! Host tensors: the output of data sources and initializers, and the content of checkpoints.

mod element;
mod storage;

pub use element::Element;

use std::fmt;
use std::sync::Arc;

use engine_core::ir::DType;
use half::{bf16, f16};
use memmap2::Mmap;
use storage::{ALIGNMENT, AlignedBytes, Storage};
use thiserror::Error;

// Files are little-endian, and tensors are written to them as they lie in memory.
#[cfg(target_endian = "big")]
compile_error!("big-endian machines are not supported");

/// The fault of a requested [`HostTensor`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TensorError {
    /// The elements of the shape need more bytes than memory can address.
    #[error("a tensor of type {} is too large to address", type_text(*.dtype, .shape))]
    TooLarge {
        /// Requested element type.
        dtype: DType,
        /// Requested shape.
        shape: Vec<usize>,
    },
    /// The host has not enough memory.
    #[error("the host has no {bytes} bytes of memory left")]
    NoMemory {
        /// Requested bytes.
        bytes: usize,
    },
    /// The number of given bytes or elements differs from the number that the shape needs.
    #[error("{} needs {expected} {unit}, {found} were given", type_text(*.dtype, .shape))]
    WrongLength {
        /// Requested element type.
        dtype: DType,
        /// Requested shape.
        shape: Vec<usize>,
        /// The unit of the count: bytes or elements.
        unit: &'static str,
        /// The count that the shape needs.
        expected: usize,
        /// The count that was given.
        found: usize,
    },
    /// The view has another element type than the tensor.
    #[error("the tensor holds {found}, a view as {expected} was requested")]
    WrongType {
        /// Element type of the view.
        expected: DType,
        /// Element type of the tensor.
        found: DType,
    },
}

/// A dense, row-major tensor in host memory.
///
/// Cloning shares the storage. The first write to a shared tensor copies it, and so does that to a part of a mapped file. The
/// storage starts at a 64-byte boundary,
/// so that any element type can be viewed in place and vector loads are aligned.
#[derive(Clone, PartialEq)]
pub struct HostTensor {
    dtype: DType,
    shape: Vec<usize>,
    storage: Arc<Storage>,
}

impl HostTensor {
    /// A tensor of zeros (`false` for [`DType::Bool`]). The system allocates its pages on the first write.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self, TensorError> {
        let bytes = byte_len(dtype, shape)?;
        let storage = AlignedBytes::zeroed(bytes).ok_or(TensorError::NoMemory { bytes })?;
        Ok(HostTensor { dtype, shape: shape.to_vec(), storage: Arc::new(Storage::Own(storage)) })
    }

    /// A tensor with the given little-endian bytes, which are copied.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Self, TensorError> {
        let expected = byte_len(dtype, shape)?;
        check_length(dtype, shape, "bytes", expected, bytes.len())?;
        let mut tensor = HostTensor::zeros(dtype, shape)?;
        tensor.bytes_mut().copy_from_slice(bytes);
        Ok(tensor)
    }

    /// A tensor with the bytes of a mapped file from `offset` on, which are not copied; none where these are not aligned, or not
    /// inside the file.
    pub(crate) fn mapped(dtype: DType, shape: &[usize], map: &Arc<Mmap>, offset: usize) -> Option<Self> {
        let storage = Storage::mapped(map, offset, byte_len(dtype, shape).ok()?)?;
        Some(HostTensor { dtype, shape: shape.to_vec(), storage: Arc::new(storage) })
    }

    /// A tensor with the given bytes, which come in parts. Each part is freed after its copy.
    pub(crate) fn from_parts(
        dtype: DType,
        shape: &[usize],
        parts: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Self, TensorError> {
        let mut tensor = HostTensor::zeros(dtype, shape)?;
        let mut rest = tensor.bytes_mut();
        for part in parts {
            let (place, behind) = rest
                .split_at_mut_checked(part.len())
                .unwrap_or_else(|| engine_core::bug!("more bytes than {} takes", type_text(dtype, shape)));
            place.copy_from_slice(&part);
            rest = behind;
        }
        Ok(tensor)
    }

    /// A tensor with the given elements in row-major order, which are copied.
    pub fn from_slice<T: Element>(shape: &[usize], elements: &[T]) -> Result<Self, TensorError> {
        let mut tensor = HostTensor::zeros(T::DTYPE, shape)?;
        check_length(T::DTYPE, shape, "elements", tensor.n_elements(), elements.len())?;
        tensor.as_mut_slice::<T>()?.copy_from_slice(elements);
        Ok(tensor)
    }

    /// A tensor of rank 0 with one element.
    pub fn scalar<T: Element>(element: T) -> Self {
        let mut storage = AlignedBytes::one_line(T::DTYPE.size());
        storage.as_mut_slice::<T>()[0] = element;
        HostTensor { dtype: T::DTYPE, shape: vec![], storage: Arc::new(Storage::Own(storage)) }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.storage.len() / self.dtype.size()
    }

    /// The elements as little-endian bytes in row-major order.
    pub fn bytes(&self) -> &[u8] {
        self.storage.as_slice()
    }

    /// The bytes for writing. A [`DType::Bool`] tensor may only hold 0 and 1.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.storage).own().as_mut_slice()
    }

    /// The elements in row-major order, if `T` is the tensor's type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.check_type::<T>()?;
        Ok(self.storage.as_slice())
    }

    /// The elements for writing, if `T` is the tensor's type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        self.check_type::<T>()?;
        Ok(Arc::make_mut(&mut self.storage).own().as_mut_slice())
    }

    /// Every element as f64 (exact for all types but large i64), for oracles and printing.
    pub fn to_f64(&self) -> Vec<f64> {
        fn all<T: Copy>(elements: &[T], widen: impl Fn(T) -> f64) -> Vec<f64> {
            elements.iter().map(|&element| widen(element)).collect()
        }
        let storage = &self.storage;
        match self.dtype {
            DType::Bool | DType::U8 => all(storage.as_slice::<u8>(), f64::from),
            DType::I8 => all(storage.as_slice::<i8>(), f64::from),
            DType::I16 => all(storage.as_slice::<i16>(), f64::from),
            DType::U16 => all(storage.as_slice::<u16>(), f64::from),
            DType::I32 => all(storage.as_slice::<i32>(), f64::from),
            DType::I64 => all(storage.as_slice::<i64>(), |element| element as f64),
            DType::U32 => all(storage.as_slice::<u32>(), f64::from),
            DType::F16 => all(storage.as_slice::<f16>(), f16::to_f64),
            DType::BF16 => all(storage.as_slice::<bf16>(), bf16::to_f64),
            DType::F32 => all(storage.as_slice::<f32>(), f64::from),
            DType::F64 => storage.as_slice::<f64>().to_vec(),
        }
    }

    /// The elements in another type, converted like Rust's `as`. Floats are rounded to nearest. Numbers beyond the
    /// range become infinite, or saturate in an integer type.
    ///
    /// # Errors
    /// If there is no memory for the copy.
    pub fn cast(&self, dtype: DType) -> Result<Self, TensorError> {
        fn of<T: Element>(
            from: &HostTensor,
            dtype: DType,
            cast: impl Fn(f64) -> T,
        ) -> Result<HostTensor, TensorError> {
            let mut tensor = HostTensor::zeros(dtype, from.shape())?;
            let elements = tensor.as_mut_slice::<T>()?;
            elements.iter_mut().zip(from.to_f64()).for_each(|(element, value)| *element = cast(value));
            Ok(tensor)
        }
        match dtype {
            _ if dtype == self.dtype => Ok(self.clone()),
            DType::Bool => of(self, dtype, |value| u8::from(value != 0.0)),
            DType::U8 => of(self, dtype, |value| value as u8),
            DType::I8 => of(self, dtype, |value| value as i8),
            DType::I16 => of(self, dtype, |value| value as i16),
            DType::U16 => of(self, dtype, |value| value as u16),
            DType::I32 => of(self, dtype, |value| value as i32),
            DType::I64 => of(self, dtype, |value| value as i64),
            DType::U32 => of(self, dtype, |value| value as u32),
            DType::F16 => of(self, dtype, f16::from_f64),
            DType::BF16 => of(self, dtype, bf16::from_f64),
            DType::F32 => of(self, dtype, |value| value as f32),
            DType::F64 => of(self, dtype, |value| value),
        }
    }

    /// The elements under another shape with the same number of elements. The storage is shared.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, TensorError> {
        let expected = byte_len(self.dtype, shape)? / self.dtype.size();
        check_length(self.dtype, shape, "elements", expected, self.n_elements())?;
        Ok(HostTensor { shape: shape.to_vec(), ..self.clone() })
    }

    /// The first `n_rows` rows along the outermost axis, or all if there are fewer. A scalar is returned whole.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn first_rows(&self, n_rows: usize) -> Result<Self, TensorError> {
        match self.shape.split_first() {
            Some((&all_rows, row)) if n_rows < all_rows => {
                let n_bytes = self.storage.len() / all_rows * n_rows;
                HostTensor::from_bytes(self.dtype, &[&[n_rows], row].concat(), &self.bytes()[..n_bytes])
            }
            _ => Ok(self.clone()),
        }
    }

    /// Some rows along the outermost axis, in this order. A missing row is a bug of the caller.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn select_rows(&self, rows: &[usize]) -> Result<Self, TensorError> {
        let Some((&n_rows, row)) = self.shape.split_first() else { return Ok(self.clone()) };
        let mut selected = HostTensor::zeros(self.dtype, &[&[rows.len()], row].concat())?;
        let n_bytes = self.storage.len() / n_rows.max(1);
        for (to, &from) in selected.bytes_mut().chunks_exact_mut(n_bytes.max(1)).zip(rows) {
            to.copy_from_slice(&self.bytes()[from * n_bytes..][..n_bytes]);
        }
        Ok(selected)
    }

    /// Some rows along the outermost axis, in ascending order. The rows are moved in place, so a tensor with unshared
    /// storage needs no more memory.
    pub fn keep_rows(mut self, rows: &[usize]) -> Self {
        let Some(n_rows) = self.shape.first_mut() else { return self };
        let storage = Arc::make_mut(&mut self.storage).own();
        let n_bytes = storage.len / (*n_rows).max(1);
        for (to, &from) in rows.iter().enumerate() {
            storage.as_mut_slice::<u8>().copy_within(from * n_bytes..(from + 1) * n_bytes, to * n_bytes);
        }
        *n_rows = rows.len();
        storage.truncate(rows.len() * n_bytes);
        self
    }

    /// The tensor with its axes in reverse order, such as the transpose of a matrix.
    ///
    /// # Errors
    /// If there is no memory for the copy.
    pub fn transposed(&self) -> Result<Self, TensorError> {
        let shape: Vec<usize> = self.shape.iter().rev().copied().collect();
        let mut transposed = HostTensor::zeros(self.dtype, &shape)?;
        // Bytes between neighbours along each axis of the result.
        let mut step = self.dtype.size();
        let mut steps: Vec<usize> = vec![];
        for extent in &shape {
            steps.push(step);
            step *= extent;
        }
        let (size, from) = (self.dtype.size(), self.bytes());
        let (mut place, mut at) = (vec![0; shape.len()], 0);
        for element in transposed.bytes_mut().chunks_exact_mut(size) {
            element.copy_from_slice(&from[at..at + size]);
            for axis in (0..shape.len()).rev() {
                (place[axis], at) = (place[axis] + 1, at + steps[axis]);
                if place[axis] < shape[axis] {
                    break;
                }
                (place[axis], at) = (0, at - shape[axis] * steps[axis]);
            }
        }
        Ok(transposed)
    }

    fn check_type<T: Element>(&self) -> Result<(), TensorError> {
        let raw_bool = self.dtype == DType::Bool && T::DTYPE == DType::U8;
        if self.dtype == T::DTYPE || raw_bool {
            return Ok(());
        }
        Err(TensorError::WrongType { expected: T::DTYPE, found: self.dtype })
    }
}

impl fmt::Debug for HostTensor {
    /// Prints the type alone: `f32[64,10]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&type_text(self.dtype, &self.shape))
    }
}

/// The number that some bytes begin with.
pub(crate) fn number_of(dtype: DType, bytes: [u8; 8]) -> f64 {
    let [a, b, c, d, ..] = bytes;
    match dtype {
        DType::Bool | DType::U8 => f64::from(a),
        DType::I8 => f64::from(i8::from_le_bytes([a])),
        DType::I16 => f64::from(i16::from_le_bytes([a, b])),
        DType::U16 => f64::from(u16::from_le_bytes([a, b])),
        DType::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
        DType::U32 => f64::from(u32::from_le_bytes([a, b, c, d])),
        DType::I64 => i64::from_le_bytes(bytes) as f64,
        DType::F16 => f16::from_le_bytes([a, b]).to_f64(),
        DType::BF16 => bf16::from_le_bytes([a, b]).to_f64(),
        DType::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
        DType::F64 => f64::from_le_bytes(bytes),
    }
}

/// A type as graphs print it: `f32[64,10]`.
pub fn type_text(dtype: DType, shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("{dtype}[{}]", extents.join(","))
}

/// Bytes of a dense tensor of this type.
pub fn byte_len(dtype: DType, shape: &[usize]) -> Result<usize, TensorError> {
    // A zero extent makes the tensor empty for any other extents. But the product of the others must not overflow, or
    // strides would overflow as well.
    let n_bytes = shape.iter().try_fold(dtype.size(), |n, &extent| n.checked_mul(extent.max(1)));
    match n_bytes {
        Some(n_bytes) if n_bytes <= isize::MAX as usize - ALIGNMENT => {
            Ok(if shape.contains(&0) { 0 } else { n_bytes })
        }
        _ => Err(TensorError::TooLarge { dtype, shape: shape.to_vec() }),
    }
}

fn check_length(
    dtype: DType,
    shape: &[usize],
    unit: &'static str,
    expected: usize,
    found: usize,
) -> Result<(), TensorError> {
    if expected == found {
        return Ok(());
    }
    Err(TensorError::WrongLength { dtype, shape: shape.to_vec(), unit, expected, found })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn elements_are_seen_as_bytes_and_as_numbers() {
        let tensor = HostTensor::from_slice(&[2, 2], &[1.0f32, -2.0, 0.5, 0.0]).unwrap();
        assert_eq!(format!("{tensor:?}"), "f32[2,2]");
        assert_eq!(tensor.n_elements(), 4);
        assert_eq!(tensor.bytes()[..8], [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
        assert_eq!(HostTensor::from_bytes(DType::F32, &[2, 2], tensor.bytes()).unwrap(), tensor);
        assert_eq!(tensor.to_f64(), [1.0, -2.0, 0.5, 0.0]);
    }

    #[test]
    fn every_element_type_widens_to_f64() {
        fn widened<T: Element>(element: T) -> f64 {
            let tensor = HostTensor::scalar(element);
            let mut bytes = [0; 8];
            bytes[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
            assert_eq!(number_of(tensor.dtype(), bytes), tensor.to_f64()[0]);
            tensor.to_f64()[0]
        }
        assert_eq!(widened(250u8), 250.0);
        assert_eq!(widened(-7i8), -7.0);
        assert_eq!(widened(-7i16), -7.0);
        assert_eq!(widened(65_000u16), 65_000.0);
        assert_eq!(widened(-7i32), -7.0);
        assert_eq!(widened(-(1i64 << 40)), -1_099_511_627_776.0);
        assert_eq!(widened(4_000_000_000u32), 4e9);
        assert_eq!(widened(f16::from_f32(1.5)), 1.5);
        assert_eq!(widened(bf16::from_f32(-3.0)), -3.0);
        assert_eq!(widened(0.25f64), 0.25);
    }

    #[test]
    fn elements_take_another_type_as_numbers_do() {
        let from = HostTensor::from_slice(&[4], &[-1.5f64, 0.0, 300.25, 1e300]).unwrap();
        let cast = |dtype| from.cast(dtype).unwrap().to_f64();
        assert_eq!(cast(DType::F64), from.to_f64());
        assert_eq!(cast(DType::F32), [-1.5, 0.0, 300.25, f64::INFINITY]);
        assert_eq!(cast(DType::BF16), [-1.5, 0.0, 300.0, f64::INFINITY]);
        assert_eq!(cast(DType::I32), [-1.0, 0.0, 300.0, f64::from(i32::MAX)]);
        assert_eq!(cast(DType::U8), [0.0, 0.0, 255.0, 255.0]);
        assert_eq!(cast(DType::I8), [-1.0, 0.0, 127.0, 127.0]);
        assert_eq!(cast(DType::I16), [-1.0, 0.0, 300.0, 32767.0]);
        assert_eq!(cast(DType::U16), [0.0, 0.0, 300.0, 65535.0]);
        assert_eq!(cast(DType::Bool), [1.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn a_write_to_a_clone_leaves_the_original() {
        let original = HostTensor::from_slice(&[3], &[1i32, 2, 3]).unwrap();
        let mut copy = original.clone();
        copy.as_mut_slice::<i32>().unwrap()[1] = 9;
        assert_eq!(original.as_slice::<i32>().unwrap(), [1, 2, 3]);
        assert_eq!(copy.as_slice::<i32>().unwrap(), [1, 9, 3]);
    }

    #[test]
    fn storage_is_aligned_for_vector_loads() {
        for n_elements in [1, 15, 16, 17, 1000] {
            let tensor = HostTensor::zeros(DType::F64, &[n_elements]).unwrap();
            assert_eq!(tensor.bytes().as_ptr() as usize % 64, 0);
        }
    }

    #[test]
    fn wrong_types_and_lengths_are_named() {
        let tensor = HostTensor::zeros(DType::Bool, &[2]).unwrap();
        assert_eq!(tensor.as_slice::<u8>().unwrap(), [0, 0]);
        let view = tensor.as_slice::<f32>().unwrap_err();
        assert_eq!(view.to_string(), "the tensor holds bool, a view as f32 was requested");
        let short = HostTensor::from_slice(&[2, 3], &[0.0f64; 5]).unwrap_err();
        assert_eq!(short.to_string(), "f64[2,3] needs 6 elements, 5 were given");
        let bytes = HostTensor::from_bytes(DType::U32, &[2], &[0; 9]).unwrap_err();
        assert_eq!(bytes.to_string(), "u32[2] needs 8 bytes, 9 were given");
        let reshaped = tensor.reshaped(&[3]).unwrap_err();
        assert_eq!(reshaped.to_string(), "bool[3] needs 3 elements, 2 were given");
    }

    #[test]
    fn an_absurd_shape_is_refused_before_allocation() {
        let huge = [usize::MAX / 2, 3];
        assert!(matches!(HostTensor::zeros(DType::F32, &huge), Err(TensorError::TooLarge { .. })));
        assert!(HostTensor::zeros(DType::U8, &[0, usize::MAX, 2]).is_err());
        assert_eq!(HostTensor::zeros(DType::F32, &[0, 5]).unwrap().n_elements(), 0);
        let (bytes, huge) = (1 << 60, [1 << 30, 1 << 30]);
        assert_eq!(HostTensor::zeros(DType::U8, &huge).unwrap_err(), TensorError::NoMemory { bytes });
    }

    #[test]
    fn the_first_rows_are_a_prefix() {
        let tensor = HostTensor::from_slice(&[3, 2], &[1u8, 2, 3, 4, 5, 6]).unwrap();
        let rows = tensor.first_rows(2).unwrap();
        assert_eq!((rows.shape(), rows.bytes()), (&[2usize, 2][..], &[1u8, 2, 3, 4][..]));
        assert_eq!(tensor.first_rows(7).unwrap(), tensor);
        assert_eq!(HostTensor::scalar(4i32).first_rows(0).unwrap(), HostTensor::scalar(4i32));
    }

    #[test]
    fn kept_rows_are_moved_in_place() {
        let tensor = HostTensor::from_slice(&[4, 2], &[1u8, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        for rows in [&[][..], &[0], &[1, 3], &[0, 1, 2, 3]] {
            assert_eq!(tensor.clone().keep_rows(rows), tensor.select_rows(rows).unwrap(), "{rows:?}");
        }
        assert_eq!(HostTensor::scalar(4i32).keep_rows(&[]), HostTensor::scalar(4i32));
        assert_eq!(tensor.shape(), [4, 2]);
    }

    #[test]
    fn equality_is_of_bits() {
        let nan = HostTensor::scalar(f32::NAN);
        assert_eq!(nan, nan.clone());
        assert_ne!(HostTensor::scalar(0.0f32), HostTensor::scalar(-0.0f32));
    }
}
