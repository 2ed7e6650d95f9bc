//! Mutants: forms with one small mistake each, in the lowering or in a gradient rule. A mutant that passes all tests of
//! its op shows a gap in the tests.

use super::checks::{op_conventions, op_examples, op_gradients};
use super::failure::Failure;
use super::recorded;
use crate::ir::{
    Attrs, Body, Builder, DType, E, Inst, Literal, Node, NodeOp, NodeText, Output, Scalar, Unary, Value,
};
use crate::op::{Grad, GradCall, Lower, Lowering, OpForm, Registry};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A mutant that passes all tests of its op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The op.
    pub op: String,
    /// The changed place and the change.
    pub change: String,
}

/// Prints as ``softmax, lowering: `y0.2: f32[2] = .sub(a, y0.1)` negated``.
impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.op, self.change)
    }
}

/// Makes every mutant of every op, one at a time, and tests it. The tests are the op's examples, its gradient checks,
/// the recorded cases that call it (see [`recorded`]), and `also`. `also` says whether further tests of the named op
/// pass. The result lists the mutants that pass all tests.
///
/// A mutant negates one value (inverts a truth value) or exchanges two operands.
pub fn survivors(
    registry: &Registry,
    recordings: &[&str],
    also: impl Fn(&Registry, &str) -> bool,
) -> Vec<Survivor> {
    let cases: Vec<Json> = recordings.iter().flat_map(|text| recorded::cases(text)).collect();
    let of_op = |form: &Arc<OpForm>| {
        let call = format!("{}(", form.name);
        let cases: Vec<&Json> = cases.iter().filter(|case| recorded::call(case).starts_with(&call)).collect();
        let tests = |registry: &Registry| passes(registry, &form.name, &cases, &also);
        let parts = [Part::Lowering, Part::Gradient].into_iter();
        parts.flat_map(|part| of_part(registry, form, part, &tests)).collect::<Vec<_>>()
    };
    registry.ops().flat_map(of_op).collect()
}

/// The changed part of a form.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Lowering,
    Gradient,
}

fn of_part(
    registry: &Registry,
    form: &Arc<OpForm>,
    part: Part,
    tests: &dyn Fn(&Registry) -> bool,
) -> Vec<Survivor> {
    let mut survivors = vec![];
    for target in 0.. {
        let knife = Arc::new(Knife { target, made: Mutex::default() });
        let Some(mutant) = mutant(form, part, &knife) else { break };
        let passes = tests(&registry.replaced(mutant));
        let made = knife.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match made {
            Some(change) if passes => survivors.push(Survivor { op: form.name.clone(), change }),
            Some(_) => {}
            None => break,
        }
    }
    survivors
}

/// The form with a mutation in its lowering or gradient rule. `None` if that part cannot be mutated.
fn mutant(form: &Arc<OpForm>, part: Part, knife: &Arc<Knife>) -> Option<OpForm> {
    let mut mutant = OpForm::clone(form);
    let knife = knife.clone();
    match (part, &form.lower, &form.grad) {
        (Part::Lowering, Lower::Map(body), _) => {
            let body = body.clone();
            mutant.lower =
                Lower::Map(Arc::new(move |attrs: &Attrs| knife.cut_body("lowering", &body(attrs))));
        }
        (Part::Lowering, Lower::Expand(rule), _) => {
            let rule = rule.clone();
            mutant.lower = Lower::expand(move |b: &mut Builder, call: &Lowering| {
                let first = b.graph.nodes.len();
                let values = rule(b, call).into_iter().map(Some).collect();
                knife.cut_nodes("lowering", b, first, values).into_iter().flatten().collect()
            });
        }
        (Part::Gradient, _, Grad::Rule(rule)) => {
            let rule = rule.clone();
            mutant.grad = Grad::rule(move |b: &mut Builder, call: &GradCall| {
                let first = b.graph.nodes.len();
                let values = rule(b, call);
                knife.cut_nodes("gradient", b, first, values)
            });
        }
        _ => return None,
    }
    Some(mutant)
}

/// Whether all tests of an op pass. A test that panics fails.
fn passes(registry: &Registry, op: &str, cases: &[&Json], also: &impl Fn(&Registry, &str) -> bool) -> bool {
    let sound = || {
        let only = |failures: Vec<Failure>| failures.is_empty();
        registry.op(op).is_some_and(|form| {
            only(op_examples(&form, registry))
                && only(op_gradients(&form, registry))
                && only(op_conventions(&form, registry))
        }) && cases.iter().all(|case| recorded::check(registry, case).is_ok())
            && also(registry, op)
    };
    catch_unwind(AssertUnwindSafe(sound)).unwrap_or(false)
}

/// Makes one change, at the place number `target` of all possible places.
struct Knife {
    target: usize,
    made: Mutex<Option<String>>,
}

/// Counts the places where a change is possible.
struct Places<'k> {
    knife: &'k Knife,
    part: &'static str,
    next: usize,
}

