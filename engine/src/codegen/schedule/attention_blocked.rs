//! Attention of many queries without tensor cores: a block of threads takes a tile of queries against tiles of keys.
//!
//! - Each thread has some rows and some keys of a tile of scores, and some columns of the result, all in registers.
//! - Slices of queries, keys and values go through shared memory, as in a blocked matmul. So do the weights of a tile.
//! - Running largest scores and sums replace the row (`online_softmax`). Tiles of keys that no row of the block sees are left
//!   out. No score is stored.

use crate::codegen::analysis::online_softmax::OnlineSoftmax;
use crate::codegen::analysis::visible_keys::VisibleKeys;
use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::OperandForm;
use crate::codegen::schedule::source::SourceForm;
use crate::codegen::schedule::tile_block::{DEPTH, LANES, Lines, suits, threads};
use crate::codegen::types::LARGEST_NARROW;
use crate::device_model::DeviceModel;
use crate::fusion::{AttentionBody, FusedBody, Kernel, Work};
use crate::ir::DType;

/// Rows and keys of a tile, the best first. Larger tiles read shared memory less often. The last one is for 8 threads side by
/// side.
const TILES: [[usize; 2]; 3] = [[128, 64], [64, 64], [128, 32]];
/// The fewest of the largest tiles that leave no SM of a large GPU idle, and the most rows of a thread where there are fewer.
const MANY_TILES: usize = 256;
const MOST_ROWS_OF_FEW: usize = 4;
/// Blocks that leave most SMs of a large GPU idle, and the most lines that these take in. Matmuls divide longer sums.
const FEW_BLOCKS: usize = 32;
const MOST_LINES_OF_FEW: usize = 4096;
/// The most elements of the result that a thread has in registers.
const MOST_RESULTS: usize = 64;

/// An attention of tiles of queries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionBlocked {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) width: usize,
    pub(super) softmax: OnlineSoftmax,
    pub(super) query: SourceForm,
    pub(super) key: SourceForm,
    pub(super) value: SourceForm,
    pub(super) end: FusedBody,
    /// Queries of a tile.
    pub(super) rows: Lines,
    /// Keys of a tile.
    pub(super) keys: Lines,
    /// Columns of the result.
    pub(super) columns: Lines,
}

/// Whether the device has such a kernel for an attention.
pub fn takes(body: &AttentionBody, device: &DeviceModel) -> bool {
    AttentionBlocked::of(body, device).is_some()
}

/// The launch of an attention by tiles. None if the device multiplies faster by other means, or if the rows are no online
/// softmax.
pub fn launch(kernel: &Kernel, body: &AttentionBody, device: DeviceModel) -> Option<KernelSpec> {
    let schedule = AttentionBlocked::of(body, &device)?;
    Some(KernelSpec::new(body.rows.clone(), schedule, OperandForm::of(kernel), device))
}

/// Whether the device multiplies matrices of a type on matrix units, so fast that storing the scores costs less.
pub fn has_units(dtype: DType, device: &DeviceModel) -> bool {
    device.has_matrix_units && matches!(dtype, DType::F16 | DType::BF16)
}

/// Whether tiles compute what some bodies need on a device, at so many points.
pub fn computes(bodies: &[&FusedBody], n_points: usize, device: &DeviceModel) -> bool {
    let is_double = bodies.iter().any(|body| body.insts.iter().any(|inst| inst.dtype == DType::F64));
    let has_checks = bodies.iter().any(|body| body.has_checks());
    let has_numbers = device.has_i64 || n_points <= LARGEST_NARROW;
    suits(device) && has_numbers && !is_double && !has_checks
}

/// Whether so many blocks, each of which takes in so many lines, fill the device as well as matmuls.
pub fn fill(n_blocks: usize, n_lines: usize) -> bool {
    n_blocks >= FEW_BLOCKS || n_lines <= MOST_LINES_OF_FEW
}

