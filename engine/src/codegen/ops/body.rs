//! The instructions of a body at one point of its domain.

use crate::codegen::analysis::operands::operands;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32, I32, U8, U32, U64};
use crate::codegen::ops::access::{Element, element};
use crate::codegen::ops::assertion::raise;
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::fast_math;
use crate::codegen::ops::integers::within_type;
use crate::codegen::ops::packed_types::high_half;
use crate::codegen::ops::philox;
use crate::codegen::ops::scalar::{is_number, literal, narrowed, quotient_by, scalar, widened};
use crate::codegen::ops::vector_group::Group;
use crate::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Reg};
use crate::ir::{Binary, DType, NodeId, Requirement, Scalar};
use cubecl_core::ir::{Bitwise, Comparison, ElemType, Variable};

/// The values of a body's registers at one point; none where a register is not computed yet.
pub type Registers = Vec<Option<Variable>>;

/// A body with the buffers it works on.
#[derive(Clone, Copy)]
pub struct BodyCode<'t> {
    /// The body.
    pub body: &'t FusedBody,
    /// The memory of its operands.
    pub buffers: &'t dyn Memory,
    /// The arguments of the kernel, such as error flag and seed.
    pub shared: &'t Buffers,
}

impl BodyCode<'_> {
    /// Emits instructions `regs`, in order, at the point of their class. Registers of a lower class must be
    /// computed.
    pub fn run(
        &self,
        code: &mut Code,
        regs: impl IntoIterator<Item = Reg>,
        point: Variable,
        registers: &mut Registers,
    ) -> Result<(), CodegenError> {
        for reg in regs {
            registers[reg] = self.inst(code, reg, point, registers)?;
        }
        Ok(())
    }

    /// Emits one instruction; none for a store.
    fn inst(
        &self,
        code: &mut Code,
        reg: Reg,
        point: Variable,
        registers: &Registers,
    ) -> Result<Option<Variable>, CodegenError> {
        let inst = &self.body.insts[reg];
        let get = |reg: Reg| {
            registers[reg].unwrap_or_else(|| crate::bug!("register {reg} is used before it is computed"))
        };
        let point = if inst.class == Class::Uniform { code.at(0) } else { point };
        Ok(Some(match &inst.op {
            FusedOp::Const(value) => match self.buffers.constant(self.constant_number(reg)) {
                Some(constant) => constant,
                None => literal(code, inst.dtype, *value),
            },
            FusedOp::Load { operand, access, index } => {
                let index = index.map(|(reg, stride)| (get(reg), stride));
                self.load(code, reg, *operand, access, index, point)
            }
            FusedOp::Coord(access) => {
                let element = element(code, access, point);
                let value = code.cast(code.device.register(inst.dtype), element.index);
                let value = within_type(code, inst.dtype, value);
                element.filled(code, inst.dtype, value)
            }
            FusedOp::Random { stream, step, iteration, access } => {
                let element = element(code, access, point);
                let value = self.random(code, *stream, get(*step), iteration.map(get), element.index);
                element.filled(code, inst.dtype, value)
            }
            FusedOp::Scalar(op, args) => self.scalar(code, reg, op, args, get)?,
            FusedOp::Check { value, requirement, site, access } => {
                self.check(code, get(*value), *requirement, (*site, access), point)
            }
            FusedOp::Store { operand, access, value, index } => {
                let register = get(self.unrounded(code, *value));
                let index = index.map(|(reg, stride)| (get(reg), stride));
                let element = self.indexed(code, access, index, point);
                let stored = self.stored(code, inst, *value, register);
                self.shared.unless_failed(code, |code| {
                    self.buffers.store(code, *operand, element.index, stored);
                });
                return Ok(None);
            }
            FusedOp::Reduce { .. } => crate::bug!("a reduction has no value at a point"),
            FusedOp::Accumulator | FusedOp::SecondAccumulator => {
                crate::bug!("an accumulator outside of a matmul")
            }
            FusedOp::Fold { .. } => return Err(CodegenError::Fold),
        }))
    }

    fn scalar(
        &self,
        code: &mut Code,
        reg: Reg,
        op: &Scalar,
        args: &[Reg],
        get: impl Fn(Reg) -> Variable,
    ) -> Result<Variable, CodegenError> {
        let inst = &self.body.insts[reg];
        match op {
            Scalar::Binary(Binary::Div) if self.has_shared_divisor(code, inst, args[1]) => {
                return Ok(quotient_by(code, get(args[0]), get(args[1])));
            }
            Scalar::Unary(_) => {
                if let Some(value) = fast_math::unary(code, self.body, reg, get(args[0])) {
                    return Ok(value);
                }
            }
            Scalar::Select if !code.device.has_exact_functions => {
                let other = get(args[2]);
                if self.is_extremum(args) && !is_number(other) {
                    // The compiler may replace this by the device's own function, which would drop NaN.
                    let is_nan = code.is_nan(other);
                    let value = code.select(get(args[0]), get(args[1]), other);
                    return Ok(code.select(is_nan, other, value));
                }
            }
            _ => {}
        }
        let from = args.first().map_or(inst.dtype, |&arg| self.body.insts[arg].dtype);
        let args: Vec<Variable> = args.iter().map(|&arg| get(arg)).collect();
        scalar(code, op, &args, from, inst.dtype)
    }

    /// Whether a selection has the two floats that it compares as its branches.
    fn is_extremum(&self, args: &[Reg]) -> bool {
        let &[condition, yes, no] = args else { return false };
        let op = |reg: Reg| &self.body.insts[reg].op;
        let FusedOp::Scalar(Scalar::Binary(Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge), compared) =
            op(condition)
        else {
            return false;
        };
        let &[a, b] = &compared[..] else { return false };
        let is_constant = |reg: Reg| matches!(op(reg), FusedOp::Const(_));
        let is_same = |x: Reg, y: Reg| x == y || (is_constant(x) && op(x) == op(y));
        let is_choice = (is_same(a, yes) && is_same(b, no)) || (is_same(a, no) && is_same(b, yes));
        is_choice && self.body.insts[no].dtype.is_float()
    }

    /// Whether other elements of the row have the same divisor.
    fn has_shared_divisor(&self, code: &Code, inst: &FusedInst, divisor: Reg) -> bool {
        let divisor = &self.body.insts[divisor];
        let is_single = [inst, divisor].map(|inst| code.device.register(inst.dtype)) == [F32, F32];
        is_single && inst.class == Class::Element && divisor.class != Class::Element
    }

    /// The register to store for a value. A store rounds by itself, so a cast to the stored type is skipped.
    pub fn unrounded(&self, code: &Code, value: Reg) -> Reg {
        let inst = &self.body.insts[value];
        match &inst.op {
            FusedOp::Scalar(Scalar::Cast(DType::F16 | DType::BF16), args) => {
                let source = &self.body.insts[args[0]];
                // Packed elements take the bits of the rounded register.
                let is_wide = code.device.lanes(inst.dtype) == 1
                    && code.device.register(source.dtype) == F32
                    && source.class == inst.class;
                if is_wide { args[0] } else { value }
            }
            _ => value,
        }
    }

    fn constant_number(&self, reg: Reg) -> usize {
        self.body.insts[..reg].iter().filter(|inst| matches!(inst.op, FusedOp::Const(_))).count()
    }

    fn load(
        &self,
        code: &mut Code,
        reg: Reg,
        operand: usize,
        access: &Access,
        index: Option<(Variable, i64)>,
        point: Variable,
    ) -> Variable {
        let inst = &self.body.insts[reg];
        if self.buffers.is_empty(operand) {
            let nothing = code.constant(code.device.register(inst.dtype), 0.0);
            return element(code, access, point).filled(code, inst.dtype, nothing);
        }
        let element = self.indexed(code, access, index, point);
        let index = element.safe(code);
        let stored = self.buffers.load(code, operand, index);
        self.loaded(code, reg, &element, stored)
    }

    /// A register from a loaded element.
    fn loaded(&self, code: &mut Code, reg: Reg, element: &Element, stored: Variable) -> Variable {
        let dtype = self.body.insts[reg].dtype;
        if self.keeps_bits(reg) {
            return stored;
        }
        let value = widened(code, dtype, stored);
        element.filled(code, dtype, value)
    }

    fn stored(&self, code: &mut Code, inst: &FusedInst, value: Reg, register: Variable) -> Variable {
        let source = &self.body.insts[value];
        let is_rounded =
            matches!(source.op, FusedOp::Scalar(Scalar::Cast(_), _)) && source.dtype == inst.dtype;
        match inst.dtype {
            _ if self.keeps_bits(value) => register,
            DType::BF16 if is_rounded && code.device.lanes(inst.dtype) > 1 => high_half(code, register),
            dtype => narrowed(code, dtype, register),
        }
    }

    /// Whether a register holds an element's bits as memory does: an element of a narrow float type that is only
    /// copied.
    fn keeps_bits(&self, reg: Reg) -> bool {
        let inst = &self.body.insts[reg];
        let is_unguarded =
            |access: &Access| access.normalized().levels.iter().all(|level| level.guards.is_empty());
        let FusedOp::Load { operand, access, .. } = &inst.op else { return false };
        let users: Vec<&FusedInst> =
            self.body.insts.iter().filter(|inst| operands(&inst.op).contains(&reg)).collect();
        let is_stored =
            |user: &&FusedInst| matches!(user.op, FusedOp::Store { .. }) && user.dtype == inst.dtype;
        let is_narrow = inst.dtype.is_float() && inst.dtype.size() < 4;
        is_narrow
            && !self.buffers.is_empty(*operand)
            && is_unguarded(access)
            && !users.is_empty()
            && users.iter().all(is_stored)
    }

    fn random(
        &self,
        code: &mut Code,
        stream: u32,
        step: Variable,
        iteration: Option<Variable>,
        element: Variable,
    ) -> Variable {
        let lane = code.modulo(element, philox::WORDS);
        let words = self.random_block(code, stream, step, iteration, element);
        let is_word = |code: &mut Code, word: usize| {
            let word = code.at(word as i64);
            code.cmp(Comparison::Equal, lane, word)
        };
        (1..philox::WORDS).fold(words[0], |chosen, word| {
            let is_lane = is_word(code, word);
            code.select(is_lane, words[word], chosen)
        })
    }

    /// The random words that an element shares with its neighbours.
    pub fn random_block(
        &self,
        code: &mut Code,
        stream: u32,
        step: Variable,
        iteration: Option<Variable>,
        element: Variable,
    ) -> [Variable; philox::WORDS] {
        let seed = self.shared.seed.unwrap_or_else(|| crate::bug!("random bits without a seed"));
        let block = code.divided(element, philox::WORDS);
        let high = if code.index == U64 {
            let bits = code.at(32);
            code.bit(Bitwise::ShiftRight, block, bits)
        } else {
            code.int(U32, 0)
        };
        let iteration = iteration.unwrap_or_else(|| code.int(U32, 0));
        let stream = code.int(U32, i64::from(stream));
        let counter = [block, high, step, iteration].map(|word| code.cast(U32, word));
        let key = [seed, stream].map(|word| code.cast(U32, word));
        philox::block(code, counter, key)
    }

    /// Loads neighbouring elements as one vector.
    pub fn load_vector(
        &self,
        code: &mut Code,
        reg: Reg,
        (operand, access, index): (usize, &Access, Option<(Variable, i64)>),
        group: &Group,
    ) -> Vec<Variable> {
        let element = self.indexed(code, access, index, group.points[0]);
        let first = element.safe(code);
        let stored = self.buffers.load_vector(code, operand, first, group.points.len());
        stored.into_iter().map(|stored| self.loaded(code, reg, &element, stored)).collect()
    }

    /// Stores neighbouring elements of a register as one vector.
    pub fn store_vector(
        &self,
        code: &mut Code,
        (inst, value): (&FusedInst, Reg),
        (operand, access, index): (usize, &Access, Option<(Variable, i64)>),
        values: &[Variable],
        group: &Group,
    ) {
        let first = self.indexed(code, access, index, group.points[0]).index;
        let to_store = |&register| self.stored(code, inst, value, register);
        let values: Vec<Variable> = values.iter().map(to_store).collect();
        self.shared.unless_failed(code, |code| self.buffers.store_vector(code, operand, first, &values));
    }

    fn indexed(
        &self,
        code: &mut Code,
        access: &Access,
        index: Option<(Variable, i64)>,
        point: Variable,
    ) -> Element {
        let mut element = element(code, access, point);
        if let Some((index, stride)) = index {
            let index = code.cast(code.index, index);
            let offset = code.scaled(index, stride);
            element.index = code.add_at(element.index, offset);
        }
        element
    }

    /// Records a failed assertion, and replaces the rejected value by the fallback.
    fn check(
        &self,
        code: &mut Code,
        value: Variable,
        requirement: Requirement,
        (site, access): (NodeId, &Access),
        point: Variable,
    ) -> Variable {
        let flag = self.shared.flag.unwrap_or_else(|| crate::bug!("a check without an error flag"));
        let violates = violates(code, value, requirement);
        code.when(violates, |code| {
            let element = element(code, access, point);
            match element.inside(code) {
                None => raise(code, flag, value, site, element.index),
                Some(inside) => code.when(inside, |code| raise(code, flag, value, site, element.index)),
            }
        });
        let fallback = code.int(value.elem_type(), requirement.fallback());
        code.select(violates, fallback, value)
    }
}