impl Places<'_> {
    /// Whether the change is to be made at this place.
    fn hits(&mut self, change: impl FnOnce() -> String) -> bool {
        self.next += 1;
        if self.next - 1 != self.knife.target {
            return false;
        }
        let mut made = self.knife.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get_or_insert_with(|| format!("{}: {}", self.part, change()));
        true
    }
}

impl Knife {
    fn cut_body(&self, part: &'static str, body: &Body) -> Body {
        cut_body(&mut Places { knife: self, part, next: 0 }, body)
    }

    /// Mutates one of the nodes from `first` on, or a value that is passed through.
    fn cut_nodes(
        &self,
        part: &'static str,
        b: &mut Builder,
        first: usize,
        values: Vec<Option<Value>>,
    ) -> Vec<Option<Value>> {
        let mut places = Places { knife: self, part, next: 0 };
        let live = live_from(b, first, &values);
        let appended = b.graph.nodes.split_off(first);
        let mut map: HashMap<Value, Value> = HashMap::new();
        for (offset, mut node) in appended.into_iter().enumerate() {
            let moved = |value: &Value| map.get(value).copied().unwrap_or(*value);
            node.inputs = node.inputs.iter().map(moved).collect();
            let n_outputs = node.outputs.len();
            let id = match live[offset] {
                true => cut_node(&mut places, b, node),
                false => Value::of(b.graph.push(node)),
            };
            map.insert(Value::of(first + offset), id);
            for port in 1..n_outputs {
                map.insert(Value { node: first + offset, port }, Value { port, ..id });
            }
        }
        let mut returned = |value: Value| match map.get(&value) {
            Some(&new) => new,
            None if is_signed(b.dtype(value))
                && places.hits(|| "a value that is handed through negated".into()) =>
            {
                b.unary(Unary::Neg, value)
            }
            None => value,
        };
        values.into_iter().map(|value| value.map(&mut returned)).collect()
    }
}

/// Marks the nodes from `first` on that the values need.
fn live_from(b: &Builder, first: usize, values: &[Option<Value>]) -> Vec<bool> {
    let mut live = vec![false; b.graph.nodes.len()];
    values.iter().flatten().for_each(|value| live[value.node] = true);
    for id in (first..live.len()).rev().filter(|&id| id < b.graph.nodes.len()) {
        if live[id] {
            b.graph.nodes[id].inputs.iter().for_each(|input| live[input.node] = true);
        }
    }
    live.split_off(first)
}

/// Adds a node, possibly mutated, and returns its first result.
fn cut_node(places: &mut Places, b: &mut Builder, mut node: Node) -> Value {
    let line = NodeText { graph: &b.graph, node: &node }.to_string();
    if let NodeOp::Map(body) = &node.op {
        node.op = NodeOp::Map(Arc::new(cut_body(places, body)));
        return Value::of(b.graph.push(node));
    }
    if let NodeOp::Const(literal) = &mut node.op {
        let negated = negative(*literal);
        if negated != *literal && places.hits(|| format!("`{line}` negated")) {
            *literal = negated;
        }
        return Value::of(b.graph.push(node));
    }
    if let Some((i, j)) = exchangeable(b, &node)
        && places.hits(|| format!("`{line}` with operands {i} and {j} exchanged"))
    {
        node.inputs.swap(i, j);
    }
    let Some(sign) = sign_of(&node) else { return Value::of(b.graph.push(node)) };
    let value = Value::of(b.graph.push(node));
    if !places.hits(|| format!("`{line}` negated")) {
        return value;
    }
    let output = Output { name: b.fresh_name(), ty: b.ty(value).clone() };
    Value::of(b.push_node(NodeOp::Scalar(Scalar::Unary(sign)), vec![value], vec![output]))
}

/// Two operands whose order matters and that have the same type.
fn exchangeable(b: &Builder, node: &Node) -> Option<(usize, usize)> {
    let (i, j) = match &node.op {
        NodeOp::Scalar(scalar) => order_matters(scalar)?,
        NodeOp::Call(_) if node.inputs.len() > 1 => (0, 1),
        _ => return None,
    };
    let (x, y) = (node.inputs[i], node.inputs[j]);
    (x != y && b.ty(x) == b.ty(y)).then_some((i, j))
}

fn order_matters(scalar: &Scalar) -> Option<(usize, usize)> {
    match scalar {
        Scalar::Binary(op) if !op.is_commutative() => Some((0, 1)),
        Scalar::Select => Some((1, 2)),
        _ => None,
    }
}

/// The operation that negates a node's result. `None` for moves of elements, indices and conversions, which are not
/// mutated.
fn sign_of(node: &Node) -> Option<Unary> {
    let computes = match &node.op {
        NodeOp::Scalar(scalar) => !matches!(scalar, Scalar::Cast(_)),
        NodeOp::Call(_) | NodeOp::Reduce { .. } | NodeOp::Scan { .. } => true,
        NodeOp::Gather { .. } | NodeOp::Scatter { .. } | NodeOp::Matmul(_) => true,
        _ => false,
    };
    let dtype = node.outputs[0].ty.dtype;
    match dtype {
        DType::Bool if computes => Some(Unary::Not),
        dtype if computes && is_signed(dtype) => Some(Unary::Neg),
        _ => None,
    }
}

