//! Long rows of an ordered scatter. A thread alone would wait for memory once for every few updates. So a block loads many
//! updates together to shared memory, and a thread for each column adds them in order.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::ops::buffers::Memory;
use crate::codegen::schedule::scatter_rows::{LONG_PIECE, MOST_INSTRUCTIONS, Rows};
use crate::codegen::schedule::scatter_update::sum;
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::ir::DType;
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};

/// Columns of a tile. Tiles of a row lie in different blocks, so narrow tiles load more updates of a row at a time.
const COLUMNS: usize = 32;
/// Columns of a tile of rows that have at least `MANY` columns, whose narrow tiles would be too many.
const WIDE_COLUMNS: usize = 128;
const MANY: usize = 1024;
/// Vectors that a thread loads at a time.
const MOST_LOADED: usize = 8;
/// The most bytes of shared memory.
const MOST_BYTES: usize = 1 << 15;
/// Updates that a thread reads from shared memory before it adds them.
const READ_TOGETHER: usize = 8;

/// The updates that a block loads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tile {
    /// Columns of a block.
    columns: usize,
    /// Tiles of a row.
    pub(super) n_tiles: usize,
    /// Neighbours of a thread.
    width: usize,
    /// Vectors that a thread loads at a time.
    loaded: usize,
}

impl Tile {
    /// The tile of rows of `after` elements, loaded as vectors of `width`, by a body of so many instructions. `None` if the
    /// device does not keep numbers of this type one to a word or more.
    pub(super) fn of(
        dtype: DType,
        after: usize,
        [width, n_insts]: [usize; 2],
        device: DeviceModel,
    ) -> Option<Tile> {
        let columns = after.min(if after >= MANY { WIDE_COLUMNS } else { COLUMNS });
        let bytes = MOST_BYTES.min(device.shared_bytes) / device.register(dtype).size();
        let fitting = bytes / (columns * (THREADS / (columns / width)));
        let loaded = if n_insts > MOST_INSTRUCTIONS { fitting.min(1) } else { fitting.min(MOST_LOADED) };
        let is_whole = device.lanes(dtype) == 1 && dtype.is_float();
        (is_whole && loaded > 0).then(|| Tile { columns, n_tiles: after.div_ceil(columns), width, loaded })
    }

    /// Threads side by side in a row.
    fn groups(&self) -> usize {
        self.columns / self.width
    }

    /// Rows whose updates the block loads by one vector a thread.
    fn rows_at_once(&self) -> usize {
        THREADS / self.groups()
    }

    /// Rows of a chunk.
    fn rows(&self) -> usize {
        self.rows_at_once() * self.loaded
    }
}

/// A row with a full piece: its first place in the order, the place after its last one, and the first column of the tile.
struct Long {
    key: Variable,
    start: Variable,
    end: Variable,
    column: Variable,
}

