//! Loads of the epilogue that start before the products, which hide their latency.
//!
//! Each point reads its own elements of such a tensor, so the stores of other points cannot change them, even where a
//! result shares the tensor's memory.

use crate::codegen::ir::builder::Code;
use crate::codegen::ops::access::element;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::scalar::widened;
use crate::codegen::ops::vector_group::{is_vector, same};
use crate::fusion::{Class, FusedOp, Reg};
use cubecl_core::ir::Variable;

/// Bytes of a load.
const LOAD_BYTES: usize = 16;
/// The most registers of a thread for loaded elements. The sums take 128 of 240.
const MOST_REGISTERS: usize = 64;

/// The loads of a body that start early, by register.
#[derive(Default)]
pub struct Preloads(Vec<Reg>);

impl Preloads {
    /// The loads of own elements in groups of `width` points, as many as registers are left for. A thread has `n_groups`.
    pub fn of(body: &BodyCode, width: usize, n_groups: usize) -> Preloads {
        let same = same(body.body, width);
        let n_points = body.body.domain.points(Class::Element);
        let is_own = |reg: &Reg| {
            let inst = &body.body.insts[*reg];
            let bytes = width * inst.dtype.size();
            match &inst.op {
                FusedOp::Load { access, index: None, .. } => {
                    bytes == LOAD_BYTES && access.is_identity(n_points) && is_vector(inst, width, &same)
                }
                _ => false,
            }
        };
        let most = MOST_REGISTERS / (n_groups * LOAD_BYTES / 4);
        Preloads((0..body.body.insts.len()).filter(is_own).take(most).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Declares the registers, which are numbered as the groups of a thread.
    pub fn declare(&self, code: &mut Code, counts: [usize; 3]) {
        let [parts, blocks, halves] = counts;
        for reg in &self.0 {
            code.line(format_args!("uint4 held_{reg}[{parts}][{blocks}][{halves}];"));
        }
    }

    /// Starts the loads of the group at a point.
    pub fn start(&self, code: &mut Code, body: &BodyCode, point: Variable) {
        for &reg in &self.0 {
            let FusedOp::Load { operand, access, .. } = &body.body.insts[reg].op else { continue };
            let index = element(code, access, point).index;
            let array = body.shared.operands[*operand].array;
            let [array, index] = [array, index].map(|x| code.named(x));
            code.line(format_args!("held_{reg}[i][j][half] = *(const uint4 *)({array} + {index});"));
        }
    }

    /// Gives the loaded elements to the registers of a group's points.
    pub fn give(&self, code: &mut Code, body: &BodyCode, registers: &mut [Registers]) {
        for &reg in &self.0 {
            let dtype = body.body.insts[reg].dtype;
            let memory = code.device.memory(dtype);
            for (e, registers) in registers.iter_mut().enumerate() {
                let stored = code.component_at(memory, format_args!("&held_{reg}[i][j][half]"), e);
                registers[reg] = Some(widened(code, dtype, stored));
            }
        }
    }
}
