//! Sorted scatters: updates are sorted by their row of the result, in a stable order ([`Sorted`]). A thread
//! then loads neighbouring elements of a row, combines them with the row's updates in order, and stores them once.
//! Producers of the updates are fused. Rows without updates stay untouched.
//!
//! Sums in this order equal the CPU's bit by bit. Rows with many updates are not left to a thread: a block adds them in
//! order ([`scatter_long`](super::scatter_long)). Where the order is free, they are cut into pieces, whose sums are added
//! atomically.

use crate::codegen::analysis::operands::needed_by;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::{Argument, OperandForm};
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::vector_group;
use crate::codegen::schedule::map::{Map, registers_at_point, wide_enough};
use crate::codegen::schedule::radix_sort::Sorted;
use crate::codegen::schedule::scatter_long::Tile;
use crate::codegen::schedule::scatter_rows::{Combining, Extents, LONG_PIECE, LongRows, PIECE, Rows};
use crate::codegen::schedule::scatter_update::{Index, atomic_width, is_in_any_order};
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::fusion::{FusedBody, Kernel, ScatterBody};
use crate::ir::Combine;
use cubecl_core::ir::{Arithmetic, Builtin, Variable};

/// Fewest indices for which sorting is faster than a loop over all indices in each thread. A sort takes at least
/// three launches.
const FEWEST_IN_ORDER: usize = 64;
/// Fewest elements for which sorting is faster than atomic adds of single elements, where the order is free.
const FEWEST_ELEMENTS: usize = 1 << 26;
/// Shortest row worth sorting for; for shorter ones the sort takes most of the time.
const SHORTEST_ROW: usize = 128;
/// One launch of a sorted scatter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterSorted {
    step: Step,
    extents: Extents,
    /// Neighbours of a thread.
    width: usize,
    /// Threads times neighbours.
    n_points: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Computes the row of the result of each row of updates; rows without one get the number after the last.
    Keys { index: Index, indices: usize },
    /// Computes all updates for their assertions.
    Checks,
    /// Combines the updates of a row, from its first one on.
    Rows(Combining),
    /// Combines the updates of a piece, if the row has a full piece.
    Pieces(Combining),
    /// Combines the updates of a row with a full piece.
    Long(Combining, Tile),
}

/// The launches of a sorted scatter's updates; none if another schedule is faster.
pub fn launches(kernel: &Kernel, body: &ScatterBody, device: DeviceModel) -> Option<Vec<KernelSpec>> {
    let [batch, before, _, indices, after] = body.extents;
    let is_cut = is_in_any_order(body, kernel.operands[body.result].ty.dtype, device);
    let is_worth_it = match is_cut {
        true => {
            let n_elements = batch * before * indices * after;
            !device.adds_four && after >= SHORTEST_ROW && n_elements >= FEWEST_ELEMENTS
        }
        false => indices >= FEWEST_IN_ORDER && after > 0,
    };
    is_worth_it.then(|| sorted_launches(kernel, body, is_cut, device)).flatten()
}

/// The launches of a sorted scatter's updates, regardless of speed. None if a row number exceeds a word, or a
/// launch has too many tensors. If `is_cut`, the updates of a row are added in any order.
pub fn sorted_launches(
    kernel: &Kernel,
    body: &ScatterBody,
    is_cut: bool,
    device: DeviceModel,
) -> Option<Vec<KernelSpec>> {
    let [batch, before, indexed, indices, after] = body.extents;
    let extents = Extents { n: batch * before * indices, after, n_rows: batch * before * indexed };
    let largest = u32::try_from(extents.n_rows.max(extents.n)).ok()?;
    let sorted = Sorted::new(extents.n, extents.n_rows as u32);
    let mut launches = vec![keys(kernel, body, extents, &sorted, device)];
    launches.extend(sorted.launches(device));
    let (of_blocks, of_threads) = match is_cut {
        true => (Some(pieces(kernel, body, extents, &sorted, device)), LongRows::Pieces),
        false => match long(kernel, body, extents, &sorted, device) {
            Some(long) => (Some(long), LongRows::Block),
            None => (None, LongRows::Thread),
        },
    };
    launches.push(rows(kernel, body, extents, (&sorted, of_threads), device));
    launches.extend(of_blocks);
    // The error flag's two arguments do not count as tensors.
    let fits = |fused: &KernelSpec| {
        fused.clone().guarded().arguments().len() <= device.most_tensors.saturating_add(2)
    };
    let is_possible = largest < u32::MAX && launches.iter().all(fits);
    is_possible.then_some(launches)
}

