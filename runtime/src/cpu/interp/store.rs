//! Stores to operands.

use super::address::Address;
use super::flat::Stretch;
use super::span::Span;
use super::view::{Buffer, copy, slice_mut};
use engine_numerics::loops::Operand;

/// Writes the points of a span.
///
/// # Safety
/// The buffer must be that of the operand, of elements of this size, and no other worker may use the points' elements.
pub unsafe fn store<T: Copy>(buffer: Buffer, address: &Address, span: Span, values: Operand<T>) {
    address.walk_span(span, |at, count, stretch| {
        let Stretch::Elements { first, stride } = stretch else { return };
        let part = match values {
            Operand::Slice(values) => Operand::Slice(&values[at..at + count]),
            scalar => scalar,
        };
        let start = buffer.start.wrapping_offset(first as isize * buffer.size as isize);
        if stride == 1 {
            // A load in place has the elements already.
            if matches!(part, Operand::Slice(values) if values.as_ptr().cast() == start.cast_const()) {
                return;
            }
            // SAFETY: the caller's: accesses stay inside.
            return copy(part, unsafe { slice_mut::<T>(start, count) });
        }
        for i in 0..count {
            let value = match part {
                Operand::Slice(values) => values[i],
                Operand::Scalar(value) => value,
            };
            // SAFETY: as above.
            unsafe { start.cast::<T>().wrapping_offset(i as isize * stride as isize).write(value) };
        }
    });
}

/// A buffer whose elements begin so many further on. None if some points' elements are then outside it: the graph has no
/// check of their row.
pub fn row_of(buffer: Buffer, address: &Address, moved: Option<i64>) -> Option<Buffer> {
    let Some(moved) = moved else { return Some(buffer) };
    let (low, high) = address.bounds()?;
    let is_inside = low.checked_add(moved)? >= 0 && high.checked_add(moved)? < buffer.len as i64;
    let start = buffer.start.wrapping_offset(moved as isize * buffer.size as isize);
    is_inside.then_some(Buffer { start, ..buffer })
}
