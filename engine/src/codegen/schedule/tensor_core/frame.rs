//! The frame of a matmul on tensor cores, around the epilogue of eight neighbouring points.

use super::{LINE_BYTES, N_MULTIPLIERS, NEIGHBOURS, ROWS, TensorCoreMatmul, WARPGROUP};
use crate::codegen::ir::builder::Code;
use cubecl_core::ir::Variable;

/// Tiles along the rows that blocks work on at the same time, so that the L2 cache serves their matrices.
const BAND: usize = 8;
/// Bytes of a swizzled block of 64 lines, where lines lie along memory.
const BLOCK_BYTES: usize = ROWS * LINE_BYTES;

impl TensorCoreMatmul {
    /// Bytes of the ring.
    pub fn ring_bytes(&self) -> usize {
        self.n_stages * self.stage_bytes()
    }

    pub fn stage_bytes(&self) -> usize {
        self.lines().iter().sum::<usize>() * LINE_BYTES * self.n_terms()
    }

    /// Row and column of the first point of a group; rows are counted through all matrices.
    fn place(&self, code: &mut Code) -> [Variable; 2] {
        let m = self.extents[1];
        [format!("z * {m} + row"), "column".to_string()].map(|text| code.expression(code.index, text))
    }

    /// Groups of neighbouring columns of a thread: parts of its rows, blocks of 32 columns, and two rows of each.
    pub fn groups(&self) -> [usize; 3] {
        [self.n_parts(), self.tile.columns / 32, 2]
    }

    pub fn n_groups(&self) -> usize {
        self.groups().iter().product()
    }

    /// Emits all lines up to the loop over the tiles of a warpgroup that multiplies.
    pub fn begin(&self, code: &mut Code) {
        let text = [self.setup(), self.copier(), self.cores.take_registers(240), self.tiles()].concat();
        code.lines(&text);
    }

    /// Emits the products of a tile.
    pub fn multiply(&self, code: &mut Code) {
        let right = format!("at + {}", self.lines()[0] * LINE_BYTES);
        code.lines(&match self.exact {
            None => self.multiplier(self.n_stages, self.stage_bytes(), ["at", &right]),
            Some(_) => self.multiplier_of_terms(),
        });
    }

    /// Emits `body` at each group of points of the thread, at the row and the column of its first one.
    pub fn at_groups(&self, code: &mut Code, has_sums: bool, body: impl FnOnce(&mut Code, [Variable; 2])) {
        let text = [self.loops(), if has_sums { self.sums() } else { String::new() }, self.inside()].concat();
        code.lines(&text);
        let place = self.place(code);
        body(code, place);
        // The ends of the condition and of the loops.
        (0..2).for_each(|_| code.line("}"));
    }

    /// Emits the ends of the loop over tiles and of the branch.
    pub fn end(&self, code: &mut Code) {
        (0..2).for_each(|_| code.line("}"));
    }

    /// Shared memory, and the barriers of the ring: `full` and `empty` for each stage.
    fn setup(&self) -> String {
        let (n_stages, ring) = (self.n_stages, self.ring_bytes());
        let empty = 8 * n_stages;
        format!(
            "\
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int ring = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int full = ring + {ring}, empty = full + {empty};
const unsigned int group = threadIdx.x / {WARPGROUP};
if (threadIdx.x == 0) {{
for (int i = 0; i < {n_stages}; i++) {{
init_barrier(full + 8 * i, {n_fillers});
init_barrier(empty + 8 * i, {n_readers});
}}
}}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0;
",
            n_fillers = self.cores.n_fillers(),
            n_readers = self.cores.n_readers(N_MULTIPLIERS),
        )
    }

