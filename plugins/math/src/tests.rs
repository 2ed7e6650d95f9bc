//! Tests of every form, and of PyTorch's numbers in `tests/examples/math.json`.
#![allow(clippy::unwrap_used)]

use crate::Math;
use engine_core::grad::differentiate;
use engine_core::ir::{Builder, DType, Graph, InputKind, Level, Type, Value, parse, verify};
use engine_core::lower::primitives;
use engine_core::op::{Example, Grad, Plugin, Registry};
use engine_core::oracle::{Oracle, OracleTensor};
use engine_core::testing::{self, Case};
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};

/// A case of the data file.
struct Recorded {
    example: Example,
    /// By operand, for the upstream gradients 1, 2, 3, ...
    grads: Option<Vec<Option<Vec<f64>>>>,
}

#[test]
fn examples_hold() {
    assert_eq!(testing::examples(&registry()), []);
}

#[test]
fn gradients_are_central_differences() {
    assert_eq!(testing::gradients(&registry()), []);
}

#[test]
fn gradients_by_convention_hold() {
    assert_eq!(testing::conventions(&registry()), []);
}

/// x·detach(x) has the slope x, not 2x.
#[test]
fn a_detached_factor_counts_as_a_constant() {
    let registry = registry();
    let example =
        Example::new("a constant", "copy(a)", &[("f32[2]", &[3.0, -2.0])], &[("f32[2]", &[3.0, -2.0])]);
    let case = testing::case(&example, &registry).unwrap();
    let mut b = Builder::new(case.graph.clone(), &registry);
    let x = case.graph.outputs[0].1;
    let detached = b.call("detach", &[x], Default::default()).unwrap()[0];
    let product = b.mul(x, detached);
    let loss = b.sum(product, &[0]);
    assert_eq!(gradients_of(b.graph, loss, &case, &case.inputs, &registry, 0), [[3.0, -2.0]]);
}

