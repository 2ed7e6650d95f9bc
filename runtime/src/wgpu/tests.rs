#![allow(clippy::unwrap_used)]
//! What memory of a GPU does by itself. Results of kernels are compared in `tests/gpu.rs` of the root package.

use super::autotune::WgpuBench;
use super::memory::Staging;
use super::*;

use crate::cache::DiskCache;
use crate::cpu::CpuDevice;
use crate::device::RunError;
use crate::gpu::autotune::Timed;
use engine_core::fusion::{fuse, fuse_with};
use engine_core::ir::*;
use engine_core::op::Registry;
use engine_core::plan::{Place, plan};
use engine_core::program::Variant;
use engine_core::program::matrix_units::BLOCKS;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An emulated GPU; none, with a note, if there is none.
fn gpu() -> Option<WgpuDevice> {
    usable(WgpuDevice::new(Adapter::Software))
}

/// An emulated GPU without features that takes no more than this.
fn gpu_within(limits: wgpu::Limits) -> Option<WgpuDevice> {
    let context = Context::new(Adapter::Software, Asked::Within(Box::new(limits)));
    usable(context.map(|context| WgpuDevice { context }))
}

fn usable(gpu: Result<WgpuDevice, DeviceError>) -> Option<WgpuDevice> {
    match gpu {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|device| device == "wgpu"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Copies move whole words; what lies beside the bytes that are written stays.
#[test]
fn any_bytes_are_written_and_read() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(11).unwrap();
    let read = |range: std::ops::Range<usize>| {
        let mut bytes = vec![0; range.len()];
        gpu.read(&buffer, range.start, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(0..11), [0; 11]);
    gpu.write(&buffer, 0, b"abcdefghijk").unwrap();
    gpu.write(&buffer, 3, b"XY").unwrap();
    gpu.write(&buffer, 10, b"Z").unwrap();
    assert_eq!(read(0..11), b"abcXYfghijZ");
    assert_eq!(read(2..7), b"cXYfg");
    assert_eq!(read(5..5), b"");
    let outside = DeviceError::OutOfRange { offset: 8, length: 4, bytes: 11 };
    assert_eq!(gpu.write(&buffer, 8, b"four").unwrap_err(), outside);
    assert_eq!(gpu.read(&buffer, 8, &mut [0; 4]).unwrap_err(), outside);
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let Some(gpu) = gpu() else { return };
    let error = gpu.allocate(1 << 60).unwrap_err().to_string();
    assert!(error.contains("a buffer takes 1152921504606846976 bytes, and "), "{error}");
    assert!(gpu.allocate(16).is_ok());
}

/// What a driver that is reset, or a GPU that is unplugged, looks like.
#[test]
fn a_lost_gpu_is_told_of_by_every_call() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(16).unwrap();
    let tensors = |unary| {
        planned(&DeviceModel::CPU, |b| {
            let x = square(b, "x", 8);
            vec![b.unary(unary, x)]
        })
    };
    let (known, unknown) = (tensors(Unary::Tanh), tensors(Unary::Exp));
    let memory = gpu.allocate(256).unwrap();
    let [mut fresh, mut used] = [(); 2].map(|()| {
        let mut executable = gpu.prepare(Arc::clone(&known), 1).unwrap();
        executable.bind("x", &memory).unwrap();
        executable
    });
    used.run(0, 1).unwrap();
    gpu.context.device.destroy();
    let of_device = |outcome: Result<(), RunError>| {
        outcome.map_err(|error| match error {
            RunError::Device(error) => error,
            other => panic!("{other}"),
        })
    };
    // Whoever waits is the first to hear of it.
    let outcomes = [
        gpu.context.wait(),
        gpu.write(&buffer, 0, &[0; 16]),
        gpu.read(&buffer, 0, &mut [0; 16]),
        gpu.allocate(16).map(drop),
        of_device(used.run(1, 2)),
        used.read_output("out0", &mut [0; 256]),
        of_device(used.profile(3).map(drop)),
        of_device(fresh.run(0, 1)),
        of_device(fresh.profile(0).map(drop)),
        gpu.prepare(known, 1).map(drop),
        gpu.prepare(unknown, 1).map(drop),
        gpu.context.wait(),
    ];
    for (call, outcome) in outcomes.into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert!(matches!(error, DeviceError::Lost { .. }), "call {call}: {error}");
        assert!(error.to_string().contains(" was lost: "), "{error}");
    }
}

