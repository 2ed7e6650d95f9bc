//! Loops over slices: the instructions of the interpreter.
//!
//! A loop reads whole slices and writes a whole slice of the same length that overlaps none of its inputs. Integers
//! wrap. An integer divided by 0 gives 0, and so does its remainder. A negative power of an integer is the truncated
//! reciprocal. Shifts by the width or more, or by less than 0, leave the sign. Booleans are `u8`, 0 or 1. f16 and bf16
//! are computed in f32 between two [`cast`]s.

mod affine;
mod cast;
mod elementwise;
mod float;
mod integer;
mod macros;
mod number;
mod pair;
pub mod philox;
pub mod reduce;

#[cfg(test)]
mod tests;

pub use crate::simd::operation::Arithmetic;
pub use crate::simd::prefetch::Prefetch;
pub use affine::{affine, has_affine_loop};
pub use cast::{CastTo, cast};
pub use elementwise::{Element, Operand, select};
pub use number::{
    Number, argmax, argmin, binary, compare, fold, fold_blocks, fold_rows, fold_with_prefetch, mul_add, unary,
};
pub use pair::{Source, pair};
