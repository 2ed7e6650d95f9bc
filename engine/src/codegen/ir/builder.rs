//! A typed layer over a CubeCL scope: one short method per instruction.
//!
//! Every value is an immutable local of the kernel (`const float l_7 = ...`), so the text reads like the body.

pub use crate::codegen::ir::types::{BOOL, F32, F64, I32, I64, U8, U32, U64};
use crate::device_model::DeviceModel;
use cubecl_core::ir::{
    Arithmetic, BinaryOperator, Bitwise, Builtin, Comparison, ConstantValue, ElemType, FmaOperator,
    Instruction, Operation, Operator, Scope, Select, StorageType, Type, UnaryOperator, Variable,
};
use std::cell::RefCell;
use std::rc::Rc;

/// Appends instructions to one scope of a kernel.
pub struct Code<'s> {
    /// The scope. Functions of plugins append to it directly.
    pub scope: &'s mut Scope,
    /// The type of element numbers: `u32`, or `u64` if a buffer has too many elements for 32 bits.
    pub index: ElemType,
    /// The device that the kernel is compiled for.
    pub device: DeviceModel,
    /// Points whose rows are known, shared by all scopes.
    known: Rc<RefCell<Vec<KnownPoint>>>,
    /// Points that are sums of known terms, shared by all scopes.
    known_terms: Rc<RefCell<Vec<KnownTerms>>>,
}

/// A point, and the terms that it is the sum of.
type KnownTerms = (Variable, Vec<Term>);

/// A value below `extent`, times a stride.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// The value.
    pub value: Variable,
    /// Its bound.
    pub extent: usize,
    /// The factor.
    pub stride: i64,
}

/// A point with its row and its position there, which saves a division.
struct KnownPoint {
    point: Variable,
    length: usize,
    row: Variable,
    position: Variable,
}

impl<'s> Code<'s> {
    /// Appends to the outermost scope.
    pub fn new(scope: &'s mut Scope, index: ElemType, device: DeviceModel) -> Code<'s> {
        Code { scope, index, device, known: Rc::default(), known_terms: Rc::default() }
    }
}

impl Code<'_> {
    // ---- Values without an instruction.

    /// A literal of a floating-point type.
    pub fn float(&mut self, elem: ElemType, value: f64) -> Variable {
        if value.is_finite() {
            return Variable::constant(ConstantValue::Float(value), elem);
        }
        // CubeCL's C++ printer writes `inf` and `NaN`, which are not C++.
        match elem {
            F64 => self.bits(elem, U64, value.to_bits()),
            _ => self.bits(elem, U32, u64::from((value as f32).to_bits())),
        }
    }

    fn bits(&mut self, elem: ElemType, word: ElemType, bits: u64) -> Variable {
        let bits = Variable::constant(ConstantValue::UInt(bits), word);
        let local = self.scope.create_local(Type::scalar(word)).consume();
        self.scope.register(Instruction::new(Operation::Copy(bits), local));
        self.reinterpret(elem, local)
    }

    /// The same bits as another type of the same size.
    pub fn reinterpret(&mut self, elem: ElemType, x: Variable) -> Variable {
        if x.elem_type() == elem {
            return x;
        }
        // C++ cannot take the address of a constant.
        match (x.elem_type(), elem, x.as_const()) {
            (F32, U32, Some(ConstantValue::Float(value))) => {
                return self.int(U32, i64::from((value as f32).to_bits()));
            }
            (F64, U64, Some(ConstantValue::Float(value))) => return self.int(U64, value.to_bits() as i64),
            _ => {}
        }
        self.out(elem, Operator::Reinterpret(UnaryOperator { input: x }))
    }

    /// A literal of an integer type.
    pub fn int(&self, elem: ElemType, value: i64) -> Variable {
        let value = match elem {
            ElemType::UInt(_) => ConstantValue::UInt(value as u64),
            _ => ConstantValue::Int(value),
        };
        Variable::constant(value, elem)
    }

    pub(crate) fn bool(&self, value: bool) -> Variable {
        Variable::constant(ConstantValue::Bool(value), BOOL)
    }

    /// A constant of any type.
    pub(crate) fn constant(&mut self, elem: ElemType, value: f64) -> Variable {
        match elem {
            ElemType::Float(_) => self.float(elem, value),
            ElemType::Bool => self.bool(value != 0.0),
            _ => self.int(elem, value as i64),
        }
    }

    /// An element number or a distance. Negative numbers wrap, as do the sums they enter.
    pub fn at(&self, value: i64) -> Variable {
        let value = if self.index == U32 { u64::from(value as u32) } else { value as u64 };
        Variable::constant(ConstantValue::UInt(value), self.index)
    }

    /// A number of a thread or block, as an element number.
    pub fn builtin(&mut self, builtin: Builtin) -> Variable {
        // CubeCL declares grid-wide builtins as wide as element numbers, but its WGSL writer makes them 32 bits. A
        // conversion suits both.
        let variable = Variable::builtin(builtin, StorageType::Scalar(U32));
        self.cast(self.index, variable)
    }

