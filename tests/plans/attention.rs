//! Attention of many queries: the memory that its plans have, and causal attention in parts.

use super::*;
use engine::core::device_model::{DeviceModel, KernelLimits};
use engine::core::pipeline::GenerateStage;

/// Heads and queries, as many keys, and the columns of each.
const HEADS: usize = 16;
const QUERIES: usize = 1024;
const COLUMNS: usize = 8;
/// Bytes of the scores, which are `f32`.
const SCORES: usize = 4 * HEADS * QUERIES * QUERIES;

/// Causal attention with a mask that hides one key of the first head, and its gradients.
fn compiled(stage: &str, options: &Options) -> (Compiled, Pipeline) {
    let text = format!(
        r#"(
            seed: 4,
            dims: {{"H": {HEADS}, "T": {QUERIES}, "D": {COLUMNS}}},
            params: {{
                "q": (type: "f32[H, T, D]", init: Normal(0, 1)), "k": (type: "f32[H, T, D]", init: Normal(0, 1)),
                "v": (type: "f32[H, T, D]", init: Normal(0, 1)),
            }},
            nodes: {{
                "seen": "arange(stop=T) != 3",
                "y": "attention(q, k, v, seen, causal=true)",
                "lse": "y.lse",
                "loss": "sum(y * y)",
            }},
            stages: {{
                "forward": Run(outputs: ["y", "lse"]),
                "gradient": Run(outputs: ["d.q", "d.k", "d.v"], loss: "loss"),
            }},
        )"#
    );
    let (pipeline, registry) = parse("causal.ron", text);
    let found = pipeline.stages.iter().find(|found| &*found.name == stage).unwrap();
    let graph = stage::running(&pipeline, found.get::<RunStage>().unwrap(), &registry).unwrap();
    (compile(&graph, &registry, options), pipeline)
}

/// A device that stores the scores of many queries.
fn storing() -> Options {
    let kernels = KernelLimits { most_queries: 8, attention_gradients: false, ..KernelLimits::CPU };
    Options { device: DeviceModel { kernels, ..DeviceModel::CPU }, ..Options::default() }
}

#[test]
fn no_memory_holds_the_scores_of_attention() {
    for stage in ["forward", "gradient"] {
        let (compiled, pipeline) = compiled(stage, &Options::default());
        let executable = prepare(&compiled, &pipeline, &CpuDevice::new(Some(2)).unwrap());
        let bytes = executable.arena_bytes() + executable.scratch_bytes();
        assert!(bytes < SCORES / 8, "{stage}: {bytes} bytes, {SCORES} of the scores");
    }
}

/// Where scores are stored, queries come in two parts. The first one has no scores of the second half of the keys.
#[test]
fn causal_attention_in_parts_stores_fewer_scores() {
    let device = CpuDevice::new(Some(2)).unwrap();
    let run = |options: &Options| {
        let (compiled, pipeline) = compiled("forward", options);
        let mut executable = prepare(&compiled, &pipeline, &device);
        executable.run(0, 1).unwrap();
        let read = |name: &str, n: usize| f32s(&*executable, name, n);
        (read("y", HEADS * QUERIES * COLUMNS), read("lse", HEADS * QUERIES), compiled)
    };
    let ((y, lse, _), (y_of_parts, lse_of_parts, parts)) = (run(&Options::default()), run(&storing()));
    let is_near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(is_near(&y_of_parts, &y) && is_near(&lse_of_parts, &lse));
    let stored = parts.plan.launches.iter().flat_map(|launch| parts.plan.written(launch));
    let largest = stored.map(|id| parts.plan.buffers[id].ty.bytes()).max();
    assert_eq!(largest, Some(SCORES / 2), "{}", table(&parts));
}

/// A step reads the keys and values of all tokens and stores no scores, on any device. The kernels of a long context
/// are those of a short one.
#[test]
fn a_step_of_a_long_context_has_the_kernels_of_a_short_one() {
    let kinds = |tokens: usize, texts: usize, device: DeviceModel| {
        let text = format!(
            r#"(
              dims: {{"T": {tokens}}},
              inputs: {{"token": (type: "i32[B, T]")}},
              layers: {{"table": "Embedding(rows=50, width=64)", "head": "Linear(width=50)"}},
              nodes: {{"logits": "reshape(head(LlamaBlock(table(token), heads=8, kv_heads=4, width=128)), shape=[B * T, 50])"}},
              stages: {{"write": Generate(tokens: "token", logits: "logits", prompt: "x", length: 9)}},
            )"#
        );
        let (pipeline, registry) = parse("context.ron", text);
        let stage: &GenerateStage = pipeline.stages[0].get().unwrap();
        let step = stage::decoding(&pipeline, stage, &[("B".into(), texts)], 1, &registry).unwrap();
        let compiled = compile(&step, &registry, &Options { device, ..Options::default() });
        compiled.plan.kernels.iter().map(Kernel::kind).collect::<Vec<_>>()
    };
    let without_masks = |kinds: &[&'static str]| kinds.iter().filter(|kind| **kind != "map").count();
    for device in [DeviceModel::CPU, DeviceModel::H200] {
        // Beyond 7,168 keys, a block does not hold the scores of a row.
        for (tokens, texts) in [(4096, 1), (4096, 3), (16_384, 1)] {
            let [short, long] = [256, tokens].map(|tokens| kinds(tokens, texts, device));
            assert_eq!(long.iter().filter(|kind| **kind == "attention").count(), 1, "{tokens}: {long:?}");
            assert_eq!(without_masks(&long), without_masks(&short), "{tokens}: {long:?}");
        }
    }
}

