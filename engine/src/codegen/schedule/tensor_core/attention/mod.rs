//! Attention on tensor cores: blocks of rows against tiles of keys, with scores, weights and result in registers.
//!
//! - One warpgroup copies queries, and rings of tiles of keys and values.
//! - Each other warpgroup has 64 rows. It multiplies queries and keys, turns scores into weights, and multiplies weights,
//!   which stay in registers, and values.
//! - The products of a tile's scores run beside those of the weights before, and the warpgroups take turns: one
//!   multiplies while the others exponentiate.
//! - Running largest scores and sums replace the row (`online_softmax`). Tiles that no row of a block sees are left out.
//!
//! The scores beyond their product, the values of rows and the end are bodies as in every kernel.

mod frame;
pub(super) mod operand;
mod rows;

use super::{BESIDE_RING, LINE_BYTES, NEIGHBOURS, ROWS, WARPGROUP, end_of_group, point};
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::ir::ptx::WarpgroupProduct;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::vector_group::Group;
use crate::codegen::tensor_map::Frame;
use crate::device_model::{DeviceModel, TensorCores};
use crate::fusion::{AttentionBody, Class, FusedBody, FusedInst, FusedOp, Kernel, Reg, Work};
use crate::ir::{DType, Scalar};
use cubecl_core::ir::Variable;
use operand::{MappedOperand, dtype_of};
use rows::{ScoreRows, needed};

/// Columns of the result that four threads write together.
const COLUMNS_TOGETHER: usize = 4 * NEIGHBOURS;
/// The most stages of the rings.
const MOST_STAGES: usize = 3;
/// The fewest queries for which three warpgroups multiply short rows.
const MANY_QUERIES: usize = 2048;
/// Bytes of keys and values that stay in the L2 cache while all blocks read them.
const CACHED_BYTES: usize = 24 << 20;
/// Bytes of keys and values that blocks read at the same time, where all of them do not stay in the cache.
const SECTION_BYTES: usize = 16 << 20;
/// The most keys of a row where few SMs have a block.
const MOST_KEYS_OF_FEW: usize = 4096;

/// An attention on tensor cores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorCoreAttention {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    width: usize,
    dtype: DType,
    cores: TensorCores,
    /// Queries, keys and values.
    operands: [MappedOperand; 3],
    rows: ScoreRows,
    end: FusedBody,
    /// Warpgroups that multiply.
    n_multipliers: usize,
    /// Keys of a tile.
    tile_keys: usize,
    n_stages: usize,
    /// Matrices whose keys and values are read at the same time.
    section: usize,
    n_blocks: usize,
}

/// Whether the device has such a kernel for an attention.
pub fn takes(body: &AttentionBody, device: &DeviceModel) -> bool {
    TensorCoreAttention::of(body, device).is_some()
}

/// The launch of an attention on tensor cores; none if they cannot read its matrices, or its rows are no online softmax.
pub fn launch(kernel: &Kernel, body: &AttentionBody, device: DeviceModel) -> Option<KernelSpec> {
    let schedule = TensorCoreAttention::of(body, &device)?;
    Some(KernelSpec::new(body.rows.clone(), schedule, OperandForm::of(kernel), device))
}

/// The most columns of a query, and of a value, for which registers hold the result.
fn most_columns(cores: TensorCores) -> usize {
    match cores {
        TensorCores::Warps => 128,
        TensorCores::Warpgroups => 256,
    }
}

/// Keys of a tile for which registers hold the scores, the best first.
fn tiles(cores: TensorCores, columns: usize) -> &'static [usize] {
    match cores {
        TensorCores::Warps => &[64, 32],
        TensorCores::Warpgroups if columns <= 128 => &[128],
        TensorCores::Warpgroups => &[64],
    }
}