    // ---- Arithmetic.

    pub(crate) fn un(&mut self, op: fn(UnaryOperator) -> Arithmetic, x: Variable) -> Variable {
        // WGSL's constant expressions have no functions of `f64`.
        let x = if x.elem_type() == F64 { self.hidden_constant(x, x) } else { x };
        self.out(x.elem_type(), op(UnaryOperator { input: x }))
    }

    /// An instruction of two operands of one type.
    pub fn bin(&mut self, op: fn(BinaryOperator) -> Arithmetic, lhs: Variable, rhs: Variable) -> Variable {
        let lhs = self.hidden_constant(lhs, rhs);
        self.out(lhs.elem_type(), op(BinaryOperator { lhs, rhs }))
    }

    /// Hides one of two constant operands from the compiler. WGSL rejects constant expressions such as `0/0` and
    /// those that overflow.
    fn hidden_constant(&mut self, x: Variable, other: Variable) -> Variable {
        let both = x.as_const().is_some() && other.as_const().is_some();
        if self.device.has_exact_functions || !both { x } else { self.mutable(x) }
    }

    pub(crate) fn bit(
        &mut self,
        op: fn(BinaryOperator) -> Bitwise,
        lhs: Variable,
        rhs: Variable,
    ) -> Variable {
        self.out(lhs.elem_type(), op(BinaryOperator { lhs, rhs }))
    }

    pub(crate) fn logic(
        &mut self,
        op: fn(BinaryOperator) -> Operator,
        lhs: Variable,
        rhs: Variable,
    ) -> Variable {
        self.out(BOOL, op(BinaryOperator { lhs, rhs }))
    }

    /// Whether both conditions hold.
    pub fn and(&mut self, lhs: Variable, rhs: Variable) -> Variable {
        self.logic(Operator::And, lhs, rhs)
    }

    /// Whether one of two conditions holds.
    pub fn or(&mut self, lhs: Variable, rhs: Variable) -> Variable {
        self.logic(Operator::Or, lhs, rhs)
    }

    /// Whether a condition does not hold.
    pub fn not(&mut self, x: Variable) -> Variable {
        self.out(BOOL, Operator::Not(UnaryOperator { input: x }))
    }

    pub(crate) fn bit_not(&mut self, x: Variable) -> Variable {
        self.out(x.elem_type(), Bitwise::BitwiseNot(UnaryOperator { input: x }))
    }

    pub(crate) fn count_ones(&mut self, x: Variable) -> Variable {
        self.out(U32, Bitwise::CountOnes(UnaryOperator { input: x }))
    }

    /// A comparison.
    pub fn cmp(&mut self, op: fn(BinaryOperator) -> Comparison, lhs: Variable, rhs: Variable) -> Variable {
        self.out(BOOL, op(BinaryOperator { lhs, rhs }))
    }

    /// Whether `lhs < rhs`.
    pub fn less(&mut self, lhs: Variable, rhs: Variable) -> Variable {
        self.cmp(Comparison::Lower, lhs, rhs)
    }

    /// `x ≠ x`, or a test of the bits where the device's comparisons ignore NaN. The name of `isnan` differs
    /// between devices.
    pub fn is_nan(&mut self, x: Variable) -> Variable {
        let (word, masks) = match x.elem_type() {
            _ if self.device.has_exact_functions => return self.cmp(Comparison::NotEqual, x, x),
            F32 => (U32, [0x7FFF_FFFF, 0x7F80_0000]),
            F64 => (U64, [i64::MAX, 0x7FF0 << 48]),
            _ => return self.cmp(Comparison::NotEqual, x, x),
        };
        let bits = self.reinterpret(word, x);
        let [rest, infinity] = masks.map(|mask| self.int(word, mask));
        let size = self.bit(Bitwise::BitwiseAnd, bits, rest);
        self.cmp(Comparison::Greater, size, infinity)
    }

    /// One of two values, by a condition. Both are computed.
    pub fn select(&mut self, cond: Variable, then: Variable, or_else: Variable) -> Variable {
        self.out(then.elem_type(), Operator::Select(Select { cond, then, or_else }))
    }

    pub(crate) fn fma(&mut self, a: Variable, b: Variable, c: Variable) -> Variable {
        self.out(a.elem_type(), Arithmetic::Fma(FmaOperator { a, b, c }))
    }

    /// A conversion with C++ semantics; no instruction if the types are equal.
    pub fn cast(&mut self, elem: ElemType, x: Variable) -> Variable {
        if x.elem_type() == elem {
            return x;
        }
        // Naga's SPIR-V sign-extends an unsigned word that is converted to a signed type of another width.
        if x.elem_type() == U32 && elem == I64 && !self.device.has_exact_functions {
            let wide = self.out(U64, Operator::Cast(UnaryOperator { input: x }));
            return self.out(I64, Operator::Cast(UnaryOperator { input: wide }));
        }
        if x.elem_type() == I32 && elem == I64 && !self.device.compares_widened {
            return self.widened_by_hand(x);
        }
        self.out(elem, Operator::Cast(UnaryOperator { input: x }))
    }

