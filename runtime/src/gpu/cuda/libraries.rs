//! NVIDIA's libraries, opened together with a device.

use std::mem::forget;
use std::path::Path;
use std::thread;

/// Which libraries were found.
#[derive(Clone, Copy, Debug)]
pub struct Libraries {
    /// NVRTC, the run-time compiler.
    pub compiler: bool,
    /// cuBLASLt, the library of matmuls.
    pub products: bool,
    /// cuDNN, the library of convolutions.
    pub convolutions: bool,
}

/// Opens the driver's library, and returns whether it was found.
pub fn open_driver() -> bool {
    open("cuda")
}

/// Opens NVRTC, cuBLASLt and cuDNN while `work` runs. cuBLASLt has hundreds of megabytes, and starting the driver takes as long.
pub fn open_beside<T>(work: impl FnOnce() -> T) -> (Libraries, T) {
    thread::scope(|scope| {
        let opening = ["nvrtc", "cublasLt", "cudnn"].map(|name| scope.spawn(move || open(name)));
        let done = work();
        // A library whose opening panicked counts as missing.
        let [compiler, products, convolutions] = opening.map(|opening| opening.join().unwrap_or(false));
        (Libraries { compiler, products, convolutions }, done)
    })
}

/// Opens NVRTC from a folder, and returns whether the bindings find it then. A library that is open is found by the name in
/// its file.
pub fn open_compiler_in(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter(|file| file.file_name().to_string_lossy().starts_with("libnvrtc.so"));
    // SAFETY: as below.
    let opened = names.filter_map(|file| unsafe { libloading::Library::new(file.path()) }.ok());
    opened.for_each(forget);
    open("nvrtc")
}

/// Opens a library for the life of the process, under the file names that the bindings try. The bindings themselves open
/// and close a library on each check of its presence, and open it again at the first call.
fn open(name: &str) -> bool {
    let mut files = cudarc::get_lib_name_candidates(name).into_iter();
    // SAFETY: NVIDIA's libraries may be opened at any time, by any thread.
    let opened = files.find_map(|file| unsafe { libloading::Library::new(file) }.ok());
    opened.map(forget).is_some()
}
