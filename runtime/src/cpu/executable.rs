//! A plan on the CPU: its kernels compiled, its arena and scratch allocated, its launches run in order.

use super::address::Address;
use super::attention::{AttentionLaunch, AttentionSize};
use super::block::{AssertionRecord, Buffer, ScratchSize, Worker};
use super::body::{BodyLaunch, Call, SegmentLaunch};
use super::matmul::{MatmulLaunch, ProductScratch};
use super::matrix_source::MatrixSourceSize;
use super::memory::Memory;
use super::opaque::OpaqueLaunch;
use super::pool::Pool;
use super::program::{Sharing, checks_only};
use super::scan::run_scan;
use super::scatter::ScatterLaunch;
use crate::bindings;
use crate::device::{DeviceBuffer, DeviceError, Executable, KernelTime, RunError};
use engine_core::fusion::{Domain, FusedBody, FusedOp, Kernel, KernelBody, Use};
use engine_core::ir::{DType, InputKind, Monoid};
use engine_core::plan::{BufferId, Launch, Place, Plan};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A plan, ready to run.
pub struct CpuExecutable {
    plan: Arc<Plan>,
    seed: u64,
    pool: Arc<Mutex<Pool>>,
    arena: Memory,
    step: Memory,
    /// By buffer of the plan: what is bound to it.
    bound: Vec<Option<Arc<Memory>>>,
    launches: Vec<Prepared>,
    workers: Vec<(Worker, ProductScratch)>,
    scratch_bytes: usize,
    alarm: AssertionRecord,
}

/// A launch with its kernel compiled.
struct Prepared {
    body: Body,
    /// Finds bad values before anything is written, in kernels that check and write state.
    precheck: Option<BodyLaunch>,
    /// By kernel operand.
    buffers: Vec<Buffer>,
    writes_state: bool,
}

enum Body {
    MapOrRow(BodyLaunch),
    Segments(SegmentLaunch),
    Matmul(Box<MatmulLaunch>),
    Attention(Box<AttentionLaunch>),
    Scatter(Box<ScatterLaunch>),
    Scan { monoid: Monoid, domain: Domain, dtype: DType },
    Opaque(OpaqueLaunch),
}

