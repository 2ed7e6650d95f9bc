//! A GPU: which one, what it can do, and what went wrong on it.

use super::Adapter;
use super::compile::Pipelines;
use super::pipeline_cache::Kept;
use super::probe;
use crate::autotune::Tuner;
use crate::cache::DiskCache;
use crate::device::DeviceError;
use crate::panics::caught;
use engine_core::device_model::DeviceModel;
use engine_core::program::matrix_units::PLANE;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wgpu::{Backends, DeviceType, Features};

/// What all memory, kernels and plans of a GPU share.
pub struct Context {
    /// Its name, with how it is driven.
    pub name: String,
    /// Where memory and pipelines are made.
    pub device: wgpu::Device,
    /// Where work is handed in.
    pub queue: wgpu::Queue,
    /// What it takes at most.
    pub limits: wgpu::Limits,
    /// What its kernels can do.
    pub model: DeviceModel,
    /// Compiled kernels.
    pub pipelines: Pipelines,
    /// What its driver has made of kernels in earlier runs, if it tells.
    pub kept: Option<Kept>,
    /// What is chosen by trying, for reports and checkpoints.
    pub tuner: Tuner,
    /// What was chosen in earlier runs.
    pub choices: DiskCache,
    /// Whether the fastest of some kernels can be found by trying them: not where all are slow.
    pub can_autotune: bool,
    /// Whether it has been kept busy for a while.
    pub is_warmed_up: AtomicBool,
    /// Whether the time of a launch can be measured on it.
    pub has_timestamps: bool,
    info: wgpu::AdapterInfo,
    /// Bytes that were written of which wgpu may still hold copies.
    staged: AtomicUsize,
    /// The first thing that went wrong outside of a call that can tell.
    failure: Arc<Mutex<Option<DeviceError>>>,
}

/// What is asked of a GPU when it is opened.
#[derive(Clone, Debug)]
pub enum Asked {
    /// All that it has; what nobody promises is tried.
    All,
    /// All that it promises.
    Promised,
    /// No feature, and no more than these limits.
    Within(Box<wgpu::Limits>),
}

/// Bytes of copies after which what was written is handed in.
pub const MOST_STAGED: usize = 64 << 20;

/// How long a GPU is asked again and again whether all is done: to be woken takes as long as some short steps. (An
/// emulated one needs the processor itself.)
const SOON: Duration = Duration::from_millis(5);
/// The time between two questions, each of which takes locks and allocates.
const BETWEEN: Duration = Duration::from_micros(5);

/// How waiting ends.
type Polled = Result<wgpu::PollStatus, wgpu::PollError>;

/// What a kernel may use if the GPU has it.
const WANTED: Features = Features::SHADER_INT64
    .union(Features::SHADER_F64)
    .union(Features::SHADER_FLOAT32_ATOMIC)
    .union(Features::TIMESTAMP_QUERY)
    .union(Features::PIPELINE_CACHE);

/// How many real GPUs there are.
pub fn count() -> usize {
    adapters(&instance()).iter().filter(|adapter| !is_software(adapter)).count()
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = Backends::PRIMARY;
    // Kernels are checked when they are made; validation layers would look at each step.
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor)
}

/// All of them, the fastest kind first.
fn adapters(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = pollster::block_on(instance.enumerate_adapters(Backends::PRIMARY));
    adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    });
    adapters
}

fn is_software(adapter: &wgpu::Adapter) -> bool {
    adapter.get_info().device_type == DeviceType::Cpu
}

fn chosen(wanted: Adapter) -> Result<wgpu::Adapter, DeviceError> {
    let all = adapters(&instance());
    let n_all = all.len();
    let (software, real): (Vec<_>, Vec<_>) = all.into_iter().partition(is_software);
    let n_real = real.len();
    let found = match wanted {
        Adapter::Gpu(number) => real.into_iter().nth(number),
        Adapter::Software => software.into_iter().next(),
    };
    found.ok_or_else(|| {
        DeviceError::Failed(match wanted {
            _ if n_all == 0 => format!("no GPU is found: {}", why_none()),
            Adapter::Gpu(_) if n_real == 0 => {
                "there is only a software adapter, which is slower than `--device cpu`; `--device wgpu:software` takes it".to_string()
            }
            Adapter::Gpu(number) => format!("there is no GPU of number {number}; {n_real} are there, counted from 0"),
            Adapter::Software => "there is no software adapter; Mesa's comes with the package mesa-vulkan-drivers".to_string(),
        })
    })
}

