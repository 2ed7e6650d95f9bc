#![allow(clippy::unwrap_used, missing_docs)]
//! Ops as kernels: every example and recorded case on the CPU, with its gradient, fused and unfused. Also the fusion of
//! norms, indexing and sampling.

use engine::Engine;
use engine::core::compile::{Compiled, Options, compile};
use engine::core::grad::differentiate;
use engine::core::ir::{Builder, DType, Graph, InputKind, Literal, Monoid, Type, Value, parse};
use engine::core::op::{Example, Registry};
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::testing::{self, Case};
use engine::runtime::cpu::CpuDevice;
use engine::runtime::device::Device;
use engine::runtime::tensor::HostTensor;
use expect_test::{Expect, expect};
use std::collections::HashMap;
use std::sync::Arc;

#[path = "ops/defects.rs"]
mod defects;
#[path = "ops/draws.rs"]
mod draws;
#[path = "ops/named.rs"]
mod named;
#[path = "ops/on_gpu.rs"]
mod on_gpu;
#[path = "ops/refusals.rs"]
mod refusals;
#[path = "ops/row_folds.rs"]
mod row_folds;
#[path = "ops/small.rs"]
mod small;
#[path = "common/small_integers.rs"]
mod small_integers;
#[path = "ops/transposed.rs"]
mod transposed;

const RECORDED: [&str; 9] = [
    include_str!("examples/math.json"),
    include_str!("examples/tensor.json"),
    include_str!("examples/index.json"),
    include_str!("examples/reduce.json"),
    include_str!("examples/norm.json"),
    include_str!("examples/sample.json"),
    include_str!("examples/muon.json"),
    include_str!("examples/attention.json"),
    include_str!("examples/linalg.json"),
];

