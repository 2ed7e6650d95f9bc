//! Steps of a program, enqueued on a stream and its side stream.

use super::compile::Function;
use super::context::Context;
use super::error::failed;
use super::event::Event;
use super::library_call::CallAddresses;
use super::loops::{Ends, Trips};
use super::memory::CudaMemory;
use super::stop::Stop;
use super::streams::{Lane, PlanStream, record};
use super::tensor_map;
use crate::device::DeviceError;
use crate::gpu::api::{GpuProgram, Located, MemoryPart};
use crate::gpu::events::Events;
use crate::gpu::prepared::{PreparedStep, Work};
use cudarc::driver::result::{launch_kernel, memcpy_dtod_async, memset_d8_async};
use cudarc::driver::sys::{
    CUdeviceptr, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream,
    cuLaunchKernelEx,
};
use engine_core::program::Place;
use std::ffi::c_void;
use std::sync::Arc;

/// The events that order the steps of a program on different branches.
pub struct StepEvents {
    /// By step: the event of its end, if another step waits for it.
    done: Vec<Option<usize>>,
    /// Reused within the program.
    events: Vec<Event>,
    /// Whether a step runs on the side stream.
    forks: bool,
    /// What loops need, if there are any.
    trips: Option<Trips>,
}

impl StepEvents {
    pub fn new(
        context: &Arc<Context>,
        steps: &[PreparedStep],
        stop: &Arc<Stop>,
    ) -> Result<StepEvents, DeviceError> {
        let waits: Vec<&[usize]> = steps.iter().map(|step| &*step.waits).collect();
        let Events { done, n_events } = Events::new(&waits);
        let event = |_| Event::new().map_err(|error| failed("making an event", &error));
        Ok(StepEvents {
            done,
            events: (0..n_events).map(event).collect::<Result<_, _>>()?,
            forks: steps.iter().any(|step| step.branch > 0),
            trips: Trips::of(context, steps, stop)?,
        })
    }

    /// Whether a step is a loop.
    pub fn has_loops(&self) -> bool {
        self.trips.is_some()
    }
}

/// Enqueues all steps of a program.
pub fn enqueue(
    program: &GpuProgram<Context>,
    events: &StepEvents,
    memory: &dyn Located<CudaMemory>,
    streams: &PlanStream,
) -> Result<(), DeviceError> {
    if !events.forks {
        let trips = events.trips.as_ref();
        return program
            .steps
            .iter()
            .try_for_each(|step| start((program, trips), step, (memory, &[]), streams.main()));
    }
    streams.fork()?;
    for (number, step) in program.steps.iter().enumerate() {
        let lane = if step.branch == 0 { streams.main() } else { streams.beside() };
        let awaited = step.waits.iter().filter_map(|&before| events.done[before]);
        for event in awaited {
            lane.wait(&events.events[event])?;
        }
        start((program, events.trips.as_ref()), step, (memory, &[]), lane)?;
        if let Some(done) = events.done[number] {
            record(&events.events[done], lane.stream())?;
        }
    }
    streams.join()
}

/// A place that lies so many bytes further on: the numbers of trips that are enqueued at once follow each other.
type Moved = (Place, u64);

fn start(
    (program, trips): (&GpuProgram<Context>, Option<&Trips>),
    step: &PreparedStep,
    (memory, moved): (&dyn Located<CudaMemory>, &[Moved]),
    lane: &Lane,
) -> Result<(), DeviceError> {
    let Work::Kernel { kernel, .. } = &step.work else {
        lane.enqueues(false);
        return start_on((program, trips), step, (memory, moved), (lane.stream(), false));
    };
    let waits_itself = program.kernels[*kernel].waits_itself;
    let starts_early = lane.enqueues(waits_itself) && waits_itself;
    start_on((program, trips), step, (memory, moved), (lane.stream(), starts_early))
}