impl TensorCoreAttention {
    fn of(body: &AttentionBody, device: &DeviceModel) -> Option<TensorCoreAttention> {
        let &AttentionBody { batch, m, n, k, width, dtype, .. } = body;
        let sources = [&body.query, &body.key, &body.value];
        let has_type = matches!(dtype, DType::F16 | DType::BF16)
            && sources.iter().all(|source| dtype_of(source) == dtype);
        let cores = device.tensor_cores?;
        let most_columns = most_columns(cores);
        let has_shape = ![batch, m, n, k].contains(&0)
            && k <= most_columns
            && (1..=most_columns).contains(&width)
            && width.is_multiple_of(NEIGHBOURS);
        let has_checks = body.bodies().into_iter().any(FusedBody::has_checks);
        if !has_type || !has_shape || has_checks {
            return None;
        }
        let rows = ScoreRows::of(body)?;
        let is_short = k.max(width) <= 64;
        let reads = needed(&body.rows, rows.score)
            .into_iter()
            .any(|reg| matches!(body.rows.insts[reg].op, FusedOp::Load { .. }));
        let has_three = is_short && m >= MANY_QUERIES && !reads && cores.is_asynchronous();
        let n_multipliers = if has_three { 3 } else { 2 };
        let operands = [
            MappedOperand::of(&body.query, batch, m)?,
            MappedOperand::of(&body.key, batch, n)?,
            MappedOperand::of(&body.value, batch, n)?,
        ];
        let end = body.end.clone();
        let form = TensorCoreAttention {
            batch,
            m,
            n,
            k,
            width,
            dtype,
            cores,
            operands,
            rows,
            end,
            n_multipliers,
            tile_keys: 0,
            n_stages: 0,
            section: 0,
            n_blocks: 0,
        };
        let tiles = tiles(cores, k.max(form.columns())).iter();
        tiles
            .filter_map(|&tile_keys| TensorCoreAttention { tile_keys, ..form.clone() }.divided(device))
            .next()
    }

    /// The schedule with stages, and with its division among SMs.
    fn divided(self, device: &DeviceModel) -> Option<TensorCoreAttention> {
        let (batch, n_items) = (self.batch, self.batch * self.n_row_blocks());
        let room = device.double_buffer_bytes.saturating_sub(BESIDE_RING + self.query_bytes());
        let n_stages = (room / (self.key_bytes() + self.value_bytes())).min(MOST_STAGES);
        let of_matrix = self.n * (self.k + self.width) * self.dtype.size();
        let is_cached = batch * of_matrix <= CACHED_BYTES;
        let section = if is_cached { batch } else { (SECTION_BYTES / of_matrix).clamp(1, batch) };
        // Blocks of unequal length are given out one by one, unless their order alone divides them evenly.
        let is_even = self.rows.bounds == [None; 2] || is_cached;
        let n_blocks = if is_even { n_items.min(device.n_processors) } else { n_items };
        let is_divided = 4 * n_items >= device.n_processors || self.n <= MOST_KEYS_OF_FEW;
        (n_stages >= 2 && is_divided).then_some(TensorCoreAttention { n_stages, section, n_blocks, ..self })
    }

    /// Whether short queries stay in registers, instead of being read from shared memory for each tile of keys. `wgmma` reads them
    /// there without delay.
    fn holds_queries(&self) -> bool {
        !self.cores.is_asynchronous() && self.k <= 64
    }

    fn rows_of_block(&self) -> usize {
        self.n_multipliers * ROWS
    }

    /// Columns of the result in registers. Those past the last are products with zeros.
    fn columns(&self) -> usize {
        self.width.next_multiple_of(COLUMNS_TOGETHER)
    }

    fn n_row_blocks(&self) -> usize {
        self.m.div_ceil(self.rows_of_block())
    }

    fn query_bytes(&self) -> usize {
        self.k.div_ceil(64) * self.rows_of_block() * LINE_BYTES
    }

    fn key_bytes(&self) -> usize {
        self.k.div_ceil(64) * self.tile_keys * LINE_BYTES
    }

    fn value_bytes(&self) -> usize {
        self.width.div_ceil(64) * self.tile_keys * LINE_BYTES
    }

    /// Registers of a thread of the warpgroup that copies, and of one that multiplies.
    fn registers(&self) -> [usize; 2] {
        if self.n_multipliers == 3 { [32, 160] } else { [24, 240] }
    }

    fn products(&self) -> [WarpgroupProduct; 2] {
        let &TensorCoreAttention { dtype, tile_keys, .. } = self;
        [
            WarpgroupProduct {
                n_parts: 1,
                columns: tile_keys,
                dtype,
                is_along: [true, true],
                from_registers: self.holds_queries(),
            },
            WarpgroupProduct {
                n_parts: 1,
                columns: self.columns(),
                dtype,
                is_along: [true, false],
                from_registers: true,
            },
        ]
    }
}

