//! `near_least`.

use super::sums::least_of_blocks;
use crate::rank::{Entry, Ranked};
use engine_core::ir::{DType, Dim, Type};
use engine_core::op::kernel::{Elements, KernelCall, Share};
use engine_core::op::simd::{Isa, Kernel, dispatch};
use engine_core::op::{
    AttrKind, AttrSpec, KernelForm, Lower, OpForm, Role, RowFold, RowReduction, TypeIssue,
};
use engine_core::oracle::OracleTensor;
use std::sync::Arc;

/// The places of the elements of each row that are less than 1 above its least, ascending, and how many these are: `[..., n]`
/// to `i32[..., room]` and `i32[...]`. The number is -1 if the list has no room for them, or if the row has a NaN or no finite
/// least element.
///
/// Behind a matmul, the scores of a first pass are never stored. They are in units of what the pass may be wrong by.
pub fn near_least() -> OpForm {
    let reduction = RowReduction::new(|call| Box::new(NearLeast { room: room(call) }));
    let form =
        OpForm::new("near_least", "Lists the elements of each row that are less than 1 above its least.")
            .input("x", "`f32[..., n]`")
            .results(&["places", "count"])
            .attr(AttrSpec::must("room", "how many a list holds, at least 1", AttrKind::Int))
            .types(|types, attrs| {
                let x = &types[0];
                x.expect_dtype("near_least", 0, |dtype| dtype == DType::F32, "f32")?;
                let (room, rank) = (attrs.int("room"), x.rank());
                let Some(room) = usize::try_from(room).ok().filter(|&room| room >= 1 && rank >= 1) else {
                    return Err(TypeIssue::new(format!("`near_least` of {x} with room = {room}"))
                        .help("it takes rows, and lists at least one element of each"));
                };
                let count = Type { dtype: DType::I32, shape: x.shape[..rank - 1].to_vec() };
                let places = [count.shape.clone(), vec![Dim::Fixed(room)]].concat();
                Ok(vec![Type { dtype: DType::I32, shape: places }, count])
            })
            .lower(Lower::Kernel(KernelForm::of_rows(&reduction, Arc::new(oracle))))
            .no_grad("a place is piecewise constant")
            .example(
                "two of four are near the least, and three of the next row are too many",
                "near_least(a, room=2)",
                &[("f32[2, 4]", &[3.0, 0.5, 0.0, 1.5, 0.0, 0.0, 9.0, 0.25])],
                &[("i32[2, 2]", &[1.0, 2.0, -1.0, -1.0]), ("i32[2]", &[2.0, -1.0])],
            );
    OpForm { role: Role::RowReduction(reduction), ..form }
}

fn room(call: &KernelCall) -> usize {
    call.attrs().int("room") as usize
}

/// Elements that are compared at once.
const BLOCK: usize = 64;
/// Blocks whose least element is found before any element is listed, a bit for each.
const BLOCKS: usize = 64;
/// How far above the least an element is listed.
const WIDTH: f32 = 1.0;

/// The fold on the CPU. A state holds the least element, and one entry more than the list: the least of the elements that
/// were near the least when they came.
struct NearLeast {
    room: usize,
}

/// The parts of a state.
struct State<'s> {
    /// The bits of the least element, -∞ in a row with a NaN.
    least: &'s mut u64,
    n: &'s mut u64,
    entries: &'s mut [u64],
}

fn parts(state: &mut [u64]) -> State<'_> {
    let ([least, n], entries) =
        state.split_first_chunk_mut().unwrap_or_else(|| engine_core::bug!("a fold without a state"));
    State { least, n, entries }
}

impl State<'_> {
    fn least(&self) -> f32 {
        f32::from_bits(*self.least as u32)
    }

    fn lower(&mut self, least: f32) {
        if least < self.least() {
            *self.least = u64::from(least.to_bits());
        }
    }

    /// Whether an element is near the least so far.
    fn is_near(&self, x: f32) -> bool {
        x < self.least() + WIDTH
    }

    /// Keeps an element. Of too many, the largest goes.
    fn push(&mut self, x: f32, place: usize) {
        if *self.n as usize == self.entries.len() {
            self.drop_far();
        }
        let entry = u64::new(x.rank(false), place);
        if let Some(free) = self.entries.get_mut(*self.n as usize) {
            *free = entry;
            *self.n += 1;
        } else if let Some(last) = self.entries.iter_mut().max().filter(|last| entry < **last) {
            *last = entry;
        }
    }

    /// Drops the entries that are no longer near the least.
    fn drop_far(&mut self) {
        let mut n = 0;
        for i in 0..*self.n as usize {
            if self.is_near(f32::of_rank(Entry::rank(self.entries[i]), false)) {
                self.entries[n] = self.entries[i];
                n += 1;
            }
        }
        *self.n = n as u64;
    }
}

/// A bit for each block that has an element below the limit.
struct BlocksBelow<'a> {
    piece: &'a [f32],
    limit: f32,
}

impl Kernel for BlocksBelow<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<I: Isa>(self) -> u64 {
        let is_below = |block: &[f32]| block.iter().fold(false, |any, &x| any | (x < self.limit));
        let blocks = self.piece.chunks(BLOCK).enumerate();
        blocks.fold(0, |bits, (block, elements)| bits | u64::from(is_below(elements)) << block)
    }
}

