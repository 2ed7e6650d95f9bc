//! The arguments of a kernel, and the interface through which a body accesses them.

use crate::codegen::ir::builder::Code;
use crate::codegen::ops::packed_types::Buffer;
use cubecl_core::ir::Variable;

/// Access to the operands of a body.
pub trait Memory {
    /// Whether an operand has no elements.
    fn is_empty(&self, operand: usize) -> bool;
    /// Loads an element as memory holds it.
    fn load(&self, code: &mut Code, operand: usize, index: Variable) -> Variable;
    /// Stores an element as memory holds it.
    fn store(&self, code: &mut Code, operand: usize, index: Variable, value: Variable);
    /// Loads the `width` elements from `first` on; `first` is a multiple of `width`.
    fn load_vector(&self, code: &mut Code, operand: usize, first: Variable, width: usize) -> Vec<Variable>;
    /// Stores neighbouring elements from `first` on; `first` is a multiple of their number.
    fn store_vector(&self, code: &mut Code, operand: usize, first: Variable, values: &[Variable]);
    /// The body's `n`-th constant, if it differs between segments.
    fn constant(&self, n: usize) -> Option<Variable>;
}

/// The arguments of a kernel.
#[derive(Clone)]
pub struct Buffers {
    /// By operand.
    pub operands: Vec<Buffer>,
    /// The error flag, if the kernel has assertions.
    pub flag: Option<Variable>,
    /// The error flag, if the kernel is guarded.
    pub guard: Option<Variable>,
    /// Whether no assertion has failed; none if the kernel is not guarded.
    pub is_clear: Option<Variable>,
    /// The seed of random numbers, if the kernel draws any.
    pub seed: Option<Variable>,
}

impl Buffers {
    /// Emits `write`; a guarded kernel skips it once an assertion has failed.
    pub fn unless_failed(&self, code: &mut Code, write: impl FnOnce(&mut Code)) {
        match self.is_clear {
            Some(is_clear) => code.when(is_clear, write),
            None => write(code),
        }
    }

    /// The place of an element that threads add to atomically.
    pub fn place(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        code.place(self.operands[operand].array, index)
    }

    pub fn store_unless_failed(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        self.unless_failed(code, |code| self.store(code, operand, index, value));
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
