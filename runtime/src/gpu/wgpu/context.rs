//! An open GPU, with its pending errors.

use super::errors::{checked, refusal};
use super::pipeline_cache::{Pipeline, PipelineFiles};
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::gpu::api::GpuState;
use crate::gpu::source::KernelCache;
use crate::panics::caught;
use engine_core::device_model::DeviceModel;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wgpu::{DeviceType, Features};

/// The state that all memory, kernels and plans of a GPU share.
pub struct Context {
    /// The state that does not depend on wgpu. The name has the backend.
    pub state: GpuState<Pipeline>,
    /// The device, which creates memory and pipelines.
    pub device: wgpu::Device,
    /// The queue of submissions.
    pub queue: wgpu::Queue,
    /// The limits of the device.
    pub limits: wgpu::Limits,
    /// The pipeline caches of earlier runs, if the driver supports them.
    pub pipeline_files: Option<PipelineFiles>,
    /// Whether it has timestamp queries.
    pub has_timestamps: bool,
    info: wgpu::AdapterInfo,
    /// The bytes of writes of which wgpu may still hold staging copies.
    staged: AtomicUsize,
    /// The first error outside of an error scope. The next call reports it.
    failure: Arc<Mutex<Option<DeviceError>>>,
}

/// A device with its queue, its features and its adapter.
pub struct OpenGpu {
    /// Its name, with the backend.
    pub name: String,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub features: Features,
    pub limits: wgpu::Limits,
    pub info: wgpu::AdapterInfo,
}

/// The bytes of staging copies after which writes are submitted.
pub const MOST_STAGED: usize = 64 << 20;

/// The time during which waiting polls before it blocks, because waking a blocked thread takes as long as several short
/// steps. Waiting for a software adapter never polls: the adapter needs the CPU.
const SOON: Duration = Duration::from_millis(5);
/// The time between two polls. A poll takes locks and allocates.
const BETWEEN: Duration = Duration::from_micros(5);

/// The result of a poll.
type Polled = Result<wgpu::PollStatus, wgpu::PollError>;

impl Context {
    /// The context of an open device.
    pub fn new(gpu: OpenGpu, model: DeviceModel) -> Context {
        let OpenGpu { name, device, queue, features, limits, info } = gpu;
        let has_timestamps = features.contains(Features::TIMESTAMP_QUERY);
        Context {
            has_timestamps,
            pipeline_files: PipelineFiles::new(features, &info),
            failure: recorded_failures(&device, &name),
            state: GpuState {
                tuner: Tuner::new(format!("{name}, {} {}", info.driver, info.driver_info)),
                name,
                model,
                memory_bytes: 0,
                kernels: KernelCache::default(),
                choices: DiskCache::from_env("wgpu", "choice"),
                can_autotune: has_timestamps && info.device_type != DeviceType::Cpu,
                is_warmed_up: AtomicBool::new(false),
            },
            staged: AtomicUsize::new(0),
            device,
            queue,
            limits,
            info,
        }
    }

    /// Facts for the user, as (name, value).
    pub fn details(&self) -> Vec<(String, String)> {
        let has = |flag: bool| if flag { "yes" } else { "no" }.to_string();
        let limits = &self.limits;
        vec![
            (
                "driver".to_string(),
                format!("{} {}", self.info.driver, self.info.driver_info).trim().to_string(),
            ),
            ("f64".to_string(), has(self.state.model.has_f64)),
            ("i64".to_string(), has(self.state.model.has_i64)),
            ("float atomics".to_string(), has(self.state.model.adds_f32)),
            ("subgroup size".to_string(), self.state.model.plane.to_string()),
            ("cooperative matrices in f16".to_string(), has(self.state.model.has_matrix_units)),
            (
                "packed 16-bit conversion".to_string(),
                match (self.state.model.reads_halves, self.state.model.writes_halves) {
                    (true, true) => "to and from f32".to_string(),
                    (true, false) => "to f32".to_string(),
                    (false, true) => "from f32".to_string(),
                    (false, false) => "no".to_string(),
                },
            ),
            ("largest binding".to_string(), format!("{} MiB", limits.max_storage_buffer_binding_size >> 20)),
            ("bindings of a kernel".to_string(), limits.max_storage_buffers_per_shader_stage.to_string()),
            ("threads of a workgroup".to_string(), self.state.model.most_threads.to_string()),
        ]
    }

