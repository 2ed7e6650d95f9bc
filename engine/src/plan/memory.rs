//! Memory: one arena, placed by liveness over the partial order of launches.

use super::intervals::Intervals;
use super::occupied::{ALIGNMENT, Occupied};
use super::schedule::Clocks;
use std::ops::Range;

/// A buffer to be placed.
#[derive(Clone, Debug)]
pub struct Need {
    /// Bytes.
    pub bytes: usize,
    /// The liveness of the buffer.
    pub life: Life,
    /// Whether it must survive the last launch.
    pub is_output: bool,
}

/// The liveness of a buffer: which launches have finished before its first use, and which after its last use.
#[derive(Clone, Debug)]
pub struct Life {
    /// First and last launch; the first writes the buffer. `None` if no launch uses it.
    pub span: Option<(usize, usize)>,
    /// By stream: the number of launches that have finished once all uses have.
    end: Vec<usize>,
    /// By stream: the number of launches that have finished before any use starts.
    start: Vec<usize>,
}

impl Life {
    /// The liveness of a buffer that no launch uses.
    pub fn unused(n_streams: usize) -> Life {
        Life { span: None, end: vec![0; n_streams], start: vec![usize::MAX; n_streams] }
    }

    /// Adds a launch to the uses.
    pub fn extend(&mut self, at: usize, clocks: &Clocks) {
        let (stream, number) = clocks.place[at];
        self.end[stream] = self.end[stream].max(number + 1);
        self.start.iter_mut().zip(&clocks.finished[at]).for_each(|(slot, &n)| *slot = n.min(*slot));
        self.span = Some(self.span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
    }

    /// Adds the uses of the other buffer.
    pub fn join(&mut self, other: &Life) {
        self.end.iter_mut().zip(&other.end).for_each(|(slot, &n)| *slot = n.max(*slot));
        self.start.iter_mut().zip(&other.start).for_each(|(slot, &n)| *slot = n.min(*slot));
        self.span = match (self.span, other.span) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (span, None) | (None, span) => span,
        };
    }

    /// Whether all uses, except launch `at` itself, have finished before that launch.
    pub fn ends_with(&self, at: usize, clocks: &Clocks) -> bool {
        let (own, number) = clocks.place[at];
        let before = clocks.finished[at].iter().enumerate();
        before
            .map(|(stream, &n)| if stream == own { number + 1 } else { n })
            .zip(&self.end)
            .all(|(n, &end)| end <= n)
    }

    /// Whether all uses have finished before any use of the other buffer starts.
    fn is_before(&self, other: &Life) -> bool {
        self.end.iter().zip(&other.start).all(|(end, start)| end <= start)
    }

    /// The first launch that may run before all uses have finished.
    fn earliest(&self, clocks: &Clocks) -> usize {
        let firsts = self.start.iter().zip(&clocks.launches).filter_map(|(&n, launches)| launches.get(n));
        firsts.min().copied().unwrap_or(usize::MAX)
    }
}

/// Byte offsets for all needs, and the size of the arena in bytes. A buffer may reuse the memory of another one whose
/// last use has finished before.
pub fn place(needs: &[Need], clocks: &Clocks) -> (Vec<usize>, usize) {
    let bytes: Vec<usize> = needs.iter().map(|need| need.bytes).collect();
    let mut arena = Arena::new(needs, clocks);
    let mut offsets = vec![0; needs.len()];
    for buffer in largest_first(&bytes) {
        let taken = arena.taken(buffer, &offsets);
        offsets[buffer] = best_gap(taken, bytes[buffer], usize::MAX);
        arena.add(buffer, offsets[buffer]);
    }
    let end = offsets.iter().zip(bytes).map(|(offset, bytes)| offset + bytes).max().unwrap_or(0);
    (offsets, end)
}

/// The buffers placed so far. Two buffers conflict if their ranges of launches overlap. Otherwise, they conflict if the
/// streams leave the order of their uses open.
struct Arena<'n> {
    needs: &'n [Need],
    /// First and last launch of each buffer. Outputs live until the end of the plan.
    spans: Vec<(usize, usize)>,
    /// By buffer: the launches before its first use that may run concurrently with it.
    beside: Vec<Range<usize>>,
    by_span: Occupied,
    by_end: Intervals,
    by_beside: Intervals,
}

