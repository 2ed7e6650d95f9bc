//! Texts of CUDA kernels of kinds that no other golden file shows.

use super::*;
use engine::core::codegen::KernelSpec;
use engine::core::device_model::DeviceModel;
use engine::core::fusion::KernelBody;

/// Rows with random numbers, rows of halves, a scan, a matmul with an epilogue, attention, a sum by indices.
const KINDS: &str = r#"(
  params: {
    "x": (type: "f32[6, 40]", init: Normal(mean: 0.0, std: 1.0)),
    "h": (type: "f16[6, 72]", init: Normal(mean: 0.0, std: 1.0)),
    "w": (type: "f32[40, 24]", init: Normal(mean: 0.0, std: 1.0)),
    "b": (type: "f32[24]", init: Normal(mean: 0.0, std: 1.0)),
    "q": (type: "f32[2, 5, 16]", init: Normal(mean: 0.0, std: 1.0)),
    "k": (type: "f32[2, 9, 16]", init: Normal(mean: 0.0, std: 1.0)),
    "where": (type: "i32[6]", init: Constant(3), state: true),
  },
  nodes: {
    "drawn": "gumbel_softmax(x, tau=0.5)",
    "halves": "softmax(h)",
    "scanned": "cumsum(x)",
    "layer": "relu(x @ w + b)",
    "attended": "attention(q, k, k)",
    "added": "scatter_add(zeros(shape=[10, 40]), where, x)",
  },
  stages: {"go": Run(outputs: ["drawn", "halves", "scanned", "layer", "attended", "added"])},
)"#;

#[test]
fn each_kind_of_kernel_has_a_text() {
    let (pipeline, registry) = parse("kinds", KINDS.to_string());
    let outputs = ["drawn", "halves", "scanned", "layer", "attended", "added"];
    let wanted: Vec<_> = outputs.iter().map(|&name| (name.into(), name.into())).collect();
    let graph = stage::inference(&pipeline, &wanted, &[], Mode::Eval).unwrap();
    let options = Options { device: DeviceModel { n_streams: 1, ..DeviceModel::H200 }, ..Options::default() };
    let compiled = compile(&graph, &registry, &options);
    for name in outputs {
        let makes = |kernel: &&Kernel| {
            let mut written = kernel.operands.iter().filter(|operand| operand.usage == Use::Write);
            written.any(|operand| **compiled.name(operand.value) == *name)
        };
        let kernel = compiled.plan.kernels.iter().find(makes);
        let kernel = kernel.unwrap_or_else(|| panic!("no kernel makes {name} in\n{}", compiled.plan));
        let texts = match &kernel.body {
            KernelBody::Matmul(_) if name == "layer" => {
                vec![KernelSpec::own_product(kernel, DeviceModel::H200).cuda_source().unwrap()]
            }
            _ => cuda_sources(kernel).unwrap(),
        };
        let texts: Vec<String> = texts.into_iter().map(|source| source.text).collect();
        let path = format!("{}/tests/golden/kind_{name}.cu", env!("CARGO_MANIFEST_DIR"));
        expect_file![path].assert_eq(&texts.join("\n// ---- The next launch.\n\n"));
    }
}

#[test]
fn the_optimizer_s_kernel_has_a_text() {
    let (compiled, _) = training("mnist.ron", &Options::default());
    let kernel = compiled.plan.kernels.iter().find(|kernel| kernel.kind() == "segmented map").unwrap();
    expect_file!["../golden/kind_segmented.cu"].assert_eq(&cuda_sources(kernel).unwrap().remove(0).text);
}
