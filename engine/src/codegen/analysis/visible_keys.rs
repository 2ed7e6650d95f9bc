//! The keys that queries see: the range in which a score is not hidden behind `-inf`.
//!
//! A causal mask or a window selects the score or `-inf` by comparing the coordinates of a key and a query. Tiles of keys
//! that no query of a block sees are skipped, and tiles that all of them see need no mask.

use super::operands::with_registers;
use crate::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Reg};
use crate::ir::{Binary, Literal, Scalar, Unary};
use std::ops::Range;

/// The keys that each row of scores sees, as far as coordinates tell: row r sees keys `c + first .. c + end`, where
/// `c = r mod period` is the number of its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisibleKeys {
    /// The queries after which the numbers start again.
    pub period: usize,
    /// The first visible key, relative to the query; all keys before the end if absent.
    pub first: Option<i64>,
    /// The first key after the visible ones, relative to the query; all keys from the first on if absent.
    pub end: Option<i64>,
    /// The register of the score before it is hidden, if a key in that range is never hidden by coordinates.
    pub unmasked: Option<Reg>,
    /// The register of the score.
    score: Option<Reg>,
    n_keys: usize,
}

impl VisibleKeys {
    /// The keys for which a register of a body over rows of scores may be other than `-inf`.
    pub fn of(body: &FusedBody, score: Reg) -> VisibleKeys {
        let bounds = bounds_of(body, score);
        let Bounds { period, first, end, .. } = bounds;
        let (unmasked, n_keys) = (unmasked(body, score, bounds), body.domain.row);
        VisibleKeys {
            period: period.unwrap_or(body.domain.outer.max(1)),
            first,
            end,
            unmasked,
            score: Some(score),
            n_keys,
        }
    }

    /// All keys of a body over rows of scores.
    pub fn all(body: &FusedBody) -> VisibleKeys {
        let (period, n_keys) = (body.domain.outer.max(1), body.domain.row);
        VisibleKeys { period, first: None, end: None, unmasked: None, score: None, n_keys }
    }

    /// The keys that some of these rows see; an empty range if there are none.
    pub fn of_rows(&self, rows: Range<usize>) -> Range<usize> {
        let (lowest, highest) = self.queries(rows);
        let n_keys = self.n_keys as i64;
        let first = self.first.map_or(0, |first| (lowest + first).clamp(0, n_keys));
        let end = self.end.map_or(n_keys, |end| (highest + end).clamp(first, n_keys));
        first as usize..end as usize
    }

    /// Whether each of these rows sees each of these keys, so that the score needs no mask of coordinates.
    pub fn are_seen(&self, rows: Range<usize>, keys: Range<usize>) -> bool {
        let (lowest, highest) = self.queries(rows);
        self.unmasked.is_some()
            && self.first.is_none_or(|first| highest + first <= keys.start as i64)
            && self.end.is_none_or(|end| keys.end as i64 <= lowest + end)
    }

    /// The rows of one period that see a key of a range.
    pub fn queries_of(&self, keys: Range<usize>) -> Range<usize> {
        let n_queries = self.period as i64;
        // Query c sees key j if c + first <= j and j < c + end.
        let low = self.end.map_or(0, |end| (keys.start as i64 - end + 1).clamp(0, n_queries));
        let high = self.first.map_or(n_queries, |first| (keys.end as i64 - first).clamp(low, n_queries));
        low as usize..high as usize
    }

    /// The body for points at which each key is visible, if it needs no mask of coordinates there. Registers keep their
    /// numbers.
    pub fn without_mask(&self, body: &FusedBody) -> Option<FusedBody> {
        let (score, unmasked) = self.score.zip(self.unmasked).filter(|_| self.hides())?;
        let renamed = |reg: Reg| if reg == score { unmasked } else { reg };
        let insts = body.insts.iter().map(|inst| {
            let op = with_registers(&inst.op, renamed);
            FusedInst { op, ..inst.clone() }
        });
        Some(FusedBody { insts: insts.collect(), ..body.clone() })
    }

    /// Whether any key is hidden by coordinates.
    pub fn hides(&self) -> bool {
        self.first.is_some() || self.end.is_some()
    }

    /// The least and the greatest number of a query among rows.
    fn queries(&self, rows: Range<usize>) -> (i64, i64) {
        let last = rows.end.saturating_sub(1).max(rows.start);
        match rows.start / self.period == last / self.period {
            true => ((rows.start % self.period) as i64, (last % self.period) as i64),
            false => (0, self.period as i64 - 1),
        }
    }
}

