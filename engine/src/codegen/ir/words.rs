//! Elements as words of 32 bits.

use crate::codegen::ir::builder::Code;
use crate::codegen::ir::types::{U8, U16, U32, U64};
use cubecl_core::ir::{Bitwise, ElemType, Variable};

impl Code<'_> {
    /// The bits of an element. 64 bits give the high and the low word, others one word and 0.
    pub fn words_of(&mut self, value: Variable) -> [Variable; 2] {
        let zero = self.int(U32, 0);
        match value.elem_type().size() {
            1 => {
                let bits = self.reinterpret(U8, value);
                [self.cast(U32, bits), zero]
            }
            2 => {
                let bits = self.reinterpret(U16, value);
                [self.cast(U32, bits), zero]
            }
            4 => [self.reinterpret(U32, value), zero],
            _ => {
                let bits = self.reinterpret(U64, value);
                let half = self.int(U64, 32);
                let high = self.bit(Bitwise::ShiftRight, bits, half);
                [self.cast(U32, high), self.cast(U32, bits)]
            }
        }
    }

    /// The element of a type with these bits.
    pub fn of_words(&mut self, elem: ElemType, [high, low]: [Variable; 2]) -> Variable {
        match elem.size() {
            1 => self.cast(elem, high),
            2 => {
                let bits = self.cast(U16, high);
                self.reinterpret(elem, bits)
            }
            4 => self.reinterpret(elem, high),
            _ => {
                let [high, low] = [high, low].map(|word| self.cast(U64, word));
                let half = self.int(U64, 32);
                let high = self.bit(Bitwise::ShiftLeft, high, half);
                let bits = self.bit(Bitwise::BitwiseOr, high, low);
                self.reinterpret(elem, bits)
            }
        }
    }
}
