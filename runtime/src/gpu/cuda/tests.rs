#![allow(clippy::unwrap_used)]
//! Tests without a GPU: NVRTC compiles the generated texts. `tests/gpu.rs` of the root package tests results on a GPU.

use super::libraries::open_beside;
use super::loops::GO_ON;
use super::nvrtc::{compile, version};
use engine_core::codegen::{KernelSpec, ResultTile};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::{Kernel, KernelBody, fuse};
use engine_core::ir::*;
use engine_core::numerics::Precision;
use engine_core::op::Registry;
use engine_core::plan::plan;

/// Maps, gathers, rows, scans, scatters, and matmuls with epilogues and side sums, of one element type.
fn kernels(dtype: DType) -> Vec<Kernel> {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("step"), &registry);
    let b = &mut builder;
    let table = b.input("table", InputKind::Param, Type::new(dtype, &[100, 64]));
    let weights = b.input("weights", InputKind::Param, Type::new(dtype, &[64, 304]));
    let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[200]));
    let idx = b.check_index(idx, 100);
    let x = b.gather(table, idx, 0, 0);
    let h = b.mm(x, weights);
    let h = b.unary(Unary::Tanh, h);
    let peak = b.reduce(Monoid::Max, h, &[1]);
    let peak = b.unreduce(peak, &[1], h);
    let y = b.sub(h, peak);
    let total = b.sum(y, &[0, 1]);
    let gradient = b.matmul(x, y, MatmulSpec::new(vec![], vec![(0, 0)]));
    let bias = b.sum(y, &[0]);
    let scanned =
        b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 1 }, vec![y], Type::new(dtype, &[200, 304]));
    let zeros = b.full(Literal::Float(0.0), Type::new(dtype, &[100, 64]));
    let added = b.scatter(zeros, idx, x, 0, 0, Combine::Add);
    let set = b.scatter(added, idx, x, 0, 0, Combine::Set);
    let next = b.sub(weights, gradient);
    b.graph.outputs = vec![
        ("total".into(), total),
        ("bias".into(), bias),
        ("scanned".into(), scanned),
        ("set".into(), set),
    ];
    b.graph.state = vec![StateLink { input: weights.node, next }];
    let graph = builder.graph.pruned();
    plan(&graph, fuse(&graph, true).kernels, 1).kernels
}

#[test]
fn the_compiler_accepts_the_generated_texts() {
    if let Err(error) = version(open_beside(|| ()).0.compiler) {
        assert!(!is_required(), "{error}");
        eprintln!("skipped 1 test: {error}");
        return;
    }
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for kernel in kernels(dtype) {
            let mut launches = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap();
            if let KernelBody::Matmul(body) = &kernel.body {
                launches.push(KernelSpec::epilogue(&kernel, body.product_type(), DeviceModel::H200));
                launches.extend(ResultTile::ALL.into_iter().filter_map(|tile| {
                    KernelSpec::on_tensor_cores(&kernel, Precision::Tf32, tile, DeviceModel::H200)
                }));
            }
            for fused in launches {
                for fused in [Some(fused.clone()), Some(fused.clone().guarded()), fused.checks_only()]
                    .into_iter()
                    .flatten()
                {
                    let source = fused.cuda_source().unwrap();
                    if let Err(error) = compile(&source.text, "sm_90a") {
                        panic!("`{}`\n{error:?}\n{}", kernel.name, source.text);
                    }
                }
            }
        }
    }
}

#[test]
fn the_compiler_accepts_the_end_of_a_loop() {
    if version(open_beside(|| ()).0.compiler).is_ok()
        && let Err(error) = compile(GO_ON, "sm_90a")
    {
        panic!("{error:?}");
    }
}

#[test]
fn a_compile_error_contains_the_log() {
    if let Err(error) = version(open_beside(|| ()).0.compiler) {
        assert!(!is_required(), "{error}");
        eprintln!("skipped 1 test: {error}");
        return;
    }
    let error = compile("extern \"C\" __global__ void broken() { int x = ; }", "sm_90a").unwrap_err();
    assert!(format!("{error:?}").contains("expected an expression"), "{error:?}");
}

/// Whether a skip counts as a failure.
fn is_required() -> bool {
    std::env::var("ENGINE_REQUIRE").is_ok_and(|devices| devices.split(',').any(|device| device == "cuda"))
}
