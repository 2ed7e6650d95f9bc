//! A warm plan runs its steps without allocating. Through wgpu, it allocates no more than wgpu itself.

#![allow(clippy::unwrap_used)]

use engine_core::fusion::fuse;
use engine_core::ir::*;
use engine_core::op::{
    Grad, GradCheck, InputSpec, KernelCall, KernelForm, Lower, OpForm, Registry, Role, Rounding,
    RowReduction, TypeRule, extreme_fold,
};
use engine_core::oracle::OracleTensor;
use engine_core::plan::plan;
use engine_runtime::cpu::CpuDevice;
use engine_runtime::device::Device;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "wgpu")]
#[path = "steady_state/bare.rs"]
mod bare;

struct Counting;

static N_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// Serializes the tests, since the counter includes all threads.
static TURN: Mutex<()> = Mutex::new(());

// SAFETY: it is the system's allocator with a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: required of the caller.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The largest element of each row, as an op with a kernel of its own.
fn largest() -> OpForm {
    let fold = |_: &KernelCall| extreme_fold(Monoid::Max, DType::F32).unwrap();
    let oracle = |_: &KernelCall, _: &[&OracleTensor]| unreachable!("nothing is compared here");
    OpForm {
        name: "largest".into(),
        family: "test".into(),
        summary: "Takes the largest element of each row.".into(),
        inputs: vec![InputSpec::required("x", "rows")],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| {
            Ok(vec![Type { dtype: DType::F32, shape: inputs[0].shape[..1].to_vec() }])
        }),
        lower: Lower::Kernel(KernelForm::of_rows(&RowReduction::new(fold), Arc::new(oracle))),
        grad: Grad::None { why: "a test" },
        check: GradCheck::None { why: "a test" },
        examples: vec![],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// One kernel of each kind: gather, map, row, matmul with epilogue and side sum, matmul fold, scatter, scan,
/// update, opaque.
fn step() -> Graph {
    let mut registry = Registry::new();
    registry.add(largest());
    let mut builder = Builder::new(Graph::new("step"), &registry);
    let b = &mut builder;
    let table = b.input("table", InputKind::Param, Type::new(DType::F32, &[100, 64]));
    let weights = b.input("weights", InputKind::Param, Type::new(DType::F32, &[64, 300]));
    let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[200]));
    let idx = b.check_index(idx, 100);
    let x = b.gather(table, idx, 0, 0);
    let h = b.mm(x, weights);
    let h = b.unary(Unary::Tanh, h);
    let peak = b.reduce(Monoid::Max, h, &[1]);
    let peak = b.unreduce(peak, &[1], h);
    let y = b.sub(h, peak);
    let total = b.sum(y, &[0, 1]);
    let scanned =
        b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 0 }, vec![y], Type::new(DType::F32, &[200, 300]));
    let gradient = b.matmul(x, y, MatmulSpec::new(vec![], vec![(0, 0)]));
    let next = b.sub(weights, gradient);
    let zeros = b.full(Literal::Float(0.0), Type::new(DType::F32, &[100, 64]));
    let scattered = b.scatter(zeros, idx, x, 0, 0, Combine::Add);
    let small = b.scale(scattered, 1e-3);
    let next_table = b.sub(table, small);
    let best = b.mm(x, weights);
    let best = b.reduce(Monoid::ArgMax, best, &[1]);
    let tops = b.call("largest", &[y], Attrs::default()).unwrap()[0];
    b.graph.outputs = vec![
        ("total".into(), total),
        ("scanned".into(), scanned),
        ("best".into(), best),
        ("tops".into(), tops),
    ];
    b.graph.state =
        vec![StateLink { input: weights.node, next }, StateLink { input: table.node, next: next_table }];
    builder.graph.pruned()
}

