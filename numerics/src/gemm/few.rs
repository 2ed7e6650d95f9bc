//! Products of a few rows. Each element of B is used so few times that packing it would take longer than the products, so
//! B is read where it lies.

// Arrays of registers are indexed, not iterated: the counts are constants and the loops must unroll.
#![allow(clippy::needless_range_loop)]

use super::matrix::{Matrix, TileMut};
use super::thin::{ROWS, sums_of_products};
use super::tiles::FEW_ROWS;
use engine_core::op::simd::{Float, Lanes};

/// Rows of B that are read together.
const ABREAST: usize = 4;

/// A few rows, and a matrix whose rows or columns are contiguous.
pub struct Few<'a, 'o, 'b, T> {
    pub a: Matrix<'a, T>,
    pub b: Matrix<'a, T>,
    pub out: &'o mut TileMut<'b, T>,
    /// Whether the product is added to the result.
    pub is_added: bool,
}

/// The order in which B is read.
#[derive(Clone, Copy)]
pub enum Order {
    /// Along its columns.
    Columns,
    /// Along its rows.
    Rows,
}

impl Order {
    /// The order for a product, if it has few rows.
    #[inline(always)]
    pub fn of<V: Lanes>(a: &Matrix<V::Scalar>, b: &Matrix<V::Scalar>) -> Option<Order> {
        // What lies behind the last whole vector is multiplied one by one, which pairs are not.
        let has_vectors = |n: usize| n >= V::N && (!V::IS_PAIRS || n.is_multiple_of(V::N));
        if !(1..=FEW_ROWS).contains(&a.n_rows) || a.n_columns == 0 {
            None
        } else if b.row_stride == 1 && a.column_stride == 1 && V::N >= ROWS && has_vectors(b.n_rows) {
            Some(Order::Columns)
        } else {
            (b.column_stride == 1 && has_vectors(b.n_columns)).then_some(Order::Rows)
        }
    }
}

impl<T: Float> Few<'_, '_, '_, T> {
    #[inline(always)]
    pub fn run<V: Lanes<Scalar = T>>(mut self, order: Order) {
        match (order, self.a.n_rows) {
            (Order::Columns, _) => self.along_columns::<V>(),
            (Order::Rows, 1) => self.along_rows::<V, 1>(),
            (Order::Rows, 2) => self.along_rows::<V, 2>(),
            (Order::Rows, 3) => self.along_rows::<V, 3>(),
            (Order::Rows, _) => self.along_rows::<V, FEW_ROWS>(),
        }
    }

    /// Dot products along contiguous columns of B, eight at a time.
    #[inline(always)]
    fn along_columns<V: Lanes<Scalar = T>>(&mut self) {
        let [k, n] = self.b.shape();
        for first in (0..n).step_by(ROWS) {
            // Past the end the last column is read again.
            let columns = std::array::from_fn(|j| self.b.at(0, (first + j).min(n - 1)));
            for i in 0..self.a.n_rows {
                // SAFETY: a row of A and the columns of B are contiguous and have k elements; the vectors belong to the
                // instruction set that runs.
                let sums = unsafe { sums_of_products::<V>(columns, self.a.at(i, 0), k) };
                for (out, sum) in self.out.row(i)[first..].iter_mut().zip(sums) {
                    if self.is_added { *out += sum } else { *out = sum }
                }
            }
        }
    }

    /// Adds multiples of contiguous rows of B, four at a time.
    #[inline(always)]
    fn along_rows<V: Lanes<Scalar = T>, const M: usize>(&mut self) {
        let k = self.b.n_rows;
        let whole = k / ABREAST * ABREAST;
        for depth in (0..whole).step_by(ABREAST) {
            self.add_rows::<V, M, ABREAST>(depth);
        }
        for depth in whole..k {
            self.add_rows::<V, M, 1>(depth);
        }
    }

    #[inline(always)]
    fn add_rows<V: Lanes<Scalar = T>, const M: usize, const N: usize>(&mut self, depth: usize) {
        let n = self.out.n_columns;
        let is_first = depth == 0 && !self.is_added;
        let whole = n / V::N * V::N;
        // SAFETY: `gemm_tile` compared the shapes: row i of A has element `depth + p`, and that row of B is contiguous; the
        // vectors belong to the instruction set that runs.
        unsafe {
            let mut factors = [[T::default(); N]; M];
            for i in 0..M {
                for p in 0..N {
                    factors[i][p] = *self.a.at(i, depth + p);
                }
            }
            let rows: [*const T; N] = std::array::from_fn(|p| self.b.at(depth + p, 0));
            let outs: [*mut T; M] = std::array::from_fn(|i| self.out.start.add(i * self.out.row_stride));
            for j in (0..whole).step_by(V::N) {
                let mut b = [V::splat(T::default()); N];
                for p in 0..N {
                    b[p] = V::load(rows[p].add(j));
                }
                for i in 0..M {
                    let out = outs[i].add(j);
                    let mut sum = if is_first { V::splat(T::default()) } else { V::load(out) };
                    for p in 0..N {
                        sum = V::splat(factors[i][p]).mul_add(b[p], sum);
                    }
                    sum.store(out);
                }
            }
            for j in whole..n {
                for i in 0..M {
                    let out = &mut *outs[i].add(j);
                    let mut sum = if is_first { T::default() } else { *out };
                    for p in 0..N {
                        sum += factors[i][p] * *rows[p].add(j);
                    }
                    *out = sum;
                }
            }
        }
    }
}
