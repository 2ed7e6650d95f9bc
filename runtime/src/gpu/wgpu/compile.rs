//! From texts of kernels to pipelines.

use super::context::Context;
use super::pipeline_cache::Pipeline;
use crate::device::DeviceError;
use crate::gpu::source::Source;
use std::borrow::Cow;

/// Compiles a kernel; `owner` names it in errors.
pub fn pipeline(context: &Context, owner: &str, source: &Source) -> Result<Pipeline, DeviceError> {
    let files = context.pipeline_files.as_ref();
    let cached = files.map(|files| files.open(&context.device, &source.text));
    let failed = |log: String| DeviceError::not_compiled(owner, &log, &source.text);
    let made = context.make(0, failed, || {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(owner),
            source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(&source.text)),
        };
        // SAFETY: kernels access only elements of their operands, and their loops terminate.
        let module = unsafe {
            context.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        };
        let layout = layout(&context.device, source.n_buffers);
        let pipeline_layout = context.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = context.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(owner),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(&source.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: cached.as_ref().map(|cached| &cached.cache),
        });
        Pipeline { pipeline, layout }
    })?;
    if let (Some(files), Some(cached)) = (files, cached) {
        files.store(&source.text, &cached);
    }
    Ok(made)
}

/// The layout of read-write buffers, followed by the scalars.
fn layout(device: &wgpu::Device, n_buffers: usize) -> wgpu::BindGroupLayout {
    let entry = |binding: usize, read_only: bool| wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let buffers = (0..n_buffers).map(|binding| entry(binding, false));
    let entries: Vec<_> = buffers.chain([entry(n_buffers, true)]).collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}