/// A training step of a GPT of two blocks on halves or floats, whose blocks are called in this manner.
fn step_of_gpt(precision: &str, manner: &str, device: DeviceModel) -> Compiled {
    let text = include_str!("../../graphs/gpt.ron")
        .replace("\"T\": 64, \"L\": 4, \"H\": 4", "\"T\": 512, \"L\": 2, \"H\": 2")
        .replace("seed: 1,", &format!("seed: 1, {precision}"))
        .replace("repeat=L", &format!("repeat=L{manner}"));
    let (pipeline, registry) = parse("gpt.ron", text);
    let bytes = || Type::new(DType::U8, &[512]);
    let fields = vec![("input".into(), bytes()), ("target".into(), bytes())];
    let split = SplitShape { data: "text".into(), n_rows: 1200, n_held: 1200, fields };
    let rows = Rows::Batches { batch: 12, per_epoch: 100 };
    let step = stage::training(&pipeline, train_stage(&pipeline), &split, rows, &registry).unwrap();
    compile(&step.graph, &registry, &Options { device, ..Options::default() })
}

/// The backward pass computes the attention of each block once more, and no kernel stores scores or a mask of their size.
#[test]
fn recomputed_blocks_have_kernels_of_attention_and_of_its_gradient() {
    for (precision, device) in [("", DeviceModel::CPU), ("precision: Bf16,", DeviceModel::H200)] {
        let counts = |manner: &str| {
            let compiled = step_of_gpt(precision, manner, device);
            let kernels = compiled.plan.launches.iter().map(|launch| &compiled.plan.kernels[launch.kernel]);
            let kinds: Vec<&str> = kernels.map(Kernel::kind).collect();
            let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
            let n_scores = 12 * 2 * 512 * 512;
            let stored = compiled.plan.launches.iter().flat_map(|launch| compiled.plan.written(launch));
            let largest = stored.map(|id| compiled.plan.buffers[id].ty.numel()).max();
            assert!(largest < Some(n_scores), "{}", table(&compiled));
            (count("attention"), count("attention gradient"))
        };
        assert_eq!((counts(""), counts(", recompute=true")), ((2, 2), (4, 2)), "{precision}");
    }
}

/// Attention of a model that spells it out, in `bf16`: heads of one matmul, scores that are rounded or not, and a mask.
fn spelled_out(stage: &str, scores: &str, weights: &str) -> Vec<&'static str> {
    let text = format!(
        r#"(
            dims: {{"N": 4, "T": 256, "H": 12, "W": 64}},
            params: {{
                "x": (type: "bf16[N, T, H * W]", init: Normal(0, 1)), "w": (type: "bf16[H * W, 3 * H * W]", init: Normal(0, 1)),
                "out": (type: "bf16[H * W, H * W]", init: Normal(0, 1)),
            }},
            nodes: {{
                "z": "reshape(x @ w, shape=[N, T, 3, H, W])",
                "q": "permute(reshape(slice(z, axis=2, start=0, stop=1), shape=[N, T, H, W]), axes=[0, 2, 1, 3])",
                "k": "permute(reshape(slice(z, axis=2, start=1, stop=2), shape=[N, T, H, W]), axes=[0, 2, 1, 3])",
                "v": "permute(reshape(slice(z, axis=2, start=2, stop=3), shape=[N, T, H, W]), axes=[0, 2, 1, 3])",
                "at": "arange(stop=256)",
                "seen": "reshape(at, shape=[1, 1, 1, T]) <= reshape(at, shape=[1, 1, T, 1])",
                "s": "{scores} / 8.0",
                "p": "{weights}",
                "y": "reshape(permute(p @ v, axes=[0, 2, 1, 3]), shape=[N, T, H * W]) @ out",
                "loss": "mean(square(cast(y, dtype=f32)))",
            }},
            stages: {{
                "forward": Run(outputs: ["y"]),
                "gradient": Run(outputs: ["d.w", "d.out"], loss: "loss"),
            }},
        )"#
    );
    let (pipeline, registry) = parse("spelled.ron", text);
    let found = pipeline.stages.iter().find(|found| &*found.name == stage).unwrap();
    let graph = stage::running(&pipeline, found.get::<RunStage>().unwrap(), &registry).unwrap();
    let compiled = compile(&graph, &registry, &Options { device: DeviceModel::H200, ..Options::default() });
    compiled.plan.launches.iter().map(|launch| compiled.plan.kernels[launch.kernel].kind()).collect()
}

/// One kernel forward and one backward, which read the heads where they lie. The one map forward moves the result's heads.
#[test]
fn attention_that_is_spelled_out_in_halves_is_one_kernel() {
    let wide = "matmul(q, transpose(k), wide=true)";
    let rounded = "softmax(where(seen, s, -1e9), axis=-1)";
    for (scores, weights) in [
        ("(q @ transpose(k))", rounded),
        (wide, "cast(softmax(where(seen, s, -inf), axis=-1), dtype=bf16)"),
        ("cast(q @ transpose(k), dtype=f32)", "cast(softmax(where(seen, s, -1e9), axis=-1), dtype=bf16)"),
    ] {
        assert_eq!(spelled_out("forward", scores, weights), ["matmul", "attention", "map", "matmul"]);
        let gradient = spelled_out("gradient", scores, weights);
        let count = |kind: &str| gradient.iter().filter(|known| **known == kind).count();
        let counts = ["attention", "attention gradient", "matmul", "map"].map(count);
        assert_eq!(counts, [1, 1, 5, 2], "{gradient:?}");
    }
}
