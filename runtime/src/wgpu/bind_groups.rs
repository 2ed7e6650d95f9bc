//! The bind groups of dispatches, and the memory of their scalars.

use super::context::Context;
use super::memory::{Memory, VECTOR};
use super::steps::{Bound, Dispatch};
use crate::device::DeviceError;
use engine_core::plan::ALIGNMENT;
use std::sync::Arc;
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding};

/// The bind group of dispatch `number`. `place` returns the memory, the offset and the bytes of an argument.
pub fn bind<'m>(
    context: &Context,
    dispatches: &[Dispatch],
    number: usize,
    infos: &'m Memory,
    place: impl Fn(Bound) -> (&'m Memory, usize, usize),
) -> BindGroup {
    let dispatch = &dispatches[number];
    let mut entries: Vec<BindGroupEntry> = vec![];
    for (binding, &bound) in dispatch.arguments.iter().enumerate() {
        let (memory, offset, bytes) = place(bound);
        entries.push(part(binding, memory, offset, bytes));
    }
    let bytes = 8 * dispatch.info.len();
    entries.push(part(entries.len(), infos, info_offset(dispatches, number), bytes));
    let Some(pipeline) = &dispatch.pipeline else { engine_core::bug!("a kernel that was not compiled") };
    let descriptor = BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
    context.device.create_bind_group(&descriptor)
}

fn info_offset(dispatches: &[Dispatch], number: usize) -> usize {
    dispatches[..number].iter().map(|dispatch| (8 * dispatch.info.len()).next_multiple_of(ALIGNMENT)).sum()
}

/// The scalars of all dispatches, each at a multiple of [`ALIGNMENT`].
pub fn infos(context: &Arc<Context>, dispatches: &[Dispatch]) -> Result<Memory, DeviceError> {
    let mut bytes = vec![];
    for dispatch in dispatches {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes.extend(dispatch.info.iter().flat_map(|word| word.to_le_bytes()));
    }
    let memory = Memory::new(context, bytes.len())?;
    memory.write(0, &bytes)?;
    Ok(memory)
}

/// The binding of a whole memory.
pub fn whole(binding: usize, memory: &Memory) -> BindGroupEntry<'_> {
    BindGroupEntry { binding: binding as u32, resource: memory.buffer().as_entire_binding() }
}

/// The binding of a part of a memory: whole vectors, at least one.
fn part(binding: usize, memory: &Memory, offset: usize, bytes: usize) -> BindGroupEntry<'_> {
    // A tensor without elements is not read, and its offset may be the end of the memory.
    let offset = if bytes == 0 { 0 } else { offset };
    let size = wgpu::BufferSize::new(bytes.next_multiple_of(VECTOR).max(VECTOR) as u64);
    let resource =
        BindingResource::Buffer(BufferBinding { buffer: memory.buffer(), offset: offset as u64, size });
    BindGroupEntry { binding: binding as u32, resource }
}
