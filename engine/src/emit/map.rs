//! Map kernels: a thread per point.

use super::code::Code;
use super::tile::TileCode;
use super::{Buffers, EmitError};
use crate::fuse::Tile;
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
        let mut registers = vec![None; tile.insts.len()];
        result = tile_code.run(code, 0..tile.insts.len(), point, &mut registers);
    });
    result
}
