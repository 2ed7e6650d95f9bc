//! Products of a few rows with windows of an image, such as depthwise convolutions and their gradients. Windows are read where
//! they lie: packing them would take longer than the products.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::matrix::{Matrix, TileMut};
use super::runs::Along;
use super::tiles::{FEW_ROWS, WIDEST};
use super::uneven::UnevenMatrix;
use engine_core::op::simd::{Float, Isa, Kernel, Lanes};

/// The most vectors of sums of a row.
const ABREAST: usize = 8;

/// A tile as a loop of an instruction set.
pub struct WindowsKernel<'a, 'b, T> {
    pub a: Matrix<'a, T>,
    pub b: UnevenMatrix<'a, T>,
    pub out: &'a mut TileMut<'b, T>,
    pub along: Along,
}

impl<T: Float> Kernel for WindowsKernel<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(mut self) {
        match (self.along, self.a.n_rows) {
            (Along::Contraction, _) => self.along_contraction::<T::Vector<I>>(),
            (Along::Columns, 1) => self.along_columns::<T::Vector<I>, 1, ABREAST>(),
            (Along::Columns, 2) => self.along_columns::<T::Vector<I>, 2, 4>(),
            (Along::Columns, 3) => self.along_columns::<T::Vector<I>, 3, 2>(),
            (Along::Columns, _) => self.along_columns::<T::Vector<I>, FEW_ROWS, 2>(),
        }
    }
}

/// Neighbouring columns of the result that are computed at once.
#[derive(Clone, Copy)]
struct Place {
    /// The offset of the first one in a row of windows.
    offset: isize,
    column: usize,
    len: usize,
}

impl<T: Float> WindowsKernel<'_, '_, T> {
    // ---- Lanes along the columns.

    /// Computes the columns in ascending order, `R` vectors of each row at a time.
    #[inline(always)]
    fn along_columns<V: Lanes<Scalar = T>, const M: usize, const R: usize>(&mut self) {
        let (step, first) = (self.b.column_step(), self.b.first_column());
        let reach = if step == 2 { 2 * V::N } else { V::N };
        let inside = self.b.inside(reach);
        let n = self.out.n_columns;
        let mut places = [Place { offset: 0, column: 0, len: 0 }; R];
        let mut n_places = 0;
        for run in self.b.column_runs() {
            let (start, end) = (run.start.max(first) - first, (run.start + run.len - first).min(n));
            let mut column = start;
            while column < end {
                // The last vector of a run overlaps the one before.
                let at = column.min(end.saturating_sub(V::N)).max(start);
                let offset = self.b.column(start) + (at - start) as isize * step;
                let place = Place { offset, column: at, len: V::N.min(end - at) };
                column = at + place.len;
                let is_inside = inside.contains(&offset);
                if is_inside {
                    places[n_places] = place;
                    n_places += 1;
                }
                if n_places == R || !is_inside {
                    self.columns_at::<V, M, R>(&mut places, n_places, step);
                    n_places = 0;
                }
                if !is_inside {
                    self.by_element(place);
                }
            }
        }
        self.columns_at::<V, M, R>(&mut places, n_places, step);
    }

    /// Computes the columns at some places. A vector may write columns behind its place, which are computed later.
    #[inline(always)]
    fn columns_at<V: Lanes<Scalar = T>, const M: usize, const R: usize>(
        &mut self,
        places: &mut [Place; R],
        n_places: usize,
        step: isize,
    ) {
        if n_places == 0 {
            return;
        }
        // The last place is computed again.
        let last = places[n_places - 1];
        places[n_places..].fill(last);
        // SAFETY: `inside` holds the offsets from which whole vectors of all rows lie in the buffer; the vectors belong to the
        // instruction set that runs.
        let sums = unsafe {
            match step {
                2 => self.sums_at::<V, M, R>(places, |from| V::load_even(from)),
                _ => self.sums_at::<V, M, R>(places, |from| V::load(from)),
            }
        };
        for i in 0..M {
            let out = self.out.row(i);
            for (place, sum) in places.iter().zip(&sums[i]) {
                let mut lanes = [T::default(); WIDEST];
                // SAFETY: a row has room for a vector, or the lanes have.
                unsafe {
                    match out.len() - place.column >= V::N {
                        true => sum.store(out.as_mut_ptr().add(place.column)),
                        false => {
                            sum.store(lanes.as_mut_ptr());
                            out[place.column..][..place.len].copy_from_slice(&lanes[..place.len]);
                        }
                    }
                }
            }
        }
    }

