//! The emission of a whole row kernel: its passes, then its stores.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::schedule::row_code::{RowCode, over};
use crate::codegen::schedule::row_exchange::SharedWords;
use crate::codegen::schedule::row_place::{Held, Place};
use crate::codegen::schedule::row_plan::{RowPlan, is_reduce};
use crate::fusion::{Class, FusedOp, Reg};
use cubecl_core::ir::{Comparison, Variable};

/// Emits the rows of a block by a plan. Shared memory must have room for
/// [`crate::codegen::schedule::row_exchange::n_shared_words`].
pub fn row_by(
    code: &mut Code,
    body: BodyCode,
    plan: RowPlan,
    shared: Option<SharedWords>,
    n_rows: Variable,
) -> Result<(), CodegenError> {
    let place = Place::new(code, plan, &body.body.domain, n_rows);
    RowCode::new(code, body, plan, place, shared).emit(code)
}

impl RowCode<'_> {
    /// Emits the row.
    pub fn emit(mut self, code: &mut Code) -> Result<(), CodegenError> {
        let last = self.passes.iter().copied().max().unwrap_or(0);
        for pass in 0..=last {
            let once =
                self.select(pass, |class, op| class != Class::Element && !is_reduce(op) && !is_store(op));
            self.body.run(code, once, self.place.row, &mut self.base)?;
            self.compute_held(code, pass)?;
            // A reduction's pass is one after the pass of its operand.
            let reduces = self.select(pass + 1, |_, op| is_reduce(op));
            self.reduce(code, &reduces)?;
        }
        self.store_elements(code)?;
        self.store_rows(code)
    }

    fn compute_held(&mut self, code: &mut Code, pass: usize) -> Result<(), CodegenError> {
        let insts = self.select(pass, |class, op| class == Class::Element && !is_store(op));
        for held in &mut self.groups {
            let mut registers: Vec<Registers> =
                held.registers.iter().map(|held| over(&self.base, held)).collect();
            let missing = insts.iter().copied().filter(|&reg| held.registers[0][reg].is_none());
            self.body.run_group(code, missing, &held.group, &mut registers)?;
            held.registers = registers;
        }
        Ok(())
    }

    fn stores(&self, is_element: bool) -> Vec<Reg> {
        let insts = self.body.body.insts.iter().enumerate();
        let stores =
            insts.filter(|(_, inst)| is_store(&inst.op) && (inst.class == Class::Element) == is_element);
        stores.map(|(reg, _)| reg).collect()
    }

    /// Emits the stores of elements. They are last, as a result may share memory with an operand.
    fn store_elements(&mut self, code: &mut Code) -> Result<(), CodegenError> {
        let stores = self.stores(true);
        if stores.is_empty() {
            return Ok(());
        }
        if self.plan.groups.is_none() {
            let insts = self.needed(stores);
            let row = &*self;
            return when_all(code, &[self.place.is_row], |code| {
                row.along(code, |code, position| row.computed(code, &insts, position).map(drop))
            });
        }
        let (whole, partial): (Vec<&Held>, Vec<&Held>) =
            self.groups.iter().partition(|held| held.is_inside.is_none());
        when_all(code, &[self.place.is_row], |code| {
            whole.into_iter().try_for_each(|held| self.store_held(code, held, &stores))
        })?;
        for held in partial {
            when_all(code, &[self.place.is_row, held.is_inside], |code| {
                self.store_held(code, held, &stores)
            })?;
        }
        Ok(())
    }

    fn store_held(&self, code: &mut Code, held: &Held, stores: &[Reg]) -> Result<(), CodegenError> {
        let mut registers: Vec<Registers> =
            held.registers.iter().map(|held| over(&self.base, held)).collect();
        self.body.run_group(code, stores.iter().copied(), &held.group, &mut registers)
    }

    fn store_rows(&mut self, code: &mut Code) -> Result<(), CodegenError> {
        let stores = self.stores(false);
        if stores.is_empty() {
            return Ok(());
        }
        let is_first = (self.plan.threads > 1).then(|| {
            let zero = code.at(0);
            code.cmp(Comparison::Equal, self.place.lane, zero)
        });
        when_all(code, &[self.place.is_row, is_first], |code| {
            self.body.run(code, stores.iter().copied(), self.place.row, &mut self.base.clone())
        })
    }
}

fn when_all(
    code: &mut Code,
    conditions: &[Option<Variable>],
    body: impl FnOnce(&mut Code) -> Result<(), CodegenError>,
) -> Result<(), CodegenError> {
    let all = conditions.iter().flatten().copied().reduce(|all, cond| code.and(all, cond));
    let Some(all) = all else { return body(code) };
    let mut result = Ok(());
    code.when(all, |code| result = body(code));
    result
}

fn is_store(op: &FusedOp) -> bool {
    matches!(op, FusedOp::Store { .. })
}