impl CpuExecutable {
    /// Compiles a plan for the workers of a pool.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(plan: Arc<Plan>, seed: u64, pool: Arc<Mutex<Pool>>) -> Result<CpuExecutable, DeviceError> {
        let arena = Memory::new(plan.arena_bytes)?;
        let before = Memory::taken_by_this_thread();
        let launches: Vec<Prepared> = plan
            .launches
            .iter()
            .map(|launch| Prepared::new(&plan, launch, &arena))
            .collect::<Result<_, _>>()?;
        let n_threads = pool.lock().unwrap_or_else(PoisonError::into_inner).n_threads();
        let size = launches.iter().map(Prepared::scratch).fold(ScratchSize::default(), ScratchSize::max);
        let tile_bytes = launches.iter().map(Prepared::tile_bytes).max().unwrap_or(0);
        let attend =
            launches.iter().map(Prepared::attention_size).fold(AttentionSize::default(), AttentionSize::max);
        let feed = launches
            .iter()
            .map(Prepared::source_size)
            .fold(MatrixSourceSize::default(), MatrixSourceSize::max);
        let worker = || Ok((Worker::new(size)?, ProductScratch::new(tile_bytes, attend, feed)?));
        let workers = (0..n_threads).map(|_| worker()).collect::<Result<_, DeviceError>>()?;
        let bound = plan.buffers.iter().map(|_| None).collect();
        let products = n_threads * ProductScratch::panel_bytes();
        let mut executable = CpuExecutable {
            scratch_bytes: Memory::taken_by_this_thread() - before + products,
            seed,
            pool,
            arena,
            step: Memory::new(8)?,
            bound,
            launches,
            workers,
            alarm: AssertionRecord::default(),
            plan,
        };
        (0..executable.plan.buffers.len()).for_each(|buffer| executable.place(buffer));
        Ok(executable)
    }

    /// Tells all launches where a buffer lies.
    fn place(&mut self, id: BufferId) {
        let buffer = &self.plan.buffers[id];
        let start = match buffer.place {
            Place::Arena(offset) => self.arena.start().wrapping_add(offset),
            Place::Input(InputKind::Step) => self.step.start(),
            Place::Input(_) => self.bound[id].as_ref().map_or(std::ptr::null_mut(), |memory| memory.start()),
        };
        let placed = Buffer { start, len: buffer.ty.numel(), size: buffer.ty.dtype.size() };
        for (launch, prepared) in self.plan.launches.iter().zip(&mut self.launches) {
            for (operand, _) in launch.buffers.iter().enumerate().filter(|(_, used)| **used == id) {
                prepared.buffers[operand] = placed;
            }
        }
    }

    fn check_bound(&self) -> Result<(), RunError> {
        bindings::check_bound(&self.plan, |id| self.bound[id].is_some())
    }

    fn take_step(&mut self, step: u32, mut after: impl FnMut(usize)) -> Result<(), RunError> {
        let pool = Arc::clone(&self.pool);
        let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no launch is running.
        unsafe { self.step.start().cast::<u32>().write(step) };
        for launch in 0..self.launches.len() {
            let prepared = &mut self.launches[launch];
            let is_over = prepared.writes_state && self.alarm.is_raised();
            // SAFETY: all buffers are placed, with the sizes of the plan; the plan lets no live buffers overlap, and the
            // launches run one after the other.
            unsafe {
                match is_over {
                    // It may find something that comes before what was found.
                    true => prepared.check(&mut pool, &mut self.workers, self.seed, &self.alarm),
                    false => prepared.run(&mut pool, &mut self.workers, self.seed, &self.alarm),
                }
            }
            if is_over {
                break;
            }
            after(launch);
        }
        match self.alarm.take() {
            Some(finding) => Err(RunError::violation(&self.plan, finding)),
            None => Ok(()),
        }
    }
}

impl Executable for CpuExecutable {
    fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        let id = bindings::input(&self.plan, input, buffer)?;
        self.bound[id] = Some(buffer.memory()?);
        self.place(id);
        Ok(())
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.check_bound()?;
        (0..n_steps).try_for_each(|i| self.take_step(first_step.wrapping_add(i), |_| {}))
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let id = bindings::output(&self.plan, name, bytes.len(), |id| self.bound[id].is_some())?;
        let start = match (&self.plan.buffers[id].place, &self.bound[id]) {
            (Place::Arena(offset), _) => self.arena.start().wrapping_add(*offset),
            (Place::Input(InputKind::Step), _) => self.step.start(),
            (Place::Input(_), Some(memory)) => memory.start(),
            (Place::Input(_), None) => engine_core::bug!("output `{name}` is not bound"),
        };
        // SAFETY: the buffer holds that many bytes, and no launch is running.
        bytes.copy_from_slice(unsafe { std::slice::from_raw_parts(start, bytes.len()) });
        Ok(())
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.check_bound()?;
        let plan = Arc::clone(&self.plan);
        let mut times = Vec::with_capacity(plan.launches.len());
        let mut last = Instant::now();
        self.take_step(step, |launch| {
            let now = Instant::now();
            let kernel = plan.kernels[plan.launches[launch].kernel].name.clone();
            times.push(KernelTime { launch, kernel, seconds: (now - last).as_secs_f64() });
            last = now;
        })?;
        Ok(times)
    }
}

