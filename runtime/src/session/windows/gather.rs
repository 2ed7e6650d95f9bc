//! The thread that gathers the rows of windows and sends them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use indexmap::IndexMap;

use crate::data::field::Field;
use crate::data::shuffle::epoch_order;
use crate::data::source::Split;
use crate::device::{Arrival, Device, DeviceBuffer, DeviceError, Staging};
use crate::session::layout::{Layout, Size};

/// Windows on the device, and slots on the host.
pub(super) const N_WINDOWS: usize = 2;

/// Which rows make which window.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) split: Split,
    pub(super) layout: Layout,
    /// The seed of an epoch's order; `None` for file order.
    pub(super) seed: Option<u64>,
    /// Steps of a window.
    pub(super) n_steps: usize,
}

/// The gathering thread, seen from the waiting thread.
pub(super) struct Gatherer {
    /// Windows that are wanted; none in `drop`.
    wanted: Option<SyncSender<u64>>,
    sent: Receiver<Result<Arrival, DeviceError>>,
    /// The window that was requested last, until it is received.
    asked: Option<u64>,
    thread: Option<JoinHandle<()>>,
}

impl Gatherer {
    /// `rings` are the buffers by field, of whole batches and of short ones.
    pub(super) fn start(
        task: Task,
        rings: [IndexMap<String, DeviceBuffer>; 2],
        device: &Arc<dyn Device>,
    ) -> Result<Gatherer, DeviceError> {
        let mut work = Work::new(task, rings, device)?;
        let (wanted, requests) = sync_channel::<u64>(1);
        let (results, sent) = sync_channel(1);
        let serve = move || {
            for window in requests {
                // The receiver may be gone.
                if results.send(work.send(window)).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("engine-rows".into()).spawn(serve);
        let thread = thread.map_err(|error| {
            DeviceError::Failed(format!("a thread that gathers rows could not be started: {error}"))
        })?;
        Ok(Gatherer { wanted: Some(wanted), sent, asked: None, thread: Some(thread) })
    }

    /// Requests a window. No step reads its half of the ring any more.
    pub(super) fn ask(&mut self, window: u64) {
        if self.asked.is_none() {
            self.asked = Some(window);
            let sent = self.wanted.as_ref().map(|wanted| wanted.send(window));
            if !matches!(sent, Some(Ok(()))) {
                engine_core::bug!("the thread that gathers rows has ended");
            }
        }
    }

    /// Waits until a window has been sent, and requests it if it was not requested.
    pub(super) fn get(&mut self, window: u64) -> Result<Arrival, DeviceError> {
        loop {
            self.ask(window);
            let found = self.asked.take();
            let arrival =
                self.sent.recv().unwrap_or_else(|_| engine_core::bug!("gathering rows has panicked"));
            if found == Some(window) {
                return arrival;
            }
        }
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        self.wanted = None;
        // The thread ends before its memory is freed. The waiting thread has reported a panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Work {
    task: Task,
    fields: Vec<Fed>,
    staging: Box<dyn Staging>,
    orders: Option<Orders>,
    /// The rows of a window.
    rows: Vec<i32>,
    /// The epochs that they belong to.
    epochs: Vec<(u64, Range<usize>)>,
}

/// A field on its way to the device.
struct Fed {
    field: Field,
    row_bytes: usize,
    /// Where its rows begin in a slot.
    start: usize,
    rings: [Option<DeviceBuffer>; 2],
}

impl Work {
    fn new(
        task: Task,
        rings: [IndexMap<String, DeviceBuffer>; 2],
        device: &Arc<dyn Device>,
    ) -> Result<Work, DeviceError> {
        let n_rows = task.n_steps * task.layout.batch;
        let mut fields = vec![];
        let mut slot_bytes = 0;
        for (name, field) in task.split.fields() {
            let rings = rings.each_ref().map(|ring| ring.get(name).cloned());
            if rings.iter().all(Option::is_none) {
                continue;
            }
            let row_bytes = field.row_type().bytes();
            fields.push(Fed { field: field.clone(), row_bytes, start: slot_bytes, rings });
            slot_bytes = (slot_bytes + n_rows * row_bytes).next_multiple_of(64);
        }
        let own = || Box::new(Copied::new(device, slot_bytes)) as Box<dyn Staging>;
        let staging = device.staging(N_WINDOWS, slot_bytes)?.unwrap_or_else(own);
        let orders = task.seed.map(|seed| Orders::new(seed, task.split.n_rows()));
        let rows = Vec::with_capacity(n_rows);
        Ok(Work { orders, task, fields, staging, rows, epochs: vec![] })
    }

    /// Gathers the rows of a window and starts to send them.
    fn send(&mut self, window: u64) -> Result<Arrival, DeviceError> {
        let slot = (window % N_WINDOWS as u64) as usize;
        let steps = self.steps(window);
        let bytes = self.staging.slot(slot)?;
        for fed in &self.fields {
            for (epoch, rows) in &self.epochs {
                let target = &mut bytes[fed.start..][rows.start * fed.row_bytes..rows.end * fed.row_bytes];
                gather(fed, *epoch, &self.rows[rows.clone()], target);
            }
        }
        let ring_steps = (N_WINDOWS * self.task.n_steps) as u64;
        for fed in &self.fields {
            for (step, rows, size) in &steps {
                let Some(ring) = &fed.rings[*size as usize] else { continue };
                let batch = match size {
                    Size::Whole => self.task.layout.batch,
                    Size::Short => self.task.layout.last_rows,
                };
                let offset = (step % ring_steps) as usize * batch * fed.row_bytes;
                let bytes = rows.start * fed.row_bytes..rows.end * fed.row_bytes;
                self.staging.send(slot, fed.start + bytes.start..fed.start + bytes.end, ring, offset)?;
            }
        }
        self.staging.arrival(slot)
    }

    /// Lists the rows of a window. Returns its steps, whole ones that follow each other as one: the first, which of the
    /// listed rows they take, and their size.
    fn steps(&mut self, window: u64) -> Vec<(u64, Range<usize>, Size)> {
        let layout = self.task.layout;
        self.rows.clear();
        self.epochs.clear();
        let mut steps: Vec<(u64, Range<usize>, Size)> = vec![];
        let first = window * self.task.n_steps as u64;
        for step in first..first + self.task.n_steps as u64 {
            let (epoch, position) = (step / layout.steps() as u64, (step % layout.steps() as u64) as usize);
            let (start, size) = (self.rows.len(), layout.size_of(step));
            let taken = layout.rows_before(position)..layout.rows_before(position + 1);
            match &mut self.orders {
                Some(orders) => self.rows.extend(&orders.of(epoch)[taken]),
                None => self.rows.extend(taken.map(|row| row as i32)),
            }
            match self.epochs.last_mut() {
                Some((last, rows)) if *last == epoch => rows.end = self.rows.len(),
                _ => self.epochs.push((epoch, start..self.rows.len())),
            }
            match steps.last_mut() {
                Some((_, rows, Size::Whole)) if size == Size::Whole => rows.end = self.rows.len(),
                _ => steps.push((step, start..self.rows.len(), size)),
            }
        }
        steps
    }
}

/// Bytes below which one thread is enough.
const PARALLEL_BYTES: usize = 1 << 20;
/// Threads that keep the memory busy.
const MOST_THREADS: usize = 8;

fn gather(fed: &Fed, epoch: u64, rows: &[i32], target: &mut [u8]) {
    let copy = |rows: &[i32], target: &mut [u8]| fed.field.copy(epoch, rows, target);
    let n_threads = match target.len() {
        0..PARALLEL_BYTES => 1,
        _ => std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
    };
    if n_threads == 1 {
        return copy(rows, target);
    }
    let n_rows = rows.len().div_ceil(n_threads);
    let parts = rows.chunks(n_rows).zip(target.chunks_mut(n_rows * fed.row_bytes));
    std::thread::scope(|scope| {
        parts.for_each(|(rows, target)| drop(scope.spawn(move || copy(rows, target))))
    });
}

/// The orders of epochs; the next one is computed while that of an epoch is used.
struct Orders {
    seed: u64,
    epoch: u64,
    order: Vec<i32>,
    next: Option<(u64, JoinHandle<Vec<i32>>)>,
}

impl Orders {
    fn new(seed: u64, n_rows: usize) -> Orders {
        let order = shuffled(seed, 0, vec![0; n_rows]);
        let mut orders = Orders { seed, epoch: 0, order, next: None };
        orders.look_ahead(vec![0; n_rows]);
        orders
    }

    fn of(&mut self, epoch: u64) -> &[i32] {
        if epoch != self.epoch {
            let next = self.next.take().filter(|(next, _)| *next == epoch);
            let order = next.and_then(|(_, thread)| thread.join().ok());
            let order = order.unwrap_or_else(|| shuffled(self.seed, epoch, vec![0; self.order.len()]));
            self.epoch = epoch;
            let storage = std::mem::replace(&mut self.order, order);
            self.look_ahead(storage);
        }
        &self.order
    }

    fn look_ahead(&mut self, storage: Vec<i32>) {
        let (seed, epoch) = (self.seed, self.epoch + 1);
        let thread = Builder::new().name("engine-order".into()).spawn(move || shuffled(seed, epoch, storage));
        // Without a thread it is computed when it is needed.
        self.next = thread.ok().map(|thread| (epoch, thread));
    }
}

fn shuffled(seed: u64, epoch: u64, mut storage: Vec<i32>) -> Vec<i32> {
    epoch_order(seed, epoch, &mut storage);
    storage
}

/// Slots of a device without asynchronous copies: `send` returns after the copy.
struct Copied {
    device: Arc<dyn Device>,
    bytes: Vec<u8>,
}

impl Copied {
    fn new(device: &Arc<dyn Device>, slot_bytes: usize) -> Copied {
        Copied { device: Arc::clone(device), bytes: vec![0; slot_bytes] }
    }
}

impl Staging for Copied {
    fn slot(&mut self, _: usize) -> Result<&mut [u8], DeviceError> {
        Ok(&mut self.bytes)
    }

    fn send(
        &mut self,
        _: usize,
        bytes: Range<usize>,
        buffer: &DeviceBuffer,
        offset: usize,
    ) -> Result<(), DeviceError> {
        self.device.write(buffer, offset, &self.bytes[bytes])
    }

    fn arrival(&mut self, _: usize) -> Result<Arrival, DeviceError> {
        Ok(Arrival::default())
    }
}
