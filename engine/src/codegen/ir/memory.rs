//! Loads, stores, atomics, locals and shared memory.

use crate::codegen::ir::builder::Code;
use crate::codegen::ir::types::{F32, U32};
use cubecl_core::ir::{
    AtomicOp, BinaryOperator, ElemType, IndexAssignOperator, IndexOperator, Instruction, Operation, Operator,
    StorageType, Type, UnaryOperator, Variable, VectorInitOperator,
};

impl Code<'_> {
    /// Loads an element of an array.
    pub fn load(&mut self, buffer: Variable, index: Variable) -> Variable {
        let op = IndexOperator { list: buffer, index, vector_size: 0, unroll_factor: 1 };
        let out = self.scope.create_local(buffer.ty).consume();
        self.scope.register(Instruction::new(Operator::UncheckedIndex(op), out));
        out
    }

    /// Stores an element of an array.
    pub fn store(&mut self, buffer: Variable, index: Variable, value: Variable) {
        let op = IndexAssignOperator { index, value, vector_size: 0, unroll_factor: 1 };
        self.scope.register(Instruction::new(Operator::UncheckedIndexAssign(op), buffer));
    }

    /// The `width` elements from `first` on, read as one vector; `first` is a multiple of `width`.
    pub(crate) fn load_vector(&mut self, buffer: Variable, first: Variable, width: usize) -> Vec<Variable> {
        if !self.device.has_narrow {
            return (0..width)
                .map(|i| {
                    let index = self.at_offset(first, i);
                    self.load(buffer, index)
                })
                .collect();
        }
        let index = self.divided(first, width);
        let op = IndexOperator { list: buffer, index, vector_size: width, unroll_factor: 1 };
        let vector = self.scope.create_local(buffer.ty.with_vector_size(width)).consume();
        self.scope.register(Instruction::new(Operator::UncheckedIndex(op), vector));
        (0..width).map(|i| self.component(vector, i)).collect()
    }

    /// The components of an element of an array of vectors.
    pub(crate) fn load_components(
        &mut self,
        buffer: Variable,
        number: Variable,
        width: usize,
    ) -> Vec<Variable> {
        let vector = self.load(buffer, number);
        (0..width).map(|i| self.component(vector, i)).collect()
    }

    /// Writes an element of an array of vectors.
    pub(crate) fn store_components(&mut self, buffer: Variable, number: Variable, values: &[Variable]) {
        let vector = self.scope.create_local(buffer.ty).consume();
        let inputs = values.to_vec();
        self.scope.register(Instruction::new(Operator::InitVector(VectorInitOperator { inputs }), vector));
        self.store(buffer, number, vector);
    }

    /// The `f32` of the half in the low bits of a word. CubeCL has no such instruction: this emits a
    /// reinterpretation of the word as two `f32`, which has no other use. The printer replaces it by the
    /// language's function.
    pub(crate) fn first_half(&mut self, word: Variable) -> Variable {
        let halves = self.vector_out(F32, 2, Operator::Reinterpret(UnaryOperator { input: word }));
        self.component(halves, 0)
    }

    /// The word whose low bits are `x` as a half. The printer replaces the reinterpretation, as for
    /// [`Code::first_half`].
    pub(crate) fn as_half(&mut self, x: Variable) -> Variable {
        let zero = self.float(F32, 0.0);
        let halves = Operator::InitVector(VectorInitOperator { inputs: vec![x, zero] });
        let halves = self.vector_out(F32, 2, halves);
        let words = self.vector_out(U32, 2, Operator::Reinterpret(UnaryOperator { input: halves }));
        self.component(words, 0)
    }

    fn component(&mut self, vector: Variable, i: usize) -> Variable {
        let index = self.int(U32, i as i64);
        let op = IndexOperator { list: vector, index, vector_size: 0, unroll_factor: 1 };
        self.out(vector.elem_type(), Operator::UncheckedIndex(op))
    }

    /// Writes neighbouring elements as one vector; `first` is a multiple of their number.
    pub(crate) fn store_vector(&mut self, buffer: Variable, first: Variable, values: &[Variable]) {
        if !self.device.has_narrow {
            for (i, &value) in values.iter().enumerate() {
                let index = self.at_offset(first, i);
                self.store(buffer, index, value);
            }
            return;
        }
        let width = values.len();
        let index = self.divided(first, width);
        let vector = self.scope.create_local(buffer.ty.with_vector_size(width)).consume();
        let inputs = values.to_vec();
        self.scope.register(Instruction::new(Operator::InitVector(VectorInitOperator { inputs }), vector));
        let op = IndexAssignOperator { index, value: vector, vector_size: width, unroll_factor: 1 };
        self.scope.register(Instruction::new(Operator::UncheckedIndexAssign(op), buffer));
    }

    /// The place of an element in a buffer of atomics.
    pub(crate) fn place(&mut self, buffer: Variable, index: Variable) -> Variable {
        self.load(buffer, index)
    }

    /// The value at a place.
    pub(crate) fn atomic_load(&mut self, elem: ElemType, place: Variable) -> Variable {
        self.out(elem, AtomicOp::Load(UnaryOperator { input: place }))
    }

    pub(crate) fn atomic_store(&mut self, place: Variable, value: Variable) {
        self.scope.register(Instruction::new(AtomicOp::Store(UnaryOperator { input: value }), place));
    }

    /// Combines a word in memory with `word` atomically.
    pub(crate) fn atomic_bits(
        &mut self,
        op: fn(BinaryOperator) -> AtomicOp,
        place: Variable,
        word: Variable,
    ) {
        self.out(U32, op(BinaryOperator { lhs: place, rhs: word }));
    }

    /// Adds to the value at a place atomically, and returns the old value.
    pub(crate) fn atomic_add(&mut self, place: Variable, value: Variable) -> Variable {
        self.out(value.elem_type(), AtomicOp::Add(BinaryOperator { lhs: place, rhs: value }))
    }

    /// Raises the value at a place to at least `value` atomically, and returns the old value.
    pub(crate) fn atomic_max(&mut self, place: Variable, value: Variable) -> Variable {
        self.out(value.elem_type(), AtomicOp::Max(BinaryOperator { lhs: place, rhs: value }))
    }

    pub(crate) fn swap(&mut self, place: Variable, value: Variable) {
        self.out(value.elem_type(), AtomicOp::Swap(BinaryOperator { lhs: place, rhs: value }));
    }

    /// A local that can be assigned, declared in the scope that `self` appends to.
    pub fn mutable(&mut self, initial: Variable) -> Variable {
        // CubeCL declares pooled locals in the order of a hash map, so this local is not pooled.
        let local = self.scope.create_local_restricted(initial.ty).consume();
        self.scope.add_local_mut(local);
        self.assign(local, initial);
        local
    }

    /// Assigns to a mutable local.
    pub fn assign(&mut self, local: Variable, value: Variable) {
        self.scope.register(Instruction::new(Operation::Copy(value), local));
    }

    /// The current value of a mutable local.
    pub fn snapshot(&mut self, local: Variable) -> Variable {
        let out = self.scope.create_local(local.ty).consume();
        self.scope.register(Instruction::new(Operation::Copy(local), out));
        out
    }

    pub(crate) fn shared(&mut self, elem: ElemType, length: usize) -> Variable {
        self.scope.create_shared_array(Type::scalar(elem), length, None).consume()
    }

    /// An array of numbers in shared memory that threads change atomically.
    pub fn shared_atomics(&mut self, elem: ElemType, length: usize) -> Variable {
        let ty = Type::new(StorageType::Atomic(elem));
        self.scope.create_shared_array(ty, length, None).consume()
    }

    /// An array of vectors in shared memory.
    pub(crate) fn shared_vectors(&mut self, elem: ElemType, width: usize, length: usize) -> Variable {
        let ty = Type::scalar(elem).with_vector_size(width);
        self.scope.create_shared_array(ty, length, None).consume()
    }
}
