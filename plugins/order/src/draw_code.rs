//! The draw from the first tokens of a row on GPUs, as an ending of a top-k selection.
//!
//! The weights of the selected tokens take the place of their ranks in shared memory, and their running sums the place of the
//! weights. Each drawn token is a binary search by one thread.

// The macro of the kernel language makes a module of each function, and leaves its documentation behind.
#![allow(missing_docs)]

use crate::draw_fold::Cuts;
use crate::topk_ending::{Ending, Selected};
use engine_core::codegen::{Code, native};
use engine_core::cubecl;
use engine_core::cubecl::ir::{Builtin, ElemType, FloatKind, Variable};
use engine_core::cubecl::prelude::*;
use engine_core::op::gpu::Shape;

const F32: ElemType = ElemType::Float(FloatKind::F32);

/// The ending that draws tokens.
#[derive(Debug)]
pub struct DrawCode {
    /// The temperature, and the cuts behind the selection.
    pub cuts: Cuts,
    /// Tokens drawn from a row.
    pub n_draws: usize,
}

impl Ending for DrawCode {
    fn name(&self) -> &'static str {
        "draw_rows"
    }

    /// The operand behind the logits has a uniform number for each token.
    fn emit(&self, code: &mut Code, selected: &Selected) {
        let Selected { k, shape, counter, memory, .. } = *selected;
        let words = memory.shared;
        let Cuts { temperature, top_p, min_p } = self.cuts;
        let [temperature, top_p, min_p] = [temperature, top_p, min_p].map(|x| code.float(F32, x.into()));
        let unit = code.builtin(Builtin::UnitPosX);
        let [first, n_candidates, n_draws] = [0, k, self.n_draws].map(|number| code.at(number as i64));
        let largest = selected.element(code, first);
        start::expand(code.scope, native(counter));
        code.range(unit, n_candidates, shape.threads as i64, |code, place| {
            let logit = selected.element(code, place);
            let [logit, largest, temperature, min_p] = [logit, largest, temperature, min_p].map(native);
            let (words, counter, place) = (native(words), native(counter), native(place));
            weigh::expand(code.scope, words, counter, place, logit, largest, temperature, min_p);
        });
        cumulate::expand(code.scope, native(words), k, shape);
        let n_kept = n_kept::expand(code.scope, native(words), native(counter), native(top_p), k);
        let n_kept = Variable::from(n_kept);
        let of_row = code.scaled(memory.row, self.n_draws as i64);
        code.range(unit, n_draws, shape.threads as i64, |code, draw| {
            let at = code.add_at(of_row, draw);
            let uniform = memory.operands[0].load(code, at);
            let [uniform, largest] = [uniform, largest].map(native);
            let token = drawn::expand(code.scope, native(words), native(n_kept), uniform, largest, shape);
            memory.results[0].0.store(code, at, token.into());
        });
    }
}

/// Starts the number of tokens that `min_p` leaves: the first always stays.
#[cube]
fn start(counter: &mut SharedMemory<Atomic<u32>>) {
    // All threads have read the largest logit, and the number of entries.
    sync_cube();
    if UNIT_POS_X == 0u32 {
        counter[0].store(1u32);
    }
    sync_cube();
}

/// Replaces the rank at a place by the weight of its logit. Weights fall.
#[cube]
fn weigh(
    words: &mut SharedMemory<u32>,
    counter: &mut SharedMemory<Atomic<u32>>,
    place: usize,
    logit: f32,
    largest: f32,
    temperature: f32,
    min_p: f32,
) {
    let weight = f32::exp((logit - largest) / temperature);
    words[place] = u32::reinterpret(weight);
    if weight > 0.0f32 && weight >= min_p {
        counter[0].fetch_max(place as u32 + 1u32);
    }
}

/// Replaces the first `k` weights by their running sums. A thread adds up neighbours, and threads scan their sums behind the
/// entries (W. D. Hillis and G. L. Steele, 1986).
#[cube]
fn cumulate(words: &mut SharedMemory<u32>, #[comptime] k: usize, #[comptime] shape: Shape) {
    let unit = UNIT_POS_X as usize;
    let each = comptime!(k.div_ceil(shape.threads));
    sync_cube();
    let mut own = f32::new(0.0);
    #[unroll]
    for i in 0..each {
        let place = unit * each + i;
        if place < k {
            own += f32::reinterpret(words[place]);
            words[place] = u32::reinterpret(own);
        }
    }
    let scan = unit + k;
    words[scan] = u32::reinterpret(own);
    sync_cube();
    let mut distance = 1usize.runtime();
    while distance * each < k {
        let is_behind = unit >= distance;
        let before = f32::reinterpret(words[select(is_behind, scan - distance, scan)]);
        let sum = f32::reinterpret(words[scan]) + select(is_behind, before, f32::new(0.0));
        sync_cube();
        words[scan] = u32::reinterpret(sum);
        sync_cube();
        distance *= 2usize;
    }
    if unit > 0usize {
        let before = f32::reinterpret(words[scan - 1usize]);
        #[unroll]
        for i in 0..each {
            let place = unit * each + i;
            if place < k {
                words[place] = u32::reinterpret(before + f32::reinterpret(words[place]));
            }
        }
    }
    sync_cube();
}

/// The number of tokens that stay, given the number that `min_p` leaves.
#[cube]
fn n_kept(
    words: &SharedMemory<u32>,
    counter: &SharedMemory<Atomic<u32>>,
    top_p: f32,
    #[comptime] k: usize,
) -> u32 {
    let share = top_p * f32::reinterpret(words[comptime!(k - 1)]);
    n_passed(words, counter[0].load(), share, share) + 1u32
}

/// The number of the first `n - 1` sums that are at most `bound` and below `limit`.
#[cube]
fn n_passed(words: &SharedMemory<u32>, n: u32, bound: f32, limit: f32) -> u32 {
    let mut first = 0u32.runtime();
    let mut last = n - 1u32;
    while first < last {
        let middle = (first + last) / 2u32;
        let sum = f32::reinterpret(words[middle as usize]);
        if sum <= bound && sum < limit {
            first = middle + 1u32;
        } else {
            last = middle;
        }
    }
    first
}

/// The token that a uniform number selects, or -1 if the largest logit is not finite.
#[cube]
fn drawn(
    words: &SharedMemory<u32>,
    n_kept: u32,
    uniform: f32,
    largest: f32,
    #[comptime] shape: Shape,
) -> i32 {
    let total = f32::reinterpret(words[n_kept as usize - 1usize]);
    let place = n_passed(words, n_kept, uniform * total, total);
    let token = words[place as usize + comptime!(shape.indices())];
    // Comparisons with NaN have no meaning on some devices.
    let magnitude = u32::reinterpret(largest) & 0x7FFF_FFFFu32;
    select(magnitude < 0x7F80_0000u32, i32::cast_from(token), i32::new(-1))
}