    /// The loop over tiles, and the place of a tile: bands of rows, column by column within a band.
    fn tiles(&self) -> String {
        let [batch, m, n, _] = self.extents;
        let [n_rows, n_columns] = [m.div_ceil(self.tile.rows), n.div_ceil(self.tile.columns)];
        let (of_batch, of_band) = (n_rows * n_columns, BAND * n_columns);
        let (rows, columns) = (self.tile.rows, self.tile.columns);
        format!(
            "\
for (unsigned int tile = blockIdx.x; tile < {n_tiles}; tile += gridDim.x) {{
const unsigned int z = tile / {of_batch}, in_matrix = tile % {of_batch}, band = in_matrix / {of_band};
const unsigned int in_band = in_matrix % {of_band}, height = min({n_rows} - band * {BAND}, {BAND}u);
const unsigned int first_row = (band * {BAND} + in_band % height) * {rows}, first_column = in_band / height * {columns};
",
            n_tiles = batch * of_batch,
        )
    }

    /// The warpgroup that fills the ring.
    fn copier(&self) -> String {
        let (n_stages, stage_bytes) = (self.n_stages, self.stage_bytes());
        let copies = self.copies();
        format!(
            "\
{copier}\
{tiles}\
for (unsigned int step = 0; step < {n_steps}; step++) {{
const unsigned int at = ring + stage * {stage_bytes}, barrier = full + 8 * stage;
await_phase(empty + 8 * stage, parity ^ 1);
{fill}\
if (++stage == {n_stages}) {{
stage = 0;
parity ^= 1;
}}
}}
}}
}}
}} else {{
",
            copier = self.cores.copier(N_MULTIPLIERS, 24),
            tiles = self.tiles(),
            n_steps = self.n_steps(),
            fill = self.cores.fill("barrier", stage_bytes, &copies),
        )
    }

    /// The copies of a stage: the left tiles of all terms, then the right ones.
    fn copies(&self) -> String {
        let (n_terms, [left, right]) = (self.n_terms(), self.lines().map(|lines| lines * LINE_BYTES));
        let of_side = |side: usize, first: &str, start: usize, bytes: usize| -> String {
            (0..n_terms).map(|term| self.copy(side, first, start + term * bytes, term)).collect()
        };
        [of_side(0, "first_row", 0, left), of_side(1, "first_column", n_terms * left, right)].concat()
    }

    /// The copies of a tile of one matrix's term to `start` within a stage.
    pub fn copy(&self, side: usize, first: &str, start: usize, term: usize) -> String {
        let (depth, lines) = (self.depth(), self.lines()[side]);
        let z = match (self.sides[side].is_batched, self.n_terms()) {
            (true, 1) => "z".to_string(),
            (true, n_terms) => format!("z * {n_terms} + {term}"),
            (false, _) => term.to_string(),
        };
        if self.sides[side].is_along {
            let to = format!("at + {start}");
            return self.cores.copy(&to, side, &[&format!("step * {depth}"), first, &z], "barrier");
        }
        let copy = |i: usize| {
            let (to, line) = (format!("at + {}", start + i * BLOCK_BYTES), format!("{first} + {}", i * ROWS));
            self.cores.copy(&to, side, &[&line, &format!("step * {depth}"), &z], "barrier")
        };
        (0..lines / ROWS).map(copy).collect()
    }

    /// Steps along the contracted axis.
    pub fn n_steps(&self) -> usize {
        self.extents[3].div_ceil(self.depth())
    }

    /// The warpgroups that multiply, up to the finished sums of a tile, from a ring of stages. `places` are those of both
    /// matrices in a step; the stage starts at `at`.
    pub fn multiplier(&self, n_stages: usize, stage_bytes: usize, places: [&str; 2]) -> String {
        let (n_parts, cores) = (self.n_parts(), self.cores);
        // The stage before the current one, whose products are done.
        let before = format!("empty + 8 * ((stage + {}) % {n_stages})", n_stages - 1);
        let (of_step, of_last) = match cores.is_asynchronous() {
            true => (cores.release_if("step > 0 && ", &before), cores.release(&before)),
            false => (cores.release("empty + 8 * stage"), String::new()),
        };
        format!(
            "\
float sums[{n_parts}][{n_sums}];
for (unsigned int step = 0; step < {n_steps}; step++) {{
const unsigned int at = ring + stage * {stage_bytes};
await_phase(full + 8 * stage, parity);
begin_products();
{products}\
end_products();
await_products<1>();
{of_step}\
if (++stage == {n_stages}) {{
stage = 0;
parity ^= 1;
}}
}}
await_products<0>();
#pragma unroll
for (int i = 0; i < {n_parts}; i++) hold(sums[i]);
{of_last}",
            n_sums = self.tile.columns / 2,
            n_steps = self.n_steps(),
            products = self.products("sums", places, "step | k"),
        )
    }

    /// The products of a step, added to the array `sums` unless `adds` is 0.
    pub fn products(&self, sums: &str, places: [&str; 2], adds: &str) -> String {
        let product = self.product();
        let (name, n_parts, n_each) = (product.name(), self.n_parts(), self.depth() / product.step());
        let [at_left, at_right] = places;
        let part = if product.n_parts == 1 { "[i]" } else { "" };
        let n_calls = n_parts / product.n_parts;
        let [left, right] = [0, 1].map(|side| {
            // A step along the contracted axis: 32 bytes of each line, or whole lines.
            let is_along = self.sides[side].is_along;
            let step = if is_along { 32 } else { product.step() * LINE_BYTES };
            let block = if is_along { 16 } else { BLOCK_BYTES };
            (step, format!("matrix<{}, {block}>", 8 * LINE_BYTES))
        });
        format!(
            "\
#pragma unroll
for (int k = 0; k < {n_each}; k++) {{
#pragma unroll
for (int i = 0; i < {n_calls}; i++)
{name}({sums}{part}, {l}({at_left} + (group * {n_parts} + i) * {BLOCK_BYTES} + k * {ls}), {r}({at_right} + k * {rs}), {adds});
}}
",
            l = left.1,
            ls = left.0,
            r = right.1,
            rs = right.0,
        )
    }

    /// The loops over groups of points, with the row and the column of a group.
    fn loops(&self) -> String {
        let [n_parts, n_blocks, n_halves] = self.groups();
        format!(
            "\
#pragma unroll
for (int i = 0; i < {n_parts}; i++)
#pragma unroll
for (int j = 0; j < {n_blocks}; j++)
#pragma unroll
for (int half = 0; half < {n_halves}; half++) {{
const unsigned int in_group = threadIdx.x % {WARPGROUP};
const unsigned int in_part = in_group / 32 * 16 + in_group % 32 / 4 + 8 * half;
const unsigned int row = first_row + (group * {n_parts} + i) * {ROWS} + in_part;
const unsigned int column = first_column + 32 * j + threadIdx.x % 4 * {NEIGHBOURS};
"
        )
    }

    /// The sums of a group. Four threads exchange theirs, before any of them may leave out points.
    fn sums(&self) -> String {
        format!(
            "\
float part[{NEIGHBOURS}];
#pragma unroll
for (int e = 0; e < {NEIGHBOURS}; e++) part[e] = sums[i][16 * j + e / 2 * 4 + half * 2 + e % 2];
gather_columns(part);
"
        )
    }

    /// The condition that a group lies within the result, if it may not.
    fn inside(&self) -> String {
        let [_, m, n, _] = self.extents;
        let conditions = [("row", m, self.tile.rows), ("column", n, self.tile.columns)];
        let ragged = conditions.iter().filter(|(_, extent, side)| !extent.is_multiple_of(*side));
        let ragged: Vec<String> = ragged.map(|(name, extent, _)| format!("{name} < {extent}")).collect();
        if ragged.is_empty() { "{\n".to_string() } else { format!("if ({}) {{\n", ragged.join(" && ")) }
    }
}