#[test]
fn steps_allocate_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let graph = step();
    let plan = Arc::new(plan(&graph, fuse(&graph, true).kernels, 1));
    let device = CpuDevice::new(Some(2)).unwrap();
    let mut executable = device.prepare(plan, 1).unwrap();
    for (node, _) in graph.inputs() {
        let buffer = device.allocate(graph.ty(Value::of(node)).bytes()).unwrap();
        executable.bind(graph.nodes[node].name(), &buffer).unwrap();
    }
    executable.run(0, 10).unwrap();
    let before = N_ALLOCATIONS.load(Ordering::Relaxed);
    executable.run(10, 90).unwrap();
    assert_eq!(N_ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}

/// A step with a check, a matmul, a sum, an update and random numbers.
#[cfg(feature = "wgpu")]
fn drawing_step() -> Graph {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("step"), &registry);
    let b = &mut builder;
    let table = b.input("table", InputKind::Param, Type::new(DType::F32, &[100, 64]));
    let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[200]));
    let checked = b.check_index(idx, 100);
    let x = b.gather(table, checked, 0, 0);
    let product = b.matmul(x, x, MatmulSpec::new(vec![], vec![(0, 0)]));
    let total = b.sum(product, &[0]);
    let total = b.broadcast_like(total, table);
    let small = b.scale(total, 1e-3);
    let next = b.sub(table, small);
    // Random nodes read the step number, which is written before each submission.
    let drawn = b.random_bits("drawn", &[100, 64]);
    let drawn = b.cast(drawn, DType::F32);
    let drawn = b.scale(drawn, 1e-12);
    let next = b.add(next, drawn);
    b.graph.state = vec![StateLink { input: table.node, next }];
    builder.graph.pruned()
}

/// Encoders, passes and submissions of wgpu allocate, but our code around them does not. So a step allocates as much as
/// bare dispatches do.
#[cfg(feature = "wgpu")]
#[test]
fn steps_through_wgpu_allocate_no_more_than_dispatches_do() {
    use engine_runtime::gpu::wgpu::{Adapter, WgpuDevice};
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let device = match WgpuDevice::new(Adapter::Gpu(0)).or_else(|_| WgpuDevice::new(Adapter::Software)) {
        Ok(device) => device,
        Err(error) => {
            let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|device| device == "wgpu"), "{error}");
            return eprintln!("skipped: {error}");
        }
    };
    let graph = drawing_step();
    let plan = Arc::new(plan(&graph, fuse(&graph, true).kernels, 1));
    let n_launches = plan.launches.len();
    let mut executable = device.prepare(plan, 1).unwrap();
    for (node, _) in graph.inputs().filter(|&(_, kind)| kind != InputKind::Step) {
        let buffer = device.allocate(graph.ty(Value::of(node)).bytes()).unwrap();
        executable.bind(graph.nodes[node].name(), &buffer).unwrap();
    }
    executable.run(0, 40).unwrap();
    let counted = |run: &mut dyn FnMut()| {
        let before = N_ALLOCATIONS.load(Ordering::Relaxed);
        run();
        N_ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    let ours = [16, 48].map(|n_steps| counted(&mut || executable.run(40, n_steps).unwrap()));
    let bare = bare::Bare::new(n_launches).unwrap();
    // The first submissions of a run are short.
    let submissions: [&[usize]; 2] = [&[1, 2, 4, 8, 1], &[1, 2, 4, 8, 16, 16, 1]];
    bare.run(submissions[1]);
    let theirs = submissions.map(|submissions| counted(&mut || bare.run(submissions)));
    let each = |[few, many]: [usize; 2]| many.saturating_sub(few) as f64 / 32.0;
    println!(
        "{n_launches} launches a step: {} allocations for 16 steps, {:.1} for each more; \
         dispatches alone: {}, {:.1}",
        ours[0],
        each(ours),
        theirs[0],
        each(theirs)
    );
    assert!(each(ours) <= 1.1 * each(theirs), "{ours:?} and {theirs:?}");
    // The surplus is for waiting and reading the error flag.
    assert!(ours[0] <= theirs[0] + 96, "{ours:?} and {theirs:?}");
}
