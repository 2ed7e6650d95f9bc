//! Folds of rows behind a product on tensor cores: a block holds some rows and walks over all tiles of columns.
//!
//! The scores of a tile stay in the registers of `wgmma`. The epilogue is the body that every kernel has, at pairs of
//! neighbours. Where rows of the left matrix are short, they stay in shared memory for all tiles, and the ring has tiles
//! of the right matrix alone. Where there are few rows, the columns are cut into pieces, whose states another launch merges.

use super::fold_shape::TensorCoreFold;
use super::score_fold::{PAIR, ScoreFold};
use super::{BESIDE_RING, N_MULTIPLIERS, ResultTile, TensorCoreMatmul, WARPGROUP};
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::vector_group::{Group, width};
use crate::codegen::schedule::by_column::by_column;
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::matmul_fold::Fold;
use crate::codegen::tensor_map::Frame;
use crate::device_model::{DeviceModel, TensorCores};
use crate::fusion::{Class, FusedInst, FusedOp, Kernel};
use crate::numerics::Precision;
use cubecl_core::ir::Variable;

impl Schedule for TensorCoreFold {
    fn entry(&self) -> &'static str {
        "fold"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        (N_MULTIPLIERS + 1) * WARPGROUP
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.product.n_blocks
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        let [batch, m, ..] = self.product.extents;
        batch * m * self.n_pieces()
    }

    fn allows_fast_math(&self, _: &KernelSpec) -> bool {
        true
    }

    fn writes_tensors(&self) -> bool {
        self.states.is_none()
    }

    fn frame(&self) -> Option<Frame> {
        let frame = self.product.frame()?;
        let shared_bytes = self.n_stages * self.stage_bytes() + self.n_kept * self.rows_bytes() + BESIDE_RING;
        Some(Frame { shared_bytes, ..frame })
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        code.lines(&(self.setup() + &self.copier() + &self.multiplier()));
        let behind = self.fold.begin(code, self.scores());
        code.lines(&(self.tiles() + &self.multiply()));
        self.epilogue(code, kernel)?;
        if let Some(score) = behind {
            self.cover(code, score);
        }
        let results = self.results.iter();
        let results: Vec<_> =
            results.map(|&(to, dtype)| (kernel.buffers.operands[to].clone(), dtype)).collect();
        self.fold.take(code, self.scores(), &results);
        code.lines(&format!("}}\n{}", self.free_kept()));
        let states = self.states.map(|states| kernel.buffers.operands[states].array);
        self.fold.finish(code, self.scores(), &results, states);
        // The ends of the loop over units and of the branch.
        code.lines("}\n}\n");
        Ok(())
    }
}

impl TensorCoreFold {
    /// Emits the epilogue at all pairs, which replaces sums by scores.
    fn epilogue(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let insts = &body.body.insts;
        if insts[self.value].op == FusedOp::Accumulator {
            return Ok(());
        }
        let [_, m, n, _] = self.product.extents;
        let width = width(body.body, n).min(PAIR);
        code.lines(&self.pairs());
        // Rows and columns behind the last are computed as the last ones, and count for nothing.
        let ResultTile { rows, columns } = self.product.tile;
        let row = format!("z * {m} + {}", within("row", m, (rows, 1)));
        let row = code.expression(code.index, row);
        let mut base = vec![None; insts.len()];
        let of_rows = (0..insts.len()).filter(|&reg| insts[reg].class != Class::Element);
        body.run(code, of_rows, row, &mut base)?;
        let is_computed = |inst: &FusedInst| !matches!(inst.op, FusedOp::Accumulator | FusedOp::Fold { .. });
        for first in (0..PAIR).step_by(width) {
            let column = within(&format!("column + {first}"), n, (columns, width));
            let column = code.expression(code.index, column);
            let point = self.point(code, row, column);
            let group = Group::from(code, point, width);
            let mut registers = vec![base.clone(); width];
            for (e, registers) in registers.iter_mut().enumerate() {
                let sum = code.expression(F32, sum(first + e));
                let of_sums = insts.iter().zip(&mut *registers);
                of_sums
                    .filter(|(inst, _)| inst.op == FusedOp::Accumulator)
                    .for_each(|(_, reg)| *reg = Some(sum));
            }
            let elements = (0..insts.len())
                .filter(|&reg| insts[reg].class == Class::Element && is_computed(&insts[reg]));
            body.run_group(code, elements, &group, &mut registers)?;
            for (e, registers) in registers.iter().enumerate() {
                let value = registers[self.value];
                let value = value.unwrap_or_else(|| crate::bug!("the folded register is not computed"));
                let value = code.named(value);
                code.line(format_args!("{} = {value};", sum(first + e)));
            }
        }
        code.line("}");
        Ok(())
    }

