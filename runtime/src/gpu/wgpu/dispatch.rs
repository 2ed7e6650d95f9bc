//! Dispatches of kernels, with their scalars and their bind groups.

use super::context::Context;
use super::memory::{VECTOR, WgpuMemory};
use super::pipeline_cache::Pipeline;
use crate::device::DeviceError;
use crate::gpu::api::{GpuMemory, GpuProgram, Located, MemoryPart};
use crate::gpu::kernel_list::KernelList;
use std::sync::Arc;
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding};

/// The kernels of programs, with the memory of their scalars.
pub struct Dispatches {
    pub list: KernelList<Pipeline>,
    pub infos: WgpuMemory,
}

impl Dispatches {
    /// The dispatches of programs, which consist of kernels only.
    pub fn new(context: &Arc<Context>, programs: &[&GpuProgram<Context>]) -> Result<Dispatches, DeviceError> {
        let list = KernelList::new(programs);
        let infos = WgpuMemory::new(context, list.infos.len())?;
        infos.write(0, &list.infos)?;
        Ok(Dispatches { list, infos })
    }

    /// The bind group of a kernel with the memory of its program.
    pub fn bind(&self, context: &Context, number: usize, memory: &dyn Located<WgpuMemory>) -> BindGroup {
        let listed = &self.list.all[number];
        let info = MemoryPart { memory: &self.infos, offset: listed.info.start, bytes: listed.info.len() };
        let parts = listed.arguments.iter().map(|&place| memory.part(place)).chain([info]);
        let entries: Vec<BindGroupEntry> =
            parts.enumerate().map(|(binding, part)| entry(binding, &part)).collect();
        let layout = &listed.kernel.layout;
        let descriptor = BindGroupDescriptor { label: None, layout, entries: &entries };
        context.device.create_bind_group(&descriptor)
    }

    /// Encodes a kernel into a compute pass.
    pub fn encode(&self, pass: &mut wgpu::ComputePass, number: usize, group: &BindGroup) {
        let listed = &self.list.all[number];
        pass.set_pipeline(&listed.kernel.pipeline);
        pass.set_bind_group(0, group, &[]);
        let [x, y, z] = listed.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// The binding of whole vectors, at least one.
pub fn entry<'m>(binding: usize, part: &MemoryPart<'m, WgpuMemory>) -> BindGroupEntry<'m> {
    let &MemoryPart { memory, offset, bytes } = part;
    // A tensor without elements is not read, and its offset may be the end of the memory.
    let offset = if bytes == 0 { 0 } else { offset as u64 };
    let size = wgpu::BufferSize::new(bytes.next_multiple_of(VECTOR).max(VECTOR) as u64);
    let resource = BindingResource::Buffer(BufferBinding { buffer: memory.buffer(), offset, size });
    BindGroupEntry { binding: binding as u32, resource }
}
