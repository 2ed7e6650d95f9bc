//! Launches of a plan, made ready: kernels and products with what they point to.

mod panels;

use super::autotune::{self, TuneKey};
use super::compile::{Function, Text};
use super::context::{Context, failed};
use super::memory::Memory;
use super::product::{self, Places, Product, WORKSPACE_BYTES};
use super::streams::{PlanStream, PlanStreams};
use crate::autotune::Choice;
use crate::device::DeviceError;
use cudarc::driver::result::launch_kernel;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::codegen::{Argument, CodegenError, KernelSource, KernelSpec, absorbed, assertion_words};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::{Class, FusedOp, Kernel, KernelBody, MatmulBody};
use engine_core::ir::Type;
use engine_core::plan::{BufferId, Launch, Plan, Precision};
use engine_core::rules::Numerics;
use panels::{PanelPart, folded};
use std::ffi::c_void;
use std::sync::Arc;

/// One launch of the plan: what the device is asked to do for it, in order.
pub struct Prepared {
    parts: Vec<Part>,
    /// Parts that need none of the others.
    beside: Vec<Part>,
    /// Bytes of scratch that it keeps a product in.
    pub scratch_bytes: usize,
}

enum Part {
    Kernel(Box<KernelPart>),
    Panels(Box<PanelPart>),
    Product { product: Box<Product>, factors: [BufferId; 2], result: ProductPlace, bias: Option<BufferId> },
}

struct KernelPart {
    source: KernelSource,
    /// Set when all kernels of a plan are compiled.
    function: Option<Function>,
    pointers: Vec<Pointer>,
    info: Vec<u64>,
}

/// What a pointer of a kernel points to.
#[derive(Clone, Copy)]
enum Pointer {
    Buffer(BufferId),
    /// So many bytes into the scratch.
    Scratch(usize),
    Flag,
}

/// Where a product goes.
#[derive(Clone, Copy)]
enum ProductPlace {
    Buffer(BufferId),
    Scratch,
}

/// Where everything lies.
pub struct Addresses<'a> {
    /// By buffer of the plan.
    pub buffers: &'a [CUdeviceptr],
    /// The stream with its scratch.
    pub lane: &'a PlanStream,
    /// The error flag.
    pub flag: &'a Memory,
}

impl Prepared {
    /// Translates a launch; its kernels are still to be compiled.
    pub fn new(
        context: &Arc<Context>,
        plan: &Plan,
        launch: &Launch,
        seed: u64,
        is_guarded: bool,
    ) -> Result<Prepared, DeviceError> {
        let draft = || Drafts {
            context,
            plan,
            kernel: &plan.kernels[launch.kernel],
            launch,
            seed,
            is_guarded,
            precision: plan.matmul,
            prepared: Prepared { parts: vec![], beside: vec![], scratch_bytes: 0 },
        };
        match &plan.kernels[launch.kernel].body {
            KernelBody::Matmul(body) => match &body.rows {
                None => contraction(body, &draft),
                Some(rows) => folded(body, rows, &draft),
            },
            _ => draft().own_kernels(),
        }
    }

    /// The time of a launch on tensors full of noise.
    fn seconds(mut self, drafts: &Drafts) -> Result<f64, DeviceError> {
        let Drafts { context, plan, launch, .. } = drafts;
        context.enter()?;
        let texts: Vec<Text> = self.texts(&drafts.kernel.name).collect();
        let functions = context.kernels.load(&texts)?;
        self.take(&mut functions.into_iter());
        let mut buffers = vec![0; plan.buffers.len()];
        let mut memories = vec![];
        for &buffer in &launch.buffers {
            let ty = &plan.buffers[buffer].ty;
            let memory = Memory::new(context, ty.bytes().next_multiple_of(16))?;
            // Indices are all the first.
            match ty.dtype.is_float() {
                true => autotune::fill(context, &memory, ty.dtype)?,
                false => memory.clear()?,
            }
            buffers[buffer] = memory.start();
            memories.push(memory);
        }
        let lanes = PlanStreams::new(context, &[self.scratch_bytes], WORKSPACE_BYTES)?;
        // Of rows whose panels are not tried, nothing is known.
        lanes.lane(0).scratch.clear()?;
        let flag = Memory::new(context, 4 * assertion_words(plan.check_nodes()))?;
        let addresses = Addresses { buffers: &buffers, lane: lanes.lane(0), flag: &flag };
        autotune::seconds(lanes.main(), || self.enqueue(&addresses))
    }