#[test]
fn examples_and_recorded_cases_hold_on_the_cpu_fused_and_unfused() {
    let registry = Engine::new().registry;
    let device = CpuDevice::new(Some(2)).unwrap();
    let recorded = RECORDED.iter().flat_map(|json| testing::recorded_examples(json));
    let examples: Vec<Example> =
        registry.ops().flat_map(|form| form.examples.clone()).chain(recorded).collect();
    assert!(examples.len() > 600, "{} examples", examples.len());
    let mut failures = vec![];
    for example in &examples {
        let case = testing::case(example, &registry).unwrap();
        let with_gradients = with_gradients(&case.graph, &registry);
        for fuse in [true, false] {
            let failure = check(&device, &registry, &case, &with_gradients, fuse).err();
            failures.extend(failure.map(|what| format!("{}, fuse={fuse}: {what}", example.call)));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The maximum number of terms of a gradient that may cancel.
const TERMS: f64 = 16.0;

/// The largest upstream gradient: Σ (i + 1)·y_i gives i + 1.
fn largest_upstream(graph: &Graph) -> f64 {
    let floats = graph.outputs.iter().map(|(_, y)| graph.ty(*y)).filter(|ty| ty.dtype.is_float());
    floats.map(Type::numel).max().unwrap_or(0) as f64
}

/// Compares the device with the oracle, which the recorded numbers are compared with elsewhere.
fn check(
    device: &CpuDevice,
    registry: &Registry,
    case: &Case,
    graph: &Graph,
    fuse: bool,
) -> Result<(), String> {
    let expected = Oracle::rounded(registry).run(graph, &case.inputs, 0, 0).map_err(|e| e.to_string())?;
    let compiled = compile(graph, registry, &Options { fuse, ..Options::default() });
    let found = run(device, &compiled, &case.inputs)?;
    let upstream = largest_upstream(&case.graph);
    for (name, expected) in &expected.outputs {
        let (tolerance, noise) = match expected.dtype {
            DType::F16 => (2e-2, 0.5f64.powi(11)),
            DType::BF16 => (4e-2, 0.5f64.powi(8)),
            _ => (2e-5, 0.5f64.powi(24)),
        };
        let wide = expected.to_f64();
        let size = wide.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
        // A gradient is a sum of terms of the size of the upstream gradient. The terms may cancel, and leave the
        // rounding of each.
        let cancelled = if name.starts_with("d_") { TERMS * noise * upstream } else { 0.0 };
        for (i, (a, b)) in found[&**name].iter().zip(wide).enumerate() {
            let is_near =
                *a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * size + cancelled;
            if !is_near {
                return Err(format!("{name}[{i}] is {a} instead of {b}"));
            }
        }
    }
    Ok(())
}

/// The graph with gradients of Σ (i + 1)·y_i as further outputs, as far as there are any.
fn with_gradients(graph: &Graph, registry: &Registry) -> Graph {
    let mut b = Builder::new(graph.clone(), registry);
    let mut loss: Option<Value> = None;
    for (_, y) in &graph.outputs {
        if b.dtype(*y).is_float() {
            let count = b.ty(*y).numel();
            let wide = b.cast(*y, DType::F32);
            let wide = b.reshape(wide, &[count]);
            let number = b.iota(0, Type::new(DType::I32, &[count]));
            let number = b.cast(number, DType::F32);
            let terms = b.map(&[wide, number], |v| v[0] * (v[1] + 1.0));
            let total = b.sum(terms, &[0]);
            loss = Some(loss.map_or(total, |known| b.add(known, total)));
        }
    }
    let wrt: Vec<Value> = graph
        .inputs()
        .filter(|(id, kind)| *kind != InputKind::Step && graph.ty(Value::of(*id)).dtype.is_float())
        .map(|(id, _)| Value::of(id))
        .collect();
    let Some(done) = loss.and_then(|loss| differentiate(&b.graph, registry, loss, &wrt).ok()) else {
        return graph.clone();
    };
    let names = wrt.iter().map(|&x| format!("d_{}", graph.name_of(x)).into());
    let mut both = done.graph;
    both.outputs.extend(names.zip(done.grads));
    both.pruned()
}

fn run(
    device: &CpuDevice,
    compiled: &Compiled,
    inputs: &HashMap<String, OracleTensor>,
) -> Result<HashMap<String, Vec<f64>>, String> {
    let mut executable = device.prepare(Arc::new(compiled.plan.clone()), 0).map_err(|e| e.to_string())?;
    for (name, tensor) in inputs {
        let bytes = bytes_of(tensor);
        let buffer = device.allocate(bytes.len()).unwrap();
        device.write(&buffer, 0, &bytes).unwrap();
        // An operand that no result depends on is no input of the plan.
        let _ = executable.bind(name, &buffer);
    }
    executable.run(0, 1).map_err(|error| error.to_string())?;
    // A buffer may have held another value first, so its type may differ from the output's.
    let ty_of = |wanted: &str| {
        let (_, value) = compiled.simplified.outputs.iter().find(|(name, _)| **name == *wanted).unwrap();
        compiled.simplified.ty(*value)
    };
    let outputs = compiled.plan.outputs.iter().map(|(name, _)| {
        let ty = ty_of(name);
        let mut bytes = vec![0; ty.bytes()];
        executable.read_output(name, &mut bytes).unwrap();
        let tensor = HostTensor::from_bytes(ty.dtype, &ty.extents(), &bytes).unwrap();
        (name.to_string(), tensor.to_f64())
    });
    Ok(outputs.collect())
}

fn bytes_of(tensor: &OracleTensor) -> Vec<u8> {
    let bytes = |i: usize| match tensor.dtype {
        DType::F16 => half::f16::from_f64(tensor.float(i)).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(tensor.float(i)).to_le_bytes().to_vec(),
        DType::F32 => (tensor.float(i) as f32).to_le_bytes().to_vec(),
        DType::F64 => tensor.float(i).to_le_bytes().to_vec(),
        dtype => tensor.int(i).to_le_bytes()[..dtype.size()].to_vec(),
    };
    (0..tensor.len()).flat_map(bytes).collect()
}

/// Noise from every possible uniform number, the smallest and the largest included.
#[test]
fn gumbel_noise_is_finite_for_all_of_two_to_the_23_uniform_numbers() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("noise"), &registry);
    let k = b.iota(0, Type::new(DType::I32, &[1 << 23]));
    let k = b.cast(k, DType::F32);
    let noise = b.map(&[k], |k| -(-((k[0] + 0.5) * 0.5f64.powi(23)).log()).log());
    let (least, most) = (b.reduce(Monoid::Min, noise, &[0]), b.reduce(Monoid::Max, noise, &[0]));
    b.graph.outputs = vec![("least".into(), least), ("most".into(), most)];
    let compiled = compile(&b.graph, &registry, &Options::default());
    let found = run(&CpuDevice::new(Some(2)).unwrap(), &compiled, &HashMap::new()).unwrap();
    // -ln(-ln(2⁻²⁴)) and -ln(-ln(1 - 2⁻²⁴)).
    assert!(
        (found["least"][0] + 2.811_4).abs() < 1e-3 && (found["most"][0] - 16.635_5).abs() < 1e-3,
        "{found:?}"
    );
}

/// A pad holds its fill, and the padded computation must not change it.
#[test]
fn a_pad_of_a_recomputed_value_holds_its_fill() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("pad"), &registry);
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[2]));
    let y = b.map(&[x], |x| x[0] * 2.0 + 1.0);
    let ones = b.full_like(x, 1.0);
    let padded = [y, ones].map(|y| b.pad(y, &[1], &[2], Literal::Float(7.0)));
    b.graph.outputs = vec![("y".into(), padded[0]), ("ones".into(), padded[1])];
    let compiled = compile(&b.graph, &registry, &Options::default());
    let inputs = HashMap::from([("x".to_string(), OracleTensor::new(DType::F32, &[2], &[3.0, -1.0]))]);
    let found = run(&CpuDevice::new(Some(1)).unwrap(), &compiled, &inputs).unwrap();
    assert_eq!(found["y"], [7.0, 7.0, -1.0, 7.0, 7.0]);
    assert_eq!(found["ones"], [7.0, 1.0, 1.0, 7.0, 7.0]);
}