/// Bounds of a key relative to the number of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    period: Option<usize>,
    first: Option<i64>,
    end: Option<i64>,
    /// Whether the condition is nothing but these bounds.
    is_exact: bool,
}

impl Bounds {
    /// A condition that is not known.
    const ANY: Bounds = Bounds { period: None, first: None, end: None, is_exact: false };

    /// The bounds of both conditions.
    fn and(self, other: Bounds) -> Bounds {
        let period = match (self.period, other.period) {
            (Some(own), Some(period)) if own != period => return Bounds { is_exact: false, ..self },
            (own, period) => own.or(period),
        };
        let tighter = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        Bounds {
            period,
            first: tighter(self.first, other.first, i64::max),
            end: tighter(self.end, other.end, i64::min),
            is_exact: self.is_exact && other.is_exact,
        }
    }
}

/// The bounds of all selections that hide a score.
fn bounds_of(body: &FusedBody, score: Reg) -> Bounds {
    let mut bounds = Bounds { is_exact: true, ..Bounds::ANY };
    let mut at = score;
    loop {
        if let Some((condition, seen, holds)) = hiding(body, at) {
            bounds = bounds.and(condition_bounds(body, condition, holds));
            at = seen;
            continue;
        }
        match &body.insts[at].op {
            // A conversion between floats keeps infinities.
            FusedOp::Scalar(Scalar::Cast(dtype), args)
                if dtype.is_float() && body.insts[args[0]].dtype.is_float() =>
            {
                at = args[0];
            }
            _ => return bounds,
        }
    }
}

/// The condition of a selection between a score and `-inf`, the score, and whether it is seen where the condition holds.
fn hiding(body: &FusedBody, reg: Reg) -> Option<(Reg, Reg, bool)> {
    let FusedOp::Scalar(Scalar::Select, args) = &body.insts[reg].op else { return None };
    match args[..] {
        [condition, seen, hidden] if is_hidden(body, hidden) => Some((condition, seen, true)),
        [condition, hidden, seen] if is_hidden(body, hidden) => Some((condition, seen, false)),
        _ => None,
    }
}

/// The score behind the first selections, if these alone have the bounds that were found.
fn unmasked(body: &FusedBody, score: Reg, found: Bounds) -> Option<Reg> {
    let (mut at, mut bounds) = (score, Bounds { is_exact: true, ..Bounds::ANY });
    while let Some((condition, seen, holds)) = hiding(body, at) {
        let next = bounds.and(condition_bounds(body, condition, holds));
        if !next.is_exact {
            break;
        }
        (at, bounds) = (seen, next);
    }
    let has_all = (bounds.period, bounds.first, bounds.end) == (found.period, found.first, found.end);
    has_all.then_some(at)
}

/// Whether a register is `-inf`.
fn is_hidden(body: &FusedBody, reg: Reg) -> bool {
    match &body.insts[reg].op {
        FusedOp::Const(Literal::Float(value)) => *value == f64::NEG_INFINITY,
        FusedOp::Scalar(Scalar::Cast(dtype), args) => dtype.is_float() && is_hidden(body, args[0]),
        _ => false,
    }
}

/// The bounds that follow if a condition holds, or if it does not.
fn condition_bounds(body: &FusedBody, condition: Reg, holds: bool) -> Bounds {
    let FusedOp::Scalar(op, args) = &body.insts[condition].op else { return Bounds::ANY };
    match (op, &args[..]) {
        (Scalar::Unary(Unary::Not), &[inner]) => condition_bounds(body, inner, !holds),
        (Scalar::Binary(Binary::And), &[a, b]) if holds => both(body, a, b, holds),
        // Not (a or b): neither.
        (Scalar::Binary(Binary::Or), &[a, b]) if !holds => both(body, a, b, holds),
        (Scalar::Binary(op), &[a, b]) if op.is_comparison() => {
            let op = if holds { Some(*op) } else { negated(*op) };
            op.and_then(|op| comparison_bounds(body, op, a, b)).unwrap_or(Bounds::ANY)
        }
        _ => Bounds::ANY,
    }
}

fn both(body: &FusedBody, a: Reg, b: Reg, holds: bool) -> Bounds {
    condition_bounds(body, a, holds).and(condition_bounds(body, b, holds))
}

