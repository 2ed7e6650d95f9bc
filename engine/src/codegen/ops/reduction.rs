//! The state of a reduction: combining states, exchanging them between threads, and NaN in extremes.

use crate::codegen::ir::builder::{Code, F32, F64, U32, U64};
use crate::codegen::ops::integers::within_type;
use crate::codegen::ops::scalar::{Extreme, extremum, int_range};
use crate::codegen::types::carried_type;
use crate::ir::{DType, Monoid};
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, ElemType, Variable};

/// The bits of infinity without a sign; only those of NaN are larger.
pub const INFINITY_BITS: i64 = 0x7F80_0000;
/// A position after all others.
pub const NOWHERE: i64 = i32::MAX as i64;

/// The partial result of a reduction: a value, and its position for an index reduction.
#[derive(Clone)]
pub struct State {
    /// The reduction.
    pub monoid: Monoid,
    /// The value, then the position.
    pub parts: Vec<Variable>,
    /// Whether an extreme skips NaN; else it is NaN if any element is.
    pub skips_nan: bool,
}

impl State {
    /// The neutral state; the position of an index reduction is after all others.
    pub fn identity(code: &mut Code, monoid: Monoid, dtype: DType) -> State {
        let elem = carried_type(dtype);
        let lowest = |code: &mut Code| match elem {
            F32 | F64 => code.float(elem, f64::NEG_INFINITY),
            _ => code.int(elem, int_range(dtype).0),
        };
        let highest = |code: &mut Code| match elem {
            F32 | F64 => code.float(elem, f64::INFINITY),
            _ => code.int(elem, int_range(dtype).1),
        };
        let value = match monoid {
            Monoid::Sum => code.constant(elem, 0.0),
            Monoid::Prod => code.constant(elem, 1.0),
            Monoid::Max | Monoid::ArgMax if elem == U32 => code.int(U32, 0),
            Monoid::Max | Monoid::ArgMax => lowest(code),
            Monoid::Min | Monoid::ArgMin => highest(code),
        };
        let mut parts = vec![value];
        if monoid.is_index() {
            parts.push(code.int(U32, NOWHERE));
        }
        State { monoid, parts, skips_nan: false }
    }

    pub fn of(code: &mut Code, monoid: Monoid, dtype: DType, value: Variable, position: Variable) -> State {
        let mut parts = vec![code.cast(carried_type(dtype), value)];
        if monoid.is_index() {
            parts.push(code.cast(U32, position));
        }
        State { monoid, parts, skips_nan: false }
    }

    pub fn map(&self, f: impl FnMut(Variable) -> Variable) -> State {
        State { parts: self.parts.iter().copied().map(f).collect(), ..*self }
    }

    pub fn or(&self, code: &mut Code, cond: Variable, other: &State) -> State {
        let parts = self.parts.iter().zip(&other.parts);
        let parts = parts.map(|(&x, &other)| code.select(cond, x, other)).collect();
        State { parts, ..*self }
    }

    pub fn combined(&self, code: &mut Code, other: &State) -> State {
        let (a, b) = (self.parts[0], other.parts[0]);
        let value = match self.monoid {
            Monoid::Sum => code.bin(Arithmetic::Add, a, b),
            Monoid::Prod => code.bin(Arithmetic::Mul, a, b),
            Monoid::Max if self.skips_nan => code.bin(Arithmetic::Max, a, b),
            Monoid::Min if self.skips_nan => code.bin(Arithmetic::Min, a, b),
            Monoid::Max => extremum(code, Extreme::Largest, a, b),
            Monoid::Min => extremum(code, Extreme::Smallest, a, b),
            Monoid::ArgMax | Monoid::ArgMin => {
                let is_better = is_better(code, self, other);
                return other.or(code, is_better, self);
            }
        };
        State { parts: vec![value], ..*self }
    }

    /// Combines the state with that of later elements. A state that skips NaN needs one comparison.
    pub fn followed_by(&self, code: &mut Code, later: &State) -> State {
        let beats = match self.monoid {
            Monoid::ArgMax if self.skips_nan => Comparison::Greater,
            Monoid::ArgMin if self.skips_nan => Comparison::Lower,
            _ => return self.combined(code, later),
        };
        let is_better = code.cmp(beats, later.parts[0], self.parts[0]);
        let best = later.or(code, is_better, self);
        State { skips_nan: true, ..best }
    }

    /// Assigns another state to this state of mutable locals.
    pub fn assign(&self, code: &mut Code, other: &State) {
        self.parts.iter().zip(&other.parts).for_each(|(&local, &value)| code.assign(local, value));
    }

