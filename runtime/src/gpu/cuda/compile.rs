//! From CUDA C++ to loaded kernels: NVRTC, with a cache of machine code on disk.

use super::error::failed;
use super::graph::exclude_captures;
use super::nvrtc::{Architecture, CompileError, Known, OPTIONS, compile, known_capabilities, version};
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::source::Source;
use cudarc::driver::result::{DriverError, function, module};
use cudarc::driver::sys::{CUfunction, CUfunction_attribute_enum, CUmodule};
use engine_core::codegen::{AWAIT, TensorMap};
use std::ffi::CString;

/// The first version of CUDA whose graphs keep early starts.
const EARLY_STARTS_IN_GRAPHS: i32 = 12030;

/// Compiles kernels for one GPU.
pub struct Compiler {
    /// The version of NVRTC.
    pub version: (i32, i32),
    /// The target architecture.
    pub architecture: Architecture,
    /// Machine code.
    pub disk: DiskCache,
    /// Whether the driver and the GPU let blocks start before the kernel before has ended, in graphs too.
    has_early_starts: bool,
}

/// A loaded kernel. Its module is never unloaded.
pub struct Function {
    pub handle: CUfunction,
    /// The name of its function.
    pub entry: String,
    /// Threads of a block along each axis.
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// The tensor maps that a launch passes before its pointers.
    pub maps: Vec<TensorMap>,
    /// Whether its blocks wait for the kernel before, so that they may start earlier.
    pub waits_itself: bool,
}

// SAFETY: a handle that the driver lets any thread of the context use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Machine code.
struct Code {
    bytes: Vec<u8>,
    is_from_disk: bool,
}

impl Compiler {
    /// `has_compiler` says whether NVRTC is open.
    pub fn new(
        has_compiler: bool,
        known: Known,
        capability: (i32, i32),
        driver: i32,
    ) -> Result<Compiler, DeviceError> {
        let version = version(has_compiler)?;
        if version.0 > driver / 1000 {
            let (major, minor) = version;
            return Err(DeviceError::Failed(format!(
                "NVRTC is of CUDA {major}.{minor}, and the NVIDIA driver supports CUDA {}.{} only; update the driver, or put \
                 an older NVRTC on the library path",
                driver / 1000,
                driver % 1000 / 10
            )));
        }
        let mut capabilities = known_capabilities();
        capabilities.retain(|&architecture| known.allows(architecture, capability));
        let architecture = Architecture::of(capability, &capabilities, version)?;
        let has_early_starts = architecture.capability.0 >= 9 && driver >= EARLY_STARTS_IN_GRAPHS;
        Ok(Compiler { version, architecture, disk: DiskCache::from_env("cuda", "cubin"), has_early_starts })
    }

    /// Compiles and loads a kernel in the current context; `owner` names it in errors.
    pub fn load(&self, owner: &str, source: &Source) -> Result<Function, DeviceError> {
        let broken = |error| match error {
            CompileError::Refused(log) => DeviceError::not_compiled(owner, &log, &source.text),
            CompileError::Missing(what) => DeviceError::Failed(what),
        };
        let code = self.code(&source.text).map_err(broken)?;
        let waits_itself = source.text.contains(AWAIT) && self.has_early_starts;
        let load = |code: &[u8]| Ok(Function { waits_itself, ..load(code, source)? });
        match load(&code.bytes) {
            // The entry is intact, but belongs to another driver or GPU.
            Err(DeviceError::Failed(_)) if code.is_from_disk => {
                self.disk.note("the driver refuses a kernel of the cache; it was compiled again");
                load(&self.fresh_code(&source.text).map_err(broken)?)
            }
            function => function,
        }
    }

    /// Machine code from the disk cache, or else from NVRTC.
    fn code(&self, text: &str) -> Result<Code, CompileError> {
        match self.disk.read(&self.key(text)) {
            Some(bytes) => Ok(Code { bytes, is_from_disk: true }),
            None => Ok(Code { bytes: self.fresh_code(text)?, is_from_disk: false }),
        }
    }

    fn fresh_code(&self, text: &str) -> Result<Vec<u8>, CompileError> {
        let code = compile(text, &self.architecture.name())?;
        self.disk.write(&self.key(text), &code);
        Ok(code)
    }

    fn key(&self, text: &str) -> String {
        format!("NVRTC {:?} {} {OPTIONS:?}\n{text}", self.version, self.architecture.name())
    }
}

/// The dynamic shared memory that a block may use without an attribute of the function.
const DEFAULT_SHARED_BYTES: usize = 48 << 10;

fn load(code: &[u8], source: &Source) -> Result<Function, DeviceError> {
    let _excluded = exclude_captures();
    let &Source { ref entry, threads, shared_bytes, ref maps, .. } = source;
    let name = CString::new(entry.as_str()).unwrap_or_default();
    // SAFETY: the code is complete: it comes from NVRTC, or from the disk with a valid checksum. The module is never
    // unloaded.
    let handle = unsafe {
        module::load_data(code.as_ptr().cast())
            .and_then(|module: CUmodule| module::get_function(module, name))
    };
    let driver_error = |error: DriverError| failed(&format!("loading kernel `{entry}`"), &error);
    let handle = handle.map_err(driver_error)?;
    if shared_bytes > DEFAULT_SHARED_BYTES {
        let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function was loaded just now.
        unsafe { function::set_function_attribute(handle, attribute, shared_bytes as i32) }
            .map_err(driver_error)?;
    }
    Ok(Function {
        handle,
        entry: entry.clone(),
        threads,
        shared_bytes,
        maps: maps.clone(),
        waits_itself: false,
    })
}