    /// The kernels to be compiled.
    pub fn texts<'t>(&'t self, owner: &'t str) -> impl Iterator<Item = Text<'t>> {
        self.parts.iter().chain(&self.beside).filter_map(move |part| match part {
            Part::Kernel(part) => Some(part.text(owner)),
            Part::Panels(part) => Some(part.step.text(owner)),
            Part::Product { .. } => None,
        })
    }

    /// Takes the compiled kernels, in the order of [`Prepared::texts`].
    pub fn take(&mut self, functions: &mut impl Iterator<Item = Function>) {
        for part in self.parts.iter_mut().chain(&mut self.beside) {
            match part {
                Part::Kernel(part) => part.function = functions.next(),
                Part::Panels(part) => part.step.function = functions.next(),
                Part::Product { .. } => {}
            }
        }
    }

    /// Whether the library is used.
    pub fn has_product(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Product { .. } | Part::Panels(_)))
    }

    /// How many times the device is called on.
    pub fn n_starts(&self) -> usize {
        let starts = |part: &Part| match part {
            Part::Panels(part) => 2 * part.panels.len(),
            Part::Kernel(_) | Part::Product { .. } => 1,
        };
        self.parts.iter().chain(&self.beside).map(starts).sum()
    }

    /// Starts everything.
    pub fn enqueue(&self, addresses: &Addresses) -> Result<(), DeviceError> {
        let start = |parts: &[Part], stream: CUstream| {
            parts.iter().try_for_each(|part| part.enqueue(addresses, stream))
        };
        match &self.beside[..] {
            [] => start(&self.parts, addresses.lane.stream()),
            beside => addresses
                .lane
                .side_by_side(|stream| start(&self.parts, stream), |stream| start(beside, stream)),
        }
    }
}

impl Part {
    fn enqueue(&self, addresses: &Addresses, stream: CUstream) -> Result<(), DeviceError> {
        match self {
            Part::Kernel(part) => part.enqueue(addresses, stream),
            Part::Panels(part) => part.enqueue(addresses, stream),
            Part::Product { product, factors, result, bias } => {
                let places = Places {
                    factors: factors.map(|factor| addresses.buffers[factor]),
                    result: match *result {
                        ProductPlace::Buffer(buffer) => addresses.buffers[buffer],
                        ProductPlace::Scratch => addresses.lane.scratch.start(),
                    },
                    bias: bias.map(|bias| addresses.buffers[bias]),
                };
                product.launch(places, &addresses.lane.workspace, stream)
            }
        }
    }
}

/// Who multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Multiplier {
    Library,
    /// The library, by parts of the sums.
    InParts(usize),
    Own,
}

impl Choice for Multiplier {
    fn to_text(&self) -> String {
        match self {
            Multiplier::Library => "library".to_string(),
            Multiplier::InParts(parts) => format!("library in parts: {parts}"),
            Multiplier::Own => "own kernel".to_string(),
        }
    }

    fn from_text(text: &str) -> Option<Multiplier> {
        match text.strip_prefix("library in parts: ") {
            Some(parts) => parts.parse().ok().map(Multiplier::InParts),
            None => [Multiplier::Library, Multiplier::Own].into_iter().find(|known| known.to_text() == text),
        }
    }
}

