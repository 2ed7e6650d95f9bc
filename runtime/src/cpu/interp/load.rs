//! Loads of operands.

use super::address::Address;
use super::flat::{Block, Runs, Stretch};
use super::program::Index;
use super::span::Span;
use super::spread::Column;
use super::view::{Buffer, View, copy, slice_mut, with_size};
use engine_core::ir::{Binary, DType, Literal};
use engine_numerics::loops::{Operand, Prefetch, binary};

/// Reads the points of a span, into `out` or as a view of the operand.
///
/// # Safety
/// The buffer must be that of the operand, and `out` have room for a block. There must be an index for each point, or for
/// each row.
pub unsafe fn load(
    buffer: Buffer,
    address: &Address,
    index: Option<(&Index, View)>,
    span: Span,
    out: *mut u8,
) -> View {
    // SAFETY: the caller's.
    unsafe {
        match index {
            None => load_plain(buffer, address, span, out),
            Some((index, view)) if view.is_scalar || index.by_row => {
                load_by_row(buffer, address, index, view, span, out)
            }
            Some((index, view)) => {
                with_size!(buffer.size, T => gather::<T>(buffer, address, index, view, span, slice_mut(out, span.len())));
                View::block(out, span.len())
            }
        }
    }
}

/// Reads rows with one index for each: every row is a plain load at an offset.
unsafe fn load_by_row(
    buffer: Buffer,
    address: &Address,
    index: &Index,
    view: View,
    span: Span,
    out: *mut u8,
) -> View {
    let base = |row: usize| {
        let row = if view.is_scalar { 0 } else { row };
        // SAFETY: the caller's: an index for each row.
        unsafe { index_at(view, index.dtype, row) * index.stride }
    };
    // SAFETY: the caller's.
    unsafe {
        if span.height == 1 {
            return load_moved(buffer, address, span, base(0), out);
        }
        for row in 0..span.height {
            let out = out.add(row * span.width * buffer.size);
            let line = Span::line(span.start + row * span.pitch, span.width);
            let view = load_moved(buffer, address, line, base(row), out);
            if view.start != out.cast_const() || view.is_scalar {
                with_size!(buffer.size, T => copy(view.operand::<T>(span.width), slice_mut(out, span.width)));
            }
        }
    }
    View::block(out, span.len())
}

/// Copies a view's elements to scratch.
///
/// # Safety
/// There must be room for a block's elements at `out`, apart from all operands.
pub unsafe fn copied(view: View, size: usize, len: usize, out: *mut u8) -> View {
    if view.start != out.cast_const() {
        let n = if view.is_scalar { 1 } else { len };
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(view.start, out, n * size) };
    }
    View { start: out, ..view }
}

unsafe fn load_plain(buffer: Buffer, address: &Address, span: Span, out: *mut u8) -> View {
    let (width, height) = span.runs();
    // SAFETY: the caller's.
    unsafe {
        if height == 1 {
            return load_moved(buffer, address, Span::line(span.start, width), 0, out);
        }
        with_size!(buffer.size, T => read::<T>(buffer, address, span, 0, slice_mut(out, span.len())));
    }
    View { start: out, is_scalar: false }
}

/// Reads neighbouring points, `base` elements further on. Neighbours in memory become a view of it, and points outside the
/// tensor one value.
unsafe fn load_moved(buffer: Buffer, address: &Address, line: Span, base: i64, out: *mut u8) -> View {
    let len = line.width;
    match address.stretch(line.start, len) {
        Some(Stretch::Elements { first, stride }) => {
            let first = first + base;
            let end = first + (len as i64 - 1) * stride;
            if (stride == 0 || stride == 1) && first >= 0 && end < buffer.len as i64 {
                let start = buffer.start.wrapping_add(first as usize * buffer.size);
                return View { start, is_scalar: stride == 0 };
            }
        }
        Some(Stretch::Fill(fill)) => {
            // SAFETY: the caller's.
            unsafe { with_size!(buffer.size, T => out.cast::<T>().write(T::from_literal(&fill))) };
            return View { start: out, is_scalar: true };
        }
        None => {}
    }
    // SAFETY: the caller's.
    unsafe { with_size!(buffer.size, T => read::<T>(buffer, address, line, base, slice_mut(out, len))) };
    View::block(out, len)
}