    /// The number of a point.
    fn point(&self, code: &mut Code, row: Variable, column: Variable) -> Variable {
        if self.is_by_column {
            return column;
        }
        let n = self.product.extents[2];
        let start = code.scaled(row, n as i64);
        let point = code.add_at(start, column);
        code.note_place(point, n, row, column);
        point
    }

    /// Emits that columns behind the last have a score that no other is behind.
    fn cover(&self, code: &mut Code, score: Variable) {
        let (n, columns) = (self.product.extents[2], self.product.tile.columns);
        if n.is_multiple_of(columns) {
            return;
        }
        let score = code.named(score);
        let text = format!(
            "\
if (first_column + {columns} > {n}) {{
{pairs}\
#pragma unroll
for (int e = 0; e < {PAIR}; e++)
if (column + e >= {n}) sums[i][4 * j + 2 * half + e] = {score};
}}
}}
",
            pairs = self.pairs()
        );
        code.lines(&text);
    }
}

/// A place along an axis, of some neighbours that lie within its extent; tiles may exceed it.
fn within(place: &str, extent: usize, (tile, n_neighbours): (usize, usize)) -> String {
    match extent.is_multiple_of(tile) {
        true => place.to_string(),
        false => format!("min({place}, {}u)", extent - n_neighbours),
    }
}

/// An element of a pair.
fn sum(e: usize) -> String {
    format!("sums[i][4 * j + 2 * half + {e}]")
}

impl KernelSpec {
    /// The launches of a matmul whose rows are folded on tensor cores, without side sums: the fold, and the merge of pieces if
    /// there are several. None if tensor cores cannot read its matrices, or registers do not hold the state of its fold.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn fold_on_tensor_cores(
        kernel: &Kernel,
        precision: Precision,
        tile: ResultTile,
        device: DeviceModel,
    ) -> Option<Vec<KernelSpec>> {
        let body = matmul_body(kernel);
        let rows = body.rows.as_deref()?;
        let score_fold = ScoreFold::of(&rows.consumer, &device)?;
        if kernel.has_checks() {
            return None;
        }
        // The threads of warps have no registers for the states of four rows beside the largest tiles.
        let has_registers = device.tensor_cores == Some(TensorCores::Warpgroups)
            || !tile.is_largest()
            || !score_fold.has_states();
        if !has_registers || !score_fold.fits(tile.columns) {
            return None;
        }
        let by_column = by_column(&body.epilogue);
        let fold = TensorCoreFold {
            product: TensorCoreMatmul::of_any(body, precision, tile, &device)?,
            n_stages: 0,
            n_kept: 0,
            tiles_of_piece: 0,
            fold: score_fold,
            value: body.epilogue.folded()?,
            is_by_column: by_column.is_some(),
            results: rows.results.iter().map(|&to| (to, kernel.operands[to].ty.dtype)).collect(),
            states: None,
        };
        let fold = fold.over(kernel, &device)?;
        let mut operands = OperandForm::of(kernel);
        let mut merge = None;
        if fold.states.is_some() {
            let parts = Fold::new(kernel, body, rows, &device).ok()?;
            let (n_rows, n_pieces) = (body.batch * body.m, fold.n_pieces());
            operands.push(parts.states(n_rows * n_pieces));
            merge = Some(parts.merge(n_rows, n_pieces));
        }
        let body = by_column.unwrap_or_else(|| body.epilogue.clone());
        Some([KernelSpec::new(body, fold, operands, device)].into_iter().chain(merge).collect())
    }
}
