//! Programs on CUDA: compiled kernels and described matmuls, enqueued on a stream and its side stream.

use super::compile::{Function, Text};
use super::context::Context;
use super::descriptor::MatmulAddresses;
use super::error::failed;
use super::event::Event;
use super::product::Product;
use super::streams::{PlanStream, record, wait};
use crate::device::DeviceError;
use crate::gpu::api_grid;
use cudarc::driver::result::{launch_kernel, memcpy_dtod_async, memset_d8_async};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::codegen::{CodegenError, KernelSource, KernelSpec};
use engine_core::program::{Action, KernelStep, MatmulCall, MatmulStep, Place, Program};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// The program of one launch, ready to be enqueued.
pub struct Prepared {
    kernels: Vec<CompiledKernel>,
    products: Vec<Product>,
    steps: Vec<ReadyStep>,
    /// Events that order steps of different branches, reused within a program.
    events: Vec<Event>,
    /// Whether a step runs on the side stream.
    forks: bool,
}

struct CompiledKernel {
    source: KernelSource,
    /// `None` until all kernels of a plan are compiled.
    function: Option<Function>,
}

/// A step whose places are resolved to addresses when it is enqueued.
struct ReadyStep {
    work: Work,
    branch: usize,
    /// The events that it waits for.
    waits: Vec<usize>,
    /// The event of its end, if another step waits for it.
    done: Option<usize>,
}

enum Work {
    Kernel { kernel: usize, arguments: Vec<Place>, grid: [u32; 3], info: Vec<u64> },
    Product { product: usize, factors: [Place; 2], result: Place, bias: Option<Place> },
    Copy { from: Place, to: Place, bytes: usize },
    Fill { to: Place, bytes: usize, byte: u8 },
}

/// Addresses of a launch.
pub struct Addresses<'a> {
    /// By operand.
    pub operands: &'a [CUdeviceptr],
    /// The workspace of the program.
    pub workspace: CUdeviceptr,
    /// The workspace of cuBLASLt.
    pub library: Range<CUdeviceptr>,
    /// The record of failed assertions.
    pub assertions: CUdeviceptr,
    /// The stream, with its side stream.
    pub stream: &'a PlanStream,
}

impl Addresses<'_> {
    fn of(&self, place: Place) -> CUdeviceptr {
        match place {
            Place::Operand { operand, offset } => self.operands[operand] + offset as u64,
            Place::Workspace { start, .. } => self.workspace + start as u64,
            Place::Assertions => self.assertions,
        }
    }
}

impl Prepared {
    /// Translates a program, without compiling its kernels.
    pub fn new(
        context: &Arc<Context>,
        name: &str,
        program: &Program,
        seed: u64,
    ) -> Result<Prepared, DeviceError> {
        let mut draft = Draft { context, seed, kernels: vec![], products: vec![], known: HashMap::new() };
        let mut works = vec![];
        for step in &program.steps {
            works.push(draft.work(name, &step.action)?);
        }
        let (done, n_events) = events(program);
        let waits = program
            .steps
            .iter()
            .map(|step| step.waits.iter().filter_map(|&wait| done[wait]).collect::<Vec<usize>>());
        let waits: Vec<Vec<usize>> = waits.collect();
        let steps = works.into_iter().zip(&program.steps).zip(waits).zip(&done);
        let steps =
            steps.map(|(((work, step), waits), &done)| ReadyStep { work, branch: step.branch, waits, done });
        Ok(Prepared {
            steps: steps.collect(),
            kernels: draft.kernels,
            products: draft.products,
            events: (0..n_events).map(|_| new_event()).collect::<Result<_, _>>()?,
            forks: program.steps.iter().any(|step| step.branch > 0),
        })
    }

    /// The kernels to compile.
    pub fn texts<'t>(&'t self, owner: &'t str) -> impl Iterator<Item = Text<'t>> {
        self.kernels.iter().map(move |kernel| {
            let KernelSource { text, entry, shared_bytes, .. } = &kernel.source;
            Text { owner, text, entry, shared_bytes: *shared_bytes }
        })
    }

    /// Receives the compiled kernels, in the order of [`Prepared::texts`].
    pub fn take(&mut self, functions: &mut impl Iterator<Item = Function>) {
        self.kernels.iter_mut().for_each(|kernel| kernel.function = functions.next());
    }

