//! The clock of autotuning on CUDA: programs and products on memory full of noise, many turns in one captured graph.

use super::compile::Text;
use super::context::{Context, failed};
use super::event::Event;
use super::graph::{exclude_captures, capture};
use super::memory::Memory;
use super::product::Product;
use super::steps::{Addresses, Prepared};
use super::streams::PlanStreams;
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::autotune::Bench;
use cudarc::driver::CudaStream;
use cudarc::driver::result::launch_kernel;
use cudarc::driver::sys::CUdeviceptr;
use engine_core::codegen::assertion_words;
use engine_core::fusion::Kernel;
use engine_core::ir::DType;
use engine_core::program::{Capability, MatmulCall, Multiplier, Program};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A GPU that times programs.
pub struct CudaBench<'c>(pub &'c Arc<Context>);

/// A program on memory of its own.
pub struct ProgramTrial {
    prepared: Prepared,
    streams: PlanStreams,
    workspace: Memory,
    library: Memory,
    assertions: Memory,
}

impl Bench for CudaBench<'_> {
    type Operands = Vec<Memory>;
    type Trial = ProgramTrial;

    fn tuner(&self) -> &Tuner {
        &self.0.tuner
    }

    fn disk(&self) -> &DiskCache {
        &self.0.kernels.disk
    }

    fn can_time(&self) -> bool {
        true
    }

    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError> {
        if call.multiplier != Multiplier::Library {
            return Ok(Capability::None);
        }
        let product = Product::new(self.0, call)?;
        Ok(product.map_or(Capability::None, |product| Capability::Algorithm(product.algorithm_text())))
    }

    fn operands(&self, kernel: &Kernel) -> Result<Vec<Memory>, DeviceError> {
        warm_up(self.0)?;
        let operands = kernel.operands.iter().map(|operand| {
            let memory = Memory::new(self.0, operand.ty.bytes().next_multiple_of(16))?;
            if operand.ty.dtype.is_float() {
                fill(self.0, &memory, operand.ty.dtype)?;
            }
            Ok(memory)
        });
        operands.collect()
    }

    fn trial(&self, kernel: &Kernel, program: Program) -> Result<ProgramTrial, DeviceError> {
        let context = self.0;
        context.enter()?;
        let mut prepared = Prepared::new(context, &kernel.name, &program, 0)?;
        let texts: Vec<Text> = prepared.texts(&kernel.name).collect();
        let functions = context.kernels.load(&texts)?;
        prepared.take(&mut functions.into_iter());
        let library = context.model.library.filter(|_| program.calls_library());
        Ok(ProgramTrial {
            prepared,
            streams: PlanStreams::new(context, 1)?,
            workspace: Memory::new(context, program.workspace_bytes)?,
            library: Memory::new(context, library.map_or(0, |library| library.workspace_bytes))?,
            assertions: Memory::new(context, 4 * assertion_words(kernel.assertions()))?,
        })
    }

    fn seconds(&self, operands: &Vec<Memory>, trial: &ProgramTrial, _: f64) -> Result<f64, DeviceError> {
        let operands: Vec<CUdeviceptr> = operands.iter().map(Memory::start).collect();
        // Of rows whose panels are not tried, nothing is known.
        trial.workspace.clear()?;
        let addresses = Addresses {
            operands: &operands,
            workspace: trial.workspace.start(),
            library: trial.library.range(),
            assertions: trial.assertions.start(),
            stream: trial.streams.stream(0),
        };
        seconds(trial.streams.main(), || trial.prepared.enqueue(&addresses))
    }
}

/// Keeps the GPU busy until it runs at its speed, once: an idle GPU runs at a fraction of its clock, and takes a while to get up to it.
pub fn warm_up(context: &Arc<Context>) -> Result<(), DeviceError> {
    if context.is_warmed_up.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let memory = Memory::new(context, 64 << 20)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(60) {
        fill(context, &memory, DType::F32)?;
    }
    Ok(())
}

/// The time of what `enqueue` puts on the stream.
pub fn seconds(
    stream: &Arc<CudaStream>,
    enqueue: impl Fn() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let driver_error = |error| failed("trying a kernel", &error);
    // What the libraries load at first use cannot be captured.
    {
        let _excluded = exclude_captures();
        enqueue()?;
    }
    let graph = capture(stream, || (0..N_TURNS).try_for_each(|_| enqueue()))?;
    graph.launch().map_err(driver_error)?;
    let (begin, end) = (Event::new().map_err(driver_error)?, Event::new().map_err(driver_error)?);
    begin.record(stream.cu_stream()).map_err(driver_error)?;
    graph.launch().map_err(driver_error)?;
    end.record(stream.cu_stream()).map_err(driver_error)?;
    stream.synchronize().map_err(driver_error)?;
    Ok(begin.seconds_to(&end).map_err(driver_error)? / N_TURNS as f64)
}

/// Turns of a measurement, launched at once.
const N_TURNS: usize = 16;

/// Fills memory with numbers of both signs between a half and one.
pub fn fill(context: &Arc<Context>, memory: &Memory, element: DType) -> Result<(), DeviceError> {
    // What each word keeps of the noise, and the exponents that it gets; the low words of doubles are all noise.
    let (kept, set): ([u32; 2], [u32; 2]) = match element {
        DType::F64 => ([0xffff_ffff, 0x800f_ffff], [0, 0x3fe0_0000]),
        DType::F16 => ([0x83ff_83ff; 2], [0x3800_3800; 2]),
        DType::BF16 => ([0x807f_807f; 2], [0x3f00_3f00; 2]),
        _ => ([0x807f_ffff; 2], [0x3f00_0000; 2]),
    };
    let text = Text { owner: "noise", text: FILL, entry: "fill", shared_bytes: 0 };
    let [function] = context.kernels.load(&[text])?[..] else { engine_core::bug!("one kernel for one text") };
    let (mut start, mut n_words) = (memory.start(), memory.bytes() as u64 / 4);
    let (mut kept, mut set) = (kept, set);
    let [kept_even, kept_odd] = &mut kept;
    let [set_even, set_odd] = &mut set;
    let mut arguments = [
        (&raw mut start).cast(),
        (&raw mut n_words).cast(),
        (&raw mut *kept_even).cast(),
        (&raw mut *kept_odd).cast(),
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
    unsigned int kept_even, unsigned int kept_odd, unsigned int set_even, unsigned int set_odd
) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n_words; i += step) {
        unsigned int x = (unsigned int)i * 2654435761u + 12345u;
        x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
        words[i] = i % 2 == 0 ? (x & kept_even) | set_even : (x & kept_odd) | set_odd;
    }
}
"#;
