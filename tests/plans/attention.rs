//! Attention of many queries: the memory that its plans have, and causal attention in parts.

use super::*;
use engine::core::device_model::{DeviceModel, KernelLimits};

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
