//! The steps of a plan on CUDA: enqueued on streams, captured as graphs and replayed.

use super::clock;
use super::compile::Function;
use super::context::Context;
use super::error::failed;
use super::event::Event;
use super::graph::{capture, exclude_captures};
use super::memory::Pinned;
use super::steps::{StepEvents, enqueue};
use super::stop::Stop;
use super::streams::{PlanStream, PlanStreams};
use crate::device::{Arrival, DeviceError, RunError};
use crate::gpu::api::{Gpu, GpuProgram};
use crate::gpu::graph_lengths::GraphLengths;
use crate::gpu::queue::{Launches, Queue};
use crate::gpu::source::Source;
use cudarc::driver::CudaGraph;
use cudarc::driver::result::{self, launch_kernel};
use cudarc::driver::sys::CUstream;
use engine_core::codegen::ASSERTION_WORDS;
use engine_core::plan::Plan;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The streams of a plan and its graphs.
pub struct CudaQueue {
    streams: PlanStreams,
    /// By launch: the events within its program.
    events: Vec<StepEvents>,
    /// By launch: the event of its end, if another launch waits for it.
    done: Vec<Option<Event>>,
    /// By number of steps: graphs, captured on demand. A changed binding discards them.
    graphs: HashMap<usize, CudaGraph>,
    lengths: GraphLengths,
    /// Whether a step has run, so that the libraries have loaded their code.
    is_warm: bool,
    /// Writes step numbers. The arguments of captured kernels are fixed, so each step of the longest graph has its own
    /// number in memory, and a graph ends with a kernel that writes the numbers of the following steps.
    number_steps: Arc<Function>,
    /// The first of those numbers; `None` if it is not known.
    numbered: Option<u32>,
    /// A copy of the error flag after the last run.
    error_flag: Pinned,
    stop: Arc<Stop>,
    submission_time: Duration,
}

// SAFETY: the handles have one owner, and the driver permits their use by any thread.
unsafe impl Send for CudaQueue {}

impl Queue<Context> for CudaQueue {
    fn new(
        context: &Arc<Context>,
        plan: &Plan,
        programs: &[GpuProgram<Context>],
    ) -> Result<CudaQueue, DeviceError> {
        let done = (0..plan.launches.len()).map(|launch| {
            let is_awaited = plan.launches.iter().any(|other| other.waits.contains(&launch));
            is_awaited.then(Event::new).transpose().map_err(|error| failed("making an event", &error))
        });
        let n_streams = plan.launches.iter().map(|launch| launch.stream + 1).max().unwrap_or(1);
        let stop = Arc::new(Stop::new(context)?);
        let events = programs.iter().map(|program| StepEvents::new(context, &program.steps, &stop));
        Ok(CudaQueue {
            streams: PlanStreams::new(context, n_streams)?,
            events: events.collect::<Result<_, _>>()?,
            done: done.collect::<Result<_, DeviceError>>()?,
            graphs: HashMap::new(),
            lengths: GraphLengths::new(programs.iter().map(GpuProgram::<Context>::n_starts).sum()),
            is_warm: false,
            number_steps: number_steps(context)?,
            numbered: None,
            error_flag: Pinned::new(context, ASSERTION_WORDS)?,
            stop,
            submission_time: Duration::ZERO,
        })
    }

    fn cancel_by(&mut self, flag: Arc<AtomicBool>) {
        // Other steps are short, and a wait that polls takes longer.
        if self.events.iter().any(StepEvents::has_loops) {
            self.stop.follow(flag);
        }
    }

    fn most_steps(&self) -> usize {
        self.lengths.most()
    }

    fn rebind(&mut self) {
        self.graphs.clear();
        self.lengths.forget();
    }

    fn wait_for(&mut self, arrival: &Arrival) -> Result<(), DeviceError> {
        let Some(event) = arrival.event::<Event>() else { return Ok(()) };
        event.hold(self.stream()).map_err(|error| failed("waiting for rows", &error))
    }