    /// The number of launches, copies and fills.
    pub fn n_starts(&self) -> usize {
        self.steps.len()
    }

    /// Enqueues all steps.
    pub fn enqueue(&self, addresses: &Addresses) -> Result<(), DeviceError> {
        let streams = addresses.stream;
        if !self.forks {
            return self.steps.iter().try_for_each(|step| self.start(step, addresses, streams.stream()));
        }
        streams.fork()?;
        for step in &self.steps {
            let stream = if step.branch == 0 { streams.stream() } else { streams.beside() };
            step.waits.iter().try_for_each(|&event| wait(stream, &self.events[event]))?;
            self.start(step, addresses, stream)?;
            if let Some(done) = step.done {
                record(&self.events[done], stream)?;
            }
        }
        streams.join()
    }

    fn start(&self, step: &ReadyStep, addresses: &Addresses, stream: CUstream) -> Result<(), DeviceError> {
        match &step.work {
            Work::Kernel { kernel, arguments, grid, info } => {
                self.kernels[*kernel].start(addresses, stream, arguments, *grid, info)
            }
            Work::Product { product, factors, result, bias } => {
                let addresses_of_matmul = MatmulAddresses {
                    // cuBLASLt computes the transposed product in column-major order, so the right factor comes first.
                    factors: [factors[1], factors[0]].map(|factor| addresses.of(factor)),
                    result: addresses.of(*result),
                    bias: bias.map(|bias| addresses.of(bias)),
                };
                self.products[*product].launch(addresses_of_matmul, &addresses.library, stream)
            }
            Work::Copy { from, to, bytes } => {
                // SAFETY: the plan's verifier has checked that both places lie within live memory.
                unsafe { memcpy_dtod_async(addresses.of(*to), addresses.of(*from), *bytes, stream) }
                    .map_err(|error| failed("copying memory", &error))
            }
            Work::Fill { to, bytes, byte } => {
                // SAFETY: as above.
                unsafe { memset_d8_async(addresses.of(*to), *byte, *bytes, stream) }
                    .map_err(|error| failed("filling memory", &error))
            }
        }
    }
}

impl CompiledKernel {
    fn start(
        &self,
        addresses: &Addresses,
        stream: CUstream,
        arguments: &[Place],
        [columns, rows, layers]: [u32; 3],
        info: &[u64],
    ) -> Result<(), DeviceError> {
        let Some(Function(function)) = self.function else {
            engine_core::bug!("a kernel that was not compiled")
        };
        let source = &self.source;
        let mut pointers: Vec<CUdeviceptr> = arguments.iter().map(|&place| addresses.of(place)).collect();
        let mut arguments: Vec<*mut c_void> =
            pointers.iter_mut().map(|start| (&raw mut *start).cast()).collect();
        arguments.push(info.as_ptr().cast_mut().cast());
        let [x, y, z] = source.block_dim;
        let shared_bytes = source.shared_bytes as u32;
        // SAFETY: the arguments match the kernel's signature, and the driver copies them during the call. The plan's
        // verifier has checked the memory that they refer to.
        let launched = unsafe {
            launch_kernel(function, (columns, rows, layers), (x, y, z), shared_bytes, stream, &mut arguments)
        };
        launched.map_err(|error| failed(&format!("starting a `{}` kernel", source.entry), &error))
    }
}

/// The translation of a program. Steps that share a kernel or a matmul call share its translation.
struct Draft<'p> {
    context: &'p Arc<Context>,
    seed: u64,
    kernels: Vec<CompiledKernel>,
    products: Vec<Product>,
    /// By the address of a shared kernel or call: its position.
    known: HashMap<usize, usize>,
}

