//! What loops ask memory for: while a block is computed, the next one is fetched, a share by each loop.

use super::super::address::Address;
use super::{Dest, Inst, Op, Sharing};
use engine_core::fusion::Access;
use engine_core::ir::{Binary, DType, Scalar, Unary};

/// A share of the elements that an operand has at the next block: those from `shares.0` to `shares.1`, of
/// `shares.2`.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The operand.
    pub operand: usize,
    /// Where the points of the block lie in it.
    pub address: Address,
    /// The share.
    pub shares: [usize; 3],
}

/// Spreads what a block reads and writes over the loops that can fetch, by the time they take: memory then is as busy
/// in a row's first pass as in its last.
pub(super) fn spread(mut insts: Vec<&mut Inst>, sharing: &[Sharing], n_points: usize) {
    let mut streams: Vec<(usize, Address)> = vec![];
    for inst in &insts {
        let stream = match (&inst.op, inst.dest) {
            (Op::Load { operand, address, index: None, .. }, _) => Some((*operand, address.clone())),
            (Op::Store { operand, address, .. }, _) => Some((*operand, address.clone())),
            (_, Dest::Operand(operand)) => Some((operand, Address::new(&Access::dense(&[n_points])))),
            _ => None,
        };
        // What is written in place comes with what is read there.
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

/// About how long a loop takes that can fetch; 0 for others.
fn weight(inst: &Inst) -> usize {
    match &inst.op {
        Op::Affine { .. } => SLOW,
        Op::Pair { .. } => 1,
        Op::Scalar { op: Scalar::Unary(op), dtype: DType::F32, .. } => match op {
            op if super::super::loops::has_affine_loop(*op) => SLOW,
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

/// What a slow function counts for, next to arithmetic.
const SLOW: usize = 3;