#[test]
fn results_are_those_of_pytorch() {
    let registry = registry();
    let mut failures = vec![];
    for recorded in recorded() {
        let case = testing::case(&recorded.example, &registry).unwrap();
        let run = Oracle::rounded(&registry).run(&case.graph, &case.inputs, 0, 0).unwrap();
        for (found, expected) in run.outputs.values().zip(&case.expected) {
            let differs =
                first_difference(&found.to_f64(), &expected.to_f64(), tolerance(expected.dtype), 1e-37);
            failures.extend(
                differs.map(|what| format!("{} {}: {what}", recorded.example.call, case_name(&recorded))),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn gradients_are_those_of_pytorch() {
    let registry = registry();
    let mut failures = vec![];
    for recorded in recorded() {
        let Some(expected) = &recorded.grads else { continue };
        let case = testing::case(&recorded.example, &registry).unwrap();
        let found = weighed_gradients(&case, &registry);
        for (found, expected) in found.iter().zip(expected) {
            let Some(expected) = expected else { continue };
            let differs = first_difference(found, expected, 1e-7, 1e-12);
            failures.extend(
                differs.map(|what| format!("{} {}: {what}", recorded.example.call, case_name(&recorded))),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Constants have the type of the operands, in double precision too.
#[test]
fn examples_hold_in_double_precision() {
    let registry = registry();
    let mut failures = vec![];
    // What widens halves gives f32 also where other operands are doubles.
    let has_halves = |example: &Example| example.inputs.iter().any(|(ty, _)| ty.starts_with("f16"));
    let examples = registry.ops().flat_map(|form| form.examples.clone());
    for example in examples.filter(|example| !has_halves(example)) {
        let double = |tensors: &[(&'static str, Vec<f64>)]| -> Vec<(&'static str, Vec<f64>)> {
            let changed = tensors.iter().map(|(ty, x)| (&*ty.replace("f32", "f64").leak(), x.clone()));
            changed.collect()
        };
        let call = example.call.replace("f32", "f64").leak();
        let (inputs, outputs) = (double(&example.inputs), double(&example.outputs));
        let example = Example { title: example.title, call, inputs, outputs };
        let case = testing::case(&example, &registry).unwrap();
        let lowered = primitives(&case.graph, &registry);
        failures.extend(verify(&lowered, Level::Primitive).err().map(|faults| format!("{call}: {faults:?}")));
        failures.extend(testing::check(&example, &registry).err().map(|what| format!("{call}: {what}")));
    }
    assert_eq!(failures, [] as [&str; 0]);
}

#[test]
fn every_op_is_recorded() {
    let calls: HashSet<String> = recorded().iter().map(|case| op_of(case.example.call)).collect();
    let missing: Vec<String> =
        Math.ops().into_iter().map(|form| form.name).filter(|name| !calls.contains(name)).collect();
    assert_eq!(missing, [] as [&str; 0]);
}

#[test]
fn every_differentiable_op_has_recorded_gradients() {
    let with_grads: HashSet<String> =
        recorded().iter().filter(|case| case.grads.is_some()).map(|case| op_of(case.example.call)).collect();
    let constant = ["full_like"];
    let missing: Vec<String> = Math
        .ops()
        .into_iter()
        .filter(|form| !matches!(form.grad, Grad::None { .. }) && !constant.contains(&form.name.as_str()))
        .map(|form| form.name)
        .filter(|name| !with_grads.contains(name))
        .collect();
    assert_eq!(missing, [] as [&str; 0]);
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let f32s = Type::new(DType::F32, &[2, 3]);
    let i32s = Type::new(DType::I32, &[3]);
    let refused = |op: &str, inputs: &[&Type]| {
        let form = registry().op(op).unwrap();
        let attrs = form.fill_attrs(Default::default());
        let inputs: Vec<Type> = inputs.iter().map(|&ty| ty.clone()).collect();
        form.infer(&inputs, &attrs).unwrap_err().message
    };
    assert_eq!(refused("add", &[&f32s]), "`add` takes 2 operands, 1 given");
    assert_eq!(refused("add", &[&f32s, &i32s]), "`add` of f32 and i32");
    assert_eq!(refused("exp", &[&i32s]), "`exp` does not take i32");
    assert_eq!(refused("and", &[&f32s, &f32s]), "`and` does not take f32");
    assert_eq!(refused("where", &[&f32s, &f32s, &f32s]), "the condition of `where` is f32[2, 3]");
    assert_eq!(refused("clamp", &[&f32s]), "`clamp` has no bound");
    assert_eq!(
        refused("softcap_tanh_projection", &[&f32s, &Type::new(DType::F32, &[2])]),
        "`softcap_tanh_projection` of f32[2, 3] by f32[2]"
    );
    let narrow = Type::new(DType::F32, &[3]);
    assert_eq!(
        refused("apply_corrections", &[&f32s, &narrow]),
        "`apply_corrections` of f32[2, 3] and f32[3]"
    );
}

/// The distribution of the mask: an element is zero with probability ¼, and the others are scaled to keep the mean.
/// Every step draws anew, and the gradient has the same mask.
#[test]
fn dropout_drops_a_quarter_and_keeps_the_mean() {
    let registry = registry();
    let count = 40_000;
    let ones = vec![1.0; count];
    let tensors: &[(&str, &[f64])] = &[("f32[40000]", &ones)];
    let example = Example::new("ones", "dropout(a, p=0.25)", tensors, tensors);
    let case = testing::case(&example, &registry).unwrap();
    let at_step =
        |step| Oracle::new(&registry).run(&case.graph, &case.inputs, 7, step).unwrap().outputs[0].to_f64();
    let (first, second) = (at_step(0), at_step(1));
    assert!(first.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-12));
    let dropped = first.iter().filter(|&&y| y == 0.0).count() as f64;
    // Four standard deviations of a binomial law.
    assert!(
        (dropped - 0.25 * count as f64).abs() < 4.0 * (count as f64 * 0.25 * 0.75).sqrt(),
        "{dropped} dropped"
    );
    assert_ne!(first, second);
    let grads = weighed_gradients_at(&case, &registry, 7);
    assert!(grads[0].iter().zip(&first).enumerate().all(|(i, (g, y))| (g - y * (i + 1) as f64).abs() < 1e-6));
}

/// Masks of two nodes, and of neighbouring elements of one, are independent: both elements are zero with probability
/// 1/16. The bound is four standard deviations.
#[test]
fn dropouts_are_independent() {
    let registry = registry();
    let text = "graph test {\ninput a: f32[40000]\ny: f32[40000] = dropout(a, p=0.25)\n\
                z: f32[40000] = dropout(a, p=0.25)\noutput y = y\noutput z = z\n}\n";
    let graph = parse(text, &registry).unwrap();
    let inputs = HashMap::from([("a".into(), OracleTensor::new(DType::F32, &[40_000], &[1.0; 40_000]))]);
    let run = Oracle::new(&registry).run(&graph, &inputs, 7, 0).unwrap();
    let [y, z] = ["y", "z"].map(|name| run.outputs[name].to_f64());
    let is_likely = |hits: usize, n: f64| (hits as f64 - n / 16.0).abs() < 4.0 * (n * 15.0 / 256.0).sqrt();
    let of_nodes = y.iter().zip(&z).filter(|&pair| pair == (&0.0, &0.0)).count();
    assert!(is_likely(of_nodes, 40_000.0), "{of_nodes} of two nodes");
    let of_neighbours = y.chunks(2).filter(|&pair| pair == [0.0, 0.0]).count();
    assert!(is_likely(of_neighbours, 20_000.0), "{of_neighbours} of neighbours");
}

fn registry() -> Registry {
    testing::registry(&[&Math])
}

fn recorded() -> Vec<Recorded> {
    let text = include_str!("../../../tests/examples/math.json");
    let cases: Vec<Json> = serde_json::from_str(text).unwrap();
    let grads = |case: &Json| {
        let grads = case["grads"].as_array()?;
        Some(grads.iter().map(|grad| grad.is_array().then(|| numbers(grad))).collect())
    };
    let examples = testing::recorded_examples(text).into_iter();
    examples.zip(&cases).map(|(example, case)| Recorded { example, grads: grads(case) }).collect()
}

fn numbers(json: &Json) -> Vec<f64> {
    let number = |json: &Json| json.as_f64().unwrap_or_else(|| json.as_str().unwrap().parse().unwrap());
    json.as_array().unwrap().iter().map(number).collect()
}

fn op_of(call: &str) -> String {
    call.split('(').next().unwrap().to_string()
}

fn case_name(recorded: &Recorded) -> String {
    format!("({:?}, {:?})", recorded.example.title, recorded.example.inputs)
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        DType::F32 => 1e-6,
        _ => 0.0,
    }
}

/// The first element whose error exceeds `tolerance` of it and `tiny`.
fn first_difference(found: &[f64], expected: &[f64], tolerance: f64, tiny: f64) -> Option<String> {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).enumerate().find_map(|(i, (&a, &b))| {
        let is_close = b.is_finite() && (a - b).abs() <= tolerance * b.abs() + tiny;
        let is_near = a == b || is_close || (a.is_nan() && b.is_nan());
        (!is_near).then(|| format!("element {i} is {a} instead of {b}"))
    })
}

fn weighed_gradients(case: &Case, registry: &Registry) -> Vec<Vec<f64>> {
    weighed_gradients_at(case, registry, 0)
}

/// Gradients of Σ (i + 1)·y_i over all results, by operand. Operands that are no floats have an empty gradient.
fn weighed_gradients_at(case: &Case, registry: &Registry, seed: u64) -> Vec<Vec<f64>> {
    let mut b = Builder::new(case.graph.clone(), registry);
    let mut inputs = case.inputs.clone();
    let mut terms = vec![];
    for (name, value) in &case.graph.outputs {
        let ty = case.graph.ty(*value).clone();
        let weights: Vec<f64> = (1..=ty.numel()).map(|i| i as f64).collect();
        let name = format!("weights.of.{name}");
        let weight = b.input(&name, InputKind::Data, ty.clone());
        inputs.insert(name, OracleTensor::new(ty.dtype, &ty.extents(), &weights));
        let product = b.mul(*value, weight);
        let axes: Vec<usize> = (0..ty.rank()).collect();
        terms.push(b.sum(product, &axes));
    }
    let loss = terms.into_iter().reduce(|sum, term| b.add(sum, term)).unwrap();
    gradients_of(b.graph, loss, case, &inputs, registry, seed)
}

fn gradients_of(
    graph: Graph,
    loss: Value,
    case: &Case,
    inputs: &HashMap<String, OracleTensor>,
    registry: &Registry,
    seed: u64,
) -> Vec<Vec<f64>> {
    let operands: Vec<Value> = case.graph.inputs().map(|(id, _)| Value::of(id)).collect();
    let is_float = |value: &&Value| case.graph.ty(**value).dtype.is_float();
    let wrt: Vec<Value> = operands.iter().filter(is_float).copied().collect();
    let done = differentiate(&graph, registry, loss, &wrt).unwrap();
    let mut graph = done.graph;
    graph.outputs = wrt.iter().map(|&value| case.graph.name_of(value).clone()).zip(done.grads).collect();
    let run = Oracle::new(registry).run(&graph, inputs, seed, 0).unwrap();
    let grad = |&operand: &Value| run.outputs.get(case.graph.name_of(operand)).map(OracleTensor::to_f64);
    operands.iter().map(|operand| grad(operand).unwrap_or_default()).collect()
}