/// A contraction by whoever is fastest: the library with as much of the epilogue as it takes over, the library by parts of
/// long sums, or a kernel of its own.
fn contraction<'p>(body: &MatmulBody, draft: &dyn Fn() -> Drafts<'p>) -> Result<Prepared, DeviceError> {
    let by = |multiplier: Multiplier| match multiplier {
        Multiplier::Library => draft().by_library(body),
        Multiplier::InParts(parts) => draft().by_library_in_parts(parts),
        Multiplier::Own => draft().by_own_kernel().map(Some),
    };
    let own = || draft().by_own_kernel();
    let n_flops = 2 * body.batch * body.m * body.n * body.k;
    if n_flops < FEWEST_FLOPS {
        return own();
    }
    let Some(library) = by(Multiplier::Library)? else { return own() };
    let drafts = draft();
    let cuts = KernelSpec::library_splits(drafts.kernel, drafts.target());
    let mut multipliers = vec![Multiplier::Library];
    multipliers.extend(cuts.into_iter().map(Multiplier::InParts));
    multipliers.extend((n_flops <= MOST_FLOPS).then_some(Multiplier::Own));
    if let [_] = multipliers[..] {
        return Ok(library);
    }
    let operands: Vec<&Type> = drafts.kernel.operands.iter().map(|operand| &operand.ty).collect();
    let question = TuneKey {
        subject: format!("who multiplies {}", product::text(body, drafts.precision)),
        details: format!(
            "{:?} {operands:?} {:?} {} {multipliers:?}",
            drafts.kernel.body, drafts.precision, drafts.is_guarded
        ),
    };
    let is_possible = |known: &Multiplier| multipliers.contains(known);
    let fastest = autotune::recall(drafts.context, &question, is_possible, || {
        autotune::fastest(drafts.context, &multipliers, |multiplier| match by(multiplier)? {
            Some(prepared) => prepared.seconds(&drafts),
            None => Ok(f64::INFINITY),
        })
    });
    let fastest = match fastest {
        // There is no room to try them on tensors of noise.
        Err(DeviceError::OutOfMemory { .. }) => return Ok(library),
        fastest => fastest?,
    };
    match by(fastest)? {
        Some(prepared) => Ok(prepared),
        None => Ok(library),
    }
}

/// The library is not tried below: starting it takes longer than the products.
const FEWEST_FLOPS: usize = 100_000;
/// A kernel of its own is not tried above: large products are what the library is best at.
const MOST_FLOPS: usize = 400_000_000;

/// A launch under construction.
struct Drafts<'p> {
    context: &'p Arc<Context>,
    plan: &'p Plan,
    kernel: &'p Kernel,
    launch: &'p Launch,
    seed: u64,
    is_guarded: bool,
    precision: Precision,
    prepared: Prepared,
}

