//! Tests of GPUs with small limits.

use super::*;
use crate::gpu::translate::of_plan;
use crate::gpu::wgpu::dispatch::Dispatches;

/// A matmul `[m, k] · [k, n]` with an epilogue.
fn matmul(dtype: DType, [m, n, k]: [usize; 3]) -> Kernel {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("product"), &registry);
    let lhs = b.input("lhs", InputKind::Data, Type::new(dtype, &[m, k]));
    let rhs = b.input("rhs", InputKind::Data, Type::new(dtype, &[k, n]));
    let y = b.mm(lhs, rhs);
    let y = b.unary(Unary::Tanh, y);
    b.graph.outputs = vec![("y".into(), y)];
    let graph = b.graph.pruned();
    fuse(&graph, true).kernels.remove(0)
}

/// The outputs of one step on small integers.
pub fn outputs(device: &dyn Device, plan: &Arc<Plan>) -> Vec<Vec<f32>> {
    let mut executable = device.prepare(Arc::clone(plan), 1).unwrap();
    for buffer in plan.buffers.iter().filter(|buffer| matches!(buffer.place, Home::Input(_))) {
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

/// Chains of prefix sums along the rows of several tensors.
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
fn an_arena_of_several_pages_has_the_results_of_one() {
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

/// The grid is folded into rows and layers, and has more workgroups than the work needs.
#[test]
fn kernels_agree_with_few_workgroups_per_axis() {
    let few = wgpu::Limits { max_compute_workgroups_per_dimension: 7, ..wgpu::Limits::default() };
    let Some(gpu) = gpu_within(few) else { return };
    let cpu = CpuDevice::new(Some(1)).unwrap();
    for (name, form) in forms() {
        let [plan, on_cpu] = [gpu.model(), cpu.model()].map(|device| planned(&device, form));
        let programs = choose(&gpu.gpu, &plan).unwrap();
        let prepared = of_plan(&gpu.gpu, &plan, &programs, 1).unwrap();
        let dispatches = Dispatches::new(&gpu.gpu, &prepared.iter().collect::<Vec<_>>()).unwrap();
        let grids: Vec<[u32; 3]> = dispatches.list.all.iter().map(|dispatch| dispatch.grid).collect();
        assert!(grids.iter().any(|&[_, rows, layers]| rows > 1 && layers > 1), "{name}: {grids:?}");
        for (found, expected) in outputs(&gpu, &plan).iter().zip(&outputs(&cpu, &on_cpu)) {
            let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
            assert!(found.iter().zip(expected).all(is_near) && found.len() == expected.len(), "{name}");
            assert!(expected.iter().any(|&x| x != 0.0), "{name}");
        }
    }
}

type Form = fn(&mut Builder) -> Vec<Value>;

/// A kernel of each kind.
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
            vec![b.mm(x, y)]
        }),
        ("scatter", |b| {
            let (base, x) = (input(b, "base", &[200, 64]), input(b, "x", &[1000, 64]));
            // Each row receives five updates.
            let idx = b.iota(0, Type::new(DType::I32, &[1000]));
            let rows = b.full_like(idx, 200.0);
            let idx = b.binary(Binary::Rem, idx, rows);
            vec![b.scatter(base, idx, x, 0, 0, Combine::Add)]
        }),
        ("batch", |b| {
            let (x, y) = (input(b, "x", &[900, 6, 7]), input(b, "y", &[900, 7, 5]));
            vec![b.matmul(x, y, MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]))]
        }),
    ]
}

/// The error of a small GPU for a plan.
fn refusal(gpu: &WgpuDevice, plan: &Arc<Plan>) -> String {
    gpu.prepare(Arc::clone(plan), 1).map(drop).unwrap_err().to_string()
}

/// The error names the kernel and the limit.
#[test]
fn a_kernel_beyond_a_limit_is_named() {
    let limits = wgpu::Limits {
        max_buffer_size: 16 << 10,
        max_storage_buffer_binding_size: 8 << 10,
        max_uniform_buffer_binding_size: 8 << 10,
        ..wgpu::Limits::default()
    };
    let Some(gpu) = gpu_within(limits) else { return };
    let check = |plan: Arc<Plan>, message: &str| {
        let (name, kernel) = (&gpu.gpu.state.name, &plan.kernels[0].name);
        assert_eq!(refusal(&gpu, &plan), format!("{name} cannot run `{kernel}`: {message}"));
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
    let message = "`x` takes 14400 bytes, and a kernel reaches at most 8192 bytes of a tensor";
    check(planned(&gpu.model(), long), message);
}

#[test]
fn a_tensor_beyond_the_largest_buffer_is_named() {
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
    let (name, tensor) = (&gpu.gpu.state.name, &plan.buffers[plan.outputs[0].1].name);
    let message = format!("`{tensor}` takes 14400 bytes, and {name} has buffers of at most 8192 bytes");
    assert_eq!(refusal(&gpu, &plan), message);
}

/// Schedules fit the workgroup memory of their target. A kernel for another GPU may exceed it and is refused.
#[test]
fn a_kernel_beyond_the_workgroup_memory_is_named() {
    let limits = wgpu::Limits { max_compute_workgroup_storage_size: 1 << 10, ..wgpu::Limits::default() };
    let Some(gpu) = gpu_within(limits) else { return };
    let kernel = matmul(DType::F32, [128, 128, 128]);
    let fused = KernelSpec::launches(&kernel, DeviceModel::WEBGPU).unwrap().remove(0);
    let shared = crate::gpu::wgsl::source(&fused).unwrap().shared_bytes;
    let error =
        wgsl::source_within_limits(&gpu.gpu.state, "product y", &fused).map(drop).unwrap_err().to_string();
    let name = &gpu.gpu.state.name;
    let message = format!(
        "{name} cannot run `product y`: its threads share {shared} bytes, and there are 1024 for a block"
    );
    assert_eq!(error, message);
}
