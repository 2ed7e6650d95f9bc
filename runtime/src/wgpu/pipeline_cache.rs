//! What a driver has made of kernels, on disk: beside CUDA's, under the same rules.

use super::context::Context;
use crate::cache::DiskCache;
use wgpu::{Features, PipelineCache, PipelineCacheDescriptor};

/// The files of one GPU under one driver.
pub struct Kept {
    pub disk: DiskCache,
    /// Which GPU and which driver.
    adapter: String,
}

/// What is known of a kernel.
pub struct Known {
    /// For the driver, to look into and to add to.
    pub cache: PipelineCache,
    /// Whether it comes from the disk.
    pub is_old: bool,
}

impl Kept {
    /// None where the driver does not tell.
    pub fn of(features: Features, info: &wgpu::AdapterInfo) -> Option<Kept> {
        let adapter =
            wgpu::util::pipeline_cache_key(info).filter(|_| features.contains(Features::PIPELINE_CACHE))?;
        let adapter = format!("{adapter} {} {} {}", info.name, info.driver, info.driver_info);
        Some(Kept { disk: DiskCache::from_env("wgpu", "pipeline"), adapter })
    }

    #[cfg(test)]
    pub fn within(folder: &std::path::Path) -> Kept {
        Kept { disk: DiskCache::within(folder), adapter: "adapter".to_string() }
    }

    /// What is known of a text.
    pub fn open(&self, context: &Context, text: &str) -> Known {
        let data = self.disk.read(&self.key(text));
        match data.as_deref().map(|data| context.checked(|| cache(context, Some(data)))) {
            Some(Ok(cache)) => Known { cache, is_old: true },
            refused => {
                if refused.is_some() {
                    self.disk.note("the driver refuses a kernel of the cache; it was compiled again");
                }
                Known { cache: cache(context, None), is_old: false }
            }
        }
    }

    /// Keeps what the driver tells of a text, unless that is where it comes from.
    pub fn keep(&self, text: &str, known: &Known) {
        if let Some(data) = known.cache.get_data().filter(|_| !known.is_old) {
            self.disk.write(&self.key(text), &data);
        }
    }

    /// What was wrong with the files.
    pub fn take_notes(&self) -> Vec<String> {
        self.disk.take_notes()
    }

    /// What the entry of a text is found by.
    pub fn key(&self, text: &str) -> String {
        format!("{}\n{text}", self.adapter)
    }
}

fn cache(context: &Context, data: Option<&[u8]>) -> PipelineCache {
    let descriptor = PipelineCacheDescriptor { label: None, data, fallback: true };
    // SAFETY: the data is what this driver has told of this GPU: the checksum and the key of its entry say so.
    unsafe { context.device.create_pipeline_cache(&descriptor) }
}