impl Rows<'_> {
    /// A block for each tile of a row whose first full piece it is; other blocks do nothing.
    pub(super) fn long(&self, code: &mut Code, tile: Tile, block: Variable) -> Result<(), CodegenError> {
        let (piece, number) = (code.divided(block, tile.n_tiles), code.modulo(block, tile.n_tiles));
        let first = code.scaled(piece, LONG_PIECE as i64);
        let key = code.load(self.keys, first);
        let is_full = self.is_of(code, key, first, LONG_PIECE as i64 - 1);
        let is_behind = self.is_of(code, key, first, -(LONG_PIECE as i64));
        let n_rows = code.int(U32, self.extents.n_rows as i64);
        let is_row = code.less(key, n_rows);
        let is_first = code.not(is_behind);
        let is_first = code.and(is_first, is_full);
        let is_long = code.and(is_first, is_row);
        let mut result = Ok(());
        code.when(is_long, |code| {
            let (zero, n) = (code.at(0), code.at(self.extents.n as i64));
            let start = self.first_place(code, key, [zero, first]);
            let one = code.int(U32, 1);
            let next = code.bin(Arithmetic::Add, key, one);
            let end = self.first_place(code, next, [first, n]);
            let column = code.scaled(number, tile.columns as i64);
            result = self.in_chunks(code, tile, &Long { key, start, end, column });
        });
        result
    }

    /// The first place from `low` to `high` whose key is at least that one; `high` if there is none before.
    fn first_place(&self, code: &mut Code, key: Variable, [low, high]: [Variable; 2]) -> Variable {
        let (low, high) = (code.mutable(low), code.mutable(high));
        let (start, n_halvings) = (code.at(0), code.at(i64::from((self.extents.n + 1).ilog2()) + 1));
        code.range(start, n_halvings, 1, |code, _| {
            let [from, to] = [low, high].map(|bound| code.snapshot(bound));
            let distance = code.bin(Arithmetic::Sub, to, from);
            let half = code.divided(distance, 2);
            let middle = code.add_at(from, half);
            let is_open = code.less(from, to);
            code.when(is_open, |code| {
                let there = code.load(self.keys, middle);
                let is_before = code.less(there, key);
                let behind = code.at_offset(middle, 1);
                let (from, to) = (code.select(is_before, behind, from), code.select(is_before, to, middle));
                code.assign(low, from);
                code.assign(high, to);
            });
        });
        code.snapshot(low)
    }

    /// Adds the updates of a long row chunk by chunk.
    fn in_chunks(&self, code: &mut Code, tile: Tile, long: &Long) -> Result<(), CodegenError> {
        let dtype = self.form.dtype;
        let shared = code.shared(code.device.register(dtype), tile.rows() * tile.columns);
        let unit = code.builtin(Builtin::UnitPosX);
        let own = code.add_at(long.column, unit);
        let (after, columns) = (code.at(self.extents.after as i64), code.at(tile.columns as i64));
        let [is_column, is_inside] = [(unit, columns), (own, after)].map(|(x, end)| code.less(x, end));
        let adds = code.and(is_column, is_inside);
        let own = code.select(adds, own, long.column);
        let element = self.element_at(code, long.key, own);
        let old = self.body.shared.load(code, self.form.result, element);
        let total = code.mutable(old);
        let mut result = Ok(());
        code.range(long.start, long.end, tile.rows() as i64, |code, place| {
            result = self.load_chunk(code, tile, long, (place, shared));
            code.sync();
            code.when(adds, |code| self.add_chunk(code, tile, (place, long.end), (shared, unit), total));
            code.sync();
        });
        code.when(adds, |code| {
            let total = code.snapshot(total);
            self.body.shared.store_unless_failed(code, self.form.result, element, total);
        });
        result
    }

    /// Loads the updates of a chunk to shared memory. Past the end of the row, its first update takes the place of others.
    fn load_chunk(
        &self,
        code: &mut Code,
        tile: Tile,
        long: &Long,
        (place, shared): (Variable, Variable),
    ) -> Result<(), CodegenError> {
        let unit = code.builtin(Builtin::UnitPosX);
        let (row, group) = (code.divided(unit, tile.groups()), code.modulo(unit, tile.groups()));
        let within = code.scaled(group, tile.width as i64);
        let column = code.add_at(long.column, within);
        let after = code.at(self.extents.after as i64);
        let is_inside = code.less(column, after);
        let column = code.select(is_inside, column, long.column);
        let rows: Vec<Variable> =
            (0..tile.loaded).map(|i| code.at_offset(row, i * tile.rows_at_once())).collect();
        let numbers: Vec<Variable> = rows.iter().map(|&row| self.number_at(code, long, place, row)).collect();
        let updates = numbers.into_iter().map(|number| self.updates(code, number, column));
        let updates = updates.collect::<Result<Vec<_>, _>>()?;
        let all = code.at(tile.rows_at_once() as i64);
        let loads = code.less(row, all);
        code.when(loads, |code| {
            for (&row, updates) in rows.iter().zip(&updates) {
                let start = code.scaled(row, tile.columns as i64);
                let start = code.add_at(start, within);
                for (i, &update) in updates.iter().enumerate() {
                    let to = code.at_offset(start, i);
                    code.store(shared, to, update);
                }
            }
        });
        Ok(())
    }

    /// The number of an update of a chunk that begins at `place`.
    fn number_at(&self, code: &mut Code, long: &Long, place: Variable, row: Variable) -> Variable {
        let there = code.add_at(place, row);
        let is_inside = code.less(there, long.end);
        let there = code.select(is_inside, there, long.start);
        code.load(self.numbers, there)
    }

    /// Adds a column of a chunk in shared memory.
    fn add_chunk(
        &self,
        code: &mut Code,
        tile: Tile,
        (place, end): (Variable, Variable),
        (shared, column): (Variable, Variable),
        total: Variable,
    ) {
        let (left, rows) = (code.bin(Arithmetic::Sub, end, place), code.at(tile.rows() as i64));
        let is_last = code.cmp(Comparison::Lower, left, rows);
        let n = code.select(is_last, left, rows);
        let whole = code.divided(n, READ_TOGETHER);
        let whole = code.scaled(whole, READ_TOGETHER as i64);
        let add = |code: &mut Code, row: Variable, n: usize| {
            let start = code.scaled(row, tile.columns as i64);
            let start = code.add_at(start, column);
            let updates: Vec<Variable> = (0..n)
                .map(|i| {
                    let from = code.at_offset(start, i * tile.columns);
                    code.load(shared, from)
                })
                .collect();
            let old = code.snapshot(total);
            let total_then =
                updates.into_iter().fold(old, |old, update| sum(code, self.form.dtype, old, update));
            code.assign(total, total_then);
        };
        let zero = code.at(0);
        code.range(zero, whole, READ_TOGETHER as i64, |code, row| add(code, row, READ_TOGETHER));
        code.range(whole, n, 1, |code, row| add(code, row, 1));
    }
}
