//! Buffers of a launch, and elements packed into words where a language has no narrow types.

use crate::codegen::ir::builder::{Code, F32, U32};
use crate::codegen::ops::integers::within_type;
use crate::ir::DType;
pub(crate) use crate::op::gpu::Buffer;
use cubecl_core::ir::{Arithmetic, AtomicOp, Bitwise, Comparison, Variable};

impl Buffer {
    /// Loads an element; a packed one is the low bits of a word.
    pub fn load(&self, code: &mut Code, index: Variable) -> Variable {
        if self.lanes == 1 {
            return self.word(code, index);
        }
        let number = code.divided(index, self.lanes);
        let word = self.word(code, number);
        let shift = self.shift(code, index);
        self.lane(code, word, shift)
    }

    /// Loads the `width` elements from `first` on; `first` is a multiple of `width`.
    pub fn load_vector(&self, code: &mut Code, first: Variable, width: usize) -> Vec<Variable> {
        if self.width > 1 {
            let number = code.divided(first, width);
            let words = code.load_components(self.array, number, self.width);
            let lanes = words.into_iter().flat_map(|word| match self.lanes {
                1 => vec![word],
                lanes => (0..lanes).map(|lane| self.lane_at(code, word, lane)).collect(),
            });
            return lanes.collect();
        }
        if self.lanes == 1 {
            return code.load_vector(self.array, first, width);
        }
        if width < self.lanes {
            let number = code.divided(first, self.lanes);
            let word = self.word(code, number);
            let shift = self.shift(code, first);
            let rest = code.bit(Bitwise::ShiftRight, word, shift);
            return (0..width).map(|lane| self.lane_at(code, rest, lane)).collect();
        }
        let start = code.divided(first, self.lanes);
        let mut values = vec![];
        for i in 0..width / self.lanes {
            let number = code.at_offset(start, i);
            let word = self.word(code, number);
            values.extend((0..self.lanes).map(|lane| self.lane_at(code, word, lane)));
        }
        values
    }

    /// Stores an element.
    pub fn store(&self, code: &mut Code, index: Variable, value: Variable) {
        if self.lanes == 1 {
            return code.store(self.array, index, value);
        }
        let shift = self.shift(code, index);
        let value = code.bit(Bitwise::ShiftLeft, value, shift);
        let mask = code.int(U32, self.mask());
        let mask = code.bit(Bitwise::ShiftLeft, mask, shift);
        let rest = code.bit_not(mask);
        let number = code.divided(index, self.lanes);
        // Threads that share a word write different bits of it.
        let place = code.place(self.array, number);
        code.atomic_bits(AtomicOp::And, place, rest);
        code.atomic_bits(AtomicOp::Or, place, value);
    }

    /// Stores neighbouring elements from `first` on; `first` is a multiple of their number.
    pub fn store_vector(&self, code: &mut Code, first: Variable, values: &[Variable]) {
        if self.width > 1 {
            let number = code.divided(first, values.len());
            let words: Vec<Variable> = match self.lanes {
                1 => values.to_vec(),
                lanes => values.chunks(lanes).map(|lanes| self.packed(code, lanes)).collect(),
            };
            return code.store_components(self.array, number, &words);
        }
        if self.lanes == 1 {
            return code.store_vector(self.array, first, values);
        }
        if values.len() < self.lanes {
            for (i, &value) in values.iter().enumerate() {
                let index = code.at_offset(first, i);
                self.store(code, index, value);
            }
            return;
        }
        let start = code.divided(first, self.lanes);
        for (i, lanes) in values.chunks(self.lanes).enumerate() {
            let word = self.packed(code, lanes);
            let number = code.at_offset(start, i);
            let place = code.place(self.array, number);
            code.atomic_store(place, word);
        }
    }

    fn word(&self, code: &mut Code, number: Variable) -> Variable {
        if self.is_atomic {
            let place = code.place(self.array, number);
            return code.atomic_load(U32, place);
        }
        if self.width == 1 {
            return code.load(self.array, number);
        }
        let (vector, component) = (code.divided(number, self.width), code.modulo(number, self.width));
        let words = code.load_components(self.array, vector, self.width);
        let mut words = words.into_iter().enumerate();
        let (_, first) = words.next().unwrap_or_else(|| crate::bug!("a vector of no words"));
        words.fold(first, |found, (i, word)| {
            let place = code.at(i as i64);
            let is_component = code.cmp(Comparison::Equal, component, place);
            code.select(is_component, word, found)
        })
    }

