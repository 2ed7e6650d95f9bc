//! The rules, one row each.

use super::{Rewriter, pattern, structure};
use crate::ir::{NodeOp, Type, Value};
use crate::numerics::Numerics;

/// The change of numbers that a rule may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No bit.
    Bits,
    /// Rounding, but never less accurate: both sides are equal over the reals.
    Real,
    /// Rounding, for the sake of speed; only on request.
    Fast,
}

impl Class {
    /// Whether rules of the class apply.
    pub fn is_allowed(self, numerics: Numerics) -> bool {
        match self {
            Class::Bits => true,
            Class::Real => numerics != Numerics::Strict,
            Class::Fast => numerics == Numerics::Fast,
        }
    }
}

/// A rewrite in code: the new value, if the rule applies to the node about to be made.
pub type Native = fn(&mut Rewriter, &NodeOp, &[Value], &Type) -> Option<Value>;

/// The rewrite of a rule.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// Pattern and replacement in the syntax of primitive graphs; see the module `pattern`.
    Text(pattern::Term, pattern::Term),
    /// Code, for rules that depend on shapes.
    Native(Native),
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Unique. `--without` switches a rule off by this name.
    pub name: &'static str,
    /// The change of numbers that the rule may cause.
    pub class: Class,
    /// Whether later passes rely on the rule's result, so that it cannot be switched off.
    pub is_needed: bool,
    /// The rewrite.
    pub rewrite: Rewrite,
    /// The rule's test: a primitive expression that it applies to, and the expected result.
    pub example: (&'static str, &'static str),
}

impl Rule {
    /// The new value for a node about to be made, if the rule applies.
    pub fn apply(&self, r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
        match &self.rewrite {
            Rewrite::Native(rewrite) => rewrite(r, op, inputs, ty),
            Rewrite::Text(pattern, replacement) => {
                let found = pattern::matches(r, pattern, op, inputs)?;
                Some(pattern::build(r, replacement, &found, ty))
            }
        }
    }
}

fn text(
    name: &'static str,
    class: Class,
    from: &str,
    to: &str,
    example: (&'static str, &'static str),
) -> Rule {
    let rewrite = Rewrite::Text(pattern::parse(from), pattern::parse(to));
    Rule { name, class, is_needed: false, rewrite, example }
}

fn native(name: &'static str, class: Class, rewrite: Native, example: (&'static str, &'static str)) -> Rule {
    Rule { name, class, is_needed: false, rewrite: Rewrite::Native(rewrite), example }
}

/// A rule that makes a form which the fuser expects.
fn needed(name: &'static str, rewrite: Native, example: (&'static str, &'static str)) -> Rule {
    Rule { is_needed: true, ..native(name, Class::Bits, rewrite, example) }
}

/// All rules in the order in which they are tried. The inputs of examples are
///
/// - `x` and `y`: `f32[4, 8]`, `c`: `bool[4, 8]`, `v`: `f32[8]`;
/// - `i`: `i32[4, 1]`, `u`: `f32[4, 1]`, `t`: `f32[2, 3, 4]`, `l`: `f32[131072]`.
pub fn rules() -> Vec<Rule> {
    [scalar_rules(), structure_rules()].into_iter().flatten().collect()
}

/// Rules on scalar primitives alone.
#[rustfmt::skip]
fn scalar_rules() -> Vec<Rule> {
    use Class::*;
    vec![
        // Neutral elements. Only -0.0 is bit-exactly neutral: -0.0 + 0.0 is +0.0.
        text("add-neutral",   Bits, ".add(x, -0.0)",    "x",          (".add(x, -0.0)", "x")),
        text("add-zero",      Real, ".add(x, 0.0)",     "x",          (".add(x, 0.0)", "x")),
        text("sub-zero",      Bits, ".sub(x, 0.0)",     "x",          (".sub(x, 0.0)", "x")),
        text("mul-one",       Bits, ".mul(x, 1.0)",     "x",          (".mul(x, 1.0)", "x")),
        text("div-one",       Bits, ".div(x, 1.0)",     "x",          (".div(x, 1.0)", "x")),
        text("pow-one",       Bits, ".pow(x, 1.0)",     "x",          (".pow(x, 1.0)", "x")),
        text("mul-minus-one", Bits, ".mul(x, -1.0)",    ".neg(x)",    (".mul(x, -1.0)", ".neg(x)")),
        text("neg-neg",       Bits, ".neg(.neg(x))",    "x",          (".neg(.neg(x))", "x")),
        text("sub-neg",       Bits, ".sub(x, .neg(y))", ".add(x, y)", (".sub(x, .neg(y))", ".add(x, y)")),
        text("add-neg",       Bits, ".add(x, .neg(y))", ".sub(x, y)", (".add(x, .neg(y))", ".sub(x, y)")),
        text("not-not",       Bits, ".not(.not(!c))",   "c",          (".not(.not(c))", "c")),
        text("max-self",      Bits, ".max(x, x)",       "x",          (".max(x, x)", "x")),
        text("min-self",      Bits, ".min(x, x)",       "x",          (".min(x, x)", "x")),
        text("select-same",   Bits, ".select(c, x, x)", "x",          (".select(c, x, x)", "x")),
        text("pow-two",       Real, ".pow(x, 2.0)",     ".mul(x, x)", (".pow(x, 2.0)", ".mul(x, x)")),
        text("pow-half",      Fast, ".pow(x, 0.5)",     ".sqrt(x)",   (".pow(x, 0.5)", ".sqrt(x)")),

        // A multiplied mask becomes a selection: there is no NaN from 0 · ∞, and no conversion.
        text("mask",      Real, ".mul(x, .cast_float(!c))", ".select(c, x, 0.0)",
            (".mul(x, .cast(c, dtype=f32))", ".select(c, x, 0.0)")),
        text("mask-left", Real, ".mul(.cast_float(!c), x)", ".select(c, x, 0.0)",
            (".mul(.cast(c, dtype=f32), x)", ".select(c, x, 0.0)")),
    ]
}

