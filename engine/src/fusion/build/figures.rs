//! The bytes and operations of a kernel.

use crate::fusion::access::Access;
use crate::fusion::domain::Class;
use crate::fusion::kernel::KernelBody;
use crate::fusion::kernel::body::{FusedBody, FusedOp};
use crate::fusion::kernel::operand::{Operand, Use};

/// Bytes that a kernel reads: each element of an operand that it reaches, once.
pub fn bytes_read(body: &KernelBody, operands: &[Operand]) -> u64 {
    let read = (0..operands.len()).filter(|&operand| operands[operand].usage == Use::Read);
    read.map(|operand| reached(body, operands, operand)).sum()
}

/// Bytes that a kernel writes: of a state whose row it writes, the row.
pub fn bytes_written(body: &KernelBody, operands: &[Operand]) -> u64 {
    let row = |operand: usize| {
        let mut stores =
            body.work().bodies().into_iter().flat_map(|body| body.insts.iter().map(move |inst| (body, inst)));
        stores.find_map(|(body, inst)| match inst.op {
            FusedOp::Store { operand: o, index: Some(_), .. } if o == operand => {
                Some(body.domain.points(inst.class) * inst.dtype.size())
            }
            _ => None,
        })
    };
    let written = operands.iter().enumerate().filter(|(_, operand)| operand.usage == Use::Write);
    written.map(|(number, operand)| row(number).unwrap_or(operand.ty.bytes()) as u64).sum()
}

/// Bytes of an operand that a kernel reaches.
fn reached(body: &KernelBody, operands: &[Operand], operand: usize) -> u64 {
    let ty = &operands[operand].ty;
    if body.work().reads_whole(operand) {
        return ty.bytes() as u64;
    }
    let loaded: usize = body.work().bodies().into_iter().map(|body| loaded(body, operand)).sum();
    (loaded.min(ty.numel()) * ty.dtype.size()) as u64
}

/// Elements of an operand that a body loads.
fn loaded(body: &FusedBody, operand: usize) -> usize {
    let loads = body.insts.iter().filter_map(|inst| match &inst.op {
        FusedOp::Load { operand: o, access, index } if *o == operand => Some(match index {
            Some(_) => body.domain.points(inst.class),
            None => distinct(access),
        }),
        _ => None,
    });
    loads.sum()
}

fn distinct(access: &Access) -> usize {
    let axes = access.levels.iter().map(|level| {
        level.axes.iter().filter(|axis| axis.stride != 0).map(|axis| axis.extent).product::<usize>()
    });
    axes.min().unwrap_or(1)
}

/// Floating-point operations of a kernel; a transcendental counts as one.
pub fn flops(body: &KernelBody) -> u64 {
    let work = body.work();
    work.more_flops() as u64 + work.bodies().into_iter().map(body_flops).sum::<u64>()
}

fn body_flops(body: &FusedBody) -> u64 {
    let insts = body.insts.iter().filter(|inst| inst.dtype.is_float());
    let flops = insts.map(|inst| match inst.op {
        FusedOp::Reduce { .. } => body.domain.points(Class::Element),
        FusedOp::Scalar(..) => body.domain.points(inst.class),
        _ => 0,
    });
    flops.map(|flops| flops as u64).sum()
}