impl Drafts<'_> {
    /// None if the library cannot compute it.
    fn by_library(mut self, body: &MatmulBody) -> Result<Option<Prepared>, DeviceError> {
        if !self.library_product(body)? {
            return Ok(None);
        }
        self.side_sums().map(Some)
    }

    /// None if the library cannot compute the parts.
    fn by_library_in_parts(mut self, parts: usize) -> Result<Option<Prepared>, DeviceError> {
        let (body, sum) = KernelSpec::split_for_library(self.kernel, parts);
        let dtype = body.dtype.accumulator();
        let Some(product) = Product::new(self.context, &body, dtype, None, self.precision)? else {
            return Ok(None);
        };
        self.prepared.scratch_bytes = body.batch * body.m * body.n * dtype.size();
        self.push_product(product, ProductPlace::Scratch, None);
        self.kernels(vec![sum], ProductPlace::Scratch)?;
        self.side_sums().map(Some)
    }

    fn by_own_kernel(mut self) -> Result<Prepared, DeviceError> {
        if self.is_guarded {
            // What has to look for errors first does so for all of it.
            return self.own_kernels();
        }
        self.kernels(vec![KernelSpec::own_product(self.kernel)], ProductPlace::Scratch)?;
        self.side_sums()
    }

    fn side_sums(mut self) -> Result<Prepared, DeviceError> {
        let before = std::mem::take(&mut self.prepared.parts);
        self.kernels(KernelSpec::side_sums(self.kernel), ProductPlace::Scratch)?;
        let sums = std::mem::replace(&mut self.prepared.parts, before);
        match self.is_guarded {
            true => self.prepared.parts.extend(sums),
            false => self.prepared.beside = sums,
        }
        Ok(self.prepared)
    }

    fn own_kernels(mut self) -> Result<Prepared, DeviceError> {
        let mut launches =
            KernelSpec::launches(self.kernel, self.target()).map_err(|error| self.not_emitted(&error))?;
        if self.plan.scatters_in_place(self.launch) {
            launches.remove(0);
        }
        self.kernels(launches, ProductPlace::Scratch)?;
        Ok(self.prepared)
    }

    fn library_product(&mut self, body: &MatmulBody) -> Result<bool, DeviceError> {
        // What writes state heeds the error flag, which the library does not.
        let whole = if self.is_guarded { None } else { absorbed(self.kernel, body) };
        if let Some(epilogue) = whole {
            let dtype = self.kernel.operands[epilogue.result].ty.dtype;
            if let Some(product) = Product::new(self.context, body, dtype, Some(epilogue), self.precision)? {
                let result = ProductPlace::Buffer(self.launch.buffers[epilogue.result]);
                self.push_product(product, result, epilogue.bias);
                return Ok(true);
            }
        }
        let Some(product) = Product::new(self.context, body, body.dtype.accumulator(), None, self.precision)?
        else {
            return Ok(false);
        };
        let place = self.place_of_product(body);
        if let ProductPlace::Scratch = place {
            let n_points = body.batch * body.m * body.n;
            self.prepared.scratch_bytes = n_points * body.dtype.accumulator().size();
        }
        self.push_product(product, place, None);
        self.kernels(vec![KernelSpec::epilogue(self.kernel)], place)?;
        Ok(true)
    }

    fn push_product(&mut self, product: Product, result: ProductPlace, bias: Option<usize>) {
        let buffers = &self.launch.buffers;
        let factors = product.operands().map(|operand| buffers[operand]);
        let bias = bias.map(|operand| buffers[operand]);
        self.prepared.parts.push(Part::Product { product: Box::new(product), factors, result, bias });
    }

    /// The first result of the product's type and size, unless it has to wait for the error flag or is read as well.
    fn place_of_product(&self, body: &MatmulBody) -> ProductPlace {
        let n_points = body.batch * body.m * body.n;
        let dtype = body.dtype.accumulator();
        let results = body.epilogue.insts.iter().filter_map(|inst| match &inst.op {
            FusedOp::Store { operand, access, .. } if inst.class == Class::Element && inst.dtype == dtype => {
                access.is_identity(n_points).then(|| self.launch.buffers[*operand])
            }
            _ => None,
        });
        let mut alone =
            results.filter(|buffer| self.launch.buffers.iter().filter(|used| *used == buffer).count() == 1);
        match alone.next().filter(|_| !self.is_guarded) {
            Some(buffer) => ProductPlace::Buffer(buffer),
            None => ProductPlace::Scratch,
        }
    }

    fn kernels(&mut self, launches: Vec<KernelSpec>, product: ProductPlace) -> Result<(), DeviceError> {
        if !self.is_guarded {
            return launches.iter().try_for_each(|fused| self.push_kernel(fused, product));
        }
        // Bad indices are found before anything is written.
        if let [only] = &launches[..]
            && only.checks_before_writing()
        {
            return self.push_kernel(&only.clone().guarded(), product);
        }
        for checks in launches.iter().filter_map(KernelSpec::checks_only) {
            self.push_kernel(&checks, product)?;
        }
        launches.into_iter().try_for_each(|fused| self.push_kernel(&fused.guarded(), product))
    }

    fn push_kernel(&mut self, fused: &KernelSpec, product: ProductPlace) -> Result<(), DeviceError> {
        let part = self.kernel_part(fused, product)?;
        if part.source.cube_count_for(part.source.points) == 0 {
            return Ok(());
        }
        self.prepared.scratch_bytes = self.prepared.scratch_bytes.max(fused.workspace_bytes());
        self.prepared.parts.push(Part::Kernel(Box::new(part)));
        Ok(())
    }

    fn kernel_part(&self, fused: &KernelSpec, product: ProductPlace) -> Result<KernelPart, DeviceError> {
        let source =
            fused.clone().on(self.target()).cuda_source().map_err(|error| self.not_emitted(&error))?;
        let pointers = source.arguments.iter().map(|argument| match (*argument, product) {
            (Argument::Operand(operand), _) => Pointer::Buffer(self.launch.buffers[operand]),
            (Argument::Product, ProductPlace::Buffer(buffer)) => Pointer::Buffer(buffer),
            (Argument::Product, ProductPlace::Scratch) => Pointer::Scratch(0),
            (Argument::Workspace { start, .. }, _) => Pointer::Scratch(start),
            (Argument::Flag | Argument::Guard, _) => Pointer::Flag,
        });
        let (pointers, info) = (pointers.collect(), source.info(source.points, self.seed as u32));
        Ok(KernelPart { source, function: None, pointers, info })
    }

    fn target(&self) -> DeviceModel {
        let target = self.context.model;
        let has_fast_math = target.has_fast_math && self.plan.numerics != Numerics::Strict;
        DeviceModel { has_fast_math, ..target }
    }

    fn not_emitted(&self, error: &CodegenError) -> DeviceError {
        DeviceError::not_emitted(&self.context.name, &self.kernel.name, error)
    }
}