/// Vulkan's loader, which finds the drivers of GPUs.
#[cfg(target_os = "linux")]
const LOADER: &str = "libvulkan.so.1";

/// Why there is no adapter at all.
#[cfg(target_os = "linux")]
fn why_none() -> String {
    // SAFETY: the loader may be opened at any time, and is not called.
    let opened = unsafe {
        libloading::Library::new(LOADER)
            .and_then(|loader| loader.get::<*const ()>(b"vkGetInstanceProcAddr").map(|_| ()))
    };
    match opened {
        Ok(()) => format!(
            "Vulkan's loader ({LOADER}) shows none; it needs the GPU's driver with its part for Vulkan, and the GPU itself must \
             be seen from here"
        ),
        Err(error) => format!(
            "Vulkan's loader cannot be used ({error}); install it (package libvulkan1) and the GPU's driver"
        ),
    }
}

/// Why there is no adapter at all.
#[cfg(not(target_os = "linux"))]
fn why_none() -> String {
    "neither Vulkan, Metal nor DX12 knows one; install the driver of the GPU".to_string()
}

impl Context {
    /// Opens a GPU.
    pub fn new(wanted: Adapter, asked: Asked) -> Result<Arc<Context>, DeviceError> {
        let adapter = chosen(wanted)?;
        let info = adapter.get_info();
        let name = format!("{} ({})", info.name, info.backend);
        let is_tried = matches!(asked, Asked::All);
        let matrices = if is_tried { matrix_features(&adapter) } else { Features::empty() };
        let wanted = match &asked {
            Asked::All => WANTED.union(Features::SUBGROUP),
            Asked::Promised => WANTED,
            Asked::Within(_) => Features::empty(),
        };
        let limits = match asked {
            Asked::Within(limits) => *limits,
            Asked::All | Asked::Promised => adapter.limits(),
        };
        let opened = with_or_without(matrices, |matrices| {
            request(&adapter, adapter.features() & wanted, matrices, &limits)
        });
        let ((device, queue), matrices) =
            opened.map_err(|error| DeviceError::Failed(format!("{name} does not start: {error}")))?;
        let features = adapter.features() & wanted | matrices;
        let has_timestamps = features.contains(Features::TIMESTAMP_QUERY);
        let failure: Arc<Mutex<Option<DeviceError>>> = Arc::default();
        let (noted, called) = (Arc::clone(&failure), name.clone());
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let failed =
                || refusal(&called, 0, &error, |said| DeviceError::Failed(format!("{called}: {said}")));
            noted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(failed);
        }));
        let (noted, called) = (Arc::clone(&failure), name.clone());
        device.set_device_lost_callback(move |_, why| {
            // Whatever failed because of it is explained by it.
            let lost = DeviceError::Lost { device: called.clone(), why };
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
        });
        let mut context = Arc::new(Context {
            model: model(features, &limits),
            has_timestamps,
            pipelines: Pipelines::default(),
            kept: Kept::of(features, &info),
            tuner: Tuner::new(format!("{name}, {} {}", info.driver, info.driver_info)),
            choices: DiskCache::from_env("wgpu", "choice"),
            can_autotune: has_timestamps && info.device_type != DeviceType::Cpu,
            is_warmed_up: AtomicBool::new(false),
            name,
            device,
            queue,
            limits,
            info,
            staged: AtomicUsize::new(0),
            failure,
        });
        if is_tried {
            let model = probe::found(&context, context.plane(features))?;
            if let Some(context) = Arc::get_mut(&mut context) {
                let has_matrix_units = !matrices.is_empty() && model.plane == PLANE;
                context.model = DeviceModel { has_matrix_units, ..model };
            }
        }
        Ok(context)
    }

    /// Threads of a plane, if that is told: a power of two that is the same for all kernels.
    fn plane(&self, features: Features) -> Option<usize> {
        let wgpu::AdapterInfo { subgroup_min_size: least, subgroup_max_size: most, .. } = self.info;
        let is_told = features.contains(Features::SUBGROUP) && least == most && most.is_power_of_two();
        is_told.then_some(most as usize)
    }

    /// Facts for people.
    pub fn details(&self) -> Vec<(String, String)> {
        let has = |flag: bool| if flag { "yes" } else { "no" }.to_string();
        let limits = &self.limits;
        vec![
            (
                "driver".to_string(),
                format!("{} {}", self.info.driver, self.info.driver_info).trim().to_string(),
            ),
            ("f64".to_string(), has(self.model.has_f64)),
            ("i64".to_string(), has(self.model.has_i64)),
            ("float atomics".to_string(), has(self.model.adds_f32)),
            ("threads of a plane".to_string(), self.model.plane.to_string()),
            ("matrix units for halves".to_string(), has(self.model.has_matrix_units)),
            (
                "halves at once".to_string(),
                match (self.model.reads_halves, self.model.writes_halves) {
                    (true, true) => "read and written".to_string(),
                    (true, false) => "read".to_string(),
                    (false, true) => "written".to_string(),
                    (false, false) => "no".to_string(),
                },
            ),
            ("largest binding".to_string(), format!("{} MiB", limits.max_storage_buffer_binding_size >> 20)),
            ("bindings of a kernel".to_string(), limits.max_storage_buffers_per_shader_stage.to_string()),
            ("threads of a block".to_string(), self.model.most_threads.to_string()),
        ]
    }

    /// What has gone wrong meanwhile. A GPU that was lost stays so.
    pub fn check(&self) -> Result<(), DeviceError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            Some(lost @ DeviceError::Lost { .. }) => Err(lost.clone()),
            _ => failure.take().map_or(Ok(()), Err),
        }
    }

    /// Waits for all that was handed in.
    pub fn wait(&self) -> Result<(), DeviceError> {
        self.wait_by(|device| {
            let is_emulated = self.info.device_type == DeviceType::Cpu;
            let soon = if is_emulated { None } else { done_soon(device) };
            soon.unwrap_or_else(|| device.poll(wgpu::PollType::wait_indefinitely()))
        })
    }

    /// The same in another way of waiting. wgpu panics if the GPU is lost meanwhile.
    pub(super) fn wait_by(&self, poll: impl FnOnce(&wgpu::Device) -> Polled) -> Result<(), DeviceError> {
        let polled = caught(|| poll(&self.device));
        self.check()?;
        let ended = polled.and_then(|polled| polled.map_err(|error| error.to_string()));
        ended.map(drop).map_err(|said| DeviceError::Failed(format!("waiting for {}: {said}", self.name)))
    }

    /// Notes that so many bytes were written. wgpu holds a copy of them until they are handed in and done, and loses a GPU
    /// that has no memory for one, so much is handed in by parts.
    pub fn note_written(&self, bytes: usize) -> Result<(), DeviceError> {
        if self.staged.fetch_add(bytes, Ordering::Relaxed) + bytes < MOST_STAGED {
            return Ok(());
        }
        self.staged.store(0, Ordering::Relaxed);
        self.queue.submit([]);
        self.wait()
    }

    /// Makes something that takes so many bytes, 0 where that is the driver's affair; `failed` says what was wrong with it
    /// where it is neither memory nor the whole GPU.
    pub fn make<T>(
        &self,
        bytes: usize,
        failed: impl FnOnce(String) -> DeviceError,
        make: impl FnOnce() -> T,
    ) -> Result<T, DeviceError> {
        let made = self.checked(make);
        // On a GPU that was lost, everything seems to succeed, or fails for reasons that are none.
        self.check()?;
        made.map_err(|error| refusal(&self.name, bytes, &error, failed))
    }

    /// Makes something, and says what was wrong with it.
    pub fn checked<T>(&self, make: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
        let filters =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation];
        let mut scopes: Vec<_> =
            filters.into_iter().map(|filter| self.device.push_error_scope(filter)).collect();
        let made = make();
        let mut error = None;
        while let Some(scope) = scopes.pop() {
            error = pollster::block_on(scope.pop()).or(error);
        }
        error.map_or(Ok(made), Err)
    }
}

