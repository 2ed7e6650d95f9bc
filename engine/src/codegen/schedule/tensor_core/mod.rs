//! Matmuls on tensor cores: persistent blocks of three warpgroups, of which one copies tiles and two multiply.
//!
//! - The copying warpgroup keeps a ring of tiles in shared memory full. The copy engine reads them by tensor maps.
//! - Each other warpgroup holds half of the rows of the result's tile in registers, and multiplies by `wgmma`.
//! - The epilogue runs on these registers: four threads exchange theirs so that each has eight neighbours in a row.
//!
//! The frame is text, made in `frame`. The epilogue is the body that every kernel has, emitted into the frame.

pub mod attention;
pub mod attention_gradient;
mod cores;
mod fold;
mod fold_frame;
mod fold_shape;
mod frame;
mod preload;
mod score_fold;
mod side;
mod terms;

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::ir::ptx::WarpgroupProduct;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::vector_group::{Group, width};
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::map::group_with_registers;
use crate::codegen::schedule::matmul_point::ProductForm;
use crate::codegen::tensor_map::Frame;
use crate::device_model::{DeviceModel, TensorCores};
use crate::fusion::{FusedInst, FusedOp, Kernel, MatmulBody};
use crate::ir::DType;
use crate::numerics::Precision;
use cubecl_core::ir::Variable;
use preload::Preloads;
use side::Side;
use std::fmt;

/// Warpgroups that multiply.
const N_MULTIPLIERS: usize = 2;
/// Threads of a warpgroup.
const WARPGROUP: usize = 128;
/// Rows of a `wgmma`.
const ROWS: usize = 64;
/// Bytes of a tile along the contracted axis: a row of the swizzle.
const LINE_BYTES: usize = 128;
/// Neighbouring columns of a thread in the epilogue.
const NEIGHBOURS: usize = 8;
/// The most stages of the ring.
const MOST_STAGES: usize = 6;
/// Terms of a factor in `f32`.
const N_TERMS: usize = 3;
/// Bytes of shared memory beside the ring: its alignment, and the barriers.
const BESIDE_RING: usize = 2048;

/// A tile of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResultTile {
    /// Rows, a multiple of 128.
    pub rows: usize,
    /// Columns, a multiple of 32 up to 256.
    pub columns: usize,
}

impl ResultTile {
    /// All tiles, the one with the fewest loads per product first.
    pub const ALL: [ResultTile; 3] = [
        ResultTile { rows: 128, columns: 256 },
        ResultTile { rows: 256, columns: 128 },
        ResultTile { rows: 128, columns: 128 },
    ];

    /// Those of warps. A warp reads the right matrix for its 16 rows, or for 32 in a tile of 256 rows, so wide tiles of 128 rows
    /// would read too much.
    const OF_WARPS: [ResultTile; 3] = [
        ResultTile { rows: 256, columns: 128 },
        ResultTile { rows: 256, columns: 64 },
        ResultTile { rows: 128, columns: 128 },
    ];

    /// The tiles to try on a kind of tensor cores.
    pub fn of(cores: TensorCores) -> &'static [ResultTile] {
        match cores {
            TensorCores::Warps => &ResultTile::OF_WARPS,
            TensorCores::Warpgroups => &ResultTile::ALL,
        }
    }

    /// Whether a thread holds 128 sums.
    fn is_largest(self) -> bool {
        self.rows * self.columns == 256 * 128
    }
}

impl fmt::Display for ResultTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

/// A matmul on tensor cores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorCoreMatmul {
    /// Number of matrices, rows and columns of the result, and extent of the contracted axis.
    extents: [usize; 4],
    dtype: DType,
    cores: TensorCores,
    /// The left and the right matrix.
    sides: [Side; 2],
    tile: ResultTile,
    n_stages: usize,
    n_blocks: usize,
    /// The product in `f32` whose factors the sides hold in terms.
    exact: Option<ProductForm>,
}

