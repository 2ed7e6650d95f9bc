//! A GPU with its CUDA context.

use super::compile::{Compiler, Function};
use super::cublaslt::Library;
use super::cudnn::Cudnn;
use super::error::{failed, free_bytes};
use super::graph::exclude_captures;
use super::libraries;
use super::nvrtc::{self, Architecture, Known};
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::api::GpuState;
use crate::gpu::source::KernelCache;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, CudaStream};
use engine_core::device_model::{DeviceModel, TensorCores};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The oldest supported driver, in the driver's numbering: CUDA 12.8.
const OLDEST_DRIVER: i32 = 12080;

/// The state that all memory, kernels and plans of a GPU share.
pub struct Context {
    /// The number of the GPU.
    pub ordinal: usize,
    /// The state that does not depend on CUDA.
    pub state: GpuState<Function>,
    /// The compiler of kernels.
    pub compiler: Compiler,
    /// The library of matmuls.
    pub library: Arc<Library>,
    /// The library of convolutions, if it is installed.
    pub cudnn: Option<Arc<Cudnn>>,
    /// The stream of synchronous copies between host and device.
    copies: Arc<CudaStream>,
    cuda: Arc<CudaContext>,
    driver: i32,
    capability: (i32, i32),
}

/// The number of GPUs that the driver lists.
pub fn count() -> Result<usize, DeviceError> {
    open_driver()?;
    let n = CudaContext::device_count().map_err(|error| no_start(&error))?;
    Ok(usize::try_from(n).unwrap_or(0))
}

impl Context {
    pub fn new(ordinal: usize, known: Known) -> Result<Arc<Context>, DeviceError> {
        let _excluded = exclude_captures();
        let (libraries, opened) = libraries::open_beside(|| open(ordinal));
        let (cuda, driver) = opened?;
        let driver_error = |error: DriverError| failed("opening the GPU", &error);
        let capability = cuda.compute_capability().map_err(driver_error)?;
        let attribute = |attribute: CUdevice_attribute| cuda.attribute(attribute).map_err(driver_error);
        let n_processors = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let name = format!("{} ({n_processors} multiprocessors)", cuda.name().map_err(driver_error)?);
        let compiler = Compiler::new(libraries.compiler, known, capability, driver)?;
        let library = Arc::new(Library::new(libraries.products)?);
        let cudnn = Cudnn::new(libraries.convolutions).map(Arc::new);
        let memory_bytes = cuda.total_mem().map_err(driver_error)? as u64;
        let most_shared_bytes =
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let mut model = model(compiler.architecture, most_shared_bytes, n_processors, memory_bytes);
        model.kernels.convolutions = cudnn.is_some();
        Ok(Arc::new(Context {
            ordinal,
            state: GpuState {
                tuner: Tuner::new(format!(
                    "{} {name}{}",
                    versions(&library, cudnn.as_deref()),
                    target_text(&compiler)
                )),
                name,
                model,
                memory_bytes,
                kernels: KernelCache::default(),
                choices: DiskCache::from_env("cuda", "choice"),
                can_autotune: true,
                is_warmed_up: AtomicBool::new(false),
            },
            copies: cuda.new_stream().map_err(driver_error)?,
            compiler,
            library,
            cudnn,
            cuda,
            driver,
            capability,
        }))
    }

    /// Makes the context current on the calling thread, which every call of the driver requires.
    pub fn enter(&self) -> Result<(), DeviceError> {
        self.cuda.bind_to_thread().map_err(|error| failed("entering the context", &error))
    }

    /// The driver's handle.
    pub fn handle(&self) -> sys::CUcontext {
        self.cuda.cu_ctx()
    }

    /// A new stream, independent of all others.
    pub fn new_stream(&self) -> Result<Arc<CudaStream>, DeviceError> {
        self.cuda.new_stream().map_err(|error| failed("making a stream", &error))
    }

    /// The stream of synchronous copies.
    pub fn copies(&self) -> sys::CUstream {
        self.copies.cu_stream()
    }

    /// Facts for the user, as (name, value).
    pub fn details(&self) -> Vec<(String, String)> {
        let (major, minor) = self.capability;
        let mut details = vec![
            ("number".to_string(), self.ordinal.to_string()),
            ("compute capability".to_string(), format!("{major}.{minor}")),
            ("driver supports CUDA".to_string(), version_text(self.driver)),
            ("NVRTC".to_string(), compiler_text(&self.compiler)),
            ("cuBLASLt".to_string(), self.library.version_text()),
            (
                "cuDNN".to_string(),
                self.cudnn.as_ref().map_or(NO_CUDNN.to_string(), |cudnn| cudnn.version_text()),
            ),
            ("kernels on tensor cores".to_string(), cores_text(self.state.model.tensor_cores).to_string()),
            ("headers of the toolkit".to_string(), nvrtc::headers_text()),
        ];
        if let Some(free) = self.enter().ok().and_then(|()| free_bytes()) {
            details.push(("free memory".to_string(), format!("{} MiB", free >> 20)));
        }
        details
    }
}