    fn run(&mut self, launches: &Launches<Context>, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        let start = Instant::now();
        // A run before this one may have been cancelled.
        self.stop.is_cancelled();
        self.start(launches, first_step, n_steps as usize)?;
        self.submission_time = start.elapsed();
        self.finish(launches)
    }

    fn submission_time(&self) -> Duration {
        self.submission_time
    }

    fn profile(&mut self, launches: &Launches<Context>, step: u32) -> Result<Vec<f64>, RunError> {
        let driver_error = |error| failed("measuring a step", &error);
        let event = || Event::new().map_err(driver_error);
        let n_launches = launches.programs.len();
        let events = (0..=n_launches).map(|_| event()).collect::<Result<Vec<_>, DeviceError>>()?;
        self.number_from(launches, step)?;
        events[0].record(self.stream()).map_err(driver_error)?;
        // Launches run one after the other, so that each has the whole device.
        let excluded = exclude_captures();
        for (number, after) in events[1..].iter().enumerate() {
            self.enqueue_launch(launches, number, 0, self.streams.stream(0))?;
            after.record(self.stream()).map_err(driver_error)?;
        }
        drop(excluded);
        self.is_warm = true;
        self.finish(launches)?;
        let seconds = events.windows(2).map(|pair| pair[0].seconds_to(&pair[1]).map_err(driver_error));
        let mut seconds = seconds.collect::<Result<Vec<f64>, DeviceError>>()?;
        self.measure_short(launches, step, &mut seconds)?;
        Ok(seconds)
    }
}

impl CudaQueue {
    fn stream(&self) -> CUstream {
        self.streams.main().cu_stream()
    }

    /// Writes the numbers of the steps that are enqueued next, from `first` on, unless they are in place.
    fn number_from(&mut self, launches: &Launches<Context>, first: u32) -> Result<(), DeviceError> {
        if self.numbered != Some(first) {
            self.number_steps(launches, first, 0)?;
            self.numbered = Some(first);
        }
        Ok(())
    }

    /// Numbers all steps from `first` on, or adds `more` to their numbers if it is not 0.
    fn number_steps(&self, launches: &Launches<Context>, first: u32, more: u32) -> Result<(), DeviceError> {
        if !launches.memory.reads_steps() {
            return Ok(());
        }
        let (mut start, mut first, mut more) = (launches.memory.steps().start(), first, more);
        let mut arguments = [(&raw mut start).cast(), (&raw mut first).cast(), (&raw mut more).cast()];
        let (one, threads) = ((1, 1, 1), (self.lengths.most() as u32, 1, 1));
        // SAFETY: the arguments are those of `NUMBER_STEPS`, in which each thread writes one of the numbers.
        let launched = unsafe {
            launch_kernel(self.number_steps.handle, one, threads, 0, self.stream(), &mut arguments)
        };
        launched.map_err(|error| failed("numbering steps", &error))
    }

    /// Enqueues steps whose numbers are in place, and then the numbering of the following steps.
    fn enqueue(&self, launches: &Launches<Context>, n_steps: usize) -> Result<(), DeviceError> {
        (0..n_steps).try_for_each(|step| self.enqueue_step(launches, step))?;
        self.number_steps(launches, 0, n_steps as u32)
    }

    fn enqueue_step(&self, launches: &Launches<Context>, step: usize) -> Result<(), DeviceError> {
        self.streams.begin()?;
        for (number, launch) in launches.plan.launches.iter().enumerate() {
            let stream = self.streams.stream(launch.stream);
            for event in launch.waits.iter().filter_map(|&before| self.done[before].as_ref()) {
                stream.wait(event)?;
            }
            self.enqueue_launch(launches, number, step, stream)?;
            if let Some(event) = &self.done[number] {
                stream.record(event)?;
            }
        }
        self.streams.end()
    }

    /// Enqueues the program of a launch on a stream.
    fn enqueue_launch(
        &self,
        launches: &Launches<Context>,
        number: usize,
        step: usize,
        stream: &PlanStream,
    ) -> Result<(), DeviceError> {
        let memory = launches.memory.launch(number, step);
        enqueue(&launches.programs[number], &self.events[number], &memory, stream)
    }

