//! Scalar bodies: formulas of one element, written with operators, differentiated symbolically.
//!
//! ```
//! use engine_core::ir::{Body, E};
//! fn sigmoid(x: E) -> E { (1.0 + (-x).exp()).recip() }
//! let silu = Body::new(1, |x| vec![x[0] * sigmoid(x[0])]);
//! assert_eq!(silu.to_string(), "|a| a * recip(1.0 + exp(-a))");
//! ```

use super::handle::{E, Reg};
use super::{Binary, DType, Literal, Scalar, Unary};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops;

/// One step of a body. Its operands are earlier steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    /// The n-th operand of the map.
    Param(usize),
    /// A constant. It takes the element type of the operands that it is combined with.
    Const(Literal),
    /// A primitive on earlier results.
    Apply(Scalar, Vec<Reg>),
}

impl Inst {
    /// Whether the result is discontinuous in an operand.
    pub fn has_jumps(&self) -> bool {
        matches!(self, Inst::Apply(Scalar::Binary(op), _) if op.has_jumps())
    }
}

/// A formula of one element: operands in, one or more results out. Equal subterms are stored once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// Number of operands.
    pub n_params: usize,
    /// Steps in topological order. The first `n_params` are the parameters.
    pub insts: Vec<Inst>,
    /// The results.
    pub outputs: Vec<Reg>,
}

#[derive(Default)]
struct Arena {
    insts: Vec<Inst>,
    known: HashMap<Inst, Reg>,
}

impl Arena {
    fn push(&mut self, inst: Inst) -> E {
        if let Some(&reg) = self.known.get(&inst) {
            return E(reg);
        }
        self.insts.push(inst.clone());
        self.known.insert(inst, self.insts.len() - 1);
        E(self.insts.len() - 1)
    }
}

thread_local! {
    // Bodies under construction. A body that is built while building another one is pushed on top.
    static ARENAS: RefCell<Vec<Arena>> = const { RefCell::new(Vec::new()) };
}

fn push(inst: Inst) -> E {
    ARENAS.with_borrow_mut(|arenas| {
        arenas
            .last_mut()
            .unwrap_or_else(|| crate::bug!("scalar expressions live inside `Body::new`"))
            .push(inst)
    })
}

impl Body {
    /// Builds a body of `n_params` operands from a formula.
    pub fn new(n_params: usize, formula: impl FnOnce(&[E]) -> Vec<E>) -> Body {
        ARENAS.with_borrow_mut(|arenas| arenas.push(Arena::default()));
        let params: Vec<E> = (0..n_params).map(|i| push(Inst::Param(i))).collect();
        let outputs = formula(&params).into_iter().map(|e| e.0).collect();
        let arena = ARENAS.with_borrow_mut(|arenas| arenas.pop()).unwrap_or_default();
        Body { n_params, insts: arena.insts, outputs }.canonical()
    }

    /// Replays this body inside another one under construction.
    pub fn inline(&self, args: &[E]) -> Vec<E> {
        let all = self.inline_all(args);
        self.outputs.iter().map(|&reg| all[reg]).collect()
    }

