//! Map kernels: a thread per group of points.

use crate::codegen::ir::builder::Code;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::vector_group::{self, Group};
use crate::codegen::{Buffers, CodegenError};
use crate::fusion::{Class, Domain, FusedBody, FusedInst};
use cubecl_core::ir::{Builtin, Variable};

/// Threads per cube.
pub const THREADS: usize = 256;

/// The fewest threads that points are gathered into groups for: fewer do not fill a GPU.
const FEWEST_THREADS: usize = 1 << 15;

/// Points of a thread; all in one row if something is there once per row.
pub fn width(tile: &FusedBody) -> usize {
    let Domain { row, inner, .. } = tile.domain;
    let n_points = tile.domain.points(Class::Element);
    let length = match has_rows(tile) {
        false => n_points,
        true if inner == 1 => row,
        true => 1,
    };
    wide_enough(vector_group::width(tile, length), n_points)
}

fn has_rows(tile: &FusedBody) -> bool {
    tile.insts.iter().any(|inst| inst.class == Class::Row)
}

/// At most `width`, so that there are enough threads.
pub fn wide_enough(mut width: usize, n_points: usize) -> usize {
    while width > 1 && n_points / width < FEWEST_THREADS {
        width /= 2;
    }
    width
}

/// Emits a map over `n_points` points.
pub fn map(
    code: &mut Code,
    tile: &FusedBody,
    buffers: &Buffers,
    n_points: Variable,
) -> Result<(), CodegenError> {
    let width = width(tile);
    let thread = code.builtin(Builtin::AbsolutePos);
    let first = code.scaled(thread, width as i64);
    let is_point = code.less(first, n_points);
    let tile_code = BodyCode { tile, buffers, shared: buffers };
    let mut result = Ok(());
    code.when(is_point, |code| {
        result = match width {
            1 => at_point(code, &tile_code, first, vec![None; tile.insts.len()]),
            width => at_group(code, &tile_code, first, width),
        };
    });
    result
}

/// The whole tile at the points of a group.
pub fn at_group(
    code: &mut Code,
    tile_code: &BodyCode,
    first: Variable,
    width: usize,
) -> Result<(), CodegenError> {
    let group = Group::from(code, first, width);
    registers_of_group(code, tile_code, &group, vec![None; tile_code.tile.insts.len()]).map(drop)
}

/// The whole tile at one point; what is there once per row is computed at each point. Registers that are there already
/// stay.
pub fn at_point(
    code: &mut Code,
    tile_code: &BodyCode,
    point: Variable,
    registers: Registers,
) -> Result<(), CodegenError> {
    registers_at_point(code, tile_code, point, registers).map(|_| ())
}

/// The same, and what the registers hold then.
pub fn registers_at_point(
    code: &mut Code,
    tile_code: &BodyCode,
    point: Variable,
    mut registers: Registers,
) -> Result<Registers, CodegenError> {
    let FusedBody { domain, insts } = tile_code.tile;
    let row = has_rows(tile_code.tile).then(|| row_of(code, domain, point));
    for (reg, inst) in insts.iter().enumerate() {
        if registers[reg].is_some() {
            continue;
        }
        let point = if inst.class == Class::Row { row.unwrap_or(point) } else { point };
        tile_code.run(code, [reg], point, &mut registers)?;
    }
    Ok(registers)
}

/// The same at the points of a group, which lie in one row.
pub fn registers_of_group(
    code: &mut Code,
    tile_code: &BodyCode,
    group: &Group,
    registers: Registers,
) -> Result<Vec<Registers>, CodegenError> {
    let FusedBody { domain, insts } = tile_code.tile;
    let is_row = |inst: &FusedInst| inst.class == Class::Row;
    let row = has_rows(tile_code.tile).then(|| row_of(code, domain, group.first()));
    let missing: Vec<usize> = (0..insts.len()).filter(|&reg| registers[reg].is_none()).collect();
    let mut registers = vec![registers; group.points.len()];
    for reg in missing {
        match row.filter(|_| is_row(&insts[reg])) {
            Some(row) => {
                tile_code.run(code, [reg], row, &mut registers[0])?;
                let value = registers[0][reg];
                registers.iter_mut().for_each(|registers| registers[reg] = value);
            }
            None => tile_code.run_group(code, [reg], group, &mut registers)?,
        }
    }
    Ok(registers)
}

fn row_of(code: &mut Code, domain: &Domain, point: Variable) -> Variable {
    let outer = code.divided(point, domain.row * domain.inner);
    let first = code.scaled(outer, domain.inner as i64);
    let inner = code.modulo(point, domain.inner);
    code.add_at(first, inner)
}
