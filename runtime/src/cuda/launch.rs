//! Launches of a plan, made ready: kernels and products with what they point to.

use super::compile::{Function, Text};
use super::context::{Context, failed};
use super::memory::Memory;
use super::product::{Places, Product};
use crate::device::DeviceError;
use cudarc::driver::result::launch_kernel;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::emit::{Argument, EmitError, FusedKernel, KernelSource, absorbed, is_worth_a_library};
use engine_core::fuse::{Class, ContractBody, Kernel, KernelBody, TileOp, Use};
use engine_core::plan::{BufferId, Launch, Place, Plan, Precision};
use std::ffi::c_void;
use std::sync::Arc;

/// One launch of the plan: what the device is asked to do for it, in order.
pub struct Prepared {
    parts: Vec<Part>,
    /// Bytes of scratch that it keeps a product in.
    pub scratch_bytes: usize,
}

enum Part {
    Kernel(Box<KernelPart>),
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
    Scratch,
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
    /// Where products go that have no place of their own.
    pub scratch: &'a Memory,
    /// Scratch of the library.
    pub workspace: &'a Memory,
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
        let kernel = &plan.kernels[launch.kernel];
        let precision = plan.matmul;
        let mut drafts =
            Drafts { context, kernel, launch, seed, is_guarded, precision, parts: vec![], scratch_bytes: 0 };
        match &kernel.body {
            KernelBody::Contract(body) => drafts.contract(body)?,
            _ => drafts.own_kernels()?,
        }
        Ok(Prepared { parts: drafts.parts, scratch_bytes: drafts.scratch_bytes })
    }

    /// The kernels to be compiled.
    pub fn texts<'t>(&'t self, owner: &'t str) -> impl Iterator<Item = Text<'t>> {
        self.parts.iter().filter_map(move |part| match part {
            Part::Kernel(part) => Some(Text { owner, text: &part.source.text, entry: &part.source.entry }),
            Part::Product { .. } => None,
        })
    }

    /// Takes the compiled kernels, in the order of [`Prepared::texts`].
    pub fn take(&mut self, functions: &mut impl Iterator<Item = Function>) {
        for part in &mut self.parts {
            if let Part::Kernel(part) = part {
                part.function = functions.next();
            }
        }
    }

    /// Whether the library is used.
    pub fn has_product(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Product { .. }))
    }

    /// Starts everything on a stream.
    pub fn enqueue(&self, addresses: &Addresses, stream: CUstream) -> Result<(), DeviceError> {
        self.parts.iter().try_for_each(|part| match part {
            Part::Kernel(part) => part.enqueue(addresses, stream),
            Part::Product { product, factors, result, bias } => {
                let places = Places {
                    factors: factors.map(|factor| addresses.buffers[factor]),
                    result: match *result {
                        ProductPlace::Buffer(buffer) => addresses.buffers[buffer],
                        ProductPlace::Scratch => addresses.scratch.start(),
                    },
                    bias: bias.map(|bias| addresses.buffers[bias]),
                };
                product.launch(places, addresses.workspace, stream)
            }
        })
    }
}

/// A launch under construction.
struct Drafts<'p> {
    context: &'p Arc<Context>,
    kernel: &'p Kernel,
    launch: &'p Launch,
    seed: u64,
    is_guarded: bool,
    precision: Precision,
    parts: Vec<Part>,
    scratch_bytes: usize,
}

