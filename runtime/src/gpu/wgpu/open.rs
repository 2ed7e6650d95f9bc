//! Opening a GPU: features, limits, and the model that the compiler sees.

use super::adapter::{self, Adapter};
use super::context::{Context, OpenGpu};
use super::probe;
use crate::device::DeviceError;
use engine_core::device_model::DeviceModel;
use engine_core::program::matrix_units::PLANE;
use std::sync::Arc;
use wgpu::Features;

/// The features and limits that are requested from a GPU.
#[derive(Clone, Debug)]
pub enum Request {
    /// All that the GPU has. A probe tests behaviour that WGSL does not guarantee.
    All,
    /// All that the GPU has, used only as far as WGSL guarantees it.
    Guaranteed,
    /// No features, and these limits.
    Within(Box<wgpu::Limits>),
}

/// The features that kernels use where the GPU has them.
const WANTED: Features = Features::SHADER_INT64
    .union(Features::SHADER_F64)
    .union(Features::SHADER_FLOAT32_ATOMIC)
    .union(Features::TIMESTAMP_QUERY)
    .union(Features::PIPELINE_CACHE);

/// Opens a GPU.
///
/// # Errors
/// If there is no such GPU, or it does not start.
pub fn open(adapter: Adapter, request: Request) -> Result<Arc<Context>, DeviceError> {
    let adapter = adapter::find(adapter)?;
    let info = adapter.get_info();
    let name = format!("{} ({})", info.name, info.backend);
    let is_probed = matches!(request, Request::All);
    let matrix_features = if is_probed { matrix_features(&adapter) } else { Features::empty() };
    let wanted = match &request {
        Request::All => WANTED.union(Features::SUBGROUP),
        Request::Guaranteed => WANTED,
        Request::Within(_) => Features::empty(),
    };
    let limits = match request {
        Request::Within(limits) => *limits,
        Request::All | Request::Guaranteed => adapter.limits(),
    };
    let opened = with_or_without(matrix_features, |matrix_features| {
        start(&adapter, adapter.features() & wanted, matrix_features, &limits)
    });
    let ((device, queue), matrix_features) =
        opened.map_err(|error| DeviceError::Failed(format!("{name} does not start: {error}")))?;
    let features = adapter.features() & wanted | matrix_features;
    let subgroup_size = subgroup_size(features, &info);
    let model = model(features, &limits);
    let gpu = OpenGpu { name, device, queue, features, limits, info };
    let mut context = Arc::new(Context::new(gpu, model));
    if is_probed {
        let model = probe::found(&context, subgroup_size)?;
        if let Some(context) = Arc::get_mut(&mut context) {
            let has_matrix_units = !matrix_features.is_empty() && model.plane == PLANE;
            context.state.model = DeviceModel { has_matrix_units, ..model };
        }
    }
    Ok(context)
}

/// The size of subgroups, if the driver reports one power of two for all kernels.
fn subgroup_size(features: Features, info: &wgpu::AdapterInfo) -> Option<usize> {
    let (least, most) = (info.subgroup_min_size, info.subgroup_max_size);
    let is_reported = features.contains(Features::SUBGROUP) && least == most && most.is_power_of_two();
    is_reported.then_some(most as usize)
}

/// Starts a device with these features and with those for matrix units, which are experimental.
fn start(
    adapter: &wgpu::Adapter,
    features: Features,
    matrices: Features,
    limits: &wgpu::Limits,
) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    // SAFETY: only the texts of `matrix` use experimental features, and naga validates them.
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

/// Opens a device with some features, or else without them. Also returns the features that it has.
fn with_or_without<T, E>(
    features: Features,
    open: impl Fn(Features) -> Result<T, E>,
) -> Result<(T, Features), E> {
    match open(features) {
        Err(_) if !features.is_empty() => open(Features::empty()).map(|opened| (opened, Features::empty())),
        opened => opened.map(|opened| (opened, features)),
    }
}

/// The features of matmuls on matrix units, if the GPU has all of them.
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
        // Functions of `f64` operate on bits as `i64`.
        has_f64: features.contains(Features::SHADER_F64 | Features::SHADER_INT64),
        adds_f32: features.contains(Features::SHADER_FLOAT32_ATOMIC),
        most_threads: 1 << most_threads.clamp(1, 1024).ilog2(),
        // Three bindings are reserved for the scalars and the error flag.
        most_tensors: (limits.max_storage_buffers_per_shader_stage as usize).saturating_sub(3),
        shared_bytes: limits.max_compute_workgroup_storage_size as usize,
        most_blocks: limits.max_compute_workgroups_per_dimension as usize,
        most_tensor_bytes: limits.max_storage_buffer_binding_size,
        // A kernel binds the rows of a split as one buffer.
        most_resident_bytes: limits.max_storage_buffer_binding_size,
        ..DeviceModel::WEBGPU
    };
    model.with_kernel_limits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_fails_to_start_with_matrix_units_starts_without_them() {
        let open = |is_sound: fn(Features) -> bool| {
            let request = |features| if is_sound(features) { Ok("open") } else { Err("no") };
            with_or_without(Features::SHADER_F16, request)
        };
        assert_eq!(open(|_| true), Ok(("open", Features::SHADER_F16)));
        assert_eq!(open(|features| features.is_empty()), Ok(("open", Features::empty())));
        assert_eq!(open(|_| false), Err("no"));
    }
}
