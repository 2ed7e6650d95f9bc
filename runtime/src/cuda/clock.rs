//! The clock of autotuning on CUDA: events around a captured graph of many repetitions.

use super::compile::Text;
use super::context::Context;
use super::error::failed;
use super::event::Event;
use super::graph::{capture, exclude_captures};
use super::memory::Memory;
use crate::device::DeviceError;
use crate::gpu;
use crate::gpu::noise::NoiseBits;
use cudarc::driver::CudaStream;
use cudarc::driver::result::launch_kernel;
use engine_core::ir::DType;
use std::sync::Arc;

/// Keeps the GPU busy until it reaches its full clock rate, once.
pub fn warm_up(context: &Arc<Context>) -> Result<(), DeviceError> {
    gpu::autotune::warm_up(&context.is_warmed_up, |is_cold| {
        let memory = Memory::new(context, 64 << 20)?;
        while is_cold() {
            fill(context, &memory, DType::F32)?;
        }
        Ok(())
    })
}

/// The time of the work that `enqueue` puts on the stream.
pub fn seconds(
    stream: &Arc<CudaStream>,
    enqueue: impl Fn() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let driver_error = |error| failed("trying a kernel", &error);
    // The libraries load code at first use, which cannot be captured.
    {
        let _excluded = exclude_captures();
        enqueue()?;
    }
    let graph = capture(stream, || (0..N_REPETITIONS).try_for_each(|_| enqueue()))?;
    graph.launch().map_err(driver_error)?;
    let (begin, end) = (Event::new().map_err(driver_error)?, Event::new().map_err(driver_error)?);
    begin.record(stream.cu_stream()).map_err(driver_error)?;
    graph.launch().map_err(driver_error)?;
    end.record(stream.cu_stream()).map_err(driver_error)?;
    stream.synchronize().map_err(driver_error)?;
    Ok(begin.seconds_to(&end).map_err(driver_error)? / N_REPETITIONS as f64)
}

/// Repetitions of a measurement, in one graph.
const N_REPETITIONS: usize = 16;

/// Fills memory with noise of an element type.
pub fn fill(context: &Arc<Context>, memory: &Memory, element: DType) -> Result<(), DeviceError> {
    let Some(NoiseBits { keep, set }) = NoiseBits::of(element) else { return Ok(()) };
    let text = Text { owner: "noise", text: FILL, entry: "fill", shared_bytes: 0 };
    let [function] = context.kernels.load(&[text])?[..] else { engine_core::bug!("one kernel for one text") };
    let (mut start, mut n_words) = (memory.start(), memory.bytes() as u64 / 4);
    let (mut keep, mut set) = (keep, set);
    let [keep_even, keep_odd] = &mut keep;
    let [set_even, set_odd] = &mut set;
    let mut arguments = [
        (&raw mut start).cast(),
        (&raw mut n_words).cast(),
        (&raw mut *keep_even).cast(),
        (&raw mut *keep_odd).cast(),
        (&raw mut *set_even).cast(),
        (&raw mut *set_odd).cast(),
    ];
    let stream = context.new_stream()?;
    let driver_error = |error| failed("filling memory with noise", &error);
    let _excluded = exclude_captures();
    // SAFETY: the arguments are those of `FILL`, which writes whole words inside the memory.
    unsafe { launch_kernel(function.0, (1024, 1, 1), (256, 1, 1), 0, stream.cu_stream(), &mut arguments) }
        .map_err(driver_error)?;
    stream.synchronize().map_err(driver_error)
}

const FILL: &str = r#"
extern "C" __global__ void fill(
    unsigned int* words, unsigned long long n_words,
    unsigned int keep_even, unsigned int keep_odd, unsigned int set_even, unsigned int set_odd
) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n_words; i += step) {
        unsigned int x = (unsigned int)i * 2654435761u + 12345u;
        x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
        words[i] = i % 2 == 0 ? (x & keep_even) | set_even : (x & keep_odd) | set_odd;
    }
}
"#;