// ---- Fusion.

/// Kernel kinds of a graph in launch order, then the kinds that its gradients with respect to `wrt` add.
fn kinds(nodes: &str, wrt: &[&str]) -> String {
    let registry = Engine::new().registry;
    let graph = parse(&format!("graph test {{\n{nodes}\n}}\n"), &registry).unwrap();
    let of = |graph: &Graph| {
        let compiled = compile(graph, &registry, &Options::default());
        let kernels = compiled.plan.launches.iter().map(|l| &compiled.plan.kernels[l.kernel]);
        kernels.map(|kernel| kernel.kind()).collect::<Vec<_>>().join(" ")
    };
    let mut b = Builder::new(graph.clone(), &registry);
    let upstream = graph.find("g").unwrap();
    let product = b.mul(graph.outputs[0].1, upstream);
    let axes: Vec<usize> = (0..b.ty(product).rank()).collect();
    let loss = b.sum(product, &axes);
    let wrt: Vec<Value> = wrt.iter().map(|name| graph.find(name).unwrap()).collect();
    let done = differentiate(&b.graph, &registry, loss, &wrt).unwrap();
    let mut backward = done.graph;
    backward.outputs = done.grads.iter().enumerate().map(|(i, &d)| (format!("d{i}").into(), d)).collect();
    format!("forward: {}\nbackward: {}\n", of(&graph), of(&backward.pruned()))
}

fn check_kinds(nodes: &str, wrt: &[&str], expected: Expect) {
    expected.assert_eq(&kinds(nodes, wrt));
}

const ROWS: &str = "input x: f32[64, 128]\ninput g: f32[64, 128]\ninput w: f32[128]\ninput v: f32[128]";

