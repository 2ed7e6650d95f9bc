//! Probes of a GPU as kernels that run, once when the GPU is opened.

use super::compile;
use super::context::Context;
use super::dispatch::entry;
use super::memory::WgpuMemory;
use crate::device::DeviceError;
use crate::gpu::api::{GpuMemory, MemoryPart};
use crate::gpu::source::Source;
use crate::gpu::wgsl_probes::{self, Probe};
use engine_core::device_model::DeviceModel;
use std::sync::Arc;

/// The model of a GPU after all probes. `plane` is the subgroup size that the driver reports.
pub fn found(context: &Arc<Context>, plane: Option<usize>) -> Result<DeviceModel, DeviceError> {
    wgsl_probes::found(context.state.model, plane, &|probe| run(context, probe))
}

/// Runs a probe, and returns the words that it writes.
fn run(
    context: &Arc<Context>,
    Probe { text, given, n_found, n_blocks }: Probe,
) -> Result<Vec<u32>, DeviceError> {
    let source = Source { text, entry: "probe".to_string(), n_buffers: 1, ..Source::default() };
    let compile = |owner: &str, source: &Source| compile::pipeline(context, owner, source);
    let pipeline = context.state.kernels.load_one("probe", source, compile)?;
    let input = WgpuMemory::new(context, 4 * given.len())?;
    let output = WgpuMemory::new(context, 4 * n_found)?;
    let bytes: Vec<u8> = given.iter().flat_map(|word| word.to_le_bytes()).collect();
    input.write(0, &bytes)?;
    let group = context.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.layout,
        entries: &[entry(0, &MemoryPart::whole(&output)), entry(1, &MemoryPart::whole(&input))],
    });
    let mut encoder = context.encoder();
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(n_blocks as u32, 1, 1);
    }
    context.queue.submit([encoder.finish()]);
    let mut bytes = vec![0; 4 * n_found];
    output.read(0, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
}
