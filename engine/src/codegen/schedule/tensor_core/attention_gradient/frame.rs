//! The frame of the gradient of attention on tensor cores, around the values at the points and the ends of the sums.

use super::points::{KEYS, TILE};
use super::{LINE_COLUMNS, Sum, TensorCoreAttentionGradient};
use crate::codegen::schedule::tensor_core::{BESIDE_RING, LINE_BYTES, ROWS, WARPGROUP};
use crate::ir::DType;

impl TensorCoreAttentionGradient {
    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> usize {
        self.places().last().map_or(0, |(_, start)| *start) + BESIDE_RING
    }

    /// The parts of shared memory with their distance from its start: keys and values of the block, the rings of rows,
    /// tiles that are summed over keys, and the barriers.
    fn places(&self) -> Vec<(&'static str, usize)> {
        let n = self.n_stages;
        let parts = [
            ("columns_0", self.column_bytes(0)),
            ("columns_1", self.column_bytes(1)),
            ("rows_0", n * self.row_bytes(0)),
            ("rows_1", n * self.row_bytes(1)),
            ("slopes", self.n_slopes() * self.slope_bytes()),
            ("columns_full", 8),
            ("rows_full_0", 8 * n),
            ("rows_full_1", 8 * n),
            ("rows_empty", 8 * n),
        ];
        let mut start = 0;
        let placed = parts.into_iter().map(|(name, bytes)| {
            start += bytes;
            (name, start - bytes)
        });
        placed.collect()
    }

    /// Shared memory, its barriers, the block, the warpgroup that copies, and what a thread that multiplies has. `sums` is
    /// the name of the sums over keys in memory.
    pub fn begin(&self, sums: &str) -> String {
        let mut text = "extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];\n\
             const unsigned int start = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;\n"
            .to_string();
        for (name, at) in self.places() {
            text += &format!("const unsigned int {name} = start + {at};\n");
        }
        [text, self.barriers(), self.block(), self.copier(), self.thread(sums)].concat()
    }

    fn barriers(&self) -> String {
        let n_stages = self.n_stages;
        let (n_fillers, n_readers) = (self.cores.n_fillers(), self.cores.n_readers(2));
        format!(
            "\
const unsigned int group = threadIdx.x / {WARPGROUP};
if (threadIdx.x == 0) {{
init_barrier(columns_full, {n_fillers});
for (int i = 0; i < {n_stages}; i++) {{
init_barrier(rows_full_0 + 8 * i, {n_fillers});
init_barrier(rows_full_1 + 8 * i, {n_fillers});
init_barrier(rows_empty + 8 * i, {n_readers});
}}
}}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0;
"
        )
    }

    /// The matrix and the keys of the block, and the tiles of queries that see one of them, in each period.
    fn block(&self) -> String {
        let (n_blocks, section, batch, n) = (self.n_key_blocks(), self.section, self.batch, self.n);
        let period = self.points.period;
        let [first, end] = self.points.bounds;
        let first_tile = match end {
            None => "0".to_string(),
            Some(end) => format!("min(max(first_key - {end} + 1, 0), {period}) / {TILE}"),
        };
        let end_tile = match first {
            None => period.div_ceil(TILE).to_string(),
            Some(first) => format!(
                "(min(max(min(first_key + {KEYS}, {n}) - {first}, 0), {period}) + {}) / {TILE}",
                TILE - 1
            ),
        };
        format!(
            "\
const unsigned int section = blockIdx.x / {of_section}, in_section = blockIdx.x % {of_section};
const unsigned int height = min({batch} - section * {section}, {section}u);
const unsigned int z = section * {section} + in_section % height;
const int first_key = in_section / height * {KEYS};
const int first_tile = {first_tile}, end_tile = {end_tile};
",
            of_section = section * n_blocks,
        )
    }