/// The comparison of integers that holds where another does not.
fn negated(op: Binary) -> Option<Binary> {
    Some(match op {
        Binary::Lt => Binary::Ge,
        Binary::Le => Binary::Gt,
        Binary::Gt => Binary::Le,
        Binary::Ge => Binary::Lt,
        Binary::Ne => Binary::Eq,
        _ => return None,
    })
}

/// The bounds of `key - query ⋛ distance`.
fn comparison_bounds(body: &FusedBody, op: Binary, a: Reg, b: Reg) -> Option<Bounds> {
    let mut difference = linear(body, a)?.plus(linear(body, b)?.times(-1))?;
    let mut op = op;
    if difference.key < 0 {
        difference = difference.times(-1);
        op = match op {
            Binary::Lt => Binary::Gt,
            Binary::Le => Binary::Ge,
            Binary::Gt => Binary::Lt,
            Binary::Ge => Binary::Le,
            op => op,
        };
    }
    let Linear { key: 1, query: Some((-1, period)), offset } = difference else { return None };
    let exact = Bounds { period: Some(period), is_exact: true, ..Bounds::ANY };
    // key - query + offset ⋛ 0
    Some(match op {
        Binary::Lt => Bounds { end: Some(-offset), ..exact },
        Binary::Le => Bounds { end: Some(1 - offset), ..exact },
        Binary::Gt => Bounds { first: Some(1 - offset), ..exact },
        Binary::Ge => Bounds { first: Some(-offset), ..exact },
        Binary::Eq => Bounds { first: Some(-offset), end: Some(1 - offset), ..exact },
        _ => return None,
    })
}

/// `key · j + query · i + offset` for key j and the number i of a query, with the period of that number.
#[derive(Clone, Copy)]
struct Linear {
    key: i64,
    query: Option<(i64, usize)>,
    offset: i64,
}

impl Linear {
    fn plus(self, other: Linear) -> Option<Linear> {
        let query = match (self.query, other.query) {
            (Some((a, period)), Some((b, other))) if period == other => Some((a + b, period)),
            (Some(_), Some(_)) => return None,
            (a, b) => a.or(b),
        };
        Some(Linear { key: self.key + other.key, query, offset: self.offset.checked_add(other.offset)? })
    }

    fn times(self, factor: i64) -> Linear {
        let query = self.query.map(|(query, period)| (query * factor, period));
        Linear { key: self.key * factor, query, offset: self.offset.saturating_mul(factor) }
    }
}

/// An integer register as a linear function of coordinates.
fn linear(body: &FusedBody, reg: Reg) -> Option<Linear> {
    let inst = &body.insts[reg];
    match &inst.op {
        FusedOp::Const(literal) if literal.as_f64() == literal.as_i64() as f64 => {
            Some(Linear { key: 0, query: None, offset: literal.as_i64() })
        }
        FusedOp::Coord(access) => coordinate(body, access, inst.class),
        FusedOp::Scalar(op, args) if args.iter().all(|&arg| body.insts[arg].dtype.is_index()) => {
            let arg = |number: usize| linear(body, args[number]);
            match op {
                Scalar::Binary(Binary::Add) => arg(0)?.plus(arg(1)?),
                Scalar::Binary(Binary::Sub) => arg(0)?.plus(arg(1)?.times(-1)),
                Scalar::Unary(Unary::Neg) => Some(arg(0)?.times(-1)),
                Scalar::Cast(dtype) if dtype.size() >= 4 && dtype.is_index() => arg(0),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A coordinate that counts keys, or queries up to a period.
fn coordinate(body: &FusedBody, access: &Access, class: Class) -> Option<Linear> {
    let domain = body.domain;
    let (offset, axes) = match class {
        Class::Element => access.axes_by_axis(&[domain.outer, domain.row])?,
        Class::Row => access.axes_by_axis(&[domain.outer])?,
        Class::Uniform => return None,
    };
    let steps = |axis: usize| axes.get(axis).into_iter().flatten().filter(|axis| axis.extent > 1);
    let key = match steps(1).map(|axis| (axis.extent, axis.stride)).collect::<Vec<_>>()[..] {
        [] => 0,
        [(_, 0)] => 0,
        [(_, 1)] => 1,
        _ => return None,
    };
    let outer: Vec<_> = steps(0).collect();
    let query = match outer[..] {
        [] => None,
        [ref before @ .., last] if before.iter().all(|axis| axis.stride == 0) => match last.stride {
            0 => None,
            1 => Some((1, last.extent)),
            _ => return None,
        },
        _ => return None,
    };
    Some(Linear { key, query, offset })
}
