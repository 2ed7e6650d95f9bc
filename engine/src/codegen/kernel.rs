//! A kernel of a GPU as data: a body, operands, and the schedule that divides its points among blocks and threads.
//!
//! CubeCL compiles a [`KernelSpec`]. Each kind of kernel implements [`Schedule`] in a file of
//! [`crate::codegen::schedule`]; no other module names these files.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, U32, U64};
use crate::codegen::operand::{Argument, OperandForm};
use crate::codegen::ops::assertion;
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::buffers::Buffers;
use crate::codegen::ops::packed_types::Buffer;
use crate::codegen::tensor_map::Frame;
use crate::codegen::types::{LARGEST_NARROW, THREADS};
use crate::device_model::DeviceModel;
use crate::fusion::{Class, Domain, FusedBody, FusedInst, FusedOp};
use cubecl_core::codegen::{InfoBuilder, KernelSettings};
use cubecl_core::compute::KernelBuilder;
use cubecl_core::ir::{AddressType, Builtin, ElemType, StorageType, Type, UIntKind, Variable};
use cubecl_core::prelude::{CubeDim, CubeKernel, KernelDefinition, KernelId, KernelMetadata};
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// How the points of a kernel are divided among blocks and threads.
pub trait Schedule: Identity + Debug + Send + Sync {
    /// The name of the kernel's entry point. It depends on the schedule alone, so equal kernels have equal texts.
    fn entry(&self) -> &'static str;

    /// Threads of a block.
    fn threads(&self, _kernel: &KernelSpec) -> usize {
        THREADS
    }

    /// The number of blocks for `n_points` points.
    fn blocks(&self, kernel: &KernelSpec, n_points: usize) -> usize;

    /// The points that the blocks and threads share.
    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Element)
    }

    /// The number of scalars that a launch passes by value.
    fn n_scalars(&self) -> usize {
        1
    }

    /// The scalars that a launch on `n_points` points passes by value.
    fn scalars(&self, n_points: usize) -> Vec<usize> {
        vec![n_points]
    }

    /// The vector width of every access to an operand; 1 if the accesses differ.
    fn vector_width(&self, _kernel: &KernelSpec, _operand: usize) -> usize {
        1
    }

    /// Whether the kernel may use fast math where the device has it.
    fn allows_fast_math(&self, _kernel: &KernelSpec) -> bool {
        false
    }

    /// Bodies besides that of the kernel.
    fn more_bodies(&self) -> Vec<&FusedBody> {
        vec![]
    }

    /// Whether the launch writes tensors, not the workspace alone.
    fn writes_tensors(&self) -> bool {
        true
    }

    /// The kernel without its stores, which finds failed assertions before any kernel writes. None if an earlier
    /// launch of the fused kernel finds them.
    fn without_stores(&self, kernel: &KernelSpec) -> Option<KernelSpec> {
        Some(kernel.without_stores())
    }

    /// Whether each block evaluates all assertions before it writes.
    fn checks_before_writing(&self) -> bool {
        false
    }

    /// What its text needs beside its code; none if CubeCL writes all of the text.
    fn frame(&self) -> Option<Frame> {
        None
    }

    /// Emits the kernel.
    ///
    /// # Errors
    /// If the device cannot compute something.
    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError>;
}

/// Equality and hashing of schedules of any type.
pub trait Identity {
    /// The schedule for a downcast.
    fn as_any(&self) -> &dyn Any;
    /// Whether `other` has the same type and value.
    fn is_equal(&self, other: &dyn Schedule) -> bool;
    /// Feeds type and value to a hasher.
    fn hash_into(&self, state: &mut dyn Hasher);
}

impl<S: Schedule + Eq + Hash + 'static> Identity for S {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_equal(&self, other: &dyn Schedule) -> bool {
        other.as_any().downcast_ref::<S>().is_some_and(|other| self == other)
    }

    fn hash_into(&self, mut state: &mut dyn Hasher) {
        TypeId::of::<S>().hash(&mut state);
        self.hash(&mut state);
    }
}

/// A schedule of any type.
#[derive(Clone, Debug)]
pub struct AnySchedule(Arc<dyn Schedule>);

impl Deref for AnySchedule {
    type Target = dyn Schedule;

    fn deref(&self) -> &(dyn Schedule + 'static) {
        &*self.0
    }
}

