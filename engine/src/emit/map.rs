//! Map kernels: a thread per point.

use super::code::Code;
use super::tile::{Registers, TileCode};
use super::{Buffers, EmitError};
use crate::fuse::{Class, Domain, Tile};
use cubecl_core::ir::{Builtin, Variable};

/// Threads per cube.
pub const THREADS: usize = 256;

/// Emits a map over `n_points` points.
pub fn map(code: &mut Code, tile: &Tile, buffers: &Buffers, n_points: Variable) -> Result<(), EmitError> {
    let point = code.builtin(Builtin::AbsolutePos);
    let is_point = code.less(point, n_points);
    let tile_code = TileCode { tile, buffers, shared: buffers };
    let mut result = Ok(());
    code.when(is_point, |code| {
        let registers = vec![None; tile.insts.len()];
        result = at_point(code, &tile_code, point, registers);
    });
    result
}

/// The whole tile at one point; what is there once per row is computed at each point. Registers that are there already
/// stay.
pub fn at_point(
    code: &mut Code,
    tile_code: &TileCode,
    point: Variable,
    mut registers: Registers,
) -> Result<(), EmitError> {
    let Tile { domain, insts } = tile_code.tile;
    let row = insts.iter().any(|inst| inst.class == Class::Row).then(|| row_of(code, domain, point));
    for (reg, inst) in insts.iter().enumerate() {
        if registers[reg].is_some() {
            continue;
        }
        let point = if inst.class == Class::Row { row.unwrap_or(point) } else { point };
        tile_code.run(code, [reg], point, &mut registers)?;
    }
    Ok(())
}

fn row_of(code: &mut Code, domain: &Domain, point: Variable) -> Variable {
    let outer = code.divided(point, domain.row * domain.inner);
    let first = code.scaled(outer, domain.inner as i64);
    let inner = code.modulo(point, domain.inner);
    code.add_at(first, inner)
}
