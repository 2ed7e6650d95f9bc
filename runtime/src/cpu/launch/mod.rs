//! Launches: kernels compiled for the CPU, one file for each kind, and the scratch that they need.

pub mod attention;
pub mod body;
mod body_run;
pub mod call;
mod cut;
mod groups;
pub mod matmul;
mod matmul_fold;
mod matrix_source;
pub mod opaque;
mod parts;
mod product;
pub mod scan;
pub mod scatter;
pub mod scratch;
pub mod sections;
pub mod segments;
mod side_sum;
