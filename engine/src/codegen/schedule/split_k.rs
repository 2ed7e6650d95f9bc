//! Split-K: blocked matmuls whose contracted axis is cut into parts. Without it, a result of few tiles with long
//! sums would leave most of a GPU idle. The parts are computed as a batch of matmuls, and the epilogue adds them
//! up in order.

use crate::codegen::analysis::operands::with_registers;
use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::{Argument, OperandForm};
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::map::Map;
use crate::codegen::schedule::matmul_blocked::{DEPTH, MOST_EACH, MatmulBlocked, SIDE, fitting};
use crate::codegen::schedule::matmul_point::ProductForm;
use crate::codegen::types::LARGEST_NARROW;
use crate::device_model::DeviceModel;
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, MatmulBody, MatrixOperand, Reg,
};
use crate::ir::{Binary, DType, Scalar};
use std::fmt;

/// The tile shape and the split of a blocked matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitK {
    /// Points of a thread along each axis of the result.
    each: [usize; 2],
    /// Parts of the contracted axis.
    parts: usize,
}

/// `8x4, split 16`
impl fmt::Display for SplitK {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitK { each: [rows, columns], parts } = self;
        write!(f, "{rows}x{columns}, split {parts}")
    }
}

/// Tiles that fill a GPU; with fewer of them, smaller tiles or more parts are faster.
const ENOUGH_TILES: usize = 128;
/// The fewest points for which a blocked matmul is faster.
const FEWEST_POINTS: usize = 1 << 14;
/// The shortest part of the contracted axis.
const SHORTEST_PART: usize = 128;
/// The shortest part for a library, which is faster at long sums.
const SHORTEST_LIBRARY_PART: usize = 256;
/// The approximate side of a library's tiles.
const LIBRARY_TILE: usize = 128;
/// The most elements of all parts in the workspace.
const MOST_PART_ELEMENTS: usize = 1 << 24;

/// The candidate splits of a blocked matmul, the most promising first; none if another schedule is faster.
pub fn splits(body: &MatmulBody, device: DeviceModel) -> Vec<SplitK> {
    splits_in(body, device, &allowed_parts(body, device))
}

/// The most promising tiles of a blocked matmul that is one launch.
pub fn whole(body: &MatmulBody, device: DeviceModel) -> Option<SplitK> {
    splits_in(body, device, &[1]).first().copied()
}

/// The candidates with these numbers of parts, in rising order.
fn splits_in(body: &MatmulBody, device: DeviceModel, parts: &[usize]) -> Vec<SplitK> {
    let &MatmulBody { batch, m, n, k, dtype, .. } = body;
    let shortest = if device.library.is_some() { DEPTH } else { DEPTH / 2 };
    if k < shortest || m.min(n) < SIDE / 2 {
        return vec![];
    }
    // A thread cannot hold eight by eight accumulators of 64 bits in registers.
    let widest = if dtype.accumulator().size() > 4 { MOST_EACH / 2 } else { MOST_EACH };
    let n_tiles = |[rows, columns]: [usize; 2]| m.div_ceil(SIDE * rows) * n.div_ceil(SIDE * columns) * batch;
    let mut splits = vec![];
    // Tiles larger than the result would waste threads.
    let needed = [m, n].map(|extent| extent.div_ceil(SIDE).next_power_of_two());
    let mut shapes = [8, 4, 2, 1].map(|each| needed.map(|most| most.min(each))).to_vec();
    shapes.dedup();
    let fitted = [fitting(m).min(needed[0]), fitting(n).min(needed[1])];
    let rectangle = (!shapes.contains(&fitted)).then_some(fitted);
    for each in shapes.into_iter().chain(rectangle).filter(|each| each[0].max(each[1]) <= widest) {
        let fills = |&parts: &usize| n_tiles(each) * parts >= ENOUGH_TILES;
        let first = parts.iter().position(fills);
        let filling = parts[first.unwrap_or(parts.len() - 1)..].iter().take(3);
        splits.extend(filling.map(|&parts| SplitK { each, parts }));
    }
    let fills = |split: &SplitK| n_tiles(split.each) * split.parts >= ENOUGH_TILES;
    // Splits that fill the GPU keep their order. The others follow in reverse, with the smallest and most numerous
    // tiles first.
    let (mut filling, mut others): (Vec<SplitK>, Vec<SplitK>) = splits.into_iter().partition(fills);
    others.reverse();
    filling.extend(others);
    filling.retain(|split| batch * m * n * split.parts >= FEWEST_POINTS);
    filling
}

