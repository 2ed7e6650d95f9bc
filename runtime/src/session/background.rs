//! The background thread: the next epoch's order, uploads, checkpoint files.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

/// Threads for work that the training loop must not wait for.
pub(super) struct Background {
    /// Taken only by `drop`.
    runtime: Option<Runtime>,
}

impl Background {
    pub(super) fn new() -> std::io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("engine-background").build()?;
        Ok(Background { runtime: Some(runtime) })
    }

    /// Starts work; its result waits in the task.
    pub(super) fn start<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let (send, result) = mpsc::sync_channel(1);
        if let Some(runtime) = &self.runtime {
            runtime.spawn_blocking(move || {
                // The receiver may be gone.
                drop(send.send(work()));
            });
        }
        Task { result: Mutex::new(result) }
    }
}

impl Drop for Background {
    /// A runtime must not be dropped where waiting is forbidden, such as within another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Work that was started.
pub(super) struct Task<T> {
    /// The lock makes a session shareable and is never contended.
    result: Mutex<Receiver<T>>,
}

impl<T> Task<T> {
    /// Waits for the result; none if the work panicked.
    pub(super) fn wait(self) -> Option<T> {
        self.result.into_inner().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}
