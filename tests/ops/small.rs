//! Small integers on the CPU, and in CUDA texts that run on the host.

use super::on_gpu::{Products, check};
use super::small_integers::{SMALL, graph, inputs};
use super::{compile, run};
use engine::Engine;
use engine::core::compile::Options;
use engine::core::ir::DType;
use engine::core::oracle::Oracle;
use engine::runtime::cpu::CpuDevice;

#[test]
fn small_integers_follow_the_interpreter_fused_and_unfused() {
    let registry = Engine::new().registry;
    let device = CpuDevice::new(Some(2)).unwrap();
    for dtype in SMALL {
        let graph = graph(dtype, &registry);
        let inputs = inputs(&graph);
        let expected = Oracle::rounded(&registry).run(&graph, &inputs, 0, 0).unwrap();
        for fuse in [true, false] {
            let compiled = compile(&graph, &registry, &Options { fuse, ..Options::default() });
            let found = run(&device, &compiled, &inputs).unwrap();
            for (name, expected) in &expected.outputs {
                assert_eq!(found[&**name], expected.to_f64(), "{name} of {dtype}, fuse: {fuse}");
            }
        }
    }
}

#[test]
fn small_integers_are_computed_by_cuda_texts() {
    let registry = Engine::new().registry;
    // Sorts of all types are tested by themselves.
    let names =
        ["row_sums", "column_products", "least", "running", "best", "added", "rolled", "saturated", "narrow"];
    for (dtype, products) in [(DType::I8, Products::Own), (DType::I16, Products::Poor(48))] {
        let mut graph = graph(dtype, &registry);
        graph.outputs.retain(|(name, _)| names.contains(&&**name));
        check(&graph.pruned(), &registry, &inputs(&graph), products, dtype.name());
    }
}