/// wgpu panics where it finds a GPU lost while it waits; the GPU has said so before.
#[test]
fn a_wait_that_panics_is_told_of() {
    let Some(gpu) = gpu() else { return };
    let error = gpu.context.wait_by(|_| panic!("Error in Device::poll")).unwrap_err();
    let said = format!("waiting for {}: Error in Device::poll", gpu.context.name);
    assert_eq!(error, DeviceError::Failed(said));
    gpu.context.wait().unwrap();
    let lost = gpu.context.wait_by(|device| {
        device.destroy();
        let _ = device.poll(wgpu::PollType::wait_indefinitely());
        panic!("Error in Device::poll")
    });
    assert!(matches!(lost, Err(DeviceError::Lost { .. })), "{lost:?}");
}

/// The next read finds nothing of one that has failed.
#[test]
fn memory_is_read_after_a_read_that_failed() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(16).unwrap();
    gpu.write(&buffer, 0, b"abcdefghijklmnop").unwrap();
    let memory = buffer.memory::<Memory>().unwrap();
    let [staging, too_long] = [16, 64].map(|bytes| Staging::new(&gpu.context, bytes).unwrap());
    for _ in 0..2 {
        staging.take(memory.buffer(), 0);
        too_long.take(memory.buffer(), 0);
        let mut bytes = [0; 16];
        let error = staging.read(&mut bytes).unwrap_err();
        assert!(error.to_string().contains("overrun"), "{error}");
        staging.read(&mut bytes).unwrap();
        assert_eq!(&bytes, b"abcdefghijklmnop");
    }
}

/// wgpu holds a copy of what is written until it is handed in.
#[test]
fn large_writes_take_little_memory_beside_what_is_written() {
    let Some(gpu) = gpu() else { return };
    let taken = || gpu.context.device.generate_allocator_report().map(|report| report.total_allocated_bytes);
    let Some(before) = taken() else { return eprintln!("skipped: wgpu does not tell what it has allocated") };
    let n_bytes = 3 * context::MOST_STAGED + 4;
    let buffer = gpu.allocate(n_bytes).unwrap();
    let mut found = vec![0; n_bytes];
    for (first, part) in [(7, n_bytes), (8, 1 << 22)] {
        // A number of bytes that divides none of the parts.
        let mut bytes: Vec<u8> = (first..251).collect::<Vec<u8>>().repeat(n_bytes / 240);
        bytes.truncate(n_bytes);
        let parts = bytes.chunks(part).enumerate();
        parts.for_each(|(i, bytes)| gpu.write(&buffer, i * part, bytes).unwrap());
        let beside = taken().unwrap() - before - n_bytes as u64;
        assert!(beside <= 2 * context::MOST_STAGED as u64, "{beside} bytes beside what is written");
        gpu.read(&buffer, 0, &mut found).unwrap();
        assert!(found == bytes);
    }
}

/// What a trial needs is not there: the GPU is as it is without.
#[test]
fn a_trial_that_does_not_compile_says_no() {
    let Some(gpu) = gpu_within(wgpu::Limits::default()) else { return };
    let target = probe::found(&gpu.context, Some(4)).unwrap();
    assert_eq!(target.plane, 1);
    gpu.context.device.destroy();
    gpu.context.wait().unwrap_err();
    let lost = probe::found(&gpu.context, Some(4));
    assert!(matches!(lost, Err(DeviceError::Lost { .. })), "{lost:?}");
}

#[test]
fn a_kernel_that_does_not_compile_is_shown() {
    let Some(gpu) = gpu() else { return };
    let text = "@compute @workgroup_size(1) fn broken() { let x: f32 = 1u; }".to_string();
    let source = compile::Source { text, entry: "broken".into(), n_buffers: 0, shared_bytes: 0 };
    let error = compile::load(&gpu.context, &[("map y: add exp", &source)]).map(drop).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, DeviceError::NotCompiled { .. }), "{said}");
    assert!(said.starts_with("the kernel of `map y: add exp` does not compile; "), "{said}");
    assert!(said.lines().count() <= 5 && said.len() < 1000, "{said}");
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