impl Draft<'_> {
    fn work(&mut self, name: &str, action: &Action) -> Result<Work, DeviceError> {
        Ok(match action {
            Action::Kernel(step) => self.kernel(name, step)?,
            Action::Matmul(step) => self.product(name, step)?,
            &Action::Copy { from, to, bytes } => Work::Copy { from, to, bytes },
            &Action::Fill { to, bytes, byte } => Work::Fill { to, bytes, byte },
            Action::Loop { .. } => return Err(self.unsupported(name, "it has no loops on the device yet")),
            Action::Collective(_) => return Err(self.unsupported(name, "it is one GPU, without others")),
        })
    }

    fn kernel(&mut self, name: &str, step: &KernelStep) -> Result<Work, DeviceError> {
        let KernelStep { kernel, arguments, grid, scalars } = step;
        let number = match self.known.get(&(Arc::as_ptr(kernel) as usize)) {
            Some(&known) => known,
            None => {
                let source = self.source(name, kernel)?;
                self.kernels.push(CompiledKernel { source, function: None });
                self.known.insert(Arc::as_ptr(kernel) as usize, self.kernels.len() - 1);
                self.kernels.len() - 1
            }
        };
        Ok(Work::Kernel {
            kernel: number,
            arguments: arguments.clone(),
            grid: api_grid(*grid),
            info: kernel.info_of(scalars, self.seed as u32),
        })
    }

    fn source(&self, name: &str, kernel: &KernelSpec) -> Result<KernelSource, DeviceError> {
        let not_emitted = |error: CodegenError| DeviceError::not_emitted(&self.context.name, name, &error);
        kernel.cuda_source().map_err(not_emitted)
    }

    fn product(&mut self, name: &str, step: &MatmulStep) -> Result<Work, DeviceError> {
        let &MatmulStep { ref call, factors, result, bias, .. } = step;
        let number = match self.known.get(&(Arc::as_ptr(call) as usize)) {
            Some(&known) => known,
            None => {
                let product = self.described(name, call)?;
                self.products.push(product);
                self.known.insert(Arc::as_ptr(call) as usize, self.products.len() - 1);
                self.products.len() - 1
            }
        };
        Ok(Work::Product { product: number, factors, result, bias })
    }

    fn described(&self, name: &str, call: &MatmulCall) -> Result<Product, DeviceError> {
        let product = Product::new(self.context, call)?;
        product.ok_or_else(|| self.unsupported(name, "the library refuses a product that it took before"))
    }

    fn unsupported(&self, kernel: &str, reason: &str) -> DeviceError {
        DeviceError::unsupported(&self.context.name, kernel, reason.to_string())
    }
}

/// By step: the event of its end; and the number of events. An event is reused after all steps that wait for it are
/// enqueued.
fn events(program: &Program) -> (Vec<Option<usize>>, usize) {
    let n_steps = program.steps.len();
    let mut last_wait = vec![None; n_steps];
    for (number, step) in program.steps.iter().enumerate() {
        step.waits.iter().for_each(|&wait| last_wait[wait] = Some(number));
    }
    let (mut done, mut free, mut n_events) = (vec![None; n_steps], vec![], 0);
    let mut in_use: Vec<(usize, usize)> = vec![];
    for number in 0..n_steps {
        // A step records its event after its own waits.
        let (over, rest): (Vec<_>, Vec<_>) = in_use.into_iter().partition(|&(last, _)| last <= number);
        free.extend(over.into_iter().map(|(_, event)| event));
        in_use = rest;
        if let Some(last) = last_wait[number] {
            let event = free.pop().unwrap_or_else(|| {
                n_events += 1;
                n_events - 1
            });
            done[number] = Some(event);
            in_use.push((last, event));
        }
    }
    (done, n_events)
}

fn new_event() -> Result<Event, DeviceError> {
    Event::new().map_err(|error| failed("making an event", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::program::Step;

    #[test]
    fn an_event_is_reused_after_all_its_waits_are_enqueued() {
        let fill = || Action::Fill { to: Place::Assertions, bytes: 4, byte: 0 };
        // Alternating products and folds: each product waits for the fold before the previous one.
        let step = |number: usize| {
            let waits = match number {
                0 | 2 => vec![],
                number if number % 2 == 1 => vec![number - 1],
                number => vec![number - 3],
            };
            Step { action: fill(), branch: number % 2, waits }
        };
        let program = Program { steps: (0..40).map(step).collect(), ..Program::default() };
        let (done, n_events) = events(&program);
        assert!(n_events <= 4, "{n_events}");
        for (number, step) in program.steps.iter().enumerate() {
            for &wait in &step.waits {
                let again = done[wait + 1..number].contains(&done[wait]);
                assert!(!again, "step {wait} and a later one share an event that step {number} waits for");
            }
        }
    }
}
