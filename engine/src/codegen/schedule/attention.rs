//! Attention whose queries have keys of their own, or share them with few others: one block per row of scores.
//!
//! Teams of neighbouring threads divide the keys. Each team multiplies keys with the query, which lies in shared memory
//! like the scores. The row body then turns the scores into weights in place. Teams divide the values as well,
//! and each accumulates partial sums, which are added up at the end. Only the result is written to global memory.

use crate::codegen::error::CodegenError;
use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::vector_group;
use crate::codegen::schedule::attention_blocked;
use crate::codegen::schedule::attention_parts::{AttentionInParts, n_parts};
use crate::codegen::schedule::row::Row;
use crate::codegen::schedule::row_exchange::n_shared_words;
use crate::codegen::schedule::row_plan::RowPlan;
use crate::codegen::schedule::source::SourceForm;
use crate::codegen::schedule::tensor_core;
use crate::device_model::DeviceModel;
use crate::fusion::{Access, AttentionBody, Class, FusedBody, FusedInst, FusedOp, Kernel, MAX_DEPTH, Work};
use crate::ir::DType;

/// Most queries that share the keys of a kernel with one block per row. For more, two matmuls are faster (decision 019).
pub const MOST_QUERIES: usize = 8;
/// Warps of a block, and of a block of a long row, if they fit.
const PLANES: usize = 8;
const PLANES_OF_LONG: usize = 16;
/// The fewest keys of a long row. The loads of more warps hide latency.
const LONG_ROW: usize = 512;
/// Most elements of a row of scores per thread that stay in registers; longer rows are read again in each pass.
const MOST_HELD: usize = 16;
/// Alignment of the parts of shared memory, in words, so that no vector load crosses a border.
const ALIGNED: usize = 4;
/// Words of the longest query, of the partial sums of the widest values, and of the exchange between the threads
/// of a row.
const WORDS_BESIDE_SCORES: usize = (1 + PLANES) * MAX_DEPTH + 512;

/// The most keys of a query: their scores share a block's shared memory with the other parts. 0 on devices without
/// warp shuffles.
pub fn most_keys(device: &DeviceModel) -> usize {
    if device.plane == 1 { 0 } else { (device.shared_bytes / 4).saturating_sub(WORDS_BESIDE_SCORES) }
}

/// An attention kernel with one block per row of scores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionByBlock {
    pub(super) m: usize,
    /// Keys of a block.
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) width: usize,
    /// Blocks of a row, which divide its keys evenly.
    pub(super) parts: usize,
    /// Warps of a block.
    pub(super) planes: usize,
    pub(super) query: SourceForm,
    pub(super) key: SourceForm,
    pub(super) value: SourceForm,
    pub(super) end: FusedBody,
}

/// The operand number of a row of scores, which lies in shared memory and is indexed by position.
fn scores(kernel: &Kernel) -> usize {
    kernel.operands.len()
}

/// The launches of an attention kernel: on tensor cores where many queries share their keys, else one block per row of
/// scores or, with few rows, per part of a row.
///
/// # Errors
/// If the kernel takes too much shared memory or computes in double precision.
pub fn launches(
    kernel: &Kernel,
    body: &AttentionBody,
    device: DeviceModel,
) -> Result<Vec<KernelSpec>, CodegenError> {
    let AttentionBody { m, n, k, width, .. } = *body;
    let of_many = |launch: fn(&Kernel, &AttentionBody, DeviceModel) -> Option<KernelSpec>| {
        if m > MOST_QUERIES { launch(kernel, body, device) } else { None }
    };
    let of_many = of_many(tensor_core::attention::launch).or_else(|| of_many(attention_blocked::launch));
    if let Some(launch) = of_many {
        return Ok(vec![launch]);
    }
    let form = AttentionByBlock {
        m,
        n,
        k,
        width,
        parts: 1,
        planes: PLANES,
        query: (&body.query).into(),
        key: (&body.key).into(),
        value: (&body.value).into(),
        end: body.end.clone(),
    };
    let scores_body = over_scores(body, scores(kernel));
    // 64-bit indices are allowed: they stay in registers.
    let is_double =
        body.bodies().into_iter().any(|part| part.insts.iter().any(|inst| inst.dtype == DType::F64));
    if is_double || width > MAX_DEPTH || device.plane == 1 {
        return Err(CodegenError::Attend);
    }
    let parts = n_parts(body.batch * m, n, &device).filter(|&parts| parts > 1);
    let parts = parts.and_then(|parts| AttentionInParts::of(body, parts, kernel.operands.len()));
    if let Some(launches) = parts.and_then(|parts| in_parts(kernel, &form, parts, device)) {
        return Ok(launches);
    }
    let form = form.fitted(&scores_body, device).ok_or(CodegenError::Attend)?;
    Ok(vec![KernelSpec::new(scores_body, form, OperandForm::of(kernel), device)])
}

