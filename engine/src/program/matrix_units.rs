//! Blocks of matmuls on matrix units, where a GPU has them for halves: the threads of a subgroup hold squares of 16 by 16
//! together and multiply them at once (cooperative matrices).

use crate::device_model::DeviceModel;
use crate::fusion::{MatmulBody, MatrixOperand};
use crate::ir::DType;
use std::fmt;

/// How a product is cut into blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Rows and columns of the result.
    pub sides: [usize; 2],
    /// Length of the slices of the contracted axis.
    pub depth: usize,
    /// Rows and columns of a subgroup.
    pub plane: [usize; 2],
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block { sides, depth, plane } = self;
        write!(f, "{}x{}x{depth} by {}x{}", sides[0], sides[1], plane[0], plane[1])
    }
}

/// Threads of a subgroup.
pub const PLANE: usize = 32;
/// Halves that are read at once.
const VECTOR: usize = 8;
/// Halves between the rows of a slice, so that rows do not fall on the same banks.
pub const GAP: usize = 8;

/// Blocks that are worth trying, the most likely one first.
pub const BLOCKS: [Block; 4] = [
    Block { sides: [128, 128], depth: 32, plane: [64, 64] },
    Block { sides: [128, 128], depth: 32, plane: [64, 32] },
    Block { sides: [64, 128], depth: 32, plane: [32, 64] },
    Block { sides: [64, 64], depth: 32, plane: [32, 32] },
];

/// The blocks that cut a product without a rest and that a device has room for; none if it is no product of halves.
pub fn blocks(body: &MatmulBody, device: &DeviceModel) -> Vec<Block> {
    // Checks run before anything is multiplied, and would read the product.
    if !device.has_matrix_units
        || body.dtype != DType::F16
        || body.epilogue.has_checks()
        || body.rows.is_some()
    {
        return vec![];
    }
    let Some(slices) = slices(&body.lhs, &body.rhs) else { return vec![] };
    let is_whole = |block: &Block| {
        let [rows, columns] = block.sides;
        body.m.is_multiple_of(rows) && body.n.is_multiple_of(columns) && body.k.is_multiple_of(block.depth)
    };
    let shape = [body.batch, body.m, body.n];
    let fits = |block: &Block| is_whole(block) && block.fits(shape, &slices, device);
    BLOCKS.into_iter().filter(fits).collect()
}

/// A matrix, as slices of it are copied.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The matrix.
    pub matrix: MatrixOperand,
    /// Its name in a kernel.
    pub name: &'static str,
    /// Whether neighbours in memory are neighbours along the contracted axis.
    pub is_along: bool,
    /// From one row of neighbours to the next.
    pub pitch: i64,
}

/// Both matrices, if their neighbours are read at once.
pub fn slices(lhs: &MatrixOperand, rhs: &MatrixOperand) -> Option<[Slice; 2]> {
    let slice = |matrix: MatrixOperand, name, across: i64, along: i64| {
        let is_along = along == 1;
        let pitch = if is_along { across } else { along };
        let is_even = |distance: i64| distance.rem_euclid(VECTOR as i64) == 0;
        let is_dense = is_along || across == 1;
        let is_fit = is_dense && [pitch, matrix.batch, matrix.offset].into_iter().all(is_even) && pitch > 0;
        is_fit.then_some(Slice { matrix, name, is_along, pitch })
    };
    Some([slice(*lhs, "lhs", lhs.row, lhs.col)?, slice(*rhs, "rhs", rhs.col, rhs.row)?])
}

impl Block {
    /// Subgroups of a block.
    pub fn planes(&self) -> usize {
        self.sides[0] / self.plane[0] * (self.sides[1] / self.plane[1])
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        PLANE * self.planes()
    }

    /// Extents of a slice: rows of neighbours, and neighbours.
    pub fn extents(&self, slice: &Slice, side: usize) -> [usize; 2] {
        if slice.is_along { [side, self.depth] } else { [self.depth, side] }
    }

    /// Blocks along each axis for so many matrices, rows and columns.
    pub fn grid(&self, [batch, m, n]: [usize; 3]) -> [usize; 3] {
        [n / self.sides[1], m / self.sides[0], batch]
    }

    /// Words of four halves that a slice takes.
    pub fn words(&self, slice: &Slice, side: usize) -> usize {
        let [rows, neighbours] = self.extents(slice, side);
        rows * (neighbours + GAP) / 4
    }

    /// Whether a device takes its threads, its shared memory, and as many blocks.
    fn fits(&self, shape: [usize; 3], slices: &[Slice; 2], device: &DeviceModel) -> bool {
        let words: usize = slices.iter().zip(self.sides).map(|(slice, side)| self.words(slice, side)).sum();
        self.threads() <= device.most_threads
            && 8 * words <= device.shared_bytes
            && self.grid(shape).into_iter().all(|n| n <= device.most_blocks)
    }
}
