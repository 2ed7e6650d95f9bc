//! Prefetching: while a block is computed, each loop requests a share of the next block.

use super::super::address::Address;
use super::super::program::{Dest, Fetch, Inst, Layout, Op, Program, Sharing, Superinstruction};
use engine_core::fusion::{Access, Class, FusedBody};
use engine_core::ir::{Binary, DType, Scalar, Unary};
use engine_numerics::loops::has_affine_loop;

/// Spreads the requests over the loops that can prefetch, so that memory is as busy in a row's first pass as in its last.
/// Passes over rows that are not resident read their memory anew, so each requests its own.
pub(super) fn spread(program: &mut Program, body: &FusedBody, layout: Layout) {
    if !layout.is_contiguous {
        return;
    }
    let n_points = body.domain.points(Class::Element);
    let passes = program.passes.iter_mut();
    match layout.is_resident {
        true => share(passes.flat_map(|pass| &mut pass.element).collect(), layout.sharing, n_points),
        false => passes.for_each(|pass| share(pass.element.iter_mut().collect(), layout.sharing, n_points)),
    }
}

/// Gives each loop a share of all that the instructions read and write, by the time that it takes.
fn share(mut insts: Vec<&mut Inst>, sharing: &[Sharing], n_points: usize) {
    let mut streams: Vec<(usize, Address)> = vec![];
    for inst in &insts {
        let stream = match (&inst.op, inst.dest) {
            (Op::Load { operand, address, index: None, .. }, _) => Some((*operand, address.clone())),
            (Op::Store { operand, address, index: None, .. }, _) => Some((*operand, address.clone())),
            (_, Dest::Operand(operand)) => Some((operand, Address::new(&Access::dense(&[n_points])))),
            _ => None,
        };
        // The operand that is read has the memory of the one that is written in place.
        let is_in_place = |operand: usize| matches!(sharing[operand], Sharing::InPlace(_));
        let is_new = |operand: usize| streams.iter().all(|(other, _)| *other != operand);
        streams.extend(stream.filter(|(operand, _)| !is_in_place(*operand) && is_new(*operand)));
    }
    let all: usize = insts.iter().map(|inst| weight(inst)).sum();
    let mut done = 0;
    for inst in &mut insts {
        let own = weight(inst);
        if own > 0 {
            let shares = [done, done + own, all];
            let fetch = |(operand, address): &(usize, Address)| Fetch {
                operand: *operand,
                address: address.clone(),
                shares,
            };
            inst.ahead = streams.iter().map(fetch).collect();
            done += own;
        }
    }
}

/// The weight of a slow function, next to arithmetic.
const SLOW: usize = 3;

/// The approximate duration of a loop that can prefetch; 0 for others.
fn weight(inst: &Inst) -> usize {
    match &inst.op {
        Op::Super(Superinstruction::Affine { .. }) => SLOW,
        Op::Super(Superinstruction::Pair { .. }) => 1,
        Op::Scalar { op: Scalar::Unary(op), dtype: DType::F32, .. } => match op {
            op if has_affine_loop(*op) => SLOW,
            Unary::Sin | Unary::Cos => SLOW,
            Unary::Neg | Unary::Abs | Unary::Sign | Unary::Sqrt | Unary::Rsqrt | Unary::Recip => 1,
            _ => 0,
        },
        Op::Scalar { op: Scalar::Binary(op), dtype: DType::F32, .. } => match op {
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Min | Binary::Max => 1,
            Binary::Div => 2,
            _ => 0,
        },
        Op::Reduce { monoid, dtype: DType::F32, .. } if !monoid.is_index() => 1,
        _ => 0,
    }
}
