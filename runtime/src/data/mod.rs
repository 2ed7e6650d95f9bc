//! Data sets: where they come from, how their files are read, and in which order an epoch visits them.

pub mod source;

pub mod cells;
pub mod csv;
#[cfg(feature = "download")]
mod download;
pub mod idx;
pub mod npy;
pub mod npz;
pub mod numbers;
pub mod remote;
pub mod shuffle;
pub mod table;
pub mod vecs;
pub mod vectors;