type Call = fn(&WgpuDevice, &DeviceBuffer) -> Result<(), DeviceError>;

/// What fails after a call has returned is told once, by the next one.
#[test]
fn what_fails_meanwhile_is_told_by_the_next_call() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(16).unwrap();
    let memory = buffer.memory::<Memory>().unwrap();
    let too_long = Staging::new(&gpu.context, 64).unwrap();
    let calls: [Call; 3] = [
        |gpu, buffer| gpu.write(buffer, 0, &[0; 16]),
        |gpu, buffer| gpu.read(buffer, 0, &mut [0; 16]),
        |gpu, _| gpu.allocate(16).map(drop),
    ];
    for call in calls {
        too_long.take(memory.buffer(), 0);
        let error = call(&gpu, &buffer).unwrap_err();
        assert!(matches!(error, DeviceError::Failed(_)), "{error}");
        assert!(error.to_string().starts_with(&format!("{}: ", gpu.context.name)), "{error}");
        assert!(error.to_string().contains("overrun"), "{error}");
        call(&gpu, &buffer).unwrap();
    }
}

/// Kernels are compiled beside each other: a panic there would end the process.
#[test]
fn a_compiler_that_panics_is_told_of() {
    let Some(gpu) = gpu() else { return };
    let source = |text: &str| compile::Source {
        text: text.into(),
        entry: "broken".into(),
        n_buffers: 0,
        shared_bytes: 0,
    };
    let [first, second] = ["fn first() {}", "fn second() {}"].map(source);
    let sources = [("map y: exp", &first), ("map z: exp", &second)];
    let error = compile::load_by(|_, owner, _| panic!("no {owner}"), &gpu.context, &sources).map(drop);
    let said = error.unwrap_err().to_string();
    assert!(
        said.starts_with("the kernel of `map ") && said.contains("the compiler panicked: no map "),
        "{said}"
    );
    // The text of a kernel is for `explain`, not for the terminal of a user.
    assert!(!said.contains("() {}"), "{said}");
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

mod foreign {
    use cubecl_core as cubecl;
    use cubecl_core::prelude::*;

    #[cube]
    pub fn as_bf16(x: f32) -> f32 {
        f32::cast_from(half::bf16::cast_from(x))
    }
}

/// WGSL has no such type, and CubeCL panics when it is asked for one.
#[test]
fn a_function_that_wgsl_lacks_is_told_of() {
    let Some(gpu) = gpu() else { return };
    let rounded = Foreign {
        key: "test.as_bf16@1".into(),
        arity: 1,
        f64: |x| x[0],
        f32_slice: |x, out| out.copy_from_slice(x[0]),
        partials: |_| vec![],
        cube: |scope, x| foreign::as_bf16::expand(scope, x[0].clone()),
    };
    let plan = planned(&gpu.model(), |b| {
        let x = square(b, "x", 8);
        vec![b.scalar(Scalar::Foreign(Arc::new(rounded)), &[x])]
    });
    let error = gpu.prepare(Arc::clone(&plan), 1).map(drop).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, DeviceError::NotCompiled { .. }), "{said}");
    let kernel = &plan.kernels[0].name;
    assert!(said.starts_with(&format!("the kernel of `{kernel}` does not compile; ")), "{said}");
    assert!(said.contains("the compiler panicked: bf16 is not a valid"), "{said}");
    let explained = super::texts(&plan.kernels[0]).unwrap_err().to_string();
    assert!(explained.contains("bf16 is not a valid"), "{explained}");
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

