//! The places of flags, checked against a capacity.

use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, DType, E, Literal, Requirement, Type, Value};

/// The places of flags.
pub struct Compacted {
    /// Where each row begins, and where the last one ends.
    pub lims: Value,
    /// The flat positions of the flags that are set, `i32[cap]`; arbitrary behind the end.
    pub positions: Value,
    /// Whether there is a position, `bool[cap]`.
    pub is_there: Value,
    /// How many there are, `i32[]`.
    pub count: Value,
}

impl Compacted {
    /// The places of flags in rows that begin at the flat positions `bounds`. More than `cap` of them are an error, unless
    /// that is 0.
    pub fn new(b: &mut Builder, flags: Value, bounds: Value, cap: usize) -> Compacted {
        let checked = |b: &mut Builder, count| match cap {
            0 => count,
            _ => b.check(count, Requirement::Capacity { room: cap }),
        };
        Compacted::counting(b, flags, bounds, cap, checked)
    }

    /// As [`Compacted::new`]; `checked` passes the number of flags through an assertion.
    pub fn counting(
        b: &mut Builder,
        flags: Value,
        bounds: Value,
        cap: usize,
        checked: impl FnOnce(&mut Builder, Value) -> Value,
    ) -> Compacted {
        let attrs = Attrs::default().with("cap", Attr::from(cap as i64));
        let [lims, positions, count] = called(b, "rank_select", &[flags, bounds], attrs)[..] else {
            engine_core::bug!("`rank_select` has three results")
        };
        let count = checked(b, count);
        // Every result depends on the checked number.
        let lims = b.map(&[lims, count], |v| v[0].min(v[1]));
        let number = b.iota(0, Type::new(DType::I32, &[cap]));
        let is_there = b.map(&[number, count], |v| v[0].lt(v[1]));
        Compacted { lims, positions, is_there, count }
    }

    /// The places of all flags as one row.
    pub fn of_all(b: &mut Builder, flags: Value, cap: usize) -> Compacted {
        let bounds = b.iota(0, Type::new(DType::I32, &[0]));
        Compacted::new(b, flags, bounds, cap)
    }

    /// The elements at the positions, 0 behind the end.
    pub fn taken(&self, b: &mut Builder, x: Value) -> Value {
        let n = b.ty(x).numel();
        if n == 0 {
            let cap = b.extents(self.positions)[0];
            return b.full(Literal::Int(0).cast(b.dtype(x)), Type::new(b.dtype(x), &[cap]));
        }
        let flat = b.reshape(x, &[n]);
        let read = b.gather(flat, self.positions, 0, 0);
        let zeros = b.full_like(read, 0.0);
        b.map(&[self.is_there, read, zeros], |v| E::select(v[0], v[1], v[2]))
    }
}
