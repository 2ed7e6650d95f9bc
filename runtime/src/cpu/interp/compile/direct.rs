//! Results in operands, and loads of operands that are overwritten.

use super::super::program::{Arg, Dest, Inst, Layout, Op, Program, Sharing, Superinstruction};
use engine_core::fusion::{Class, FusedBody, Reg};
use std::collections::HashMap;

/// Lets results that are only stored be computed in their operand.
pub(super) fn write_directly(program: &mut Program, body: &FusedBody, layout: Layout) {
    if !layout.is_contiguous {
        return;
    }
    let n_points = body.domain.points(Class::Element);
    for pass in &mut program.passes {
        let insts = &mut pass.element;
        let mut at = 0;
        while at < insts.len() {
            let Some((maker, operand)) = direct_target(insts, at, n_points, layout.sharing) else {
                at += 1;
                continue;
            };
            insts[maker].dest = Dest::Operand(operand);
            insts.remove(at);
        }
    }
}

/// For a plain store, the instruction that can compute its result in the operand.
fn direct_target(insts: &[Inst], at: usize, n_points: usize, sharing: &[Sharing]) -> Option<(usize, usize)> {
    let Op::Store { operand, address, value: Arg::Local(value), index: None } = &insts[at].op else {
        return None;
    };
    if !address.is_identity(n_points) {
        return None;
    }
    let maker = insts.iter().position(|inst| inst.reg == *value)?;
    let computes = match insts[maker].op {
        Op::Scalar { .. } | Op::Random(_) | Op::Coord(_) | Op::Super(_) => true,
        Op::Load { .. } => sharing[*operand] == Sharing::Alone,
        _ => false,
    };
    let is_free = match sharing[*operand] {
        Sharing::Alone => true,
        Sharing::InPlace(read) => is_read_before(insts, read, maker, n_points),
        Sharing::Overlaps => false,
    };
    (computes && is_free && insts[maker].dest == Dest::None).then_some((maker, *operand))
}

/// Whether operand `read` is read point by point, and only before the instruction `maker` writes its result. A pair reads
/// each vector before it writes there.
fn is_read_before(insts: &[Inst], read: usize, maker: usize, n_points: usize) -> bool {
    let is_pair = matches!(insts[maker].op, Op::Super(Superinstruction::Pair { .. }));
    let is_late = |reg: Reg| {
        insts
            .iter()
            .enumerate()
            .any(|(at, inst)| inst.op.args().any(|arg| arg == reg) && (at > maker || at == maker && !is_pair))
    };
    insts.iter().all(|inst| match &inst.op {
        Op::Load { operand, address, index, .. } if *operand == read => {
            index.is_none() && address.is_identity(n_points) && !is_late(inst.reg)
        }
        _ => true,
    })
}

/// Lets loads copy their elements if a store in place overwrites them before their last use. Other loads are views of
/// their operand where they can be.
pub(super) fn copy_overwritten(program: &mut Program, sharing: &[Sharing]) {
    let lists = program.passes.iter_mut().flat_map(|pass| [&mut pass.row, &mut pass.element]);
    let mut insts: Vec<&mut Inst> =
        lists.chain([&mut program.last_row]).flat_map(|list| list.iter_mut()).collect();
    let mut last_use: HashMap<Reg, usize> = HashMap::new();
    for (at, inst) in insts.iter().enumerate() {
        inst.op.args().for_each(|arg| _ = last_use.insert(arg, at));
    }
    let writes: Vec<(usize, Sharing)> = insts
        .iter()
        .enumerate()
        .filter_map(|(at, inst)| Some((at, sharing[inst.written_operand()?])))
        .filter(|(_, sharing)| *sharing != Sharing::Alone)
        .collect();
    for inst in &mut insts {
        let last = last_use.get(&inst.reg).copied().unwrap_or(0);
        if let Op::Load { operand, is_copied, .. } = &mut inst.op {
            let overwrites = |sharing: Sharing| match sharing {
                Sharing::Alone => false,
                Sharing::InPlace(read) => read == *operand,
                Sharing::Overlaps => true,
            };
            *is_copied = writes.iter().any(|&(at, sharing)| at < last && overwrites(sharing));
        }
    }
}