/// The second start finds what the first has kept; what the driver does not know as its own is no harm.
#[test]
fn what_the_driver_tells_of_kernels_is_kept() {
    let Some(gpu) = gpu() else { return };
    if gpu.context.kept.is_none() {
        eprintln!("skipped: the driver tells nothing of its kernels");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::within(folder.path());
    let first = kept.open(&gpu.context, "text");
    assert!(!first.is_old);
    kept.keep("text", &first);
    assert!(kept.open(&gpu.context, "text").is_old);
    assert!(!kept.open(&gpu.context, "another text").is_old);
    for nonsense in [&b""[..], b"nonsense", &[0; 4096]] {
        kept.disk.write(&kept.key("text"), nonsense);
        assert!(kept.open(&gpu.context, "text").cache.get_data().is_some());
    }
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let Err(error) = WgpuDevice::new(Adapter::Gpu(1000)) else { panic!("a thousand GPUs") };
    let error = error.to_string();
    let known = ["no GPU is found", "only a software adapter", "there is no GPU of number 1000"];
    assert!(known.iter().any(|text| error.contains(text)), "{error}");
}

/// A product with its epilogue, `[m, k] · [k, n]`.
fn product(dtype: DType, [m, n, k]: [usize; 3]) -> Kernel {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("product"), &registry);
    let lhs = b.input("lhs", InputKind::Data, Type::new(dtype, &[m, k]));
    let rhs = b.input("rhs", InputKind::Data, Type::new(dtype, &[k, n]));
    let y = b.matmul(lhs, rhs);
    let y = b.unary(Unary::Tanh, y);
    b.graph.outputs = vec![("y".into(), y)];
    let graph = b.graph.pruned();
    fuse(&graph, true).kernels.remove(0)
}

/// All variants run; which is the fastest depends on the GPU.
#[test]
fn every_variant_of_a_product_can_be_timed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(gpu) = gpu_that_tries(&folder) else { return };
    let plan = planned(&gpu.model(), |b| {
        let ty = |extents: &[usize]| Type::new(DType::F32, extents);
        let lhs = b.input("lhs", InputKind::Data, ty(&[128, 512]));
        let rhs = b.input("rhs", InputKind::Data, ty(&[512, 160]));
        let y = b.matmul(lhs, rhs);
        vec![b.unary(Unary::Tanh, y)]
    });
    let timed = plan.programs(&gpu.model(), &Timed(WgpuBench(&gpu.context))).unwrap();
    let chosen = timed.programs[0].chosen.clone().unwrap();
    assert!(chosen.is_tuned && chosen.variants.len() > 2 && chosen.variants.contains(&chosen.variant));
    // Nothing is timed where all variants are slow.
    let Some(slow) = self::gpu() else { return };
    let untimed = plan.programs(&slow.model(), &Timed(WgpuBench(&slow.context))).unwrap();
    let chosen = untimed.programs[0].chosen.clone().unwrap();
    assert_eq!((chosen.is_tuned, chosen.variant), (false, chosen.variants[0]));
    assert_eq!(slow.tuning(), None);
    assert!(!slow.adopt(&Tuning::default()));
}

/// A GPU that tries the ways of products although all are slow, and keeps what it finds in this folder.
fn gpu_that_tries(folder: &tempfile::TempDir) -> Option<WgpuDevice> {
    let mut gpu = gpu()?;
    let context = Arc::get_mut(&mut gpu.context).unwrap();
    context.can_autotune = true;
    context.choices = DiskCache::within(folder.path());
    Some(gpu)
}

/// What a GPU that has adopted choices chooses for a plan with one product, and whether it has tried anything.
fn chosen_with(adopted: Option<&Tuning>, plan: &Arc<Plan>) -> Option<(Tuning, bool)> {
    // Nothing of another GPU's is found on disk.
    let folder = tempfile::tempdir().unwrap();
    let gpu = gpu_that_tries(&folder)?;
    if let Some(tuning) = adopted {
        let read = Tuning::from_text(&tuning.to_text()).unwrap();
        assert_eq!(gpu.adopt(&read), tuning.device == gpu.context.tuner.device());
    }
    gpu.prepare(Arc::clone(plan), 1).unwrap();
    // Before the first trial, a GPU is kept busy for a while.
    Some((gpu.tuning().unwrap(), gpu.context.is_warmed_up.load(Ordering::Relaxed)))
}

