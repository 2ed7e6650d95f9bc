//! Queries, keys or values, as the copy engine reads them.

use crate::codegen::tensor_map::{MAP_AXES, TensorMap};
use crate::device_model::TensorCores;
use crate::fusion::{Axis, FusedOp, Source};
use crate::ir::DType;

/// The alignment of rows in memory, in bytes.
const ALIGNMENT: usize = 16;
/// The axes of a matrix: along memory, and across.
const MATRIX_AXES: usize = 2;
/// The axes of a copy that takes three coordinates.
const FEWEST_AXES: usize = 3;

/// A coordinate of a matrix: its number divided by `divisor`, modulo `extent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Coordinate {
    divisor: usize,
    extent: usize,
}

/// A stack of matrices in an operand, whose rows lie along memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedOperand {
    operand: usize,
    dtype: DType,
    offset: usize,
    n_axes: usize,
    extents: [usize; MAP_AXES],
    strides: [usize; MAP_AXES - 1],
    /// The coordinates after those of a matrix.
    coordinates: [Option<Coordinate>; MAP_AXES - MATRIX_AXES],
}

/// The element type of a source that is a window on an operand.
pub fn dtype_of(source: &Source) -> DType {
    source.body.insts[source.value].dtype
}

impl MappedOperand {
    /// A source of `batch` matrices with `rows` rows. None if it is computed, or if the copy engine cannot read it.
    pub fn of(source: &Source, batch: usize, rows: usize) -> Option<MappedOperand> {
        let window = source.window(rows)?;
        let is_dense = matches!(source.body.insts[source.value].op, FusedOp::Load { index: None, .. });
        let columns = source.body.domain.row;
        let (offset, by_axis) = window.access.axes_by_axis(&[batch, rows, columns])?;
        let [of_batch, of_rows, of_columns] = &by_axis[..] else { return None };
        let is_along = matches!(of_columns[..], [Axis { stride: 1, .. }]);
        let [of_rows] = of_rows[..] else { return None };
        if !is_dense || !is_along {
            return None;
        }
        let mut form = MappedOperand {
            operand: window.operand,
            dtype: dtype_of(source),
            offset: usize::try_from(offset).ok()?,
            n_axes: MATRIX_AXES,
            extents: [columns, rows, 1, 1, 1],
            strides: [usize::try_from(of_rows.stride).ok()?, 0, 0, 0],
            coordinates: [None; MAP_AXES - MATRIX_AXES],
        };
        form.stack(of_batch)?;
        let is_aligned = |n: usize| (n * form.dtype.size()).is_multiple_of(ALIGNMENT);
        let mut strides = form.strides[..form.n_axes - 1].iter();
        let is_readable = strides.all(|&stride| stride > 0 && is_aligned(stride));
        (is_readable && is_aligned(form.offset)).then_some(form)
    }

    /// Appends the axes that a matrix is numbered by, the innermost first. All matrices along an axis without a stride are
    /// one. Axes of one element fill up the fewest.
    fn stack(&mut self, axes: &[Axis]) -> Option<()> {
        let mut divisor = 1;
        for axis in axes.iter().rev() {
            if axis.stride != 0 {
                let at = self.n_axes;
                *self.extents.get_mut(at)? = axis.extent;
                self.strides[at - 1] = usize::try_from(axis.stride).ok()?;
                self.coordinates[at - MATRIX_AXES] = Some(Coordinate { divisor, extent: axis.extent });
                self.n_axes += 1;
            }
            divisor *= axis.extent;
        }
        for at in self.n_axes..FEWEST_AXES {
            self.strides[at - 1] = self.strides[at - 2] * self.extents[at - 1];
            self.n_axes += 1;
        }
        Some(())
    }

    /// The tensor map for boxes of `rows` rows and `columns` columns.
    pub fn map(&self, rows: usize, columns: usize) -> TensorMap {
        let &MappedOperand { operand, dtype, offset, n_axes, extents, strides, .. } = self;
        TensorMap { argument: operand, dtype, offset, n_axes, extents, strides, of_box: [columns, rows] }
    }

    /// A copy of the box from a column and a row on, by map `map`, of matrix `z`.
    pub fn copy(
        &self,
        cores: TensorCores,
        map: usize,
        to: &str,
        [column, row]: [&str; 2],
        barrier: &str,
    ) -> String {
        let coordinate = |coordinate: &Option<Coordinate>| match *coordinate {
            None => "0".to_string(),
            Some(Coordinate { divisor: 1, extent }) => format!("z % {extent}"),
            Some(Coordinate { divisor, extent }) => format!("z / {divisor} % {extent}"),
        };
        let coordinates = self.coordinates[..self.n_axes - MATRIX_AXES].iter().map(coordinate);
        let further: Vec<String> = coordinates.collect();
        let coordinates: Vec<&str> =
            [column, row].into_iter().chain(further.iter().map(String::as_str)).collect();
        cores.copy(to, map, &coordinates, barrier)
    }
}
