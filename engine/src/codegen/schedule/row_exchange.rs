//! Exchange of reduction states between the threads of a row.

use crate::codegen::ir::builder::Code;
use crate::codegen::ops::reduction::{State, bits_type, butterfly, from_word, to_word};
use crate::codegen::schedule::row_plan::RowPlan;
use crate::codegen::types::PLANE;
use crate::codegen::types::carried_type;
use crate::device_model::DeviceModel;
use crate::fusion::{FusedBody, FusedOp};
use cubecl_core::ir::{Bitwise, Builtin, Comparison, ElemType, Variable};

/// Words of shared memory from a start on.
#[derive(Clone, Copy)]
pub struct SharedWords {
    /// The whole array.
    pub array: Variable,
    /// The first word.
    pub start: usize,
}

impl SharedWords {
    /// One array of words for all reductions, as CubeCL declares several arrays in the order of a hash map.
    pub fn of(code: &mut Code, body: &FusedBody, plan: RowPlan) -> Option<SharedWords> {
        let (word, length) = n_shared_words(body, plan, code.device)?;
        Some(SharedWords { array: code.shared(word, length), start: 0 })
    }
}

/// The exchange of states between the threads of a row.
#[derive(Clone, Copy)]
pub struct Exchange {
    /// The division of rows among threads.
    pub plan: RowPlan,
    /// The shared memory of the exchange; none if it needs none.
    pub shared: Option<SharedWords>,
}

impl Exchange {
    /// Combines the states of a row's threads: a butterfly of warp shuffles, then shared memory between warps. All
    /// threads of the row get the result.
    pub fn across_threads(&self, code: &mut Code, state: State) -> State {
        if self.plan.is_across {
            return self.across_planes(code, state);
        }
        let width = code.device.plane;
        if width == 1 {
            return self.by_memory(code, state);
        }
        let planes = self.plan.threads / width;
        let state = butterfly(code, state, self.plan.threads.min(width));
        if planes <= 1 {
            return state;
        }
        let n_places = self.plan.block_threads() / width;
        let unit = code.builtin(Builtin::UnitPosX);
        let (plane, lane) = (code.divided(unit, width), code.modulo(unit, width));
        let zero = code.at(0);
        let is_first = code.cmp(Comparison::Equal, lane, zero);
        code.when(is_first, |code| self.write_shared(code, &state, plane, n_places));
        code.sync();
        let source = code.modulo(lane, planes);
        let source = match self.plan.rows {
            1 => source,
            _ => {
                let row = code.divided(unit, self.plan.threads);
                let first = code.scaled(row, planes as i64);
                code.add_at(first, source)
            }
        };
        let mut partial = self.read_shared(code, &state, source, n_places);
        for round in 1..planes.div_ceil(width) {
            let place = part_place(code, source, round * width);
            let next = self.read_shared(code, &state, place, n_places);
            partial = partial.combined(code, &next);
        }
        // The next reduction uses the same memory.
        code.sync();
        butterfly(code, partial, planes.min(width))
    }

    /// The exchange on devices without warp shuffles, in the same order.
    fn by_memory(&self, code: &mut Code, mut state: State) -> State {
        let n_places = self.plan.block_threads();
        let unit = code.builtin(Builtin::UnitPosX);
        for distance in exchange_distances(self.plan.threads) {
            self.write_shared(code, &state, unit, n_places);
            code.sync();
            let distance = code.at(distance as i64);
            let other = code.bit(Bitwise::BitwiseXor, unit, distance);
            let other = self.read_shared(code, &state, other, n_places);
            code.sync();
            state = state.combined(code, &other);
        }
        state
    }

    /// The exchange if each thread of a warp has its own row, in the order of the warps.
    fn across_planes(&self, code: &mut Code, state: State) -> State {
        if self.plan.threads == 1 {
            return state;
        }
        let n_places = self.plan.block_threads();
        let unit = code.builtin(Builtin::UnitPosX);
        self.write_shared(code, &state, unit, n_places);
        code.sync();
        let within = code.modulo(unit, self.plan.rows);
        let mut total = self.read_shared(code, &state, within, n_places);
        for thread in 1..self.plan.threads {
            let place = part_place(code, within, thread * self.plan.rows);
            let partial = self.read_shared(code, &state, place, n_places);
            total = total.combined(code, &partial);
        }
        code.sync();
        total
    }

    /// Writes a state to its place among `n_places`.
    fn write_shared(&self, code: &mut Code, state: &State, place: Variable, n_places: usize) {
        let SharedWords { array, start } = self.shared();
        for (i, &x) in state.parts.iter().enumerate() {
            let place = part_place(code, place, start + i * n_places);
            let word = to_word(code, array.elem_type(), x);
            code.store(array, place, word);
        }
    }

    /// Reads a state with the types of `like`.
    fn read_shared(&self, code: &mut Code, like: &State, place: Variable, n_places: usize) -> State {
        let SharedWords { array, start } = self.shared();
        let mut parts = vec![];
        for (i, x) in like.parts.iter().enumerate() {
            let place = part_place(code, place, start + i * n_places);
            let word = code.load(array, place);
            parts.push(from_word(code, x.elem_type(), word));
        }
        State { parts, ..*like }
    }

    fn shared(&self) -> SharedWords {
        self.shared.unwrap_or_else(|| crate::bug!("threads of a row without shared memory"))
    }
}

fn part_place(code: &mut Code, place: Variable, offset: usize) -> Variable {
    let offset = code.at(offset as i64);
    code.add_at(place, offset)
}

/// The type and number of the words that the threads of a row exchange; none if they need none.
pub fn n_shared_words(body: &FusedBody, plan: RowPlan, device: DeviceModel) -> Option<(ElemType, usize)> {
    let n_places = match (plan.is_across, plan.threads) {
        (_, 1) => return None,
        (true, _) => plan.block_threads(),
        (false, _) if device.plane == 1 => plan.block_threads(),
        (false, threads) if threads <= device.plane => return None,
        (false, _) => plan.block_threads() / device.plane,
    };
    let reduced = body.insts.iter().filter_map(|inst| match inst.op {
        FusedOp::Reduce { monoid, value } => {
            Some((bits_type(carried_type(body.insts[value].dtype)), 1 + monoid.is_index() as usize))
        }
        _ => None,
    });
    let (words, n_parts): (Vec<ElemType>, Vec<usize>) = reduced.unzip();
    let word = words.into_iter().max_by_key(|word| word.size())?;
    (n_places > 1).then(|| (word, n_places * n_parts.into_iter().max().unwrap_or(1)))
}

/// The distances of threads that exchange values, step by step: within warps, then between them.
fn exchange_distances(threads: usize) -> Vec<usize> {
    let halved = |from: usize, to: usize| {
        std::iter::successors(Some(from / 2), |distance| Some(distance / 2)).take_while(move |&d| d >= to)
    };
    let within = threads.min(PLANE);
    halved(within, 1).chain(halved(threads, PLANE)).collect()
}
