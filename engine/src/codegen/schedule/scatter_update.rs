//! Steps that all scatters share: the index of an update, and its combination with an element in memory.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, I32, I64};
use crate::codegen::ir::intrinsics::{Intrinsic, Word};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::buffers::Buffers;
use crate::codegen::ops::integers::within_type;
use crate::codegen::ops::packed_types::narrowed_for_arithmetic;
use crate::codegen::ops::scalar::{narrowed, widened};
use crate::device_model::DeviceModel;
use crate::fusion::{Reg, ScatterBody};
use crate::ir::{Combine, DType};
use cubecl_core::ir::{Arithmetic, Comparison, ElemType, Variable};

/// Whether the device may add updates to memory atomically. Sums of integers are equal in any order.
pub fn is_in_any_order(body: &ScatterBody, dtype: DType, device: DeviceModel) -> bool {
    body.combine == Combine::Add && device.adds(dtype) && (dtype.is_int() || !body.in_order)
}

/// Neighbouring updates that one instruction adds, in rows of `after` elements.
pub fn atomic_width(dtype: DType, after: usize, device: DeviceModel) -> usize {
    if device.adds_four && dtype == DType::F32 && after.is_multiple_of(4) { 4 } else { 1 }
}

/// Adds neighbouring updates to memory atomically.
pub fn add_atomically(
    code: &mut Code,
    buffers: &Buffers,
    (result, element): (usize, Variable),
    updates: &[Variable],
) {
    if let &[update] = updates {
        let place = buffers.place(code, result, element);
        code.atomic_add(place, update);
        return;
    }
    let place = Word::Place(buffers.operands[result].array, element);
    let words = updates.iter().map(|&update| Word::Value(update));
    let words: Vec<Word> = [place].into_iter().chain(words).collect();
    code.perform(Intrinsic::AddFour, &words);
}

/// The sum of an element and an update; element and sum are as memory holds them.
pub fn sum(code: &mut Code, dtype: DType, old: Variable, update: Variable) -> Variable {
    let old = widened(code, dtype, old);
    let sum = match dtype {
        DType::Bool => code.or(old, update),
        _ => code.bin(Arithmetic::Add, old, update),
    };
    let sum = within_type(code, dtype, sum);
    match code.device.lanes(dtype) {
        1 => narrowed(code, dtype, sum),
        _ => narrowed_for_arithmetic(code, dtype, sum),
    }
}

/// The index of a row of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    reg: Reg,
    /// The extent of the indexed axis.
    pub extent: usize,
}

impl Index {
    pub fn of(body: &ScatterBody) -> Index {
        Index { reg: body.index, extent: body.extents[2] }
    }

    /// Computes the index and all other row registers.
    pub fn registers(
        &self,
        code: &mut Code,
        body: &BodyCode,
        row: Variable,
    ) -> Result<Registers, CodegenError> {
        let mut registers = vec![None; body.body.insts.len()];
        body.run(code, 0..=self.reg, row, &mut registers)?;
        Ok(registers)
    }

    /// The index, and whether it lies inside the axis.
    pub fn of_registers(
        &self,
        code: &mut Code,
        body: &BodyCode,
        registers: &Registers,
    ) -> (Variable, Variable) {
        let elem = self.elem(code, body);
        let index = code.cast(elem, computed(registers, self.reg));
        let (zero, extent) = (code.int(elem, 0), code.int(elem, self.extent as i64));
        let is_above = code.cmp(Comparison::GreaterEqual, index, zero);
        let is_below = code.less(index, extent);
        (index, code.and(is_above, is_below))
    }

    /// The signed type in which indices and bounds are compared. Without a wider type, a large index becomes
    /// negative, and so is outside.
    pub fn elem(&self, code: &Code, body: &BodyCode) -> ElemType {
        let dtype = body.body.insts[self.reg].dtype;
        let is_short =
            dtype.is_index() && dtype.index_type() == DType::I32 && i32::try_from(self.extent).is_ok();
        if is_short || !code.device.has_i64 { I32 } else { I64 }
    }
}

/// The value of a register.
pub fn computed(registers: &Registers, reg: Reg) -> Variable {
    registers[reg].unwrap_or_else(|| crate::bug!("register {reg} of a scatter was not computed"))
}
