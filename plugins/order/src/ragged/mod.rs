//! Ragged results: rows of different lengths, one after the other, in a tensor of fixed capacity.
//!
//! `lims`, `i32[R + 1]`, ascends: row r lies at `lims[r]..lims[r + 1]`. Elements behind the last row hold the id -1 or the
//! value 0, and nothing reads them.

mod capacity;
mod compact;
mod compacted;
mod limits;
mod rank_select;
mod reduction;
mod segment_reduce;
mod segment_softmax;
mod spread;
mod unique;

pub use capacity::{cap, capacity, limits};
pub use compact::{compact, masked_select, nonzero};
pub use compacted::Compacted;
pub use limits::bounds;
pub use rank_select::rank_select;
pub use segment_reduce::segment_reduce;
pub use segment_softmax::segment_softmax;
pub use spread::spread;
pub use unique::unique;
