//! The gradient of attention on tensor cores: blocks of keys against tiles of queries, with scores, weights and their
//! gradients in registers.
//!
//! - One warpgroup copies the rows of keys and values of a block once, and a ring of tiles of queries and of the result's
//!   gradients.
//! - Each of two other warpgroups has 64 keys. It multiplies them with a tile of 64 queries, transposed: keys are rows.
//!   So weights and gradients of scores are left matrices of the sums over queries without leaving registers.
//! - The sums over queries stay in registers until the last tile. A sum over keys needs the gradients of all keys of the
//!   block, which go through shared memory. It is added to memory in `f32`, by blocks in any order.
//! - A kernel behind it runs the end of the sum over keys.
//!
//! The values at the points and the ends are bodies as in every kernel.

mod frame;
mod points;

use super::attention::operand::{MappedOperand, dtype_of};
use super::{BESIDE_RING, LINE_BYTES, WARPGROUP, end_of_group};
use crate::codegen::analysis::visible_points::visible_points;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::ir::ptx::WarpgroupProduct;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::BodyCode;
use crate::codegen::schedule::map::Map;
use crate::codegen::tensor_map::Frame;
use crate::device_model::{DeviceModel, TensorCores};
use crate::fusion::{
    Access, AttentionGradientBody, Class, FusedBody, FusedInst, FusedOp, Kernel, PointSum, Source, Work,
};
use crate::ir::DType;
use points::{Extents, KEYS, Points, TILE};

/// The longest queries, keys and values. Registers hold sums of so many columns.
const MOST_COLUMNS: usize = 128;
/// Columns of queries, keys and values are a multiple of the neighbours that a thread stores together.
const COLUMNS_TOGETHER: usize = super::NEIGHBOURS;
/// Columns of a line of the swizzle. The copy engine fills the rest of the last line with zeros.
const LINE_COLUMNS: usize = 64;
/// The most stages of the rings.
const MOST_STAGES: usize = 3;
/// Bytes of matrices that blocks work on at the same time, so that the L2 cache serves them.
const SECTION_BYTES: usize = 24 << 20;

/// A gradient of attention on tensor cores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorCoreAttentionGradient {
    batch: usize,
    m: usize,
    n: usize,
    dtype: DType,
    cores: TensorCores,
    /// The extents that the two products sum over.
    depths: [usize; 2],
    /// The rows of both products, by query.
    rows: [MappedOperand; 2],
    /// The columns of both products, by key.
    columns: [MappedOperand; 2],
    points: Points,
    over_queries: Vec<Sum>,
    over_keys: Option<Sum>,
    n_stages: usize,
    /// Whether one instruction adds four neighbours to memory.
    adds_four: bool,
    /// Matrices that blocks work on at the same time.
    section: usize,
}

/// A sum of a value at the points times rows or columns of one of the products.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sum {
    /// The number of the value among those of `points`.
    value: usize,
    /// The product whose matrix it is.
    product: usize,
    end: FusedBody,
}

/// Whether the device has such a kernel for a gradient.
pub fn takes(body: &AttentionGradientBody, device: &DeviceModel) -> bool {
    TensorCoreAttentionGradient::of(body, device).is_some()
}

/// The launches of a gradient on tensor cores: the kernel, and the end of the sum over keys. The sum is added to the
/// workspace, which must be zero. None if tensor cores cannot read its matrices.
pub fn launches(
    kernel: &Kernel,
    body: &AttentionGradientBody,
    device: DeviceModel,
) -> Option<Vec<KernelSpec>> {
    let schedule = TensorCoreAttentionGradient::of(body, &device)?;
    let mut operands = OperandForm::of(kernel);
    let n_sums = schedule.n_sums_over_keys();
    let end = schedule.over_keys.as_ref().map(|sum| {
        let partial = operands.len();
        operands.push(OperandForm::workspace(0, n_sums, DType::F32));
        let body = schedule.read_sums(sum, partial);
        KernelSpec::of_used_operands(body, Map, operands.clone(), device)
    });
    let first = KernelSpec::new(schedule.points.body.clone(), schedule, operands, device);
    Some([first].into_iter().chain(end).collect())
}

