//! Products in `f32` on tensor cores: each factor is a sum of three terms in bf16.
//!
//! - A term is the rest that the terms before it leave, rounded to bf16. Three terms hold the 24 bits of an `f32`.
//! - Six of the nine products of terms are added. The other three are below the last bit of an `f32`.
//! - The smaller products of a step come first. Tensor cores round toward zero, so the sums of a step are then added in `f32`.
//! - Infinities, NaN and factors that round to infinity end as sums that are not finite. Those are computed again in `f32`.

use super::{LINE_BYTES, N_MULTIPLIERS, N_TERMS, ROWS, ResultTile, TensorCoreMatmul, WARPGROUP};
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec};
use crate::codegen::operand::OperandForm;
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::map::Map;
use crate::codegen::schedule::matmul_point::ProductForm;
use crate::device_model::{DeviceModel, TensorCores};
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, MatmulBody, MatrixOperand,
};
use crate::ir::{Binary, DType, Scalar};
use crate::numerics::Precision;
use crate::op::gpu::WORKSPACE_ALIGNMENT;

/// Left and right terms of the added products, the smallest products first.
const PRODUCTS: [[usize; 2]; 6] = [[1, 1], [0, 2], [2, 0], [0, 1], [1, 0], [0, 0]];
/// Rows of terms have a multiple of so many elements, as the copy engine demands.
const ALIGNED: usize = 16;

/// The terms of a matrix in the workspace: a dense stack of matrices for each matrix of the batch.
#[derive(Clone, Copy)]
struct Split {
    /// Matrices, and extents across and along memory.
    extents: [usize; 3],
    /// Strides of the matrix in `f32`.
    strides: [i64; 3],
    /// The matrix in `f32`.
    matrix: MatrixOperand,
    /// The first byte of the terms.
    start: usize,
}

impl Split {
    /// The terms of a factor, whose rows and columns are so many; none if neither lie along memory.
    fn of(matrix: MatrixOperand, [rows, columns]: [usize; 2], batch: usize, start: usize) -> Option<Split> {
        if [matrix.offset, matrix.batch, matrix.row, matrix.col].iter().any(|&stride| stride < 0) {
            return None;
        }
        let batch = if matrix.batch == 0 { 1 } else { batch };
        let (across, along, stride) = match [matrix.row, matrix.col] {
            [stride, 1] => (rows, columns, stride),
            [1, stride] => (columns, rows, stride),
            _ => return None,
        };
        let strides = [matrix.batch, stride, 1];
        Some(Split { extents: [batch, across, along], strides, matrix, start })
    }

    /// Elements from row to row of a term.
    fn row(&self) -> usize {
        self.extents[2].next_multiple_of(ALIGNED)
    }

    /// Elements of a term of one matrix.
    fn of_term(&self) -> usize {
        self.extents[1] * self.row()
    }

    fn n_elements(&self) -> usize {
        self.extents[0] * N_TERMS * self.of_term()
    }

    fn end(&self) -> usize {
        (self.start + self.n_elements() * DType::BF16.size()).next_multiple_of(WORKSPACE_ALIGNMENT)
    }

    fn form(&self, is_written: bool) -> OperandForm {
        OperandForm { is_written, ..OperandForm::workspace(self.start, self.n_elements(), DType::BF16) }
    }

    /// The first terms as a matrix of operand `operand`. The matrices of a batch are those of one term.
    fn first_terms(&self, operand: usize) -> MatrixOperand {
        let row = self.row() as i64;
        let [row, col] = if self.matrix.col == 1 { [row, 1] } else { [1, row] };
        let batch = if self.matrix.batch == 0 { 0 } else { (N_TERMS * self.of_term()) as i64 };
        MatrixOperand { operand, offset: 0, batch, row, col }
    }

    /// The launch that writes the terms.
    fn launch(&self, kernel: &Kernel, device: DeviceModel) -> KernelSpec {
        let operands = vec![OperandForm::of(kernel)[self.matrix.operand], self.form(true)];
        let [batch, across, along] = self.extents;
        let inst = |op: FusedOp, dtype: DType| FusedInst { op, dtype, class: Class::Element };
        let access = |offset: usize, strides: [i64; 3]| {
            let mut access = Access::strided(&self.extents, &strides);
            access.levels[0].offset = offset as i64;
            access.normalized()
        };
        let load = FusedOp::Load {
            operand: 0,
            access: access(self.matrix.offset as usize, self.strides),
            index: None,
        };
        let mut insts = vec![inst(load, DType::F32)];
        let (mut rest, mut stores) = (0, vec![]);
        for term in 0..N_TERMS {
            let value = insts.len();
            insts.push(inst(FusedOp::Scalar(Scalar::Cast(DType::BF16), vec![rest]), DType::BF16));
            let strides = [(N_TERMS * self.of_term()) as i64, self.row() as i64, 1];
            let access = access(term * self.of_term(), strides);
            stores.push(inst(FusedOp::Store { operand: 1, access, value, index: None }, DType::BF16));
            if term + 1 < N_TERMS {
                insts.push(inst(FusedOp::Scalar(Scalar::Cast(DType::F32), vec![value]), DType::F32));
                let args = vec![rest, value + 1];
                insts.push(inst(FusedOp::Scalar(Scalar::Binary(Binary::Sub), args), DType::F32));
                rest = value + 2;
            }
        }
        insts.extend(stores);
        let domain = Domain { outer: batch * across, row: along, inner: 1 };
        KernelSpec::new(FusedBody { domain, insts }, Map, operands, device)
    }
}

