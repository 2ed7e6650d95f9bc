//! Data sets: their sources, their file formats, and the order of rows in an epoch.

pub mod source;

pub mod cells;
pub mod csv;
mod dropped;
pub mod fault;
pub mod field;
pub mod forms;
pub mod idx;
pub mod jsonl;
mod mapped;
pub mod npy;
pub mod npz;
pub mod records;
pub mod remote;
pub mod results;
pub mod rows;
pub mod shuffle;
pub mod table;
pub mod tokenizer;
pub mod vecs;
