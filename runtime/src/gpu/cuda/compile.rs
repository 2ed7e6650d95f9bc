//! From CUDA C++ to loaded kernels: NVRTC, with a cache of machine code on disk.

use super::error::failed;
use super::graph::exclude_captures;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::source::Source;
use cudarc::driver::result::{DriverError, function, module};
use cudarc::driver::sys::{CUfunction, CUfunction_attribute_enum, CUmodule};
use cudarc::nvrtc::sys as nvrtc;
use engine_core::codegen::TensorMap;
use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;

/// Compiles kernels for one GPU.
pub struct Compiler {
    /// The version of NVRTC.
    pub version: (i32, i32),
    /// The target architecture.
    pub architecture: Architecture,
    /// Machine code.
    pub disk: DiskCache,
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
}

// SAFETY: a handle that the driver lets any thread of the context use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Why a text was not compiled.
#[derive(Debug)]
pub enum CompileError {
    /// NVRTC rejects the text, with this log.
    Refused(String),
    /// A library or header is missing on this machine.
    Missing(String),
}

/// The target architectures of NVRTC that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// All of them.
    All,
    /// Only those older than the GPU's own, as with an older NVRTC.
    Older,
}

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
        capabilities.retain(|&older| known == Known::All || older < capability);
        let architecture = Architecture::of(capability, &capabilities, version)?;
        Ok(Compiler { version, architecture, disk: DiskCache::from_env("cuda", "cubin") })
    }

    /// Compiles and loads a kernel in the current context; `owner` names it in errors.
    pub fn load(&self, owner: &str, source: &Source) -> Result<Function, DeviceError> {
        let broken = |error| match error {
            CompileError::Refused(log) => DeviceError::not_compiled(owner, &log, &source.text),
            CompileError::Missing(what) => DeviceError::Failed(what),
        };
        let code = self.code(&source.text).map_err(broken)?;
        match load(&code.bytes, source) {
            // The entry is intact, but belongs to another driver or GPU.
            Err(DeviceError::Failed(_)) if code.is_from_disk => {
                self.disk.note("the driver refuses a kernel of the cache; it was compiled again");
                load(&self.fresh_code(&source.text).map_err(broken)?, source)
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

/// Without FMA contraction, results equal those of other devices. Most kernels are memory-bound, so this costs no time.
const OPTIONS: [&str; 2] = ["--fmad=false", "--std=c++17"];

/// A target architecture of NVRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The compute capability.
    pub capability: (i32, i32),
    /// Whether NVRTC emits PTX, which the driver compiles, because NVRTC does not know the GPU.
    pub is_virtual: bool,
}

impl Architecture {
    /// The target for a GPU's compute capability, from those that NVRTC supports. An empty list means that NVRTC does not
    /// report them.
    fn of(gpu: (i32, i32), known: &[(i32, i32)], compiler: (i32, i32)) -> Result<Architecture, DeviceError> {
        let older = known.iter().copied().filter(|&capability| capability <= gpu).max();
        match (older, known.iter().min()) {
            (Some(capability), _) => Ok(Architecture { capability, is_virtual: capability != gpu }),
            (None, None) => Ok(Architecture { capability: gpu, is_virtual: false }),
            (None, Some(&oldest)) => Err(DeviceError::Failed(format!(
                "the GPU has compute capability {}, and NVRTC of CUDA {} compiles for {} and later only; put an older NVRTC \
                 on the library path",
                version_text(gpu),
                version_text(compiler),
                version_text(oldest)
            ))),
        }
    }

    /// Its name in NVRTC's options. The suffix `a` enables the architecture-specific instructions of Hopper and later GPUs;
    /// such code runs on no other architecture.
    fn name(self) -> String {
        let Architecture { capability: (major, minor), is_virtual } = self;
        match is_virtual {
            true => format!("{VIRTUAL}{major}{minor}"),
            false => format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" }),
        }
    }
}

/// The prefix of virtual architectures, for which NVRTC emits PTX instead of machine code.
const VIRTUAL: &str = "compute_";

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
    Ok(Function { handle, entry: entry.clone(), threads, shared_bytes, maps: maps.clone() })
}

// ---- The compiler.

/// The version of NVRTC, or an error if it is missing.
pub fn version(is_there: bool) -> Result<(i32, i32), DeviceError> {
    if !is_there {
        return Err(DeviceError::Failed(
            "NVIDIA's run-time compiler is missing: libnvrtc.so is not on the library path; install the CUDA toolkit, or \
             add its folder to LD_LIBRARY_PATH"
                .to_string(),
        ));
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is open, and both pointers refer to live integers.
    let _ = unsafe { nvrtc::nvrtcVersion(&raw mut major, &raw mut minor) };
    Ok((major, minor))
}

/// The compute capabilities that NVRTC supports; empty if it does not report them. NVRTC is open.
fn known_capabilities() -> Vec<(i32, i32)> {
    let mut n = 0;
    // SAFETY: the library is open, and the pointer refers to a live integer.
    let is_reported = unsafe { nvrtc::nvrtcGetNumSupportedArchs(&raw mut n) }.result().is_ok();
    let mut known = vec![0; usize::try_from(n).unwrap_or(0)];
    // SAFETY: as above; the buffer has room for the reported number.
    if !is_reported || unsafe { nvrtc::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result().is_err() {
        return vec![];
    }
    known.into_iter().map(|capability| (capability / 10, capability % 10)).collect()
}

/// `13.0`
pub fn version_text((major, minor): (i32, i32)) -> String {
    format!("{major}.{minor}")
}

/// Compiles a text to machine code of an architecture such as `sm_90a`, or to PTX of one such as `compute_90`.
///
/// Only half precision needs the headers of the toolkit. NVRTC knows all other declarations itself, and reading the
/// headers would take longer than the compilation.
pub fn compile(text: &str, architecture: &str) -> Result<Vec<u8>, CompileError> {
    let mut options = vec![format!("--gpu-architecture={architecture}")];
    options.extend(OPTIONS.map(str::to_string));
    if needs_headers(text) {
        options.extend(header_folders()?.iter().map(|folder| format!("--include-path={}", folder.display())));
        Program::new(text, &[])?.compile(&options, architecture.starts_with(VIRTUAL))
    } else {
        Program::new(text, &["cuda_runtime.h"])?.compile(&options, architecture.starts_with(VIRTUAL))
    }
}

fn needs_headers(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("#include") && !line.contains("cuda_runtime.h"))
}

/// The folder of the toolkit's headers, for the user.
pub fn headers_text() -> String {
    match header_folders() {
        Ok(folders) => folders.first().map_or(String::new(), |folder| folder.display().to_string()),
        Err(_) => "not found; half precision needs them, set CUDA_HOME to the toolkit's folder".to_string(),
    }
}

fn header_folders() -> Result<Vec<PathBuf>, CompileError> {
    let roots = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let roots = roots.chain(["/usr/local/cuda", "/opt/cuda", "/usr"].map(PathBuf::from));
    let mut folders = roots.map(|root| root.join("include"));
    let Some(include) = folders.find(|folder| folder.join("cuda_fp16.h").is_file()) else {
        let what = "the CUDA toolkit's headers are missing (cuda_fp16.h), which half precision needs; set CUDA_HOME to the \
                    toolkit's folder";
        return Err(CompileError::Missing(what.to_string()));
    };
    Ok(vec![include.clone(), include.join("cccl")])
}

/// A translation unit, destroyed when dropped.
struct Program {
    program: nvrtc::nvrtcProgram,
    /// The text and the headers, to which the program refers.
    _texts: Vec<CString>,
}

impl Program {
    /// `empty` are the names of headers that are replaced by empty ones.
    fn new(text: &str, empty: &[&str]) -> Result<Program, CompileError> {
        let no_text = |_| CompileError::Refused("the text holds a zero byte".to_string());
        let text = CString::new(text).map_err(no_text)?;
        let names: Vec<CString> =
            empty.iter().map(|name| CString::new(*name)).collect::<Result<_, _>>().map_err(no_text)?;
        let contents: Vec<*const c_char> = empty.iter().map(|_| c"".as_ptr()).collect();
        let name_pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        // SAFETY: all pointers refer to strings that live as long as the program.
        let created = unsafe {
            nvrtc::nvrtcCreateProgram(
                &raw mut program,
                text.as_ptr(),
                c"kernel.cu".as_ptr(),
                names.len() as c_int,
                contents.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        created.result().map_err(|error| CompileError::Missing(format!("NVRTC does not start: {error}")))?;
        let texts = std::iter::once(text).chain(names).collect();
        Ok(Program { program, _texts: texts })
    }

    /// Machine code, or PTX with a final zero byte.
    fn compile(&self, options: &[String], is_virtual: bool) -> Result<Vec<u8>, CompileError> {
        // SAFETY: the program lives, and each buffer has the size that NVRTC reports.
        unsafe {
            let compiled = cudarc::nvrtc::result::compile_program(self.program, options);
            compiled
                .map_err(|error| CompileError::Refused(self.log().unwrap_or_else(|| error.to_string())))?;
            let failed = |error: cudarc::nvrtc::result::NvrtcError| CompileError::Refused(error.to_string());
            type Size = unsafe fn(nvrtc::nvrtcProgram, *mut usize) -> nvrtc::nvrtcResult;
            type Copy = unsafe fn(nvrtc::nvrtcProgram, *mut c_char) -> nvrtc::nvrtcResult;
            let (size_of, copy): (Size, Copy) = match is_virtual {
                true => (nvrtc::nvrtcGetPTXSize, nvrtc::nvrtcGetPTX),
                false => (nvrtc::nvrtcGetCUBINSize, nvrtc::nvrtcGetCUBIN),
            };
            let mut size = 0;
            size_of(self.program, &raw mut size).result().map_err(failed)?;
            let mut code = vec![0u8; size];
            copy(self.program, code.as_mut_ptr().cast()).result().map_err(failed)?;
            Ok(code)
        }
    }

    fn log(&self) -> Option<String> {
        // SAFETY: the program lives.
        let bytes = unsafe { cudarc::nvrtc::result::get_program_log(self.program) }.ok()?;
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte as u8).filter(|&byte| byte != 0).collect();
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once. `drop` cannot report an error.
        let _ = unsafe { cudarc::nvrtc::result::destroy_program(self.program) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_target_is_the_gpu_or_the_newest_older_architecture_of_the_compiler() {
        let known = [(7, 5), (8, 0), (9, 0), (12, 1), (10, 0)];
        let name = |gpu| Architecture::of(gpu, &known, (12, 9)).map(Architecture::name);
        assert_eq!(name((8, 0)).unwrap(), "sm_80");
        assert_eq!(name((9, 0)).unwrap(), "sm_90a");
        assert_eq!(name((8, 9)).unwrap(), "compute_80");
        assert_eq!(name((13, 0)).unwrap(), "compute_121");
        let expected =
            "the GPU has compute capability 6.1, and NVRTC of CUDA 12.9 compiles for 7.5 and later only; ";
        assert!(name((6, 1)).unwrap_err().to_string().contains(expected));
        let silent = Architecture::of((9, 0), &[], (12, 9)).unwrap();
        assert_eq!(silent.name(), "sm_90a");
    }
}
