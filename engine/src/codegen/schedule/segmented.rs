//! Segmented maps: one body over many tensors, each with its own share of the blocks.
//!
//! A block works on one segment, so its threads do not diverge where an operand is selected. Only loads and stores
//! are repeated per segment.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::buffers::Buffers;
use crate::codegen::ops::buffers::Memory;
use crate::codegen::ops::scalar::literal;
use crate::codegen::ops::vector_group;
use crate::codegen::schedule::map::{at_group, at_point, wide_enough};
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::fusion::{FusedBody, FusedInst, FusedOp, Kernel, Segment, SegmentedBody};
use crate::ir::{DType, Literal};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, ElemType, Variable};
use std::collections::BTreeSet;

/// A segmented map; each segment has a share of the blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segmented {
    segments: Vec<SegmentForm>,
}

/// The segment of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SegmentForm {
    operands: Vec<usize>,
    points: usize,
    constants: Vec<Literal>,
}

impl From<&Segment> for SegmentForm {
    fn from(segment: &Segment) -> SegmentForm {
        let Segment { operands, points, constants } = segment.clone();
        SegmentForm { operands, points, constants }
    }
}

/// Points of a thread. The last group of a segment may be short.
fn width(body: &FusedBody, segments: &[SegmentForm]) -> usize {
    let n_points = segments.iter().map(|segment| segment.points).sum();
    let is_linear = |inst: &FusedInst| match &inst.op {
        FusedOp::Load { access, .. } | FusedOp::Store { access, .. } | FusedOp::Coord(access) => {
            access.normalized().levels.iter().all(|level| level.axes.len() <= 1)
        }
        FusedOp::Check { .. } | FusedOp::Random { .. } => false,
        _ => true,
    };
    // The segments have different extents, so the width may only depend on accesses along a single axis.
    let width = if body.insts.iter().all(is_linear) { vector_group::width(body, 0) } else { 1 };
    wide_enough(width, n_points)
}

/// Bytes that a thread should load and store: it looks up its segment in the time of fewer. Rounding the parameters of a language
/// model of 100M took 530 µs on an H100 with one group a thread, and 237 with eight (2026-11-27).
const BYTES_OF_THREAD: usize = 128;
/// With fewer blocks a processor, some processors would wait for others in the end.
const FEWEST_BLOCKS: usize = 16;

/// Groups of points of a thread.
fn n_groups(body: &FusedBody, segments: &[SegmentForm], width: usize, device: &DeviceModel) -> usize {
    let bytes = body.insts.iter().map(|inst| match inst.op {
        FusedOp::Load { .. } | FusedOp::Store { .. } => inst.dtype.size(),
        _ => 0,
    });
    let of_group = width * bytes.sum::<usize>().max(1);
    let blocks = blocks_up_to(segments, width).last().copied().unwrap_or(0);
    (blocks / (FEWEST_BLOCKS * device.n_processors)).clamp(1, (BYTES_OF_THREAD / of_group).max(1))
}

/// By segment: the number of blocks up to its end, if a thread has so many points.
fn blocks_up_to(segments: &[SegmentForm], of_thread: usize) -> Vec<usize> {
    let counts = segments.iter().map(|segment| segment.points.div_ceil(THREADS * of_thread));
    counts
        .scan(0, |total, count| {
            *total += count;
            Some(*total)
        })
        .collect()
}

/// The launches of a segmented map: as few as possible, as a launch takes a limited number of tensors.
pub fn launches(kernel: &Kernel, segmented: &SegmentedBody, device: DeviceModel) -> Vec<KernelSpec> {
    let SegmentedBody { body, segments } = segmented;
    let mut launches: Vec<(BTreeSet<usize>, Vec<SegmentForm>)> = vec![];
    for segment in segments.iter().map(SegmentForm::from) {
        let own: BTreeSet<usize> = segment.operands.iter().copied().collect();
        match launches.last_mut() {
            Some((used, together)) if used.union(&own).count() <= device.most_tensors => {
                used.extend(own);
                together.push(segment);
            }
            _ => launches.push((own, vec![segment])),
        }
    }
    let all = OperandForm::of(kernel);
    let launch = |(used, mut segments): (BTreeSet<usize>, Vec<SegmentForm>)| {
        let used: Vec<usize> = used.into_iter().collect();
        for operand in segments.iter_mut().flat_map(|segment| &mut segment.operands) {
            *operand = used.binary_search(operand).unwrap_or_default();
        }
        let operands = used.into_iter().map(|operand| all[operand]).collect();
        KernelSpec::new(body.clone(), Segmented { segments }, operands, device)
    };
    launches.into_iter().map(launch).collect()
}