impl PartialEq for AnySchedule {
    fn eq(&self, other: &AnySchedule) -> bool {
        self.is_equal(&**other)
    }
}

impl Eq for AnySchedule {}

impl Hash for AnySchedule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_into(state);
    }
}

/// The input of a schedule's `emit`.
pub struct KernelCode<'k> {
    /// The kernel.
    pub kernel: &'k KernelSpec,
    /// Its arguments.
    pub buffers: &'k Buffers,
    /// The scalars that a launch passes by value.
    pub scalars: &'k [Variable],
}

impl<'k> KernelCode<'k> {
    /// The first scalar, which is the number of points unless the schedule says otherwise.
    pub fn points(&self) -> Variable {
        self.scalars.first().copied().unwrap_or_else(|| crate::bug!("a kernel without its number of points"))
    }

    /// The kernel's body with its operands.
    pub fn body(&self) -> BodyCode<'k> {
        BodyCode { body: &self.kernel.body, buffers: self.buffers, shared: self.buffers }
    }

    /// Emits `body` under a condition where a launch may have more blocks than requested.
    pub fn in_grid(
        &self,
        code: &mut Code,
        body: impl FnOnce(&mut Code) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        if code.device.has_exact_grid {
            return body(code);
        }
        let block = code.builtin(Builtin::CubePos);
        let n_blocks = code.at(self.kernel.n_points() as i64);
        let is_block = code.less(block, n_blocks);
        let mut result = Ok(());
        code.when(is_block, |code| result = body(code));
        result
    }
}

/// A kernel as CubeCL takes it: a description, from which the definition is made when it is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    /// The instructions at a point.
    pub body: FusedBody,
    /// How points are divided.
    pub schedule: AnySchedule,
    /// Its operands, in the order of its arguments.
    pub operands: Vec<OperandForm>,
    is_guarded: bool,
    device: DeviceModel,
}

impl KernelSpec {
    /// A kernel without a guard: it writes even if an assertion has failed.
    pub fn new(
        body: FusedBody,
        schedule: impl Schedule + 'static,
        operands: Vec<OperandForm>,
        device: DeviceModel,
    ) -> KernelSpec {
        KernelSpec { body, schedule: AnySchedule(Arc::new(schedule)), operands, is_guarded: false, device }
    }

    /// A kernel with only the operands that its body names. Equal launches then have equal texts, even if their
    /// fused kernels differ.
    pub fn of_used_operands(
        mut body: FusedBody,
        schedule: impl Schedule + 'static,
        operands: Vec<OperandForm>,
        device: DeviceModel,
    ) -> KernelSpec {
        let mut used: Vec<usize> =
            body.insts.iter_mut().filter_map(|inst| operand_of(inst).copied()).collect();
        used.sort_unstable();
        used.dedup();
        for operand in body.insts.iter_mut().filter_map(operand_of) {
            *operand = used.binary_search(operand).unwrap_or_default();
        }
        let operands = used.into_iter().map(|operand| operands[operand]).collect();
        KernelSpec::new(body, schedule, operands, device)
    }

    /// A kernel without a body; its schedule emits all of its code.
    pub fn without_body(
        schedule: impl Schedule + 'static,
        operands: Vec<OperandForm>,
        device: DeviceModel,
    ) -> KernelSpec {
        let body = FusedBody { domain: Domain { outer: 1, row: 1, inner: 1 }, insts: vec![] };
        KernelSpec::new(body, schedule, operands, device)
    }

    /// The kernel with another schedule.
    pub fn with_schedule(self, schedule: impl Schedule + 'static) -> KernelSpec {
        KernelSpec { schedule: AnySchedule(Arc::new(schedule)), ..self }
    }

    /// The kernel for another device.
    pub fn on(self, device: DeviceModel) -> KernelSpec {
        KernelSpec { device, ..self }
    }

    /// The kernel with a guard: it writes no tensor once an assertion has failed.
    pub fn guarded(self) -> KernelSpec {
        let is_guarded = self.schedule.writes_tensors();
        KernelSpec { is_guarded, ..self }
    }

    /// The kernel without its stores, which finds failed assertions before any kernel writes. None if it has no
    /// assertion.
    pub fn checks_only(&self) -> Option<KernelSpec> {
        self.schedule.without_stores(self).filter(KernelSpec::has_assertions)
    }

