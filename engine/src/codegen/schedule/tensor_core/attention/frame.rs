//! The frame of attention on tensor cores, around the scores, the values of rows and the result.

use super::TensorCoreAttention;
use crate::codegen::schedule::tensor_core::{LINE_BYTES, ROWS};
use crate::ir::DType;
use std::f64::consts::LOG2_E;

/// A matrix in shared memory whose lines lie across memory.
const MATRIX: &str = "matrix<1024, 16>";

impl TensorCoreAttention {
    /// Shared memory, its barriers, and the warpgroup that copies.
    pub fn begin(&self) -> String {
        let group = "const unsigned int group = threadIdx.x / 128;\n";
        [self.places(), group.to_string(), self.barriers(), self.copier()].concat()
    }

    /// Where the tiles and their barriers lie. Barrier `i` of a ring is `8 * i` bytes after the first.
    fn places(&self) -> String {
        let n_stages = self.n_stages;
        let (keys, values) = (n_stages * self.key_bytes(), n_stages * self.value_bytes());
        let (queries, ring) = (self.query_bytes(), 8 * n_stages);
        format!(
            "\
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int keys = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int values = keys + {keys}, queries = values + {values};
const unsigned int queries_full = queries + {queries}, queries_empty = queries_full + 8;
const unsigned int keys_full = queries_empty + 8, keys_empty = keys_full + {ring};
const unsigned int values_full = keys_empty + {ring}, values_empty = values_full + {ring};
"
        )
    }

