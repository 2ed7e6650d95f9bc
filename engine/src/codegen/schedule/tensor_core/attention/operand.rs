//! Queries, keys or values, as the copy engine reads them.

use crate::codegen::tensor_map::{MAP_AXES, TensorMap};
use crate::fusion::{Axis, FusedOp, Source};
use crate::ir::DType;

/// The alignment of rows in memory, in bytes.
const ALIGNMENT: usize = 16;
/// The axes of a copy that takes three coordinates.
const FEWEST_AXES: usize = 3;

/// A coordinate of a copy: `number / divisor mod extent`, of a row or of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Coordinate {
    of_rows: bool,
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
    /// The coordinates after the one along memory.
    coordinates: [Option<Coordinate>; MAP_AXES - 1],
}

/// The element type of a source that is a window on an operand.
pub fn dtype_of(source: &Source) -> DType {
    source.body.insts[source.value].dtype
}

impl MappedOperand {
    /// A source of `batch` matrices with `rows` rows, read in boxes of `box_rows` rows. None if it is computed, or if the
    /// copy engine cannot read it.
    pub fn of(source: &Source, [batch, rows]: [usize; 2], box_rows: usize) -> Option<MappedOperand> {
        let window = source.window(rows)?;
        let is_dense = matches!(source.body.insts[source.value].op, FusedOp::Load { index: None, .. });
        let columns = source.body.domain.row;
        let (offset, by_axis) = window.access.axes_by_axis(&[batch, rows, columns])?;
        let [of_batch, of_rows, of_columns] = &by_axis[..] else { return None };
        let is_along = matches!(of_columns[..], [Axis { extent, stride: 1 }] if extent == columns);
        let (inner, outer_rows) = of_rows.split_last()?;
        let is_whole = outer_rows.is_empty() || inner.extent.is_multiple_of(box_rows);
        if !is_dense || !is_along || !is_whole {
            return None;
        }
        let mut form = MappedOperand {
            operand: window.operand,
            dtype: dtype_of(source),
            offset: usize::try_from(offset).ok()?,
            n_axes: 1,
            extents: [1; MAP_AXES],
            strides: [0; MAP_AXES - 1],
            coordinates: [None; MAP_AXES - 1],
        };
        form.extents[0] = columns;
        form.push_all(of_rows, true)?;
        form.push_all(of_batch, false)?;
        form.fill();
        let is_aligned = |n: usize| (n * form.dtype.size()).is_multiple_of(ALIGNMENT);
        let is_readable =
            form.strides[..form.n_axes - 1].iter().all(|&stride| stride > 0 && is_aligned(stride));
        (is_readable && is_aligned(form.offset)).then_some(form)
    }

    /// Appends the axes that a row or a matrix is numbered by, the innermost first. All matrices along an axis without a
    /// stride are one.
    fn push_all(&mut self, axes: &[Axis], of_rows: bool) -> Option<()> {
        let mut divisor = 1;
        for axis in axes.iter().rev() {
            if axis.stride != 0 || of_rows {
                let at = self.n_axes;
                *self.extents.get_mut(at)? = axis.extent;
                self.strides[at - 1] = usize::try_from(axis.stride).ok()?;
                self.coordinates[at - 1] = Some(Coordinate { of_rows, divisor, extent: axis.extent });
                self.n_axes += 1;
            }
            divisor *= axis.extent;
        }
        Some(())
    }

    /// Adds axes of one element, up to the fewest.
    fn fill(&mut self) {
        for at in self.n_axes..FEWEST_AXES {
            self.strides[at - 1] = self.strides[at - 2] * self.extents[at - 1];
            self.n_axes += 1;
        }
    }

    /// The tensor map for boxes of `rows` rows and `columns` columns.
    pub fn map(&self, rows: usize, columns: usize) -> TensorMap {
        let &MappedOperand { operand, dtype, offset, n_axes, extents, strides, .. } = self;
        TensorMap { argument: operand, dtype, offset, n_axes, extents, strides, of_box: [columns, rows] }
    }

    /// A copy of the box from a column and a row on, by map `map`, of matrix `z`.
    pub fn copy(&self, map: usize, to: &str, [column, row]: [&str; 2], barrier: &str) -> String {
        let name = match self.n_axes {
            FEWEST_AXES => "fetch_box".to_string(),
            n_axes => format!("fetch_box_{n_axes}d"),
        };
        let coordinate = |(at, coordinate): (usize, &Option<Coordinate>)| {
            let Some(Coordinate { of_rows, divisor, extent }) = *coordinate else { return "0".to_string() };
            let number = if of_rows { row } else { "z" };
            let above = self.coordinates[at + 1..].iter().flatten().any(|other| other.of_rows == of_rows);
            let number = if divisor == 1 { number.to_string() } else { format!("{number} / {divisor}") };
            if above || !of_rows && extent > 1 { format!("{number} % {extent}") } else { number }
        };
        let coordinates = self.coordinates[..self.n_axes - 1].iter().enumerate().map(coordinate);
        let coordinates: Vec<String> = coordinates.collect();
        format!("{name}({to}, &map_{map}, {column}, {}, {barrier});\n", coordinates.join(", "))
    }
}
