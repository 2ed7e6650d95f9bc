//! The largest or smallest element of a row behind a matmul, or its index, as a thread fold.

use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::schedule::thread_fold::thread_fold;
use crate::device_model::DeviceModel;
use crate::ir::{DType, Monoid};
use crate::op::gpu::{BlockFold, ThreadFold};
use cubecl_core::ir::{Comparison, Scope, Variable};
use std::sync::Arc;

/// The block fold of an extreme of rows of `n` elements.
///
/// # Errors
/// If the device has none.
pub fn extreme_fold(
    monoid: Monoid,
    dtype: DType,
    n: usize,
    device: &DeviceModel,
) -> Result<Arc<dyn BlockFold>, &'static str> {
    thread_fold(ExtremeFold::new(monoid, dtype, *device), dtype, n, device)
}

/// State: the best element and its column. NaN precedes all numbers, and the first of equal elements wins.
#[derive(Debug)]
pub struct ExtremeFold {
    dtype: DType,
    is_largest: bool,
    is_index: bool,
    device: DeviceModel,
}

impl ExtremeFold {
    /// The fold for an extreme, or its index, of elements of a type.
    pub fn new(monoid: Monoid, dtype: DType, device: DeviceModel) -> ExtremeFold {
        let is_largest = matches!(monoid, Monoid::Max | Monoid::ArgMax);
        ExtremeFold { dtype, is_largest, is_index: monoid.is_index(), device }
    }

    fn code<'s>(&self, scope: &'s mut Scope) -> Code<'s> {
        Code::new(scope, U32, self.device)
    }

    /// Whether element `x` at column `i` precedes the best element `y` at column `j`.
    fn precedes(&self, code: &mut Code, [x, i]: [Variable; 2], [y, j]: [Variable; 2]) -> Variable {
        let beats = if self.is_largest { Comparison::Greater } else { Comparison::Lower };
        let is_earlier = code.less(i, j);
        let is_equal = code.cmp(Comparison::Equal, x, y);
        let is_better = code.cmp(beats, x, y);
        let wins_tie = code.and(is_equal, is_earlier);
        let is_before_number = code.or(is_better, wins_tie);
        // Comparisons with NaN have no meaning on some devices.
        let [x_is_nan, y_is_nan] = [x, y].map(|x| code.is_nan(x));
        let is_before_number = code.or(x_is_nan, is_before_number);
        let is_before_nan = code.and(x_is_nan, is_earlier);
        code.select(y_is_nan, is_before_nan, is_before_number)
    }

    fn replace(&self, code: &mut Code, state: &[Variable], other: [Variable; 2]) {
        let best = [0, 1].map(|value| code.snapshot(state[value]));
        let precedes = self.precedes(code, other, best);
        for value in 0..2 {
            let next = code.select(precedes, other[value], best[value]);
            code.assign(state[value], next);
        }
    }
}

impl ThreadFold for ExtremeFold {
    fn state(&self) -> Vec<DType> {
        vec![self.dtype, DType::U32]
    }

    fn init(&self, scope: &mut Scope) -> Vec<Variable> {
        let code = &mut self.code(scope);
        let last = if self.is_largest { f64::NEG_INFINITY } else { f64::INFINITY };
        vec![code.float(code.device.register(self.dtype), last), code.int(U32, u32::MAX.into())]
    }

    fn step(&self, scope: &mut Scope, state: &[Variable], value: Variable, column: Variable) {
        let code = &mut self.code(scope);
        let column = code.cast(U32, column);
        self.replace(code, state, [value, column]);
    }

    fn merge(&self, scope: &mut Scope, state: &[Variable], other: &[Variable]) {
        self.replace(&mut self.code(scope), state, [other[0], other[1]]);
    }

    fn finish(&self, scope: &mut Scope, state: &[Variable]) -> Vec<Variable> {
        let code = &mut self.code(scope);
        vec![code.snapshot(state[usize::from(self.is_index)])]
    }
}
