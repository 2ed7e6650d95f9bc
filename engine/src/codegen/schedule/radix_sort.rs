//! A stable radix sort of words, which also gives the number of each key (Knuth, The Art of Computer Programming
//! 3, 5.2.5).
//!
//! Digits are sorted from the lowest on, in three launches each. The first counts each digit in chunks of keys,
//! the second sums the counts. The third moves each key to the place that its digit's sum gives, after equal
//! digits of its chunk.
//!
//! Lanes find equal digits among 32 keys by setting bits in shared memory. The result is independent of the order
//! of threads, and no warp shuffle is needed. A single block sorts few keys in its shared memory.

// The macro of the kernel language makes an undocumented module of each function.
#![allow(missing_docs)]

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::ir::types::native;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::device_model::DeviceModel;
use crate::op::gpu::{Shape, WORKSPACE_ALIGNMENT, put, put_last, sort};
use cubecl_core as cubecl;
use cubecl_core::ir::{Arithmetic, AtomicOp, Bitwise, Builtin, Comparison, Variable};
use cubecl_core::prelude::*;

/// Neighbouring keys that one block moves to their places.
const CHUNK: usize = 512;
/// Threads of such a block, one per bit of a word.
const LANES: usize = 32;
/// Chunks whose digits one block counts.
const GROUP: usize = 8;
/// Threads of a block that counts or sums.
const THREADS: usize = 256;
/// The most bits of a digit: the counts of all digits fit in the shared memory of every device.
const MOST_BITS: u32 = 8;
/// The fewest bits of a digit, so that each thread has a digit.
const FEWEST_BITS: u32 = 5;
/// The most keys that one block sorts; for more, the digit passes are faster.
const MOST_BY_BLOCK: usize = 1024;

/// One launch of a sort.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RadixSort {
    step: Step,
    blocks: usize,
    scalars: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Counts each digit of `bits` bits in each chunk.
    Count { bits: u32 },
    /// Replaces each count by the sum of the digit's counts in earlier chunks.
    Sum,
    /// Moves each key to its place. The first pass makes up the numbers of the keys.
    Place { bits: u32, is_first: bool },
    /// Sorts all keys in one block.
    Whole(Shape),
}

/// The layout of the keys in a workspace during a sort.
#[derive(Clone, Copy, Debug)]
pub struct Sorted {
    n: usize,
    /// Digits of a key; 0 if one block sorts.
    n_digits: usize,
    /// Bits of a digit.
    bits: u32,
}

impl Sorted {
    /// The layout for `n` keys of at most `largest`.
    pub fn new(n: usize, largest: u32) -> Sorted {
        let n_bits = u32::BITS - largest.leading_zeros();
        let n_digits = if n <= MOST_BY_BLOCK { 0 } else { n_bits.div_ceil(MOST_BITS).max(1) };
        let bits = n_bits.div_ceil(n_digits.max(1)).clamp(FEWEST_BITS, MOST_BITS);
        Sorted { n, n_digits: n_digits as usize, bits }
    }

    /// The keys before the sort.
    pub fn unsorted_keys(&self) -> OperandForm {
        self.half(0)[0]
    }

    /// The sorted keys, and the original number of each.
    pub fn keys_and_numbers(&self) -> [OperandForm; 2] {
        self.half(self.n_digits.max(1) % 2).map(read)
    }

    /// The launches of the sort, which follow the launch that writes the keys.
    pub fn launches(&self, device: DeviceModel) -> Vec<KernelSpec> {
        let launch = |step: Step, n_blocks: usize, scalars: Vec<usize>, operands: Vec<OperandForm>| {
            KernelSpec::without_body(RadixSort { step, blocks: n_blocks, scalars }, operands, device)
        };
        let n = self.n;
        if self.n_digits == 0 {
            let capacity = n.next_power_of_two().max(2 * LANES);
            let threads = (capacity / 2).min(device.most_threads).min(THREADS);
            let shape = Shape { capacity, is_wide: false, threads };
            let operands = vec![read(self.half(0)[0]), self.half(1)[0], self.half(1)[1]];
            return vec![launch(Step::Whole(shape), 1, vec![n], operands)];
        }
        let (bits, n_chunks) = (self.bits, n.div_ceil(CHUNK));
        let n_bins = 1 << bits;
        let [counts, totals] = [self.part(4, n_bins * n_chunks), self.part(5, n_bins)];
        let pass = |digit: usize| {
            let [from, to] = [digit % 2, (digit + 1) % 2].map(|half| self.half(half));
            let scalars = vec![n, n_chunks, digit * bits as usize];
            let counting = vec![read(from[0]), counts];
            let placing = vec![read(from[0]), read(from[1]), read(counts), read(totals), to[0], to[1]];
            [
                launch(Step::Count { bits }, n_chunks.div_ceil(GROUP), scalars.clone(), counting),
                launch(Step::Sum, n_bins, vec![n_chunks], vec![counts, totals]),
                launch(Step::Place { bits, is_first: digit == 0 }, n_chunks, scalars, placing),
            ]
        };
        (0..self.n_digits).flat_map(pass).collect()
    }