    /// The kernel with a body that stores nothing. Stores are last, so registers keep their numbers.
    pub(crate) fn without_stores(&self) -> KernelSpec {
        let mut checks = self.clone();
        checks.body.insts.retain(|inst| !matches!(inst.op, FusedOp::Store { .. }));
        checks
    }

    // ---- Launches.

    /// Blocks to launch for `points` points or rows.
    pub fn blocks_for(&self, points: usize) -> usize {
        self.schedule.blocks(self, points)
    }

    /// Points of a map, or rows of a row kernel.
    pub fn n_points(&self) -> usize {
        self.schedule.n_points(self)
    }

    /// The end of the workspace that the launch uses, in bytes.
    pub fn workspace_bytes(&self) -> usize {
        let ends = self.operands.iter().filter_map(|operand| match operand.argument {
            Argument::Workspace { start, bytes } => Some(start + bytes),
            _ => None,
        });
        ends.max().unwrap_or(0)
    }

    /// The packed scalars of a launch.
    pub fn info(&self, points: usize, seed: u32) -> Vec<u64> {
        self.info_of(&self.schedule.scalars(points), seed)
    }

    /// The packed scalars of a launch, given by value.
    pub fn info_of(&self, scalars: &[usize], seed: u32) -> Vec<u64> {
        let mut info = InfoBuilder::default();
        for &scalar in scalars {
            match self.address() {
                AddressType::U32 => info.scalars.push(scalar as u32),
                AddressType::U64 => info.scalars.push(scalar as u64),
            }
        }
        if self.is_random() {
            info.scalars.push(seed);
        }
        for _ in self.arguments() {
            info.metadata.register_array(0, 0, self.address());
        }
        info.finish(self.address()).data
    }

