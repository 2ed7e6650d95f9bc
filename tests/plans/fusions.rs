//! Kernels of the shipped graphs that show a fusion each. `tests/coverage.txt` names them.

use super::*;
use engine::core::device_model::DeviceModel;

/// The kernels that a plan launches, in order.
fn launched(compiled: &Compiled) -> impl Iterator<Item = &Kernel> {
    compiled.plan.launches.iter().map(|launch| &compiled.plan.kernels[launch.kernel])
}

/// Whether a kernel has these ops in this order, others between them.
fn has(kernel: &Kernel, ops: &str) -> bool {
    let mut found = kernel.ops.iter();
    ops.split(' ').all(|op| found.any(|known| known == op))
}

fn written(compiled: &Compiled, kernel: &Kernel, usage: Use) -> Vec<String> {
    let operands = kernel.operands.iter().filter(|operand| operand.usage == usage);
    operands.map(|operand| compiled.name(operand.value).to_string()).collect()
}

/// The kernels that compute a node in `Eval`.
fn computing(
    file: &str,
    node: &str,
    dims: &[(&str, usize)],
    edit: (&str, &str),
    device: DeviceModel,
) -> Compiled {
    let path = format!("{}/graphs/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap().replace(edit.0, edit.1);
    let (pipeline, registry) = parse(file, text);
    let dims: Vec<_> = dims.iter().map(|&(name, extent)| (name.into(), extent)).collect();
    let behaviour = (Mode::Eval, pipeline.precision);
    let graph = stage::inference(&pipeline, &[(node.into(), node.into())], &dims, behaviour).unwrap();
    compile(&graph, &registry, &Options { device, ..Options::default() })
}

fn on_cpu(file: &str, node: &str, batch: usize) -> Compiled {
    computing(file, node, &[("B", batch)], ("", ""), Options::default().device)
}

#[test]
fn noise_and_argmax_are_one_row_kernel() {
    let compiled = running("categorical_ebm.ron", "sample", &Options::default()).0;
    // Two blocks of each of 20 sweeps. The last one is read by a sum that takes it in.
    let draws: Vec<&Kernel> =
        launched(&compiled).filter(|kernel| has(kernel, "random log log reduce_argmax")).collect();
    assert_eq!(draws.len(), 40);
    assert!(draws.iter().all(|kernel| kernel.kind() == "row" && has(kernel, "reduce_argmax eq select")));
    let sampling = launched(&compiled).filter(|kernel| kernel.name.starts_with("x.")).map(Kernel::kind);
    assert!(
        sampling.filter(|kind| !["row", "matmul"].contains(kind)).count() <= 1,
        "the mask of a block alone"
    );
}

/// The places of pairs of categories are computed where the couplings are read, and so are those of single ones.
#[test]
fn index_arithmetic_joins_the_lookups_of_an_energy() {
    let compiled = running("categorical_ebm.ron", "sample", &Options::default()).0;
    let lookups: Vec<&Kernel> =
        launched(&compiled).filter(|kernel| has(kernel, "gather reduce_sum")).collect();
    assert_eq!(lookups.len(), 2, "{}", table(&compiled));
    assert!(has(lookups[0], "div rem add mul gather reduce_sum"), "{:?}", lookups[0].ops);
    assert!(has(lookups[1], "add gather reduce_sum"), "{:?}", lookups[1].ops);
    // Of 81 states, those of 4 variables are stored, not the 16 pairs of each.
    let operands = launched(&compiled).flat_map(|kernel| &kernel.operands);
    let stored = operands.filter(|operand| operand.usage == Use::Write);
    let types = stored.map(|operand| compiled.simplified.ty(operand.value));
    let n_numbers =
        types.filter(|ty| ty.dtype == DType::I32 && ty.extents().first() == Some(&81)).map(Type::numel).max();
    assert_eq!(n_numbers, Some(81 * 4), "{}", table(&compiled));
}

/// Noise, a temperature that falls with the steps, softmax, argmax and choice. The gradient takes the softmax.
#[test]
fn noise_temperature_softmax_and_the_hard_choice_are_one_row_kernel() {
    let (compiled, _) = training_of_numbers_by("navigator.ron", ["queries", "train"], 128);
    let noisy: Vec<&Kernel> =
        launched(&compiled).filter(|kernel| has(kernel, "random log neg log")).collect();
    assert_eq!(noisy.len(), 1, "{}", table(&compiled));
    assert_eq!(noisy[0].kind(), "row");
    let ops =
        "random shr cast add mul log neg log sub div reduce_max sub exp reduce_sum div reduce_argmax eq cast";
    assert!(noisy[0].ops.join(" ").contains(ops), "{:?}", noisy[0].ops);
}

#[test]
fn scale_and_sigmoid_join_the_field_and_comparison_and_choice_the_draw() {
    let (pipeline, registry) = load("ising.ron");
    let graph = stage::inference(&pipeline, &[("drawn".into(), "drawn".into())], &[], Mode::Eval).unwrap();
    let compiled = compile(&graph, &registry, &Options::default());
    let of_kind = |kind: &str, ops: &str| {
        launched(&compiled).filter(|kernel| kernel.kind() == kind && has(kernel, ops)).count()
    };
    // Two sweeps of two blocks each.
    assert_eq!(of_kind("matmul", "gemm add mul exp add recip"), 4);
    assert_eq!(of_kind("map", "random lt select select"), 4);
    assert_eq!(launched(&compiled).count(), 9, "{}", table(&compiled));
}

#[test]
fn a_lookup_its_cosine_and_the_energy_are_one_row_kernel() {
    let compiled = on_cpu("navigator.ron", "logits", 256);
    let energy = launched(&compiled).last().unwrap();
    assert_eq!((energy.kind(), &*energy.name), ("row", "logits"));
    assert!(
        has(energy, "gather mul reduce_sum sqrt mul reduce_sum div gather sub log neg mul add select"),
        "{:?}",
        energy.ops
    );
}

#[test]
fn lookups_and_residuals_join_the_norms_of_a_transformer() {
    let compiled = on_cpu("tiny_gpt.ron", "loss", 4);
    let norms: Vec<&Kernel> =
        launched(&compiled).filter(|kernel| has(kernel, "mul reduce_sum div add rsqrt mul mul")).collect();
    assert_eq!(norms.len(), 5, "{}", table(&compiled));
    assert!(has(norms[0], "gather mul reduce_sum"));
    assert!(norms[1..].iter().all(|kernel| has(kernel, "add mul reduce_sum")));
}

/// The kernels of the first block's attention, from the projection to the result.
fn attention(compiled: &Compiled) -> Vec<&Kernel> {
    launched(compiled).filter(|kernel| kernel.name.starts_with("logits.blocks.0.attention.y.")).collect()
}

/// Tables of cosines and sines are all that is stored beside the projection.
fn check_attention(compiled: &Compiled) {
    let kernels = attention(compiled);
    let (last, tables) = kernels.split_last().unwrap();
    assert_eq!(last.kind(), "attention", "{}", table(compiled));
    assert!(
        has(last, "mul mul add mul mul add gemm mul select reduce_max sub exp reduce_sum div gemm"),
        "{:?}",
        last.ops
    );
    assert!(tables.iter().all(|kernel| kernel.kind() == "map"), "{}", table(compiled));
    // 32 positions of 16 angles: a cosine, a sine, and the sine of either sign.
    let n_bytes: u64 = tables.iter().map(|kernel| kernel.bytes_written).sum();
    assert!(n_bytes <= 4 * 32 * 16 * 4, "{n_bytes} bytes");
}

/// On a GPU, attention is one kernel for few queries.
#[test]
fn rotary_positions_are_applied_in_the_loads_of_attention() {
    check_attention(&on_cpu("tiny_gpt.ron", "loss", 4));
    let few = ("\"T\": 32", "\"T\": 4");
    check_attention(&computing("tiny_gpt.ron", "loss", &[("B", 4)], few, DeviceModel::H200));
}

/// Halves are widened, turned and rounded in the loads. No copy of queries or keys is stored, wide or narrow.
#[test]
fn rotary_positions_of_halves_are_applied_in_the_loads_of_attention() {
    let halves = ("name: \"tiny_gpt\",", "name: \"tiny_gpt\", precision: Bf16,");
    let compiled = computing("tiny_gpt.ron", "loss", &[("B", 4)], halves, Options::default().device);
    check_attention(&compiled);
    let last = *attention(&compiled).last().unwrap();
    let read = last.operands.iter().filter(|operand| operand.usage == Use::Read);
    let wide = read.filter(|operand| {
        let ty = compiled.simplified.ty(operand.value);
        ty.dtype == DType::F32 && ty.numel() > 32 * 2 * 16
    });
    assert_eq!(wide.count(), 0, "{}", table(&compiled));
}

/// The selection, the softmax, the cuts, the running sum and the choice. Random numbers are a kernel of their own.
#[test]
fn a_draw_from_the_first_tokens_is_one_kernel() {
    for device in [Options::default().device, DeviceModel::H200, DeviceModel::WEBGPU] {
        let compiled = running("gpt_sample.ron", "write", &Options { device, ..Options::default() }).0;
        let draw = launched(&compiled).filter(|kernel| kernel.name.starts_with("drawn"));
        let kernels: Vec<String> =
            draw.map(|kernel| format!("{} [{}]\n", kernel.kind(), kernel.ops.join(" "))).collect();
        assert_eq!(kernels.concat(), "map [random shr cast add mul]\nkernel [draw_rows]\n");
    }
}

/// Attention spelled out, with a causal mask.
const SPELLED_OUT: &str = r#"(
  inputs: {"q": "f32[2, 64, 32]", "k": "f32[2, 64, 32]", "v": "f32[2, 64, 32]"},
  nodes: {
    "scores": "q @ transpose(k) * 0.25",
    "is_seen": "arange(stop=64) <= reshape(arange(stop=64), shape=[64, 1])",
    "y": "softmax(where(is_seen, scores, -inf)) @ v",
  },
  stages: {"go": Run(outputs: ["y"])},
)"#;