    /// One of the two copies of keys and numbers. Each pass moves keys from one copy to the other.
    fn half(&self, half: usize) -> [OperandForm; 2] {
        [2 * half, 2 * half + 1].map(|part| self.part(part, self.n))
    }

    /// A part of the workspace: keys, numbers, both again, counts, totals.
    fn part(&self, number: usize, n_words: usize) -> OperandForm {
        let n_counts = (1 << self.bits) * self.n.div_ceil(CHUNK);
        let words = [self.n, self.n, self.n, self.n, n_counts];
        let before = words[..number].iter().map(|&n| (4 * n).next_multiple_of(WORKSPACE_ALIGNMENT));
        OperandForm::words(before.sum(), n_words)
    }
}

/// The operand as a read-only one.
fn read(operand: OperandForm) -> OperandForm {
    OperandForm { is_written: false, may_share: false, ..operand }
}

impl Schedule for RadixSort {
    fn threads(&self, _: &KernelSpec) -> usize {
        match self.step {
            Step::Count { .. } | Step::Sum => THREADS,
            Step::Place { .. } => LANES,
            Step::Whole(shape) => shape.threads,
        }
    }

    fn entry(&self) -> &'static str {
        match self.step {
            Step::Count { .. } => "count_digits",
            Step::Sum => "sum_counts",
            Step::Place { .. } => "place_keys",
            Step::Whole(_) => "sort_keys",
        }
    }

    fn blocks(&self, _: &KernelSpec, n_blocks: usize) -> usize {
        n_blocks
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.blocks
    }

    fn n_scalars(&self) -> usize {
        self.scalars.len()
    }

    fn scalars(&self, _: usize) -> Vec<usize> {
        self.scalars.clone()
    }

    /// A sort runs after a failed assertion as well, as later launches use its order as indices.
    fn writes_tensors(&self) -> bool {
        false
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let arrays: Vec<Variable> = kernel.buffers.operands.iter().map(|operand| operand.array).collect();
        kernel.in_grid(code, |code| {
            self.step.emit(code, &arrays, kernel.scalars);
            Ok(())
        })
    }
}

impl Step {
    fn emit(self, code: &mut Code, arrays: &[Variable], scalars: &[Variable]) {
        match (self, arrays, scalars) {
            (Step::Count { bits }, &[keys, counts], &[n, n_chunks, shift]) => count_digits::expand(
                code.scope,
                native(keys),
                native(counts),
                native(n),
                native(n_chunks),
                native(shift),
                bits,
            ),
            (Step::Sum, &[counts, totals], &[n_chunks]) => {
                sum_counts::expand(code.scope, native(counts), native(totals), native(n_chunks));
            }
            (
                Step::Place { bits, is_first },
                &[keys, numbers, counts, totals, new_keys, new_numbers],
                &[n, n_chunks, shift],
            ) => {
                let arrays = Placing { keys, numbers, counts, totals, new_keys, new_numbers };
                place_keys(code, &arrays, [n, n_chunks, shift], (bits, is_first));
            }
            (Step::Whole(shape), &[keys, new_keys, numbers], &[n]) => {
                sort_keys::expand(
                    code.scope,
                    native(keys),
                    native(new_keys),
                    native(numbers),
                    native(n),
                    shape,
                );
            }
            (step, ..) => crate::bug!("{step:?} with other arguments"),
        }
    }
}

#[cube]
fn digit_of(key: u32, shift: usize, #[comptime] bits: u32) -> usize {
    ((key >> (shift as u32)) & comptime!((1u32 << bits) - 1)) as usize
}

