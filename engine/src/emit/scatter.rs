//! Scatters: a copy of the base, then the updates in one launch.
//!
//! Sums of numbers that the device adds to memory at once take a thread per update; those of floats come out in any
//! order. All else takes a thread per column and part of the indexed axis, which goes over all indices in order.

use super::code::{Code, I64};
use super::contract::with_used_operands;
use super::scalar::{narrowed, widened};
use super::{Buffers, Form, FusedKernel, operand_forms};
use crate::fuse::{Access, Class, Domain, Kernel, ScatterBody, Tile, TileInst, TileOp};
use crate::ir::{Combine, DType};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};

/// Threads that an ordered scatter is cut for.
const ENOUGH_THREADS: usize = 1 << 15;

/// What is combined where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterForm {
    operands: [usize; 4],
    before: usize,
    indexed: usize,
    indices: usize,
    after: usize,
    combine: Combine,
    dtype: DType,
    /// Parts of the indexed axis; none if each update has a thread.
    parts: Option<usize>,
}

impl ScatterForm {
    fn of(kernel: &Kernel, body: &ScatterBody) -> (ScatterForm, usize) {
        let [batch, before, indexed, indices, after] = body.extents;
        let dtype = kernel.operands[body.operands[3]].ty.dtype;
        let n_columns = batch * before * after;
        let adds_at_once = matches!(dtype, DType::I32 | DType::U32 | DType::F32 | DType::F64);
        let parts = match body.combine == Combine::Add && adds_at_once {
            true => None,
            false => Some((ENOUGH_THREADS / n_columns.max(1)).clamp(1, indexed.max(1))),
        };
        let n_points = n_columns * parts.unwrap_or(indices);
        let (operands, combine) = (body.operands, body.combine);
        (ScatterForm { operands, before, indexed, indices, after, combine, dtype, parts }, n_points)
    }
}

/// Emits the updates of a scatter.
pub fn scatter(code: &mut Code, form: &ScatterForm, buffers: &Buffers, n_points: Variable) {
    let point = code.builtin(Builtin::AbsolutePos);
    let is_point = code.less(point, n_points);
    code.when(is_point, |code| {
        let (rest, column) = (code.divided(point, form.after), code.modulo(point, form.after));
        match form.parts {
            None => form.at_once(code, buffers, rest, column),
            Some(parts) => form.in_order(code, buffers, parts, rest, column),
        }
    });
}

impl ScatterForm {
    fn at_once(&self, code: &mut Code, buffers: &Buffers, rest: Variable, column: Variable) {
        let (lead, i) = (code.divided(rest, self.indices), code.modulo(rest, self.indices));
        let index = self.index(code, buffers, lead, i);
        let is_inside = self.is_within(code, index, (0, self.indexed));
        code.when(is_inside, |code| {
            let update = self.update(code, buffers, lead, i, column);
            let element = self.result_element(code, lead, index, column);
            buffers.unless_raised(code, |code| {
                let place = code.load(buffers.operands[self.operands[3]].0, element);
                code.atomic_add(place, update);
            });
        });
    }

    fn in_order(&self, code: &mut Code, buffers: &Buffers, parts: usize, rest: Variable, column: Variable) {
        let (lead, part) = (code.divided(rest, parts), code.modulo(rest, parts));
        let length = self.indexed.div_ceil(parts);
        let low = code.scaled(part, length as i64);
        let low = code.cast(I64, low);
        let length = code.int(I64, length as i64);
        let high = code.bin(Arithmetic::Add, low, length);
        let (start, end) = (code.at(0), code.at(self.indices as i64));
        code.range(start, end, 1, |code, i| {
            let index = self.index(code, buffers, lead, i);
            let is_inside = self.is_within(code, index, (0, self.indexed));
            let is_above = code.cmp(Comparison::GreaterEqual, index, low);
            let is_below = code.less(index, high);
            let is_own = code.and(is_above, is_below);
            let is_own = code.and(is_own, is_inside);
            code.when(is_own, |code| {
                let update = self.update(code, buffers, lead, i, column);
                let element = self.result_element(code, lead, index, column);
                let value = self.combined(code, buffers, element, update);
                buffers.store_unless_raised(code, self.operands[3], element, value);
            });
        });
    }

    /// What an element becomes, as it lies in memory.
    fn combined(&self, code: &mut Code, buffers: &Buffers, element: Variable, update: Variable) -> Variable {
        if self.combine == Combine::Set {
            return update;
        }
        let old = code.load(buffers.operands[self.operands[3]].0, element);
        let [old, update] = [old, update].map(|x| widened(code, self.dtype, x));
        let sum = match self.dtype {
            DType::Bool => code.or(old, update),
            _ => code.bin(Arithmetic::Add, old, update),
        };
        narrowed(code, self.dtype, sum)
    }

    fn index(&self, code: &mut Code, buffers: &Buffers, lead: Variable, i: Variable) -> Variable {
        let batch = code.divided(lead, self.before);
        let first = code.scaled(batch, self.indices as i64);
        let place = code.add_at(first, i);
        let index = code.load(buffers.operands[self.operands[1]].0, place);
        code.cast(I64, index)
    }

    fn is_within(&self, code: &mut Code, index: Variable, (low, high): (i64, usize)) -> Variable {
        let (low, high) = (code.int(I64, low), code.int(I64, high as i64));
        let is_above = code.cmp(Comparison::GreaterEqual, index, low);
        let is_below = code.less(index, high);
        code.and(is_above, is_below)
    }

    fn update(
        &self,
        code: &mut Code,
        buffers: &Buffers,
        lead: Variable,
        i: Variable,
        column: Variable,
    ) -> Variable {
        let element = self.element(code, (lead, self.indices), i, column);
        code.load(buffers.operands[self.operands[2]].0, element)
    }

    fn result_element(&self, code: &mut Code, lead: Variable, index: Variable, column: Variable) -> Variable {
        let index = code.cast(code.index, index);
        self.element(code, (lead, self.indexed), index, column)
    }

    fn element(
        &self,
        code: &mut Code,
        (lead, rows): (Variable, usize),
        row: Variable,
        column: Variable,
    ) -> Variable {
        let first = code.scaled(lead, rows as i64);
        let row = code.add_at(first, row);
        let start = code.scaled(row, self.after as i64);
        code.add_at(start, column)
    }
}

/// The copy of the base, and the updates.
pub fn launches(kernel: &Kernel, body: &ScatterBody) -> Vec<FusedKernel> {
    let (form, n_points) = ScatterForm::of(kernel, body);
    let mut operands = operand_forms(kernel);
    operands[body.operands[3]].is_atomic = form.parts.is_none();
    let domain = Domain { outer: 1, row: n_points, inner: 1 };
    let tile = Tile { domain, insts: vec![] };
    let updates = FusedKernel { tile, form: Form::Scatter(form), operands, is_guarded: false };
    vec![copy(kernel, body), updates]
}

fn copy(kernel: &Kernel, body: &ScatterBody) -> FusedKernel {
    let [from, .., to] = body.operands;
    let n_points = kernel.operands[to].ty.numel();
    let access = Access::strided(&[n_points], &[1]);
    let dtype = kernel.operands[to].ty.dtype;
    let inst = |op: TileOp| TileInst { op, dtype, class: Class::Element };
    let insts = vec![
        inst(TileOp::Load { operand: from, access: access.clone(), index: None }),
        inst(TileOp::Store { operand: to, access, value: 0 }),
    ];
    let domain = Domain { outer: 1, row: n_points, inner: 1 };
    with_used_operands(Tile { domain, insts }, Form::Map, operand_forms(kernel))
}