    fn packed(&self, code: &mut Code, lanes: &[Variable]) -> Variable {
        let bits = 32 / self.lanes as i64;
        let shifted = lanes.iter().enumerate().map(|(lane, &value)| {
            let shift = code.int(U32, bits * lane as i64);
            if lane == 0 { value } else { code.bit(Bitwise::ShiftLeft, value, shift) }
        });
        let shifted: Vec<Variable> = shifted.collect();
        let word = shifted.into_iter().reduce(|word, lane| code.bit(Bitwise::BitwiseOr, word, lane));
        word.unwrap_or_else(|| crate::bug!("a word of no elements"))
    }

    fn mask(&self) -> i64 {
        (1 << (32 / self.lanes)) - 1
    }

    /// The distance of an element from the low end of its word, in bits.
    fn shift(&self, code: &mut Code, index: Variable) -> Variable {
        let lane = code.modulo(index, self.lanes);
        let lane = code.cast(U32, lane);
        let bits = code.int(U32, 32 / self.lanes as i64);
        code.bin(Arithmetic::Mul, lane, bits)
    }

    fn lane(&self, code: &mut Code, word: Variable, shift: Variable) -> Variable {
        let value = code.bit(Bitwise::ShiftRight, word, shift);
        let mask = code.int(U32, self.mask());
        code.bit(Bitwise::BitwiseAnd, value, mask)
    }

    fn lane_at(&self, code: &mut Code, word: Variable, lane: usize) -> Variable {
        let shift = code.int(U32, (lane * 32 / self.lanes) as i64);
        self.lane(code, word, shift)
    }
}

// ---- Narrow types as bits.

/// A register from the bits of an element.
pub fn widened(code: &mut Code, dtype: DType, bits: Variable) -> Variable {
    match dtype {
        DType::BF16 => {
            let shift = code.int(U32, 16);
            let bits = code.bit(Bitwise::ShiftLeft, bits, shift);
            code.reinterpret(F32, bits)
        }
        DType::F16 => from_half(code, bits),
        _ if dtype.is_signed_int() => {
            let signed = code.cast(code.device.register(dtype), bits);
            within_type(code, dtype, signed)
        }
        _ => bits,
    }
}

/// The bits of an element from a register, rounded to nearest, ties to even.
pub fn narrowed(code: &mut Code, dtype: DType, x: Variable) -> Variable {
    match dtype {
        DType::BF16 => to_bfloat(code, x),
        DType::F16 => to_half(code, x),
        _ => {
            let bits = code.cast(U32, x);
            if !dtype.is_signed_int() {
                return bits;
            }
            let mask = code.int(U32, (1 << (8 * dtype.size())) - 1);
            code.bit(Bitwise::BitwiseAnd, bits, mask)
        }
    }
}

/// The bits of an element that is computed with again. A compiler may replace a conversion to a half and back by
/// the number itself: Mesa does so for sums in a loop, and NVIDIA's compiler for any number.
pub fn narrowed_for_arithmetic(code: &mut Code, dtype: DType, x: Variable) -> Variable {
    match dtype {
        DType::F16 => to_half_by_bits(code, x),
        _ => narrowed(code, dtype, x),
    }
}

/// The sign at bit 15, all other bits clear.
fn half_sign(code: &mut Code, bits: Variable) -> Variable {
    let [shift, sign] = [16, 0x8000].map(|word| code.int(U32, word));
    let high = code.bit(Bitwise::ShiftRight, bits, shift);
    code.bit(Bitwise::BitwiseAnd, high, sign)
}