/// How waiting ended if that was soon.
fn done_soon(device: &wgpu::Device) -> Option<Polled> {
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

/// A GPU with these features and, if there are any, those for matrix units, which are experimental.
fn request(
    adapter: &wgpu::Adapter,
    features: Features,
    matrices: Features,
    limits: &wgpu::Limits,
) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    // SAFETY: what is experimental is written into memory by the texts of `matrix` alone, which are valid.
    let experimental = unsafe { wgpu::ExperimentalFeatures::enabled() };
    let disabled = wgpu::ExperimentalFeatures::disabled();
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        label: None,
        required_features: features | matrices,
        required_limits: limits.clone(),
        experimental_features: if matrices.is_empty() { disabled } else { experimental },
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
    }))
}

/// What is opened with some features, or without them where that fails, and which of them it has.
fn with_or_without<T, E>(
    features: Features,
    open: impl Fn(Features) -> Result<T, E>,
) -> Result<(T, Features), E> {
    match open(features) {
        Err(_) if !features.is_empty() => open(Features::empty()).map(|opened| (opened, Features::empty())),
        opened => opened.map(|opened| (opened, features)),
    }
}

/// Why something of so many bytes was not made.
fn refusal(
    device: &str,
    bytes: usize,
    error: &wgpu::Error,
    failed: impl FnOnce(String) -> DeviceError,
) -> DeviceError {
    match error {
        wgpu::Error::OutOfMemory { .. } => DeviceError::out_of_memory(device, bytes, None),
        other => failed(other.to_string()),
    }
}