impl TensorCoreMatmul {
    /// The products of a tile, whose steps are added up in `f32`.
    pub(super) fn multiplier_of_terms(&self) -> String {
        let (n_sums, stage_bytes) = (self.tile.columns / 2, self.stage_bytes());
        let [left, right] = self.lines().map(|lines| lines * LINE_BYTES);
        let product = |(i, [l, r]): (usize, [usize; 2])| {
            let places = [format!("at + {}", l * left), format!("at + {}", N_TERMS * left + r * right)];
            self.products("partial", places.each_ref().map(String::as_str), if i == 0 { "k" } else { "1" })
        };
        let products: String = PRODUCTS.into_iter().enumerate().map(product).collect();
        format!(
            "\
float sums[1][{n_sums}];
#pragma unroll
for (int s = 0; s < {n_sums}; s++) sums[0][s] = 0.0f;
for (unsigned int step = 0; step < {n_steps}; step++) {{
const unsigned int at = ring + stage * {stage_bytes};
float partial[1][{n_sums}];
await_phase(full + 8 * stage, parity);
begin_products();
{products}\
end_products();
await_products<0>();
hold(partial[0]);
{release}\
#pragma unroll
for (int s = 0; s < {n_sums}; s++) sums[0][s] += partial[0][s];
if (++stage == {n_stages}) {{
stage = 0;
parity ^= 1;
}}
}}
",
            n_steps = self.n_steps(),
            n_stages = self.n_stages,
            release = self.cores.release("empty + 8 * stage"),
        )
    }

    /// Emits the products in `f32` of the points whose sums are not finite.
    pub(super) fn exact_where_not_finite(&self, code: &mut Code, kernel: &KernelCode, exact: &ProductForm) {
        let [_, m, n, k] = self.extents;
        let n_sums = self.tile.columns / 2;
        let mut place = |matrix: &MatrixOperand, across: &str, across_stride: i64, along_stride: i64| {
            let array = code.named(kernel.buffers.operands[matrix.operand].array);
            let (offset, batch) = (matrix.offset, matrix.batch);
            format!(
                "{array}[{offset}ull + z * {batch}ull + {across} * {across_stride}ull + p * {along_stride}ull]"
            )
        };
        let (lhs, rhs) = (&exact.lhs, &exact.rhs);
        let (lhs, rhs) = (place(lhs, "row", lhs.row, lhs.col), place(rhs, "column", rhs.col, rhs.row));
        let is_finite = |x: &str| format!("fabsf({x}) <= {:e}f", f32::MAX);
        code.lines(&format!(
            "\
bool are_finite = true;
#pragma unroll
for (int s = 0; s < {n_sums}; s++) are_finite = are_finite && {all};
if (!are_finite) {{
float exact[{n_sums}];
#pragma unroll
for (int s = 0; s < {n_sums}; s++) exact[s] = sums[0][s];
#pragma unroll 1
for (int s = 0; s < {n_sums}; s++) {{
const unsigned int in_group = threadIdx.x % {WARPGROUP};
const unsigned int row = first_row + group * {ROWS} + in_group / 32 * 16 + in_group % 32 / 4 + s / 2 % 2 * 8;
const unsigned int column = first_column + s / 4 * 8 + threadIdx.x % 4 * 2 + s % 2;
if ({one} || row >= {m} || column >= {n}) continue;
float sum = 0.0f;
for (unsigned int p = 0; p < {k} && sum == sum; p++) sum = fmaf({lhs}, {rhs}, sum);
exact[s] = sum;
}}
#pragma unroll
for (int s = 0; s < {n_sums}; s++) sums[0][s] = exact[s];
}}
",
            all = is_finite("sums[0][s]"),
            one = is_finite("exact[s]"),
        ));
    }
}

impl KernelSpec {
    /// A matmul in `f32` on tensor cores, by three terms of each factor: the launches that write the terms, and the product. None
    /// if tensor cores of warpgroups cannot compute it, or an assertion must run before the first write.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn in_terms(kernel: &Kernel, tile: ResultTile, device: DeviceModel) -> Option<Vec<KernelSpec>> {
        let body = matmul_body(kernel);
        let &MatmulBody { batch, m, n, k, dtype, lhs, rhs, .. } = body;
        let is_fit = dtype == DType::F32 && device.tensor_cores == Some(TensorCores::Warpgroups);
        if !is_fit || kernel.has_checks() || tile.rows != N_MULTIPLIERS * ROWS {
            return None;
        }
        let left = Split::of(lhs, [m, k], batch, 0)?;
        let right = Split::of(rhs, [k, n], batch, left.end())?;
        let mut operands = OperandForm::of(kernel);
        let [lhs, rhs] = [(left, 0), (right, 1)].map(|(split, i)| split.first_terms(operands.len() + i));
        operands.extend([left, right].map(|split| split.form(false)));
        let terms = MatmulBody { lhs, rhs, dtype: DType::BF16, ..body.clone() };
        let schedule = TensorCoreMatmul::of(&terms, Precision::F32, tile, &device)?;
        let schedule = schedule.in_terms(ProductForm::of(body), &device)?;
        let product = KernelSpec::new(body.epilogue.clone(), schedule, operands, device);
        Some(vec![left.launch(kernel, device), right.launch(kernel, device), product])
    }
}