fn violates(code: &mut Code, value: Variable, requirement: Requirement) -> Variable {
    let zero = code.int(value.elem_type(), 0);
    match requirement {
        Requirement::Divisor | Requirement::Condition => code.cmp(Comparison::Equal, value, zero),
        Requirement::Distance => code.less(value, zero),
        Requirement::Index { .. } | Requirement::Capacity { .. } => {
            let above = is_at_least(code, value, bound(requirement));
            match value.elem_type() {
                ElemType::Int(_) => {
                    let below = code.less(value, zero);
                    code.or(below, above)
                }
                _ => above,
            }
        }
    }
}

/// The least number that is too large.
fn bound(requirement: Requirement) -> usize {
    match requirement {
        Requirement::Index { bound } => bound,
        Requirement::Capacity { room } => room.saturating_add(1),
        Requirement::Divisor | Requirement::Distance | Requirement::Condition => usize::MAX,
    }
}

fn is_at_least(code: &mut Code, index: Variable, bound: usize) -> Variable {
    let largest = match index.elem_type() {
        U8 => u64::from(u8::MAX),
        I32 => i32::MAX as u64,
        U32 => u64::from(u32::MAX),
        _ => i64::MAX as u64,
    };
    if bound as u64 > largest {
        return code.bool(false);
    }
    let bound = code.int(index.elem_type(), bound as i64);
    code.cmp(Comparison::GreaterEqual, index, bound)
}