impl Schedule for Segmented {
    fn entry(&self) -> &'static str {
        "segmented_map"
    }

    fn blocks(&self, kernel: &KernelSpec, _: usize) -> usize {
        let width = width(&kernel.body, &self.segments);
        let n_groups = n_groups(&kernel.body, &self.segments, width, &kernel.device());
        blocks_up_to(&self.segments, width * n_groups).last().copied().unwrap_or(0)
    }

    fn n_scalars(&self) -> usize {
        0
    }

    fn scalars(&self, _: usize) -> Vec<usize> {
        vec![]
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (body, buffers, segments) = (&kernel.kernel.body, kernel.buffers, &self.segments[..]);
        let block = code.builtin(Builtin::CubePos);
        let unit = code.builtin(Builtin::UnitPosX);
        let width = width(body, segments);
        let n_groups = n_groups(body, segments, width, &kernel.kernel.device());
        let ends = blocks_up_to(segments, width * n_groups);
        let segment = segment_of(code, block, &ends);
        let starts: Vec<i64> = [0].into_iter().chain(ends.iter().map(|&end| end as i64)).collect();
        let start =
            chosen(code, segment, starts[..segments.len()].iter().copied(), |code, start| code.at(start));
        let within = code.bin(Arithmetic::Sub, block, start);
        let before = code.scaled(within, (THREADS * n_groups) as i64);
        let group = code.bin(Arithmetic::Add, before, unit);
        let sizes = segments.iter().map(|segment| segment.points as i64);
        let n_points = chosen(code, segment, sizes, |code, points| code.at(points));
        let constants = constants(code, body, segment, segments);
        let memory = Slots { body, buffers, segments, segment, constants };
        let body_code = BodyCode { body, buffers: &memory, shared: buffers };
        if n_groups == 1 {
            return emit_group(code, &body_code, group, width, n_points);
        }
        let mut result = Ok(());
        let end = code.at((THREADS * n_groups) as i64);
        let end = code.add_at(group, end);
        code.range(group, end, THREADS as i64, |code, group| {
            result = emit_group(code, &body_code, group, width, n_points);
        });
        result
    }
}

/// A group of points. The last one of a segment may be short.
fn emit_group(
    code: &mut Code,
    body: &BodyCode,
    group: Variable,
    width: usize,
    n_points: Variable,
) -> Result<(), CodegenError> {
    let first = code.scaled(group, width as i64);
    let mut result = Ok(());
    let registers = || vec![None; body.body.insts.len()];
    if width == 1 {
        let is_point = code.less(first, n_points);
        code.when(is_point, |code| result = at_point(code, body, first, registers()));
        return result;
    }
    let end = code.at(width as i64);
    let end = code.add_at(first, end);
    let is_whole = code.cmp(Comparison::LowerEqual, end, n_points);
    code.when(is_whole, |code| result = at_group(code, body, first, width));
    let is_short = code.not(is_whole);
    code.when(is_short, |code| {
        code.range(first, n_points, 1, |code, point| {
            result = result.clone().and(at_point(code, body, point, registers()));
        });
    });
    result
}

/// The number of segments that end at or before this block.
fn segment_of(code: &mut Code, block: Variable, ends: &[usize]) -> Variable {
    let mut segment = code.int(U32, 0);
    for (i, &end) in ends.iter().enumerate().take(ends.len().saturating_sub(1)) {
        let end = code.at(end as i64);
        let is_past = code.cmp(Comparison::GreaterEqual, block, end);
        let next = code.int(U32, i as i64 + 1);
        segment = code.select(is_past, next, segment);
    }
    segment
}