/// A launch with a block for each part of a row, and one that joins the parts; none if a block has no room for a part.
fn in_parts(
    kernel: &Kernel,
    form: &AttentionByBlock,
    bodies: AttentionInParts,
    device: DeviceModel,
) -> Option<Vec<KernelSpec>> {
    let AttentionInParts { parts, rows, sums, joined, n_elements } = bodies;
    let form = AttentionByBlock { n: form.n / parts, parts, end: sums, ..form.clone() };
    let form = form.fitted(&rows, device)?;
    let mut operands = OperandForm::of(kernel);
    let workspace = OperandForm::workspace(0, n_elements, DType::F32);
    operands.push(workspace);
    let first = KernelSpec::new(rows, form, operands.clone(), device);
    let read = operands.len() - 1;
    operands[read] = OperandForm { is_written: false, may_share: false, ..workspace };
    Some(vec![first, KernelSpec::of_used_operands(joined, Row, operands, device)])
}

/// The row body, which reads scores from shared memory and overwrites them by weights.
fn over_scores(body: &AttentionBody, scores: usize) -> FusedBody {
    let domain = body.rows.domain;
    let by_position = || Access::strided(&[domain.outer, domain.row], &[0, 1]);
    let mut insts: Vec<FusedInst> = body.rows.insts.clone();
    for inst in &mut insts {
        if inst.op == FusedOp::Accumulator {
            inst.op = FusedOp::Load { operand: scores, access: by_position(), index: None };
            // Scores are stored in the accumulator type.
            inst.dtype = inst.dtype.accumulator();
        }
    }
    let store = FusedOp::Store { operand: scores, access: by_position(), value: body.weight, index: None };
    insts.push(FusedInst { op: store, dtype: DType::F32, class: Class::Element });
    FusedBody { domain, insts }
}

/// The parts of shared memory, in words: scores, the query, the warps' partial sums, and the exchange between the
/// threads of a row.
pub(super) struct Layout {
    pub(super) query: usize,
    pub(super) sums: usize,
    pub(super) exchange: usize,
    pub(super) n_words: usize,
}

impl AttentionByBlock {
    /// The vector width of an operand that only keys or only values access; else 1.
    pub(super) fn width_of_operand(&self, rows: &FusedBody, operand: usize) -> usize {
        let width_of = |(body, length): (&FusedBody, usize)| {
            vector_group::shared_width(body, operand, vector_group::width(body, length))
        };
        let is_access = |inst: &FusedInst| match inst.op {
            FusedOp::Load { operand: used, .. } | FusedOp::Store { operand: used, .. } => used == operand,
            _ => false,
        };
        let is_read = |body: &FusedBody| body.insts.iter().any(is_access);
        let (keys, values) = ((&self.key.body, self.k), (&self.value.body, self.width));
        let others = [&self.query.body, &self.end, rows].into_iter().any(is_read);
        match [keys, values].map(|(body, _)| is_read(body)) {
            [true, false] if !others => width_of(keys),
            [false, true] if !others => width_of(values),
            _ => 1,
        }
    }

    /// The form with as many warps as suit its keys, if a block with this body over rows fits into an SM.
    pub(super) fn fitted(self, rows: &FusedBody, device: DeviceModel) -> Option<AttentionByBlock> {
        let has_room = |form: &AttentionByBlock| {
            4 * form.layout(rows, device).n_words <= device.shared_bytes
                && form.n_threads(device) <= device.most_threads
        };
        let wide = (self.n >= LONG_ROW).then(|| AttentionByBlock { planes: PLANES_OF_LONG, ..self.clone() });
        wide.filter(has_room).or_else(|| Some(self).filter(has_room))
    }

    /// Threads of a block.
    pub(super) fn n_threads(&self, device: DeviceModel) -> usize {
        self.planes * device.plane
    }

    pub(super) fn layout(&self, rows: &FusedBody, device: DeviceModel) -> Layout {
        let query = self.n.next_multiple_of(ALIGNED);
        let sums = (query + self.k).next_multiple_of(ALIGNED);
        let exchange = (sums + self.planes * self.width).next_multiple_of(ALIGNED);
        let n_exchanged = n_shared_words(rows, self.plan(device), device).map_or(0, |(_, n_words)| n_words);
        Layout { query, sums, exchange, n_words: exchange + n_exchanged }
    }

    pub(super) fn plan(&self, device: DeviceModel) -> RowPlan {
        let n_each = self.n.div_ceil(self.n_threads(device));
        let groups = (n_each <= MOST_HELD).then_some(n_each);
        RowPlan { threads: self.n_threads(device), rows: 1, width: 1, groups, is_across: false }
    }
}
