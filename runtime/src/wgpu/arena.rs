//! The memory of a plan, cut into buffers that the GPU can have.

use super::context::Context;
use super::memory::Memory;
use crate::device::DeviceError;
use engine_core::plan::{Place, Plan};
use std::ops::Range;
use std::sync::Arc;

/// A plan's arena.
pub struct Arena {
    chunks: Vec<(Range<usize>, Memory)>,
}

impl Arena {
    pub fn new(context: &Arc<Context>, plan: &Plan) -> Result<Arena, DeviceError> {
        let largest = usize::try_from(context.limits.max_buffer_size).unwrap_or(usize::MAX);
        let chunk = |range: Range<usize>| Memory::new(context, range.len()).map(|memory| (range, memory));
        let chunks: Result<Vec<_>, DeviceError> = cut(&used(plan), largest).into_iter().map(chunk).collect();
        Ok(Arena { chunks: chunks? })
    }

    /// The memory that a byte of the arena lies in, and where there.
    pub fn at(&self, offset: usize) -> (&Memory, usize) {
        let found = self.chunks.iter().find(|(range, _)| range.contains(&offset) || range.start == offset);
        let (range, memory) =
            found.unwrap_or_else(|| engine_core::bug!("byte {offset} lies in no chunk of the arena"));
        (memory, offset - range.start)
    }
}

/// Where buffers lie in the arena, those that overlap as one, in order.
fn used(plan: &Plan) -> Vec<Range<usize>> {
    let buffers = plan.buffers.iter().filter_map(|buffer| match buffer.place {
        Place::Arena(offset) => Some(offset..offset + buffer.ty.bytes()),
        Place::Input(_) => None,
    });
    let workspaces = plan.launches.iter().map(|launch| launch.workspace.clone());
    let mut ranges: Vec<Range<usize>> =
        buffers.chain(workspaces.filter(|workspace| !workspace.is_empty())).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<usize>> = vec![];
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end || range.start == last.start => {
                last.end = last.end.max(range.end)
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// As few chunks as hold all ranges, each of at most `largest` bytes where a range is not longer by itself.
fn cut(ranges: &[Range<usize>], largest: usize) -> Vec<Range<usize>> {
    let mut chunks: Vec<Range<usize>> = vec![];
    for range in ranges {
        match chunks.last_mut() {
            Some(chunk) if range.end - chunk.start <= largest => chunk.end = range.end,
            _ => chunks.push(range.clone()),
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_whole_ranges() {
        assert_eq!(cut(&[0..100, 256..300, 512..600], 300), [0..300, 512..600]);
        assert_eq!(cut(&[0..100, 256..300, 512..600], 1 << 20), vec![0..600; 1]);
        // What is too long by itself is left to the allocation to refuse.
        assert_eq!(cut(&[0..100, 256..900], 300), [0..100, 256..900]);
        assert!(cut(&[], 300).is_empty());
    }
}