impl Arena<'_> {
    fn new<'n>(needs: &'n [Need], clocks: &Clocks) -> Arena<'n> {
        let n_launches = clocks.place.len();
        let span = |need: &Need| {
            let (first, last) = need.life.span.unwrap_or((0, 0));
            (first, if need.is_output { n_launches.saturating_sub(1) } else { last })
        };
        let spans: Vec<(usize, usize)> = needs.iter().map(span).collect();
        let beside = needs.iter().zip(&spans).map(|(need, span)| need.life.earliest(clocks)..span.0);
        let beside: Vec<Range<usize>> = beside.collect();
        let ends: Vec<(usize, usize)> = spans.iter().map(|&(_, last)| (last, last)).collect();
        let times: Vec<(usize, usize)> =
            beside.iter().map(|launches| (launches.start, launches.end.saturating_sub(1))).collect();
        let (by_end, by_beside) = (Intervals::new(&ends), Intervals::new(&times));
        Arena { needs, spans, beside, by_span: Occupied::new(n_launches), by_end, by_beside }
    }

    /// Ranges of the arena that a buffer must avoid.
    fn taken(&self, buffer: usize, offsets: &[usize]) -> Vec<(usize, usize)> {
        let mut taken = self.by_span.during(self.spans[buffer]);
        let (last, beside) = (self.spans[buffer].1, &self.beside[buffer]);
        let mut unsure = self.by_beside.meeting((last, last));
        if !beside.is_empty() {
            unsure.extend(self.by_end.meeting((beside.start, beside.end - 1)));
        }
        let needs = &self.needs;
        unsure.retain(|&other| conflict(&needs[buffer], &needs[other]));
        taken.extend(unsure.iter().map(|&other| (offsets[other], offsets[other] + needs[other].bytes)));
        taken
    }

    fn add(&mut self, buffer: usize, offset: usize) {
        self.by_span.add(self.spans[buffer], (offset, offset + self.needs[buffer].bytes));
        self.by_end.add(buffer);
        if !self.beside[buffer].is_empty() {
            self.by_beside.add(buffer);
        }
    }
}

/// Byte offsets for buffers of these sizes. Conflicting buffers do not overlap. No buffer crosses a multiple of `page`,
/// itself a multiple of [`ALIGNMENT`], unless it is larger than a page.
pub fn offsets(bytes: &[usize], conflict: impl Fn(usize, usize) -> bool, page: usize) -> Vec<usize> {
    let mut offsets = vec![0; bytes.len()];
    let mut placed: Vec<usize> = vec![];
    for buffer in largest_first(bytes) {
        let others = placed.iter().filter(|&&other| conflict(buffer, other));
        let taken = others.map(|&other| (offsets[other], offsets[other] + bytes[other])).collect();
        offsets[buffer] = best_gap(taken, bytes[buffer], page);
        placed.push(buffer);
    }
    offsets
}

/// Non-empty buffers in the order in which they are placed.
fn largest_first(bytes: &[usize]) -> Vec<usize> {
    let mut buffers: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] > 0).collect();
    buffers.sort_by_key(|&i| std::cmp::Reverse(bytes[i]));
    buffers
}

/// Whether two buffers may be alive at the same time.
fn conflict(a: &Need, b: &Need) -> bool {
    let over_before = |x: &Need, y: &Need| !x.is_output && x.life.is_before(&y.life);
    !over_before(a, b) && !over_before(b, a)
}

/// The smallest sufficient gap between taken ranges, or the first place past them all.
fn best_gap(mut taken: Vec<(usize, usize)>, bytes: usize, page: usize) -> usize {
    taken.sort_unstable();
    let mut best: Option<(usize, usize)> = None;
    let mut start = 0;
    for (low, high) in taken {
        let at = within_page(start, bytes, page);
        if low >= at + bytes && best.is_none_or(|(gap, _)| low - start < gap) {
            best = Some((low - start, at));
        }
        start = start.max(high.next_multiple_of(ALIGNMENT));
    }
    best.map_or(within_page(start, bytes, page), |(_, at)| at)
}

/// The first place from `start` on at which `bytes` bytes lie within one page.
fn within_page(start: usize, bytes: usize, page: usize) -> usize {
    let is_within = start % page + bytes <= page;
    if is_within { start } else { start.next_multiple_of(page) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gap_at_the_end_of_a_page_is_left_to_small_buffers() {
        let all = |_, _| true;
        assert_eq!(offsets(&[700, 600, 200], all, 1024), [0, 1024, 768]);
        assert_eq!(offsets(&[700, 600, 200], all, usize::MAX), [0, 768, 1536]);
        // A buffer larger than a page starts at a page. A device with pages refuses it.
        assert_eq!(offsets(&[3000, 100], all, 1024), [0, 3072]);
    }

    proptest! {
        #[test]
        fn conflicting_buffers_are_disjoint_and_within_pages(
            needs in prop::collection::vec((0usize..5000, 0usize..40, 0usize..10), 0..40),
            page in (20usize..60).prop_map(|n| n * ALIGNMENT),
        ) {
            let bytes: Vec<usize> = needs.iter().map(|need| need.0).collect();
            let meet = |a: usize, b: usize| {
                let ((_, a, a_length), (_, b, b_length)) = (needs[a], needs[b]);
                a <= b + b_length && b <= a + a_length
            };
            let offsets = offsets(&bytes, meet, page);
            for a in 0..bytes.len() {
                prop_assert!(offsets[a].is_multiple_of(ALIGNMENT));
                prop_assert!(offsets[a] % page + bytes[a] <= page);
                for b in (0..a).filter(|&b| meet(a, b) && bytes[a].min(bytes[b]) > 0) {
                    let is_apart = offsets[a] + bytes[a] <= offsets[b] || offsets[b] + bytes[b] <= offsets[a];
                    prop_assert!(is_apart, "{a} and {b} at {offsets:?}");
                }
            }
        }
    }
}
