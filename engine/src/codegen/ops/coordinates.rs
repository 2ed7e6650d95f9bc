//! Coordinates of element numbers that are sums.
//!
//! A level of an access map yields `offset + Σ coordinate·stride`, and the next level divides that number by the extents of
//! its axes. Where each term stays within axes of the next level, without a carry, the coordinates there are sums of the
//! terms, and no division is needed. The windows of a padded image are an example: row `2·y + i` of the image with its
//! border is a coordinate, for every column.

use crate::codegen::ir::builder::{Code, Term};
use crate::fusion::Axis;
use crate::ir::dense_strides;
use cubecl_core::ir::Variable;

/// An element number.
pub struct Number {
    /// Added always.
    pub offset: i64,
    /// The terms, in the order of their addition.
    pub terms: Vec<Term>,
    /// The sum, if a variable holds it.
    pub whole: Option<Variable>,
}

impl Number {
    /// A point, by the terms that are known of it.
    pub fn of(code: &Code, point: Variable) -> Number {
        Number { offset: 0, terms: code.terms_of(point).unwrap_or_default(), whole: Some(point) }
    }

    /// Emits the sum.
    pub fn sum(&self, code: &mut Code) -> Variable {
        if let Some(whole) = self.whole {
            return whole;
        }
        code.element_number(self.offset, &self.terms)
    }

    /// Emits the coordinates along axes, of those that are wanted, if no term carries over into another.
    pub fn coordinates(&self, code: &mut Code, axes: &[Axis], wanted: &[bool]) -> Option<Vec<Variable>> {
        let extents: Vec<usize> = axes.iter().map(|axis| axis.extent).collect();
        if extents.contains(&0) || (self.terms.is_empty() && self.whole.is_some()) {
            return None;
        }
        let mut split = Split::new(usize::try_from(self.offset).ok()?, &extents)?;
        for (number, term) in self.terms.iter().enumerate() {
            split.add(number, term.extent, term.stride)?;
        }
        let coordinate = |(axis, parts): (usize, &Vec<Part>)| match wanted[axis] {
            false => code.at(0),
            true => parts.iter().fold(code.at(split.digits[axis] as i64), |sum, part| {
                let value = part.emit(code, self.terms[part.term].value);
                code.add_at(sum, value)
            }),
        };
        Some(split.parts.iter().enumerate().map(coordinate).collect())
    }
}

/// A share of a coordinate: `(value / divisor % modulus) · times`, of the value of a term.
struct Part {
    term: usize,
    divisor: usize,
    modulus: Option<usize>,
    times: usize,
}

impl Part {
    fn emit(&self, code: &mut Code, value: Variable) -> Variable {
        let value = code.divided(value, self.divisor);
        let value = self.modulus.map_or(value, |modulus| code.modulo(value, modulus));
        code.scaled(value, self.times as i64)
    }
}

/// The parts of each coordinate.
struct Split<'a> {
    extents: &'a [usize],
    strides: Vec<usize>,
    /// Coordinates of the offset.
    digits: Vec<usize>,
    /// How far each coordinate can still go.
    room: Vec<usize>,
    parts: Vec<Vec<Part>>,
}