#[test]
fn attention_spelled_out_is_one_kernel() {
    let (pipeline, registry) = parse("spelled_out.ron", SPELLED_OUT.to_owned());
    let graph = stage::inference(&pipeline, &[("y".into(), "y".into())], &[], Mode::Eval).unwrap();
    let compiled = compile(&graph, &registry, &Options::default());
    let kinds: Vec<&str> = launched(&compiled).map(Kernel::kind).collect();
    assert_eq!(kinds, ["attention"], "{}", table(&compiled));
}

/// The features of a training are kernels of their own.
#[test]
fn the_encoder_and_the_heads_of_the_ensemble_take_in_their_activations() {
    let compiled = running("rssm_rollout.ron", "predict", &Options::default()).0;
    let ops = |name: &str| {
        let kernel = launched(&compiled).find(|kernel| *kernel.name == *name);
        kernel.unwrap_or_else(|| panic!("no kernel {name} in\n{}", table(&compiled))).ops.join(" ")
    };
    assert_eq!(ops("x"), "gemm add max");
    assert_eq!(ops("predicted"), "gemm exp max copy");
    assert_eq!(ops("deltas"), "gemm copy");
}

/// A step of an iteration is three matmuls: X·Xᵀ, then the polynomial of it, then the product with X, added to X. The last
/// product is added where the parameter is updated.
#[test]
fn combinations_of_newton_schulz_are_epilogues() {
    let (compiled, _) = training_of_numbers("tiny_gpt.ron");
    let of_weight =
        launched(&compiled).filter(|kernel| kernel.name.contains("blocks.0.attention.out.w.next."));
    let matmuls: Vec<&Kernel> = of_weight.filter(|kernel| kernel.kind() == "matmul").collect();
    assert_eq!(matmuls.len(), 15, "{}", table(&compiled));
    for (place, kernel) in matmuls.iter().enumerate() {
        let is_combined = has(kernel, "gemm add");
        assert_eq!(is_combined, place % 3 != 0 && place < 14, "{place}: {:?}", kernel.ops);
    }
}