/// What products on matrix units ask for, if the GPU has all of it.
fn matrix_features(adapter: &wgpu::Adapter) -> Features {
    let wanted = Features::SHADER_F16 | Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    let is_ours = |found: &wgpu::CooperativeMatrixProperties| {
        let sizes = [found.m_size, found.n_size, found.k_size];
        let types = [found.ab_type, found.cr_type];
        sizes == [16; 3] && types == [wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32]
    };
    let has_all =
        adapter.features().contains(wanted) && adapter.cooperative_matrix_properties().iter().any(is_ours);
    if has_all { wanted } else { Features::empty() }
}

fn model(features: Features, limits: &wgpu::Limits) -> DeviceModel {
    let most_threads = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
    let model = DeviceModel {
        has_i64: features.contains(Features::SHADER_INT64),
        // Their functions look at the bits.
        has_f64: features.contains(Features::SHADER_F64 | Features::SHADER_INT64),
        adds_f32: features.contains(Features::SHADER_FLOAT32_ATOMIC),
        most_threads: 1 << most_threads.clamp(1, 1024).ilog2(),
        // Three more are for scalars and the error flag.
        most_tensors: (limits.max_storage_buffers_per_shader_stage as usize).saturating_sub(3),
        shared_bytes: limits.max_compute_workgroup_storage_size as usize,
        most_blocks: limits.max_compute_workgroups_per_dimension as usize,
        most_tensor_bytes: limits.max_storage_buffer_binding_size,
        // A kernel could not read a row of a longer split.
        most_resident_bytes: limits.max_storage_buffer_binding_size,
        ..DeviceModel::WEBGPU
    };
    model.with_kernel_limits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_missing_is_told_from_faults() {
        let refused = |error| refusal("a GPU", 0, &error, DeviceError::Failed);
        let full = refused(wgpu::Error::OutOfMemory { source: "no pages".into() });
        assert_eq!(full, DeviceError::out_of_memory("a GPU", 0, None));
        assert_eq!(full.to_string(), "a GPU has no memory left");
        let description = "a buffer of no use".to_string();
        let faulty = refused(wgpu::Error::Validation { source: "".into(), description });
        assert_eq!(faulty, DeviceError::Failed("a buffer of no use".into()));
    }

    #[test]
    fn a_gpu_that_does_not_start_with_matrix_units_starts_without() {
        let open = |is_sound: fn(Features) -> bool| {
            let request = |features| if is_sound(features) { Ok("open") } else { Err("no") };
            with_or_without(Features::SHADER_F16, request)
        };
        assert_eq!(open(|_| true), Ok(("open", Features::SHADER_F16)));
        assert_eq!(open(|features| features.is_empty()), Ok(("open", Features::empty())));
        assert_eq!(open(|_| false), Err("no"));
    }
}