    fn inline_all(&self, args: &[E]) -> Vec<E> {
        let mut done: Vec<E> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            done.push(match inst {
                Inst::Param(i) => args[*i],
                Inst::Const(lit) => E::lit(*lit),
                Inst::Apply(op, operands) => {
                    E::apply(op.clone(), &operands.iter().map(|&r| done[r]).collect::<Vec<_>>())
                }
            });
        }
        done
    }

    /// The vector-Jacobian product. The operands are `x…, g…` with one `g` per output. The results are the gradients of
    /// the operands marked `true`. All other operands have the gradient zero everywhere.
    pub fn vjp(&self) -> (Body, Vec<bool>) {
        let mut live = vec![false; self.n_params];
        let body = Body::new(self.n_params + self.outputs.len(), |args| {
            let values = self.inline_all(&args[..self.n_params]);
            let grads = self.backward(&values, &args[self.n_params..]);
            let mut outputs = vec![];
            for (param, is_live) in live.iter_mut().enumerate() {
                if let Some(grad) = grads[param] {
                    *is_live = true;
                    outputs.push(grad);
                }
            }
            outputs
        });
        (body, live)
    }

    fn backward(&self, values: &[E], seeds: &[E]) -> Vec<Option<E>> {
        let mut grads: Vec<Option<E>> = vec![None; self.insts.len()];
        for (&output, &seed) in self.outputs.iter().zip(seeds) {
            accumulate(&mut grads[output], seed);
        }
        for reg in (self.n_params..self.insts.len()).rev() {
            let (Inst::Apply(op, operands), Some(g)) = (&self.insts[reg], grads[reg]) else { continue };
            let args: Vec<E> = operands.iter().map(|&r| values[r]).collect();
            for (&operand, partial) in operands.iter().zip(op.vjp(&args, values[reg], g)) {
                if let Some(partial) = partial {
                    accumulate(&mut grads[operand], partial);
                }
            }
        }
        grads
    }

    /// Element types of all steps for operands of these types. A constant takes the type of its first use. A body of
    /// constants alone is `f32`, `i32` or `bool`.
    pub fn dtypes(&self, params: &[DType]) -> Vec<DType> {
        let literal = |reg: Reg| self.literal_dtype(reg).unwrap_or(DType::F32);
        let mut dtypes: Vec<DType> = (0..self.insts.len()).map(literal).collect();
        let mut is_typed: Vec<bool> = self.insts.iter().map(|inst| !matches!(inst, Inst::Const(_))).collect();
        for (reg, inst) in self.insts.iter().enumerate() {
            match inst {
                Inst::Param(i) => dtypes[reg] = params[*i],
                Inst::Const(_) => {}
                Inst::Apply(op, operands) => {
                    let taken = self.operand_dtypes(op, operands, &dtypes);
                    dtypes[reg] = op.result(&taken);
                    for (&operand, dtype) in operands.iter().zip(taken) {
                        if !std::mem::replace(&mut is_typed[operand], true) {
                            dtypes[operand] = dtype;
                        }
                    }
                }
            }
        }
        dtypes
    }

    /// The element types in which a step takes its operands, given the types of earlier steps. A constant takes the
    /// type of its use here, which may differ from its type elsewhere.
    pub fn operand_dtypes(&self, op: &Scalar, operands: &[Reg], dtypes: &[DType]) -> Vec<DType> {
        let first_peer = matches!(op, Scalar::Select) as usize;
        let peers = operands[first_peer..].iter();
        let common = peers.clone().find(|&&reg| !self.is_const(reg)).or(peers.clone().next());
        let taken = operands.iter().enumerate().map(|(i, &reg)| match common {
            Some(&common) if self.is_const(reg) && i >= first_peer => self.own_dtype(common, dtypes),
            _ => dtypes[reg],
        });
        taken.collect()
    }

    fn own_dtype(&self, reg: Reg, dtypes: &[DType]) -> DType {
        self.literal_dtype(reg).unwrap_or(dtypes[reg])
    }

    fn literal_dtype(&self, reg: Reg) -> Option<DType> {
        match self.insts[reg] {
            Inst::Const(Literal::Bool(_)) => Some(DType::Bool),
            Inst::Const(Literal::Int(_)) => Some(DType::I32),
            Inst::Const(Literal::Float(_)) => Some(DType::F32),
            _ => None,
        }
    }

    /// The formula without unused steps, in the order of its text. So equal formulas are equal bodies, independent of
    /// the order in which they were built.
    fn canonical(self) -> Body {
        let mut renamed = vec![None; self.insts.len()];
        let mut insts = vec![];
        for (reg, inst) in self.insts[..self.n_params].iter().enumerate() {
            renamed[reg] = Some(reg);
            insts.push(inst.clone());
        }
        let outputs = self.outputs.iter().map(|&reg| self.visit(reg, &mut renamed, &mut insts)).collect();
        Body { n_params: self.n_params, insts, outputs }
    }

    /// Appends a step after its operands, left to right, unless it is already in the list.
    fn visit(&self, reg: Reg, renamed: &mut [Option<Reg>], insts: &mut Vec<Inst>) -> Reg {
        if let Some(known) = renamed[reg] {
            return known;
        }
        let inst = match &self.insts[reg] {
            Inst::Apply(op, operands) => {
                Inst::Apply(op.clone(), operands.iter().map(|&r| self.visit(r, renamed, insts)).collect())
            }
            leaf => leaf.clone(),
        };
        insts.push(inst);
        *renamed[reg].insert(insts.len() - 1)
    }
}

fn accumulate(slot: &mut Option<E>, grad: E) {
    *slot = Some(match *slot {
        Some(sum) => sum + grad,
        None => grad,
    });
}

impl Scalar {
    /// Gradients by operand for upstream gradient `g`, operands `x` and result `y`; `None` is zero.
    fn vjp(&self, x: &[E], y: E, g: E) -> Vec<Option<E>> {
        match self {
            Scalar::Unary(op) => vec![unary_vjp(*op, x[0], y, g)],
            Scalar::Binary(op) => binary_vjp(*op, x[0], x[1], y, g),
            Scalar::Select => vec![None, Some(E::select(x[0], g, 0.0)), Some(E::select(x[0], 0.0, g))],
            Scalar::MulAdd => vec![Some(g * x[1]), Some(g * x[0]), Some(g)],
            // The gradient of a cast operand has the operand's type: the lowering of maps casts it.
            Scalar::Cast(dtype) => vec![dtype.is_float().then_some(g)],
            Scalar::Foreign(f) => (f.partials)(x).into_iter().map(|d| Some(g * d)).collect(),
        }
    }
}