    fn barriers(&self) -> String {
        let n_stages = self.n_stages;
        let (n_fillers, n) = (self.cores.n_fillers(), self.cores.n_readers(self.n_multipliers));
        format!(
            "\
if (threadIdx.x == 0) {{
init_barrier(queries_full, {n_fillers});
init_barrier(queries_empty, {n});
for (int i = 0; i < {n_stages}; i++) {{
init_barrier(keys_full + 8 * i, {n_fillers});
init_barrier(keys_empty + 8 * i, {n});
init_barrier(values_full + 8 * i, {n_fillers});
init_barrier(values_empty + 8 * i, {n});
}}
}}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0, round = 0;
"
        )
    }

    /// The loop over blocks of rows, and the tiles of keys that a block sees. Odd rounds run in reverse, so that an
    /// SM has blocks with many tiles and blocks with few.
    pub fn items(&self) -> String {
        let (n_blocks, section) = (self.n_row_blocks(), self.section);
        let (rows, batch) = (self.rows_of_block(), self.batch);
        format!(
            "\
for (unsigned int n = 0, item; (item = n * gridDim.x + (n % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) < {n_items}; \
n++) {{
const unsigned int section = item / {of_section}, in_section = item % {of_section};
const unsigned int height = min({batch} - section * {section}, {section}u);
const unsigned int z = section * {section} + in_section % height;
const unsigned int first_row = ({last_block} - in_section / height) * {rows};
{range}",
            n_items = batch * n_blocks,
            of_section = section * n_blocks,
            last_block = n_blocks - 1,
            range = self.range(),
        )
    }

    /// The first tile, and the one after the last. A block that sees no key has one tile, in which all keys are hidden.
    fn range(&self) -> String {
        let (m, n, keys, period) = (self.m, self.n, self.tile_keys, self.rows.period);
        let n_tiles = self.n.div_ceil(keys);
        let [first, end] = self.rows.bounds;
        if self.rows.bounds == [None; 2] {
            return format!("const int first_tile = 0, end_tile = {n_tiles};\n");
        }
        let rows = self.rows_of_block();
        let mut text = format!("const int last_row = min(first_row + {rows}, {m}u) - 1;\n");
        if period == m {
            text += "const int lowest = first_row, highest = last_row;\n";
        } else {
            text += &format!(
                "\
const bool is_one = first_row / {period} == last_row / {period};
const int lowest = is_one ? first_row % {period} : 0, highest = is_one ? last_row % {period} : {last};
",
                last = period - 1
            );
        }
        let last_tile = n_tiles - 1;
        text += &match first {
            None => "const int first_tile = 0;\n".to_string(),
            Some(first) => {
                format!("const int first_tile = min(max(lowest + {first}, 0) / {keys}, {last_tile});\n")
            }
        };
        text + &match end {
            None => format!("const int end_tile = {n_tiles};\n"),
            Some(end) => format!(
                "const int end_tile = max((min(max(highest + {end}, 0), {n}) + {round}) / {keys}, first_tile + 1);\n",
                round = keys - 1
            ),
        }
    }

    /// Whether a row of the block may not see each key of tile `tile`.
    pub fn is_edge(&self) -> String {
        let (n, keys) = (self.n, self.tile_keys);
        let [first, end] = self.rows.bounds;
        let hides = [
            first.map(|first| format!("highest + {first} > tile * {keys}")),
            end.map(|end| format!("(tile + 1) * {keys} > lowest + {end}")),
            self.is_ragged().then(|| format!("(tile + 1) * {keys} > {n}")),
        ];
        hides.into_iter().flatten().collect::<Vec<_>>().join(" || ")
    }

    /// Whether the last tile has keys that do not exist.
    pub fn is_ragged(&self) -> bool {
        !self.n.is_multiple_of(self.tile_keys)
    }

    /// The warpgroup that copies queries, and keys and values tile by tile.
    fn copier(&self) -> String {
        let (n, give) = (self.n_multipliers, self.registers()[0]);
        let (n_stages, key_bytes, value_bytes) = (self.n_stages, self.key_bytes(), self.value_bytes());
        let rows = self.rows_of_block();
        // A tile of so many bytes, columns and lines.
        let fill = |map: usize, [n_bytes, columns, lines]: [usize; 3], name: &str, row: &str| {
            let (to, barrier) = match map {
                0 => (name.to_string(), format!("{name}_full")),
                _ => (format!("to_{name}"), format!("{name}_full + 8 * stage")),
            };
            let copy = |i: usize| {
                let (to, column) = (format!("{to} + {}", i * lines * LINE_BYTES), (64 * i).to_string());
                self.operands[map].copy(self.cores, map, &to, [column.as_str(), row], &barrier)
            };
            let copies: String = (0..columns.div_ceil(64)).map(copy).collect();
            self.cores.fill(&barrier, n_bytes, &copies)
        };
        let key = format!("tile * {}", self.tile_keys);
        format!(
            "\
{copier}\
{items}\
await_phase(queries_empty, round ^ 1);
{fill_queries}\
round ^= 1;
#pragma unroll 1
for (int tile = end_tile - 1; tile >= first_tile; tile--) {{
const unsigned int to_keys = keys + stage * {key_bytes}, to_values = values + stage * {value_bytes};
await_phase(keys_empty + 8 * stage, parity ^ 1);
{fill_keys}\
await_phase(values_empty + 8 * stage, parity ^ 1);
{fill_values}\
{next}\
}}
}}
}}
}} else {{
",
            copier = self.cores.copier(n, give),
            items = self.items(),
            fill_queries = fill(0, [self.query_bytes(), self.k, rows], "queries", "first_row"),
            fill_keys = fill(1, [key_bytes, self.k, self.tile_keys], "keys", &key),
            fill_values = fill(2, [value_bytes, self.width, self.tile_keys], "values", &key),
            next = next_stage(n_stages),
        )
    }

    /// The state of a thread for its two rows of a block: running largest scores and sums, weights, and the result.
    pub fn state(&self) -> String {
        let (n_weights, n_results) = (self.tile_keys / 4, self.columns() / 2);
        format!(
            "\
const float minus_infinity = __int_as_float(0xff800000);
float largest_score[2] = {{minus_infinity, minus_infinity}}, total[2] = {{0.0f, 0.0f}}, scale[2];
unsigned int weights[{n_weights}];
float result[{n_results}];
#pragma unroll
for (int i = 0; i < {n_results}; i++) result[i] = 0.0f;
"
        )
    }

    /// `weigh`: from scores to their exponentials, relative to the largest score so far, and the scale of earlier ones.
    pub fn weigh(&self, has_fast_math: bool) -> String {
        let (n_scores, n_pairs) = (self.tile_keys / 2, self.tile_keys / 8);
        let factor = (LOG2_E * self.rows.scale(has_fast_math).map_or(1.0, |(_, scale)| scale)) as f32;
        let is_zero = match self.rows.zero_for {
            [_, true] => "fabs(most) == -minus_infinity",
            _ => "most == minus_infinity",
        };
        let times = |x: &str| if has_fast_math { format!("{x} * {factor:?}f") } else { x.to_string() };
        let power = |x: &str| match has_fast_math {
            true => format!("rough_exp2(fma({x}, {factor:?}f, -reference))"),
            false => format!("exp({x} - reference)"),
        };
        format!(
            "\
const auto weigh = [&](float (&scores)[{n_scores}]) {{
#pragma unroll
for (int half = 0; half < 2; half++) {{
float most = largest_score[half];
#pragma unroll
for (int j = 0; j < {n_pairs}; j++)
most = largest(most, largest(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
most = largest(most, __shfl_xor_sync(~0u, most, 1));
most = largest(most, __shfl_xor_sync(~0u, most, 2));
const float reference = {is_zero} ? 0.0f : {most};
scale[half] = {before};
largest_score[half] = most;
float sum = total[half] * scale[half];
#pragma unroll
for (int j = 0; j < {n_pairs}; j++)
#pragma unroll
for (int i = 4 * j + 2 * half; i < 4 * j + 2 * half + 2; i++) sum += scores[i] = {power};
total[half] = sum;
}}
}};
",
            most = times("most"),
            before = power("largest_score[half]"),
            power = power("scores[i]"),
        )
    }

    /// The tiles of a block: the products of a tile's scores run beside the products of the weights before.
    pub fn tiles(&self) -> String {
        let n_scores = self.tile_keys / 2;
        let (await_turn, give_turn) = self.turns();
        format!(
            "\
await_phase(queries_full, round);
round ^= 1;
{held_queries}\
unsigned int before;
{{
float scores[{n_scores}];
await_phase(keys_full + 8 * stage, parity);
{await_turn}\
{scores}\
{give_turn}\
await_products<0>();
{weights}\
{pack}\
before = stage;
{next}\
}}
#pragma unroll 1
for (int tile = end_tile - 2; tile >= first_tile; tile--) {{
float scores[{n_scores}];
await_phase(keys_full + 8 * stage, parity);
{await_turn}\
{scores}\
{products}\
{give_turn}\
await_products<1>();
{weights_of_tile}\
await_products<0>();
{rescale}\
{pack}\
before = stage;
{next}\
}}
{release_queries}\
{products}\
await_products<0>();
hold(result);
{release_values}",
            held_queries = self.held_queries(),
            scores = self.score_products(),
            products = self.value_products(),
            weights = self.weights("end_tile - 1"),
            weights_of_tile = self.weights("tile"),
            rescale = self.rescale(),
            pack = self.pack(),
            next = next_stage(self.n_stages),
            release_queries =
                if self.holds_queries() { String::new() } else { self.cores.release("queries_empty") },
            release_values = self.cores.release("values_empty + 8 * before"),
        )
    }

    /// The lines in which a warpgroup awaits its turn to multiply, and gives it to the next one. Products that run beside other
    /// lines need turns.
    fn turns(&self) -> (&'static str, String) {
        match self.cores.is_asynchronous() {
            true => ("await_turn(group);\n", format!("give_turn((group + 1) % {});\n", self.n_multipliers)),
            false => ("", String::new()),
        }
    }

    /// The products of queries and a tile of keys.
    fn score_products(&self) -> String {
        let (name, n_steps) = (self.products()[0].name(), self.n_score_steps());
        let (key_box, key_bytes) = (self.tile_keys * LINE_BYTES, self.key_bytes());
        let queries = if self.holds_queries() { "held + 4 * k".to_string() } else { self.query_matrix() };
        format!(
            "\
begin_products();
#pragma unroll
for (int k = 0; k < {n_steps}; k++)
{name}(scores, {queries}, {MATRIX}(keys + stage * {key_bytes} + k / 4 * {key_box} + k % 4 * 32), k);
end_products();
"
        )
    }

    /// The queries of a warpgroup in step `k`.
    fn query_matrix(&self) -> String {
        let (of_group, of_box) = (ROWS * LINE_BYTES, self.rows_of_block() * LINE_BYTES);
        format!("{MATRIX}(queries + group * {of_group} + k / 4 * {of_box} + k % 4 * 32)")
    }

    /// Steps along the columns of a query.
    fn n_score_steps(&self) -> usize {
        self.k.div_ceil(16)
    }

    /// The queries of a block in registers, if they stay there. The next ones may then be copied.
    fn held_queries(&self) -> String {
        if !self.holds_queries() {
            return String::new();
        }
        let (n_steps, release) = (self.n_score_steps(), self.cores.release("queries_empty"));
        format!(
            "\
unsigned int held[{n_words}];
#pragma unroll
for (int k = 0; k < {n_steps}; k++) load_left(held + 4 * k, {queries});
{release}",
            n_words = 4 * n_steps,
            queries = self.query_matrix(),
        )
    }

    /// The products of the weights and the tile of values before.
    fn value_products(&self) -> String {
        let (name, n_steps) = (self.products()[1].name(), self.tile_keys / 16);
        let (group, block) = (8 * LINE_BYTES, self.tile_keys * LINE_BYTES);
        format!(
            "\
await_phase(values_full + 8 * before, stage ? parity : parity ^ 1);
begin_products();
#pragma unroll
for (int k = 0; k < {n_steps}; k++)
{name}(result, weights + 4 * k, matrix<{group}, {block}>(values + before * {bytes} + k * {step}), 1);
end_products();
",
            bytes = self.value_bytes(),
            step = 16 * LINE_BYTES,
        )
    }

    /// From the finished products of a tile to weights.
    fn weights(&self, tile: &str) -> String {
        format!(
            "\
hold(scores);
{release}\
complete(scores, {tile});
weigh(scores);
",
            release = self.cores.release("keys_empty + 8 * stage"),
        )
    }

    fn rescale(&self) -> String {
        let n_results = self.columns() / 2;
        format!(
            "\
hold(result);
{release}\
#pragma unroll
for (int i = 0; i < {n_results}; i++) result[i] *= scale[i / 2 % 2];
",
            release = self.cores.release("values_empty + 8 * before"),
        )
    }

    /// Weights of a tile as the left matrix of a product.
    fn pack(&self) -> String {
        let (n_weights, name) = (self.tile_keys / 4, if self.dtype == DType::F16 { "f16" } else { "bf16" });
        format!(
            "\
#pragma unroll
for (int i = 0; i < {n_weights}; i++) weights[i] = pack_{name}(scores[2 * i], scores[2 * i + 1]);
"
        )
    }

    /// The totals of rows, which four threads share.
    pub fn totals(&self) -> String {
        let mut text = "\
float factor[2];
#pragma unroll
for (int half = 0; half < 2; half++) {
total[half] += __shfl_xor_sync(~0u, total[half], 1);
total[half] += __shfl_xor_sync(~0u, total[half], 2);
"
        .to_string();
        if !self.rows.zero_for[0] {
            text += "if (largest_score[half] == minus_infinity) total[half] = __int_as_float(0x7fc00000);\n";
        }
        text + "}\n"
    }

    /// The loops over groups of eight neighbours of the result, with their row and column.
    pub fn groups(&self) -> String {
        let n_groups = self.columns() / 32;
        let (m, is_ragged) = (self.m, !self.m.is_multiple_of(self.rows_of_block()));
        let inside = [
            is_ragged.then(|| format!("row < {m}")),
            (self.width < self.columns()).then(|| format!("column < {}", self.width)),
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
const unsigned int row = own_row + 8 * half, column = 32 * j + threadIdx.x % 4 * 8;
float part[8];
#pragma unroll
for (int e = 0; e < 8; e++) part[e] = result[16 * j + e / 2 * 4 + half * 2 + e % 2] * factor[half];
gather_columns(part);
{condition}{{
"
        )
    }
}

/// The step to the next stage of the rings.
fn next_stage(n_stages: usize) -> String {
    format!("if (++stage == {n_stages}) {{\nstage = 0;\nparity ^= 1;\n}}\n")
}