impl TensorCoreMatmul {
    /// The schedule of a product that is stored; none if tensor cores cannot read its matrices.
    fn of(
        body: &MatmulBody,
        precision: Precision,
        tile: ResultTile,
        device: &DeviceModel,
    ) -> Option<TensorCoreMatmul> {
        let is_stored = body.rows.is_none() && body.n.is_multiple_of(NEIGHBOURS);
        // The threads of warps have no registers left for the end of the largest tiles.
        let has_registers = device.tensor_cores == Some(TensorCores::Warpgroups) || !tile.is_largest();
        if is_stored && has_registers {
            TensorCoreMatmul::of_any(body, precision, tile, device)
        } else {
            None
        }
    }

    /// The schedule of a product, for every use of its sums.
    fn of_any(
        body: &MatmulBody,
        precision: Precision,
        tile: ResultTile,
        device: &DeviceModel,
    ) -> Option<TensorCoreMatmul> {
        let &MatmulBody { batch, m, n, k, dtype, lhs, rhs, .. } = body;
        let has_type = matches!(dtype, DType::F16 | DType::BF16)
            || (dtype == DType::F32 && precision == Precision::Tf32);
        let is_empty = [batch, m, n, k].contains(&0);
        let is_even = body.uneven == [None, None];
        let cores = device.tensor_cores?;
        if !has_type || is_empty || !is_even {
            return None;
        }
        let lines = [(lhs, [lhs.row, lhs.col], m), (rhs, [rhs.col, rhs.row], n)];
        let [left, right] =
            lines.map(|(matrix, strides, extent)| Side::of(matrix, strides, [extent, k], batch, dtype));
        let n_tiles = batch * m.div_ceil(tile.rows) * n.div_ceil(tile.columns);
        let schedule = TensorCoreMatmul {
            extents: [batch, m, n, k],
            dtype,
            cores,
            sides: [left?, right?],
            tile,
            n_stages: 0,
            n_blocks: n_tiles.min(device.n_processors),
            exact: None,
        };
        schedule.with_ring(device)
    }

    /// The schedule with as many stages as fit into shared memory; none if there is only one.
    fn with_ring(self, device: &DeviceModel) -> Option<TensorCoreMatmul> {
        let n_bytes = device.double_buffer_bytes.saturating_sub(BESIDE_RING);
        let n_stages = (n_bytes / self.stage_bytes()).min(MOST_STAGES);
        (n_stages >= 2).then_some(TensorCoreMatmul { n_stages, ..self })
    }

    /// The product in `f32` whose factors in terms this product multiplies.
    fn in_terms(self, exact: ProductForm, device: &DeviceModel) -> Option<TensorCoreMatmul> {
        let sides = self.sides.map(|side| side.stacked(N_TERMS));
        TensorCoreMatmul { sides, exact: Some(exact), ..self }.with_ring(device)
    }

    /// Terms of a factor.
    fn n_terms(&self) -> usize {
        if self.exact.is_some() { N_TERMS } else { 1 }
    }

    fn product(&self) -> WarpgroupProduct {
        let is_along = self.sides.each_ref().map(|side| side.is_along);
        // Warps read the right matrix once for all parts.
        let n_parts = if self.cores.is_asynchronous() { 1 } else { self.n_parts() };
        let (columns, dtype) = (self.tile.columns, self.dtype);
        WarpgroupProduct { n_parts, columns, dtype, is_along, from_registers: false }
    }

    /// Rows of the two matrices in a tile.
    fn lines(&self) -> [usize; 2] {
        [self.tile.rows, self.tile.columns]
    }

    /// Steps of 64 rows that a warpgroup holds.
    fn n_parts(&self) -> usize {
        self.tile.rows / ROWS / N_MULTIPLIERS
    }

    /// Elements of a tile along the contracted axis.
    fn depth(&self) -> usize {
        LINE_BYTES / self.dtype.size()
    }
}