    /// An `i32` as `i64`, which the compiler of the device does not see as widened: its distance from the least one is unsigned.
    fn widened_by_hand(&mut self, x: Variable) -> Variable {
        let (bits, least) = (self.cast(U32, x), self.int(U32, 1 << 31));
        let distance = self.bit(Bitwise::BitwiseXor, bits, least);
        let (distance, least) = (self.cast(I64, distance), self.int(I64, 1 << 31));
        self.bin(Arithmetic::Sub, distance, least)
    }

    // ---- Element numbers.

    /// The sum of two element numbers.
    pub fn add_at(&mut self, lhs: Variable, rhs: Variable) -> Variable {
        match (lhs.is_constant(0), rhs.is_constant(0)) {
            (true, _) => rhs,
            (_, true) => lhs,
            _ => self.bin(Arithmetic::Add, lhs, rhs),
        }
    }

    /// The element number `offset` places after `first`.
    pub(crate) fn at_offset(&mut self, first: Variable, offset: usize) -> Variable {
        let offset = self.at(offset as i64);
        self.add_at(first, offset)
    }

    /// An element number times a constant.
    pub fn scaled(&mut self, x: Variable, factor: i64) -> Variable {
        match factor {
            0 => self.at(0),
            1 => x,
            _ if x.is_constant(0) => x,
            _ => {
                let factor = self.at(factor);
                self.bin(Arithmetic::Mul, x, factor)
            }
        }
    }

    /// The sum of an offset and of terms. Terms with negative strides count from their ends, so that no step of the sum is
    /// negative: NVRTC 13.0 adds the parts of an index as 64-bit numbers, where a 32-bit sum would wrap around.
    pub fn element_number(&mut self, offset: i64, terms: &[Term]) -> Variable {
        let last = |term: &Term| term.extent.saturating_sub(1) as i64;
        let behind = terms.iter().filter(|term| term.stride < 0).map(|term| term.stride * last(term));
        let start = self.at(offset + behind.sum::<i64>());
        terms.iter().fold(start, |sum, term| {
            let value = match term.stride < 0 {
                true => {
                    let last = self.at(last(term));
                    self.bin(Arithmetic::Sub, last, term.value)
                }
                false => term.value,
            };
            let step = self.scaled(value, term.stride.abs());
            self.add_at(sum, step)
        })
    }

    /// An element number divided by a constant.
    pub fn divided(&mut self, x: Variable, by: usize) -> Variable {
        if by <= 1 || x.is_constant(0) {
            return x;
        }
        if let Some((row, _)) = self.place_in_row(x, by) {
            return row;
        }
        let by = self.at(by as i64);
        self.bin(Arithmetic::Div, x, by)
    }

    /// The remainder of that division.
    pub fn modulo(&mut self, x: Variable, by: usize) -> Variable {
        if by <= 1 || x.is_constant(0) {
            return self.at(0);
        }
        if let Some((_, position)) = self.place_in_row(x, by) {
            return position;
        }
        let by = self.at(by as i64);
        self.bin(Arithmetic::Modulo, x, by)
    }

    /// Records that `point = row · length + position`.
    pub(crate) fn note_place(&mut self, point: Variable, length: usize, row: Variable, position: Variable) {
        self.known.borrow_mut().push(KnownPoint { point, length, row, position });
    }

    /// Records a point as the sum of terms, which saves divisions.
    pub(crate) fn note_terms(&mut self, point: Variable, terms: Vec<Term>) {
        self.known_terms.borrow_mut().push((point, terms));
    }

    /// The terms that are known of a point.
    pub(crate) fn terms_of(&self, point: Variable) -> Option<Vec<Term>> {
        let known = self.known_terms.borrow();
        known.iter().find(|(known, _)| *known == point).map(|(_, terms)| terms.clone())
    }

    fn place_in_row(&self, x: Variable, by: usize) -> Option<(Variable, Variable)> {
        let known = self.known.borrow();
        let place = known.iter().find(|known| known.point == x && known.length == by)?;
        Some((place.row, place.position))
    }

    // ---- Scopes and instructions.

    /// Appends to a scope inside this one.
    pub(super) fn inner<'b>(&self, scope: &'b mut Scope) -> Code<'b> {
        let (known, known_terms) = (Rc::clone(&self.known), Rc::clone(&self.known_terms));
        Code { scope, index: self.index, device: self.device, known, known_terms }
    }

    /// Appends an instruction with a scalar result.
    pub(super) fn out(&mut self, elem: ElemType, op: impl Into<Operation>) -> Variable {
        self.vector_out(elem, 1, op)
    }

    /// Appends an instruction with a vector as its result.
    pub(super) fn vector_out(&mut self, elem: ElemType, width: usize, op: impl Into<Operation>) -> Variable {
        let out = self.scope.create_local(Type::scalar(elem).with_vector_size(width)).consume();
        self.scope.register(Instruction::new(op, out));
        out
    }
}
