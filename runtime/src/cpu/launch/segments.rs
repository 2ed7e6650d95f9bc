//! Launches of segmented maps.

use super::super::interp::{Buffer, Frame, Layout, Program, ScratchSize, Sharing, Span, Spread, compile};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::call::{Call, KernelLaunch};
use super::cut::{chunk_points, map_block};
use super::scratch::{LaunchSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::fusion::{Segment, SegmentedBody};

/// A segmented map, ready to run: one program, with uniform values and buffers for each segment.
pub struct SegmentLaunch {
    program: Program,
    block: usize,
    /// The points of a chunk.
    chunk: usize,
    segments: Vec<Segment>,
    /// The memory of each segment and slot.
    buffers: Vec<Buffer>,
    n_slots: usize,
    uniforms: Memory,
    /// The segment and the first point of each chunk.
    chunks: Vec<(usize, usize)>,
}

impl KernelLaunch for SegmentLaunch {
    fn size(&self) -> LaunchSize {
        LaunchSize::of_programs(ScratchSize::of(&self.program, self.block, 1))
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        for (i, segment) in self.segments.iter().enumerate() {
            for (slot, &operand) in segment.operands.iter().enumerate() {
                self.buffers[i * self.n_slots + slot] = call.buffers[operand];
            }
        }
        // SAFETY: the caller's; segments and their blocks are disjoint.
        unsafe {
            for (i, segment) in self.segments.iter().enumerate() {
                self.frame(i, call).begin(&mut workers[0].worker, Some(&segment.constants));
            }
            let this = &*self;
            pool.run_with(this.chunks.len(), workers, |chunk, scratch| {
                let worker = &mut scratch.worker;
                let _flushed = call.flushed();
                let (segment, begin) = this.chunks[chunk];
                let frame = this.frame(segment, call);
                let end = (begin + this.chunk).min(this.segments[segment].points);
                for start in (begin..end).step_by(this.block) {
                    let span = Span::line(start, this.block.min(end - start));
                    worker.has_next = start + this.block < end;
                    frame.run_insts(worker, &this.program.passes[0].element, span);
                }
            });
        }
    }
}

impl SegmentLaunch {
    /// Compiles the body of a segmented map; `sharing` is the memory that each kernel operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(segmented: &SegmentedBody, sharing: &[Sharing]) -> Result<SegmentLaunch, DeviceError> {
        let SegmentedBody { body, segments } = segmented;
        let n_slots = segments.first().map_or(0, |segment| segment.operands.len());
        let sharing: Vec<Sharing> = (0..n_slots).map(|slot| slot_sharing(segments, sharing, slot)).collect();
        let layout =
            Layout { spread: Spread::One, is_resident: true, is_contiguous: true, sharing: &sharing };
        let program = compile(body, layout);
        let chunk = chunk_points(&program, segments.iter().map(|segment| segment.points).sum());
        let block = map_block(&program).min(chunk);
        let chunks = segments.iter().enumerate();
        let chunks =
            chunks.flat_map(|(i, segment)| (0..segment.points).step_by(chunk).map(move |start| (i, start)));
        let uniforms = Memory::new(segments.len() * 8 * program.n_uniforms)?;
        Ok(SegmentLaunch {
            block,
            chunk,
            segments: segments.to_vec(),
            buffers: vec![Buffer::UNBOUND; segments.len() * n_slots],
            n_slots,
            uniforms,
            chunks: chunks.collect(),
            program,
        })
    }

    fn frame<'a>(&'a self, segment: usize, call: Call<'a>) -> Frame<'a> {
        let frame = call.frame(&self.program, &self.uniforms, 64);
        Frame {
            buffers: &self.buffers[segment * self.n_slots..][..self.n_slots],
            uniforms: frame.uniforms.wrapping_add(segment * 8 * self.program.n_uniforms),
            ..frame
        }
    }
}

/// The sharing of a slot, if it is the same in all segments.
fn slot_sharing(segments: &[Segment], sharing: &[Sharing], slot: usize) -> Sharing {
    let in_segment = |segment: &Segment| match sharing[segment.operands[slot]] {
        Sharing::InPlace(read) => {
            let slots = segment.operands.iter().position(|&operand| operand == read);
            slots.map_or(Sharing::Overlaps, Sharing::InPlace)
        }
        other => other,
    };
    let mut found = segments.iter().map(in_segment);
    let first = found.next().unwrap_or(Sharing::Alone);
    if found.all(|other| other == first) { first } else { Sharing::Overlaps }
}