fn unary_vjp(op: Unary, x: E, y: E, g: E) -> Option<E> {
    Some(match op {
        Unary::Neg => -g,
        Unary::Abs => g * x.sign(),
        Unary::Exp => g * y,
        Unary::Expm1 => g * (y + 1.0),
        Unary::Log => g / x,
        Unary::Log1p => g / (x + 1.0),
        Unary::Sqrt => g / (y * 2.0),
        Unary::Rsqrt => g * (y * y * y) * -0.5,
        Unary::Recip => -(g * y * y),
        Unary::Sin => g * x.cos(),
        Unary::Cos => -(g * x.sin()),
        Unary::Tanh => g * (1.0 - y * y),
        // d/dx erf x = 2/√π · exp(-x²)
        Unary::Erf => g * (-(x * x)).exp() * std::f64::consts::FRAC_2_SQRT_PI,
        Unary::Sign
        | Unary::Floor
        | Unary::Ceil
        | Unary::Trunc
        | Unary::Round
        | Unary::Not
        | Unary::Popcount
        | Unary::IsNan => {
            return None;
        }
    })
}

fn binary_vjp(op: Binary, a: E, b: E, y: E, g: E) -> Vec<Option<E>> {
    match op {
        Binary::Add => vec![Some(g), Some(g)],
        Binary::Sub => vec![Some(g), Some(-g)],
        Binary::Mul => vec![Some(g * b), Some(g * a)],
        Binary::Div => vec![Some(g / b), Some(-(g * y / b))],
        Binary::Rem => vec![Some(g), Some(-(g * (a / b).trunc()))],
        // The zeroth power is constant, even where 0⁻¹ would make the formula NaN.
        Binary::Pow => {
            vec![Some(E::select(b.eq(0.0), 0.0, g * b * a.pow(b - 1.0))), Some(pow_exponent_grad(a, b, y, g))]
        }
        // Ties go to the first operand, so that the two gradients always sum to g.
        Binary::Max => vec![Some(E::select(a.ge(b), g, 0.0)), Some(E::select(a.ge(b), 0.0, g))],
        Binary::Min => vec![Some(E::select(a.le(b), g, 0.0)), Some(E::select(a.le(b), 0.0, g))],
        _ => vec![None, None],
    }
}

/// g·aᵇ·ln a, and 0 where a = 0 and b ≥ 0.
fn pow_exponent_grad(a: E, b: E, y: E, g: E) -> E {
    let flat = a.eq(0.0) & b.ge(0.0);
    E::select(flat, 0.0, g * y * a.log())
}

impl E {
    /// A constant.
    pub fn lit(lit: Literal) -> E {
        push(Inst::Const(lit))
    }

    /// A primitive applied to operands.
    pub fn apply(op: Scalar, args: &[E]) -> E {
        debug_assert_eq!(op.arity(), args.len());
        push(Inst::Apply(op, args.iter().map(|e| e.0).collect()))
    }

    fn unary(self, op: Unary) -> E {
        E::apply(Scalar::Unary(op), &[self])
    }

    fn binary(self, op: Binary, other: impl Into<E>) -> E {
        E::apply(Scalar::Binary(op), &[self, other.into()])
    }

    /// `a` where `condition` holds, else `b`.
    pub fn select(condition: E, a: impl Into<E>, b: impl Into<E>) -> E {
        E::apply(Scalar::Select, &[condition, a.into(), b.into()])
    }

    /// Conversion to another element type.
    pub fn cast(self, dtype: DType) -> E {
        E::apply(Scalar::Cast(dtype), &[self])
    }

    /// `self · b + c`, rounded once where the device can.
    pub fn mul_add(self, b: impl Into<E>, c: impl Into<E>) -> E {
        E::apply(Scalar::MulAdd, &[self, b.into(), c.into()])
    }
}

macro_rules! unary_methods {
    ($($method:ident $op:ident),* $(,)?) => {
        impl E { $(
            #[doc = concat!("See [`Unary::", stringify!($op), "`].")]
            pub fn $method(self) -> E { self.unary(Unary::$op) }
        )* }
    };
}
unary_methods! {
    abs Abs, sign Sign, exp Exp, expm1 Expm1, log Log, log1p Log1p, sqrt Sqrt, rsqrt Rsqrt, recip Recip, sin Sin,
    cos Cos, tanh Tanh, erf Erf, floor Floor, ceil Ceil, trunc Trunc, round Round,
    popcount Popcount, is_nan IsNan,
}

