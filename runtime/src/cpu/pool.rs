//! A persistent fork/join pool: short parallel regions, no allocation per region.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Threads that run the chunks of one region at a time; the calling thread is one of them.
///
/// Chunks must follow from shapes alone, because any worker may take any chunk, in any order. The worker number is for
/// scratch memory only. Each worker begins with its own share of the chunks, which are neighbours: kernels that are cut
/// alike find their data in the cache of the core that wrote it. A worker without chunks helps the others.
pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `n_threads` workers, the caller included; at least one.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(n_threads: usize) -> std::io::Result<Pool> {
        let n_helpers = n_threads.max(1) - 1;
        let shared = Arc::new(Shared::new(n_helpers));
        let mut pool = Pool { shared, helpers: Vec::with_capacity(n_helpers) };
        for helper_idx in 0..n_helpers {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name(format!("cpu-{}", helper_idx + 1));
            pool.helpers.push(thread.spawn(move || shared.serve(helper_idx))?);
        }
        Ok(pool)
    }

    /// The number of workers, the caller included; worker numbers are below it.
    pub fn n_threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `body(chunk, worker)` once for every chunk below `n_chunks` and returns when all have returned.
    ///
    /// # Panics
    /// With the payload of the first chunk that panicked, after all running chunks have ended. Chunks that have not begun
    /// do not run.
    pub fn run(&mut self, n_chunks: usize, body: &(dyn Fn(usize, usize) + Sync)) {
        if self.helpers.is_empty() || n_chunks <= 1 {
            return (0..n_chunks).for_each(|chunk| body(chunk, 0));
        }
        self.shared.open(Region { body: erase_lifetime(body), n_chunks });
        for (helper, is_parked) in self.helpers.iter().zip(&self.shared.is_parked) {
            if is_parked.load(Ordering::SeqCst) {
                helper.thread().unpark();
            }
        }
        self.shared.work(0);
        self.shared.close();
        if let Some(payload) = self.shared.take_panic() {
            resume_unwind(payload);
        }
    }

    /// As [`Pool::run`], with the worker's own scratch value for each chunk.
    ///
    /// # Panics
    /// As [`Pool::run`], and if there are fewer scratch values than workers.
    pub fn run_with<S: Send>(
        &mut self,
        n_chunks: usize,
        scratch: &mut [S],
        body: impl Fn(usize, &mut S) + Sync,
    ) {
        assert!(scratch.len() >= self.n_threads());
        let scratch = ScratchPtr(scratch.as_mut_ptr());
        let scratch = &scratch;
        self.run(n_chunks, &|chunk, worker| {
            // SAFETY: worker numbers are below the length, and a worker runs one chunk at a time.
            body(chunk, unsafe { &mut *scratch.0.add(worker) });
        });
    }
}

/// The start of the scratch values, one for each worker.
struct ScratchPtr<S>(*mut S);
// SAFETY: each worker makes a reference to its own value only.
unsafe impl<S: Send> Sync for ScratchPtr<S> {}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper catches the panics of bodies, so it ends without one.
            let _ = helper.join();
        }
    }
}

type Body = dyn Fn(usize, usize) + Sync;

#[derive(Clone, Copy)]
struct Region {
    body: *const Body,
    n_chunks: usize,
}

