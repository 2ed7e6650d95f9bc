//! The instructions of a body at a group of neighbouring points.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::ops::access::element;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::philox;
use crate::codegen::ops::vector_group::{Group, Step, is_vector, same, step};
use crate::fusion::{Access, Class, FusedOp, Reg};
use cubecl_core::ir::Variable;

impl BodyCode<'_> {
    /// Emits instructions `regs`, in order, at all points of a group; `registers` are those of each point.
    pub fn run_group(
        &self,
        code: &mut Code,
        regs: impl IntoIterator<Item = Reg>,
        group: &Group,
        registers: &mut [Registers],
    ) -> Result<(), CodegenError> {
        if let ([point], [registers]) = (&group.points[..], &mut *registers) {
            return self.run(code, regs, *point, registers);
        }
        let same = same(self.body, group.width());
        for reg in regs {
            if same[reg] {
                self.run(code, [reg], group.points[0], &mut registers[0])?;
                let value = registers[0][reg];
                registers.iter_mut().for_each(|registers| registers[reg] = value);
            } else if !self.run_as_vector(code, reg, group, registers, &same) {
                for (&point, registers) in group.points.iter().zip(&mut *registers) {
                    self.run(code, [reg], point, registers)?;
                }
            }
        }
        Ok(())
    }

    /// Emits one instruction for the whole group as a vector, if that is possible.
    fn run_as_vector(
        &self,
        code: &mut Code,
        reg: Reg,
        group: &Group,
        registers: &mut [Registers],
        same: &[bool],
    ) -> bool {
        let inst = &self.body.insts[reg];
        let width = group.width();
        let is_next = |access: &Access| inst.class == Class::Element && step(access, width) == Step::Next;
        let values = match &inst.op {
            FusedOp::Load { operand, access, index }
                if is_vector(inst, width, same) && !self.buffers.is_empty(*operand) =>
            {
                let index = index.and_then(|(reg, stride)| Some((registers[0][reg]?, stride)));
                self.load_vector(code, reg, (*operand, access, index), group)
            }
            FusedOp::Store { operand, access, value, index } if is_vector(inst, width, same) => {
                let values: Option<Vec<Variable>> = {
                    let value = self.unrounded(code, *value);
                    registers.iter().map(|registers| registers[value]).collect()
                };
                let Some(values) = values else { return false };
                let index = index.and_then(|(reg, stride)| Some((registers[0][reg]?, stride)));
                self.store_vector(code, (inst, *value), (*operand, access, index), &values, group);
                return true;
            }
            FusedOp::Random { stream, step, iteration, access }
                if is_next(access) && width.is_multiple_of(philox::WORDS) =>
            {
                let Some(step) = registers[0][*step] else { return false };
                let iteration = iteration.and_then(|reg| registers[0][reg]);
                let first = element(code, access, group.points[0]);
                let words = (0..width / philox::WORDS).flat_map(|block| {
                    let offset = code.at((block * philox::WORDS) as i64);
                    let first = code.add_at(first.index, offset);
                    self.random_block(code, *stream, step, iteration, first)
                });
                let words: Vec<Variable> = words.collect();
                words.into_iter().map(|word| first.filled(code, inst.dtype, word)).collect()
            }
            _ => return false,
        };
        registers.iter_mut().zip(values).for_each(|(registers, value)| registers[reg] = Some(value));
        true
    }
}
