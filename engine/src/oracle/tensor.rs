//! Tensors of the oracle: floats are `f64`, integers and truth values `i64`.

use super::number;
use crate::ir::DType;
use crate::ir::{Monoid, dense_strides};
use crate::op::reference::{Elements, OracleTensor};

/// The rounding of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Every float is an `f64`, independent of its type.
    F64,
    /// The result of every primitive is rounded to its type.
    Rounded,
    /// Like `Rounded`, with subnormal numbers flushed to zero.
    Flushed,
    /// No rounding, but each float result of arithmetic moves by up to 4 units in the last place of its type, and so do the
    /// terms of sums in the type that they are added in. The seed determines the moves. The effect on the results shows
    /// their sensitivity to rounding.
    Perturbed(u64),
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Element {
    Float(f64),
    Int(i64),
}

impl OracleTensor {
    /// This tensor with its elements rounded to their type, if `precision` requires it.
    pub(super) fn rounded(mut self, precision: Precision) -> OracleTensor {
        let dtype = self.dtype;
        let held = |x: f64| match precision {
            Precision::F64 | Precision::Perturbed(_) => x,
            Precision::Rounded => number::round(x, dtype),
            Precision::Flushed => number::flushed(number::round(x, dtype), dtype),
        };
        if let Elements::Float(elements) = &mut self.elements {
            elements.iter_mut().for_each(|x| *x = held(*x));
        }
        self
    }

    /// This tensor with each float moved by up to 4 units in the last place of a type.
    pub(super) fn perturbed(mut self, dtype: DType, seed: u64) -> OracleTensor {
        let most = 4.0 * dtype.epsilon();
        // SplitMix64: one number per element.
        let draw = |i: usize| {
            let mixed = (seed ^ i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        if let Elements::Float(elements) = &mut self.elements {
            elements.iter_mut().enumerate().for_each(|(i, x)| *x *= 1.0 + most * draw(i));
        }
        self
    }

    pub(super) fn picked(&self, extents: &[usize], offsets: impl Iterator<Item = usize>) -> OracleTensor {
        let elements = match &self.elements {
            Elements::Float(elements) => Elements::Float(offsets.map(|i| elements[i]).collect()),
            Elements::Int(elements) => Elements::Int(offsets.map(|i| elements[i]).collect()),
        };
        OracleTensor { dtype: self.dtype, extents: extents.to_vec(), elements }
    }

    pub(super) fn clone_element(&self, i: usize) -> Element {
        match &self.elements {
            Elements::Float(elements) => Element::Float(elements[i]),
            Elements::Int(elements) => Element::Int(elements[i]),
        }
    }

    pub(super) fn copy_from(&mut self, to: usize, src: &OracleTensor, from: usize) {
        match (&mut self.elements, &src.elements) {
            (Elements::Float(elements), Elements::Float(src)) => elements[to] = src[from],
            (Elements::Int(elements), Elements::Int(src)) => elements[to] = src[from],
            _ => crate::bug!("an element of {} for a tensor of {}", src.dtype, self.dtype),
        }
    }

    /// Combines an element with an element of another tensor: `self[to] = self[to] · src[from]`.
    pub(super) fn combine(&mut self, monoid: Monoid, to: usize, src: &OracleTensor, from: usize) {
        self.combine_value(monoid, to, src.clone_element(from));
    }

    pub(super) fn combine_value(&mut self, monoid: Monoid, to: usize, value: Element) {
        match (&mut self.elements, value) {
            (Elements::Float(elements), Element::Float(x)) => {
                elements[to] = number::combine_floats(monoid, elements[to], x);
            }
            (Elements::Int(elements), Element::Int(x)) => {
                elements[to] = self.dtype.wrap(number::combine_ints(monoid, elements[to], x));
            }
            (_, value) => crate::bug!("{value:?} meets a tensor of {}", self.dtype),
        }
    }

    /// Sets an element to the dot product of two lists of elements. Each list is a start with strides.
    pub(super) fn set_dot(
        &mut self,
        to: usize,
        (lhs, a, left): (&OracleTensor, usize, &[usize]),
        (rhs, b, right): (&OracleTensor, usize, &[usize]),
    ) {
        let steps = left.iter().zip(right);
        match (&mut self.elements, &lhs.elements, &rhs.elements) {
            (Elements::Float(elements), Elements::Float(l), Elements::Float(r)) => {
                elements[to] = steps.map(|(i, j)| l[a + i] * r[b + j]).sum();
            }
            (Elements::Int(elements), Elements::Int(l), Elements::Int(r)) => {
                let products = steps.map(|(i, j)| l[a + i].wrapping_mul(r[b + j]));
                elements[to] = self.dtype.wrap(products.fold(0, i64::wrapping_add));
            }
            _ => crate::bug!("a product of {} and {}", lhs.dtype, rhs.dtype),
        }
    }
}

/// Strides of a broadcast operand, by axis of the result.
pub(super) fn broadcast_strides(extents: &[usize], axes: &[usize], rank: usize) -> Vec<i64> {
    let mut strides = vec![0; rank];
    for ((&axis, stride), &extent) in axes.iter().zip(dense_strides(extents)).zip(extents) {
        strides[axis] = if extent == 1 { 0 } else { stride as i64 };
    }
    strides
}

/// Offsets in another tensor of all elements of a dense tensor, in row-major order.
pub(super) struct Offsets {
    extents: Vec<usize>,
    strides: Vec<i64>,
    coordinates: Vec<usize>,
    offset: i64,
    left: usize,
}

impl Offsets {
    pub(super) fn new(extents: &[usize], base: i64, strides: &[i64]) -> Offsets {
        Offsets {
            extents: extents.to_vec(),
            strides: strides.to_vec(),
            coordinates: vec![0; extents.len()],
            offset: base,
            left: extents.iter().product(),
        }
    }

    fn advance(&mut self) {
        for axis in (0..self.extents.len()).rev() {
            self.coordinates[axis] += 1;
            self.offset += self.strides[axis];
            if self.coordinates[axis] < self.extents[axis] {
                return;
            }
            self.offset -= self.strides[axis] * self.extents[axis] as i64;
            self.coordinates[axis] = 0;
        }
    }
}

impl Iterator for Offsets {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let offset = self.offset as usize;
        self.advance();
        Some(offset)
    }
}