/// The allowed numbers of parts, in rising order.
fn allowed_parts(body: &MatmulBody, device: DeviceModel) -> Vec<usize> {
    let &MatmulBody { batch, m, n, k, dtype, .. } = body;
    let is_checked = body.epilogue.has_checks();
    // A library computes long sums where there is one. Assertions must run before the first part is written.
    let is_whole = device.library.is_some() || batch != 1 || is_checked || dtype.accumulator().size() != 4;
    let is_allowed = |&parts: &usize| {
        k.is_multiple_of(parts) && k / parts >= SHORTEST_PART && parts * m * n <= MOST_PART_ELEMENTS
    };
    let more = [2, 4, 8, 16, 32, 64].into_iter().filter(is_allowed).take(if is_whole { 0 } else { 6 });
    [1].into_iter().chain(more).collect()
}

/// The launches of a split matmul, without side sums.
pub fn launches(kernel: &Kernel, body: &MatmulBody, split: SplitK, device: DeviceModel) -> Vec<KernelSpec> {
    let product = ProductForm::of(body);
    if split.parts == 1 {
        let schedule = MatmulBlocked { product, n_batches: body.batch, each: split.each };
        return vec![KernelSpec::new(body.epilogue.clone(), schedule, OperandForm::of(kernel), device)];
    }
    vec![parts(kernel, body, split, device), sum_of_parts(kernel, body, split.parts, device)]
}

/// The parts of a matmul, as a batch of shorter ones.
fn in_parts(body: &MatmulBody, parts: usize) -> MatmulBody {
    let length = body.k / parts;
    let part_of =
        |matrix: MatrixOperand, stride: i64| MatrixOperand { batch: stride * length as i64, ..matrix };
    let (lhs, rhs) = (part_of(body.lhs, body.lhs.col), part_of(body.rhs, body.rhs.row));
    MatmulBody { batch: parts, k: length, lhs, rhs, ..body.clone() }
}

/// The launch that writes the partial sums to the workspace, part by part.
fn parts(
    kernel: &Kernel,
    body: &MatmulBody,
    SplitK { each, parts }: SplitK,
    device: DeviceModel,
) -> KernelSpec {
    let &MatmulBody { m, n, lhs, rhs, dtype, .. } = body;
    let product = ProductForm::of(&in_parts(body, parts));
    let named = |matrix: MatrixOperand, operand: usize| MatrixOperand { operand, ..matrix };
    let product = ProductForm { lhs: named(product.lhs, 0), rhs: named(product.rhs, 1), ..product };
    let n_points = parts * m * n;
    let inst = |op: FusedOp| FusedInst { op, dtype: dtype.accumulator(), class: Class::Element };
    let store =
        FusedOp::Store { operand: 2, access: Access::strided(&[n_points], &[1]), value: 0, index: None };
    let sums = FusedBody {
        domain: Domain { outer: parts * m, row: n, inner: 1 },
        insts: vec![inst(FusedOp::Accumulator), inst(store)],
    };
    let of_kernel = OperandForm::of(kernel);
    let operands = vec![
        of_kernel[lhs.operand],
        of_kernel[rhs.operand],
        parts_operand(dtype.accumulator(), n_points, true),
    ];
    KernelSpec::new(sums, MatmulBlocked { product, n_batches: parts, each }, operands, device)
}