/// Copies points to a slot. Elements outside the buffer read as zero: a check has recorded them, or the graph has no
/// check.
unsafe fn read<T: Copy + Default + Bits>(
    buffer: Buffer,
    address: &Address,
    span: Span,
    base: i64,
    out: &mut [T],
) {
    // SAFETY: the caller's: a buffer of that many elements of this size.
    let elements = unsafe { std::slice::from_raw_parts(buffer.start.cast::<T>(), buffer.len) };
    let (width, height) = span.runs();
    if let Some(spread) = address.spread().filter(|_| height == 1) {
        out.fill(T::from_literal(&spread.fill));
        return spread.walk(span.start, width, |column| {
            read_column(elements, Column { first: column.first + base, ..column }, out);
        });
    }
    if let Some(flat) = address.padded().filter(|_| height == 1) {
        out.fill(T::from_literal(&flat.fill));
        return flat.walk_blocks(span.start, width, |block| {
            read_block(elements, Block { first: block.first + base, ..block }, out);
        });
    }
    address.walk_runs(span, |at, count, runs| {
        let out = &mut out[at..at + count];
        match runs {
            Runs::Fill(literal) => out.fill(T::from_literal(&literal)),
            Runs::Elements { first, strides, len } => read_runs(elements, first + base, strides, len, out),
        }
    });
}

/// Reads runs of elements to runs of points that are equally far from each other.
fn read_block<T: Copy + Default>(elements: &[T], block: Block, out: &mut [T]) {
    let Block { at, pitch, n_runs, len, first, strides: [of_run, stride] } = block;
    for (i, out) in out[at..].chunks_mut(pitch).take(n_runs).enumerate() {
        read_stretch(elements, first + i as i64 * of_run, stride, &mut out[..len]);
    }
}

/// Reads elements to points that are equally far from each other.
fn read_column<T: Copy + Default>(elements: &[T], column: Column, out: &mut [T]) {
    let Column { at, pitch, count, first, stride } = column;
    let out = out[at..].iter_mut().step_by(pitch).take(count);
    match slice_from(elements, first, count) {
        Some(elements) if stride == 1 => out.zip(elements).for_each(|(out, element)| *out = *element),
        _ => out.enumerate().for_each(|(i, out)| {
            let element = usize::try_from(first + i as i64 * stride).ok();
            *out = element.and_then(|element| elements.get(element)).copied().unwrap_or_default();
        }),
    }
}

/// `out = base + part + part + …`, in this order. Only points at which a part has elements are visited for it.
///
/// # Safety
/// The buffers must be those of operands of this type, apart from `out`, and no worker may write them meanwhile.
pub unsafe fn add_parts<'a>(
    base: Operand<f32>,
    parts: impl Iterator<Item = (Buffer, &'a Address)>,
    span: Span,
    out: &mut [f32],
) {
    // The zero of points without an element: it makes +0 of -0.
    binary(Binary::Add, base, Operand::Scalar(0.0), out, Prefetch::NOTHING);
    for (buffer, address) in parts {
        // SAFETY: the caller's: a buffer of that many elements of this type.
        let elements = unsafe { std::slice::from_raw_parts(buffer.start.cast::<f32>(), buffer.len) };
        address.walk_span(span, |at, count, stretch| {
            let Stretch::Elements { first, stride } = stretch else { return };
            let out = &mut out[at..at + count];
            match usize::try_from(first).ok().and_then(|first| elements.get(first..)) {
                Some(elements) if stride == 1 => {
                    out.iter_mut().zip(elements).for_each(|(out, element)| *out += element);
                }
                _ => out.iter_mut().enumerate().for_each(|(i, out)| {
                    let element = usize::try_from(first + i as i64 * stride).ok();
                    *out += element.and_then(|element| elements.get(element)).copied().unwrap_or_default();
                }),
            }
        });
    }
}

