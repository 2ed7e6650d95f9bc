//! The one grammar of expressions, which the front end and the text of graphs share.
//!
//! **Invariant:** trees hold places and names, and nothing here knows of graphs or ops.

pub mod expr;
#[cfg(test)]
pub(crate) mod fuzz;
pub(crate) mod lex;
mod literal;

pub use literal::Text;
