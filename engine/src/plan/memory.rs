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
    let mut by_size: Vec<usize> = (0..needs.len()).collect();
    by_size.sort_by_key(|&i| std::cmp::Reverse(needs[i].bytes));
    let mut offsets = vec![0; needs.len()];
    let mut placed: Vec<usize> = vec![];
    for need in by_size {
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&other| needs[other].bytes > 0 && conflict(&needs[need], &needs[other], finished))
            .map(|&other| (offsets[other], offsets[other] + needs[other].bytes))
            .collect();
        taken.sort_unstable();
        offsets[need] = best_gap(&taken, needs[need].bytes);
        placed.push(need);
    }
    let end = (0..needs.len()).map(|i| offsets[i] + needs[i].bytes).max().unwrap_or(0);
    (offsets, end)
}

/// Whether two buffers may be alive at the same time.
fn conflict(a: &Need, b: &Need, finished: &[Vec<bool>]) -> bool {
    let over_before = |x: &Need, y: &Need| {
        !x.is_output && x.uses.iter().all(|&last| y.uses.iter().all(|&first| finished[first][last]))
    };
    !over_before(a, b) && !over_before(b, a)
}

/// The smallest gap between taken ranges that is large enough, else the first place past them all.
fn best_gap(taken: &[(usize, usize)], bytes: usize) -> usize {
    let mut best: Option<(usize, usize)> = None;
    let mut start = 0;
    for &(low, high) in taken {
        if low >= start + bytes && best.is_none_or(|(gap, _)| low - start < gap) {
            best = Some((low - start, start));
        }
        start = start.max(high.next_multiple_of(ALIGNMENT));
    }
    best.map_or(start, |(_, at)| at)
}