impl KernelPart {
    fn text<'t>(&'t self, owner: &'t str) -> Text<'t> {
        let KernelSource { text, entry, shared_bytes, .. } = &self.source;
        Text { owner, text, entry, shared_bytes: *shared_bytes }
    }

    fn enqueue(&self, addresses: &Addresses, stream: CUstream) -> Result<(), DeviceError> {
        let blocks = self.source.cube_count_for(self.source.points);
        self.start(addresses, stream, &self.pointers, blocks, &self.info)
    }

    /// Starts so many blocks, given `pointers` and `info`.
    fn start(
        &self,
        addresses: &Addresses,
        stream: CUstream,
        pointers: &[Pointer],
        blocks: usize,
        info: &[u64],
    ) -> Result<(), DeviceError> {
        let Some(Function(function)) = self.function else {
            engine_core::bug!("a kernel that was not compiled")
        };
        let source = &self.source;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let mut pointers: Vec<CUdeviceptr> =
            pointers.iter().map(|pointer| pointer.address(addresses)).collect();
        let mut arguments: Vec<*mut c_void> =
            pointers.iter_mut().map(|start| (&raw mut *start).cast()).collect();
        arguments.push(info.as_ptr().cast_mut().cast());
        let [x, y, z] = source.cube_dim;
        // SAFETY: the arguments are those of the kernel's signature, and the driver copies them during the call; what
        // they point to lies where the plan says.
        let launched = unsafe {
            launch_kernel(
                function,
                (blocks, 1, 1),
                (x, y, z),
                source.shared_bytes as u32,
                stream,
                &mut arguments,
            )
        };
        launched.map_err(|error| failed(&format!("starting a `{}` kernel", source.entry), &error))
    }
}

impl Pointer {
    fn address(self, addresses: &Addresses) -> CUdeviceptr {
        match self {
            Pointer::Buffer(buffer) => addresses.buffers[buffer],
            Pointer::Scratch(start) => addresses.lane.scratch.start() + start as u64,
            Pointer::Flag => addresses.flag.start(),
        }
    }
}