impl Schedule for TensorCoreAttention {
    fn entry(&self) -> &'static str {
        "attention"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        (self.n_multipliers + 1) * WARPGROUP
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.n_blocks
    }

    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Row)
    }

    fn allows_fast_math(&self, _: &KernelSpec) -> bool {
        true
    }

    fn more_bodies(&self) -> Vec<&FusedBody> {
        vec![&self.end]
    }

    fn frame(&self) -> Option<Frame> {
        let [query, key, value] = self.operands;
        let rows = self.rows_of_block();
        Some(Frame {
            cores: self.cores,
            maps: vec![query.map(rows, 64), key.map(self.tile_keys, 64), value.map(self.tile_keys, 64)],
            shared_bytes: self.query_bytes()
                + self.n_stages * (self.key_bytes() + self.value_bytes())
                + BESIDE_RING,
            products: self.products().to_vec(),
        })
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let has_fast_math = code.device.has_fast_math;
        code.lines(&self.begin());
        code.lines(&self.block());
        let rows = RowCode { form: self, body: kernel.body(), has_fast_math };
        let base = rows.values_of_rows(code)?;
        code.lines(&self.state());
        rows.complete(code, &base)?;
        code.lines(&self.weigh(has_fast_math));
        code.lines(&self.tiles());
        code.lines(&self.totals());
        rows.finish(code, base)?;
        code.lines(&self.groups());
        let body = BodyCode { body: &self.end, ..kernel.body() };
        end_of_group(code, &body, self.m)?;
        // The ends of the condition, of the loops over groups and over blocks of rows, and of the branch.
        code.lines("}\n}\n}\n}\n");
        Ok(())
    }
}

impl TensorCoreAttention {
    /// The loop over the blocks of a warpgroup that multiplies, and the first of its thread's two rows.
    fn block(&self) -> String {
        let take = self.cores.take_registers(self.registers()[1]);
        let first_turn = if self.cores.is_asynchronous() { "if (group == 0) give_turn(0);\n" } else { "" };
        format!(
            "\
{take}\
{first_turn}\
{}const unsigned int in_group = threadIdx.x % {WARPGROUP};
const unsigned int own_row = first_row + group * {ROWS} + in_group / 32 * 16 + in_group % 32 / 4;
",
            self.items()
        )
    }
}

/// The code of the body over rows of scores. A thread has two rows, eight apart.
struct RowCode<'k> {
    form: &'k TensorCoreAttention,
    body: BodyCode<'k>,
    has_fast_math: bool,
}

/// A row of a thread: its number among all rows, and what is known of it.
struct ThreadRow {
    row: Variable,
    registers: Registers,
}