/// The most columns of queries and values for which a device has a tile; 0 if it has none.
pub fn most_columns(device: &DeviceModel) -> usize {
    let [_, across] = threads(device);
    let columns = (1..=MOST_RESULTS / LANES).rev().map(|each| each * across);
    let has_tile = |&columns: &usize| tilings(columns, device).next().is_some();
    columns.filter(|_| suits(device)).find(has_tile).unwrap_or_default()
}

/// The rows, keys and columns of tiles for which registers and shared memory have room, the best first.
fn tilings(width: usize, device: &DeviceModel) -> impl Iterator<Item = [Lines; 3]> {
    let ([down, across], shared_bytes) = (threads(device), device.shared_bytes);
    let lines = TILES.iter().map(move |&[rows, keys]| {
        [Lines::new(down, rows), Lines::new(across, keys), Lines::new(across, width)]
    });
    lines.filter(move |lines| {
        let [rows, keys, columns] = lines;
        let [weights, values] = n_shared_vectors(lines);
        let bytes = (weights * LANES + values * columns.lanes) * size_of::<f32>();
        bytes <= shared_bytes
            && rows.each * columns.each <= MOST_RESULTS
            && [rows.lanes, keys.lanes] == [LANES; 2]
    })
}

/// Vectors of the weights of a tile, in whose place slices of queries and keys lie before, and of slices of values.
fn n_shared_vectors([rows, keys, columns]: &[Lines; 3]) -> [usize; 2] {
    let slices = DEPTH * (rows.pitch() + keys.pitch());
    [slices.max(keys.count() * rows.pitch()), DEPTH * columns.pitch()]
}

impl AttentionBlocked {
    fn of(body: &AttentionBody, device: &DeviceModel) -> Option<AttentionBlocked> {
        let &AttentionBody { batch, m, n, k, width, dtype, .. } = body;
        let is_empty = [batch, m, n, k, width].contains(&0);
        if !computes(&body.bodies(), batch * m * n, device) || has_units(dtype, device) || is_empty {
            return None;
        }
        let softmax = OnlineSoftmax::of(body)?;
        let is_many = batch * m.div_ceil(TILES[0][0]) >= MANY_TILES;
        let mut tilings = tilings(width, device);
        let [rows, keys, columns] = tilings.find(|[rows, ..]| is_many || rows.each <= MOST_ROWS_OF_FEW)?;
        let sources = [&body.query, &body.key, &body.value];
        let [query, key, value] = sources.map(SourceForm::from);
        let end = body.end.clone();
        let form =
            AttentionBlocked { batch, m, n, k, width, softmax, query, key, value, end, rows, keys, columns };
        fill(form.n_blocks(), n).then_some(form)
    }

    /// Tiles of queries of all matrices.
    pub(super) fn n_blocks(&self) -> usize {
        self.batch * self.m.div_ceil(self.rows.count())
    }

    pub(super) fn n_shared_vectors(&self) -> [usize; 2] {
        n_shared_vectors(&[self.rows, self.keys, self.columns])
    }

    /// The keys that the rows of a tile see ([`bounds`]).
    pub(super) fn bounds(&self) -> [Option<i64>; 2] {
        bounds(&self.softmax.visible, [self.m, self.n], self.rows)
    }
}

/// The keys that queries of a tile see, relative to its first query: the first key, and the first one after them. None if the
/// queries of a tile have no ascending numbers.
pub fn bounds(visible: &VisibleKeys, [n_queries, n_keys]: [usize; 2], tile: Lines) -> [Option<i64>; 2] {
    let counts_up = visible.period == n_queries
        || n_queries.is_multiple_of(visible.period) && visible.period.is_multiple_of(tile.count());
    let within = |bound: i64| bound.clamp(-(n_queries as i64), n_keys as i64);
    if counts_up { [visible.first, visible.end].map(|bound| bound.map(within)) } else { [None; 2] }
}
