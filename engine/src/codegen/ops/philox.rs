//! Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

use crate::codegen::ir::builder::{Code, U32};
use cubecl_core::ir::{Arithmetic, Bitwise, Variable};

/// Words of a block.
pub const WORDS: usize = 4;

const ROUNDS: i64 = 10;
const MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The words of the Philox block with this counter and key.
pub fn block(code: &mut Code, counter: [Variable; WORDS], key: [Variable; 2]) -> [Variable; WORDS] {
    let counter = counter.map(|word| code.mutable(word));
    let key = key.map(|word| code.mutable(word));
    let [even, odd] = MULTIPLIERS.map(|multiplier| code.int(U32, multiplier));
    let (start, end) = (code.at(0), code.at(ROUNDS));
    code.range(start, end, 1, |code, _| {
        let [c0, c1, c2, c3] = counter.map(|word| code.snapshot(word));
        let keys = key.map(|word| code.snapshot(word));
        let products = [(c0, even), (c2, odd)].map(|(word, multiplier)| {
            let high = code.bin(Arithmetic::MulHi, word, multiplier);
            (high, code.bin(Arithmetic::Mul, word, multiplier))
        });
        let [(even_high, even_low), (odd_high, odd_low)] = products;
        let mixed = [(odd_high, c1, keys[0]), (even_high, c3, keys[1])].map(|(high, word, key)| {
            let mixed = code.bit(Bitwise::BitwiseXor, high, word);
            code.bit(Bitwise::BitwiseXor, mixed, key)
        });
        let next = [mixed[0], odd_low, mixed[1], even_low];
        counter.iter().zip(next).for_each(|(&word, next)| code.assign(word, next));
        for ((&word, now), step) in key.iter().zip(keys).zip(KEY_STEPS) {
            let step = code.int(U32, step);
            let next = code.bin(Arithmetic::Add, now, step);
            code.assign(word, next);
        }
    });
    counter.map(|word| code.snapshot(word))
}
