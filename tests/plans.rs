#![allow(clippy::unwrap_used, missing_docs)]
//! The plans of the shipped pipelines, and a test that fused, unfused and decomposed forms give equal results.

use engine::Engine;
use engine::core::codegen::cuda_sources;
use engine::core::compile::{Compiled, Options, compile};
use engine::core::fusion::{Kernel, Use};
use engine::core::ir::{DType, InputKind, Type};
use engine::core::op::Registry;
use engine::core::pipeline::{Mode, Pipeline, RunStage, Stage, TrainStage};
use engine::core::plan::Place;
use engine::core::stage::{self, Rows, SplitShape};
use engine::runtime::cpu::CpuDevice;
use engine::runtime::device::{Device, Executable};
use engine::runtime::init::initial_values;
use expect_test::{expect, expect_file};
use std::collections::HashMap;
use std::sync::Arc;

#[path = "plans/attention.rs"]
mod attention;
#[path = "plans/convolutions.rs"]
mod convolutions;
#[path = "plans/fusions.rs"]
mod fusions;
#[path = "plans/loops.rs"]
mod loops;
#[path = "plans/order.rs"]
mod order;
#[path = "common/parsed.rs"]
mod parsed;
#[path = "plans/texts.rs"]
mod texts;

use parsed::parsed;

const ROWS: usize = 60_000;

fn load(file: &str) -> (Pipeline, Registry) {
    let path = format!("{}/graphs/{file}", env!("CARGO_MANIFEST_DIR"));
    parse(file, std::fs::read_to_string(path).unwrap())
}

fn parse(name: &str, text: String) -> (Pipeline, Registry) {
    let mut registry = Engine::new().registry;
    (parsed(name, text, &mut registry), registry)
}

fn digits() -> SplitShape {
    let fields =
        vec![("images".into(), Type::new(DType::U8, &[784])), ("labels".into(), Type::scalar(DType::U8))];
    SplitShape { data: "digits".into(), n_rows: ROWS, n_held: ROWS, fields }
}

fn train_stage(pipeline: &Pipeline) -> &TrainStage {
    pipeline.stages.iter().find_map(Stage::get).unwrap()
}

fn training(file: &str, options: &Options) -> (Compiled, Pipeline) {
    let (pipeline, registry) = load(file);
    let rows = Rows::Batches { batch: 128, per_epoch: ROWS.div_ceil(128) };
    let step = stage::training(&pipeline, train_stage(&pipeline), &digits(), rows, &registry).unwrap();
    (compile(&step.graph, &registry, options), pipeline)
}

fn table(compiled: &Compiled) -> String {
    let kernels = compiled.plan.launches.iter().map(|launch| &compiled.plan.kernels[launch.kernel]);
    let names = |kernel: &Kernel, usage: Use| {
        let operands = kernel.operands.iter().filter(|operand| operand.usage == usage);
        operands.map(|operand| compiled.name(operand.value).to_string()).collect::<Vec<_>>().join(" ")
    };
    let line = |kernel: &Kernel| {
        let (reads, writes) = (names(kernel, Use::Read), names(kernel, Use::Write));
        let bytes = format!("{} B in, {} B out", kernel.bytes_read, kernel.bytes_written);
        format!("{} [{}]: {reads} -> {writes} ({bytes})\n", kernel.kind(), kernel.ops.join(" "))
    };
    kernels.map(line).collect()
}

#[test]
fn a_training_step_of_mnist_is_nine_kernels() {
    expect_file!["golden/mnist_train.txt"].assert_eq(&table(&training("mnist.ron", &Options::default()).0));
}

