//! Map kernels: a thread per group of points.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::vector_group::{self, Group};
use crate::codegen::types::THREADS;
use crate::fusion::{Class, Domain, FusedBody, FusedInst};
use cubecl_core::ir::{Builtin, Variable};

/// The fewest threads that fill a GPU; groups of points stay small enough for as many.
const FEWEST_THREADS: usize = 1 << 15;

/// Points of a thread. If the body has row registers, they lie in one row.
pub fn width(body: &FusedBody) -> usize {
    let Domain { row, inner, .. } = body.domain;
    let n_points = body.domain.points(Class::Element);
    let length = match has_rows(body) {
        false => n_points,
        true if inner == 1 => row,
        true => 1,
    };
    wide_enough(vector_group::width(body, length), n_points)
}

fn has_rows(body: &FusedBody) -> bool {
    body.insts.iter().any(|inst| inst.class == Class::Row)
}

/// The largest width up to `width` that leaves enough threads.
pub fn wide_enough(mut width: usize, n_points: usize) -> usize {
    while width > 1 && n_points / width < FEWEST_THREADS {
        width /= 2;
    }
    width
}

/// A thread per group of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Map;

impl Schedule for Map {
    fn entry(&self) -> &'static str {
        "map"
    }

    fn blocks(&self, kernel: &KernelSpec, n_points: usize) -> usize {
        n_points.div_ceil(THREADS * width(&kernel.body))
    }

    fn vector_width(&self, kernel: &KernelSpec, operand: usize) -> usize {
        vector_group::shared_width(&kernel.body, operand, width(&kernel.body))
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let width = width(body.body);
        let thread = code.builtin(Builtin::AbsolutePos);
        let first = code.scaled(thread, width as i64);
        let is_point = code.less(first, kernel.points());
        let mut result = Ok(());
        code.when(is_point, |code| {
            result = match width {
                1 => at_point(code, &body, first, vec![None; body.body.insts.len()]),
                width => {
                    let group = Group::from(code, first, width);
                    if vector_group::is_uneven(body.body, width) {
                        group.note_number(code, thread, body.body.domain.points(Class::Element));
                    }
                    whole_group(code, &body, &group)
                }
            };
        });
        result
    }
}

/// Emits the whole body at the points of a group.
pub fn at_group(code: &mut Code, body: &BodyCode, first: Variable, width: usize) -> Result<(), CodegenError> {
    let group = Group::from(code, first, width);
    whole_group(code, body, &group)
}

fn whole_group(code: &mut Code, body: &BodyCode, group: &Group) -> Result<(), CodegenError> {
    registers_of_group(code, body, group, vec![None; body.body.insts.len()]).map(drop)
}

/// Emits the whole body at one point; row registers are computed at each point. Registers that have a value keep
/// it.
pub fn at_point(
    code: &mut Code,
    body: &BodyCode,
    point: Variable,
    registers: Registers,
) -> Result<(), CodegenError> {
    registers_at_point(code, body, point, registers).map(|_| ())
}

/// Emits the whole body at one point, and returns its registers.
pub fn registers_at_point(
    code: &mut Code,
    body: &BodyCode,
    point: Variable,
    mut registers: Registers,
) -> Result<Registers, CodegenError> {
    let FusedBody { domain, insts } = body.body;
    let row = has_rows(body.body).then(|| row_of(code, domain, point));
    for (reg, inst) in insts.iter().enumerate() {
        if registers[reg].is_some() {
            continue;
        }
        let point = if inst.class == Class::Row { row.unwrap_or(point) } else { point };
        body.run(code, [reg], point, &mut registers)?;
    }
    Ok(registers)
}

/// Emits the whole body at the points of a group, which lie in one row, and returns the registers of each.
pub fn registers_of_group(
    code: &mut Code,
    body: &BodyCode,
    group: &Group,
    registers: Registers,
) -> Result<Vec<Registers>, CodegenError> {
    let mut registers = vec![registers; group.points.len()];
    group_with_registers(code, body, group, &mut registers)?;
    Ok(registers)
}

/// Emits the whole body at the points of a group, which lie in one row. Registers that have a value at the points keep
/// it.
pub fn group_with_registers(
    code: &mut Code,
    body: &BodyCode,
    group: &Group,
    registers: &mut [Registers],
) -> Result<(), CodegenError> {
    let FusedBody { domain, insts } = body.body;
    let is_row = |inst: &FusedInst| inst.class == Class::Row;
    let row = has_rows(body.body).then(|| row_of(code, domain, group.first()));
    let missing: Vec<usize> = (0..insts.len()).filter(|&reg| registers[0][reg].is_none()).collect();
    for reg in missing {
        match row.filter(|_| is_row(&insts[reg])) {
            Some(row) => {
                body.run(code, [reg], row, &mut registers[0])?;
                let value = registers[0][reg];
                registers.iter_mut().for_each(|registers| registers[reg] = value);
            }
            None => body.run_group(code, [reg], group, registers)?,
        }
    }
    Ok(())
}

fn row_of(code: &mut Code, domain: &Domain, point: Variable) -> Variable {
    let outer = code.divided(point, domain.row * domain.inner);
    let first = code.scaled(outer, domain.inner as i64);
    let inner = code.modulo(point, domain.inner);
    code.add_at(first, inner)
}