fn keys(
    kernel: &Kernel,
    body: &ScatterBody,
    extents: Extents,
    sorted: &Sorted,
    device: DeviceModel,
) -> KernelSpec {
    let insts = body.updates.insts[..=body.index].to_vec();
    let step = Step::Keys { index: Index::of(body), indices: body.extents[3] };
    let schedule = ScatterSorted { step, extents, width: 1, n_points: extents.n };
    let of_index = FusedBody { insts, ..body.updates.clone() };
    let mut keys = KernelSpec::of_used_operands(of_index, schedule, OperandForm::of(kernel), device);
    keys.operands.push(sorted.unsorted_keys());
    keys
}

fn rows(
    kernel: &Kernel,
    body: &ScatterBody,
    extents: Extents,
    (sorted, long): (&Sorted, LongRows),
    device: DeviceModel,
) -> KernelSpec {
    let n_points = extents.n * extents.after;
    let (width, _) = vectors(kernel, body, extents);
    let schedule = |combining: Combining| ScatterSorted {
        step: Step::Rows(combining),
        extents,
        width: wide_enough(width, n_points),
        n_points,
    };
    combining(kernel, body, (sorted, long), schedule, device)
}

/// The neighbours that a vector of updates has, and the instructions of their body.
fn vectors(kernel: &Kernel, body: &ScatterBody, extents: Extents) -> (usize, usize) {
    let dtype = kernel.operands[body.result].ty.dtype;
    let (updates, _) = needed_by(&body.updates, body.update);
    let width = vector_group::width(&updates, extents.after).min(vector_group::VECTOR_BYTES / dtype.size());
    (width, updates.insts.len())
}

/// The launch that adds up long rows in order, if blocks can.
fn long(
    kernel: &Kernel,
    body: &ScatterBody,
    extents: Extents,
    sorted: &Sorted,
    device: DeviceModel,
) -> Option<KernelSpec> {
    let dtype = kernel.operands[body.result].ty.dtype;
    let (width, n_insts) = vectors(kernel, body, extents);
    if body.combine != Combine::Add || extents.n < LONG_PIECE {
        return None;
    }
    let tile = Tile::of(dtype, extents.after, [width, n_insts], device)?;
    let n_points = extents.n.div_ceil(LONG_PIECE) * tile.n_tiles;
    let schedule = |combining| ScatterSorted { step: Step::Long(combining, tile), extents, width, n_points };
    Some(combining(kernel, body, (sorted, LongRows::Block), schedule, device))
}

/// The launch that sums pieces of rows and adds the sums atomically.
fn pieces(
    kernel: &Kernel,
    body: &ScatterBody,
    extents: Extents,
    sorted: &Sorted,
    device: DeviceModel,
) -> KernelSpec {
    let dtype = kernel.operands[body.result].ty.dtype;
    let schedule = |combining: Combining| ScatterSorted {
        step: Step::Pieces(combining),
        extents,
        width: atomic_width(dtype, extents.after, device),
        n_points: extents.n.div_ceil(PIECE) * extents.after,
    };
    let mut pieces = combining(kernel, body, (sorted, LongRows::Pieces), schedule, device);
    let result = pieces.operands.len() - 3;
    pieces.operands[result].is_atomic = true;
    pieces
}

/// A launch that computes updates in the order of their rows. The result, the sorted keys and the numbers of the
/// updates follow the operands of the updates.
fn combining(
    kernel: &Kernel,
    body: &ScatterBody,
    (sorted, long): (&Sorted, LongRows),
    schedule: impl FnOnce(Combining) -> ScatterSorted,
    device: DeviceModel,
) -> KernelSpec {
    let (updates, update) = needed_by(&body.updates, body.update);
    let forms = OperandForm::of(kernel);
    let result = forms[body.result];
    let launch = KernelSpec::of_used_operands(updates, Map, forms, device);
    let (dtype, combine, place) = (result.dtype, body.combine, launch.operands.len());
    let mut launch =
        launch.with_schedule(schedule(Combining { update, combine, dtype, result: place, long }));
    launch.operands.push(result);
    launch.operands.extend(sorted.keys_and_numbers());
    launch
}