    /// The targets of a launch's pointers, in order.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = self.operands.iter().map(|operand| operand.argument).collect();
        arguments.extend(self.has_assertions().then_some(Argument::Flag));
        arguments.extend(self.is_guarded.then_some(Argument::Guard));
        arguments
    }

    // ---- Properties.

    /// The name of its entry point.
    pub fn entry(&self) -> &'static str {
        self.schedule.entry()
    }

    /// Whether each block evaluates all assertions before it writes.
    pub fn checks_before_writing(&self) -> bool {
        self.schedule.checks_before_writing()
    }

    /// Whether the seed is an argument.
    pub fn is_random(&self) -> bool {
        self.any_inst(|op| matches!(op, FusedOp::Random { .. }))
    }

    fn has_assertions(&self) -> bool {
        self.any_inst(|op| matches!(op, FusedOp::Check { .. }))
    }

    fn any_inst(&self, is_wanted: impl Fn(&FusedOp) -> bool) -> bool {
        self.bodies().any(|body| body.insts.iter().any(|inst| is_wanted(&inst.op)))
    }

    fn bodies(&self) -> impl Iterator<Item = &FusedBody> {
        [&self.body].into_iter().chain(self.schedule.more_bodies())
    }

    /// The type of its element numbers.
    pub fn address(&self) -> AddressType {
        let of_bodies =
            self.bodies().map(|FusedBody { domain, .. }| domain.outer * domain.row * domain.inner).max();
        let n_points = of_bodies.max(Some(self.n_points()));
        let is_wide = n_points.is_some_and(|n| n > LARGEST_NARROW)
            || self.operands.iter().any(|operand| operand.is_wide);
        if is_wide { AddressType::U64 } else { AddressType::U32 }
    }

    /// The device that the kernel is compiled for.
    pub fn device(&self) -> DeviceModel {
        self.device
    }

    fn n_threads(&self) -> u32 {
        self.schedule.threads(self) as u32
    }

    // ---- The definition.

    /// The definition that CubeCL compiles.
    ///
    /// # Errors
    /// If the device lacks something that the kernel computes.
    pub fn try_define(&self) -> Result<KernelDefinition, CodegenError> {
        self.check_types()?;
        let mut builder = KernelBuilder::new();
        self.address().register(&mut builder.scope);
        let index = if self.address() == AddressType::U64 { U64 } else { U32 };
        let buffers = self.buffers(&mut builder);
        let n_scalars = self.schedule.n_scalars();
        let scalars: Vec<Variable> = (0..n_scalars).map(|_| builder.scalar(index.into()).consume()).collect();
        let seed = self.is_random().then(|| builder.scalar(U32.into()).consume());
        let mut code = Code::new(&mut builder.scope, index, self.device);
        code.device.has_fast_math &= self.schedule.allows_fast_math(self);
        let guard = buffers.guard.filter(|_| !self.schedule.checks_before_writing());
        let is_clear = guard.map(|flag| assertion::is_clear(&mut code, flag));
        let buffers = Buffers { seed, is_clear, ..buffers };
        let kernel = KernelCode { kernel: self, buffers: &buffers, scalars: &scalars };
        if let Some(Frame { cores, maps, .. }) = self.schedule.frame() {
            cores.declare_maps(&mut code, &kernel, &maps);
        }
        self.schedule.emit(&mut code, &kernel)?;
        let settings = KernelSettings::default()
            .cube_dim(CubeDim::new_1d(self.n_threads()))
            .address_type(self.address());
        Ok(builder.build(settings.kernel_name(self.schedule.entry())))
    }

    fn check_types(&self) -> Result<(), CodegenError> {
        let of_bodies = self.bodies().flat_map(|body| body.insts.iter().map(|inst| inst.dtype));
        let mut dtypes = of_bodies.chain(self.operands.iter().map(|operand| operand.dtype));
        match dtypes.find(|&dtype| !self.device.has(dtype)) {
            Some(dtype) => Err(CodegenError::Type { dtype }),
            None if self.address() == AddressType::U64 && !self.device.has_i64 => Err(CodegenError::Wide),
            None => Ok(()),
        }
    }

    /// The vector width that an operand is declared with, in words. It is 1 if the operand is no array of vectors,
    /// or if the language reads vectors from any array.
    fn vector_words(&self, i: usize, form: &OperandForm) -> usize {
        let words = self.schedule.vector_width(self, i) / self.device.lanes(form.dtype);
        let is_vector_array = !self.device.has_narrow && !form.is_empty && words <= 4;
        if is_vector_array { words.max(1) } else { 1 }
    }

    fn buffers(&self, builder: &mut KernelBuilder) -> Buffers {
        let mut operands = vec![];
        for (i, form) in self.operands.iter().enumerate() {
            let elem = form.element(self.device);
            let lanes = if form.as_bits { 1 } else { self.device.lanes(form.dtype) };
            let width = self.vector_words(i, form);
            // Threads that write single packed elements share words.
            let is_atomic = form.is_atomic || (lanes > 1 && form.is_written && width == 1);
            let storage = if is_atomic { StorageType::Atomic(elem) } else { StorageType::Scalar(elem) };
            let ty = Type::new(storage).with_vector_size(width);
            // CUDA inputs become `const __restrict__`, which is wrong for memory that a written operand shares.
            let is_plain = form.is_written || form.may_share;
            let buffer = if is_plain { builder.output_array(ty) } else { builder.input_array(ty) };
            operands.push(Buffer {
                array: buffer.consume(),
                is_empty: form.is_empty,
                lanes,
                is_atomic,
                width,
            });
        }
        let word = Type::new(StorageType::Atomic(ElemType::UInt(UIntKind::U32)));
        let flag = self.has_assertions().then(|| builder.output_array(word).consume());
        let guard = self.is_guarded.then(|| builder.output_array(Type::scalar(U32)).consume());
        Buffers { operands, flag, guard, is_clear: None, seed: None }
    }
}

fn operand_of(inst: &mut FusedInst) -> Option<&mut usize> {
    match &mut inst.op {
        FusedOp::Load { operand, .. } | FusedOp::Store { operand, .. } => Some(operand),
        _ => None,
    }
}

impl KernelMetadata for KernelSpec {
    fn name(&self) -> &'static str {
        self.schedule.entry()
    }

    fn id(&self) -> KernelId {
        KernelId::new::<KernelSpec>().info(self.clone()).cube_dim(CubeDim::new_1d(self.n_threads()))
    }

    fn address_type(&self) -> StorageType {
        self.address().unsigned_type()
    }
}

impl CubeKernel for KernelSpec {
    /// # Panics
    /// If [`KernelSpec::try_define`] would fail.
    fn define(&self) -> KernelDefinition {
        self.try_define().unwrap_or_else(|error| crate::bug!("{error}"))
    }
}
