#![allow(clippy::unwrap_used)]
//! Programs of small plans: decisions, texts and the verifier.

use super::matrix_units::{BLOCKS, blocks};
use super::*;
use crate::device_model::Library;
use crate::fusion::{Kernel, MatmulBody, Settings, fuse, fuse_with};
use crate::ir::{Builder, DType, Graph, InputKind, MatmulSpec, Monoid, StateLink, Type, Unary, Value};
use crate::numerics::Precision;
use crate::op::Registry;
use crate::plan::plan;
use expect_test::{Expect, expect};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

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
        let y = b.mm(lhs, rhs);
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
    check(
        &plan,
        &DeviceModel::H200,
        &Recorded::default(),
        &expect![[r#"
            programs small: 1 launches, 2 steps, workspaces 33554432 B
               0 matmul t.2  # stream 0, variant: tuned on device (library | library in parts: 4 | sliced)
                   matmul f32 256x1024 @ 1024x512 (@0, @1) -> f32 @2, algorithm: tuned on device, workspace at most 33554432 B
                   kernel map <128 x 256> (@2, @2) [131072]
                 library workspace of stream 0: 33554432 B at 0
        "#]],
    );
}

#[test]
fn a_library_rounds_a_product_as_its_epilogue_does() {
    // The product of halves is rounded before the tanh, so it lies where the result goes.
    check(
        &product(DType::BF16, [256, 512, 1024], true),
        &DeviceModel::H200,
        &Recorded::default(),
        &expect![[r#"
            programs small: 1 launches, 2 steps, workspaces 33554432 B
               0 matmul t.2  # stream 0, variant: tuned on device (library | library in parts: 4 | tensor cores 128x256 | tensor cores 256x128 | tensor cores 128x128 | sliced)
                   matmul bf16 256x1024 @ 1024x512 (@0, @1) -> bf16 @2, algorithm: tuned on device, workspace at most 33554432 B
                   kernel map <128 x 256> (@2, @2) [131072]
                 library workspace of stream 0: 33554432 B at 0
        "#]],
    );
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
    assert!(!line.contains("matmul f32") && line.contains("kernel matmul"), "{line}");
}

#[test]
fn small_products_are_kernels() {
    let plan = product(DType::F32, [8, 8, 8], true);
    check(
        &plan,
        &DeviceModel::H200,
        &Recorded::default(),
        &expect![[r#"
            programs small: 1 launches, 1 steps, workspaces 0 B
               0 matmul t.2  # stream 0
                   kernel matmul <1 x 256> (@0, @1, @2) [64]
        "#]],
    );
}

#[test]
fn without_a_library_products_are_blocked_or_on_matrix_units() {
    let plan = product(DType::F16, [256, 256, 64], true);
    let device = DeviceModel { has_matrix_units: true, ..DeviceModel::DESKTOP };
    check(
        &plan,
        &DeviceModel::DESKTOP,
        &Recorded::default(),
        &expect![[r#"
            programs small: 1 launches, 1 steps, workspaces 0 B
               0 matmul t.2  # stream 0, variant: tuned on device (blocked 1x1, split 1 | blocked 2x2, split 1 | blocked 4x4, split 1 | blocked 8x8, split 1)
                   kernel matmul <256 x 256> (@0, @1, @2) [65536]
        "#]],
    );
    check(
        &plan,
        &device,
        &Recorded::default(),
        &expect![[r#"
            programs small: 1 launches, 2 steps, workspaces 262144 B
               0 matmul t.2  # stream 0, workspace 262144 B at 0, variant: tuned on device (matrix units 128x128x32 by 64x64 | matrix units 128x128x32 by 64x32 | matrix units 64x128x32 by 32x64 | matrix units 64x64x32 by 32x32 | blocked 1x1, split 1 | blocked 2x2, split 1 | blocked 4x4, split 1 | blocked 8x8, split 1)
                   matmul f16 256x64 @ 64x256 (@0, @1) -> f32 workspace 0..262144, matrix units 128x128x32 by 64x64
                   kernel map <128 x 256> (@2, workspace 0..262144) [65536]
        "#]],
    );
}

/// The rows of a product in bf16, reduced whole or by blocks of 64 columns.
fn folded(is_whole: bool) -> Plan {
    folded_in(DType::BF16, None, is_whole)
}

/// The same of a product of another type, which may ask for a precision.
fn folded_in(dtype: DType, precision: Option<Precision>, is_whole: bool) -> Plan {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("small"), &registry);
    let [q, x] = [("q", 8192), ("x", 4096)]
        .map(|(name, n)| b.input(name, InputKind::Data, Type::new(dtype, &[n, 128])));
    let product = b.matmul(q, x, MatmulSpec::new(vec![], vec![(1, 1)]).with_precision(precision));
    let scores = b.cast(product, DType::F32);
    let best = match is_whole {
        true => b.reduce(Monoid::ArgMax, scores, &[1]),
        false => {
            let blocks = b.reshape(scores, &[8192, 64, 64]);
            b.reduce(Monoid::Max, blocks, &[2])
        }
    };
    b.graph.outputs = vec![("best".into(), best)];
    let graph = b.graph.pruned();
    let settings = Settings { device: DeviceModel::H200, ..Settings::default() };
    plan(&graph, fuse_with(&graph, &settings).kernels, 3)
}

/// Panels of the product, or a kernel that holds its scores in registers.
#[test]
fn rows_are_folded_by_panels_or_on_tensor_cores() {
    let plan = folded(true);
    let open = text(&plan, &DeviceModel::H200, &Recorded::default());
    let variants = "variant: tuned on device (in turn | tensor cores 128x256 | tensor cores 256x128 | \
                    tensor cores 128x128)";
    assert!(open.contains(variants), "{open}");
    let programs = plan.programs(&DeviceModel::H200, &Recorded::default()).unwrap();
    assert!(programs.programs[0].library_bytes(DeviceModel::H200.library.unwrap()).is_some());
    check(
        &plan,
        &DeviceModel::H200,
        &adopted(&plan, "tensor cores 128x256"),
        &expect![[r#"
        programs small: 1 launches, 2 steps, workspaces 131072 B
           0 matmul t.3  # stream 0, workspace 131072 B at 0, variant tensor cores 128x256 (of in turn | tensor cores 128x256 | tensor cores 256x128 | tensor cores 128x128)
               kernel fold <128 x 384> (@0, @1, @2, workspace 0..131072) [16384]
               kernel fold <8192 x 32> (@0, @1, @2, workspace 0..131072) [2]
    "#]],
    );
}

/// Without a library, a kernel of tiles multiplies each panel. Few rows are multiplied and folded by one kernel.
#[test]
fn panels_need_no_library() {
    let device = DeviceModel::DESKTOP;
    check(
        &folded(true),
        &device,
        &Recorded::default(),
        &expect![[r#"
        programs small: 1 launches, 17 steps, workspaces 16842752 B
           0 matmul t.3  # stream 0, workspace 16842752 B at 0
               kernel matmul <256 x 256> (@0, @1, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [0, 0, 2048, 2048, 1, 1]
               kernel matmul <256 x 256> (@0, @1 + 524288, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [0, 2048, 2048, 2048, 1, 0]
               kernel matmul <256 x 256> (@0 + 524288, @1, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [2048, 0, 2048, 2048, 1, 1]
               kernel matmul <256 x 256> (@0 + 524288, @1 + 524288, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [2048, 2048, 2048, 2048, 1, 0]
               kernel matmul <256 x 256> (@0 + 1048576, @1, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [4096, 0, 2048, 2048, 1, 1]
               kernel matmul <256 x 256> (@0 + 1048576, @1 + 524288, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [4096, 2048, 2048, 2048, 1, 0]
               kernel matmul <256 x 256> (@0 + 1572864, @1, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [6144, 0, 2048, 2048, 1, 1]
               kernel matmul <256 x 256> (@0 + 1572864, @1 + 524288, workspace 65536..16842752) [4194304]
               kernel fold <2048 x 256> (@0, @1, @2, workspace 65536..16842752, workspace 0..65536) [6144, 2048, 2048, 2048, 1, 0]
               kernel fold <8192 x 32> (@0, @1, @2, workspace 0..65536) [1]
    "#]],
    );
}

/// The library's product and a reduction, or a kernel that holds its scores in registers.
#[test]
fn blocks_of_columns_are_reduced_in_memory_or_on_tensor_cores() {
    let plan = folded(false);
    check(
        &plan,
        &DeviceModel::H200,
        &Recorded::default(),
        &expect![[r#"
        programs small: 1 launches, 3 steps, workspaces 167772160 B
           0 matmul t.4  # stream 0, workspace 134217728 B at 0, variant: tuned on device (library | tensor cores 128x256 | tensor cores 256x128 | tensor cores 128x128)
               matmul bf16 8192x128 @ 128x4096 (@0, @1) -> f32 workspace 0..134217728, algorithm: tuned on device, workspace at most 33554432 B
               kernel map <32768 x 256> (workspace 0..134217728) [33554432]
               kernel row <8192 x 256> (@2, workspace 0..134217728) [524288]
             library workspace of stream 0: 33554432 B at 134217728
    "#]],
    );
    check(
        &plan,
        &DeviceModel::H200,
        &adopted(&plan, "tensor cores 256x128"),
        &expect![[r#"
        programs small: 1 launches, 1 steps, workspaces 0 B
           0 matmul t.4  # stream 0, variant tensor cores 256x128 (of library | tensor cores 128x256 | tensor cores 256x128 | tensor cores 128x128)
               kernel fold <128 x 384> (@0, @1, @2) [32768]
    "#]],
    );
    // A device whose library has no algorithm has a kernel for the product.
    let open = plan.programs(&DeviceModel::H200, &Recorded::default()).unwrap();
    let Action::Matmul(step) = &open.programs[0].steps[0].action else { unreachable!() };
    let none = recorded(&[(step.call.key().name(), NO_ALGORITHM)]);
    check(
        &plan,
        &DeviceModel::H200,
        &none,
        &expect![[r#"
        programs small: 1 launches, 3 steps, workspaces 134217728 B
           0 matmul t.4  # stream 0, workspace 134217728 B at 0
               kernel matmul <131072 x 256> (@0, @1, @2, workspace 0..134217728) [33554432]
               kernel map <32768 x 256> (workspace 0..134217728) [33554432]
               kernel row <8192 x 256> (@2, workspace 0..134217728) [524288]
    "#]],
    );
}

/// A plan in `f32` may have products in TF32.
#[test]
fn a_product_has_the_precision_that_it_asks_for() {
    let programs = |precision| {
        let plan = folded_in(DType::F32, precision, false);
        text(&plan, &DeviceModel::H200, &Recorded::default())
    };
    assert!(!programs(None).contains("tensor cores"));
    assert!(programs(Some(Precision::Tf32)).contains("tensor cores 128x256"));
    assert!(programs(Some(Precision::Tf32)).contains("matmul f32 8192x128 @ 128x4096 in tf32"));
}

/// A record in which the first kernel of a plan has this variant.
fn adopted(plan: &Plan, variant: &str) -> Recorded {
    struct Keys(RefCell<Vec<String>>);
    impl Tuner for Keys {
        type Error = Infallible;

        fn capability(&self, _: &MatmulCall) -> Result<Capability, Infallible> {
            Ok(Capability::Open)
        }

        fn fastest(
            &self,
            _: &Kernel,
            key: &TuneKey,
            _: &[Variant],
            _: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<Infallible>>,
        ) -> Result<Option<usize>, Refusal<Infallible>> {
            self.0.borrow_mut().push(key.name());
            Ok(None)
        }
    }
    let keys = Keys(RefCell::default());
    plan.programs(&DeviceModel::H200, &keys).unwrap();
    let key = keys.0.borrow_mut().remove(0);
    recorded(&[(key, variant)])
}

/// The workspaces of two streams are disjoint, and the library has one for each of its streams.
#[test]
fn streams_have_workspaces_of_their_own() {
    let plan = planned(3, |b| {
        let ty = |extents: &[usize]| Type::new(DType::F32, extents);
        let x = b.input("x", InputKind::Data, ty(&[256, 512]));
        let outputs = ["a", "b"].map(|name| {
            let w = b.input(&format!("w{name}"), InputKind::Param, ty(&[512, 256]));
            let y = b.mm(x, w);
            let y = b.unary(Unary::Tanh, y);
            (name, b.sum(y, &[0, 1]))
        });
        outputs.to_vec()
    });
    check(
        &plan,
        &DeviceModel::H200,
        &Recorded::default(),
        &expect![[r#"
            programs small: 4 launches, 6 steps, workspaces 67108864 B
               0 matmul t.2  # stream 0, variant: tuned on device (library | sliced)
                   matmul f32 256x512 @ 512x256 (@0, @1) -> f32 @2, algorithm: tuned on device, workspace at most 33554432 B
                   kernel map <128 x 256> (@2, @2) [65536]
               1 matmul t.5  # stream 1, variant: tuned on device (library | sliced)
                   matmul f32 256x512 @ 512x256 (@0, @1) -> f32 @2, algorithm: tuned on device, workspace at most 33554432 B
                   kernel map <128 x 256> (@2, @2) [65536]
               2 row t.3  # stream 0
                   kernel row <1 x 1024> (@0, @1) [1]
               3 row t.6  # stream 1
                   kernel row <1 x 1024> (@0, @1) [1]
                 library workspace of stream 0: 33554432 B at 0
                 library workspace of stream 1: 33554432 B at 33554432
        "#]],
    );
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
    check(
        &plan,
        &DeviceModel::H200,
        &Recorded::default(),
        &expect![[r#"
            programs small: 2 launches, 2 steps, workspaces 0 B
               0 map t.3  # stream 0
                   kernel row <50 x 32> (@0, @1, @2, assertions) [100]
               1 map table.next  # stream 0
                   kernel map <25 x 256> (@0, @1, assertions) [6400]
        "#]],
    );
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
