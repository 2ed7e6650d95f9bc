//! The state of a row kernel during its emission, and the instructions along a row.

use crate::codegen::analysis::operands::operands;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::schedule::row_exchange::{Exchange, SharedWords};
use crate::codegen::schedule::row_place::{Held, Place};
use crate::codegen::schedule::row_plan::{RowPlan, passes};
use crate::fusion::{Class, FusedOp, Reg};
use cubecl_core::ir::Variable;

/// A row kernel during its emission.
pub struct RowCode<'t> {
    /// The body.
    pub body: BodyCode<'t>,
    /// The division of rows among threads.
    pub plan: RowPlan,
    /// The row of this thread.
    pub place: Place,
    /// By instruction: its pass.
    pub passes: Vec<usize>,
    /// Uniform and row registers.
    pub base: Registers,
    /// The groups of the row that this thread holds in registers.
    pub groups: Vec<Held>,
    /// The exchange of states between threads.
    pub exchange: Exchange,
}

impl<'t> RowCode<'t> {
    /// A row kernel without computed registers.
    pub fn new(
        code: &mut Code,
        body: BodyCode<'t>,
        plan: RowPlan,
        place: Place,
        shared: Option<SharedWords>,
    ) -> RowCode<'t> {
        let n_registers = body.body.insts.len();
        let n_groups = plan.groups.unwrap_or(0);
        let groups: Vec<Held> = (0..n_groups).map(|k| place.held(code, k, n_registers)).collect();
        let base = vec![None; n_registers];
        RowCode {
            body,
            plan,
            place,
            passes: passes(body.body),
            base,
            groups,
            exchange: Exchange { plan, shared },
        }
    }

    /// Sets a register at the points of the `k`-th group, so that it is not computed.
    pub fn give(&mut self, k: usize, reg: Reg, values: &[Variable]) {
        for (registers, &value) in self.groups[k].registers.iter_mut().zip(values) {
            registers[reg] = Some(value);
        }
    }

    /// Instructions of a pass.
    pub fn select(&self, pass: usize, is_wanted: impl Fn(Class, &FusedOp) -> bool) -> Vec<Reg> {
        let insts = self.body.body.insts.iter().enumerate();
        let wanted = insts.filter(|(reg, inst)| self.passes[*reg] == pass && is_wanted(inst.class, &inst.op));
        wanted.map(|(reg, _)| reg).collect()
    }

    /// Emits `body` at each group of a row that is read again.
    pub fn along(
        &self,
        code: &mut Code,
        body: impl FnOnce(&mut Code, Variable) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        let RowPlan { threads, width, .. } = self.plan;
        let start = code.scaled(self.place.lane, width as i64);
        let end = code.at(self.place.domain.row as i64);
        let mut result = Ok(());
        code.range(start, end, (threads * width) as i64, |code, i| result = body(code, i));
        result
    }

    /// Emits instructions at the group that starts at a position. Returns the positions, and the registers of
    /// each.
    pub fn computed(
        &self,
        code: &mut Code,
        insts: &[Reg],
        position: Variable,
    ) -> Result<(Vec<Variable>, Vec<Registers>), CodegenError> {
        let (positions, group) = self.place.neighbours(code, position, None);
        let mut registers = vec![self.base.clone(); positions.len()];
        self.body.run_group(code, insts.iter().copied(), &group, &mut registers)?;
        Ok((positions, registers))
    }

    /// The element instructions that `targets` depend on, in order.
    pub fn needed(&self, targets: impl IntoIterator<Item = Reg>) -> Vec<Reg> {
        let insts = &self.body.body.insts;
        let mut stack: Vec<Reg> = targets.into_iter().collect();
        let mut found = std::collections::BTreeSet::new();
        while let Some(reg) = stack.pop() {
            if insts[reg].class == Class::Element && found.insert(reg) {
                stack.extend(operands(&insts[reg].op));
            }
        }
        found.into_iter().collect()
    }
}

/// The values of `top`, or of `base` where `top` has none.
pub fn over(base: &Registers, top: &Registers) -> Registers {
    top.iter().zip(base).map(|(top, base)| top.or(*base)).collect()
}