impl RowFold for NearLeast {
    fn state_words(&self) -> usize {
        2 + self.room + 1
    }

    fn init(&self, state: &mut [u64]) {
        let state = parts(state);
        (*state.least, *state.n) = (u64::from(f32::INFINITY.to_bits()), 0);
    }

    fn step(&self, state: &mut [u64], first: usize, piece: Elements) {
        let mut state = parts(state);
        for (number, piece) in piece.get::<f32>().chunks(BLOCKS * BLOCK).enumerate() {
            let mut least = [f32::INFINITY];
            least_of_blocks(piece, piece.len(), &mut least);
            state.lower(least[0]);
            if !state.is_near(least[0]) {
                continue;
            }
            let mut blocks = dispatch(BlocksBelow { piece, limit: state.least() + WIDTH });
            while blocks != 0 {
                let start = blocks.trailing_zeros() as usize * BLOCK;
                let first = first + number * BLOCKS * BLOCK + start;
                for (place, &x) in (first..).zip(piece[start..].iter().take(BLOCK)) {
                    if state.is_near(x) {
                        state.push(x, place);
                    }
                }
                blocks &= blocks - 1;
            }
        }
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        let mut state = parts(state);
        state.lower(f32::from_bits(later[0] as u32));
        for &entry in &later[2..][..later[1] as usize] {
            let x = f32::of_rank(Entry::rank(entry), false);
            if state.is_near(x) {
                state.push(x, Entry::index(entry));
            }
        }
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        let mut state = parts(state);
        state.drop_far();
        let (n, places) = (*state.n as usize, results.take::<i32>(0));
        places.fill(-1);
        let is_known = state.least().is_finite() && n <= self.room;
        results.take::<i32>(1)[0] = if is_known { n as i32 } else { -1 };
        if is_known {
            for (place, &entry) in places.iter_mut().zip(&state.entries[..n]) {
                *place = Entry::index(entry) as i32;
            }
            places[..n].sort_unstable();
        }
    }
}

fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let ((n_rows, n), room) = (call.rows(), room(call));
    let x = args[0].to_f64();
    let (mut places, mut counts) = (vec![-1; n_rows * room], vec![-1; n_rows]);
    for row in 0..n_rows {
        let x = &x[row * n..][..n];
        let least = x.iter().copied().fold(f64::INFINITY, f64::min);
        let near: Vec<usize> = (0..n).filter(|&i| x[i] < least + f64::from(WIDTH)).collect();
        if least.is_finite() && near.len() <= room && !x.iter().any(|x| x.is_nan()) {
            counts[row] = near.len() as i64;
            places[row * room..].iter_mut().zip(near).for_each(|(place, near)| *place = near as i64);
        }
    }
    let shape = call.inputs[0].extents();
    let of_rows = &shape[..shape.len() - 1];
    let of_places = [of_rows, &[room]].concat();
    vec![OracleTensor::ints(DType::I32, &of_places, places), OracleTensor::ints(DType::I32, of_rows, counts)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries near the least of a row that comes in these pieces, merged in order.
    fn near(room: usize, pieces: &[&[f32]]) -> (f32, Vec<usize>) {
        let fold = NearLeast { room };
        let new = || {
            let mut state = vec![u64::MAX; fold.state_words()];
            fold.init(&mut state);
            state
        };
        let (mut state, mut first) = (new(), 0);
        for piece in pieces {
            let mut later = new();
            fold.step(&mut later, first, Elements::of(piece, DType::F32));
            fold.merge(&mut state, &later);
            first += piece.len();
        }
        let mut state = parts(&mut state);
        state.drop_far();
        let n = *state.n as usize;
        let mut places: Vec<usize> = state.entries[..n].iter().map(|&entry| Entry::index(entry)).collect();
        places.sort_unstable();
        (state.least(), places)
    }

    #[test]
    fn lists_are_those_of_a_scan_for_every_cut() {
        for n in [1usize, 63, 64, 65, 700, 2049, 5000] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 7919) % 4093) as f32 * 0.11).collect();
            let least = x.iter().copied().fold(f32::INFINITY, f32::min);
            let expected: Vec<usize> = (0..n).filter(|&i| x[i] < least + WIDTH).collect();
            for cut in [0, 1, n / 3, n / 2, n] {
                assert_eq!(near(40, &[&x[..cut], &x[cut..]]), (least, expected.clone()), "{n} cut at {cut}");
            }
        }
    }

    #[test]
    fn too_many_elements_leave_one_more_than_there_is_room_for() {
        let x: Vec<f32> = (0..900).map(|i| if i == 700 { -0.5 } else { 0.25 }).collect();
        assert_eq!(near(3, &[&x]).1.len(), 4);
        assert_eq!(near(3, &[&x[..300], &x[300..]]).1.len(), 4);
        // Elements far above the last least make room.
        let falling: Vec<f32> = (0..900).map(|i| -(i as f32)).collect();
        assert_eq!(near(3, &[&falling]).1, [899]);
        assert_eq!(near(3, &[&falling[..500], &falling[500..]]).1, [899]);
    }

    #[test]
    fn a_nan_makes_the_least_infinite() {
        let mut x = vec![1.0; 200];
        x[130] = f32::NAN;
        assert_eq!(near(3, &[&x]).0, f32::NEG_INFINITY);
        assert_eq!(near(3, &[&[f32::INFINITY; 70]]).0, f32::INFINITY);
    }
}