fn start_on(
    (program, trips): (&GpuProgram<Context>, Option<&Trips>),
    step: &PreparedStep,
    (memory, moved): (&dyn Located<CudaMemory>, &[Moved]),
    (stream, starts_early): (CUstream, bool),
) -> Result<(), DeviceError> {
    let at = |place: Place| {
        let moved = moved.iter().find(|(moved, _)| *moved == place).map_or(0, |(_, bytes)| *bytes);
        address(&memory.part(place)) + moved
    };
    match &step.work {
        Work::Kernel { kernel, arguments, grid, info } => {
            let pointers = arguments.iter().map(|&place| at(place)).collect();
            launch(&program.kernels[*kernel], (stream, starts_early), pointers, (*grid, info))
        }
        Work::Product { product, factors, result, added, bias } => {
            let addresses = CallAddresses {
                // cuBLASLt computes the transposed product in column-major order, so the right factor comes first.
                factors: [factors[1], factors[0]].map(at),
                result: at(*result),
                added: added.map(at),
                bias: bias.map(at),
            };
            let workspace = memory.library();
            let first = address(&workspace);
            program.products[*product].launch(addresses, &(first..first + workspace.bytes as u64), stream)
        }
        work @ Work::Loop { body, trips: most, until, number } => {
            let failed = at(Place::Assertions);
            let ends = Ends { until: until.map_or(0, at), number: at(*number), trips: *most, failed };
            let trip = |stream, trip: usize| {
                let moved = [&[(*number, (size_of::<i32>() * trip) as u64)], moved].concat();
                body.iter()
                    .try_for_each(|step| start_on((program, trips), step, (memory, &moved), (stream, false)))
            };
            Trips::enqueue(trips, work, ends, stream, &trip)
        }
        Work::Copy { from, to, bytes } => {
            // SAFETY: the plan's verifier has checked that both places lie within live memory.
            unsafe { memcpy_dtod_async(at(*to), at(*from), *bytes, stream) }
                .map_err(|error| failed("copying memory", &error))
        }
        Work::Fill { to, bytes, byte } => {
            // SAFETY: as above.
            unsafe { memset_d8_async(at(*to), *byte, *bytes, stream) }
                .map_err(|error| failed("filling memory", &error))
        }
    }
}

fn address(part: &MemoryPart<CudaMemory>) -> CUdeviceptr {
    part.memory.start() + part.offset as u64
}

/// Launches a kernel. If it `starts_early`, its blocks may start while the kernel before it on the stream still runs.
fn launch(
    function: &Function,
    (stream, starts_early): (CUstream, bool),
    mut pointers: Vec<CUdeviceptr>,
    ([columns, rows, layers], info): ([u32; 3], &[u64]),
) -> Result<(), DeviceError> {
    let mut maps = tensor_map::encoded(&function.maps, &pointers)?;
    let mut arguments: Vec<*mut c_void> = maps.iter_mut().map(|map| (&raw mut *map).cast()).collect();
    arguments.extend(pointers.iter_mut().map(|start| (&raw mut *start).cast::<c_void>()));
    arguments.push(info.as_ptr().cast_mut().cast());
    let [x, y, z] = function.threads;
    let shared_bytes = function.shared_bytes as u32;
    // SAFETY: the arguments match the kernel's signature, and the driver copies them during the call. The plan's
    // verifier has checked the memory that they refer to.
    let launched = unsafe {
        if starts_early {
            let mut early = CUlaunchAttribute {
                id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                pad: [0; 4],
                value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            };
            let config = CUlaunchConfig {
                gridDimX: columns,
                gridDimY: rows,
                gridDimZ: layers,
                blockDimX: x,
                blockDimY: y,
                blockDimZ: z,
                sharedMemBytes: shared_bytes,
                hStream: stream,
                attrs: &raw mut early,
                numAttrs: 1,
            };
            let (handle, none) = (function.handle, std::ptr::null_mut());
            cuLaunchKernelEx(&config, handle, arguments.as_mut_ptr(), none).result()
        } else {
            let grid = (columns, rows, layers);
            launch_kernel(function.handle, grid, (x, y, z), shared_bytes, stream, &mut arguments)
        }
    };
    launched.map_err(|error| failed(&format!("starting a `{}` kernel", function.entry), &error))
}
