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
use crate::gpu::queue::{Launches, Queue};
use crate::gpu::source::Source;
use cudarc::driver::CudaGraph;
use cudarc::driver::result::{self, launch_kernel};
use cudarc::driver::sys::CUstream;
use engine_core::codegen::ASSERTION_WORDS;
use engine_core::fusion::{Operand, Use};
use engine_core::plan::{Place, Plan};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The largest numbers of steps per graph. Longer graphs amortize the gap between two graph launches, which is long
/// compared with a short kernel. The rest of a run may become a graph of its own.
const MOST_STEPS: [usize; 3] = [1, 16, 320];
/// The largest number of launches in a graph of several steps. With more launches, the gap is negligible and
/// instantiating the graph is not.
const MOST_STARTS: usize = 1000;
/// Instantiating a graph takes up to milliseconds. The saved gaps repay that after so many launches.
const TIMES_TO_PAY: usize = 16;

/// The streams of a plan and its graphs.
pub struct CudaQueue {
    streams: PlanStreams,
    /// By launch: the events within its program.
    events: Vec<StepEvents>,
    /// By launch: the event of its end, if another launch waits for it.
    done: Vec<Option<Event>>,
    /// By number of steps: graphs, captured on demand. A changed binding discards them.
    graphs: HashMap<usize, CudaGraph>,
    /// The graph lengths in ascending order; equal where steps are too long for longer graphs.
    lengths: [usize; 3],
    /// By number of steps: how many times a graph of that length could have been launched.
    wanted: HashMap<usize, usize>,
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
            lengths: lengths(programs.iter().map(GpuProgram::<Context>::n_starts).sum()),
            wanted: HashMap::new(),
            is_warm: false,
            number_steps: number_steps(context)?,
            numbered: None,
            error_flag: Pinned::new(context, ASSERTION_WORDS)?,
            stop,
            submission_time: Duration::ZERO,
        })
    }

    fn cancel_by(&mut self, flag: Arc<AtomicBool>) {
        self.stop.follow(flag);
    }

    fn most_steps(&self) -> usize {
        self.lengths[2]
    }

    fn rebind(&mut self) {
        self.graphs.clear();
        self.wanted.clear();
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
        let (one, threads) = ((1, 1, 1), (self.lengths[2] as u32, 1, 1));
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
        for n in self.lengths_of(n_left) {
            self.number_from(launches, next)?;
            self.numbered = None;
            self.replay(launches, n)?;
            next = next.wrapping_add(n as u32);
            self.numbered = Some(next);
        }
        Ok(())
    }

    /// The lengths of the graphs that together run `n_steps` steps.
    fn lengths_of(&mut self, n_steps: usize) -> Vec<usize> {
        let [one, some, many] = self.lengths;
        if some == one {
            return vec![one; n_steps];
        }
        let n_many = if many > some && self.pays(many, n_steps / many) { n_steps / many } else { 0 };
        let rest = n_steps - n_many * many;
        let (n_some, rest) = (rest / some, rest % some);
        let last = if rest > one && self.pays(rest, 1) { vec![rest] } else { vec![one; rest] };
        [vec![many; n_many], vec![some; n_some], last].concat()
    }

    /// Whether a graph of `n_steps`, launched `n_times` now, repays its instantiation.
    fn pays(&mut self, n_steps: usize, n_times: usize) -> bool {
        let wanted = self.wanted.entry(n_steps).or_default();
        *wanted += n_times;
        *wanted > TIMES_TO_PAY
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
            let enqueue = || self.enqueue_launch(launches, number, 0, self.streams.stream(0));
            if *seconds < SHORT_SECONDS && !writes_over_integers(&launches.plan, number) {
                *seconds = clock::seconds(self.streams.main(), enqueue)?;
            } else {
                let _excluded = exclude_captures();
                enqueue()?;
            }
        }
        self.finish(launches)
    }
}

/// Whether a launch overwrites integers that it reads, so that a repetition would read invalid indices.
fn writes_over_integers(plan: &Plan, number: usize) -> bool {
    let launch = &plan.launches[number];
    let operands = &plan.kernels[launch.kernel].operands;
    let ranges = |is_wanted: &dyn Fn(&Operand) -> bool| -> Vec<Range<usize>> {
        let wanted = launch.buffers.iter().zip(operands).filter(|(_, operand)| is_wanted(operand));
        let ranges = wanted.filter_map(|(&id, operand)| match plan.buffers[id].place {
            Place::Arena(start) => Some(start..start + operand.ty.bytes()),
            Place::Input(_) => None,
        });
        ranges.collect()
    };
    let written = ranges(&|operand| operand.usage == Use::Write);
    let integers = ranges(&|operand| operand.usage == Use::Read && !operand.ty.dtype.is_float());
    integers.iter().any(|read| written.iter().any(|to| to.start < read.end && read.start < to.end))
}

/// The shortest time that events around a launch measure accurately.
const SHORT_SECONDS: f64 = 200e-6;

impl Drop for CudaQueue {
    fn drop(&mut self) {
        // Memory must not be freed while a kernel runs. A failure was reported by the run that it belongs to.
        let _ = self.streams.main().synchronize();
    }
}

/// The lengths of graphs of steps with `n_starts` launches each. Each length is a multiple of the one before.
fn lengths(n_starts: usize) -> [usize; 3] {
    let [one, some, many] = MOST_STEPS;
    if n_starts > MOST_STARTS {
        return [one; 3];
    }
    let fitting = MOST_STARTS / n_starts.max(1) / some * some;
    [one, some, fitting.clamp(some, many)]
}

/// The kernel that numbers steps.
fn number_steps(context: &Context) -> Result<Arc<Function>, DeviceError> {
    let [text, entry] = [NUMBER_STEPS, "number_steps"].map(str::to_string);
    let sources = [("step".to_string(), Source { text, entry, ..Source::default() })];
    Ok(context.state.kernels.load(&sources, |owner, source| context.compile(owner, source))?.remove(0))
}

/// Writes the numbers of the following steps, or adds to them.
const NUMBER_STEPS: &str = r#"
extern "C" __global__ void number_steps(unsigned int* steps, unsigned int first, unsigned int more) {
    unsigned int before = more == 0 ? first + threadIdx.x : steps[threadIdx.x];
    steps[threadIdx.x] = before + more;
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_with_fewer_launches_get_longer_graphs() {
        let found: Vec<_> = [1, 2, 9, 31, 62, 63, 1000, 1001].into_iter().map(lengths).collect();
        let of_one = [1, 16, 16];
        let expected =
            [[1, 16, 320], [1, 16, 320], [1, 16, 96], [1, 16, 32], of_one, of_one, of_one, [1, 1, 1]];
        assert_eq!(found, expected);
    }
}
