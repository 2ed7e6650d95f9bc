//! Unpacked copies of packed operands for a custom kernel: one element per word, and back.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::packed_types::{Buffer, narrowed, widened};
use crate::codegen::types::{LARGEST_NARROW, THREADS};
use crate::device_model::DeviceModel;
use crate::ir::DType;
use crate::op::gpu::{View, WORKSPACE_ALIGNMENT};
use cubecl_core::ir::{Builtin, Variable};

/// A copy between a packed operand and an unpacked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unpack {
    /// The type of the packed operand.
    dtype: DType,
    view: View,
    n: usize,
    /// Elements per word.
    lanes: usize,
    /// Whether the copy writes the packed operand.
    is_back: bool,
}

impl Schedule for Unpack {
    fn entry(&self) -> &'static str {
        "unpack"
    }

    fn blocks(&self, _: &KernelSpec, n_words: usize) -> usize {
        n_words.div_ceil(THREADS)
    }

    /// Words of the packed operand; each has a thread.
    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n.div_ceil(self.lanes)
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let thread = code.builtin(Builtin::AbsolutePos);
        let is_word = code.less(thread, kernel.points());
        let [packed, copy] = [0, 1].map(|operand| &kernel.buffers.operands[operand]);
        code.when(is_word, |code| {
            let first = code.scaled(thread, self.lanes as i64);
            match self.is_back {
                true => kernel.buffers.unless_failed(code, |code| pack(code, self, packed, copy, first)),
                false => unpack(code, self, packed, copy, first),
            }
        });
        Ok(())
    }
}

/// The copies of a kernel's operands, which follow the workspace of its own launches.
pub struct Copies<'o> {
    operands: &'o [OperandForm],
    /// Elements of the operands.
    counts: &'o [usize],
    device: DeviceModel,
    end: usize,
    copies: Vec<(usize, View, OperandForm)>,
}

impl<'o> Copies<'o> {
    /// No copies; `end` is the end of the workspace so far.
    pub fn new(
        operands: &'o [OperandForm],
        counts: &'o [usize],
        device: DeviceModel,
        end: usize,
    ) -> Copies<'o> {
        Copies { operands, counts, device, end, copies: vec![] }
    }

    /// The copy of an operand in a view. The first use allocates it.
    pub fn of(&mut self, operand: usize, view: View) -> OperandForm {
        let known = self.copies.iter().find(|(known, as_what, _)| (*known, *as_what) == (operand, view));
        if let Some((_, _, copy)) = known {
            return *copy;
        }
        let lanes = self.device.lanes(self.operands[operand].dtype);
        let start = self.end.next_multiple_of(WORKSPACE_ALIGNMENT);
        // Copies have whole words, and at least one.
        let n_words = self.counts[operand].next_multiple_of(lanes).max(1);
        self.end = start + 4 * n_words;
        let dtype = match self.operands[operand].dtype {
            dtype if view == View::Elements && dtype.is_float() => DType::F32,
            dtype if view == View::Elements && dtype.is_signed_int() => DType::I32,
            _ => DType::U32,
        };
        let copy = OperandForm { dtype, ..OperandForm::words(start, n_words) };
        self.copies.push((operand, view, copy));
        copy
    }

    /// The launches that unpack operands that the kernel reads.
    pub fn before(&self) -> Vec<KernelSpec> {
        self.launches(false)
    }

    /// The launches that pack operands that the kernel writes.
    pub fn after(&self) -> Vec<KernelSpec> {
        self.launches(true)
    }

    fn launches(&self, is_back: bool) -> Vec<KernelSpec> {
        let wanted = self.copies.iter().filter(|(operand, ..)| self.operands[*operand].is_written == is_back);
        wanted.map(|&(operand, view, copy)| self.launch(operand, view, copy, is_back)).collect()
    }

    fn launch(&self, operand: usize, view: View, copy: OperandForm, is_back: bool) -> KernelSpec {
        let packed = self.operands[operand];
        let (dtype, n, lanes) = (packed.dtype, self.counts[operand], self.device.lanes(packed.dtype));
        let is_wide = packed.is_wide || n > LARGEST_NARROW;
        let schedule = Unpack { dtype, view, n, lanes, is_back };
        let operands = vec![OperandForm { is_wide, ..packed }, copy];
        KernelSpec::without_body(schedule, operands, self.device)
    }
}

fn unpack(code: &mut Code, form: &Unpack, packed: &Buffer, copy: &Buffer, first: Variable) {
    let lanes = packed.load_vector(code, first, form.lanes);
    for (lane, bits) in lanes.into_iter().enumerate() {
        let value = match form.view {
            View::Elements => widened(code, form.dtype, bits),
            View::Bits | View::Stored => bits,
        };
        let place = code.at_offset(first, lane);
        copy.store(code, place, value);
    }
}

fn pack(code: &mut Code, form: &Unpack, packed: &Buffer, copy: &Buffer, first: Variable) {
    let mut lanes = vec![];
    for lane in 0..form.lanes {
        let place = code.at_offset(first, lane);
        let value = copy.load(code, place);
        lanes.push(match form.view {
            View::Elements => narrowed(code, form.dtype, value),
            View::Bits | View::Stored => code.cast(U32, value),
        });
    }
    packed.store_vector(code, first, &lanes);
}