    /// # Safety
    /// Loads at the places must be inside, for all rows of windows.
    #[inline(always)]
    unsafe fn sums_at<V: Lanes<Scalar = T>, const M: usize, const R: usize>(
        &self,
        places: &[Place; R],
        load: impl Fn(*const T) -> V,
    ) -> [[V; R]; M] {
        let (image, [rows, _]) = self.b.parts(0..self.a.n_columns, 0..0);
        // SAFETY: the caller's; A has an element for each row of windows.
        unsafe {
            let mut sums = [[V::splat(T::default()); R]; M];
            for (p, row) in rows.iter().enumerate() {
                let from = image.wrapping_offset(*row);
                let mut b = [V::splat(T::default()); R];
                for r in 0..R {
                    b[r] = load(from.wrapping_offset(places[r].offset));
                }
                for i in 0..M {
                    let a = V::splat(*self.a.at(i, p));
                    for r in 0..R {
                        sums[i][r] = a.mul_add(b[r], sums[i][r]);
                    }
                }
            }
            sums
        }
    }

    /// Columns whose vectors would reach out of the buffer.
    fn by_element(&mut self, place: Place) {
        for (i, column) in
            (0..self.a.n_rows).flat_map(|i| (0..place.len).map(move |lane| (i, place.column + lane)))
        {
            let mut sum = T::default();
            for p in 0..self.a.n_columns {
                // SAFETY: inside the matrix.
                sum += unsafe { *self.a.at(i, p) } * self.b.at(p, column);
            }
            self.out.row(i)[column] = sum;
        }
    }

    // ---- Lanes along the contraction.

    /// Sums of products along contiguous rows of A, some columns at a time.
    #[inline(always)]
    fn along_contraction<V: Lanes<Scalar = T>>(&mut self) {
        let n = self.out.n_columns;
        let n_blocks = n.div_ceil(ABREAST);
        for (i, block) in (0..self.a.n_rows).flat_map(|i| (0..n_blocks).map(move |block| (i, block))) {
            let (start, end) = (n * block / n_blocks, n * (block + 1) / n_blocks);
            // SAFETY: A has contiguous rows, and the vectors belong to the instruction set that runs.
            unsafe {
                match end - start {
                    1 => self.sums_of::<V, 1>(i, start),
                    2 => self.sums_of::<V, 2>(i, start),
                    3 => self.sums_of::<V, 3>(i, start),
                    4 => self.sums_of::<V, 4>(i, start),
                    5 => self.sums_of::<V, 5>(i, start),
                    6 => self.sums_of::<V, 6>(i, start),
                    7 => self.sums_of::<V, 7>(i, start),
                    _ => self.sums_of::<V, ABREAST>(i, start),
                }
            }
        }
    }

    /// # Safety
    /// The row and the columns must exist, and A have contiguous rows.
    #[inline(always)]
    unsafe fn sums_of<V: Lanes<Scalar = T>, const R: usize>(&mut self, i: usize, first: usize) {
        let k = self.a.n_columns;
        let (image, [rows, columns]) = self.b.parts(0..k, first..first + R);
        let inside = self.b.inside_of_row(columns, V::N);
        // SAFETY: the caller's; the loads are inside.
        unsafe {
            let mut sums = [V::splat(T::default()); R];
            for run in self.b.row_runs() {
                for depth in (run.start..run.start + run.len).step_by(V::N) {
                    let len = V::N.min(run.start + run.len - depth);
                    let from = image.wrapping_offset(rows[depth]);
                    let has_room = inside.contains(&rows[depth]) && depth + V::N <= k;
                    let a = part::<V>(self.a.at(i, depth), len, has_room);
                    for r in 0..R {
                        let b = part::<V>(from.wrapping_offset(columns[r]), len, has_room);
                        sums[r] = a.mul_add(b, sums[r]);
                    }
                }
            }
            for (r, sum) in sums.into_iter().enumerate() {
                let mut lanes = [T::default(); WIDEST];
                sum.store(lanes.as_mut_ptr());
                self.out.row(i)[first + r] = lanes[1..V::N].iter().fold(lanes[0], |sum, lane| sum + *lane);
            }
        }
    }
}

/// The first `len` elements as a vector that ends with zeros.
///
/// # Safety
/// There must be so many elements, or a whole vector if there is room for one; see [`Lanes`].
#[inline(always)]
unsafe fn part<V: Lanes<Scalar: Float>>(from: *const V::Scalar, len: usize, has_room: bool) -> V {
    // SAFETY: the caller's.
    unsafe {
        if has_room {
            let vector = V::load(from);
            return if len == V::N { vector } else { vector.with_tail(V::splat(V::Scalar::default()), len) };
        }
        let mut lanes = [V::Scalar::default(); WIDEST];
        std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), len);
        V::load(lanes.as_ptr())
    }
}