impl TensorCoreAttentionGradient {
    fn of(body: &AttentionGradientBody, device: &DeviceModel) -> Option<TensorCoreAttentionGradient> {
        let &AttentionGradientBody { batch, m, n, dtype, ref products, ref points, .. } = body;
        let sources = products.iter().flat_map(|product| [&product.rows, &product.columns]);
        let has_type = matches!(dtype, DType::F16 | DType::BF16)
            && sources.chain(body.sums.iter().map(|sum| &sum.other)).all(|source| dtype_of(source) == dtype);
        let depths = [products[0].k, products[1].k];
        let is_divided = 2 * batch * n.div_ceil(KEYS) >= device.n_processors;
        let fits =
            |depth: &usize| (1..=MOST_COLUMNS).contains(depth) && depth.is_multiple_of(COLUMNS_TOGETHER);
        let has_shape = m > 0 && depths.iter().all(fits);
        let has_checks = body.bodies().into_iter().any(FusedBody::has_checks);
        let cores = device.tensor_cores?;
        if !has_type || !is_divided || !has_shape || has_checks {
            return None;
        }
        let of_queries = |source: &Source| MappedOperand::of(source, batch, m);
        let of_keys = |source: &Source| MappedOperand::of(source, batch, n);
        let [first, second] = products;
        let rows = [of_queries(&first.rows)?, of_queries(&second.rows)?];
        let columns = [of_keys(&first.columns)?, of_keys(&second.columns)?];
        let mut values: Vec<_> = body.sums.iter().map(|sum| sum.value).collect();
        values.dedup();
        let visible = visible_points(points, &values);
        let mut form = TensorCoreAttentionGradient {
            batch,
            m,
            n,
            dtype,
            cores,
            depths,
            rows,
            columns,
            points: Points::of(points, &values, &visible, [batch * m, m])?,
            over_queries: vec![],
            over_keys: None,
            n_stages: 0,
            adds_four: device.adds_four,
            section: 0,
        };
        for sum in &body.sums {
            form.push(sum, &values)?;
        }
        form.divided(device)
    }

    /// Takes a sum over rows or columns that are in shared memory anyway.
    fn push(&mut self, sum: &PointSum, values: &[usize]) -> Option<()> {
        let (extent, matrices) = if sum.over_keys { (self.n, self.columns) } else { (self.m, self.rows) };
        let matrix = MappedOperand::of(&sum.other, self.batch, extent)?;
        let product = matrices.iter().position(|known| *known == matrix)?;
        let value = values.iter().position(|value| *value == sum.value)?;
        let form = Sum { value, product, end: sum.end.clone() };
        match sum.over_keys {
            true if self.over_keys.is_none() => self.over_keys = Some(form),
            false if self.over_queries.len() < 2 => self.over_queries.push(form),
            _ => return None,
        }
        Some(())
    }

    /// The schedule with its stages and sections.
    fn divided(self, device: &DeviceModel) -> Option<TensorCoreAttentionGradient> {
        let of_block: usize = [0, 1].iter().map(|&product| self.column_bytes(product)).sum();
        let of_stage: usize = [0, 1].iter().map(|&product| self.row_bytes(product)).sum();
        let room = device
            .double_buffer_bytes
            .saturating_sub(BESIDE_RING + of_block + self.n_slopes() * self.slope_bytes());
        let n_stages = (room / of_stage).min(MOST_STAGES);
        let depth = self.columns_of(0) + self.columns_of(1);
        let of_matrix = (self.m + self.n) * depth * self.dtype.size() + self.m * depth / 2 * 4;
        // Sections of equal size: the large blocks of a last one would start late.
        let n_sections = (self.batch * of_matrix + SECTION_BYTES / 2) / SECTION_BYTES;
        let section = self.batch.div_ceil(n_sections.max(1)).max(1);
        (n_stages >= 2).then_some(TensorCoreAttentionGradient { n_stages, section, ..self })
    }

    /// The columns of rows of a product in shared memory and registers: whole lines.
    fn columns_of(&self, product: usize) -> usize {
        self.depths[product].next_multiple_of(LINE_COLUMNS)
    }

    fn n_tiles(&self) -> usize {
        self.m.div_ceil(TILE)
    }

    fn n_key_blocks(&self) -> usize {
        self.n.div_ceil(KEYS)
    }

    /// Elements of the sums over keys in memory.
    fn n_sums_over_keys(&self) -> usize {
        self.over_keys
            .as_ref()
            .map_or(0, |sum| self.batch * self.n_tiles() * TILE * self.columns_of(sum.product))
    }

    fn row_bytes(&self, product: usize) -> usize {
        self.columns_of(product) / LINE_COLUMNS * TILE * LINE_BYTES
    }

    fn column_bytes(&self, product: usize) -> usize {
        self.columns_of(product) / LINE_COLUMNS * KEYS * LINE_BYTES
    }

    /// Bytes of the values of a tile that are summed over keys: a line of 64 queries for each key.
    fn slope_bytes(&self) -> usize {
        if self.over_keys.is_some() { KEYS * LINE_BYTES } else { 0 }
    }

    /// Tiles of such values. With two, products of one run beside the lines that fill the other.
    fn n_slopes(&self) -> usize {
        if self.cores.is_asynchronous() { 2 } else { 1 }
    }

