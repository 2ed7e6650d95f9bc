//! Bodies that run over tiles: some rows, and some neighbouring points of each row.

use super::super::interp::{
    Arg, Frame, Layout, Op, Program, ScratchSize, Sharing, Span, Spread, View, Worker, compile, folds_only,
    row_pitch, slice_mut,
};
use super::super::memory::Memory;
use super::call::Call;
use crate::device::DeviceError;
use engine_core::fusion::{Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::{DType, Scalar};
use std::ops::Range;

/// The points of a block.
const POINTS: usize = 4096;

/// A compiled body that runs over tiles and computes values at each of their points.
pub struct TileRun {
    program: Program,
    uniforms: Memory,
    /// The points of a row.
    columns: usize,
    /// The most rows of a tile, and the most points of each.
    largest: [usize; 2],
    /// The registers of the values.
    values: Vec<Reg>,
    /// The size of a value and of an accumulator.
    size: usize,
}

/// A tile: rows and points of each row.
#[derive(Clone)]
pub struct TileSpan {
    /// The rows.
    pub rows: Range<usize>,
    /// The points of each row.
    pub columns: Range<usize>,
}

impl TileRun {
    /// Compiles the part of a body that computes some registers, for tiles of at most so many rows and points of each.
    /// Values and accumulators are of type `dtype`.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        body: &FusedBody,
        values: &[Reg],
        dtype: DType,
        largest: [usize; 2],
        sharing: &[Sharing],
    ) -> Result<TileRun, DeviceError> {
        let mut body = body.clone();
        let class = Class::Element;
        let at_points = values.iter().map(|&value| {
            let inst = &body.insts[value];
            if inst.dtype == dtype && inst.class == class {
                return value;
            }
            let cast = FusedOp::Scalar(Scalar::Cast(dtype), vec![value]);
            body.insts.push(FusedInst { op: cast, dtype, class });
            body.insts.len() - 1
        });
        let at_points: Vec<Reg> = at_points.collect();
        // Values are kept last, so no other result takes their slots.
        let folds =
            at_points.into_iter().map(|value| FusedInst { op: FusedOp::Fold { value }, dtype, class });
        body.insts.extend(folds);
        let body = folds_only(&body);
        let layout = Layout { spread: Spread::Each, is_resident: true, is_contiguous: false, sharing };
        let program = compile(&body, layout);
        let folded = |op: &Op| match op {
            Op::Fold(Arg::Local(reg)) => Some(*reg),
            _ => None,
        };
        let values = program.insts().filter_map(|inst| folded(&inst.op)).collect();
        let uniforms = Memory::new(8 * program.n_uniforms)?;
        Ok(TileRun { program, uniforms, columns: body.domain.row, largest, values, size: dtype.size() })
    }

    /// The scratch that the program needs of a worker.
    pub fn size(&self) -> ScratchSize {
        let [most_rows, width] = self.largest;
        ScratchSize::of(&self.program, POINTS.max(width), most_rows)
    }

    fn frame<'a>(&'a self, call: Call<'a>) -> Frame<'a> {
        call.frame(&self.program, &self.uniforms, row_pitch(self.largest[0]))
    }

    /// Computes the uniform values.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and no other worker may run the body meanwhile.
    pub unsafe fn begin(&self, call: Call, worker: &mut Worker) {
        // SAFETY: the caller's.
        unsafe { self.frame(call).begin(worker, None) }
    }

    /// Runs the body over a tile. Accumulators start with its first point; value i goes to `targets[i]`, dense. A target may
    /// be the accumulators themselves.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and accumulators and targets have room for the tile.
    pub unsafe fn run(
        &self,
        call: Call,
        worker: &mut Worker,
        tile: &TileSpan,
        accumulators: [*mut u8; 2],
        targets: &[*mut u8],
    ) {
        let frame = self.frame(call);
        let width = tile.columns.len();
        worker.row_base = worker.own_rows();
        let step = (POINTS / width).clamp(1, self.largest[0]);
        for row in tile.rows.clone().step_by(step) {
            let height = step.min(tile.rows.end - row);
            let at = (row - tile.rows.start) * width * self.size;
            let [first, second] = accumulators;
            worker.accumulator = View::block(first.wrapping_add(at), height * width);
            worker.second_accumulator = View::block(second.wrapping_add(at), height * width);
            let start = row * self.columns + tile.columns.start;
            let along = tile.columns.start;
            let span = Span { start, width, height, pitch: self.columns, along, bundle: height };
            // SAFETY: the caller's.
            unsafe {
                let pass = &self.program.passes[0];
                frame.run_insts(worker, &pass.row, Span::line(row, height));
                frame.run_insts(worker, &pass.element, span);
                for (&value, target) in self.values.iter().zip(targets) {
                    self.copy(worker.get(value), height * width, target.wrapping_add(at));
                }
            }
        }
    }

    /// # Safety
    /// There must be as many values, and room for them.
    unsafe fn copy(&self, view: View, len: usize, target: *mut u8) {
        if view.start == target.cast_const() {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            match (view.is_scalar && len > 1, self.size) {
                (false, size) => std::ptr::copy_nonoverlapping(view.start, target, len * size),
                (true, 8) => slice_mut::<u64>(target, len).fill(view.start.cast::<u64>().read()),
                (true, _) => slice_mut::<u32>(target, len).fill(view.start.cast::<u32>().read()),
            }
        }
    }
}
