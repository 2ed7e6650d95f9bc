#![allow(clippy::unwrap_used, missing_docs)]
//! Searches, indexes, clusters, ragged results and attention to chosen blocks, on every device that is present, beside
//! double precision. They are one binary, which is linked sooner than one for each.

mod clusters;
mod kmeans;
#[path = "../common/offline.rs"]
mod offline;
#[path = "../common/present.rs"]
mod present;
mod ragged;
mod retrieved_attention;
#[path = "../common/run.rs"]
mod run;
mod search;
mod tree;
#[path = "../common/ways.rs"]
mod ways;
mod within;
