//! The devices that are present.

use engine::devices::{Choice, open};
use engine::runtime::device::Device;
use std::sync::{Arc, LazyLock};

/// The GPUs through CUDA and wgpu. Without a real GPU, wgpu uses one that is emulated on the CPU. A GPU in
/// `ENGINE_REQUIRE` must be present.
pub fn gpus() -> &'static [Arc<dyn Device>] {
    static GPUS: LazyLock<Vec<Arc<dyn Device>>> = LazyLock::new(|| {
        let cuda = open(Choice::Cuda(0), None).map_err(|error| error.to_string());
        let wgpu = open(Choice::Wgpu(0), None).or_else(|_| open(Choice::Software, None));
        let wgpu = wgpu.map_err(|error| error.to_string());
        let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
        let mut gpus = vec![];
        for (name, gpu) in [("cuda", cuda), ("wgpu", wgpu)] {
            match gpu {
                Ok(gpu) => gpus.push(gpu.device),
                Err(error) => {
                    assert!(!required.split(',').any(|device| device == name), "{error}");
                    eprintln!("the tests on {name} are skipped: {error}");
                }
            }
        }
        gpus
    });
    &GPUS
}

/// The CPU with `n_threads` threads.
pub fn cpu(n_threads: usize) -> Arc<dyn Device> {
    open(Choice::Cpu, Some(n_threads)).unwrap().device
}