impl Schedule for ScatterSorted {
    fn entry(&self) -> &'static str {
        match self.step {
            Step::Keys { .. } => "scatter_keys",
            Step::Checks => "scatter_checks",
            Step::Rows(_) => "scatter_rows",
            Step::Pieces(_) => "scatter_pieces",
            Step::Long(..) => "scatter_long",
        }
    }

    fn blocks(&self, _: &KernelSpec, n_points: usize) -> usize {
        if let Step::Long(..) = self.step { n_points } else { n_points.div_ceil(THREADS * self.width) }
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n_points
    }

    fn vector_width(&self, kernel: &KernelSpec, operand: usize) -> usize {
        match (self.step, kernel.operands[operand].argument) {
            (Step::Long(combining, _), _) if operand == combining.result => 1,
            (_, Argument::Operand(_)) => vector_group::shared_width(&kernel.body, operand, self.width),
            _ => 1,
        }
    }

    fn writes_tensors(&self) -> bool {
        !matches!(self.step, Step::Keys { .. } | Step::Checks)
    }

    /// The launch that computes keys checks the indices. For the other assertions, one launch computes all
    /// updates.
    fn without_stores(&self, kernel: &KernelSpec) -> Option<KernelSpec> {
        let Step::Rows(combining) = self.step else { return None };
        let Extents { n, after, .. } = self.extents;
        let checks = ScatterSorted { step: Step::Checks, width: 1, n_points: n * after, ..self.clone() };
        let mut kernel = kernel.clone().with_schedule(checks);
        kernel.operands.truncate(combining.result);
        Some(kernel)
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        match self.step {
            Step::Keys { index, indices } => {
                self.at_points(code, kernel, |code, point| self.key(code, &body, (index, indices), point))
            }
            Step::Checks => self.at_points(code, kernel, |code, point| {
                registers_at_point(code, &body, point, vec![None; body.body.insts.len()]).map(drop)
            }),
            Step::Rows(combining) => {
                self.at_points(code, kernel, |code, point| self.combining(combining, &body).row(code, point))
            }
            Step::Pieces(combining) => self
                .at_points(code, kernel, |code, point| self.combining(combining, &body).piece(code, point)),
            Step::Long(combining, tile) => {
                let block = code.builtin(Builtin::CubePos);
                let rows = self.combining(combining, &body);
                below(code, block, kernel.points(), |code| rows.long(code, tile, block))
            }
        }
    }
}

/// Runs `then` where a number lies below an end.
fn below(
    code: &mut Code,
    number: Variable,
    end: Variable,
    then: impl FnOnce(&mut Code) -> Result<(), CodegenError>,
) -> Result<(), CodegenError> {
    let is_below = code.less(number, end);
    let mut result = Ok(());
    code.when(is_below, |code| result = then(code));
    result
}

impl ScatterSorted {
    /// Runs `then` at the first point of each thread that has one.
    fn at_points(
        &self,
        code: &mut Code,
        kernel: &KernelCode,
        then: impl FnOnce(&mut Code, Variable) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        let thread = code.builtin(Builtin::AbsolutePos);
        let point = code.scaled(thread, self.width as i64);
        below(code, point, kernel.points(), |code| then(code, point))
    }

    fn key(
        &self,
        code: &mut Code,
        body: &BodyCode,
        (index, indices): (Index, usize),
        row: Variable,
    ) -> Result<(), CodegenError> {
        let registers = index.registers(code, body, row)?;
        let (index_word, is_inside) = index.of_registers(code, body, &registers);
        let index_word = code.cast(U32, index_word);
        let lead = code.divided(row, indices);
        let first = code.scaled(lead, index.extent as i64);
        let first = code.cast(U32, first);
        let key = code.bin(Arithmetic::Add, first, index_word);
        let no_row = code.int(U32, self.extents.n_rows as i64);
        let key = code.select(is_inside, key, no_row);
        // The keys are the last operand.
        if let Some(keys) = body.shared.operands.last() {
            code.store(keys.array, row, key);
        }
        Ok(())
    }

    fn combining<'t>(&self, form: Combining, body: &'t BodyCode<'t>) -> Rows<'t> {
        let [keys, numbers] = [1, 2].map(|i| body.shared.operands[form.result + i].array);
        Rows { form, extents: self.extents, width: self.width, body, keys, numbers }
    }
}