    /// Whether a query of tile `tile` may not see each key of the block.
    pub fn is_edge(&self) -> String {
        let [first, end] = self.points.bounds;
        let (period, last, keys) = (self.points.period, TILE - 1, KEYS);
        let query = if period == self.m {
            format!("(int)tile * {TILE}")
        } else {
            format!("(int)tile * {TILE} % {period}")
        };
        let hides = [
            first.map(|first| format!("{query} + {last} + {first} > first_key")),
            end.map(|end| format!("first_key + {keys} > {query} + {end}")),
        ];
        hides.into_iter().flatten().collect::<Vec<_>>().join(" || ")
    }

    /// The loop over the tiles that see a key of the block.
    fn each_tile(&self) -> String {
        format!(
            "for (int period = 0; period < {}; period += {})\n\
             for (int tile = period + first_tile; tile < period + end_tile; tile++) {{\n",
            self.n_tiles(),
            self.points.period.div_ceil(TILE)
        )
    }

    /// The warpgroup that copies the keys and values of the block, and rows tile by tile.
    fn copier(&self) -> String {
        let copies = |product: usize, is_row: bool, to: &str, from: &str, barrier: &str| {
            let (map, operand, lines) = match is_row {
                true => (2 + product, &self.rows[product], TILE),
                false => (product, &self.columns[product], KEYS),
            };
            let copy = |i: usize| {
                let to = format!("{to} + {}", i * lines * LINE_BYTES);
                operand.copy(self.cores, map, &to, [&(LINE_COLUMNS * i).to_string(), from], barrier)
            };
            (0..self.columns_of(product) / LINE_COLUMNS).map(copy).collect::<String>()
        };
        let of_rows = |product: usize| {
            let bytes = self.row_bytes(product);
            let (to, barrier) =
                (format!("rows_{product} + stage * {bytes}"), format!("rows_full_{product} + 8 * stage"));
            let copies = copies(product, true, &to, &format!("tile * {TILE}"), &barrier);
            self.cores.fill(&barrier, bytes, &copies)
        };
        format!(
            "\
{copier}\
{fill_columns}\
{each_tile}\
await_phase(rows_empty + 8 * stage, parity ^ 1);
{first_rows}\
{second_rows}\
{next}\
}}
}}
}} else {{
",
            copier = self.cores.copier(2, 24),
            fill_columns = self.cores.fill(
                "columns_full",
                self.column_bytes(0) + self.column_bytes(1),
                &[0, 1]
                    .map(|i| copies(i, false, &format!("columns_{i}"), "first_key", "columns_full"))
                    .concat(),
            ),
            each_tile = self.each_tile(),
            first_rows = of_rows(0),
            second_rows = of_rows(1),
            next = self.next_stage(),
        )
    }

    fn next_stage(&self) -> String {
        format!("if (++stage == {}) {{\nstage = 0;\nparity ^= 1;\n}}\n", self.n_stages)
    }

    /// The keys of a thread, and its sums.
    fn thread(&self, sums: &str) -> String {
        let mut text = format!(
            "\
{}\
const unsigned int in_group = threadIdx.x % {WARPGROUP};
const unsigned int own_line = group * {ROWS} + in_group / 32 * 16 + in_group % 32 / 4;
const int own_key = first_key + own_line;
",
            self.cores.take_registers(240)
        );
        for (number, sum) in self.over_queries.iter().enumerate() {
            let n_sums = self.columns_of(sum.product) / 2;
            text += &format!(
                "float sums_{number}[{n_sums}];\n#pragma unroll\n\
                 for (int i = 0; i < {n_sums}; i++) sums_{number}[i] = 0.0f;\n"
            );
        }
        if let Some(sum) = &self.over_keys {
            let width = self.columns_of(sum.product);
            let of_group = TILE * width / 2;
            text += &format!(
                "\
unsigned int turn = 0;
int before = -1;
float of_queries[{n_sums}];
const unsigned int own_slopes = slopes + own_line * {LINE_BYTES} + in_group % 4 * 4;
const auto add_sums = [&]() {{
float *to = {sums} + ((unsigned long long)z * {n_tiles} + before) * {of_tile} + group * {of_group} + in_group * {of_thread};
#pragma unroll
for (int j = 0; j < {n_groups}; j++)
{add}\
}};
",
                n_sums = width / 4,
                n_tiles = self.n_tiles(),
                of_tile = TILE * width,
                n_groups = width / 16,
                of_thread = self.sum_strides()[0],
                add = self.add(),
            );
        }
        text
    }

    /// The addition of four sums, of columns `4 * j` on.
    fn add(&self) -> String {
        if self.adds_four {
            let sums: Vec<String> = (0..4).map(|i| format!("of_queries[4 * j + {i}]")).collect();
            return format!("add_four(to + j * 512, {});\n", sums.join(", "));
        }
        let next = self.sum_strides()[1];
        format!("for (int i = 0; i < 4; i++) atomicAdd(to + j * 512 + i * {next}, of_queries[4 * j + i]);\n")
    }

    /// The products of the keys of a warpgroup and a tile of queries.
    fn products_of_points(&self, product: usize, into: &str) -> String {
        let (name, n_steps) = (self.of_points().name(), self.depths[product].div_ceil(16));
        let matrix = format!("matrix<{}, 16>", 8 * LINE_BYTES);
        format!(
            "\
await_phase(rows_full_{product} + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < {n_steps}; k++)
{name}({into}, {matrix}(columns_{product} + group * {of_group} + k / 4 * {of_columns} + k % 4 * 32), \
{matrix}(rows_{product} + stage * {bytes} + k / 4 * {of_rows} + k % 4 * 32), k);
end_products();
",
            of_group = ROWS * LINE_BYTES,
            of_columns = KEYS * LINE_BYTES,
            bytes = self.row_bytes(product),
            of_rows = TILE * LINE_BYTES,
        )
    }

    /// The products of values at the points, which are in registers, and a tile of rows.
    fn products_of_queries(&self, number: usize, sum: &Sum) -> String {
        let (name, product) = (self.of_queries(sum).name(), sum.product);
        let (value, n_words) = (self.points.values[sum.value].0, TILE / 4);
        format!(
            "\
unsigned int words_{number}[{n_words}];
#pragma unroll
for (int i = 0; i < {n_words}; i++) words_{number}[i] = pack_{pack}(value_{value}[2 * i], value_{value}[2 * i + 1]);
begin_products();
#pragma unroll
for (int k = 0; k < {n_steps}; k++)
{name}(sums_{number}, words_{number} + 4 * k, \
matrix<{group}, {block}>(rows_{product} + stage * {bytes} + k * {step}), 1);
end_products();
",
            pack = if self.dtype == DType::F16 { "f16" } else { "bf16" },
            n_steps = TILE / 16,
            group = 8 * LINE_BYTES,
            block = TILE * LINE_BYTES,
            bytes = self.row_bytes(product),
            step = 16 * LINE_BYTES,
        )
    }

    /// Values at the points go to shared memory, a line of queries for each key, for the product that sums over keys.
    fn share(&self, sum: &Sum) -> String {
        let (value, bytes) = (self.points.values[sum.value].0, self.slope_bytes());
        // Both warpgroups have read the tile before.
        let await_readers = if self.n_slopes() == 1 { "await_turn(3);\n" } else { "" };
        format!(
            "\
{await_readers}\
#pragma unroll
for (int j = 0; j < {n}; j++)
#pragma unroll
for (int half = 0; half < 2; half++)
store_word(own_slopes + turn * {bytes} + half * {half_bytes} + (j ^ own_line % 8) * 16, \
pack_{pack}(value_{value}[4 * j + 2 * half], value_{value}[4 * j + 2 * half + 1]));
publish_shared();
",
            n = TILE / 8,
            half_bytes = 8 * LINE_BYTES,
            pack = if self.dtype == DType::F16 { "f16" } else { "bf16" },
        )
    }

    /// The products that sum over the keys of both warpgroups.
    fn products_of_keys(&self, sum: &Sum) -> String {
        let (name, product, bytes) = (self.of_keys(sum).name(), sum.product, self.slope_bytes());
        let (group, block) = (8 * LINE_BYTES, KEYS * LINE_BYTES);
        // Half of the columns: a block of lines, or half of each line.
        let of_group = if self.columns_of(product) == 128 { block } else { LINE_BYTES / 2 };
        format!(
            "\
await_turn(2);
begin_products();
#pragma unroll
for (int k = 0; k < {n_steps}; k++)
{name}(of_queries, matrix<{group}, {block}>(slopes + turn * {bytes} + k * {step}), \
matrix<{group}, {block}>(columns_{product} + group * {of_group} + k * {step}), k);
end_products();
",
            n_steps = KEYS / 16,
            step = 16 * LINE_BYTES,
        )
    }

    /// The tiles of a warpgroup that multiplies. The first phase runs beside the second product, and the second phase
    /// beside the products of the first one.
    pub fn tiles(&self) -> String {
        let n_points = TILE / 2;
        let of_phase = |phase: usize| {
            let sums = self.over_queries.iter().enumerate();
            let of_phase = sums.filter(move |(_, sum)| self.points.values[sum.value].1 == phase);
            of_phase.map(|(number, sum)| self.products_of_queries(number, sum)).collect::<String>()
        };
        let (early, n_early) = (of_phase(0), if of_phase(0).is_empty() { 0 } else { 1 });
        let (add, share, of_keys, hold_keys, after) = match &self.over_keys {
            None => Default::default(),
            Some(sum) => (
                "if (before >= 0) add_sums();\n".to_string(),
                self.share(sum),
                self.products_of_keys(sum),
                format!(
                    "hold(of_queries);\nbefore = tile;\n{}",
                    if self.n_slopes() == 1 { "" } else { "turn ^= 1;\n" }
                ),
                "if (before >= 0) add_sums();\n",
            ),
        };
        let hold: String =
            (0..self.over_queries.len()).map(|number| format!("hold(sums_{number});\n")).collect();
        format!(
            "\
await_phase(columns_full, 0);
{each_tile}\
float scores[{n_points}], slopes_of[{n_points}];
{first}\
{add}\
{second}\
await_products<1>();
hold(scores);
weigh(scores, tile);
{early}\
await_products<{n_early}>();
hold(slopes_of);
slope(slopes_of, tile);
{share}\
{late}\
{of_keys}\
await_products<0>();
{hold}\
{hold_keys}\
{release}\
{next}\
}}
{after}",
            each_tile = self.each_tile(),
            first = self.products_of_points(0, "scores"),
            second = self.products_of_points(1, "slopes_of"),
            late = of_phase(1),
            release = self.cores.release("rows_empty + 8 * stage"),
            next = self.next_stage(),
        )
    }

    /// The loops over groups of eight neighbours of a sum over queries, with their row and column.
    pub(super) fn groups(&self, number: usize, sum: &Sum) -> String {
        let n_groups = self.columns_of(sum.product) / 32;
        let (n, columns) = (self.n, self.depths[sum.product]);
        let inside = [
            (!n.is_multiple_of(KEYS)).then(|| format!("row < {n}")),
            (columns < self.columns_of(sum.product)).then(|| format!("column < {columns}")),
        ];
        let inside: Vec<String> = inside.into_iter().flatten().collect();
        let condition =
            if inside.is_empty() { String::new() } else { format!("if ({}) ", inside.join(" && ")) };
        format!(
            "\
#pragma unroll
for (int j = 0; j < {n_groups}; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {{
const unsigned int row = own_key + 8 * half, column = 32 * j + threadIdx.x % 4 * 8;
float part[8];
#pragma unroll
for (int e = 0; e < 8; e++) part[e] = sums_{number}[16 * j + e / 2 * 4 + half * 2 + e % 2];
gather_columns(part);
{condition}{{
"
        )
    }
}
