//! The arena of a plan, in buffers within the GPU's size limit.

use super::api::{Gpu, GpuMemory, MemoryPart};
use crate::device::DeviceError;
use engine_core::plan::{ALIGNMENT, Buffer, BufferId, Place, Plan, offsets};
use std::sync::Arc;

/// A plan's arena, in pages of the largest buffer size. An arena that exceeds one page gets a new layout, in which no
/// tensor crosses a page boundary.
pub struct Arena<M> {
    pages: Vec<M>,
    layout: Layout,
}

impl<M: GpuMemory<Gpu: Gpu>> Arena<M> {
    pub fn new(gpu: &Arc<M::Gpu>, plan: &Plan) -> Result<Arena<M>, DeviceError> {
        let most = gpu.most_memory_bytes();
        let largest = usize::try_from(most).unwrap_or(usize::MAX);
        let layout = Layout::new(plan, largest).map_err(|TooLarge { buffer, bytes }| {
            let (device, buffer, bytes) = (gpu.state().name.clone(), buffer, bytes as u64);
            DeviceError::TooLarge { device, buffer, bytes, most, span: None }
        })?;
        let pages = layout.pages.iter().map(|&bytes| M::new(gpu, bytes));
        Ok(Arena { pages: pages.collect::<Result<_, _>>()?, layout })
    }

    /// The memory of a buffer of the plan, which has so many bytes.
    pub fn part(&self, buffer: BufferId, bytes: usize) -> MemoryPart<'_, M> {
        let (page, offset) = self.layout.at(buffer);
        MemoryPart { memory: &self.pages[page], offset, bytes }
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> usize {
        self.layout.pages.iter().sum()
    }
}

/// The offsets of the buffers of a plan.
struct Layout {
    /// The size of a full page.
    page: usize,
    /// By buffer: its offset in the sequence of all pages.
    offsets: Vec<usize>,
    /// The used bytes of each page.
    pages: Vec<usize>,
}

/// A tensor that is larger than a page.
#[derive(Debug, PartialEq, Eq)]
struct TooLarge {
    buffer: String,
    bytes: usize,
}

impl Layout {
    fn new(plan: &Plan, largest: usize) -> Result<Layout, TooLarge> {
        let page = (largest / ALIGNMENT).max(1) * ALIGNMENT;
        let lives = lives(plan);
        let held = plan.buffers.iter().zip(&lives);
        let bytes: Vec<usize> = held.map(|(buffer, life)| life.map_or(0, |_| buffer.ty.bytes())).collect();
        if let Some(id) = bytes.iter().position(|&bytes| bytes > page) {
            return Err(TooLarge { buffer: plan.buffers[id].name.to_string(), bytes: bytes[id] });
        }
        let offsets = match plan.arena_bytes <= page {
            true => plan.buffers.iter().map(planned).collect(),
            false => offsets(&bytes, |a, b| meet(lives[a], lives[b]), page),
        };
        let mut pages = vec![];
        for id in (0..bytes.len()).filter(|&id| lives[id].is_some()) {
            let number = offsets[id] / page;
            pages.resize(pages.len().max(number + 1), 0);
            pages[number] = pages[number].max(offsets[id] % page + bytes[id]);
        }
        Ok(Layout { page, offsets, pages })
    }

    /// The page of a buffer, and its offset there.
    fn at(&self, buffer: BufferId) -> (usize, usize) {
        (self.offsets[buffer] / self.page, self.offsets[buffer] % self.page)
    }
}

fn planned(buffer: &Buffer) -> usize {
    match buffer.place {
        Place::Arena(offset) => offset,
        Place::Input(_) => 0,
    }
}

/// The first and the last launch that use a buffer of the arena. Outputs live until the end. `None` for inputs and for unused
/// buffers.
type Life = Option<(usize, usize)>;

/// The lives of all buffers. Launches run in the plan's order on this device, regardless of their streams.
fn lives(plan: &Plan) -> Vec<Life> {
    let mut lives: Vec<Life> = vec![None; plan.buffers.len()];
    let launches = plan.launches.iter().enumerate();
    let uses = launches.flat_map(|(at, launch)| launch.buffers.iter().map(move |&id| (at, id)));
    let outputs = plan.outputs.iter().map(|&(_, id)| (plan.launches.len(), id));
    for (at, id) in uses.chain(outputs) {
        if matches!(plan.buffers[id].place, Place::Arena(_)) {
            lives[id].get_or_insert((at, at)).1 = at;
        }
    }
    lives
}

fn meet(a: Life, b: Life) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::fusion::fuse;
    use engine_core::ir::{Builder, DType, Graph, InputKind, Monoid, NodeOp, Type};
    use engine_core::op::Registry;
    use engine_core::plan::plan;

    /// Chains of scans on tensors of several sizes, so that buffers reuse memory of other sizes.
    fn chain(extents: &[usize]) -> Plan {
        let registry = Registry::new();
        let mut b = Builder::new(Graph::new("chain"), &registry);
        for (i, &extent) in extents.iter().enumerate() {
            let ty = Type::new(DType::F32, &[extent, extent]);
            let mut x = b.input(&format!("x{i}"), InputKind::Data, ty.clone());
            for _ in 0..5 {
                x = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 1 }, vec![x], ty.clone());
            }
            b.graph.outputs.push((format!("y{i}").into(), x));
        }
        plan(&b.graph, fuse(&b.graph, true).kernels, 1)
    }

    /// Checks that each buffer lies within one page and overlaps no buffer that lives at the same time.
    fn check(plan: &Plan, largest: usize) -> Layout {
        let (layout, lives) = (Layout::new(plan, largest).unwrap(), lives(plan));
        let held: Vec<usize> = (0..lives.len()).filter(|&id| lives[id].is_some()).collect();
        for &a in &held {
            let ((page, start), bytes) = (layout.at(a), plan.buffers[a].ty.bytes());
            assert!(start + bytes <= layout.pages[page] && layout.pages[page] <= largest, "{plan}");
            for &b in held.iter().filter(|&&b| b != a && layout.at(b).0 == page && meet(lives[a], lives[b])) {
                let (other, other_bytes) = (layout.at(b).1, plan.buffers[b].ty.bytes());
                assert!(start + bytes <= other || other + other_bytes <= start, "{a} and {b}\n{plan}");
            }
        }
        layout
    }

    #[test]
    fn buffers_that_reuse_memory_fit_into_pages() {
        let plan = chain(&[50, 56, 60, 40, 53]);
        for largest in [15_000, 16_384, 30_000, 40_001] {
            assert!(plan.arena_bytes > largest);
            let layout = check(&plan, largest);
            assert!(layout.pages.len() > 1);
            assert!(layout.pages.iter().sum::<usize>() < 2 * plan.arena_bytes);
        }
    }

    #[test]
    fn an_arena_of_one_page_keeps_the_planned_layout() {
        let plan = chain(&[50, 56]);
        let layout = check(&plan, plan.arena_bytes.next_multiple_of(ALIGNMENT));
        assert_eq!(layout.pages, [plan.arena_bytes]);
        assert_eq!(layout.offsets, plan.buffers.iter().map(planned).collect::<Vec<_>>());
    }

    #[test]
    fn a_tensor_that_is_larger_than_a_page_is_named() {
        let plan = chain(&[50, 56]);
        let error = Layout::new(&plan, 12_500).map(drop).unwrap_err();
        let buffer = plan.buffers.iter().find(|buffer| buffer.ty.bytes() == 12_544).unwrap();
        assert_eq!(error, TooLarge { buffer: buffer.name.to_string(), bytes: 12_544 });
    }
}
