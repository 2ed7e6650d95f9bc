//! How much of a kernel's epilogue a library can run.

use super::library::{Activation, Epilogue};
use crate::fusion::{Access, Class, FusedInst, FusedOp, Kernel, MatmulBody, Reg};
use crate::ir::{Binary, Scalar};

/// A kernel's whole epilogue, as a library runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absorbed {
    /// The operand of the result, dense.
    pub result: usize,
    /// The operand that is added element by element.
    pub added: Option<usize>,
    /// The operand of the bias.
    pub bias: Option<usize>,
    /// What the call does.
    pub epilogue: Epilogue,
}

/// The whole epilogue of a matmul, if a library can run it.
pub fn absorbed(kernel: &Kernel, body: &MatmulBody) -> Option<Absorbed> {
    let insts = &body.epilogue.insts;
    let (store, rest) = insts.split_last()?;
    let FusedOp::Store { operand: result, access, value, index: None } = &store.op else { return None };
    let dtype = store.dtype;
    let is_whole = store.class == Class::Element && access.is_identity(body.batch * body.m * body.n);
    if !is_whole || ![body.dtype, body.dtype.accumulator()].contains(&dtype) {
        return None;
    }
    let mut chain = Chain { insts: rest, used: vec![false; rest.len()], reg: *value };
    let activation = chain.activation();
    // The bias and the rest are added in any order. What is added to a single row may lie where the result goes, so it is no
    // bias.
    let bias = |chain: &mut Chain| if body.batch * body.m > 1 { chain.bias(body.n) } else { None };
    let first = bias(&mut chain);
    let added = chain.added(body.batch * body.m * body.n);
    let bias = first.or_else(|| bias(&mut chain));
    let is_all = chain.ends_in_the_product() && chain.used.iter().all(|&used| used);
    let fits = [added, bias].into_iter().flatten().all(|operand| kernel.operands[operand].ty.dtype == dtype);
    let epilogue = Epilogue { adds: added.is_some(), has_bias: bias.is_some(), activation };
    (is_all && fits).then_some(Absorbed { result: *result, added, bias, epilogue })
}

/// From the stored value back to the product.
struct Chain<'t> {
    insts: &'t [FusedInst],
    used: Vec<bool>,
    reg: Reg,
}

impl Chain<'_> {
    fn activation(&mut self) -> Activation {
        let is_zero = |inst: &FusedInst| match inst.op {
            FusedOp::Const(literal) => literal.as_f64() == 0.0,
            _ => false,
        };
        match self.step_over(Binary::Max, is_zero) {
            Some(_) => Activation::Relu,
            None => Activation::Identity,
        }
    }

    /// An operand with a value for each of `n` columns.
    fn bias(&mut self, n: usize) -> Option<usize> {
        self.summand(|access| is_by_column(access, n))
    }

    /// An operand with a value for each of so many points.
    fn added(&mut self, n_points: usize) -> Option<usize> {
        self.summand(|access| access.is_identity(n_points))
    }

    /// The operand that is added last, if it is read as wanted.
    fn summand(&mut self, is_wanted: impl Fn(&Access) -> bool) -> Option<usize> {
        let is_summand = |inst: &FusedInst| match &inst.op {
            FusedOp::Load { access, index: None, .. } => is_wanted(access),
            _ => false,
        };
        match self.step_over(Binary::Add, is_summand)?.op {
            FusedOp::Load { operand, .. } => Some(operand),
            _ => None,
        }
    }

    /// Goes on to the other operand of `op`, if one is as wanted; returns that one.
    fn step_over(&mut self, op: Binary, is_wanted: impl Fn(&FusedInst) -> bool) -> Option<FusedInst> {
        let at = self.behind_casts(self.reg);
        let FusedOp::Scalar(Scalar::Binary(found), args) = &self.insts[at].op else { return None };
        let &[a, b] = &args[..] else { return None };
        let is_wanted = |reg: Reg| is_wanted(&self.insts[self.behind_casts(reg)]);
        let (taken, rest) = match () {
            _ if *found != op => return None,
            _ if is_wanted(b) => (b, a),
            _ if is_wanted(a) => (a, b),
            _ => return None,
        };
        self.use_up_to(self.reg, at);
        let operand = self.behind_casts(taken);
        self.use_up_to(taken, operand);
        self.reg = rest;
        Some(self.insts[operand].clone())
    }

    /// What a register is a conversion of: a library computes all in f32 and rounds once, at the end.
    fn behind_casts(&self, mut reg: Reg) -> Reg {
        while let FusedOp::Scalar(Scalar::Cast(to), args) = &self.insts[reg].op {
            if !to.is_float() || !self.insts[args[0]].dtype.is_float() {
                break;
            }
            reg = args[0];
        }
        reg
    }

    /// Notes a register and the conversions before it, up to `end`.
    fn use_up_to(&mut self, mut reg: Reg, end: Reg) {
        self.used[reg] = true;
        while reg != end {
            let FusedOp::Scalar(_, args) = &self.insts[reg].op else { return };
            reg = args[0];
            self.used[reg] = true;
        }
    }

    fn ends_in_the_product(&mut self) -> bool {
        let at = self.behind_casts(self.reg);
        self.use_up_to(self.reg, at);
        self.insts[at].op == FusedOp::Accumulator
    }
}

/// Whether each of `n` columns reads its own element in every row.
fn is_by_column(access: &Access, n: usize) -> bool {
    let access = access.normalized();
    let [level] = &access.levels[..] else { return false };
    let axes: Vec<(usize, i64)> = level.axes.iter().map(|axis| (axis.extent, axis.stride)).collect();
    let is_repeated = match axes[..] {
        [(extent, 1)] => extent == n,
        [(_, 0), (extent, 1)] => extent == n,
        _ => false,
    };
    level.offset == 0 && level.guards.is_empty() && is_repeated
}
