//! Epilogues that are equal in all rows.

use crate::fusion::{Access, Class, Domain, FusedBody, FusedOp};

/// The epilogue over the columns of one row, if it is equal in all rows. Points then stay small numbers.
pub fn by_column(body: &FusedBody) -> Option<FusedBody> {
    let n = body.domain.row;
    let mut insts = body.insts.clone();
    for inst in insts.iter_mut().filter(|inst| inst.class == Class::Element) {
        if let FusedOp::Load { access, .. } | FusedOp::Coord(access) | FusedOp::Random { access, .. } =
            &mut inst.op
        {
            *access = along_columns(access, n)?;
        } else if let FusedOp::Check { .. } = inst.op {
            return None;
        }
    }
    Some(FusedBody { domain: Domain { outer: 1, ..body.domain }, insts })
}

fn along_columns(access: &Access, n: usize) -> Option<Access> {
    let access = access.normalized();
    let [level] = &access.levels[..] else { return None };
    let axes: Vec<(usize, i64)> = level.axes.iter().map(|axis| (axis.extent, axis.stride)).collect();
    let stride = match axes[..] {
        [] | [(_, 0)] => 0,
        [(_, 0), (extent, stride)] | [(extent, stride)] if extent == n => stride,
        _ => return None,
    };
    let mut along = Access::strided(&[n], &[stride]);
    along.levels[0].offset = level.offset;
    level.guards.is_empty().then_some(along)
}