    pub fn result(&self, code: &mut Code, dtype: DType) -> Variable {
        match self.monoid.is_index() {
            true => code.cast(code.device.register(dtype), self.parts[1]),
            false => {
                let value = code.cast(code.device.register(dtype), self.parts[0]);
                within_type(code, dtype, value)
            }
        }
    }
}

/// Whether an extreme of many elements is cheaper without NaN, with a separate test of the bits for NaN.
pub fn tests_nan_by_bits(code: &Code, monoid: Monoid, state: &State) -> bool {
    let is_extreme = !matches!(monoid, Monoid::Sum | Monoid::Prod);
    is_extreme && !code.device.has_exact_functions && state.parts[0].elem_type() == F32
}

/// Whether `new` beats `old`: NaN beats all numbers, and the first of equals wins.
fn is_better(code: &mut Code, old: &State, new: &State) -> Variable {
    let beats = if old.monoid == Monoid::ArgMax { Comparison::Greater } else { Comparison::Lower };
    let mut wins = code.cmp(beats, new.parts[0], old.parts[0]);
    let mut ties = code.cmp(Comparison::Equal, new.parts[0], old.parts[0]);
    if matches!(old.parts[0].elem_type(), ElemType::Float(_)) {
        let [new_nan, old_nan] = [new, old].map(|state| code.is_nan(state.parts[0]));
        let number = code.not(old_nan);
        let first_nan = code.and(new_nan, number);
        let both_nan = code.and(new_nan, old_nan);
        wins = code.or(wins, first_nan);
        ties = code.or(ties, both_nan);
    }
    let earlier = code.less(new.parts[1], old.parts[1]);
    let tie = code.and(ties, earlier);
    code.or(wins, tie)
}

/// Combines the states of `threads` neighbours by a butterfly of warp shuffles. Each thread gets the result.
pub fn butterfly(code: &mut Code, mut state: State, threads: usize) -> State {
    let mut distance = threads / 2;
    while distance > 0 {
        let other = state.map(|x| code.shuffle_xor(x, distance as u32));
        state = state.combined(code, &other);
        distance /= 2;
    }
    state
}

/// A number that is searched for among many; any NaN equals any other.
pub struct Search {
    number: Variable,
    /// A bound that only the bits of NaN exceed if the number is NaN, and no bits otherwise. None where
    /// comparisons respect NaN.
    above: Option<Variable>,
}

impl Search {
    /// Prepares a search for a number.
    pub fn new(code: &mut Code, number: Variable) -> Search {
        let by_bits = !code.device.has_exact_functions && number.elem_type() == F32;
        let above = by_bits.then(|| {
            let is_nan = code.is_nan(number);
            let [infinity, all] = [INFINITY_BITS, 0xFFFF_FFFF].map(|word| code.int(U32, word));
            code.select(is_nan, infinity, all)
        });
        Search { number, above }
    }

    /// Whether `x` equals the number.
    pub fn is(&self, code: &mut Code, x: Variable) -> Variable {
        let Some(above) = self.above else { return is_same(code, x, self.number) };
        let is_equal = code.cmp(Comparison::Equal, x, self.number);
        let size = size_bits(code, x);
        let is_nan = code.cmp(Comparison::Greater, size, above);
        code.or(is_equal, is_nan)
    }
}

/// The bits of an `f32` without its sign.
pub fn size_bits(code: &mut Code, x: Variable) -> Variable {
    let bits = code.reinterpret(U32, x);
    let sign = code.int(U32, 0x7FFF_FFFF);
    code.bit(Bitwise::BitwiseAnd, bits, sign)
}

/// Whether two values are equal or both NaN.
pub fn is_same(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let is_equal = code.cmp(Comparison::Equal, a, b);
    if !matches!(a.elem_type(), ElemType::Float(_)) {
        return is_equal;
    }
    let [a, b] = [a, b].map(|x| code.is_nan(x));
    let both = code.and(a, b);
    code.or(is_equal, both)
}

pub fn bits_type(elem: ElemType) -> ElemType {
    if elem.size() == 8 { U64 } else { U32 }
}

pub fn to_word(code: &mut Code, word: ElemType, x: Variable) -> Variable {
    let bits = code.reinterpret(bits_type(x.elem_type()), x);
    code.cast(word, bits)
}

pub fn from_word(code: &mut Code, elem: ElemType, word: Variable) -> Variable {
    let bits = code.cast(bits_type(elem), word);
    code.reinterpret(elem, bits)
}