    /// The product of keys and a tile of queries.
    fn of_points(&self) -> WarpgroupProduct {
        WarpgroupProduct {
            n_parts: 1,
            columns: TILE,
            dtype: self.dtype,
            is_along: [true, true],
            from_registers: false,
        }
    }

    fn of_queries(&self, sum: &Sum) -> WarpgroupProduct {
        let columns = self.columns_of(sum.product);
        WarpgroupProduct {
            n_parts: 1,
            columns,
            dtype: self.dtype,
            is_along: [true, false],
            from_registers: true,
        }
    }

    /// Each warpgroup has half of the columns of a sum over keys.
    fn of_keys(&self, sum: &Sum) -> WarpgroupProduct {
        let columns = self.columns_of(sum.product) / 2;
        WarpgroupProduct {
            n_parts: 1,
            columns,
            dtype: self.dtype,
            is_along: [false, false],
            from_registers: false,
        }
    }

    /// Elements from thread to thread, and between the four sums of a thread that lie together. Single sums of neighbouring
    /// threads are neighbours.
    fn sum_strides(&self) -> [usize; 2] {
        if self.adds_four { [4, 1] } else { [1, WARPGROUP] }
    }

    /// The end of `sum`, a sum over keys, which reads the sums as the threads have written them: by matrix, tile, eight
    /// columns, warp, row, pair of columns, half of the rows, and column.
    fn read_sums(&self, sum: &Sum, partial: usize) -> FusedBody {
        let end = &sum.end;
        let extents = [self.batch, self.n_tiles(), 4, 2, 8, end.domain.row / 8, 4, 2];
        let tile = (TILE * self.columns_of(sum.product)) as i64;
        let [of_thread, of_sum] = self.sum_strides().map(|stride| stride as i64);
        let strides = [
            tile * self.n_tiles() as i64,
            tile,
            32 * of_thread,
            2 * of_sum,
            4 * of_thread,
            512,
            of_thread,
            of_sum,
        ];
        let mut access = Access::strided(&extents, &strides);
        if !self.m.is_multiple_of(TILE) {
            // Each matrix has as many lines as its tiles.
            let (columns, n_lines) = (end.domain.row, self.n_tiles() * TILE);
            let strides = [n_lines * columns, columns, 1].map(|stride| stride as i64);
            let padded = Access::strided(&[self.batch, self.m, columns], &strides);
            access.levels.splice(..0, padded.levels);
        }
        let load = FusedOp::Load { operand: partial, access, index: None };
        let insts = end.insts.iter().map(|inst| match inst.op {
            FusedOp::Accumulator => FusedInst { op: load.clone(), dtype: DType::F32, class: Class::Element },
            _ => inst.clone(),
        });
        FusedBody { domain: end.domain, insts: insts.collect() }
    }
}

impl Schedule for TensorCoreAttentionGradient {
    fn entry(&self) -> &'static str {
        "attention_gradient"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        3 * WARPGROUP
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.batch * self.n_key_blocks()
    }

    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Row)
    }

    fn allows_fast_math(&self, _: &KernelSpec) -> bool {
        true
    }

    fn more_bodies(&self) -> Vec<&FusedBody> {
        self.over_queries.iter().map(|sum| &sum.end).collect()
    }

    fn frame(&self) -> Option<Frame> {
        let columns = self.columns.iter().map(|columns| columns.map(KEYS, LINE_COLUMNS));
        let rows = self.rows.iter().map(|rows| rows.map(TILE, LINE_COLUMNS));
        let mut products = vec![self.of_points()];
        products.extend(self.over_queries.iter().map(|sum| self.of_queries(sum)));
        products.extend(self.over_keys.iter().map(|sum| self.of_keys(sum)));
        products.sort_by_key(WarpgroupProduct::name);
        products.dedup();
        Some(Frame {
            cores: self.cores,
            maps: columns.chain(rows).collect(),
            shared_bytes: self.shared_bytes(),
            products,
        })
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let sums = self.over_keys.as_ref().and_then(|_| kernel.buffers.operands.last());
        let sums = sums.map(|sums| code.named(sums.array)).unwrap_or_default();
        code.lines(&self.begin(&sums));
        let extents = Extents { m: self.m, n: self.n, edge: self.is_edge() };
        self.points.define(&extents, code, &kernel.body())?;
        code.lines(&self.tiles());
        for (number, sum) in self.over_queries.iter().enumerate() {
            code.lines(&self.groups(number, sum));
            let body = BodyCode { body: &sum.end, ..kernel.body() };
            end_of_group(code, &body, self.n)?;
            // The ends of the condition and of the loop.
            code.lines("}\n}\n");
        }
        // The end of the branch.
        code.line("}");
        Ok(())
    }
}
