//! Memory: one arena, placed by liveness over the partial order of launches.

/// Offsets are multiples of this: a GPU's widest loads and a CPU's cache lines want it.
pub const ALIGNMENT: usize = 256;

/// A buffer to be placed: its size and the launches that touch it.
#[derive(Clone, Debug)]
pub struct Need {
    /// Bytes.
    pub bytes: usize,
    /// Launches that write or read it; the first writes it.
    pub uses: Vec<usize>,
    /// Whether it must survive the last launch.
    pub is_output: bool,
}

/// Byte offsets for all needs, and the bytes of the arena. `finished[i][j]` says that launch j has finished before
/// launch i starts: only then may i overwrite what j was the last to use.
pub fn place(needs: &[Need], finished: &[Vec<bool>]) -> (Vec<usize>, usize) {
    let bytes: Vec<usize> = needs.iter().map(|need| need.bytes).collect();
    let offsets = offsets(&bytes, |a, b| conflict(&needs[a], &needs[b], finished), usize::MAX);
    let end = offsets.iter().zip(bytes).map(|(offset, bytes)| offset + bytes).max().unwrap_or(0);
    (offsets, end)
}

/// Byte offsets for buffers of so many bytes, those that conflict apart. None reaches over a multiple of `page`, itself one
/// of [`ALIGNMENT`], except what is larger than a page.
pub fn offsets(bytes: &[usize], conflict: impl Fn(usize, usize) -> bool, page: usize) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..bytes.len()).collect();
    by_size.sort_by_key(|&i| std::cmp::Reverse(bytes[i]));
    let mut offsets = vec![0; bytes.len()];
    let mut placed: Vec<usize> = vec![];
    for buffer in by_size {
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&other| bytes[other] > 0 && conflict(buffer, other))
            .map(|&other| (offsets[other], offsets[other] + bytes[other]))
            .collect();
        taken.sort_unstable();
        offsets[buffer] = best_gap(&taken, bytes[buffer], page);
        placed.push(buffer);
    }
    offsets
}

/// Whether two buffers may be alive at the same time.
fn conflict(a: &Need, b: &Need, finished: &[Vec<bool>]) -> bool {
    let over_before = |x: &Need, y: &Need| {
        !x.is_output && x.uses.iter().all(|&last| y.uses.iter().all(|&first| finished[first][last]))
    };
    !over_before(a, b) && !over_before(b, a)
}

/// The smallest gap between taken ranges that is large enough, else the first place past them all.
fn best_gap(taken: &[(usize, usize)], bytes: usize, page: usize) -> usize {
    let mut best: Option<(usize, usize)> = None;
    let mut start = 0;
    for &(low, high) in taken {
        let at = within_page(start, bytes, page);
        if low >= at + bytes && best.is_none_or(|(gap, _)| low - start < gap) {
            best = Some((low - start, at));
        }
        start = start.max(high.next_multiple_of(ALIGNMENT));
    }
    best.map_or(within_page(start, bytes, page), |(_, at)| at)
}

/// The first place from `start` on at which so many bytes lie within one page.
fn within_page(start: usize, bytes: usize, page: usize) -> usize {
    let is_within = start % page + bytes <= page;
    if is_within { start } else { start.next_multiple_of(page) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gap_at_the_end_of_a_page_is_left_to_what_fits() {
        let all = |_, _| true;
        assert_eq!(offsets(&[700, 600, 200], all, 1024), [0, 1024, 768]);
        assert_eq!(offsets(&[700, 600, 200], all, usize::MAX), [0, 768, 1536]);
        // What is larger than a page begins with one, and who has pages refuses it.
        assert_eq!(offsets(&[3000, 100], all, 1024), [0, 3072]);
    }

    proptest! {
        #[test]
        fn what_conflicts_lies_apart_and_within_pages(
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