/// Gradients are scaled where the optimizer reads them.
#[test]
fn clipping_joins_the_step_of_the_optimizer() {
    let (compiled, _) = training_of_numbers("tiny_gpt.ron");
    let steps: Vec<&Kernel> =
        launched(&compiled).filter(|kernel| has(kernel, "mul add mul mul add sqrt add div sub")).collect();
    assert!(!steps.is_empty(), "{}", table(&compiled));
    for kernel in steps {
        let read = written(&compiled, kernel, Use::Read);
        assert!(read.iter().any(|name| name.starts_with("grad_norm")), "{read:?}");
        assert!(read.iter().any(|name| name.starts_with("d.")), "{read:?}");
    }
    let stored = launched(&compiled).flat_map(|kernel| written(&compiled, kernel, Use::Write));
    let clipped: Vec<String> = stored.filter(|name| name.starts_with("grad_norm")).collect();
    assert!(clipped.iter().all(|name| !name.contains(".w")), "{clipped:?}");
}

/// A training step of the stage `train` on batches of 4 numbers.
fn training_of_numbers(file: &str) -> (Compiled, Pipeline) {
    training_of_numbers_by(file, ["rows", "train"], 4)
}

fn training_of_numbers_by(file: &str, [data, stage]: [&str; 2], batch: usize) -> (Compiled, Pipeline) {
    let (pipeline, registry) = load(file);
    let fields = vec![("number".into(), Type::scalar(DType::I32))];
    let split = SplitShape { data: data.into(), n_rows: 65_536, n_held: 65_536, fields };
    let rows = Rows::Batches { batch, per_epoch: 65_536 / batch };
    let stage: &TrainStage =
        pipeline.stages.iter().find(|found| &*found.name == stage).unwrap().get().unwrap();
    let step = stage::training(&pipeline, stage, &split, rows, &registry).unwrap();
    (compile(&step.graph, &registry, &Options::default()), pipeline)
}

/// Elementwise ops of one matrix share kernels, and reductions take in what they read.
#[test]
fn chains_of_elementwise_ops_and_reductions_share_kernels() {
    let compiled = running("ops_sweep.ron", "sweep", &Options::default()).0;
    let kernels: Vec<&Kernel> = launched(&compiled).collect();
    let n_ops: usize = kernels.iter().map(|kernel| kernel.ops.len()).sum();
    assert!(
        kernels.len() <= 26 && n_ops >= 190,
        "{} kernels of {n_ops} ops\n{}",
        kernels.len(),
        table(&compiled)
    );
    let wide = kernels.iter().filter(|kernel| kernel.kind() == "row" && kernel.ops.len() > 40);
    assert!(wide.count() >= 1, "{}", table(&compiled));
}
