//! The type of compiled kernels.

/// A compiled kernel, with the layout of its bind groups.
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}