macro_rules! binary_methods {
    ($($method:ident $op:ident),* $(,)?) => {
        impl E { $(
            #[doc = concat!("See [`Binary::", stringify!($op), "`].")]
            #[allow(clippy::should_implement_trait)]
            pub fn $method(self, other: impl Into<E>) -> E { self.binary(Binary::$op, other) }
        )* }
    };
}
binary_methods! { pow Pow, max Max, min Min, eq Eq, ne Ne, lt Lt, le Le, gt Gt, ge Ge }

impl From<Literal> for E {
    fn from(literal: Literal) -> E {
        E::lit(literal)
    }
}
impl From<f64> for E {
    fn from(x: f64) -> E {
        E::lit(Literal::Float(x))
    }
}
impl From<i64> for E {
    fn from(i: i64) -> E {
        E::lit(Literal::Int(i))
    }
}
impl From<bool> for E {
    fn from(b: bool) -> E {
        E::lit(Literal::Bool(b))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),* $(,)?) => { $(
        impl ops::$trait<E> for E {
            type Output = E;
            fn $method(self, other: E) -> E { self.binary(Binary::$op, other) }
        }
        impl ops::$trait<f64> for E {
            type Output = E;
            fn $method(self, other: f64) -> E { self.binary(Binary::$op, other) }
        }
        impl ops::$trait<E> for f64 {
            type Output = E;
            fn $method(self, other: E) -> E { E::from(self).binary(Binary::$op, other) }
        }
    )* };
}
operators! {
    Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitAnd bitand And, BitOr bitor Or,
    BitXor bitxor Xor, Shl shl Shl, Shr shr Shr,
}

impl ops::Neg for E {
    type Output = E;
    fn neg(self) -> E {
        self.unary(Unary::Neg)
    }
}
impl ops::Not for E {
    type Output = E;
    fn not(self) -> E {
        self.unary(Unary::Not)
    }
}

/// Prints as `|a, b| max(a + b, 0.0)`. A shared subterm is printed at each use.
impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = (0..self.n_params).map(param_name).collect();
        write!(f, "|{}| ", params.join(", "))?;
        let outputs: Vec<String> = self.outputs.iter().map(|&reg| self.term(reg, 0)).collect();
        f.write_str(&outputs.join(", "))
    }
}

fn param_name(i: usize) -> String {
    match i {
        0..26 => char::from(b'a' + i as u8).to_string(),
        _ => format!("a{i}"),
    }
}

/// Infix operators with their precedence, as in the expression syntax.
fn infix(op: Binary) -> Option<(&'static str, u8)> {
    Some(match op {
        Binary::Or => ("|", 1),
        Binary::And => ("&", 2),
        Binary::Eq => ("==", 3),
        Binary::Ne => ("!=", 3),
        Binary::Lt => ("<", 3),
        Binary::Le => ("<=", 3),
        Binary::Gt => (">", 3),
        Binary::Ge => (">=", 3),
        Binary::Add => ("+", 4),
        Binary::Sub => ("-", 4),
        Binary::Mul => ("*", 5),
        Binary::Div => ("/", 5),
        Binary::Rem => ("%", 5),
        _ => return None,
    })
}

impl Body {
    /// The formula of a step. `?n` stands for a missing step, which occurs only in the verifier's messages.
    fn term(&self, reg: Reg, outer: u8) -> String {
        let Some(inst) = self.insts.get(reg) else { return format!("?{reg}") };
        let operand = |operand: Reg, level: u8| match operand < reg {
            true => self.term(operand, level),
            false => format!("?{operand}"),
        };
        match inst {
            Inst::Param(i) => param_name(*i),
            Inst::Const(lit) => lit.to_string(),
            Inst::Apply(Scalar::Unary(Unary::Neg), operands) if !self.is_const(operands[0]) => {
                format!("-{}", operand(operands[0], 6))
            }
            Inst::Apply(Scalar::Binary(op), operands) if infix(*op).is_some() => {
                let (sign, level) = infix(*op).unwrap_or_default();
                // Comparisons do not chain. All other operators associate to the left.
                let left = operand(operands[0], level + op.is_comparison() as u8);
                let text = format!("{left} {sign} {}", operand(operands[1], level + 1));
                if level < outer { format!("({text})") } else { text }
            }
            Inst::Apply(op, operands) => {
                let args = operands.iter().map(|&r| operand(r, 0));
                let args: Vec<String> = args.chain(op.setting()).collect();
                format!("{}({})", op.word(), args.join(", "))
            }
        }
    }

    /// Whether a step is a constant. `-1.0` is a constant, and `neg(1.0)` is the negation of one.
    fn is_const(&self, reg: Reg) -> bool {
        matches!(self.insts.get(reg), Some(Inst::Const(_)))
    }
}
