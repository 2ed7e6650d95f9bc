//! The flag that cancels runs, as loops on the GPU see it.

use super::context::Context;
use super::memory::Pinned;
use crate::device::DeviceError;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdeviceptr, CUresult, CUstream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A word of the host's memory that ends the loops of graphs, and the flag that it follows.
pub struct Stop {
    word: Pinned,
    flag: Mutex<Option<Arc<AtomicBool>>>,
}

impl Stop {
    /// Without a flag, nothing is cancelled.
    pub fn new(context: &Arc<Context>) -> Result<Stop, DeviceError> {
        Ok(Stop { word: Pinned::new(context, 1)?, flag: Mutex::default() })
    }

    /// Lets a flag cancel later runs.
    pub fn follow(&self, flag: Arc<AtomicBool>) {
        *self.flag.lock().unwrap_or_else(PoisonError::into_inner) = Some(flag);
    }

    /// Whether the flag is set, which the word then tells the GPU.
    pub fn is_cancelled(&self) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let is_set = flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        self.word.first().store(u32::from(is_set), Ordering::Relaxed);
        is_set
    }

    /// The address of the word on the GPU, which is that on the host.
    pub fn address(&self) -> CUdeviceptr {
        self.word.first().as_ptr() as CUdeviceptr
    }

    /// Waits for a stream, and hands the flag on meanwhile.
    ///
    /// # Errors
    /// If the work of the stream fails.
    pub fn wait(&self, stream: CUstream) -> Result<(), DriverError> {
        if self.flag.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            // SAFETY: the stream lives.
            return unsafe { result::stream::synchronize(stream) };
        }
        let start = Instant::now();
        loop {
            // SAFETY: as above.
            match unsafe { sys::cuStreamQuery(stream) } {
                CUresult::CUDA_ERROR_NOT_READY => _ = self.is_cancelled(),
                state => return state.result(),
            }
            // A long wait takes a sixteenth more at most.
            match start.elapsed() {
                short if short < SHORT => std::thread::yield_now(),
                long => std::thread::sleep((long / 16).min(LONGEST_PAUSE)),
            }
        }
    }
}

/// The host does not sleep in waits that are shorter.
const SHORT: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