/// The instructions of kernels on tensor cores, or why there are none.
fn cores_text(cores: Option<TensorCores>) -> &'static str {
    match cores {
        Some(TensorCores::Warpgroups) => "of warpgroups (wgmma)",
        Some(TensorCores::Warps) => "of warps (mma.sync)",
        None => "none, they need compute capability 8.0",
    }
}

/// Convolutions are matmuls then.
const NO_CUDNN: &str = "not installed, and not needed";

/// The versions of the libraries that choices depend on.
fn versions(library: &Library, cudnn: Option<&Cudnn>) -> String {
    let cudnn = cudnn.map_or(String::new(), |cudnn| format!(", cuDNN {}", cudnn.version_text()));
    format!("cuBLASLt {}{cudnn}", library.version_text())
}

/// The target architecture where that is not the GPU's own, which kernels and choices depend on.
fn target_text(compiler: &Compiler) -> String {
    let Architecture { capability, is_virtual } = compiler.architecture;
    if is_virtual { format!(" as {}", nvrtc::version_text(capability)) } else { String::new() }
}

/// The version of NVRTC, and its target architecture where that is not the GPU's own.
fn compiler_text(compiler: &Compiler) -> String {
    let version = nvrtc::version_text(compiler.version);
    let Architecture { capability, is_virtual } = compiler.architecture;
    let reason = match Known::from_env() {
        Ok(Known::UpTo(_)) => "as ENGINE_CUDA_CAPABILITY asks",
        _ => "which does not know this GPU",
    };
    match is_virtual {
        false => version,
        true => format!(
            "{version}, {reason}: it compiles for {}, and the driver from there",
            nvrtc::version_text(capability)
        ),
    }
}

/// The model of a GPU. Resident data may take half of its memory; the rest is for parameters and intermediate values.
fn model(
    Architecture { capability, is_virtual }: Architecture,
    most_shared_bytes: i32,
    n_processors: i32,
    memory_bytes: u64,
) -> DeviceModel {
    // Shared memory of a block that double buffering leaves to the rest of the kernel.
    let reserved = 8 << 10;
    let is_ampere = capability >= (8, 0);
    DeviceModel {
        has_extremes: is_ampere,
        double_buffer_bytes: if is_ampere {
            usize::try_from(most_shared_bytes - reserved).unwrap_or(0)
        } else {
            0
        },
        n_processors: usize::try_from(n_processors).unwrap_or(1),
        adds_four: capability >= (9, 0),
        // `wgmma` belongs to this architecture alone, and PTX for later ones has none.
        tensor_cores: match capability == (9, 0) && !is_virtual {
            true => Some(TensorCores::Warpgroups),
            false => is_ampere.then_some(TensorCores::Warps),
        },
        most_resident_bytes: memory_bytes / 2,
        ..DeviceModel::H200
    }
}

/// The context of a GPU, and the version of the driver.
fn open(ordinal: usize) -> Result<(Arc<CudaContext>, i32), DeviceError> {
    let n_devices = count()?;
    if ordinal >= n_devices {
        let known = if n_devices == 1 {
            "cuda:0 is the only one".into()
        } else {
            format!("{n_devices} GPUs are there")
        };
        return Err(DeviceError::Failed(format!("there is no GPU of number {ordinal}; {known}")));
    }
    let driver = driver_version()?;
    Ok((CudaContext::new(ordinal).map_err(|error| no_start(&error))?, driver))
}

fn open_driver() -> Result<(), DeviceError> {
    if libraries::open_driver() {
        return Ok(());
    }
    Err(DeviceError::Failed("there is no NVIDIA driver: libcuda.so is not found".to_string()))
}

/// The version of the driver, checked against the oldest supported one.
fn driver_version() -> Result<i32, DeviceError> {
    let mut version = 0;
    // SAFETY: the driver's library is open, and the pointer refers to a live integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(|error| no_start(&error))?;
    if version < OLDEST_DRIVER {
        let (has, needs) = (version_text(version), version_text(OLDEST_DRIVER));
        return Err(DeviceError::Failed(format!(
            "the NVIDIA driver is too old: it supports CUDA {has}, and CUDA {needs} is needed; update the driver"
        )));
    }
    Ok(version)
}

/// 12080 is CUDA 12.8.
fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn no_start(error: &DriverError) -> DeviceError {
    match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => DeviceError::Failed("the NVIDIA driver sees no GPU".to_string()),
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => DeviceError::Failed(
            "another process has the GPU, whose compute mode lets in one at a time; wait for it to end, or let in several \
             with `nvidia-smi -c DEFAULT`"
                .to_string(),
        ),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::Failed(
            "the GPU has no memory left for another process; `nvidia-smi` lists those that have it".to_string(),
        ),
        _ => failed("starting the NVIDIA driver", error),
    }
}
