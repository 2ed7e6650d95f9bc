//! The types of compiled kernels.

use dashmap::DashMap;
use std::sync::Arc;

/// Pipelines by the texts of their modules.
pub type Pipelines = DashMap<String, Arc<Pipeline>>;

/// A kernel as WGSL.
#[derive(Clone)]
pub struct Source {
    /// The text of the module.
    pub text: String,
    /// The name of its entry point.
    pub entry: String,
    /// The number of buffers that it binds, without the one of scalars.
    pub n_buffers: usize,
    /// The bytes of workgroup memory.
    pub shared_bytes: usize,
}

/// A compiled kernel, with the layout of its bind groups.
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}