/// Rules on reductions, views, indexing and matmuls.
#[rustfmt::skip]
fn structure_rules() -> Vec<Rule> {
    use Class::*;
    vec![
        // Exponentials that would overflow are computed relative to the row's maximum, or to 0 where that is infinite,
        // so that no ∞ - ∞ arises. The examples name that guarded maximum `m`.
        native("stable-log-sum-exp", Real, structure::stable_log_sum_exp,
            (".log(.sum(.exp(x), axes=[1]))", ".add(.log(.sum(.exp(.sub(x, .broadcast(m, axes=[0]))), axes=[1])), m)")),
        native("stable-softmax", Real, structure::stable_softmax,
            (".div(.exp(x), .broadcast(.sum(.exp(x), axes=[1]), axes=[0]))",
             ".div(.exp(.sub(x, .broadcast(m, axes=[0]))), .broadcast(.sum(.exp(.sub(x, .broadcast(m, axes=[0]))), axes=[1]), axes=[0]))")),
        text("log-of-quotient-of-exp", Real, ".log(.div(.exp(x), y))", ".sub(x, .log(y))",
            (".log(.div(.exp(x), y))", ".sub(x, .log(y))")),

        native("cast-back", Bits, structure::cast_back, (".cast(.cast(x, dtype=f64), dtype=f32)", "x")),

        // A reshape moves behind elementwise operations, so that a reduction is adjacent to its consumers.
        native("reshape-after-unary", Bits, structure::reshape_after_unary,
            (".exp(.reshape(t))", ".reshape(.exp(t))")),

        // Indexing.
        native("iota-of-one", Bits, structure::iota_of_one, (".min(i, .iota(axis=1))", ".min(i, 0)")),
        native("index-in-type", Bits, structure::index_in_type,
            (".check(.cast(c, dtype=i32), bound=2)", ".cast(c, dtype=i32)")),
        native("gather-through-scalar", Bits, structure::gather_through_scalar,
            (".gather(.exp(x), i, axis=1, batch=1)", ".exp(.gather(x, i, axis=1, batch=1))")),
        native("gather-of-repetition", Bits, structure::gather_of_repetition,
            (".gather(.broadcast(w, axes=[0]), i, axis=1, batch=1)", ".broadcast(w, axes=[0], shape=[4, 1])")),
        native("gather-of-repeated-rows", Bits, structure::gather_of_repeated_rows,
            (".gather(.broadcast(.max(x, axes=[0]), axes=[1]), i, axis=1, batch=1)",
             ".gather(.max(x, axes=[0]), i, axis=0, batch=0)")),
        // Adding 0 to elements that no index names turns -0.0 into +0.0.
        native("scatter-one-per-row", Real, structure::scatter_one_per_row,
            (".scatter_add(x, i, u, axis=1, batch=1)",
             ".add(x, .select(.eq(.broadcast(.reshape(i), axes=[0]), .iota(axis=1)), .broadcast(.reshape(u), axes=[0]), 0.0))")),

        // Forms that the fuser expects.
        // A sum of one -0.0 is +0.0.
        native("reduce-of-one", Real, structure::reduce_of_one, (".sum(u, axes=[1])", ".reshape(u)")),
        needed("reduce-adjacent", structure::reduce_adjacent,
            (".sum(t, axes=[0, 2])", ".sum(.permute(t, perm=[1, 0, 2]), axes=[1, 2])")),
        native("split-long-reduction", Real, structure::split_long_reduction,
            (".sum(l, axes=[0])", ".sum(.sum(.reshape(l), axes=[1]), axes=[0])")),
        native("matmul-of-permuted", Bits, structure::matmul_of_permuted,
            (".matmul(x, .mul(.permute(y, perm=[1, 0]), 3.0), batch=[], contracted=[[1, 0]])",
             ".matmul(x, .permute(.mul(y, 3.0), perm=[1, 0]), batch=[], contracted=[[1, 0]])")),
        needed("matmul-canonical", structure::matmul_canonical,
            (".matmul(t, t, batch=[], contracted=[[0, 0], [1, 1]])",
             ".matmul(.reshape(t), .reshape(t), batch=[], contracted=[[0, 0]])")),
    ]
}
