//! Philox4x32-10 as cube code (J. Salmon, M. Moraes, R. Dror, D. Shaw: "Parallel random numbers: as easy as 1, 2, 3",
//! SC 2011).

use cubecl_core as cubecl;
use cubecl_core::prelude::*;

/// Word `lane` of the block with counter `[low, high, step, iteration]` under the key `[seed, stream]`.
#[cube]
pub fn philox_word(low: u32, high: u32, step: u32, iteration: u32, seed: u32, stream: u32, lane: u32) -> u32 {
    let mut c0 = low;
    let mut c1 = high;
    let mut c2 = step;
    let mut c3 = iteration;
    let mut key0 = seed;
    let mut key1 = stream;
    for _ in 0..10 {
        let even_low = c0 * 0xD251_1F53u32;
        let even_high = u32::mul_hi(c0, 0xD251_1F53u32);
        let odd_low = c2 * 0xCD9E_8D57u32;
        let odd_high = u32::mul_hi(c2, 0xCD9E_8D57u32);
        c0 = odd_high ^ c1 ^ key0;
        c1 = odd_low;
        c2 = even_high ^ c3 ^ key1;
        c3 = even_low;
        key0 += 0x9E37_79B9u32;
        key1 += 0xBB67_AE85u32;
    }
    let front = select(lane == 0, c0, c1);
    let back = select(lane == 2, c2, c3);
    select(lane < 2, front, back)
}