impl Split<'_> {
    fn new(offset: usize, extents: &[usize]) -> Option<Split<'_>> {
        let strides = dense_strides(extents);
        let digits: Vec<usize> = strides.iter().zip(extents).map(|(stride, n)| offset / stride % n).collect();
        let sum: usize = digits.iter().zip(&strides).map(|(digit, stride)| digit * stride).sum();
        let room = digits.iter().zip(extents).map(|(digit, n)| n - 1 - digit).collect();
        let parts = extents.iter().map(|_| vec![]).collect();
        (sum == offset).then_some(Split { extents, strides, digits, room, parts })
    }

    /// Adds a term of values below `extent`; none if it carries.
    fn add(&mut self, term: usize, mut extent: usize, stride: i64) -> Option<()> {
        let (mut stride, mut divisor) = (usize::try_from(stride).ok()?, 1);
        while extent > 1 && stride > 0 {
            let axis = self.strides.iter().position(|&unit| stride >= unit && stride.is_multiple_of(unit))?;
            let (n, times) = (self.extents[axis], stride / self.strides[axis]);
            let most = (extent - 1).saturating_mul(times);
            let part = Part { term, divisor, modulus: None, times };
            // Nothing lies above the outermost axis, whose extent no point reaches.
            if axis == 0 || most <= self.room[axis] {
                self.room[axis] = self.room[axis].saturating_sub(most);
                self.parts[axis].push(part);
                return Some(());
            }
            if !n.is_multiple_of(times) {
                return None;
            }
            let taken = n / times;
            self.room[axis] = self.room[axis].checked_sub(n - times)?;
            self.parts[axis].push(Part { modulus: Some(taken), ..part });
            (stride, extent, divisor) = (self.strides[axis] * n, extent.div_ceil(taken), divisor * taken);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Coordinates of a sum by division.
    fn divided(mut number: usize, extents: &[usize]) -> Vec<usize> {
        let mut coordinates = vec![0; extents.len()];
        for (coordinate, &extent) in coordinates.iter_mut().zip(extents).skip(1).rev() {
            (*coordinate, number) = (number % extent, number / extent);
        }
        coordinates[0] = number;
        coordinates
    }

    /// The coordinates of a split at values of the terms.
    fn at(split: &Split, values: &[usize]) -> Vec<usize> {
        let part = |part: &Part| {
            let value = values[part.term] / part.divisor;
            part.modulus.map_or(value, |modulus| value % modulus) * part.times
        };
        let sums = split.parts.iter().map(|parts| parts.iter().map(part).sum::<usize>());
        sums.zip(&split.digits).map(|(sum, digit)| sum + digit).collect()
    }

    /// Splits terms `(extent, stride)`, and compares all their sums with divisions. Returns whether they split.
    fn check(offset: usize, terms: &[(usize, i64)], extents: &[usize]) -> bool {
        let Some(mut split) = Split::new(offset, extents) else { return false };
        for (number, &(extent, stride)) in terms.iter().enumerate() {
            if split.add(number, extent, stride).is_none() {
                return false;
            }
        }
        let n: usize = terms.iter().map(|term| term.0).product();
        for mut point in 0..n {
            let mut values = vec![];
            for (extent, _) in terms {
                values.push(point % extent);
                point /= extent;
            }
            let steps = values.iter().zip(terms).map(|(value, term)| value * term.1 as usize);
            let number = offset + steps.sum::<usize>();
            assert_eq!(
                at(&split, &values),
                divided(number, extents),
                "{values:?} of {terms:?} in {extents:?}"
            );
        }
        true
    }

    #[test]
    fn windows_of_a_padded_image_need_no_division() {
        // Images, window rows, window columns, rows, and columns of windows of 3 by 3 with stride 2 over 10 by 12.
        assert!(check(0, &[(4, 120), (3, 12), (3, 1), (4, 24), (5, 2)], &[4, 10, 12]));
        // Columns that reach behind the end of a row carry over.
        assert!(!check(0, &[(3, 1), (6, 2)], &[10, 12]));
    }

    #[test]
    fn a_group_of_neighbours_shares_its_divisions() {
        assert!(check(0, &[(30, 4), (4, 1)], &[10, 12]));
        assert!(!check(0, &[(24, 5), (5, 1)], &[10, 12]));
        assert!(check(7, &[(4, 1), (10, 12)], &[10, 12]));
    }

    proptest! {
        #[test]
        fn coordinates_without_division_are_those_with_it(
            offset in 0usize..40,
            terms in prop::collection::vec((1usize..9, 0i64..50), 0..4),
            extents in prop::collection::vec(1usize..7, 1..4),
        ) {
            check(offset, &terms, &extents);
        }
    }
}