impl Schedule for TensorCoreMatmul {
    fn entry(&self) -> &'static str {
        "matmul"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        (N_MULTIPLIERS + 1) * WARPGROUP
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.n_blocks
    }

    fn allows_fast_math(&self, _: &KernelSpec) -> bool {
        true
    }

    fn frame(&self) -> Option<Frame> {
        let maps = self.sides.iter().zip(self.lines()).map(|(side, lines)| side.map(lines, self.depth()));
        Some(Frame {
            cores: self.cores,
            maps: maps.collect(),
            shared_bytes: self.ring_bytes() + BESIDE_RING,
            products: vec![self.product()],
        })
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (body, n) = (kernel.body(), self.extents[2]);
        let width = width(body.body, n).min(NEIGHBOURS);
        let preloads = match width {
            // Warps have no registers left.
            NEIGHBOURS if self.cores.is_asynchronous() => Preloads::of(&body, width, self.n_groups()),
            _ => Preloads::default(),
        };
        self.begin(code);
        if !preloads.is_empty() {
            preloads.declare(code, self.groups());
            self.at_groups(code, false, |code, place| {
                let point = point(code, n, place);
                preloads.start(code, &body, point);
            });
        }
        self.multiply(code);
        if let Some(exact) = &self.exact {
            self.exact_where_not_finite(code, kernel, exact);
        }
        let mut result = Ok(());
        self.at_groups(code, true, |code, [row, column]| {
            for first in (0..NEIGHBOURS).step_by(width) {
                let column = code.at_offset(column, first);
                let first_point = point(code, n, [row, column]);
                let group = Group::from(code, first_point, width);
                let mut registers: Vec<Registers> =
                    (first..first + width).map(|i| with_sum(code, &body, i)).collect();
                preloads.give(code, &body, &mut registers);
                let emitted = group_with_registers(code, &body, &group, &mut registers);
                result = result.clone().and(emitted);
            }
        });
        self.end(code);
        result
    }
}

/// The number of a point, whose row and column are noted.
fn point(code: &mut Code, n: usize, [row, column]: [Variable; 2]) -> Variable {
    let start = code.scaled(row, n as i64);
    let point = code.add_at(start, column);
    code.note_place(point, n, row, column);
    point
}

/// Emits an end at eight neighbouring points, whose sums are in `part`, at `row` and `column` of matrix `z`. A matrix has
/// so many rows.
fn end_of_group(code: &mut Code, body: &BodyCode, n_rows: usize) -> Result<(), CodegenError> {
    let columns = body.body.domain.row;
    let row = code.expression(code.index, format_args!("z * {n_rows} + row"));
    let column = code.expression(code.index, "column");
    let width = width(body.body, columns).min(NEIGHBOURS);
    for first in (0..NEIGHBOURS).step_by(width) {
        let column = code.at_offset(column, first);
        let first_point = point(code, columns, [row, column]);
        let group = Group::from(code, first_point, width);
        let mut registers: Vec<Registers> = (first..first + width).map(|i| with_sum(code, body, i)).collect();
        group_with_registers(code, body, &group, &mut registers)?;
    }
    Ok(())
}

/// The registers of a point that know its sum alone, element `i` of `part`.
fn with_sum(code: &mut Code, body: &BodyCode, i: usize) -> Registers {
    let sum = code.expression(F32, format_args!("part[{i}]"));
    let is_sum = |inst: &FusedInst| inst.op == FusedOp::Accumulator;
    body.body.insts.iter().map(|inst| is_sum(inst).then_some(sum)).collect()
}

impl KernelSpec {
    /// The matmul as one launch on tensor cores, without side sums; none if they cannot read its matrices, or an
    /// assertion must run before the first write.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn on_tensor_cores(
        kernel: &Kernel,
        precision: Precision,
        tile: ResultTile,
        device: DeviceModel,
    ) -> Option<KernelSpec> {
        let body = matmul_body(kernel);
        if kernel.has_checks() {
            return None;
        }
        let schedule = TensorCoreMatmul::of(body, precision, tile, &device)?;
        Some(KernelSpec::new(body.epilogue.clone(), schedule, OperandForm::of(kernel), device))
    }
}
