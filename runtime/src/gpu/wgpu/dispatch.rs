//! Dispatches of programs, their scalars and their bind groups.

use super::context::Context;
use super::memory::{VECTOR, WgpuMemory};
use super::pipeline::Pipeline;
use crate::device::DeviceError;
use crate::gpu::api::{GpuMemory, GpuProgram, Located, MemoryPart};
use crate::gpu::prepared::Work;
use engine_core::plan::ALIGNMENT;
use engine_core::program::Place;
use std::ops::Range;
use std::sync::Arc;
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding};

/// The dispatches of programs, with the memory of their scalars.
pub struct Dispatches {
    pub all: Vec<Dispatch>,
    /// Their order: a dispatch in a loop comes once for each trip.
    pub order: Vec<u32>,
    /// Parts of the order that are loops which the host runs.
    pub loops: Vec<HostLoop>,
    /// The scalars of all dispatches, each at a multiple of [`ALIGNMENT`].
    pub infos: WgpuMemory,
}

/// A loop that the host runs trip by trip: it may end early, or a loop within it may.
pub struct HostLoop {
    /// A trip in the order of dispatches, which has it once.
    pub trip: Range<usize>,
    /// The most trips.
    pub trips: usize,
    /// The launch of the loop, and the truth value that ends it.
    pub until: Option<(usize, Place)>,
    /// Such loops within a trip.
    pub inner: Vec<HostLoop>,
}

/// A dispatch of a kernel.
pub struct Dispatch {
    /// The position of its program.
    pub launch: usize,
    /// Its arguments in the order of bindings.
    pub arguments: Vec<Place>,
    pipeline: Arc<Pipeline>,
    /// The number of workgroups along each axis.
    pub grid: [u32; 3],
    /// The bytes of its scalars.
    info: Range<usize>,
}

impl Dispatches {
    /// The dispatches of programs, which consist of kernels only.
    pub fn new(context: &Arc<Context>, programs: &[&GpuProgram<Context>]) -> Result<Dispatches, DeviceError> {
        let mut listed = Listed::default();
        for (launch, program) in programs.iter().enumerate() {
            program.steps.iter().for_each(|step| listed.add(launch, program, &step.work));
        }
        let Listed { all, order, loops, infos } = listed;
        let memory = WgpuMemory::new(context, infos.len())?;
        memory.write(0, &infos)?;
        Ok(Dispatches { all, order, loops, infos: memory })
    }

    /// The bind group of a dispatch with the memory of its program.
    pub fn bind(&self, context: &Context, number: usize, memory: &dyn Located<WgpuMemory>) -> BindGroup {
        let Dispatch { arguments, pipeline, info, .. } = &self.all[number];
        let info = MemoryPart { memory: &self.infos, offset: info.start, bytes: info.len() };
        let parts = arguments.iter().map(|&place| memory.part(place)).chain([info]);
        let entries: Vec<BindGroupEntry> =
            parts.enumerate().map(|(binding, part)| entry(binding, &part)).collect();
        let descriptor = BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
        context.device.create_bind_group(&descriptor)
    }
}

/// Dispatches as they are listed, with the bytes of their scalars.
#[derive(Default)]
struct Listed {
    all: Vec<Dispatch>,
    order: Vec<u32>,
    loops: Vec<HostLoop>,
    infos: Vec<u8>,
}

impl Listed {
    fn add(&mut self, launch: usize, program: &GpuProgram<Context>, work: &Work) {
        match work {
            Work::Kernel { kernel, arguments, grid, info } => {
                self.infos.resize(self.infos.len().next_multiple_of(ALIGNMENT), 0);
                let start = self.infos.len();
                self.infos.extend(info.iter().flat_map(|word| word.to_le_bytes()));
                self.order.push(self.all.len() as u32);
                self.all.push(Dispatch {
                    launch,
                    arguments: arguments.clone(),
                    pipeline: Arc::clone(&program.kernels[*kernel]),
                    grid: *grid,
                    info: start..self.infos.len(),
                });
            }
            &Work::Loop { ref body, trips, until, .. } => {
                let first = self.order.len();
                let before = std::mem::take(&mut self.loops);
                body.iter().for_each(|step| self.add(launch, program, &step.work));
                let inner = std::mem::replace(&mut self.loops, before);
                if until.is_some() || !inner.is_empty() {
                    let (trip, until) = (first..self.order.len(), until.map(|until| (launch, until)));
                    self.loops.push(HostLoop { trip, trips, until, inner });
                    return;
                }
                let trip = self.order.split_off(first);
                self.order.extend((0..trips).flat_map(|_| trip.iter().copied()));
            }
            _ => engine_core::bug!("a step that is no kernel"),
        }
    }
}

impl Dispatch {
    /// Encodes it into a compute pass.
    pub fn encode(&self, pass: &mut wgpu::ComputePass, group: &BindGroup) {
        pass.set_pipeline(&self.pipeline.pipeline);
        pass.set_bind_group(0, group, &[]);
        let [x, y, z] = self.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// The binding of whole vectors, at least one.
fn entry<'m>(binding: usize, part: &MemoryPart<'m, WgpuMemory>) -> BindGroupEntry<'m> {
    let &MemoryPart { memory, offset, bytes } = part;
    // A tensor without elements is not read, and its offset may be the end of the memory.
    let offset = if bytes == 0 { 0 } else { offset as u64 };
    let size = wgpu::BufferSize::new(bytes.next_multiple_of(VECTOR).max(VECTOR) as u64);
    let resource = BindingResource::Buffer(BufferBinding { buffer: memory.buffer(), offset, size });
    BindGroupEntry { binding: binding as u32, resource }
}