fn from_half(code: &mut Code, bits: Variable) -> Variable {
    if code.device.reads_halves {
        return code.first_half(bits);
    }
    let [size_mask, mantissa_mask, sign_mask] = [0x7FFF, 0x3FF, 0x8000].map(|word| code.int(U32, word));
    let size = code.bit(Bitwise::BitwiseAnd, bits, size_mask);
    let [thirteen, sixteen] = [13, 16].map(|shift| code.int(U32, shift));
    let shifted = code.bit(Bitwise::ShiftLeft, size, thirteen);
    // The exponent's bias is 15 in one format and 127 in the other. Infinity and NaN have the largest exponent in
    // both.
    let [bias, top_bias, first_top, first_normal] =
        [112 << 23, 224 << 23, 0x7C00, 0x400].map(|word| code.int(U32, word));
    let is_top = code.cmp(Comparison::GreaterEqual, size, first_top);
    let bias = code.select(is_top, top_bias, bias);
    let normal = code.bin(Arithmetic::Add, shifted, bias);
    let normal = code.reinterpret(F32, normal);
    let mantissa = code.bit(Bitwise::BitwiseAnd, bits, mantissa_mask);
    let mantissa = code.cast(F32, mantissa);
    let unit = code.float(F32, (-24f64).exp2());
    let subnormal = code.bin(Arithmetic::Mul, mantissa, unit);
    let is_subnormal = code.less(size, first_normal);
    let value = code.select(is_subnormal, subnormal, normal);
    let sign = code.bit(Bitwise::BitwiseAnd, bits, sign_mask);
    let sign = code.bit(Bitwise::ShiftLeft, sign, sixteen);
    let value = code.reinterpret(U32, value);
    let value = code.bit(Bitwise::BitwiseOr, value, sign);
    code.reinterpret(F32, value)
}

fn to_half(code: &mut Code, x: Variable) -> Variable {
    if code.device.writes_halves {
        return code.as_half(x);
    }
    to_half_by_bits(code, x)
}

fn to_half_by_bits(code: &mut Code, x: Variable) -> Variable {
    let bits = code.reinterpret(U32, x);
    let sign = half_sign(code, bits);
    let size_mask = code.int(U32, 0x7FFF_FFFF);
    let size = code.bit(Bitwise::BitwiseAnd, bits, size_mask);
    let [thirteen, one, below_half, bias] = [13, 1, 0xFFF, 112 << 10].map(|word| code.int(U32, word));
    // Rounding adds half a unit in the last place, less one bit if the last place is even.
    let last = code.bit(Bitwise::ShiftRight, size, thirteen);
    let last = code.bit(Bitwise::BitwiseAnd, last, one);
    let rounded = code.bin(Arithmetic::Add, size, below_half);
    let rounded = code.bin(Arithmetic::Add, rounded, last);
    let rounded = code.bit(Bitwise::ShiftRight, rounded, thirteen);
    let normal = code.bin(Arithmetic::Sub, rounded, bias);
    // The bits of a subnormal half are its number of units.
    let units = code.float(F32, 24f64.exp2());
    let [first_normal, first_infinite, infinity, nan, top] =
        [113 << 23, 0x477F_F000, 0x7C00, 0x7E00, 0x7F80_0000].map(|word| code.int(U32, word));
    let is_small = code.less(size, first_normal);
    let nothing = code.int(U32, 0);
    let small = code.select(is_small, size, nothing);
    let small = code.reinterpret(F32, small);
    let small = code.bin(Arithmetic::Mul, small, units);
    let small = code.un(Arithmetic::Round, small);
    let small = code.cast(U32, small);
    let value = code.select(is_small, small, normal);
    let is_infinite = code.cmp(Comparison::GreaterEqual, size, first_infinite);
    let value = code.select(is_infinite, infinity, value);
    let is_nan = code.cmp(Comparison::Greater, size, top);
    let value = code.select(is_nan, nan, value);
    code.bit(Bitwise::BitwiseOr, value, sign)
}

/// The bits of a number that is exact in `bf16`.
pub fn high_half(code: &mut Code, x: Variable) -> Variable {
    let bits = code.reinterpret(U32, x);
    let sixteen = code.int(U32, 16);
    code.bit(Bitwise::ShiftRight, bits, sixteen)
}

fn to_bfloat(code: &mut Code, x: Variable) -> Variable {
    let bits = code.reinterpret(U32, x);
    let [sixteen, one, below_half, size_mask, top, quiet] =
        [16, 1, 0x7FFF, 0x7FFF_FFFF, 0x7F80_0000, 0x40_0000].map(|word| code.int(U32, word));
    let last = code.bit(Bitwise::ShiftRight, bits, sixteen);
    let last = code.bit(Bitwise::BitwiseAnd, last, one);
    let rounded = code.bin(Arithmetic::Add, bits, below_half);
    let rounded = code.bin(Arithmetic::Add, rounded, last);
    let size = code.bit(Bitwise::BitwiseAnd, bits, size_mask);
    let is_nan = code.cmp(Comparison::Greater, size, top);
    let nan = code.bit(Bitwise::BitwiseOr, bits, quiet);
    let rounded = code.select(is_nan, nan, rounded);
    code.bit(Bitwise::ShiftRight, rounded, sixteen)
}