/// Reads runs of `len` points each.
fn read_runs<T: Copy + Default>(
    elements: &[T],
    first: i64,
    [run_stride, stride]: [i64; 2],
    len: usize,
    out: &mut [T],
) {
    let (n_runs, starts) = (out.len() / len, |run: usize| first + run as i64 * run_stride);
    if len == 2 && n_runs > 1 && run_stride == 1 {
        let pair = [first, first + stride].map(|start| slice_from(elements, start, n_runs));
        if let [Some(firsts), Some(seconds)] = pair {
            let pairs = out.chunks_exact_mut(2).zip(firsts.iter().zip(seconds));
            return pairs.for_each(|(out, (first, second))| (out[0], out[1]) = (*first, *second));
        }
    }
    for (run, out) in out.chunks_exact_mut(len).enumerate() {
        read_stretch(elements, starts(run), stride, out);
    }
}

/// The elements from one on, if there are that many.
fn slice_from<T>(elements: &[T], first: i64, len: usize) -> Option<&[T]> {
    elements.get(usize::try_from(first).ok()?..)?.get(..len)
}

#[inline]
fn read_stretch<T: Copy + Default>(elements: &[T], first: i64, stride: i64, out: &mut [T]) {
    let last = first + (out.len() as i64 - 1) * stride;
    let is_inside = first.min(last) >= 0 && first.max(last) < elements.len() as i64;
    match (is_inside, stride) {
        (true, 0) => out.fill(elements[first as usize]),
        (true, 1) => out.copy_from_slice(&elements[first as usize..][..out.len()]),
        // The last element has no neighbour to be read with it.
        (true, 2) => {
            let pairs = elements[first as usize..last as usize].chunks_exact(2);
            out.iter_mut().zip(pairs).for_each(|(out, pair)| *out = pair[0]);
            out[out.len() - 1] = elements[last as usize];
        }
        (true, 3..) => {
            let elements = elements[first as usize..].iter().step_by(stride as usize);
            out.iter_mut().zip(elements).for_each(|(out, element)| *out = *element);
        }
        _ => {
            for (i, out) in out.iter_mut().enumerate() {
                let element = usize::try_from(first + i as i64 * stride).ok();
                *out = element.and_then(|element| elements.get(element)).copied().unwrap_or_default();
            }
        }
    }
}

unsafe fn gather<T: Copy + Default + Bits>(
    buffer: Buffer,
    address: &Address,
    index: &Index,
    indices: View,
    span: Span,
    out: &mut [T],
) {
    // SAFETY: the caller's.
    let elements = unsafe { std::slice::from_raw_parts(buffer.start.cast::<T>(), buffer.len) };
    address.walk_span(span, |at, count, stretch| {
        for (i, out) in out[at..at + count].iter_mut().enumerate() {
            *out = match stretch {
                Stretch::Fill(literal) => T::from_literal(&literal),
                Stretch::Elements { first, stride } => {
                    // SAFETY: the caller's: an index for each point.
                    let moved = unsafe { index_at(indices, index.dtype, at + i) } * index.stride;
                    let element = usize::try_from(first + i as i64 * stride + moved).ok();
                    element.and_then(|element| elements.get(element)).copied().unwrap_or_default()
                }
            };
        }
    });
}

impl Index {
    /// The elements that a single value of the index moves.
    ///
    /// # Safety
    /// The view must be of a value of the index's type.
    pub unsafe fn moved(&self, view: View) -> i64 {
        // SAFETY: the caller's.
        unsafe { index_at(view, self.dtype, 0) }.saturating_mul(self.stride)
    }
}

unsafe fn index_at(view: View, dtype: DType, i: usize) -> i64 {
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::I8 => *view.start.cast::<i8>().add(i) as i64,
            DType::I16 => *view.start.cast::<i16>().add(i) as i64,
            DType::U16 => *view.start.cast::<u16>().add(i) as i64,
            DType::I32 => *view.start.cast::<i32>().add(i) as i64,
            DType::I64 => *view.start.cast::<i64>().add(i),
            DType::U32 => *view.start.cast::<u32>().add(i) as i64,
            _ => *view.start.add(i) as i64,
        }
    }
}

/// An unsigned integer with the size of an element; a fill literal holds the bits of the element type.
trait Bits {
    fn from_literal(literal: &Literal) -> Self;
}

macro_rules! bits {
    ($($unsigned:ident)*) => { $(
        impl Bits for $unsigned {
            fn from_literal(literal: &Literal) -> $unsigned {
                literal.as_i64() as $unsigned
            }
        }
    )* };
}
bits! { u8 u16 u32 u64 }