/// The gradient of the lookups is fused into its scatter, and never stored.
#[test]
fn the_gradient_of_a_lookup_is_added_where_it_is_computed() {
    expect![[r#"
        scatter [scatter]: step order digits.labels -> d.row.8 (644 B in, 44 B out)
        row [gather cast div gather sub mul reduce_sum]: step order digits.labels table digits.images -> loss.3.2 (434852 B in, 1024 B out)
        scatter [mul add select gather max div scatter]: step order digits.labels table digits.images d.row.8 -> d.table (135536 B in, 34496 B out)
        map [mul add mul mul mul add sqrt mul add div sub]: table.m d.table table.v table step -> table.m.next table.v.next table.next (137988 B in, 103488 B out)
        row [reduce_sum div mul add is_nan abs eq or and select]: loss.3.2 sum.loss nan_step step -> loss sum.loss.3 nan_step.11 (1036 B in, 12 B out)
    "#]].assert_eq(&table(&training("embedding.ron", &Options::default()).0));
}

#[test]
fn the_step_spelled_out_has_the_same_signature() {
    let sorted = |file: &str| {
        let mut signature = training(file, &Options::default()).0.signature();
        signature.sort();
        signature
    };
    assert_eq!(sorted("mnist_decomposed.ron"), sorted("mnist.ron"));
}

#[test]
fn noise_temperature_and_softmax_are_one_row_kernel_as_is_their_gradient() {
    let compiled = training("gumbel.ron", &Options::default()).0;
    let kernels = compiled.plan.launches.iter().map(|launch| &compiled.plan.kernels[launch.kernel]);
    let lines: Vec<String> =
        kernels.map(|kernel| format!("{} [{}]", kernel.kind(), kernel.ops.join(" "))).collect();
    expect![[r#"
        map [gather cast div]
        matmul [gemm]
        row [random shr cast add mul log neg log sub div reduce_max sub exp reduce_sum div]
        matmul [gemm sub]
        row [mul reduce_sum mul add]
        matmul [gemm]
        row [mul reduce_sum sub mul div]
        matmul [gemm]
        matmul [gemm]
        segmented map [mul mul add mul mul mul mul add sqrt mul add div sub]
        row [reduce_sum div mul add is_nan abs eq or and select]"#]]
    .assert_eq(&lines.join("\n"));
}

/// A soft choice among 1000 items, whose keys and values are as short as those of attention.
const CHOICE: &str = r#"(
  inputs: {"query": "f32[B, 64]"},
  params: {
    "keys": (type: "f32[64, 1000]", init: Xavier),
    "values": (type: "f32[1000, 64]", init: Xavier),
  },
  nodes: {
    "logits": "query @ keys",
    "choice": "gumbel_softmax(logits, tau=0.5)",
    "picked": "choice @ values",
    "loss": "mean(square(picked - query))",
  },
  stages: {"look": Run(outputs: ["loss"], dims: {"B": 256})},
)"#;

#[test]
fn choosing_by_gumbel_softmax_is_one_kernel_forward_and_one_row_kernel_in_training() {
    let (pipeline, registry) = parse("choice.ron", CHOICE.to_owned());
    let forward =
        stage::inference(&pipeline, &[("loss".into(), "loss".into())], &[("B".into(), 256)], Mode::Eval)
            .unwrap();
    let compiled = compile(&forward, &registry, &Options::default());
    // Logits, noise, softmax and the weighted values are an attention over the items.
    let row = compiled.plan.kernels.iter().find(|kernel| kernel.ops.contains(&"random".to_string())).unwrap();
    assert_eq!(row.kind(), "attention");
    assert!(
        ["log", "exp", "reduce_sum", "reduce_max"].iter().all(|op| row.ops.contains(&op.to_string())),
        "{:?}",
        row.ops
    );

    let loss = forward.outputs[0].1;
    let wrt = forward.find("keys").unwrap();
    let both = engine::core::grad::differentiate(&forward, &registry, loss, &[wrt]).unwrap();
    let mut graph = both.graph;
    graph.outputs.push(("d_keys".into(), both.grads[0]));
    let compiled = compile(&graph.pruned(), &registry, &Options::default());
    let kinds: Vec<&str> =
        compiled.plan.launches.iter().map(|l| compiled.plan.kernels[l.kernel].kind()).collect();
    expect![[r#"
        [
            "matmul",
            "row",
            "matmul",
            "row",
            "matmul",
            "row",
            "matmul",
        ]
    "#]]
    .assert_debug_eq(&kinds);
}

/// The kernels that a stage `Run` launches.
fn running(file: &str, stage: &str, options: &Options) -> (Compiled, Pipeline) {
    let (pipeline, registry) = load(file);
    let found = pipeline.stages.iter().find(|found| &*found.name == stage).unwrap();
    let run = found.get::<RunStage>().unwrap();
    let graph = stage::running(&pipeline, run, &registry).unwrap();
    (compile(&graph, &registry, options), pipeline)
}

#[test]
fn attention_to_selected_keys_is_one_kernel() {
    expect![[r#"
        attention [gather gather gemm mul select reduce_max eq select sub exp reduce_sum eq select div gemm copy]: q k v -> sparse (1572864 B in, 1048576 B out)
    "#]].assert_eq(&table(&running("sparse_attention.ron", "attend", &Options::default()).0));
    expect![[r#"
        attention [gather gather gemm mul reduce_max eq select sub exp reduce_sum eq select div gemm]: q k v -> all.20.3 (1572864 B in, 1048576 B out)
        attention [gemm mul reduce_max eq select sub exp reduce_sum eq select div gemm sub abs]: q k v all.20.3 -> error.2 (2621440 B in, 1048576 B out)
        row [reduce_max]: error.2 -> error.4 (1048576 B in, 2048 B out)
        row [reduce_max]: error.4 -> error (2048 B in, 4 B out)
    "#]].assert_eq(&table(&running("sparse_attention.ron", "compare", &Options::default()).0));
}

/// The lists of blocks are read by the kernel, and no kernel stores a number for each pair of a query and a key.
#[test]
fn attention_to_retrieved_blocks_is_one_kernel() {
    let (compiled, _) = running("sparse_attention.ron", "sweep", &Options::default());
    let kernels: Vec<_> = compiled.plan.launches.iter().map(|l| &compiled.plan.kernels[l.kernel]).collect();
    let reads = |kernel: &&&Kernel, name: &str| {
        kernel
            .operands
            .iter()
            .any(|operand| operand.usage == Use::Read && &**compiled.name(operand.value) == name)
    };
    let attending: Vec<&str> = kernels
        .iter()
        .filter(|kernel| kernel.kind() == "attention" && reads(kernel, "blocks"))
        .map(|kernel| &*kernel.name)
        .collect();
    assert_eq!(attending.len(), 1, "{attending:?}");
    // Heads, levels of thresholds, queries, keys.
    let n_pairs = 8 * 6 * 16 * 512;
    let written =
        kernels.iter().flat_map(|kernel| &kernel.operands).filter(|operand| operand.usage == Use::Write);
    let largest = written.map(|operand| compiled.simplified.ty(operand.value).numel()).max().unwrap();
    assert!(largest < n_pairs, "{largest} numbers for {n_pairs} pairs");
}

/// Both products of a step take in all that follows them.
#[test]
fn a_step_of_the_ensemble_is_two_kernels() {
    for steps in [10, 50] {
        let text =
            include_str!("../graphs/rssm_rollout.ron").replace("\"T\": 10", &format!("\"T\": {steps}"));
        let (pipeline, registry) = parse("rssm_rollout.ron", text);
        let run = pipeline.stages.iter().find(|stage| &*stage.name == "predict").unwrap();
        let graph = stage::running(&pipeline, run.get::<RunStage>().unwrap(), &registry).unwrap();
        let compiled = compile(&graph, &registry, &Options::default());
        let kernels = compiled.plan.launches.iter().map(|launch| &compiled.plan.kernels[launch.kernel]);
        let is_of_step = |kernel: &&Kernel| kernel.name.starts_with("states.4.") && kernel.kind() != "map";
        assert_eq!(kernels.clone().filter(is_of_step).count(), 2 * steps);
        // The states of all steps are put side by side, 16 at a time.
        let maps = kernels.filter(|kernel| kernel.name.starts_with("states.4.") && kernel.kind() == "map");
        assert_eq!(maps.count(), if steps > 16 { steps.div_ceil(16) } else { 0 });
    }
}

/// The gradients of the sum of squares of a node of the attention graph.
fn attention_gradient(node: &str, options: &Options) -> (Compiled, Pipeline) {
    let (pipeline, registry) = load("sparse_attention.ron");
    let forward = stage::inference(&pipeline, &[("y".into(), node.into())], &[], Mode::Eval).unwrap();
    let mut b = engine::core::ir::Builder::new(forward.clone(), &registry);
    let y = forward.outputs[0].1;
    let axes: Vec<usize> = (0..b.ty(y).rank()).collect();
    let square = b.mul(y, y);
    let loss = b.sum(square, &axes);
    let wrt: Vec<_> = ["q", "k", "v"].iter().map(|name| forward.find(name).unwrap()).collect();
    let done = engine::core::grad::differentiate(&b.graph, &registry, loss, &wrt).unwrap();
    let mut graph = done.graph;
    graph.outputs = ["dq", "dk", "dv"].map(Into::into).into_iter().zip(done.grads).collect();
    (compile(&graph.pruned(), &registry, options), pipeline)
}

/// An output of so many `f32`.
fn f32s(executable: &dyn Executable, name: &str, n: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * n];
    executable.read_output(name, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

#[test]
fn the_gradient_of_attention_to_selected_keys_is_the_same_unfused() {
    let device = CpuDevice::new(Some(2)).unwrap();
    let gradients = |options: &Options| {
        let (compiled, pipeline) = attention_gradient("sparse", options);
        let mut executable = prepare(&compiled, &pipeline, &device);
        executable.run(0, 1).unwrap();
        let read = |name: &str| {
            let (_, value) =
                compiled.simplified.outputs.iter().find(|(output, _)| &**output == name).unwrap();
            f32s(&*executable, name, compiled.simplified.ty(*value).numel())
        };
        ["dq", "dk", "dv"].map(read)
    };
    let fused = gradients(&Options::default());
    let unfused = gradients(&Options { fuse: false, ..Options::default() });
    for (fused, unfused) in fused.iter().zip(&unfused) {
        let size = unfused.iter().fold(0f32, |most, x| most.max(x.abs()));
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * size;
        assert!(size > 0.0 && fused.iter().zip(unfused).all(is_near));
    }
}

#[test]
fn attention_and_its_gradient() {
    let count = |node: &str| table(&attention_gradient(node, &Options::default()).0);
    expect![[r#"
        attention [gemm mul reduce_max eq select sub exp reduce_sum log add eq select div gemm eq select]: q k v -> d.dense.9 dense.16 (1572864 B in, 1064960 B out)
        row [add mul reduce_sum]: dense.16 -> d.t.1.3 d.dense.14 (1048576 B in, 1064960 B out)
        attention gradient [gemm mul sub exp gemm sub mul gemm mul gemm gemm copy copy copy]: q k d.t.1.3 v d.dense.9 d.dense.14 -> d.dense.23 d.dense.21 d.dense.22 (2654208 B in, 1572864 B out)
    "#]].assert_eq(&count("dense"));
    expect![[r#"
        map [gather]: k -> sparse.7 (262144 B in, 67108864 B out)
        attention [gemm mul select reduce_max eq select sub exp reduce_sum log add eq select div gemm eq select]: q k v -> d.sparse.15 sparse.22.3 (1572864 B in, 1064960 B out)
        matmul [gemm mul select sub exp]: q sparse.7 d.sparse.15 -> d.sparse.17 (68173824 B in, 1048576 B out)
        map [gather]: v -> sparse.8 (262144 B in, 67108864 B out)
        row [add mul reduce_sum]: sparse.22.3 -> d.t.1.3 d.sparse.20 (1048576 B in, 1064960 B out)
        matmul [gemm sub mul mul]: d.t.1.3 sparse.8 d.sparse.17 d.sparse.20 -> d.sparse.23 (69222400 B in, 1048576 B out)
        matmul [gemm copy]: d.sparse.23 sparse.7 -> d.sparse.35 (68157440 B in, 1048576 B out)
        scatter [mul scatter]: d.sparse.23 q -> d.sparse.29 (2097152 B in, 262144 B out)
        scatter [mul scatter]: d.sparse.17 sparse.22.3 -> d.sparse.34 (2097152 B in, 262144 B out)
        segmented map [copy]: d.sparse.29 d.sparse.34 -> d.sparse.36 d.sparse.37 (524288 B in, 524288 B out)
    "#]].assert_eq(&count("sparse"));
}

#[test]
fn all_keys_selected_is_dense_attention() {
    let (compiled, pipeline) = running("sparse_attention.ron", "compare", &Options::default());
    let mut executable = prepare(&compiled, &pipeline, &CpuDevice::new(Some(2)).unwrap());
    executable.run(0, 1).unwrap();
    let mut error = [0; 4];
    executable.read_output("error", &mut error).unwrap();
    let error = f32::from_le_bytes(error);
    assert!(error < 2e-6, "{error}");
}

#[test]
fn kernels_of_the_step_print_as_cuda_text() {
    let (compiled, _) = training("mnist.ron", &Options::default());
    let text = |name: &str| {
        let kernel = compiled.plan.kernels.iter().find(|kernel| kernel.name == name);
        let kernel = kernel.unwrap_or_else(|| panic!("no kernel {name} in\n{}", compiled.plan));
        cuda_sources(kernel).unwrap().remove(0).text
    };
    expect_file!["golden/mnist_x.cu"].assert_eq(&text("x"));
    expect_file!["golden/mnist_loss.cu"].assert_eq(&text("loss"));
}

// ---- Running.

/// Images and labels of deterministic noise.
fn noise(n: usize, most: u32) -> Vec<u8> {
    let mut state = 0x2545_F491u32;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            ((state >> 8) % most) as u8
        })
        .collect()
}

fn prepare(compiled: &Compiled, pipeline: &Pipeline, device: &CpuDevice) -> Box<dyn Executable> {
    let upload = |bytes: &[u8]| {
        let buffer = device.allocate(bytes.len()).unwrap();
        device.write(&buffer, 0, bytes).unwrap();
        buffer
    };
    let order: Vec<u8> = (0..ROWS as i32).flat_map(|i| ((i * 7919) % ROWS as i32).to_le_bytes()).collect();
    let data: HashMap<&str, Vec<u8>> = HashMap::from([
        ("digits.images", noise(ROWS * 784, 256)),
        ("digits.labels", noise(ROWS, 10)),
        ("order", order),
    ]);
    let mut executable = device.prepare(Arc::new(compiled.plan.clone()), pipeline.seed).unwrap();
    for buffer in &compiled.plan.buffers {
        let name = &*buffer.name;
        let bytes = match (buffer.place.clone(), data.get(name)) {
            (Place::Arena(_) | Place::Input(InputKind::Step), _) => continue,
            (_, Some(bytes)) => bytes.clone(),
            _ => match pipeline.params.iter().find(|param| param.name == buffer.name) {
                Some(param) => initial_values(param, pipeline.seed).unwrap().bytes().to_vec(),
                None => vec![0; buffer.ty.bytes()],
            },
        };
        executable.bind(name, &upload(&bytes)).unwrap();
    }
    executable
}

fn losses(file: &str, options: &Options, n_threads: usize, n_steps: u32) -> Vec<f32> {
    let (compiled, pipeline) = training(file, options);
    let device = CpuDevice::new(Some(n_threads)).unwrap();
    let mut executable = prepare(&compiled, &pipeline, &device);
    assert_eq!(executable.arena_bytes(), compiled.plan.arena_bytes);
    let step = |step: u32| {
        executable.run(step, 1).unwrap();
        let mut loss = [0; 4];
        executable.read_output("loss", &mut loss).unwrap();
        f32::from_le_bytes(loss)
    };
    (0..n_steps).map(step).collect()
}

fn assert_close(a: &[f32], b: &[f32], tolerance: f32) {
    for (step, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance * x.abs(), "step {step}: {x} and {y}");
    }
}

#[test]
fn the_step_spelled_out_has_the_same_losses_for_a_hundred_steps() {
    let options = Options::default();
    let (short, long) =
        (losses("mnist.ron", &options, 2, 100), losses("mnist_decomposed.ron", &options, 2, 100));
    assert!(short[99] < short[0]);
    assert_close(&short, &long, 1e-5);
}

#[test]
fn fused_and_unfused_steps_agree() {
    let unfused = Options { fuse: false, ..Options::default() };
    for file in ["mnist.ron", "embedding.ron"] {
        let fused = losses(file, &Options::default(), 2, 20);
        assert_close(&fused, &losses(file, &unfused, 2, 20), 1e-5);
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let options = Options::default();
    for file in ["mnist.ron", "embedding.ron"] {
        assert_eq!(losses(file, &options, 1, 10), losses(file, &options, 3, 10));
    }
}
