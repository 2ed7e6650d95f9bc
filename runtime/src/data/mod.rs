//! Data sets: where they come from, how their files are read, and in which order an epoch visits them.

pub mod source;

pub mod cells;
pub mod csv;
pub mod fault;
pub mod idx;
pub mod npy;
pub mod npz;
pub mod remote;
pub mod results;
pub mod shuffle;
pub mod table;
pub mod vecs;
