//! Coordinates and random words.

use super::address::Address;
use super::flat::Stretch;
use super::span::Span;
use super::view::{View, slice_mut, with_type};
use engine_core::ir::DType;
use engine_numerics::loops::philox::{philox_f32, philox_u32};

/// Writes the coordinates of the points of a span.
///
/// # Safety
/// There must be room for the span at `out`.
pub unsafe fn coordinates(address: &Address, dtype: DType, span: Span, out: *mut u8) -> View {
    // SAFETY: the caller's.
    with_type!(dtype, T => {
        let block = unsafe { slice_mut::<T>(out, span.len()) };
        address.walk_span(span, |at, count, stretch| {
            let value = |i: i64| match stretch {
                Stretch::Elements { first, stride } => (first + i * stride) as T,
                Stretch::Fill(literal) => literal.as_i64() as T,
            };
            block[at..at + count].iter_mut().enumerate().for_each(|(i, out)| *out = value(i as i64));
        });
    });
    View::block(out, span.len())
}

/// Random words of points.
pub struct Words {
    pub key: [u32; 2],
    /// The step and the iteration.
    pub counter: [u32; 2],
    /// The bits by which the words are shifted right before they become f32, if they do.
    pub shift: Option<u32>,
}

impl Words {
    /// Draws the words of the points of a span.
    ///
    /// # Safety
    /// There must be room for the span at `out`.
    pub unsafe fn draw(&self, address: &Address, span: Span, out: *mut u8) -> View {
        // SAFETY: the caller's.
        let words = unsafe { slice_mut::<u32>(out, span.len()) };
        address.walk_span(span, |at, count, stretch| {
            let words = &mut words[at..at + count];
            match stretch {
                Stretch::Elements { first, stride: 1 } => self.neighbours(first as u64, words),
                Stretch::Elements { first, stride } => {
                    for (i, word) in words.chunks_mut(1).enumerate() {
                        self.neighbours((first + i as i64 * stride) as u64, word);
                    }
                }
                // 0 has the same bits in both types.
                Stretch::Fill(_) => words.fill(0),
            }
        });
        View::block(out, span.len())
    }

    fn neighbours(&self, first: u64, out: &mut [u32]) {
        let [step, iteration] = self.counter;
        match self.shift {
            None => philox_u32(out, self.key, first, step, iteration),
            Some(shift) => philox_f32(out, shift, self.key, first, step, iteration),
        }
    }
}