/// A run that is resumed on the same model of GPU takes the ways of the run before, and tries none; what it cannot take, and
/// what another model has chosen, it finds anew.
#[test]
fn ways_of_a_checkpoint_are_adopted_by_another_gpu_of_the_model() {
    let plan = planned(&DeviceModel::CPU, |b| {
        let ty = |extents: &[usize]| Type::new(DType::F32, extents);
        let lhs = b.input("lhs", InputKind::Data, ty(&[128, 512]));
        let rhs = b.input("rhs", InputKind::Data, ty(&[512, 160]));
        vec![b.matmul(lhs, rhs)]
    });
    let Some((found, has_tried)) = chosen_with(None, &plan) else { return };
    assert!(has_tried);
    let ways = KernelSpec::splits(&plan.kernels[0], gpu().unwrap().context.model);
    let texts: Vec<String> = ways.into_iter().map(|cut| Variant::Blocked(cut).to_string()).collect();
    let choosing = |text: &str| {
        let choices = found.choices.keys().map(|subject| (subject.clone(), text.to_string()));
        Tuning { choices: choices.collect(), ..found.clone() }
    };
    assert!(texts.len() > 2 && found.choices.len() == 1);
    for text in &texts {
        // Also those that trying would not have come to.
        let adopted = choosing(text);
        assert_eq!(chosen_with(Some(&adopted), &plan).unwrap(), (adopted, false));
    }
    let is_found_anew = |adopted: Tuning| {
        let (tuning, has_tried) = chosen_with(Some(&adopted), &plan).unwrap();
        has_tried && tuning.choices.values().all(|text| texts.contains(text))
    };
    let impossible = Variant::MatrixUnits(BLOCKS[0]).to_string();
    for text in [&impossible, "blocked"] {
        assert!(is_found_anew(choosing(text)), "{text}");
    }
    assert!(is_found_anew(Tuning { device: "another model".into(), ..choosing(&texts[0]) }));
}

// ---- Steps.

/// However steps are handed in, they are the same: all at once, a few at a time, or each in parts.
#[test]
fn slow_steps_have_the_results_of_quick_ones() {
    let Some(gpu) = gpu() else { return };
    let plan = planned_steps(&gpu.model());
    let state = |step_time: Option<f64>| {
        let mut executable = WgpuExecutable::new(&gpu.context, Arc::clone(&plan), 1).unwrap();
        let memory = gpu.allocate(4 * 64).unwrap();
        executable.bind("x", &memory).unwrap();
        executable.step_time = step_time.map(Duration::from_secs_f64);
        executable.run(5, 20).unwrap();
        assert!(executable.step_time.is_some_and(|time| time > Duration::ZERO));
        let mut bytes = [0; 4 * 64];
        gpu.read(&memory, 0, &mut bytes).unwrap();
        bytes
    };
    let quick = state(Some(0.0));
    assert!(quick.iter().any(|&byte| byte != 0));
    for step_time in [None, Some(0.08), Some(60.0)] {
        assert_eq!(state(step_time), quick, "{step_time:?}");
    }
}

/// A step of several launches, some of which draw by the number of the step.
fn planned_steps(device: &DeviceModel) -> Arc<Plan> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("steps"), &registry);
    let x = b.input("x", InputKind::State, Type::new(DType::F32, &[8, 8]));
    let product = b.matmul(x, x);
    let drawn = b.random_bits("drawn", &[8, 8]);
    let drawn = b.cast(drawn, DType::F32);
    let drawn = b.scale(drawn, 1e-10);
    let sum = b.add(product, drawn);
    let next = b.unary(Unary::Tanh, sum);
    b.graph.state = vec![StateLink { input: x.node, next }];
    let graph = b.graph.pruned();
    let settings = engine_core::fusion::Settings { device: *device, ..Default::default() };
    Arc::new(plan(&graph, fuse_with(&graph, &settings).kernels, 1))
}

// ---- Small GPUs.

/// A plan for a device that can do so much; outputs are `out0` and so on.
fn planned(device: &DeviceModel, build: impl FnOnce(&mut Builder) -> Vec<Value>) -> Arc<Plan> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("small"), &registry);
    let outputs = build(&mut b);
    let numbered = outputs.into_iter().enumerate();
    b.graph.outputs = numbered.map(|(i, value)| (format!("out{i}").into(), value)).collect();
    let graph = b.graph.pruned();
    let settings = engine_core::fusion::Settings { device: *device, ..Default::default() };
    Arc::new(plan(&graph, fuse_with(&graph, &settings).kernels, 1))
}

fn square(b: &mut Builder, name: &str, extent: usize) -> Value {
    b.input(name, InputKind::Data, Type::new(DType::F32, &[extent, extent]))
}

