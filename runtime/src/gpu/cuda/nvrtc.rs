//! NVRTC, the run-time compiler of CUDA C++: its target architectures, its headers and its programs.

use crate::device::DeviceError;
use cudarc::nvrtc::sys as nvrtc;
use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};

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
    /// Those up to a compute capability.
    UpTo((i32, i32)),
}

/// The variable that names the latest compute capability to compile for, such as `8.0`.
const CAPABILITY: &str = "ENGINE_CUDA_CAPABILITY";

impl Known {
    /// Those that the environment allows: up to `ENGINE_CUDA_CAPABILITY`, or else all.
    ///
    /// # Errors
    /// If the variable holds no compute capability.
    pub fn from_env() -> Result<Known, DeviceError> {
        let Some(text) = std::env::var_os(CAPABILITY).filter(|text| !text.is_empty()) else {
            return Ok(Known::All);
        };
        let text = text.to_string_lossy();
        let numbers = text.split_once('.').map(|(major, minor)| (major.parse(), minor.parse()));
        match numbers {
            Some((Ok(major), Ok(minor))) => Ok(Known::UpTo((major, minor))),
            _ => Err(DeviceError::Failed(format!(
                "{CAPABILITY} is `{text}`, and a compute capability such as 8.0 is expected"
            ))),
        }
    }

    /// Whether an architecture may be used for a GPU.
    pub fn allows(self, architecture: (i32, i32), gpu: (i32, i32)) -> bool {
        match self {
            Known::All => true,
            Known::Older => architecture < gpu,
            Known::UpTo(most) => architecture <= most,
        }
    }
}

/// Without FMA contraction, results equal those of other devices. Most kernels are memory-bound, so this costs no time.
pub const OPTIONS: [&str; 2] = ["--fmad=false", "--std=c++17"];

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
    pub fn of(
        gpu: (i32, i32),
        known: &[(i32, i32)],
        compiler: (i32, i32),
    ) -> Result<Architecture, DeviceError> {
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
    pub fn name(self) -> String {
        let Architecture { capability: (major, minor), is_virtual } = self;
        match is_virtual {
            true => format!("{VIRTUAL}{major}{minor}"),
            false => format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" }),
        }
    }
}

/// The prefix of virtual architectures, for which NVRTC emits PTX instead of machine code.
const VIRTUAL: &str = "compute_";

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
pub fn known_capabilities() -> Vec<(i32, i32)> {
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
    let folders = if needs_headers(text) { header_folders()? } else { vec![] };
    let options = options(architecture, &folders);
    Program::of(text)?.compile(&options, architecture.starts_with(VIRTUAL))
}

/// What NVRTC and its assembler say of a text: warnings, registers, spills. The text may need headers, which are in `include`.
pub fn report(text: &str, architecture: &str, include: &Path) -> Result<String, CompileError> {
    let mut options = options(architecture, &[include.to_path_buf(), include.join("cccl")]);
    options.push("--ptxas-options=-v".to_string());
    let program = Program::of(text)?;
    program.compile(&options, false)?;
    Ok(program.log().unwrap_or_default())
}

fn options(architecture: &str, folders: &[PathBuf]) -> Vec<String> {
    let folders = folders.iter().map(|folder| format!("--include-path={}", folder.display()));
    let architecture = format!("--gpu-architecture={architecture}");
    [architecture].into_iter().chain(OPTIONS.map(str::to_string)).chain(folders).collect()
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
    /// The program of a text. The header of the runtime is replaced by an empty one where it would be the only one.
    fn of(text: &str) -> Result<Program, CompileError> {
        let empty: &[&str] = if needs_headers(text) { &[] } else { &["cuda_runtime.h"] };
        Program::new(text, empty)
    }

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
