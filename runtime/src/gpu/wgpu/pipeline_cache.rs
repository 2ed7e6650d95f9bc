//! Compiled kernels, and pipeline caches of drivers, stored on disk under the same rules as CUDA's machine code.

use super::errors::checked;
use crate::cache::DiskCache;
use wgpu::{Features, PipelineCache, PipelineCacheDescriptor};

/// A compiled kernel, with the layout of its bind groups.
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// The cache files of one GPU and driver.
pub struct PipelineFiles {
    pub disk: DiskCache,
    /// The GPU and the driver.
    adapter: String,
}

/// The pipeline cache of a kernel.
pub struct CachedPipeline {
    /// The cache, which the driver reads and extends.
    pub cache: PipelineCache,
    /// Whether it was read from disk.
    pub is_from_disk: bool,
}

impl PipelineFiles {
    /// `None` if the driver has no pipeline caches.
    pub fn new(features: Features, info: &wgpu::AdapterInfo) -> Option<PipelineFiles> {
        let adapter =
            wgpu::util::pipeline_cache_key(info).filter(|_| features.contains(Features::PIPELINE_CACHE))?;
        let adapter = format!("{adapter} {} {} {}", info.name, info.driver, info.driver_info);
        Some(PipelineFiles { disk: DiskCache::from_env("wgpu", "pipeline"), adapter })
    }

    #[cfg(test)]
    pub fn within(folder: &std::path::Path) -> PipelineFiles {
        PipelineFiles { disk: DiskCache::within(folder), adapter: "adapter".to_string() }
    }

    /// The pipeline cache of a text, empty if there is no valid file.
    pub fn open(&self, device: &wgpu::Device, text: &str) -> CachedPipeline {
        let data = self.disk.read(&self.key(text));
        match data.as_deref().map(|data| checked(device, || cache(device, Some(data)))) {
            Some(Ok(cache)) => CachedPipeline { cache, is_from_disk: true },
            refused => {
                if refused.is_some() {
                    self.disk.note("the driver refuses a kernel of the cache; it was compiled again");
                }
                CachedPipeline { cache: cache(device, None), is_from_disk: false }
            }
        }
    }

    /// Stores the pipeline cache of a text, unless it was read from disk.
    pub fn store(&self, text: &str, cached: &CachedPipeline) {
        if let Some(data) = cached.cache.get_data().filter(|_| !cached.is_from_disk) {
            self.disk.write(&self.key(text), &data);
        }
    }

    /// Takes the notes about faulty files.
    pub fn take_notes(&self) -> Vec<String> {
        self.disk.take_notes()
    }

    /// The key of the entry of a text.
    pub fn key(&self, text: &str) -> String {
        format!("{}\n{text}", self.adapter)
    }
}

fn cache(device: &wgpu::Device, data: Option<&[u8]>) -> PipelineCache {
    let descriptor = PipelineCacheDescriptor { label: None, data, fallback: true };
    // SAFETY: this driver wrote the data for this GPU, as the checksum and the key of the entry confirm.
    unsafe { device.create_pipeline_cache(&descriptor) }
}