    /// An encoder of commands.
    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Reports the first error since the last call. A lost GPU is reported by every call.
    pub fn check(&self) -> Result<(), DeviceError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            Some(lost @ DeviceError::Lost { .. }) => Err(lost.clone()),
            _ => failure.take().map_or(Ok(()), Err),
        }
    }

    /// Waits for all submissions.
    pub fn wait(&self) -> Result<(), DeviceError> {
        self.wait_by(|device| {
            let is_software = self.info.device_type == DeviceType::Cpu;
            let polled = if is_software { None } else { poll_briefly(device) };
            polled.unwrap_or_else(|| device.poll(wgpu::PollType::wait_indefinitely()))
        })
    }

    /// As [`Context::wait`], by another way of polling. wgpu panics if the GPU is lost during the wait.
    pub(super) fn wait_by(&self, poll: impl FnOnce(&wgpu::Device) -> Polled) -> Result<(), DeviceError> {
        let polled = caught(|| poll(&self.device));
        self.check()?;
        let ended = polled.and_then(|polled| polled.map_err(|error| error.to_string()));
        ended
            .map(drop)
            .map_err(|error| DeviceError::Failed(format!("waiting for {}: {error}", self.state.name)))
    }

    /// Accounts for a write of so many bytes. wgpu holds a staging copy until the write is submitted and executed, and loses
    /// the GPU if memory for the copy is missing. Large writes are therefore submitted in parts.
    pub fn note_written(&self, bytes: usize) -> Result<(), DeviceError> {
        if self.staged.fetch_add(bytes, Ordering::Relaxed) + bytes < MOST_STAGED {
            return Ok(());
        }
        self.staged.store(0, Ordering::Relaxed);
        self.queue.submit([]);
        self.wait()
    }

    /// Creates an object of so many bytes, 0 for memory of the driver. `failed` words errors other than missing memory and a
    /// lost GPU.
    pub fn make<T>(
        &self,
        bytes: usize,
        failed: impl FnOnce(String) -> DeviceError,
        make: impl FnOnce() -> T,
    ) -> Result<T, DeviceError> {
        let made = checked(&self.device, make);
        // On a lost GPU, calls seem to succeed or fail for misleading reasons.
        self.check()?;
        made.map_err(|error| refusal(&self.state.name, bytes, &error, failed))
    }
}

/// Records the first error outside of an error scope, and the loss of a GPU.
fn recorded_failures(device: &wgpu::Device, name: &str) -> Arc<Mutex<Option<DeviceError>>> {
    let failure: Arc<Mutex<Option<DeviceError>>> = Arc::default();
    let (recorded, gpu) = (Arc::clone(&failure), name.to_string());
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        let failed = || refusal(&gpu, 0, &error, |message| DeviceError::Failed(format!("{gpu}: {message}")));
        recorded.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(failed);
    }));
    let (recorded, gpu) = (Arc::clone(&failure), name.to_string());
    device.set_device_lost_callback(move |_, why| {
        // The loss replaces an earlier error, which it may have caused.
        let lost = DeviceError::Lost { device: gpu.clone(), why };
        *recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
    });
    failure
}

/// Polls for a short time. `None` if submissions are still running.
fn poll_briefly(device: &wgpu::Device) -> Option<Polled> {
    let start = Instant::now();
    while start.elapsed() < SOON {
        match device.poll(wgpu::PollType::Poll) {
            Ok(status) if !status.is_queue_empty() => {
                let asked = Instant::now();
                while asked.elapsed() < BETWEEN {
                    std::thread::yield_now();
                }
            }
            ended => return Some(ended),
        }
    }
    None
}
