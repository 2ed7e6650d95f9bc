//! Control flow, barriers and warp shuffles.

use crate::codegen::ir::builder::Code;
use crate::codegen::ir::types::U32;
use cubecl_core::ir::{
    BinaryOperator, Branch, If, Instruction, Loop, Plane, RangeLoop, Switch, Synchronization, Type, Variable,
};

impl Code<'_> {
    pub(crate) fn shuffle_xor(&mut self, x: Variable, mask: u32) -> Variable {
        let mask = self.int(U32, i64::from(mask));
        self.out(x.elem_type(), Plane::ShuffleXor(BinaryOperator { lhs: x, rhs: mask }))
    }

    /// A barrier of the block.
    pub fn sync(&mut self) {
        self.scope.register(Instruction::no_out(Synchronization::SyncCube));
    }

    /// Runs `then` under a condition.
    pub fn when(&mut self, cond: Variable, then: impl FnOnce(&mut Code)) {
        let mut scope = self.scope.child();
        then(&mut self.inner(&mut scope));
        self.scope.register(Branch::If(Box::new(If { cond, scope })));
    }

    /// `for i in (start..end).step_by(step)`
    pub fn range(
        &mut self,
        start: Variable,
        end: Variable,
        step: i64,
        body: impl FnOnce(&mut Code, Variable),
    ) {
        let step = (step != 1).then(|| self.at(step));
        self.range_by(start, end, step, body);
    }

    /// A loop whose step is known at run time; the step is 1 if none is given.
    pub(crate) fn range_by(
        &mut self,
        start: Variable,
        end: Variable,
        step: Option<Variable>,
        body: impl FnOnce(&mut Code, Variable),
    ) {
        let i = self.scope.create_local_restricted(Type::scalar(self.index)).consume();
        let mut scope = self.scope.child();
        body(&mut self.inner(&mut scope), i);
        let range = RangeLoop { i, start, end, step, inclusive: false, scope };
        self.scope.register(Branch::RangeLoop(Box::new(range)));
    }

    /// A loop that ends at [`Code::stop_if`].
    pub(crate) fn forever(&mut self, body: impl FnOnce(&mut Code)) {
        let mut scope = self.scope.child();
        body(&mut self.inner(&mut scope));
        self.scope.register(Branch::Loop(Box::new(Loop { scope })));
    }

    /// Leaves the loop if the condition holds.
    pub(crate) fn stop_if(&mut self, cond: Variable) {
        self.when(cond, |code| code.scope.register(Branch::Break));
    }

    /// Runs the case whose number is `value`.
    pub(crate) fn switch(&mut self, value: Variable, n_cases: usize, mut case: impl FnMut(&mut Code, usize)) {
        let mut cases = vec![];
        for i in 0..n_cases {
            let mut scope = self.scope.child();
            case(&mut self.inner(&mut scope), i);
            cases.push((self.int(value.elem_type(), i as i64), scope));
        }
        let scope_default = self.scope.child();
        self.scope.register(Branch::Switch(Box::new(Switch { value, scope_default, cases })));
    }
}