/// Helpers enter a region through its gate while it is open. The owner closes the gate when no chunk is left and waits
/// for the helpers inside, never for one that is asleep or descheduled.
struct Shared {
    gate: Gate,
    /// The next chunk of each worker's share.
    next_chunks: Vec<Padded<AtomicUsize>>,
    region: UnsafeCell<Option<Region>>,
    is_parked: Vec<AtomicBool>,
    is_over: AtomicBool,
    has_panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the owner alone writes `region`, while the gate is shut and empty. Only helpers inside read it. The body that
// it points to is `Sync`, and lives longer than the gate is open or occupied.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A value on two cache lines of its own, because processors prefetch neighbouring lines together.
#[repr(align(128))]
struct Padded<T>(T);

impl Shared {
    fn new(n_helpers: usize) -> Shared {
        Shared {
            gate: Gate(Padded(AtomicU64::new(0))),
            next_chunks: (0..=n_helpers).map(|_| Padded(AtomicUsize::new(0))).collect(),
            region: UnsafeCell::new(None),
            is_parked: (0..n_helpers).map(|_| AtomicBool::new(false)).collect(),
            is_over: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    fn open(&self, region: Region) {
        // SAFETY: the last `close` left the gate shut and empty, so no helper reads it.
        unsafe { *self.region.get() = Some(region) };
        for (of, next) in self.next_chunks.iter().enumerate() {
            next.0.store(self.share(of, region.n_chunks).start, Ordering::Relaxed);
        }
        self.gate.open();
    }

    fn close(&self) {
        self.gate.shut();
        wait_until(|| self.gate.is_empty());
    }

    fn serve(&self, helper_idx: usize) {
        let mut last_region = 0;
        while let Some(entered) = self.enter_after(last_region, helper_idx) {
            last_region = entered;
            self.work(helper_idx + 1);
            self.gate.leave();
        }
    }

    /// Waits for a region later than the last one and enters it; `None` when the pool ends.
    fn enter_after(&self, last_region: u64, helper_idx: usize) -> Option<u64> {
        loop {
            for _ in 0..N_SPINS {
                if let Some(region) = self.gate.try_enter(last_region) {
                    return Some(region);
                }
                spin_loop();
            }
            self.is_parked[helper_idx].store(true, Ordering::SeqCst);
            // The gate is read again after the flag is set, because the owner reads the flag after opening the gate.
            if !self.gate.is_open_after(last_region) && !self.is_over.load(Ordering::SeqCst) {
                thread::park();
            }
            self.is_parked[helper_idx].store(false, Ordering::SeqCst);
            if self.is_over.load(Ordering::SeqCst) {
                return None;
            }
        }
    }

    /// Takes chunks until none is left.
    fn work(&self, worker: usize) {
        // SAFETY: the caller is the owner or is inside the gate.
        let Some(region) = (unsafe { *self.region.get() }) else { return };
        // SAFETY: `Pool::run` returns only after the gate is shut and empty, so the body is alive.
        let body = unsafe { &*region.body };
        let n_workers = self.next_chunks.len();
        let result = catch_unwind(AssertUnwindSafe(|| {
            for of in (worker..n_workers).chain(0..worker) {
                let (next, end) = (&self.next_chunks[of].0, self.share(of, region.n_chunks).end);
                while !self.has_panicked.load(Ordering::Relaxed) && next.load(Ordering::Relaxed) < end {
                    let chunk = next.fetch_add(1, Ordering::Relaxed);
                    if chunk < end {
                        body(chunk, worker);
                    }
                }
            }
        }));
        if let Err(payload) = result {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            self.has_panicked.store(true, Ordering::Release);
        }
    }

    /// The chunks that a worker begins with. The first of few chunks is the owner's.
    fn share(&self, worker: usize, n_chunks: usize) -> Range<usize> {
        let bound = |worker: usize| (n_chunks * worker).div_ceil(self.next_chunks.len());
        bound(worker)..bound(worker + 1)
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        if !self.has_panicked.swap(false, Ordering::Acquire) {
            return None;
        }
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Spins before a thread parks or yields: about 50 µs, longer than the gaps between the kernels of a step.
const N_SPINS: usize = 4000;

/// The number of the region in the high half, the bit of an open gate, and the number of helpers inside.
struct Gate(Padded<AtomicU64>);

const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

impl Gate {
    fn open(&self) {
        let state = self.0.0.load(Ordering::Relaxed);
        self.0.0.store(((state >> 32).wrapping_add(1) << 32) | OPEN, Ordering::SeqCst);
    }

    fn shut(&self) {
        self.0.0.fetch_and(!OPEN, Ordering::AcqRel);
    }

    fn is_empty(&self) -> bool {
        self.0.0.load(Ordering::Acquire) & INSIDE == 0
    }

    fn is_open_after(&self, last_region: u64) -> bool {
        let state = self.0.0.load(Ordering::SeqCst);
        state & OPEN != 0 && state >> 32 != last_region
    }

    fn try_enter(&self, last_region: u64) -> Option<u64> {
        let state = self.0.0.load(Ordering::Relaxed);
        if state & OPEN == 0 || state >> 32 == last_region {
            return None;
        }
        self.0.0.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(state >> 32)
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for a condition: spins at first, then yields the core between tests.
fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..N_SPINS {
        if condition() {
            return;
        }
        spin_loop();
    }
    while !condition() {
        thread::yield_now();
    }
}

fn erase_lifetime<'a>(body: &'a (dyn Fn(usize, usize) + Sync + 'a)) -> *const Body {
    // SAFETY: only the lifetime changes; the comment in `Shared::work` shows that the body outlives its calls.
    unsafe { std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + 'a), *const Body>(body) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_chunk_runs_once_in_every_region() {
        for n_threads in [1, 2, 5] {
            let mut pool = Pool::new(n_threads).unwrap();
            for n_chunks in [0, 1, 2, 3, 64, 1000] {
                let counts: Vec<AtomicUsize> = (0..n_chunks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(n_chunks, &|chunk, worker| {
                    assert!(worker < n_threads);
                    counts[chunk].fetch_add(1, Ordering::Relaxed);
                });
                assert!(
                    counts.iter().all(|count| count.load(Ordering::Relaxed) == 1),
                    "{n_threads} {n_chunks}"
                );
            }
        }
    }

    /// Chunks whose workers all wait for each other are taken by the workers whose share they are.
    #[test]
    fn each_worker_begins_with_its_share() {
        let mut pool = Pool::new(3).unwrap();
        let (takers, n_arrived) = (Mutex::new(vec![]), AtomicUsize::new(0));
        pool.run(3, &|chunk, worker| {
            takers.lock().unwrap().push((chunk, worker));
            n_arrived.fetch_add(1, Ordering::SeqCst);
            wait_until(|| n_arrived.load(Ordering::SeqCst) == 3);
        });
        let mut takers = takers.into_inner().unwrap();
        takers.sort_unstable();
        assert_eq!(takers, [(0, 0), (1, 1), (2, 2)]);
    }

    #[test]
    fn writes_of_one_region_are_seen_by_the_next() {
        let mut pool = Pool::new(4).unwrap();
        let cells: Vec<AtomicUsize> = (0..16).map(|_| AtomicUsize::new(0)).collect();
        for round in 0..20_000 {
            pool.run(cells.len(), &|chunk, _| {
                assert_eq!(cells[chunk].load(Ordering::Relaxed), round);
                cells[chunk].store(round + 1, Ordering::Relaxed);
            });
        }
    }

    #[test]
    fn helpers_wake_after_they_parked() {
        let mut pool = Pool::new(2).unwrap();
        for _ in 0..3 {
            thread::sleep(std::time::Duration::from_millis(20));
            let helper_came = AtomicBool::new(false);
            // Chunk 0 or 1 waits for the other worker, so the region ends only if the helper woke.
            let n_arrived = AtomicUsize::new(0);
            pool.run(2, &|_, worker| {
                helper_came.fetch_or(worker == 1, Ordering::Relaxed);
                n_arrived.fetch_add(1, Ordering::SeqCst);
                wait_until(|| n_arrived.load(Ordering::SeqCst) == 2);
            });
            assert!(helper_came.into_inner());
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(3).unwrap();
        for culprit in [0, 7, 99] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, &|chunk, _| assert!(chunk != culprit, "chunk {chunk} fails"));
            }));
            let message = result.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(*message, format!("chunk {culprit} fails"));
            let n_run = AtomicUsize::new(0);
            pool.run(10, &|_, _| _ = n_run.fetch_add(1, Ordering::Relaxed));
            assert_eq!(n_run.into_inner(), 10);
        }
    }
}
