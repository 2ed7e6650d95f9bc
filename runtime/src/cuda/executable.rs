//! A plan on a GPU: loaded kernels, allocated memory and captured graphs.

use super::autotune::CudaBench;
use super::clock;
use super::compile::{Function, Text};
use super::context::Context;
use super::error::failed;
use super::event::Event;
use super::graph::{capture, exclude_captures};
use super::memory::{Memory, Pinned};
use super::steps::{Addresses, Prepared};
use super::streams::{PlanStream, PlanStreams};
use crate::bindings::Bindings;
use crate::device::{Arrival, DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use crate::gpu;
use cudarc::driver::CudaGraph;
use cudarc::driver::result::{self, launch_kernel};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::codegen::{ASSERTION_WORDS, assertion_words};
use engine_core::fusion::{Operand, Use};
use engine_core::ir::InputKind;
use engine_core::plan::{BufferId, Place, Plan};
use engine_core::program::{Programs, Workspaces};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The largest numbers of steps per graph. Longer graphs amortize the gap between two graph launches, which is long
/// compared with a short kernel. The rest of a run may become a graph of its own.
const MOST_STEPS: [usize; 3] = [1, 16, 320];
/// The largest number of launches in a graph of several steps. With more launches, the gap is negligible and
/// instantiating the graph is not.
const MOST_STARTS: usize = 1000;
/// Instantiating a graph takes up to milliseconds. The saved gaps repay that after so many launches.
const TIMES_TO_PAY: usize = 16;

/// A plan, ready to run.
pub struct CudaExecutable {
    context: Arc<Context>,
    plan: Arc<Plan>,
    streams: PlanStreams,
    /// The workspaces of all launches.
    workspace: Memory,
    workspaces: Workspaces,
    arena: Memory,
    error_flag: Memory,
    /// A copy of the error flag after the last run.
    error_flag_on_host: Pinned,
    /// A step number for each step of the longest graph, since the arguments of captured kernels are fixed. A graph ends
    /// with a kernel that writes the numbers of the following steps.
    steps: Memory,
    number_steps: Function,
    /// The first of those numbers; `None` if it is not known.
    numbered: Option<u32>,
    /// Whether a kernel reads the step number.
    reads_steps: bool,
    bindings: Bindings<Memory>,
    /// By buffer of the plan: its address; 0 while it is unknown.
    addresses: Vec<CUdeviceptr>,
    launches: Vec<Prepared>,
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
    /// The time that the host took to enqueue the last run.
    submission_time: Duration,
}

// SAFETY: the handles have one owner, and the driver permits their use by any thread.
unsafe impl Send for CudaExecutable {}

impl CudaExecutable {
    pub fn new(context: &Arc<Context>, plan: Arc<Plan>, seed: u64) -> Result<CudaExecutable, DeviceError> {
        let programs = gpu::programs(&plan, &context.name, &context.model, CudaBench(context))?;
        let Programs { programs, workspaces } = programs;
        let mut launches = vec![];
        for (launch, program) in plan.launches.iter().zip(&programs) {
            launches.push(Prepared::new(context, &plan.kernels[launch.kernel].name, program, seed)?);
        }
        let number_steps = compile_all(context, &plan, &mut launches)?;
        let n_streams = plan.launches.iter().map(|launch| launch.stream + 1).max().unwrap_or(1);
        let done = (0..plan.launches.len()).map(|launch| {
            let is_awaited = plan.launches.iter().any(|other| other.waits.contains(&launch));
            is_awaited.then(Event::new).transpose().map_err(|error| failed("making an event", &error))
        });
        let done = done.collect::<Result<Vec<_>, DeviceError>>()?;
        let addresses = plan.buffers.iter().map(|_| 0).collect();
        let lengths = lengths(launches.iter().map(Prepared::n_starts).sum());
        let reads_steps = plan.buffers.iter().any(|buffer| buffer.place == Place::Input(InputKind::Step));
        let mut executable = CudaExecutable {
            streams: PlanStreams::new(context, n_streams)?,
            workspace: Memory::new(context, workspaces.bytes)?,
            workspaces,
            arena: Memory::new(context, plan.arena_bytes)?,
            error_flag: Memory::new(context, 4 * assertion_words(plan.check_nodes()))?,
            error_flag_on_host: Pinned::new(context, ASSERTION_WORDS)?,
            steps: Memory::new(context, 4 * lengths[2])?,
            context: Arc::clone(context),
            number_steps,
            numbered: None,
            reads_steps,
            bindings: Bindings::new(&plan),
            addresses,
            launches,
            done,
            graphs: HashMap::new(),
            lengths,
            wanted: HashMap::new(),
            is_warm: false,
            submission_time: Duration::ZERO,
            plan,
        };
        (0..executable.plan.buffers.len()).for_each(|buffer| executable.place(buffer));
        Ok(executable)
    }

    fn place(&mut self, id: BufferId) {
        let start = match self.plan.buffers[id].place {
            Place::Arena(offset) => self.arena.start() + offset as u64,
            Place::Input(InputKind::Step) => self.steps.start(),
            Place::Input(_) => self.bindings.get(id).map_or(0, Memory::start),
        };
        if std::mem::replace(&mut self.addresses[id], start) != start {
            self.graphs.clear();
            self.wanted.clear();
        }
    }

    // ---- Steps.

    fn stream(&self) -> CUstream {
        self.streams.main().cu_stream()
    }

    /// Writes the numbers of the steps that are enqueued next, from `first` on, unless they are in place.
    fn number_from(&mut self, first: u32) -> Result<(), DeviceError> {
        if self.numbered != Some(first) {
            self.number_steps(first, 0)?;
            self.numbered = Some(first);
        }
        Ok(())
    }

    /// Numbers all steps from `first` on, or adds `more` to their numbers if it is not 0.
    fn number_steps(&self, first: u32, more: u32) -> Result<(), DeviceError> {
        if !self.reads_steps {
            return Ok(());
        }
        let n_steps = self.lengths[2] as u32;
        let (mut start, mut first, mut more) = (self.steps.start(), first, more);
        let mut arguments = [(&raw mut start).cast(), (&raw mut first).cast(), (&raw mut more).cast()];
        // SAFETY: the arguments are those of `NUMBER_STEPS`, in which each thread writes one of `n_steps` numbers.
        let launched = unsafe {
            launch_kernel(self.number_steps.0, (1, 1, 1), (n_steps, 1, 1), 0, self.stream(), &mut arguments)
        };
        launched.map_err(|error| failed("numbering steps", &error))
    }

    /// Enqueues steps whose numbers are in place, and then the numbering of the following steps.
    fn enqueue(&self, n_steps: usize) -> Result<(), DeviceError> {
        (0..n_steps).try_for_each(|i| self.enqueue_step(i))?;
        self.number_steps(0, n_steps as u32)
    }

    fn enqueue_step(&self, i: usize) -> Result<(), DeviceError> {
        let buffers = self.addresses_of_step(i);
        self.streams.begin()?;
        for number in 0..self.launches.len() {
            let stream = self.streams.stream(self.plan.launches[number].stream);
            let waits = &self.plan.launches[number].waits;
            for event in waits.iter().filter_map(|&before| self.done[before].as_ref()) {
                stream.wait(event)?;
            }
            self.enqueue_launch(number, &buffers, stream)?;
            if let Some(event) = &self.done[number] {
                stream.record(event)?;
            }
        }
        self.streams.end()
    }

    /// Enqueues the program of a launch on a stream.
    fn enqueue_launch(
        &self,
        number: usize,
        buffers: &[CUdeviceptr],
        stream: &PlanStream,
    ) -> Result<(), DeviceError> {
        let launch = &self.plan.launches[number];
        let operands: Vec<CUdeviceptr> = launch.buffers.iter().map(|&buffer| buffers[buffer]).collect();
        let start = self.workspace.start();
        let library = &self.workspaces.library[launch.stream];
        self.launches[number].enqueue(&Addresses {
            operands: &operands,
            workspace: start + self.workspaces.launches[number].start as u64,
            library: start + library.start as u64..start + library.end as u64,
            assertions: self.error_flag.start(),
            stream,
        })
    }

    fn addresses_of_step(&self, i: usize) -> Vec<CUdeviceptr> {
        let mut addresses = self.addresses.clone();
        for (start, buffer) in addresses.iter_mut().zip(&self.plan.buffers) {
            if buffer.place == Place::Input(InputKind::Step) {
                *start += 4 * i as u64;
            }
        }
        addresses
    }

    fn start(&mut self, first_step: u32, n_steps: u32) -> Result<(), DeviceError> {
        let mut next = first_step;
        let mut n_left = n_steps as usize;
        if !self.is_warm && n_left > 0 {
            self.number_from(next)?;
            // The numbers are unknown until the kernel that writes the next ones is enqueued.
            self.numbered = None;
            // The libraries load code at first use, which cannot be captured.
            let excluded = exclude_captures();
            self.enqueue(1)?;
            drop(excluded);
            self.is_warm = true;
            next = next.wrapping_add(1);
            self.numbered = Some(next);
            n_left -= 1;
        }
        for n in self.lengths_of(n_left) {
            self.number_from(next)?;
            self.numbered = None;
            self.replay(n)?;
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

    fn replay(&mut self, n_steps: usize) -> Result<(), DeviceError> {
        if !self.graphs.contains_key(&n_steps) {
            let graph = capture(self.streams.main(), || self.enqueue(n_steps))?;
            self.graphs.insert(n_steps, graph);
        }
        self.graphs[&n_steps].launch().map_err(|error| failed("launching a step", &error))
    }

    /// Waits for the stream, and reports a failed assertion.
    fn finish(&mut self) -> Result<(), RunError> {
        let stream = self.stream();
        let start = self.error_flag.start();
        // SAFETY: the words live as long as the executable, which waits for the copy before it reads them.
        let done = unsafe {
            result::memcpy_dtoh_async(self.error_flag_on_host.words(), start, stream)
                .and_then(|()| result::stream::synchronize(stream))
        };
        done.map_err(|error| failed("running a step", &error))?;
        let Some(error) = gpu::failed_assertion(&self.plan, self.error_flag_on_host.words()) else {
            return Ok(());
        };
        self.error_flag.clear()?;
        Err(error)
    }
}

impl Executable for CudaExecutable {
    fn arena_bytes(&self) -> usize {
        self.plan.arena_bytes
    }

    fn scratch_bytes(&self) -> usize {
        self.workspace.bytes()
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        let changed = self.bindings.bind_own(input, buffer, &self.context)?;
        changed.into_iter().for_each(|id| self.place(id));
        Ok(())
    }

    fn wait_for(&mut self, arrival: &Arrival) -> Result<(), DeviceError> {
        let Some(event) = arrival.event::<Event>() else { return Ok(()) };
        self.context.enter()?;
        event.hold(self.stream()).map_err(|error| failed("waiting for rows", &error))
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.bindings.check()?;
        self.context.enter()?;
        let start = Instant::now();
        self.start(first_step, n_steps)?;
        self.submission_time = start.elapsed();
        self.finish()
    }

    fn host_seconds(&self) -> Option<f64> {
        Some(self.submission_time.as_secs_f64())
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let id = self.bindings.output(name, bytes.len())?;
        match self.plan.buffers[id].place {
            Place::Arena(offset) => self.arena.read(offset, bytes),
            Place::Input(InputKind::Step) => {
                // The numbers on the device are those of the following steps.
                bytes.copy_from_slice(&self.numbered.map_or(0, |next| next.wrapping_sub(1)).to_le_bytes());
                Ok(())
            }
            Place::Input(_) => self.bindings.memory(id).read(0, bytes),
        }
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.bindings.check()?;
        self.context.enter()?;
        let driver_error = |error| failed("measuring a step", &error);
        let event = || Event::new().map_err(driver_error);
        let events = (0..=self.launches.len()).map(|_| event()).collect::<Result<Vec<_>, DeviceError>>()?;
        self.number_from(step)?;
        events[0].record(self.stream()).map_err(driver_error)?;
        // Launches run one after the other, so that each has the whole device.
        let buffers = self.addresses_of_step(0);
        let excluded = exclude_captures();
        for (number, after) in events[1..].iter().enumerate() {
            self.enqueue_launch(number, &buffers, self.streams.stream(0))?;
            after.record(self.stream()).map_err(driver_error)?;
        }
        drop(excluded);
        self.is_warm = true;
        self.finish()?;
        let mut times = vec![];
        for (launch, pair) in events.windows(2).enumerate() {
            let seconds = pair[0].seconds_to(&pair[1]).map_err(driver_error)?;
            times.push(KernelTime::new(&self.plan, launch, seconds));
        }
        self.measure_short(step, &mut times)?;
        Ok(times)
    }
}

impl CudaExecutable {
    /// Measures short kernels again. Events around a launch include its overhead, which exceeds the time of a short
    /// kernel, so the kernel is repeated in one captured graph. It is repeated at its place in the step, because later
    /// launches may overwrite its operands. State that it writes is written each time.
    fn measure_short(&mut self, step: u32, times: &mut [KernelTime]) -> Result<(), RunError> {
        self.number_from(step)?;
        let buffers = self.addresses_of_step(0);
        for (number, time) in times.iter_mut().enumerate() {
            let enqueue = || self.enqueue_launch(number, &buffers, self.streams.stream(0));
            if time.seconds < SHORT_SECONDS && !self.writes_over_integers(number) {
                time.seconds = clock::seconds(self.streams.main(), enqueue)?;
            } else {
                let _excluded = exclude_captures();
                enqueue()?;
            }
        }
        self.finish()
    }

    /// Whether a launch overwrites integers that it reads, so that a repetition would read invalid indices.
    fn writes_over_integers(&self, number: usize) -> bool {
        let launch = &self.plan.launches[number];
        let operands = &self.plan.kernels[launch.kernel].operands;
        let ranges = |is_wanted: &dyn Fn(&Operand) -> bool| -> Vec<Range<usize>> {
            let wanted = launch.buffers.iter().zip(operands).filter(|(_, operand)| is_wanted(operand));
            let ranges = wanted.filter_map(|(&id, operand)| match self.plan.buffers[id].place {
                Place::Arena(start) => Some(start..start + operand.ty.bytes()),
                Place::Input(_) => None,
            });
            ranges.collect()
        };
        let written = ranges(&|operand| operand.usage == Use::Write);
        let integers = ranges(&|operand| operand.usage == Use::Read && !operand.ty.dtype.is_float());
        integers.iter().any(|read| written.iter().any(|to| to.start < read.end && read.start < to.end))
    }
}

/// The shortest time that events around a launch measure accurately.
const SHORT_SECONDS: f64 = 200e-6;

impl Drop for CudaExecutable {
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

/// Compiles the kernels of all launches together with the kernel that numbers steps, which is returned.
fn compile_all(context: &Context, plan: &Plan, launches: &mut [Prepared]) -> Result<Function, DeviceError> {
    let mut texts = vec![Text { owner: "step", text: NUMBER_STEPS, entry: "number_steps", shared_bytes: 0 }];
    let owners: Vec<String> =
        plan.launches.iter().map(|launch| plan.kernels[launch.kernel].label()).collect();
    for (owner, prepared) in owners.iter().zip(&*launches) {
        texts.extend(prepared.texts(owner));
    }
    context.enter()?;
    let mut functions = context.kernels.load(&texts)?.into_iter();
    let Some(number_steps) = functions.next() else { engine_core::bug!("a kernel was not compiled") };
    launches.iter_mut().for_each(|launch| launch.take(&mut functions));
    Ok(number_steps)
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