/// The launch that adds up the parts and runs the epilogue.
fn sum_of_parts(kernel: &Kernel, body: &MatmulBody, parts: usize, device: DeviceModel) -> KernelSpec {
    let mut operands = OperandForm::of(kernel);
    let (domain, dtype) = (body.epilogue.domain, body.dtype.accumulator());
    let n_points = domain.points(Class::Element);
    let inst = |op: FusedOp| FusedInst { op, dtype, class: Class::Element };
    let load = |part: usize| {
        let mut access = Access::strided(&[n_points], &[1]);
        access.levels[0].offset = (part * n_points) as i64;
        inst(FusedOp::Load { operand: operands.len(), access, index: None })
    };
    let mut insts = vec![load(0)];
    for part in 1..parts {
        let total = insts.len() - 1;
        insts.push(load(part));
        let args = vec![total, total + 1];
        insts.push(inst(FusedOp::Scalar(Scalar::Binary(Binary::Add), args)));
    }
    let n_own = insts.len();
    let is_sum = |reg: Reg| body.epilogue.insts[reg].op == FusedOp::Accumulator;
    // A copy replaces each accumulator, so that registers keep their distances.
    let renamed = |reg: Reg| if is_sum(reg) { n_own - 1 } else { reg + n_own };
    insts.extend(body.epilogue.insts.iter().map(|epilogue| match &epilogue.op {
        FusedOp::Accumulator => inst(FusedOp::Scalar(Scalar::Cast(dtype), vec![n_own - 1])),
        op => FusedInst { op: with_registers(op, renamed), ..epilogue.clone() },
    }));
    operands.push(parts_operand(dtype, parts * n_points, false));
    KernelSpec::of_used_operands(FusedBody { domain, insts }, Map, operands, device)
}

/// The operand of the partial sums, in the workspace.
fn parts_operand(dtype: DType, n: usize, is_written: bool) -> OperandForm {
    OperandForm {
        argument: Argument::Workspace { start: 0, bytes: n * dtype.size() },
        dtype,
        is_written,
        is_empty: false,
        is_wide: n > LARGEST_NARROW,
        may_share: false,
        is_atomic: false,
        as_bits: false,
    }
}

impl KernelSpec {
    /// The candidate splits of a kernel, the most promising first; none if another schedule is faster.
    pub fn splits(kernel: &Kernel, device: DeviceModel) -> Vec<SplitK> {
        match &kernel.body {
            KernelBody::Matmul(body) if body.rows.is_none() => splits(body, device),
            _ => vec![],
        }
    }

    /// The numbers of parts worth timing with a library, in rising order: for long sums whose result has fewer
    /// tiles than the GPU has SMs. None if an assertion must run before the first write.
    pub fn library_splits(kernel: &Kernel, device: DeviceModel) -> Vec<usize> {
        let KernelBody::Matmul(body) = &kernel.body else { return vec![] };
        let &MatmulBody { batch, m, n, k, dtype, .. } = body;
        let n_tiles = m.div_ceil(LIBRARY_TILE) * n.div_ceil(LIBRARY_TILE);
        if body.rows.is_some() || batch != 1 || kernel.has_checks() || dtype.accumulator() != DType::F32 {
            return vec![];
        }
        let is_worth_it = |&parts: &usize| {
            let is_long = k.is_multiple_of(parts) && k / parts >= SHORTEST_LIBRARY_PART;
            is_long && n_tiles * parts < 4 * device.n_processors && parts * m * n <= MOST_PART_ELEMENTS
        };
        [4, 8, 16, 32].into_iter().filter(is_worth_it).collect()
    }

    /// The parts of a matmul as a batch for a library, and the launch that adds up their results in the workspace.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn split_for_library(kernel: &Kernel, device: DeviceModel, parts: usize) -> (MatmulBody, KernelSpec) {
        let body = matmul_body(kernel);
        (in_parts(body, parts), sum_of_parts(kernel, body, parts, device))
    }

    /// The launches of a split matmul, without side sums.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn split_k_product(kernel: &Kernel, device: DeviceModel, split: SplitK) -> Vec<KernelSpec> {
        launches(kernel, matmul_body(kernel), split, device)
    }
}
