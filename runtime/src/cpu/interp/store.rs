//! Stores to operands.

use super::super::loops::Operand;
use super::address::{Address, Stretch};
use super::view::{Buffer, copy, slice_mut};
use super::worker::Span;

/// Writes the points of a span.
///
/// # Safety
/// The buffer must be that of the operand, of elements of this size, and no other worker may use the points' elements.
pub unsafe fn store<T: Copy>(buffer: Buffer, address: &Address, span: Span, values: Operand<T>) {
    let (width, height) = span.runs();
    for row in 0..height {
        address.walk(span.start + row * span.pitch, width, |at, count, stretch| {
            let Stretch::Elements { first, stride } = stretch else { return };
            let part = match values {
                Operand::Slice(values) => Operand::Slice(&values[row * width + at..][..count]),
                scalar => scalar,
            };
            if stride == 1 {
                let start = buffer.start.wrapping_add(first as usize * buffer.size);
                // A load in place has the elements already.
                if matches!(part, Operand::Slice(values) if values.as_ptr().cast() == start.cast_const()) {
                    return;
                }
                // SAFETY: the caller's: accesses stay inside.
                let out = unsafe { slice_mut::<T>(start, count) };
                return copy(part, out);
            }
            for i in 0..count {
                let value = match part {
                    Operand::Slice(values) => values[i],
                    Operand::Scalar(value) => value,
                };
                // SAFETY: as above.
                unsafe {
                    buffer
                        .start
                        .cast::<T>()
                        .wrapping_offset((first + i as i64 * stride) as isize)
                        .write(value)
                };
            }
        });
    }
}