    fn start(
        &mut self,
        launches: &Launches<Context>,
        first_step: u32,
        n_steps: usize,
    ) -> Result<(), DeviceError> {
        let (mut next, mut n_left) = (first_step, n_steps);
        if !self.is_warm && n_left > 0 {
            self.number_from(launches, next)?;
            // The numbers are unknown until the kernel that writes the next ones is enqueued.
            self.numbered = None;
            // The libraries load code at first use, which cannot be captured.
            let excluded = exclude_captures();
            self.enqueue(launches, 1)?;
            drop(excluded);
            self.is_warm = true;
            next = next.wrapping_add(1);
            self.numbered = Some(next);
            n_left -= 1;
        }
        for n in self.lengths.of_run(n_left) {
            self.number_from(launches, next)?;
            self.numbered = None;
            self.replay(launches, n)?;
            next = next.wrapping_add(n as u32);
            self.numbered = Some(next);
        }
        Ok(())
    }

    fn replay(&mut self, launches: &Launches<Context>, n_steps: usize) -> Result<(), DeviceError> {
        if !self.graphs.contains_key(&n_steps) {
            let graph = capture(self.streams.main(), || self.enqueue(launches, n_steps))?;
            self.graphs.insert(n_steps, graph);
        }
        self.graphs[&n_steps].launch().map_err(|error| failed("launching a step", &error))
    }

    /// Waits for the stream, and reports a failed assertion or that the run was cancelled.
    fn finish(&mut self, launches: &Launches<Context>) -> Result<(), RunError> {
        let (stream, start) = (self.stream(), launches.memory.error_flag().start());
        // SAFETY: the words live as long as the queue, which waits for the copy before it reads them.
        let done = unsafe {
            result::memcpy_dtoh_async(self.error_flag.words(), start, stream)
                .and_then(|()| self.stop.wait(stream))
        };
        done.map_err(|error| failed("running a step", &error))?;
        launches.memory.outcome(self.error_flag.words())?;
        if self.stop.is_cancelled() { Err(RunError::Cancelled) } else { Ok(()) }
    }

    /// Measures short kernels again. Events around a launch include its overhead, which exceeds the time of a short
    /// kernel, so the kernel is repeated in one captured graph. It is repeated at its place in the step, because later
    /// launches may overwrite its operands. State that it writes is written each time.
    fn measure_short(
        &mut self,
        launches: &Launches<Context>,
        step: u32,
        seconds: &mut [f64],
    ) -> Result<(), RunError> {
        self.number_from(launches, step)?;
        for (number, seconds) in seconds.iter_mut().enumerate() {
            let enqueue = || {
                let stream = self.streams.stream(0);
                stream.main().enqueues(false);
                self.enqueue_launch(launches, number, 0, stream)
            };
            if *seconds < SHORT_SECONDS && launches.can_repeat(number) {
                *seconds = clock::seconds(self.streams.main(), enqueue)?;
            } else {
                let _excluded = exclude_captures();
                enqueue()?;
            }
        }
        self.finish(launches)
    }
}

/// The shortest time that events around a launch measure accurately.
const SHORT_SECONDS: f64 = 200e-6;

impl Drop for CudaQueue {
    fn drop(&mut self) {
        // Memory must not be freed while a kernel runs. A failure was reported by the run that it belongs to.
        let _ = self.streams.main().synchronize();
    }
}

/// The kernel that numbers steps.
fn number_steps(context: &Context) -> Result<Arc<Function>, DeviceError> {
    let [text, entry] = [NUMBER_STEPS, "number_steps"].map(str::to_string);
    let source = Source { text, entry, ..Source::default() };
    context.state.kernels.load_one("step", source, |owner, source| context.compile(owner, source))
}

/// Writes the numbers of the following steps, or adds to them.
const NUMBER_STEPS: &str = r#"
extern "C" __global__ void number_steps(unsigned int* steps, unsigned int first, unsigned int more) {
    unsigned int before = more == 0 ? first + threadIdx.x : steps[threadIdx.x];
    steps[threadIdx.x] = before + more;
}
"#;