#[test]
fn norms_are_one_row_kernel_forward_and_one_backward() {
    for call in ["rms_norm(x, w)", "rms_norm(x, w, v)", "layer_norm(x, w, v)", "l2_normalize(x)"] {
        let results = match call.split('(').next() {
            Some("layer_norm") => "(y: f32[64, 128], mean: f32[64, 1], rstd: f32[64, 1])",
            _ => "(y: f32[64, 128], row: f32[64, 1])",
        };
        let nodes = format!("{ROWS}\n{results} = {call}\noutput y = y");
        check_kinds(
            &nodes,
            &["x"],
            expect![[r#"
            forward: row
            backward: row
        "#]],
        );
    }
}

#[test]
fn a_residual_and_a_lookup_join_the_norm() {
    let residual = format!(
        "{ROWS}\ninput r: f32[64, 128]\n(y: f32[64, 128], sum: f32[64, 128]) = residual_rms_norm(x, r, w)\n\
         output y = y\noutput sum = sum"
    );
    check_kinds(
        &residual,
        &["x"],
        expect![[r#"
        forward: row
        backward: row
    "#]],
    );
    let lookup = "input t: f32[50, 128]\ninput i: i32[64]\ninput w: f32[128]\ninput g: f32[64, 128]\n\
                  y: f32[64, 128] = embedding_rms_norm(t, i, w)\noutput y = y";
    check_kinds(
        lookup,
        &["t"],
        expect![[r#"
            forward: row
            backward: row scatter
        "#]],
    );
}

#[test]
fn gathered_rows_are_compared_in_one_kernel() {
    let nodes = "input q: f32[8, 64]\ninput t: f32[100, 64]\ninput i: i32[8, 16]\ninput g: f32[8, 16]\n\
                 e: f32[8, 16, 64] = index_select(t, i)\ny: f32[8, 16] = cosine_similarity(q, e)\noutput y = y";
    check_kinds(
        nodes,
        &["q"],
        expect![[r#"
        forward: row row
        backward: row row row row
    "#]],
    );
    let matrix = "input a: f32[32, 64]\ninput b: f32[48, 64]\ninput g: f32[32, 48]\n\
                  y: f32[32, 48] = cosine_matrix(a, b)\noutput y = y";
    check_kinds(
        matrix,
        &["a"],
        expect![[r#"
            forward: row row matmul
            backward: row row map matmul row matmul
        "#]],
    );
}

#[test]
fn draws_are_one_map_kernel() {
    let bits =
        "input x: f32[64, 128]\ninput g: f32[64, 128]\ny: f32[64, 128] = sigmoid_bernoulli(x)\noutput y = y";
    check_kinds(
        bits,
        &["x"],
        expect![[r#"
        forward: map
        backward: map
    "#]],
    );
}

#[test]
fn index_arithmetic_joins_the_read() {
    let nodes = "input x: f32[32, 8, 8, 8]\ninput i: i32[32, 3]\ninput g: f32[32]\n\
                 y: f32[32] = multi_index_gather(x, i)\noutput y = y";
    check_kinds(
        nodes,
        &["x"],
        expect![[r#"
        forward: map
        backward: map
    "#]],
    );
    let nodes = "input x: f32[32, 8, 64]\ninput i: i32[16]\ninput j: i32[16]\ninput g: f32[16, 64]\n\
                 y: f32[16, 64] = index(x, i, j)\noutput y = y";
    check_kinds(
        nodes,
        &["x"],
        expect![[r#"
            forward: map
            backward: scatter map
        "#]],
    );
}

#[test]
fn an_einsum_is_the_matmuls_that_it_describes() {
    let nodes = "input x: f32[64, 128]\ninput w: f32[32, 128]\ninput v: f32[32]\ninput g: f32[64, 32]\n\
                 h: f32[64, 32] = einsum(x, w, equation=\"ij,kj->ik\")\ny: f32[64, 32] = add(h, v)\noutput y = y";
    check_kinds(
        nodes,
        &["x", "w"],
        expect![[r#"
        forward: matmul
        backward: matmul matmul map
    "#]],
    );
    // Products that are not summed, or have no rows or columns of their own, are maps and rows.
    let nodes = "input x: f32[64, 128]\ninput w: f32[64, 128]\ninput g: f32[64]\n\
                 y: f32[64] = einsum(x, w, equation=\"ij,ij->i\")\noutput y = y";
    check_kinds(
        nodes,
        &["x"],
        expect![[r#"
        forward: row
        backward: map
    "#]],
    );
}