/// Counts are ordered by digit, then by chunk.
#[cube]
fn count_digits(
    keys: &Array<u32>,
    counts: &mut Array<u32>,
    n: usize,
    n_chunks: usize,
    shift: usize,
    #[comptime] bits: u32,
) {
    let n_bins = comptime!(1usize << bits);
    let bins = SharedMemory::<Atomic<u32>>::new(comptime!(GROUP << bits));
    let unit = UNIT_POS_X as usize;
    let mut bin = unit;
    while bin < comptime!(GROUP << bits) {
        bins[bin].store(0u32);
        bin += comptime!(THREADS);
    }
    sync_cube();
    let group = unit / comptime!(LANES);
    let first = (CUBE_POS * comptime!(GROUP) + group) * comptime!(CHUNK) + unit % comptime!(LANES);
    #[unroll]
    for round in 0..comptime!(CHUNK / LANES) {
        let place = first + round * comptime!(LANES);
        // All loads are issued before the bounds check, so that their latencies overlap.
        let key = keys[select(place < n, place, 0usize)];
        if place < n {
            bins[group * n_bins + digit_of(key, shift, bits)].fetch_add(1u32);
        }
    }
    sync_cube();
    let mut item = unit;
    while item < comptime!(GROUP << bits) {
        let digit = item / comptime!(GROUP);
        let group = item % comptime!(GROUP);
        let chunk = CUBE_POS * comptime!(GROUP) + group;
        if chunk < n_chunks {
            counts[digit * n_chunks + chunk] = bins[group * n_bins + digit].load();
        }
        item += comptime!(THREADS);
    }
}

/// A block per digit: each thread sums some neighbours, then all threads scan their sums.
#[cube]
fn sum_counts(counts: &mut Array<u32>, totals: &mut Array<u32>, n_chunks: usize) {
    let unit = UNIT_POS_X as usize;
    let start = CUBE_POS * n_chunks;
    let each = (n_chunks + comptime!(THREADS - 1)) / comptime!(THREADS);
    let first = unit * each;
    let last = first + each;
    let end = select(last < n_chunks, last, n_chunks);
    let mut sum = 0u32;
    let mut chunk = first;
    while chunk < end {
        sum += counts[start + chunk];
        chunk += 1usize;
    }
    let mut sums = SharedMemory::<u32>::new(comptime!(2 * THREADS));
    let own = sum;
    let up_to = sum_up_to(&mut sums, unit, own, comptime!(THREADS));
    let mut before = up_to - own;
    if unit == comptime!(THREADS - 1) {
        totals[CUBE_POS] = up_to;
    }
    let mut chunk = first;
    while chunk < end {
        let count = counts[start + chunk];
        counts[start + chunk] = before;
        before += count;
        chunk += 1usize;
    }
}

/// The inclusive scan of a value over the threads of a block (Hillis and Steele, 1986).
#[cube]
fn sum_up_to(sums: &mut SharedMemory<u32>, unit: usize, own: u32, #[comptime] n_threads: usize) -> u32 {
    let mut sum = own;
    let mut half = 0usize;
    sums[unit] = sum;
    sync_cube();
    let mut distance = 1usize.runtime();
    while distance < n_threads {
        let other = select(unit < distance, unit, unit - distance);
        let there = sums[half + other];
        sum += select(unit < distance, 0u32, there);
        half = comptime!(n_threads) - half;
        sums[half + unit] = sum;
        sync_cube();
        distance *= 2usize;
    }
    sum
}

/// The arrays of a launch that moves keys to their places.
struct Placing {
    keys: Variable,
    numbers: Variable,
    counts: Variable,
    totals: Variable,
    new_keys: Variable,
    new_numbers: Variable,
}

/// A block per chunk moves 32 keys at a time.
fn place_keys(
    code: &mut Code,
    arrays: &Placing,
    [n, n_chunks, shift]: [Variable; 3],
    (bits, is_first): (u32, bool),
) {
    let n_bins = 1 << bits;
    let lane = code.builtin(Builtin::UnitPosX);
    let chunk = code.builtin(Builtin::CubePos);
    // The next place of each digit, and the lanes whose key has it, for this round and the next.
    let places = code.shared(U32, n_bins);
    let lanes = code.shared_atomics(U32, 2 * n_bins);
    let start = code.scaled(chunk, CHUNK as i64);
    let first = code.add_at(start, lane);
    let own: Vec<Own> =
        (0..CHUNK / LANES).map(|round| Own::load(code, arrays, (first, n), round, is_first)).collect();
    first_places(code, arrays, (places, lanes), n_bins, (lane, chunk, n_chunks));
    let one = code.int(U32, 1);
    let lane = code.cast(U32, lane);
    let bit = code.bit(Bitwise::ShiftLeft, one, lane);
    let lower = code.bin(Arithmetic::Sub, bit, one);
    let shift = code.cast(U32, shift);
    let mask = code.int(U32, n_bins as i64 - 1);
    for (round, own) in own.iter().enumerate() {
        let digit = code.bit(Bitwise::ShiftRight, own.key, shift);
        let digit = code.bit(Bitwise::BitwiseAnd, digit, mask);
        let bin = code.cast(code.index, digit);
        let half = code.at_offset(bin, round % 2 * n_bins);
        code.when(own.is_key, |code| {
            let place = code.place(lanes, half);
            code.atomic_bits(AtomicOp::Or, place, bit);
        });
        code.sync();
        let place = code.place(lanes, half);
        let same = code.atomic_load(U32, place);
        let start = code.load(places, bin);
        let before = code.bit(Bitwise::BitwiseAnd, same, lower);
        let n_before = code.count_ones(before);
        code.sync();
        code.when(own.is_key, |code| {
            let zero = code.int(U32, 0);
            let is_first = code.cmp(Comparison::Equal, n_before, zero);
            code.when(is_first, |code| {
                let n_same = code.count_ones(same);
                let next = code.bin(Arithmetic::Add, start, n_same);
                code.store(places, bin, next);
                let place = code.place(lanes, half);
                code.atomic_store(place, zero);
            });
            let to = code.bin(Arithmetic::Add, start, n_before);
            let to = code.cast(code.index, to);
            code.store(arrays.new_keys, to, own.key);
            code.store(arrays.new_numbers, to, own.number);
        });
    }
}

