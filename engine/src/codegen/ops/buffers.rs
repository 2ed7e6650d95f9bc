//! The arguments of a kernel, and the interface by which a body reaches them.

use crate::codegen::ir::builder::Code;
use crate::codegen::ops::packed_types::Buffer;
use cubecl_core::ir::Variable;

/// How a body reaches its operands.
pub trait Memory {
    /// Whether an operand has no elements.
    fn is_empty(&self, operand: usize) -> bool;
    /// The element as it lies in memory.
    fn load(&self, code: &mut Code, operand: usize, index: Variable) -> Variable;
    /// Writes an element as it lies in memory.
    fn store(&self, code: &mut Code, operand: usize, index: Variable, value: Variable);
    /// The `width` elements from `first` on, which is a multiple of that.
    fn load_vector(&self, code: &mut Code, operand: usize, first: Variable, width: usize) -> Vec<Variable>;
    /// Writes elements side by side from `first` on, which is a multiple of their number.
    fn store_vector(&self, code: &mut Code, operand: usize, first: Variable, values: &[Variable]);
    /// The body's `n`-th constant, if it is not the same everywhere.
    fn constant(&self, n: usize) -> Option<Variable>;
}

/// The arguments of a kernel.
#[derive(Clone)]
pub struct Buffers {
    /// By operand.
    pub operands: Vec<Buffer>,
    /// The words in which failed assertions are recorded, if the kernel has any.
    pub flag: Option<Variable>,
    /// The same words, if the kernel writes nothing after a failed assertion.
    pub guard: Option<Variable>,
    /// Whether no assertion has failed; none if the kernel does not depend on it.
    pub is_clear: Option<Variable>,
    /// The seed of random numbers, if the kernel draws any.
    pub seed: Option<Variable>,
}

impl Buffers {
    /// Emits `write`, which is skipped while the error flag stands if the kernel is guarded.
    pub fn unless_raised(&self, code: &mut Code, write: impl FnOnce(&mut Code)) {
        match self.is_clear {
            Some(is_clear) => code.when(is_clear, write),
            None => write(code),
        }
    }

    /// Where an element lies that threads add to at once.
    pub fn place(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        code.place(self.operands[operand].array, index)
    }

    pub fn store_unless_raised(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        self.unless_raised(code, |code| self.store(code, operand, index, value));
    }
}

impl Memory for Buffers {
    fn is_empty(&self, operand: usize) -> bool {
        self.operands[operand].is_empty
    }

    fn load(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        self.operands[operand].load(code, index)
    }

    fn store(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        self.operands[operand].store(code, index, value);
    }

    fn load_vector(&self, code: &mut Code, operand: usize, first: Variable, width: usize) -> Vec<Variable> {
        self.operands[operand].load_vector(code, first, width)
    }

    fn store_vector(&self, code: &mut Code, operand: usize, first: Variable, values: &[Variable]) {
        self.operands[operand].store_vector(code, first, values);
    }

    fn constant(&self, _: usize) -> Option<Variable> {
        None
    }
}