impl Drafts<'_> {
    /// A product by the library with as much of the epilogue as it takes over, else by a kernel of its own.
    fn contract(&mut self, body: &ContractBody) -> Result<(), DeviceError> {
        if body.rows.is_none() && is_worth_a_library(body) && self.library_product(body)? {
            return self.kernels(FusedKernel::side_sums(self.kernel), ProductPlace::Scratch);
        }
        self.own_kernels()
    }

    fn own_kernels(&mut self) -> Result<(), DeviceError> {
        let launches = FusedKernel::launches(self.kernel).map_err(|error| self.unsupported(&error))?;
        self.kernels(launches, ProductPlace::Scratch)
    }

    fn library_product(&mut self, body: &ContractBody) -> Result<bool, DeviceError> {
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
            self.scratch_bytes = n_points * body.dtype.accumulator().size();
        }
        self.push_product(product, place, None);
        self.kernels(vec![FusedKernel::epilogue(self.kernel)], place)?;
        Ok(true)
    }

    fn push_product(&mut self, product: Product, result: ProductPlace, bias: Option<usize>) {
        let buffers = &self.launch.buffers;
        let factors = product.operands().map(|operand| buffers[operand]);
        let bias = bias.map(|operand| buffers[operand]);
        self.parts.push(Part::Product { product: Box::new(product), factors, result, bias });
    }

    /// The first result of the product's type and size, unless it has to wait for the error flag or is read as well.
    fn place_of_product(&self, body: &ContractBody) -> ProductPlace {
        let n_points = body.batch * body.m * body.n;
        let dtype = body.dtype.accumulator();
        let results = body.epilogue.insts.iter().filter_map(|inst| match &inst.op {
            TileOp::Store { operand, access, .. } if inst.class == Class::Element && inst.dtype == dtype => {
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

    fn kernels(&mut self, launches: Vec<FusedKernel>, product: ProductPlace) -> Result<(), DeviceError> {
        if !self.is_guarded {
            return launches.iter().try_for_each(|fused| self.push_kernel(fused, product));
        }
        // Bad indices are found before anything is written.
        for checks in launches.iter().filter_map(FusedKernel::checks_only) {
            self.push_kernel(&checks, product)?;
        }
        launches.into_iter().try_for_each(|fused| self.push_kernel(&fused.guarded(), product))
    }

    fn push_kernel(&mut self, fused: &FusedKernel, product: ProductPlace) -> Result<(), DeviceError> {
        let source = fused.cuda_source().map_err(|error| self.unsupported(&error))?;
        if source.cube_count_for(source.points) == 0 {
            return Ok(());
        }
        let pointers = source.arguments.iter().map(|argument| match (*argument, product) {
            (Argument::Operand(operand), _) => Pointer::Buffer(self.launch.buffers[operand]),
            (Argument::Product, ProductPlace::Buffer(buffer)) => Pointer::Buffer(buffer),
            (Argument::Product, ProductPlace::Scratch) => Pointer::Scratch,
            (Argument::Flag | Argument::Guard, _) => Pointer::Flag,
        });
        let (pointers, info) = (pointers.collect(), source.info(source.points, self.seed as u32));
        self.parts.push(Part::Kernel(Box::new(KernelPart { source, function: None, pointers, info })));
        Ok(())
    }

    fn unsupported(&self, error: &EmitError) -> DeviceError {
        DeviceError::Unsupported {
            device: self.context.name.clone(),
            kernel: self.kernel.name.clone(),
            reason: error.to_string(),
        }
    }
}

impl KernelPart {
    fn enqueue(&self, addresses: &Addresses, stream: CUstream) -> Result<(), DeviceError> {
        let Some(Function(function)) = self.function else {
            engine_core::bug!("a kernel that was not compiled")
        };
        let source = &self.source;
        let blocks = u32::try_from(source.cube_count_for(source.points)).unwrap_or(u32::MAX);
        let mut pointers: Vec<CUdeviceptr> =
            self.pointers.iter().map(|pointer| pointer.address(addresses)).collect();
        let mut arguments: Vec<*mut c_void> =
            pointers.iter_mut().map(|start| (&raw mut *start).cast()).collect();
        arguments.push(self.info.as_ptr().cast_mut().cast());
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
            Pointer::Scratch => addresses.scratch.start(),
            Pointer::Flag => addresses.flag.start(),
        }
    }
}

/// Whether a launch writes what outlives its step.
pub fn writes_state(plan: &Plan, launch: &Launch) -> bool {
    let operands = launch.buffers.iter().zip(&plan.kernels[launch.kernel].operands);
    let is_state = |id: BufferId| matches!(plan.buffers[id].place, Place::Input(_));
    operands.into_iter().any(|(&id, operand)| operand.usage == Use::Write && is_state(id))
}
