//! Patterns and replacements of scalar primitives as text, in the syntax that primitive graphs print in.
//!
//! `.sub(x, .neg(y))`: names stand for values, and a repeated name for one value. Numbers match constants of any shape.
//! `!c` is a value of type bool, `.cast_float(x)` a conversion to any float type.

use super::Rewriter;
use crate::ir::{DType, Literal, NodeOp, Scalar, Type, Value};
use std::collections::HashMap;

/// A parsed term.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Any value. If the flag is set, only a bool value.
    Var(String, bool),
    /// A constant.
    Number(f64),
    /// A scalar primitive.
    Op(String, Vec<Term>),
}

/// The values of the names in a pattern.
pub type Bindings = HashMap<String, Value>;

/// Reads a term. A malformed term is a bug in the table, which the test of the rule's example finds.
pub fn parse(text: &str) -> Term {
    let mut rest = text;
    let term = parse_term(&mut rest);
    assert!(rest.trim().is_empty(), "bug in the engine: `{rest}` is left over of rule text `{text}`");
    term
}

fn parse_term(rest: &mut &str) -> Term {
    *rest = rest.trim_start_matches([',', ' ']);
    if let Some(tail) = rest.strip_prefix('!') {
        *rest = tail;
        return Term::Var(word(rest), true);
    }
    if let Some(tail) = rest.strip_prefix('.') {
        *rest = tail;
        return parse_op(rest);
    }
    let text = word(rest);
    text.parse().map_or_else(|_| Term::Var(text, false), Term::Number)
}

fn parse_op(rest: &mut &str) -> Term {
    let name = word(rest);
    *rest = rest.strip_prefix('(').unwrap_or_else(|| crate::bug!("`.{name}` without operands in a rule"));
    let mut args = vec![];
    while !rest.starts_with(')') {
        args.push(parse_term(rest));
    }
    *rest = &rest[1..];
    Term::Op(name, args)
}

fn word(rest: &mut &str) -> String {
    let end = rest.find([',', '(', ')', ' ']).unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    *rest = tail;
    word.to_string()
}

/// Matches a node before it is made.
pub fn matches(r: &Rewriter, term: &Term, op: &NodeOp, inputs: &[Value]) -> Option<Bindings> {
    let mut found = Bindings::new();
    match_op(r, term, op, inputs, &mut found).then_some(found)
}

fn match_value(r: &Rewriter, term: &Term, value: Value, found: &mut Bindings) -> bool {
    match term {
        Term::Var(name, is_bool) => {
            let fits = !is_bool || r.ty(value).dtype == DType::Bool;
            fits && *found.entry(name.clone()).or_insert(value) == value
        }
        Term::Number(number) => {
            r.constant(value).is_some_and(|literal| literal.as_f64().to_bits() == number.to_bits())
        }
        Term::Op(..) => match_op(r, term, r.op(value), r.operands(value), found),
    }
}

fn match_op(r: &Rewriter, term: &Term, op: &NodeOp, inputs: &[Value], found: &mut Bindings) -> bool {
    let (Term::Op(name, args), NodeOp::Scalar(scalar)) = (term, op) else { return false };
    let fits = match scalar {
        Scalar::Cast(dtype) => name == "cast_float" && dtype.is_float(),
        _ => scalar.name() == name,
    };
    fits && args.len() == inputs.len()
        && args.iter().zip(inputs).all(|(arg, &input)| match_value(r, arg, input, found))
}

/// Builds a replacement. Numbers take `ty`, the type of the replaced value.
pub fn build(r: &mut Rewriter, term: &Term, found: &Bindings, ty: &Type) -> Value {
    match term {
        Term::Var(name, _) => found[name],
        Term::Number(number) => r.full(Literal::Float(*number), ty.clone()),
        Term::Op(name, args) => {
            let scalar = Scalar::from_name(name).unwrap_or_else(|| crate::bug!("no primitive `.{name}`"));
            let operands = args.iter().map(|arg| build(r, arg, found, ty)).collect();
            r.make(NodeOp::Scalar(scalar), operands, ty.clone())
        }
    }
}
