//! The ceilings of a device, measured with kernels of their own: bytes per second of a copy, operations per second of
//! matmuls.

use std::sync::Arc;

use engine_core::compile::{Options, compile};
use engine_core::ir::{Builder, DType, Graph, InputKind, Type};
use engine_core::numerics::Precision;
use engine_core::op::Registry;
use engine_core::plan::Place;
use engine_runtime::device::{Device, RunError};

/// A rate with the size at which it was measured.
pub(super) struct Measured {
    /// Per second: bytes read and written, or floating-point operations.
    pub(super) rate: f64,
    /// Elements of the copy, or each extent of the matmul.
    pub(super) size: usize,
}

/// Elements of copies that fit into caches, a few KiB to some MiB.
const CACHED: [usize; 4] = [1 << 12, 1 << 14, 1 << 17, 1 << 20];
/// Elements of the copy: from more than caches hold to enough to keep a fast GPU busy.
const COPIED: [usize; 3] = [1 << 24, 1 << 26, 1 << 28];
/// Extents of the matmul. The smallest takes an emulated GPU a moment.
const EXTENTS: [usize; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// A longer run is large enough, unless the smaller sizes were much slower.
const LONG_ENOUGH: f64 = 2e-3;
/// No size after a run of this length is measured.
const TOO_LONG: f64 = 5e-2;
/// The speedup of a size over the previous one for which a larger size is tried.
const WORTH_MORE: f64 = 1.05;
/// The number of runs, of which the shortest counts.
const N_RUNS: u32 = 8;

/// Bytes per second of a copy, reads and writes counted.
pub(super) fn copy(device: &Arc<dyn Device>) -> Result<Measured, RunError> {
    grow(&COPIED, |size| copied(device, size))
}

/// The rates of [`copy`] and of copies that fit into caches.
pub(super) fn copies(device: &Arc<dyn Device>) -> Result<Vec<Measured>, RunError> {
    let cached = CACHED.into_iter().map(|size| grow(&[size], |size| copied(device, size)));
    cached.chain([copy(device)]).collect()
}

/// Seconds and bytes of a copy of `size` elements.
fn copied(device: &Arc<dyn Device>, size: usize) -> Result<(f64, f64), RunError> {
    let seconds = best_time(device, Precision::F32, |b| {
        let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[size]));
        let y = b.scale(x, 2.0);
        b.graph.outputs.push(("y".into(), y));
    })?;
    Ok((seconds, 8.0 * size as f64))
}

/// Operations per second of a square matmul of noise.
pub(super) fn product(
    device: &Arc<dyn Device>,
    dtype: DType,
    precision: Precision,
) -> Result<Measured, RunError> {
    grow(&EXTENTS, |size| {
        let seconds = best_time(device, precision, |b| {
            let [x, w] =
                ["x", "w"].map(|name| b.input(name, InputKind::Data, Type::new(dtype, &[size, size])));
            let y = b.mm(x, w);
            b.graph.outputs.push(("y".into(), y));
        })?;
        Ok((seconds, 2.0 * (size as f64).powi(3)))
    })
}

/// The best rate over growing sizes, given seconds and work by size. It stops when a size takes long enough and is no
/// faster.
fn grow(
    sizes: &[usize],
    mut measure: impl FnMut(usize) -> Result<(f64, f64), RunError>,
) -> Result<Measured, RunError> {
    let mut best = Measured { rate: 0.0, size: 0 };
    for &size in sizes {
        let (seconds, work) = measure(size)?;
        let rate = work / seconds.max(1e-12);
        let is_faster = rate > WORTH_MORE * best.rate;
        if rate > best.rate {
            best = Measured { rate, size };
        }
        if seconds >= TOO_LONG || (seconds >= LONG_ENOUGH && !is_faster) {
            break;
        }
    }
    Ok(best)
}

/// The shortest of several runs of a graph of one kernel on noise, in seconds.
fn best_time(
    device: &Arc<dyn Device>,
    matmul: Precision,
    build: impl FnOnce(&mut Builder),
) -> Result<f64, RunError> {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("ceiling"), &registry);
    build(&mut builder);
    let options = Options { matmul, ..Options::default() };
    let plan = Arc::new(compile(&builder.graph, &registry, &options).plan);
    let mut executable = device.prepare(Arc::clone(&plan), 0)?;
    for buffer in &plan.buffers {
        if buffer.place != Place::Input(InputKind::Data) {
            continue;
        }
        let memory = device.allocate(buffer.ty.bytes())?;
        let noise = noise(buffer.ty.dtype);
        for start in (0..memory.bytes()).step_by(noise.len()) {
            device.write(&memory, start, &noise[..noise.len().min(memory.bytes() - start)])?;
        }
        executable.bind(&buffer.name, &memory)?;
    }
    let mut best = f64::INFINITY;
    for step in 0..N_RUNS {
        best = best.min(executable.profile(step)?.iter().map(|time| time.seconds).sum());
    }
    Ok(best)
}

/// Some MiB of numbers of both signs between a half and one. The speed of a matmul depends on the bits of its factors.
fn noise(dtype: DType) -> Vec<u8> {
    let (kept, set): (u32, u32) = match dtype {
        DType::F16 => (0x83ff_83ff, 0x3800_3800),
        DType::BF16 => (0x807f_807f, 0x3f00_3f00),
        _ => (0x807f_ffff, 0x3f00_0000),
    };
    let mut state = 1u32;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state & kept) | set
    };
    (0..1 << 20).flat_map(|_| word().to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_grow_as_long_as_that_is_worth_it() {
        let grown = |rates: [f64; 5]| {
            let mut asked = vec![];
            let measured = grow(&[1, 10, 100, 1000, 10000], |size| {
                asked.push(size);
                let rate = rates[asked.len() - 1];
                Ok((size as f64 * 1e-5, size as f64 * 1e-5 * rate))
            });
            let Measured { rate, size } = measured.unwrap();
            (rate.round(), size, asked.len())
        };
        // Size 1000 takes long enough, and is no faster than 100.
        assert_eq!(grown([1.0, 50.0, 80.0, 81.0, 900.0]), (81.0, 1000, 4));
        assert_eq!(grown([1.0, 50.0, 80.0, 70.0, 900.0]), (80.0, 100, 4));
        // Size 1000 is faster, so a larger one is tried. That one takes too long for a further one.
        assert_eq!(grown([1.0, 50.0, 80.0, 90.0, 900.0]), (900.0, 10000, 5));
    }

    #[test]
    fn noise_is_finite_and_never_small() {
        for (dtype, size) in [(DType::F32, 4), (DType::F16, 2), (DType::BF16, 2)] {
            let bytes = noise(dtype);
            let tensor =
                engine_runtime::tensor::HostTensor::from_bytes(dtype, &[bytes.len() / size], &bytes).unwrap();
            assert!(tensor.to_f64().iter().all(|x| (0.5..1.0).contains(&x.abs())), "{dtype}");
        }
    }
}
