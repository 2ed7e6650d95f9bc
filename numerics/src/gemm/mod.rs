//! Matrix products, one output tile at a time.
//!
//! [`Tiles`] cuts the output by shape alone. One worker computes a tile from start to end, so its epilogue finds the tile
//! in cache. Operands have any strides, so a transposed operand needs no copy. No call allocates: each worker owns a
//! [`Scratch`].
//!
//! Inside a tile a strip of columns of B, two or three vectors wide, is packed for a run of up to 256 rows. It stays in the
//! L1 cache while register blocks of up to 8 rows of A pass over it. Last columns too few for a vector are thin: each is a
//! dot product along the rows of A. Where A has a few rows, B is not packed, nor are windows of an image. Pairs of bf16 take the place of `f32`, and go
//! to the tiles of AMX where the processor has them.
//! A panel of eight strips is packed at a time where an operand lies in memory. A convolution
//! is an implicit GEMM: windows are read from the image. Where A has enough rows, it is A that is packed, and windows are
//! not.

#[cfg(target_arch = "x86_64")]
mod amx;
mod direct;
mod few;
mod few_windows;
mod float;
mod kernel;
mod matrix;
mod pack;
mod row_products;
mod runs;
mod scratch;
mod thin;
mod tiles;
mod uneven;

#[cfg(test)]
mod tests;

pub use float::{GemmFloat, add_gemm_tile, gemm_tile, gemm_tile_of_pairs, scores_of_row, weighted_sum};
pub use matrix::{Matrix, TileMut};
pub use row_products::Rows;
pub use scratch::Scratch;
pub use tiles::{Tiles, n_parts};
pub use uneven::{Offsets, Right};

/// Whether the processor multiplies tiles of bf16 (AMX), and the operating system lets this process use them.
pub fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return amx::is_present();
    #[cfg(not(target_arch = "x86_64"))]
    false
}