/// The outputs of one step from inputs of small numbers.
fn outputs(device: &dyn Device, plan: &Arc<Plan>) -> Vec<Vec<f32>> {
    let mut executable = device.prepare(Arc::clone(plan), 1).unwrap();
    for buffer in plan.buffers.iter().filter(|buffer| matches!(buffer.place, Place::Input(_))) {
        let numbers = (0..buffer.ty.numel()).map(|i| (i % 13) as f32 - 6.0);
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        let memory = device.allocate(bytes.len()).unwrap();
        device.write(&memory, 0, &bytes).unwrap();
        executable.bind(&buffer.name, &memory).unwrap();
    }
    executable.run(0, 1).unwrap();
    let read = |(name, id): &(Symbol, usize)| {
        let mut bytes = vec![0; plan.buffers[*id].ty.bytes()];
        executable.read_output(name, &mut bytes).unwrap();
        bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
    };
    plan.outputs.iter().map(read).collect()
}

/// Sums along the rows of some tensors, each of the one before.
fn sums_of_sums(b: &mut Builder) -> Vec<Value> {
    let sums = |b: &mut Builder, extent: usize| {
        let x = square(b, &format!("x{extent}"), extent);
        (0..3).fold(x, |x, _| {
            let ty = b.ty(x).clone();
            let sums = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 1 }, vec![x], ty);
            b.scale(sums, 0.0625)
        })
    };
    [50, 60, 40, 56].map(|extent| sums(b, extent)).to_vec()
}

#[test]
fn an_arena_of_several_buffers_holds_what_one_would() {
    let limits = wgpu::Limits {
        max_buffer_size: 16 << 10,
        max_storage_buffer_binding_size: 16 << 10,
        max_uniform_buffer_binding_size: 16 << 10,
        ..wgpu::Limits::default()
    };
    let Some(gpu) = gpu_within(limits) else { return };
    let plan = planned(&gpu.model(), sums_of_sums);
    assert!(plan.arena_bytes > 3 * (16 << 10), "{plan}");
    let expected = outputs(&CpuDevice::new(Some(1)).unwrap(), &plan);
    for (found, expected) in outputs(&gpu, &plan).iter().zip(&expected) {
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
        assert!(found.iter().zip(expected).all(is_near) && found.len() == expected.len());
        assert!(expected.iter().any(|&x| x != 0.0));
    }
}

/// Blocks are folded into rows and layers, some more of them than there is work for.
#[test]
fn kernels_agree_where_an_axis_takes_few_blocks() {
    let few = wgpu::Limits { max_compute_workgroups_per_dimension: 7, ..wgpu::Limits::default() };
    let Some(gpu) = gpu_within(few) else { return };
    let cpu = CpuDevice::new(Some(1)).unwrap();
    for (name, form) in forms() {
        let [plan, on_cpu] = [gpu.model(), cpu.model()].map(|device| planned(&device, form));
        let programs = crate::gpu::programs(&plan, "a GPU", &gpu.model(), WgpuBench(&gpu.context)).unwrap();
        let (dispatches, _) = steps::dispatches(&gpu.context, &plan, &programs, 1).unwrap();
        let grids: Vec<[u32; 3]> = dispatches.iter().map(|dispatch| dispatch.grid).collect();
        assert!(grids.iter().any(|&[_, rows, layers]| rows > 1 && layers > 1), "{name}: {grids:?}");
        for (found, expected) in outputs(&gpu, &plan).iter().zip(&outputs(&cpu, &on_cpu)) {
            let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
            assert!(found.iter().zip(expected).all(is_near) && found.len() == expected.len(), "{name}");
            assert!(expected.iter().any(|&x| x != 0.0), "{name}");
        }
    }
}

type Form = fn(&mut Builder) -> Vec<Value>;

