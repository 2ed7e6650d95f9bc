#![allow(clippy::unwrap_used)]
//! Programs of small plans: decisions, texts and the verifier.

use super::matrix_units::{BLOCKS, blocks};
use super::*;
use crate::device_model::Library;
use crate::fusion::{Kernel, MatmulBody, fuse};
use crate::ir::{Builder, DType, Graph, InputKind, StateLink, Type, Unary, Value};
use crate::op::Registry;
use crate::plan::plan;
use expect_test::{Expect, expect};
use std::collections::BTreeMap;

fn planned(n_streams: usize, build: impl FnOnce(&mut Builder) -> Vec<(&'static str, Value)>) -> Plan {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("small"), &registry);
    let outputs = build(&mut b);
    b.graph.outputs = outputs.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let graph = b.graph.pruned();
    plan(&graph, fuse(&graph, true).kernels, n_streams)
}

/// `tanh(lhs · rhs)`, or without the tanh.
fn product(dtype: DType, [m, n, k]: [usize; 3], has_tanh: bool) -> Plan {
    planned(3, |b| {
        let lhs = b.input("lhs", InputKind::Data, Type::new(dtype, &[m, k]));
        let rhs = b.input("rhs", InputKind::Data, Type::new(dtype, &[k, n]));
        let y = b.matmul(lhs, rhs);
        vec![("y", if has_tanh { b.unary(Unary::Tanh, y) } else { y })]
    })
}

fn recorded(choices: &[(String, &str)]) -> Recorded {
    Recorded(choices.iter().map(|(name, text)| (name.clone(), text.to_string())).collect::<BTreeMap<_, _>>())
}

fn text(plan: &Plan, device: &DeviceModel, tuner: &Recorded) -> String {
    plan.programs(device, tuner).unwrap().describe(plan, device)
}

fn check(plan: &Plan, device: &DeviceModel, tuner: &Recorded, expected: &Expect) {
    expected.assert_eq(&text(plan, device, tuner));
}

#[test]
fn a_library_runs_a_product_and_a_kernel_its_epilogue() {
    let plan = product(DType::F32, [256, 512, 1024], true);
    check(&plan, &DeviceModel::H200, &Recorded::default(), &expect![[r#""#]]);
}

#[test]
fn a_recorded_choice_names_its_algorithm() {
    let plan = product(DType::F32, [256, 512, 1024], false);
    let open = plan.programs(&DeviceModel::H200, &Recorded::default()).unwrap();
    let Action::Matmul(step) = &open.programs[0].steps[0].action else { unreachable!() };
    let tuner = recorded(&[(step.call.key().name(), "id 66 tile 20")]);
    let line = text(&plan, &DeviceModel::H200, &tuner);
    assert!(line.contains("algorithm: id 66 tile 20\n"), "{line}");
    // A library that has no algorithm leaves the product to a kernel.
    let tuner = recorded(&[(step.call.key().name(), NO_ALGORITHM)]);
    let line = text(&plan, &DeviceModel::H200, &tuner);
    assert!(!line.contains("matmul f32") && line.contains("kernel contract"), "{line}");
}

#[test]
fn small_products_are_kernels() {
    let plan = product(DType::F32, [8, 8, 8], true);
    check(&plan, &DeviceModel::H200, &Recorded::default(), &expect![[r#""#]]);
}

#[test]
fn without_a_library_products_are_blocked_or_on_matrix_units() {
    let plan = product(DType::F16, [256, 256, 64], true);
    let device = DeviceModel { has_matrix_units: true, ..DeviceModel::DESKTOP };
    check(&plan, &DeviceModel::DESKTOP, &Recorded::default(), &expect![[r#""#]]);
    check(&plan, &device, &Recorded::default(), &expect![[r#""#]]);
}

/// The workspaces of two streams are disjoint, and the library has one for each of its streams.
#[test]
fn streams_have_workspaces_of_their_own() {
    let plan = planned(3, |b| {
        let ty = |extents: &[usize]| Type::new(DType::F32, extents);
        let x = b.input("x", InputKind::Data, ty(&[256, 512]));
        let outputs = ["a", "b"].map(|name| {
            let w = b.input(&format!("w{name}"), InputKind::Param, ty(&[512, 256]));
            let y = b.matmul(x, w);
            let y = b.unary(Unary::Tanh, y);
            (name, b.sum(y, &[0, 1]))
        });
        outputs.to_vec()
    });
    check(&plan, &DeviceModel::H200, &Recorded::default(), &expect![[r#""#]]);
}

/// A launch that writes state after a check has its checks first, and is no library's.
#[test]
fn checks_come_before_writes() {
    let plan = planned(1, |b| {
        let table = b.input("table", InputKind::State, Type::new(DType::F32, &[100, 64]));
        let index = b.input("index", InputKind::Data, Type::new(DType::I32, &[100]));
        let index = b.check_index(index, 100);
        let rows = b.gather(table, index, 0, 0);
        let next = b.unary(Unary::Tanh, rows);
        b.graph.state = vec![StateLink { input: table.node, next }];
        vec![]
    });
    check(&plan, &DeviceModel::H200, &Recorded::default(), &expect![[r#""#]]);
}

#[test]
fn the_verifier_names_what_is_wrong() {
    let plan = product(DType::F32, [256, 512, 1024], true);
    let programs = plan.programs(&DeviceModel::H200, &Recorded::default()).unwrap();
    let broken = |change: &dyn Fn(&mut Programs)| {
        let mut programs = programs.clone();
        change(&mut programs);
        verify(&plan, &programs).join("; ")
    };
    assert_eq!(broken(&|_| ()), "");
    let problem = broken(&|programs| programs.programs[0].steps[0].waits = vec![3]);
    assert!(problem.contains("waits for step 3"), "{problem}");
    let problem = broken(&|programs| {
        let Action::Matmul(step) = &mut programs.programs[0].steps[0].action else { unreachable!() };
        step.factors[0] = Place::operand(9);
        step.result = Place::Workspace { start: 1 << 40, bytes: 1 };
    });
    assert!(problem.contains("no operand 9") && problem.contains("outside of a workspace"), "{problem}");
    let problem = broken(&|programs| drop(programs.programs.pop()));
    assert!(problem.contains("0 programs for 1 launches"), "{problem}");
}

// ---- Matrix units.

fn body(dtype: DType, shape: [usize; 3]) -> MatmulBody {
    let mut kernels = product(dtype, shape, true).kernels;
    let Kernel { body: KernelBody::Matmul(body), .. } = kernels.remove(0) else { unreachable!() };
    body
}

/// A GPU with matrix units.
const ROOMY: DeviceModel = DeviceModel {
    has_matrix_units: true,
    most_threads: 1024,
    shared_bytes: 48 << 10,
    ..DeviceModel::DESKTOP
};

/// Rests would have to be masked, and other types are not for matrix units.
#[test]
fn matrix_units_are_for_halves_in_whole_blocks() {
    let n_blocks = |dtype, shape| blocks(&body(dtype, shape), &ROOMY).len();
    assert!(n_blocks(DType::F16, [256, 256, 64]) > n_blocks(DType::F16, [64, 64, 64]));
    assert_eq!(n_blocks(DType::F16, [64, 64, 64]), 1);
    for (dtype, shape) in
        [(DType::F16, [256, 250, 64]), (DType::F16, [256, 256, 40]), (DType::F32, [256, 256, 64])]
    {
        assert_eq!(n_blocks(dtype, shape), 0, "{dtype} {shape:?}");
    }
}

#[test]
fn matrix_units_are_offered_the_blocks_that_a_gpu_has_room_for() {
    let body = body(DType::F16, [256, 256, 64]);
    let all = blocks(&body, &ROOMY);
    assert_eq!(all, BLOCKS);
    let shared = DeviceModel { shared_bytes: 16 << 10, ..ROOMY };
    let threads = DeviceModel { most_threads: 128, ..ROOMY };
    let across = DeviceModel { most_blocks: 3, ..ROOMY };
    for device in [shared, threads, across] {
        let some = blocks(&body, &device);
        assert!(!some.is_empty() && some.len() < all.len(), "{some:?} of {all:?}");
    }
    assert_eq!(blocks(&body, &DeviceModel { most_blocks: 1, ..ROOMY }), []);
}

/// The fewest operations that a library is tried on come from the device model.
#[test]
fn the_device_model_says_when_a_library_pays() {
    let plan = product(DType::F32, [8, 8, 8], false);
    let library = Library { fewest_flops: 0, ..DeviceModel::H200.library.unwrap() };
    let device = DeviceModel { library: Some(library), ..DeviceModel::H200 };
    assert!(text(&plan, &device, &Recorded::default()).contains("matmul f32 8x8 @ 8x8"));
}