impl RowCode<'_> {
    fn inst(&self, reg: Reg) -> &FusedInst {
        &self.body.body.insts[reg]
    }

    /// Both rows, with the values of rows that scores need. Rows past the last read the values of the last.
    fn values_of_rows(&self, code: &mut Code) -> Result<[ThreadRow; 2], CodegenError> {
        let (m, n_insts) = (self.form.m, self.body.body.insts.len());
        let needed = needed(self.body.body, self.form.rows.score);
        let of_rows: Vec<Reg> =
            needed.into_iter().filter(|&reg| self.inst(reg).class != Class::Element).collect();
        let mut rows = vec![];
        for half in 0..2 {
            let in_matrix =
                code.expression(code.index, format_args!("min(own_row + {}, {}u)", 8 * half, m - 1));
            let matrix = code.expression(code.index, "z");
            let start = code.scaled(matrix, m as i64);
            let row = code.add_at(start, in_matrix);
            code.note_place(row, m, matrix, in_matrix);
            let mut registers = vec![None; n_insts];
            self.body.run(code, of_rows.iter().copied(), row, &mut registers)?;
            rows.push(ThreadRow { row, registers });
        }
        rows.try_into().map_err(|_| crate::bug!("a thread has two rows"))
    }

    /// `complete`: from products to scores. Tiles that all rows see need no mask of coordinates.
    fn complete(&self, code: &mut Code, rows: &[ThreadRow; 2]) -> Result<(), CodegenError> {
        let form = self.form;
        let n_scores = form.tile_keys / 2;
        code.line(format_args!("const auto complete = [&](float (&scores)[{n_scores}], const int tile) {{"));
        let is_edge = form.is_edge();
        let unmasked = form.rows.unmasked.unwrap_or(form.rows.score);
        let is_same = unmasked == form.rows.score && !form.is_ragged();
        if is_same || is_edge.is_empty() {
            self.scores(code, rows, form.rows.score, form.is_ragged())?;
        } else {
            code.line(format_args!("if ({is_edge}) {{"));
            self.scores(code, rows, form.rows.score, form.is_ragged())?;
            code.line("} else {");
            self.scores(code, rows, unmasked, false)?;
            code.line("}");
        }
        code.line("};");
        Ok(())
    }

    /// The scores of a tile, which are a register at each point. Keys past the last are hidden.
    fn scores(
        &self,
        code: &mut Code,
        rows: &[ThreadRow; 2],
        score: Reg,
        is_ragged: bool,
    ) -> Result<(), CodegenError> {
        let (form, n) = (self.form, self.form.n);
        let scaled = form.rows.scale(self.has_fast_math).map(|(reg, _)| reg);
        let is_given = |reg: Reg| self.inst(reg).op == FusedOp::Accumulator || Some(reg) == scaled;
        let is_product = is_given(score);
        if is_product && !is_ragged {
            return Ok(());
        }
        let needed: Vec<Reg> = needed(self.body.body, score)
            .into_iter()
            .filter(|&reg| self.inst(reg).class == Class::Element && !is_given(reg))
            .collect();
        let (n_groups, keys) = (form.tile_keys / 8, form.tile_keys);
        code.lines(&format!("#pragma unroll\nfor (int j = 0; j < {n_groups}; j++) {{"));
        code.line(format_args!("const unsigned int column = tile * {keys} + 8 * j + threadIdx.x % 4 * 2;"));
        let width = if n.is_multiple_of(2) { 2 } else { 1 };
        for (half, row) in rows.iter().enumerate() {
            for first in (0..2).step_by(width) {
                let places: Vec<String> =
                    (first..first + width).map(|i| format!("scores[4 * j + {}]", 2 * half + i)).collect();
                if is_ragged {
                    let hidden = places.join(" = ");
                    code.line(format_args!(
                        "if (column + {first} >= {n}) {hidden} = minus_infinity; else {{"
                    ));
                }
                let column = code.expression(code.index, format_args!("column + {first}"));
                let group = self.group(code, row, column, width);
                let mut registers = vec![];
                for place in &places {
                    let sum = code.expression(F32, place);
                    let with_sum = |reg: Reg| if is_given(reg) { Some(sum) } else { row.registers[reg] };
                    registers.push((0..row.registers.len()).map(with_sum).collect::<Registers>());
                }
                self.body.run_group(code, needed.iter().copied(), &group, &mut registers)?;
                for (place, registers) in places.iter().zip(&registers) {
                    let value = registers[score].unwrap_or_else(|| crate::bug!("a score without its value"));
                    let value = code.named(value);
                    code.line(format_args!("{place} = {value};"));
                }
                if is_ragged {
                    code.line("}");
                }
            }
        }
        code.line("}");
        Ok(())
    }

    /// Neighbouring points of a row, whose columns are noted.
    fn group(&self, code: &mut Code, row: &ThreadRow, column: Variable, width: usize) -> Group {
        let n = self.form.n;
        let first_point = point(code, n, [row.row, column]);
        let group = Group::from(code, first_point, width);
        for (i, &point) in group.points.iter().enumerate().skip(1) {
            let column = code.at_offset(column, i);
            code.note_place(point, n, row.row, column);
        }
        group
    }

    /// What runs once a row after its last key: its stores, and the factor of its sum of values.
    fn finish(&self, code: &mut Code, rows: [ThreadRow; 2]) -> Result<(), CodegenError> {
        let (form, insts) = (&self.form.rows, &self.body.body.insts);
        let scale = form.scale(self.has_fast_math).map_or(1.0, |(_, scale)| scale);
        for (half, ThreadRow { row, mut registers }) in rows.into_iter().enumerate() {
            let scale = if scale == 1.0 { String::new() } else { format!(" * {:?}f", scale as f32) };
            registers[form.largest] =
                Some(code.expression(F32, format_args!("largest_score[{half}]{scale}")));
            registers[form.sum] = Some(code.expression(F32, format_args!("total[{half}]")));
            registers[form.exp] = Some(code.float(F32, 1.0));
            let is_store = |reg: &Reg| matches!(insts[*reg].op, FusedOp::Store { .. });
            let (stores, values): (Vec<Reg>, Vec<Reg>) =
                form.last.iter().copied().partition(|reg| is_store(reg));
            let mut factor = form.exp;
            for reg in values {
                factor = if insts[reg].class == Class::Element { reg } else { factor };
                match &insts[reg].op {
                    _ if registers[reg].is_some() => {}
                    // Conversions of weights would round the factor.
                    FusedOp::Scalar(Scalar::Cast(_), args) if insts[reg].class == Class::Element => {
                        registers[reg] = registers[args[0]];
                    }
                    _ => self.body.run(code, [reg], row, &mut registers)?,
                }
            }
            let factor = registers[factor].unwrap_or_else(|| crate::bug!("a weight without its factor"));
            let factor = code.named(factor);
            code.line(format_args!("factor[{half}] = {factor};"));
            if !stores.is_empty() {
                let (m, row_of) = (self.form.m, 8 * half);
                code.line(format_args!("if (threadIdx.x % 4 == 0 && own_row + {row_of} < {m}) {{"));
                self.body.run(code, stores, row, &mut registers)?;
                code.line("}");
            }
        }
        Ok(())
    }
}
