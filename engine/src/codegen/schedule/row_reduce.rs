//! Reductions of a row kernel.

use crate::codegen::analysis::nan::may_skip_nan;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32, U32};
use crate::codegen::ops::body::Registers;
use crate::codegen::ops::reduction::{
    INFINITY_BITS, NOWHERE, Search, State, is_same, size_bits, tests_nan_by_bits,
};
use crate::codegen::schedule::row_code::RowCode;
use crate::codegen::types::carried_type;
use crate::fusion::{FusedOp, Reg};
use crate::ir::{DType, Monoid};
use cubecl_core::ir::{Arithmetic, Comparison, Variable};

/// The running total of a reduction along a row.
struct Total {
    /// The register that is reduced, and its type.
    value: Reg,
    dtype: DType,
    /// The state, as mutable locals.
    running: State,
    /// The largest bits without a sign, if they are the test for NaN.
    largest: Option<Variable>,
}

impl Total {
    fn value_of(&self, registers: &Registers) -> Variable {
        registers[self.value].unwrap_or_else(|| crate::bug!("register {} is not computed", self.value))
    }
}

impl RowCode<'_> {
    /// Emits the reductions of a pass.
    pub fn reduce(&mut self, code: &mut Code, reduces: &[Reg]) -> Result<(), CodegenError> {
        if reduces.is_empty() {
            return Ok(());
        }
        let states: Vec<State> = match self.plan.groups {
            Some(_) => reduces.iter().map(|&reg| self.held_total(code, reg)).collect(),
            None => {
                let partials = self.reduce_along(code, reduces)?;
                partials.into_iter().map(|partial| self.exchange.across_threads(code, partial)).collect()
            }
        };
        for (&reg, state) in reduces.iter().zip(states) {
            self.base[reg] = Some(state.result(code, self.body.body.insts[reg].dtype));
        }
        Ok(())
    }

    /// A reduction of the elements that the threads of a row hold.
    fn held_total(&self, code: &mut Code, reg: Reg) -> State {
        let (monoid, _, _) = self.reduction(reg);
        match monoid.of_value() {
            None => {
                let partial = self.reduce_held(code, reg, monoid);
                self.exchange.across_threads(code, partial)
            }
            Some(extreme) => self.held_index(code, reg, monoid, extreme),
        }
    }

    /// An index reduction: the extreme first, then its first position. Only threads that hold the extreme search
    /// for the position.
    fn held_index(&self, code: &mut Code, reg: Reg, monoid: Monoid, extreme: Monoid) -> State {
        let (_, value, dtype) = self.reduction(reg);
        let own = self.reduce_held(code, reg, extreme);
        let best = self.exchange.across_threads(code, own.clone()).parts[0];
        let no_position = code.int(U32, NOWHERE);
        let first = code.mutable(no_position);
        let has_it = is_same(code, own.parts[0], best);
        code.when(has_it, |code| {
            // Other threads wait for the searching ones, so the search uses few instructions.
            let search = Search::new(code, best);
            let mut found = code.snapshot(first);
            for held in self.groups.iter().rev() {
                for (&position, registers) in held.positions.iter().zip(&held.registers).rev() {
                    let value =
                        registers[value].unwrap_or_else(|| crate::bug!("register {value} is not held"));
                    let value = code.cast(carried_type(dtype), value);
                    let is_found = search.is(code, value);
                    let is_found = held.is_inside.map_or(is_found, |inside| code.and(is_found, inside));
                    let position = code.cast(U32, position);
                    found = code.select(is_found, position, found);
                }
            }
            code.assign(first, found);
        });
        let own = State { monoid: Monoid::Min, parts: vec![code.snapshot(first)], skips_nan: false };
        let position = self.exchange.across_threads(code, own).parts[0];
        State { monoid, parts: vec![best, position], skips_nan: false }
    }

    /// A state that keeps NaN if a user of the reduction needs it. Devices with an instruction for both always
    /// keep NaN.
    fn as_needed(&self, code: &Code, reg: Reg, state: State) -> State {
        let skips_nan = !code.device.has_extremes
            && state.parts[0].elem_type() == F32
            && may_skip_nan(self.body.body, reg);
        State { skips_nan, ..state }
    }

    fn reduction(&self, reg: Reg) -> (Monoid, Reg, DType) {
        let FusedOp::Reduce { monoid, value } = self.body.body.insts[reg].op else {
            crate::bug!("register {reg} is no reduction")
        };
        (monoid, value, self.body.body.insts[value].dtype)
    }

    fn reduce_held(&self, code: &mut Code, reg: Reg, monoid: Monoid) -> State {
        let (_, value, dtype) = self.reduction(reg);
        let identity = State::identity(code, monoid, dtype);
        let identity = self.as_needed(code, reg, identity);
        if !identity.skips_nan && tests_nan_by_bits(code, monoid, &identity) {
            return self.reduce_held_by_bits(code, value, identity);
        }
        let mut state: Option<State> = None;
        for held in &self.groups {
            for (&position, registers) in held.positions.iter().zip(&held.registers) {
                let value = registers[value].unwrap_or_else(|| crate::bug!("register {value} is not held"));
                let mut next = State::of(code, monoid, dtype, value, position);
                if let Some(is_inside) = held.is_inside {
                    next = next.or(code, is_inside, &identity);
                }
                state = Some(match state {
                    Some(state) => state.combined(code, &next),
                    None => State { skips_nan: identity.skips_nan, ..next },
                });
            }
        }
        state.unwrap_or(identity)
    }

    /// The extreme of numbers, and the largest bits without a sign as the test for NaN.
    fn reduce_held_by_bits(&self, code: &mut Code, value: Reg, identity: State) -> State {
        let (mut state, mut largest) = (State { skips_nan: true, ..identity.clone() }, code.int(U32, 0));
        for held in &self.groups {
            for registers in &held.registers {
                let value = registers[value].unwrap_or_else(|| crate::bug!("register {value} is not held"));
                let value =
                    held.is_inside.map_or(value, |inside| code.select(inside, value, identity.parts[0]));
                state = state.combined(code, &State { parts: vec![value], ..identity });
                let size = size_bits(code, value);
                largest = code.bin(Arithmetic::Max, largest, size);
            }
        }
        let infinity = code.int(U32, INFINITY_BITS);
        let is_nan = code.cmp(Comparison::Greater, largest, infinity);
        let nan = code.float(F32, f64::NAN);
        State { parts: vec![code.select(is_nan, nan, state.parts[0])], ..identity }
    }

    fn reduce_along(&self, code: &mut Code, reduces: &[Reg]) -> Result<Vec<State>, CodegenError> {
        let totals: Vec<Total> = reduces.iter().map(|&reg| self.total(code, reg)).collect();
        let needed = self.needed(totals.iter().map(|total| total.value));
        self.along(code, |code, position| {
            let (positions, registers) = self.computed(code, &needed, position)?;
            for total in &totals {
                let mut sum = total.running.clone();
                for (&position, registers) in positions.iter().zip(&registers) {
                    let value = total.value_of(registers);
                    let next = State::of(code, sum.monoid, total.dtype, value, position);
                    sum = sum.followed_by(code, &next);
                    if let Some(largest) = total.largest {
                        let size = size_bits(code, next.parts[0]);
                        let larger = code.bin(Arithmetic::Max, largest, size);
                        code.assign(largest, larger);
                    }
                }
                total.running.assign(code, &sum);
            }
            Ok(())
        })?;
        totals.into_iter().map(|total| self.with_nan(code, total)).collect()
    }

    /// The total before the first element.
    fn total(&self, code: &mut Code, reg: Reg) -> Total {
        let (monoid, value, dtype) = self.reduction(reg);
        let identity = State::identity(code, monoid, dtype);
        let mut start = self.as_needed(code, reg, identity);
        let by_bits = !start.skips_nan && tests_nan_by_bits(code, monoid, &start);
        if by_bits {
            start.skips_nan = true;
            if let Some(position) = start.parts.get_mut(1) {
                // If no element beats the identity, the first position wins.
                let first = code.scaled(self.place.lane, self.plan.width as i64);
                *position = code.cast(U32, first);
            }
        }
        let zero = code.int(U32, 0);
        let largest = by_bits.then(|| code.mutable(zero));
        Total { value, dtype, running: start.map(|x| code.mutable(x)), largest }
    }

    /// A thread's state after its elements. If one is NaN, the state is NaN, and a second loop finds its first
    /// position.
    fn with_nan(&self, code: &mut Code, total: Total) -> Result<State, CodegenError> {
        let running = &total.running;
        let Some(largest) = total.largest else { return Ok(running.map(|x| code.snapshot(x))) };
        let infinity = code.int(U32, INFINITY_BITS);
        let has_nan = code.cmp(Comparison::Greater, largest, infinity);
        let mut result = Ok(());
        code.when(has_nan, |code| {
            let nan = code.float(F32, f64::NAN);
            code.assign(running.parts[0], nan);
            let Some(&first) = running.parts.get(1) else { return };
            let no_position = code.int(U32, NOWHERE);
            code.assign(first, no_position);
            let needed = self.needed([total.value]);
            result = self.along(code, |code, position| {
                let (positions, registers) = self.computed(code, &needed, position)?;
                for (position, registers) in positions.into_iter().zip(&registers) {
                    let value = code.cast(F32, total.value_of(registers));
                    let size = size_bits(code, value);
                    let is_nan = code.cmp(Comparison::Greater, size, infinity);
                    let position = code.cast(U32, position);
                    let earlier = code.bin(Arithmetic::Min, first, position);
                    let found = code.select(is_nan, earlier, first);
                    code.assign(first, found);
                }
                Ok(())
            });
        });
        result?;
        let state = running.map(|x| code.snapshot(x));
        Ok(State { skips_nan: false, ..state })
    }
}
