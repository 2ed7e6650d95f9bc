//! The draw from the first tokens of a row on the CPU, as a row fold.

use crate::rank::{Entry, Ranked};
use crate::select::Select;
use engine_core::op::RowFold;
use engine_core::op::kernel::{Elements, Share, words_as};

/// Elements that are tested for NaN while they are in the cache.
const BLOCK: usize = 1 << 12;

/// The temperature, and the cuts behind the selection.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// The divisor of the logits.
    pub temperature: f32,
    /// The share that must stay.
    pub top_p: f32,
    /// The least weight, relative to the largest.
    pub min_p: f32,
}

/// The fold. State: whether a logit is NaN, the state of the selection, and room for the cumulative weights.
pub struct Draw {
    k: usize,
    cuts: Cuts,
    select: Select<f32, u64>,
}

impl Draw {
    /// A draw from the `k` largest.
    pub fn new(k: usize, cuts: Cuts) -> Draw {
        Draw { k, cuts, select: Select::new(k, true) }
    }

    fn selection<'s>(&self, state: &'s mut [u64]) -> &'s mut [u64] {
        &mut state[1..][..self.select.state_words()]
    }
}

impl RowFold for Draw {
    fn state_words(&self) -> usize {
        1 + self.select.state_words() + self.k.div_ceil(2)
    }

    fn init(&self, state: &mut [u64]) {
        state[0] = 0;
        self.select.init(self.selection(state));
    }

    fn step(&self, state: &mut [u64], first: usize, piece: Elements) {
        let n = piece.get::<f32>().len();
        for start in (0..n).step_by(BLOCK) {
            let block = piece.range(start..n.min(start + BLOCK));
            let has_nan = block.get::<f32>().iter().fold(false, |any, x| any | x.is_nan());
            state[0] |= u64::from(has_nan);
            self.select.step(self.selection(state), first + start, block);
        }
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        state[0] |= later[0];
        self.select.merge(self.selection(state), &later[1..][..self.select.state_words()]);
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        let (uniform, tokens) = (results.operand::<f32>(1), results.take::<i32>(0));
        let has_nan = state[0] != 0;
        let (selection, room) = state[1..].split_at_mut(self.select.state_words());
        let best = self.select.best(selection);
        let sums = &mut words_as::<f32>(room)[..best.len()];
        let largest = f32::of_rank(best[0].rank(), true);
        if has_nan || !largest.is_finite() {
            return tokens.fill(-1);
        }
        let logits = best.iter().map(|entry| f32::of_rank(entry.rank(), true));
        let n_kept = self.cuts.cumulate(logits, largest, sums);
        let kept = &sums[..n_kept];
        let total = kept[n_kept - 1];
        for (token, u) in tokens.iter_mut().zip(uniform) {
            *token = best[n_passed(kept, u * total, total)].index() as i32;
        }
    }
}

impl Cuts {
    /// Writes the cumulative weights of logits in falling order. Returns the number of them that stay.
    fn cumulate(&self, logits: impl Iterator<Item = f32>, largest: f32, sums: &mut [f32]) -> usize {
        let (mut total, mut n_likely) = (0.0, 1);
        for (place, (logit, sum)) in logits.zip(sums.iter_mut()).enumerate() {
            let weight = ((logit - largest) / self.temperature).exp();
            if weight > 0.0 && weight >= self.min_p {
                n_likely = place + 1;
            }
            total += weight;
            *sum = total;
        }
        let share = self.top_p * total;
        n_passed(&sums[..n_likely], share, share) + 1
    }
}

/// The number of sums, without the last one, that are at most `bound` and below `limit`. Sums rise.
fn n_passed(sums: &[f32], bound: f32, limit: f32) -> usize {
    sums[..sums.len() - 1].partition_point(|&sum| sum <= bound && sum < limit)
}