/// A kernel of each form.
fn forms() -> [(&'static str, Form); 5] {
    fn input(b: &mut Builder, name: &str, extents: &[usize]) -> Value {
        b.input(name, InputKind::Data, Type::new(DType::F32, extents))
    }
    [
        ("map", |b| {
            let x = square(b, "x", 280);
            vec![b.unary(Unary::Tanh, x)]
        }),
        ("rows", |b| {
            let x = input(b, "x", &[301, 400]);
            let sums = b.sum(x, &[1]);
            let sums = b.unreduce(sums, &[1], x);
            vec![b.sub(x, sums)]
        }),
        ("product", |b| {
            let (x, y) = (input(b, "x", &[1090, 40]), input(b, "y", &[40, 1090]));
            vec![b.matmul(x, y)]
        }),
        ("scatter", |b| {
            let (base, x) = (input(b, "base", &[200, 64]), input(b, "x", &[1000, 64]));
            // Each row gets five.
            let idx = b.iota(0, Type::new(DType::I32, &[1000]));
            let rows = b.full_like(idx, 200.0);
            let idx = b.binary(Binary::Rem, idx, rows);
            vec![b.scatter(base, idx, x, 0, 0, Combine::Add)]
        }),
        ("batch", |b| {
            let (x, y) = (input(b, "x", &[900, 6, 7]), input(b, "y", &[900, 7, 5]));
            vec![b.contract(x, y, Contract { batch: vec![(0, 0)], contracted: vec![(2, 1)] })]
        }),
    ]
}

/// What a small GPU says of a plan.
fn refusal(gpu: &WgpuDevice, plan: &Arc<Plan>) -> String {
    gpu.prepare(Arc::clone(plan), 1).map(drop).unwrap_err().to_string()
}

/// By the name of what cannot run, and what there is.
#[test]
fn what_a_small_gpu_has_no_room_for_is_named() {
    let limits = wgpu::Limits {
        max_buffer_size: 16 << 10,
        max_storage_buffer_binding_size: 8 << 10,
        max_uniform_buffer_binding_size: 8 << 10,
        ..wgpu::Limits::default()
    };
    let Some(gpu) = gpu_within(limits) else { return };
    let check = |plan: Arc<Plan>, said: &str| {
        let (name, kernel) = (&gpu.context.name, &plan.kernels[0].name);
        assert_eq!(refusal(&gpu, &plan), format!("{name} cannot run `{kernel}`: {said}"));
    };
    let wide = |b: &mut Builder| {
        let first = square(b, "x", 8);
        let sum = (0..9).fold(first, |sum, i| {
            let x = square(b, &format!("x{i}"), 8);
            b.add(sum, x)
        });
        vec![sum]
    };
    check(
        planned(&DeviceModel::CPU, wide),
        "it reads and writes 11 tensors, and at most 7 can be bound at once",
    );
    let double = |b: &mut Builder| {
        let x = b.input("x", InputKind::Data, Type::new(DType::F64, &[8]));
        vec![b.unary(Unary::Exp, x)]
    };
    check(planned(&gpu.model(), double), "the device has no f64");
    let long = |b: &mut Builder| {
        let x = square(b, "x", 60);
        vec![b.unary(Unary::Exp, x)]
    };
    let said = "`x` takes 14400 bytes, and a kernel reaches at most 8192 bytes of a tensor";
    check(planned(&gpu.model(), long), said);
}

#[test]
fn a_tensor_that_is_no_buffer_is_named() {
    let limits = wgpu::Limits {
        max_buffer_size: 8 << 10,
        max_storage_buffer_binding_size: 16 << 10,
        ..wgpu::Limits::default()
    };
    let Some(gpu) = gpu_within(limits) else { return };
    let plan = planned(&gpu.model(), |b| {
        let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[60]));
        let x = b.broadcast_dims(x, &[Dim::Fixed(60), Dim::Fixed(60)]);
        vec![b.unary(Unary::Exp, x)]
    });
    let (name, tensor) = (&gpu.context.name, &plan.buffers[plan.outputs[0].1].name);
    let said = format!("`{tensor}` takes 14400 bytes, and {name} has buffers of at most 8192 bytes");
    assert_eq!(refusal(&gpu, &plan), said);
}

/// Kernels are cut to what a block shares; what was cut for another GPU is refused.
#[test]
fn more_than_a_block_shares_is_named() {
    let limits = wgpu::Limits { max_compute_workgroup_storage_size: 1 << 10, ..wgpu::Limits::default() };
    let Some(gpu) = gpu_within(limits) else { return };
    let kernel = product(DType::F32, [128, 128, 128]);
    let fused = KernelSpec::launches(&kernel, DeviceModel::WEBGPU).unwrap().remove(0);
    let shared = compile::text(&fused).unwrap().shared_bytes;
    let error = compile::source(&gpu.context, "product y", &fused).map(drop).unwrap_err().to_string();
    let name = &gpu.context.name;
    let said = format!(
        "{name} cannot run `product y`: its threads share {shared} bytes, and there are 1024 for a block"
    );
    assert_eq!(error, said);
}
