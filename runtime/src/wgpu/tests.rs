#![allow(clippy::unwrap_used)]
//! What memory of a GPU does by itself. Results of kernels are compared in `tests/gpu.rs` of the root package.

use super::launch::Way;
use super::*;
use crate::tuning::Choice;
use engine_core::fuse::fuse;
use engine_core::ir::*;
use engine_core::op::Registry;

/// An emulated GPU; none, with a note, if there is none.
fn gpu() -> Option<WgpuDevice> {
    match WgpuDevice::new(Adapter::Software) {
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
    gpu.context.device.destroy();
    // Whoever waits is the first to hear of it.
    let outcomes = [
        gpu.context.wait(),
        gpu.write(&buffer, 0, &[0; 16]),
        gpu.read(&buffer, 0, &mut [0; 16]),
        gpu.allocate(16).map(drop),
        gpu.context.wait(),
    ];
    for (call, outcome) in outcomes.into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert!(matches!(error, DeviceError::Lost { .. }), "call {call}: {error}");
        assert!(error.to_string().contains(" was lost: "), "{error}");
    }
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
    assert!(said.ends_with("   1 @compute @workgroup_size(1) fn broken() { let x: f32 = 1u; }"), "{said}");
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

/// All ways run; which is the fastest is the GPU's affair.
#[test]
fn the_fastest_of_some_ways_is_one_of_them() {
    let Some(gpu) = gpu() else { return };
    let kernel = product(DType::F32, [128, 160, 512]);
    let ways: Vec<Way> = FusedKernel::cuts(&kernel, gpu.context.target).into_iter().map(Way::Tiles).collect();
    assert!(ways.len() > 2);
    let found = trial::fastest(&gpu.context, &kernel, &ways).unwrap();
    assert!(ways.contains(&found));
    // Nothing is tried where all are slow.
    assert_eq!(trial::way(&gpu.context, &kernel).unwrap(), Some(ways[0]));
}

/// A run that is resumed makes the choices of the run before, if it can.
#[test]
fn ways_are_kept_as_text() {
    let Some(gpu) = gpu() else { return };
    let kernel = product(DType::F32, [128, 160, 512]);
    let ways: Vec<Way> = FusedKernel::cuts(&kernel, gpu.context.target).into_iter().map(Way::Tiles).collect();
    for &way in &ways {
        let chosen = trial::Chosen::from_text(&trial::Chosen::of(way).to_text()).unwrap();
        assert_eq!(chosen.way(&ways), Some(way));
        assert_eq!(chosen.way(&[]), None);
    }
    assert_eq!(gpu.tuning(), None);
    assert!(!gpu.adopt(&Tuning::default()));
}

/// Rests would have to be masked, and other types are not for matrix units.
#[test]
fn matrix_units_are_for_halves_in_whole_blocks() {
    let n_blocks = |dtype, shape| matrix::blocks(&product(dtype, shape)).len();
    assert!(n_blocks(DType::F16, [256, 256, 64]) > n_blocks(DType::F16, [64, 64, 64]));
    assert_eq!(n_blocks(DType::F16, [64, 64, 64]), 1);
    for (dtype, shape) in
        [(DType::F16, [256, 250, 64]), (DType::F16, [256, 256, 40]), (DType::F32, [256, 256, 64])]
    {
        assert_eq!(n_blocks(dtype, shape), 0, "{dtype} {shape:?}");
    }
}
