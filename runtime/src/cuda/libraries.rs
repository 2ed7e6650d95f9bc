//! NVIDIA's libraries, opened when a device is.

use std::mem::forget;
use std::thread;

/// Which of them are there.
#[derive(Clone, Copy, Debug)]
pub struct Libraries {
    /// The run-time compiler.
    pub compiler: bool,
    /// Matrix products.
    pub products: bool,
}

/// Opens the driver's library; whether it is there.
pub fn open_driver() -> bool {
    open("cuda")
}

/// Opens the others while `work` is done: one of them is hundreds of megabytes, and starting the driver takes as long.
pub fn open_beside<T>(work: impl FnOnce() -> T) -> (Libraries, T) {
    thread::scope(|scope| {
        let [compiler, products] = ["nvrtc", "cublasLt"].map(|name| scope.spawn(move || open(name)));
        let done = work();
        // Where opening one has panicked, it is not there.
        let [compiler, products] = [compiler, products].map(|opening| opening.join().unwrap_or(false));
        (Libraries { compiler, products }, done)
    })
}

/// Opens a library for good, wherever the bindings will look for it: they open and close it each time that they are asked
/// whether it is there, and open it once more when they call it.
fn open(name: &str) -> bool {
    let mut files = cudarc::get_lib_name_candidates(name).into_iter();
    // SAFETY: NVIDIA's libraries may be opened at any time, by any thread.
    let opened = files.find_map(|file| unsafe { libloading::Library::new(file) }.ok());
    opened.map(forget).is_some()
}