impl Prepared {
    fn new(plan: &Plan, launch: &Launch, arena: &Memory) -> Result<Prepared, DeviceError> {
        let kernel = &plan.kernels[launch.kernel];
        let sharing = shared(plan, launch, kernel);
        let workspace = arena.start().wrapping_add(launch.workspace.start);
        assert_inside(kernel);
        let body = match &kernel.body {
            KernelBody::Map(tile) | KernelBody::Row(tile) => Body::MapOrRow(BodyLaunch::new(tile, &sharing)?),
            KernelBody::Segmented { body: tile, segments } => {
                Body::Segments(SegmentLaunch::new(tile, segments, &sharing)?)
            }
            KernelBody::Matmul(body) => {
                let launch = MatmulLaunch::new(body, &kernel.operands, &sharing, workspace)?;
                Body::Matmul(Box::new(launch))
            }
            KernelBody::Attention(body) => Body::Attention(Box::new(AttentionLaunch::new(body, &sharing)?)),
            KernelBody::Scatter(body) => {
                let dtype = kernel.operands[body.result].ty.dtype;
                Body::Scatter(Box::new(ScatterLaunch::new(body, dtype, &sharing)?))
            }
            KernelBody::Scan { monoid, domain } => {
                Body::Scan { monoid: *monoid, domain: *domain, dtype: kernel.operands[0].ty.dtype }
            }
            KernelBody::Opaque(body) => Body::Opaque(OpaqueLaunch::new(body, kernel, workspace)),
        };
        let writes_state = writes_state(plan, launch, kernel);
        let nowhere = Buffer { start: std::ptr::null_mut(), len: 0, size: 1 };
        let precheck = match kernel.bodies()[..] {
            [tile] if writes_state && kernel.has_checks() => {
                Some(BodyLaunch::new(&checks_only(tile), &sharing)?)
            }
            _ => None,
        };
        Ok(Prepared { body, precheck, buffers: vec![nowhere; launch.buffers.len()], writes_state })
    }

    fn scratch(&self) -> ScratchSize {
        let own = match &self.body {
            Body::MapOrRow(tile) => tile.scratch(),
            Body::Segments(segments) => segments.scratch(),
            Body::Matmul(contract) => contract.scratch(),
            Body::Attention(attend) => attend.scratch(),
            Body::Scatter(scatter) => scatter.scratch(),
            Body::Scan { .. } | Body::Opaque(_) => ScratchSize::default(),
        };
        self.precheck.as_ref().map_or(own, |precheck| own.max(precheck.scratch()))
    }

    fn tile_bytes(&self) -> usize {
        match &self.body {
            Body::Matmul(contract) => contract.tile_bytes(),
            _ => 0,
        }
    }

    fn source_size(&self) -> MatrixSourceSize {
        match &self.body {
            Body::Attention(attend) => attend.source_size(),
            Body::Scatter(scatter) => scatter.source_size(),
            _ => MatrixSourceSize::default(),
        }
    }

    fn attention_size(&self) -> AttentionSize {
        match &self.body {
            Body::Attention(attend) => attend.attention_size(),
            _ => AttentionSize::default(),
        }
    }

    /// Runs the checks that come before anything is written over a state.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn check(
        &mut self,
        pool: &mut Pool,
        workers: &mut [(Worker, ProductScratch)],
        seed: u64,
        alarm: &AssertionRecord,
    ) {
        let call = Call { buffers: &self.buffers, alarm, seed, writes_state: self.writes_state };
        if let Some(precheck) = &mut self.precheck {
            // SAFETY: the caller's.
            unsafe { precheck.run(pool, workers, call) };
        }
    }

    /// # Safety
    /// The buffers must be placed, and nobody else may use what the kernel writes.
    unsafe fn run(
        &mut self,
        pool: &mut Pool,
        workers: &mut [(Worker, ProductScratch)],
        seed: u64,
        alarm: &AssertionRecord,
    ) {
        // SAFETY: the caller's.
        unsafe { self.check(pool, workers, seed, alarm) };
        if self.precheck.is_some() && alarm.is_raised() {
            return;
        }
        let call = Call { buffers: &self.buffers, alarm, seed, writes_state: self.writes_state };
        // SAFETY: the caller's.
        unsafe {
            match &mut self.body {
                Body::MapOrRow(tile) => tile.run(pool, workers, call),
                Body::Segments(segments) => segments.run(pool, workers, call),
                Body::Matmul(contract) => contract.run(pool, workers, call),
                Body::Attention(attend) => attend.run(pool, workers, call),
                Body::Scatter(scatter) => scatter.run(pool, workers, call),
                Body::Scan { monoid, domain, dtype } => {
                    run_scan(*monoid, *domain, *dtype, pool, workers, &self.buffers);
                }
                Body::Opaque(opaque) => opaque.run(pool, &self.buffers),
            }
        }
    }
}

