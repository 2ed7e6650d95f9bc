//! The frame of a fold behind a product: blocks of rows that walk over tiles of columns.

use super::fold_shape::TensorCoreFold;
use super::score_fold::{OWN_COLUMN, OWN_ROW};
use super::{LINE_BYTES, N_MULTIPLIERS, ROWS, WARPGROUP};

impl TensorCoreFold {
    /// Shared memory and the barriers: `full` and `empty` for each stage of the ring, and for each kept block of rows.
    pub fn setup(&self) -> String {
        let (n_stages, n_kept, ring) = (self.n_stages, self.n_kept, self.n_stages * self.stage_bytes());
        let barriers = ring + n_kept * self.rows_bytes();
        let [empty, rows_full, rows_empty] = [8 * n_stages, 16 * n_stages, 16 * n_stages + 8 * n_kept];
        let (n_fillers, n_readers) =
            (self.product.cores.n_fillers(), self.product.cores.n_readers(N_MULTIPLIERS));
        let init = |full: &str, empty: &str, n: usize| {
            format!(
                "\
for (int i = 0; i < {n}; i++) {{
init_barrier({full} + 8 * i, {n_fillers});
init_barrier({empty} + 8 * i, {n_readers});
}}
"
            )
        };
        let (kept, init_kept, turn) = if self.keeps_rows() {
            (
                format!(
                    "const unsigned int rows_full = full + {rows_full}, rows_empty = full + {rows_empty};\n"
                ),
                init("rows_full", "rows_empty", n_kept),
                "unsigned int kept = 0, turn = 0;\n",
            )
        } else {
            (String::new(), String::new(), "")
        };
        format!(
            "\
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int ring = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int full = ring + {barriers}, empty = full + {empty};
{kept}\
const unsigned int group = threadIdx.x / {WARPGROUP};
if (threadIdx.x == 0) {{
{init_ring}\
{init_kept}\
}}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0;
{turn}",
            init_ring = init("full", "empty", n_stages),
        )
    }

    /// The loop over units: blocks of rows of all matrices, with one piece of the columns. Blocks that run at the same time
    /// read the same columns.
    pub fn units(&self) -> String {
        let [n_row_blocks, of_matrix] = self.row_blocks();
        format!(
            "\
for (unsigned int unit = blockIdx.x; unit < {n_units}; unit += gridDim.x) {{
const unsigned int piece = unit / {n_row_blocks}, z = unit % {n_row_blocks} / {of_matrix};
const unsigned int first_row = unit % {of_matrix} * {rows};
const unsigned int first_tile = piece * {of_piece}, end_tile = min(first_tile + {of_piece}, {n_tiles}u);
",
            n_units = self.n_units(),
            rows = self.product.tile.rows,
            of_piece = self.tiles_of_piece,
            n_tiles = self.n_tiles(),
        )
    }

    /// The loop over the tiles of a unit.
    pub fn tiles(&self) -> String {
        format!(
            "\
for (unsigned int tile = first_tile; tile < end_tile; tile++) {{
const unsigned int first_column = tile * {};
",
            self.product.tile.columns
        )
    }

    /// The warpgroup that copies.
    pub fn copier(&self) -> String {
        let (n_stages, stage_bytes, n_steps) = (self.n_stages, self.stage_bytes(), self.product.n_steps());
        let cores = self.product.cores;
        let left = if self.keeps_rows() { String::new() } else { self.product.copy(0, "first_row", 0, 0) };
        let right = self.product.copy(1, "first_column", self.right_start(), 0);
        format!(
            "\
{copier}\
{units}\
{kept}\
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
}}
}} else {{
",
            copier = cores.copier(N_MULTIPLIERS, 24),
            fill = cores.fill("barrier", stage_bytes, &(left + &right)),
            units = self.units(),
            kept = self.copy_kept(),
            tiles = self.tiles(),
        )
    }

    /// The copies of the rows that stay for all tiles of a unit.
    fn copy_kept(&self) -> String {
        if !self.keeps_rows() {
            return String::new();
        }
        let copies = format!(
            "\
for (unsigned int step = 0; step < {n_steps}; step++) {{
const unsigned int at = {place}, barrier = rows_full + 8 * kept;
{copy}\
}}
",
            n_steps = self.product.n_steps(),
            place = self.kept_place(),
            copy = self.product.copy(0, "first_row", 0, 0),
        );
        let fill = self.product.cores.fill("rows_full + 8 * kept", self.rows_bytes(), &copies);
        let next = self.next_kept();
        format!("await_phase(rows_empty + 8 * kept, turn ^ 1);\n{fill}{next}")
    }

    /// The place of a step of the kept rows.
    fn kept_place(&self) -> String {
        let (ring, bytes) = (self.n_stages * self.stage_bytes(), self.rows_bytes());
        format!("ring + {ring} + kept * {bytes} + step * {}", self.product.tile.rows * LINE_BYTES)
    }

    fn next_kept(&self) -> String {
        format!(
            "\
if (++kept == {}) {{
kept = 0;
turn ^= 1;
}}
",
            self.n_kept
        )
    }

    /// The warpgroups that multiply, up to a unit's first tile.
    pub fn multiplier(&self) -> String {
        let awaits = if self.keeps_rows() { "await_phase(rows_full + 8 * kept, turn);\n" } else { "" };
        format!(
            "\
{registers}\
const unsigned int in_group = threadIdx.x % {WARPGROUP};
const unsigned int own_row = group * {of_group} + in_group / 32 * 16 + in_group % 32 / 4;
{units}\
{awaits}",
            registers = self.product.cores.take_registers(240),
            of_group = self.product.n_parts() * ROWS,
            units = self.units(),
        )
    }

    /// The end of a unit: its rows may be overwritten.
    pub fn free_kept(&self) -> String {
        if !self.keeps_rows() {
            return String::new();
        }
        self.product.cores.release("rows_empty + 8 * kept") + &self.next_kept()
    }

    /// The products of a tile.
    pub fn multiply(&self) -> String {
        let (kept, right) = (self.kept_place(), format!("at + {}", self.right_start()));
        let left = if self.keeps_rows() { &kept } else { "at" };
        let right = if self.right_start() == 0 { "at" } else { &right };
        self.product.multiplier(self.n_stages, self.stage_bytes(), [left, right])
    }

    /// The loops over pairs of scores, with row and column of a pair.
    pub fn pairs(&self) -> String {
        format!(
            "\
#pragma unroll
for (int i = 0; i < {n_parts}; i++)
#pragma unroll
for (int j = 0; j < {n_pairs}; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {{
const unsigned int row = first_row + {OWN_ROW};
const unsigned int column = first_column + 8 * j + {OWN_COLUMN};
",
            n_parts = self.product.n_parts(),
            n_pairs = self.product.tile.columns / 8,
        )
    }
}