/// The item of the segment, by a chain of selects; a plain value if all items are equal.
fn chosen<T: PartialEq + Copy>(
    code: &mut Code,
    segment: Variable,
    items: impl IntoIterator<Item = T>,
    mut value: impl FnMut(&mut Code, T) -> Variable,
) -> Variable {
    let items: Vec<T> = items.into_iter().collect();
    let mut result = value(code, items[0]);
    for i in 1..items.len() {
        if items[i] == items[i - 1] {
            continue;
        }
        let item = value(code, items[i]);
        let first = code.int(U32, i as i64);
        let is_here = code.cmp(Comparison::GreaterEqual, segment, first);
        result = code.select(is_here, item, result);
    }
    result
}

/// The body's constants, one per `Const` in order, if the segments bring their own.
fn constants(
    code: &mut Code,
    body: &FusedBody,
    segment: Variable,
    segments: &[SegmentForm],
) -> Vec<Variable> {
    let consts = body.insts.iter().filter(|inst| matches!(inst.op, FusedOp::Const(_)));
    let dtypes: Vec<DType> = consts.map(|inst| inst.dtype).collect();
    let n_constants = segments.iter().map(|segment| segment.constants.len()).min().unwrap_or(0);
    let mut constants = vec![];
    for (i, &dtype) in dtypes.iter().enumerate().take(n_constants) {
        let items: Vec<Literal> = segments.iter().map(|segment| segment.constants[i]).collect();
        constants.push(chosen(code, segment, items, |code, item| literal(code, dtype, item)));
    }
    constants
}

/// The operands of a segment, by slot.
struct Slots<'t> {
    body: &'t FusedBody,
    buffers: &'t Buffers,
    segments: &'t [SegmentForm],
    segment: Variable,
    constants: Vec<Variable>,
}

impl Slots<'_> {
    fn memory_type(&self, code: &Code, slot: usize) -> ElemType {
        let inst = self.body.insts.iter().find(|inst| match inst.op {
            FusedOp::Load { operand, .. } | FusedOp::Store { operand, .. } => operand == slot,
            _ => false,
        });
        code.device.memory(inst.map_or(DType::F32, |inst| inst.dtype))
    }

    /// The operand of a slot, if all segments share it.
    fn common(&self, slot: usize) -> Option<usize> {
        let first = self.segments[0].operands[slot];
        self.segments.iter().all(|segment| segment.operands[slot] == first).then_some(first)
    }
}

impl Memory for Slots<'_> {
    /// A point of a segment is an element of each of its operands, so none is empty.
    fn is_empty(&self, _: usize) -> bool {
        false
    }

    fn load(&self, code: &mut Code, slot: usize, index: Variable) -> Variable {
        if let Some(operand) = self.common(slot) {
            return self.buffers.load(code, operand, index);
        }
        let zero = code.constant(self.memory_type(code, slot), 0.0);
        let value = code.mutable(zero);
        code.switch(self.segment, self.segments.len(), |code, i| {
            let loaded = self.buffers.load(code, self.segments[i].operands[slot], index);
            code.assign(value, loaded);
        });
        code.snapshot(value)
    }

    fn load_vector(&self, code: &mut Code, slot: usize, first: Variable, width: usize) -> Vec<Variable> {
        if let Some(operand) = self.common(slot) {
            return self.buffers.load_vector(code, operand, first, width);
        }
        let zero = code.constant(self.memory_type(code, slot), 0.0);
        let values: Vec<Variable> = (0..width).map(|_| code.mutable(zero)).collect();
        code.switch(self.segment, self.segments.len(), |code, i| {
            let loaded = self.buffers.load_vector(code, self.segments[i].operands[slot], first, width);
            values.iter().zip(loaded).for_each(|(&value, loaded)| code.assign(value, loaded));
        });
        values.into_iter().map(|value| code.snapshot(value)).collect()
    }

    fn store_vector(&self, code: &mut Code, slot: usize, first: Variable, values: &[Variable]) {
        code.switch(self.segment, self.segments.len(), |code, i| {
            self.buffers.store_vector(code, self.segments[i].operands[slot], first, values);
        });
    }

    fn store(&self, code: &mut Code, slot: usize, index: Variable, value: Variable) {
        code.switch(self.segment, self.segments.len(), |code, i| {
            self.buffers.store(code, self.segments[i].operands[slot], index, value);
        });
    }

    fn constant(&self, n: usize) -> Option<Variable> {
        self.constants.get(n).copied()
    }
}