/// Blocks are read and written through raw pointers, so what a tile reaches is looked at once, here. Computed indices
/// are looked at when they are used.
fn assert_inside(kernel: &Kernel) {
    // Segments are looked at by who runs them: their tile knows no operands.
    if !matches!(kernel.body, KernelBody::Segmented { .. }) {
        kernel.bodies().into_iter().for_each(|tile| assert_tile_inside(kernel, tile));
    }
}

fn assert_tile_inside(kernel: &Kernel, tile: &FusedBody) {
    for inst in &tile.insts {
        let (FusedOp::Load { operand, access, index: None } | FusedOp::Store { operand, access, .. }) =
            &inst.op
        else {
            continue;
        };
        let is_visited = tile.domain.points(inst.class) > 0;
        let (low, high) = Address::new(access).bounds().unwrap_or((0, -1));
        let n_elements = kernel.operands[*operand].ty.numel() as i64;
        assert!(
            !is_visited || low >= 0 && high < n_elements,
            "bug: `{}` reaches out of @{operand}",
            kernel.name
        );
    }
}

/// By operand: what memory a written one has in common with the others.
fn shared(plan: &Plan, launch: &Launch, kernel: &Kernel) -> Vec<Sharing> {
    let buffers = &launch.buffers;
    let sharing = |i: usize| {
        let meets =
            |&j: &usize| j != i && (buffers[i] == buffers[j] || arena_overlap(plan, buffers[i], buffers[j]));
        let mut others = (0..buffers.len()).filter(meets);
        match (others.next(), others.next()) {
            (None, _) => Sharing::Alone,
            (Some(read), None) if is_in_place(plan, kernel, launch, i, read) => Sharing::InPlace(read),
            _ => Sharing::Overlaps,
        }
    };
    let operands = kernel.operands.iter().enumerate();
    operands
        .map(|(i, operand)| if operand.usage == Use::Write { sharing(i) } else { Sharing::Alone })
        .collect()
}

/// Whether operand `read` is read and has the very elements of operand `written`.
fn is_in_place(plan: &Plan, kernel: &Kernel, launch: &Launch, written: usize, read: usize) -> bool {
    let [a, b] = [written, read].map(|operand| launch.buffers[operand]);
    let is_same_place = match (&plan.buffers[a].place, &plan.buffers[b].place) {
        (Place::Arena(a), Place::Arena(b)) => a == b,
        _ => a == b,
    };
    let [a, b] = [written, read].map(|operand| &kernel.operands[operand].ty);
    kernel.operands[read].usage == Use::Read && is_same_place && a.dtype == b.dtype && a.numel() == b.numel()
}

fn arena_overlap(plan: &Plan, a: BufferId, b: BufferId) -> bool {
    let range = |id: BufferId| match plan.buffers[id].place {
        Place::Arena(offset) => Some(offset..offset + plan.buffers[id].ty.bytes()),
        Place::Input(_) => None,
    };
    match (range(a), range(b)) {
        (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
        _ => false,
    }
}

fn writes_state(plan: &Plan, launch: &Launch, kernel: &Kernel) -> bool {
    let is_state = |id: BufferId| matches!(plan.buffers[id].place, Place::Input(_));
    launch
        .buffers
        .iter()
        .zip(&kernel.operands)
        .any(|(&id, operand)| operand.usage == Use::Write && is_state(id))
}
