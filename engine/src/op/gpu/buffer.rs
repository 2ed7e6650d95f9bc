//! How a body of an op sees a tensor. Code generation fills it in.

use cubecl_core::ir::Variable;

/// A buffer of a launch.
#[derive(Clone)]
pub struct Buffer {
    /// Its elements, or words of them.
    pub array: Variable,
    /// Whether it has no elements.
    pub is_empty: bool,
    /// Elements of a word; 1 if they do not lie packed.
    pub lanes: usize,
    /// Whether other threads write to the same words.
    pub is_atomic: bool,
    /// Words of a vector, if it is declared as an array of vectors; 1 if it is not.
    pub width: usize,
}
