//! The adapters of a machine: real GPUs and the software rasterizer.

use crate::device::DeviceError;
use wgpu::{Backends, DeviceType};

/// Which GPU to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// The hardware GPU of this number. Discrete GPUs come first.
    Gpu(usize),
    /// A software adapter, which runs on the CPU.
    Software,
}

/// The number of hardware GPUs.
pub fn count() -> usize {
    adapters(&instance()).iter().filter(|adapter| !is_software(adapter)).count()
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = Backends::PRIMARY;
    // Kernels are validated when they are compiled. Validation layers would check each step again.
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor)
}

/// All adapters, the fastest kind first.
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

/// The adapter to open.
pub fn find(wanted: Adapter) -> Result<wgpu::Adapter, DeviceError> {
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

/// Vulkan's loader, which loads the drivers of GPUs.
#[cfg(target_os = "linux")]
const LOADER: &str = "libvulkan.so.1";

/// Why there is no adapter.
#[cfg(target_os = "linux")]
fn why_none() -> String {
    // SAFETY: the loader may be opened at any time, and no function of it is called.
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

/// Why there is no adapter.
#[cfg(not(target_os = "linux"))]
fn why_none() -> String {
    "neither Vulkan, Metal nor DX12 knows one; install the driver of the GPU".to_string()
}