/// The key of a lane in one round.
struct Own {
    is_key: Variable,
    key: Variable,
    number: Variable,
}

impl Own {
    fn load(
        code: &mut Code,
        arrays: &Placing,
        (first, n): (Variable, Variable),
        round: usize,
        is_first: bool,
    ) -> Own {
        let place = code.at_offset(first, round * LANES);
        let is_key = code.less(place, n);
        let first_key = code.at(0);
        let place = code.select(is_key, place, first_key);
        let key = code.load(arrays.keys, place);
        let number = match is_first {
            true => code.cast(U32, place),
            false => code.load(arrays.numbers, place),
        };
        Own { is_key, key, number }
    }
}

/// Computes the first place of each digit in this chunk, and clears the sets of lanes.
fn first_places(
    code: &mut Code,
    arrays: &Placing,
    (places, lanes): (Variable, Variable),
    n_bins: usize,
    (lane, chunk, n_chunks): (Variable, Variable, Variable),
) {
    let each = n_bins / LANES;
    let first = code.scaled(lane, each as i64);
    let bins: Vec<Variable> = (0..each).map(|i| code.at_offset(first, i)).collect();
    let totals: Vec<Variable> = bins.iter().map(|&bin| code.load(arrays.totals, bin)).collect();
    let own = totals.iter().copied().reduce(|sum, total| code.bin(Arithmetic::Add, sum, total));
    let own = own.unwrap_or_else(|| crate::bug!("a lane without a digit"));
    let sums = code.shared(U32, 2 * LANES);
    let up_to = sum_up_to::expand(code.scope, native(sums), native(lane), native(own), LANES);
    let mut before = code.bin(Arithmetic::Sub, up_to.into(), own);
    for (&bin, total) in bins.iter().zip(totals) {
        let row = code.bin(Arithmetic::Mul, bin, n_chunks);
        let element = code.add_at(row, chunk);
        let in_chunk = code.load(arrays.counts, element);
        let place = code.bin(Arithmetic::Add, before, in_chunk);
        code.store(places, bin, place);
        before = code.bin(Arithmetic::Add, before, total);
        let zero = code.int(U32, 0);
        for half in [0, n_bins] {
            let element = code.at_offset(bin, half);
            let place = code.place(lanes, element);
            code.atomic_store(place, zero);
        }
    }
    code.sync();
}

/// One block sorts all keys.
#[cube]
fn sort_keys(
    keys: &Array<u32>,
    new_keys: &mut Array<u32>,
    numbers: &mut Array<u32>,
    n: usize,
    #[comptime] shape: Shape,
) {
    let capacity = comptime!(shape.capacity);
    let mut words = SharedMemory::<u32>::new(comptime!(shape.n_words()));
    let mut place = UNIT_POS_X as usize;
    while place < capacity {
        if place < n {
            put(&mut words, place, keys[place], 0u32, place as u32, shape);
        } else {
            put_last(&mut words, place, shape);
        }
        place += comptime!(shape.threads);
    }
    sync_cube();
    sort(&mut words, capacity.runtime(), capacity.runtime(), shape);
    let mut place = UNIT_POS_X as usize;
    while place < n {
        new_keys[place] = words[place];
        numbers[place] = words[place + comptime!(shape.indices())];
        place += comptime!(shape.threads);
    }
}