fn is_signed(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_signed_int()
}

fn negative(literal: Literal) -> Literal {
    match literal {
        Literal::Int(n) => Literal::Int(n.wrapping_neg()),
        // Examples rarely depend on the sign of a zero.
        Literal::Float(x) => Literal::Float(if x == 0.0 || x.is_nan() { x } else { -x }),
        Literal::Bool(b) => Literal::Bool(!b),
    }
}

/// The body, possibly with one step mutated.
fn cut_body(places: &mut Places, body: &Body) -> Body {
    Body::new(body.n_params, |params| {
        let mut steps: Vec<E> = vec![];
        for (reg, inst) in body.insts.iter().enumerate() {
            let step = match inst {
                Inst::Param(i) => params[*i],
                Inst::Const(literal) => cut_constant(places, body, *literal),
                Inst::Apply(scalar, operands) => {
                    let operands: Vec<(usize, E)> = operands.iter().map(|&reg| (reg, steps[reg])).collect();
                    cut_step(places, body, (reg, scalar), operands)
                }
            };
            steps.push(step);
        }
        body.outputs.iter().map(|&reg| steps[reg]).collect()
    })
}

fn cut_constant(places: &mut Places, body: &Body, literal: Literal) -> E {
    let negated = negative(literal);
    let is_hit = negated != literal && places.hits(|| format!("`{body}` with {literal} negated"));
    E::lit(if is_hit { negated } else { literal })
}

fn cut_step(
    places: &mut Places,
    body: &Body,
    (reg, scalar): (usize, &Scalar),
    mut operands: Vec<(usize, E)>,
) -> E {
    let name = scalar.name();
    if let Some((i, j)) = order_matters(scalar)
        && operands[i].0 != operands[j].0
        && places.hits(|| format!("`{body}` with the operands of step {reg}, {name}, exchanged"))
    {
        operands.swap(i, j);
    }
    let operands: Vec<E> = operands.into_iter().map(|(_, operand)| operand).collect();
    let step = E::apply(scalar.clone(), &operands);
    if matches!(scalar, Scalar::Cast(_))
        || !places.hits(|| format!("`{body}` with step {reg}, {name}, negated"))
    {
        return step;
    }
    if yields_bits(scalar) { !step } else { -step }
}

/// Whether the result is a truth value, or bits.
fn yields_bits(scalar: &Scalar) -> bool {
    use crate::ir::Binary;
    match scalar {
        Scalar::Unary(op) => matches!(op, Unary::Not | Unary::IsNan),
        Scalar::Binary(op) => op.is_comparison() || matches!(op, Binary::And | Binary::Or | Binary::Xor),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|a - b|`, tested by the example alone.
    fn distance(a: &'static [f64], b: &'static [f64], y: &'static [f64], grad: Grad) -> Registry {
        let mut registry = Registry::new();
        let form = OpForm::binary("distance", "A distance.", DType::is_float, |a, b| (a - b).abs());
        registry.add(form.grad(grad).tested_on(0.5, 2.0).example(
            "of numbers",
            "distance(a, b)",
            &[("f32[1]", a), ("f32[1]", b)],
            &[("f32[1]", y)],
        ));
        registry
    }

    fn changes(registry: &Registry) -> Vec<String> {
        survivors(registry, &[], |_, _| true).iter().map(Survivor::to_string).collect()
    }

    #[test]
    fn equivalent_mutants_survive() {
        // |a - b| is |b - a|.
        let body = "distance, lowering: `|a, b| abs(a - b)` with";
        let equal = [
            format!("{body} the operands of step 2, sub, exchanged"),
            format!("{body} step 2, sub, negated"),
        ];
        assert_eq!(changes(&distance(&[3.0], &[1.0], &[2.0], Grad::Derive)), equal);
        // An example whose only element is zero does not see the sign of the result either.
        assert_eq!(changes(&distance(&[1.0], &[1.0], &[0.0], Grad::Derive)).len(), 3);
    }

    #[test]
    fn gradient_rules_are_changed_too() {
        let rule = Grad::rule(|b, call| {
            let Some(g) = call.grads[0] else { return vec![None, None] };
            let difference = b.sub(call.inputs[0], call.inputs[1]);
            let sign = b.unary(Unary::Sign, difference);
            let da = b.mul(g, sign);
            vec![Some(da), Some(b.unary(Unary::Neg, da))]
        });
        let changed = changes(&distance(&[3.0], &[1.0], &[2.0], rule));
        assert!(changed.iter().all(|change| change.contains("lowering")), "{changed:?}");
    }
}
