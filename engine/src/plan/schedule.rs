//! Launch order: list scheduling over the kernel DAG by critical path.

use crate::fusion::Kernel;
use crate::work::steps;
use petgraph::algo::{is_cyclic_directed, toposort};
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// The kernels that must finish before each kernel.
pub type Before = Vec<Vec<usize>>;

/// A scheduled kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Index of the kernel.
    pub kernel: usize,
    /// The stream.
    pub stream: usize,
    /// Earlier positions on other streams to wait for.
    pub waits: Vec<usize>,
}

/// Seconds per byte, per flop and per launch of a nominal device. Only ratios matter here.
const SECONDS_PER_BYTE: f64 = 1.0 / 2e12;
const SECONDS_PER_FLOP: f64 = 1.0 / 2e14;
const SECONDS_PER_LAUNCH: f64 = 2e-6;

/// Orders the kernels and spreads them over streams.
pub fn schedule(kernels: &[Kernel], before: &Before, n_streams: usize) -> Vec<Scheduled> {
    let after = after(before);
    let urgency = critical_paths(kernels, &after);
    let mut waiting: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready = Ready::default();
    (0..kernels.len()).filter(|&kernel| waiting[kernel] == 0).for_each(|kernel| ready.add(kernel, &urgency));
    let mut done_at = vec![f64::NAN; kernels.len()];
    let mut position = vec![usize::MAX; kernels.len()];
    let mut free_at = vec![0.0f64; n_streams];
    let mut order: Vec<Scheduled> = vec![];
    while let Some(kernel) = ready.take_most_urgent() {
        let ready_at = before[kernel].iter().map(|&b| done_at[b]).fold(0.0, f64::max);
        let stream = best_stream(kernel, before, &order, &position, &free_at, ready_at);
        let start = ready_at.max(free_at[stream]);
        done_at[kernel] = start + seconds(&kernels[kernel]);
        free_at[stream] = done_at[kernel];
        position[kernel] = order.len();
        let waits = waits(kernel, stream, before, &order, &position);
        order.push(Scheduled { kernel, stream, waits });
        for &next in &after[kernel] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.add(next, &urgency);
            }
        }
    }
    order
}

/// The kernels that wait for each kernel, ascending: the inverse of `before`.
pub fn after(before: &Before) -> Vec<Vec<usize>> {
    let mut after = vec![vec![]; before.len()];
    for (kernel, list) in before.iter().enumerate() {
        list.iter().for_each(|&b| after[b].push(kernel));
    }
    after
}

/// Kernels that could start, by urgency. Urgencies are positive floats, so they are ordered like their bits.
#[derive(Default)]
struct Ready(BTreeMap<u64, BTreeSet<usize>>);

impl Ready {
    fn add(&mut self, kernel: usize, urgency: &[f64]) {
        self.0.entry(urgency[kernel].to_bits()).or_default().insert(kernel);
    }

    /// Takes the first kernel whose urgency no later one exceeds by more than rounding. The order must not depend on
    /// rounding elsewhere.
    fn take_most_urgent(&mut self) -> Option<usize> {
        // Only the first kernel of each urgency counts, and only urgencies connected to the largest without a gap.
        let mut near: Vec<(usize, f64)> = vec![];
        for (&bits, kernels) in self.0.iter().rev() {
            let urgency = f64::from_bits(bits);
            if near.last().is_some_and(|&(_, last)| exceeds(last, urgency)) {
                break;
            }
            near.extend(kernels.first().map(|&kernel| (kernel, urgency)));
            steps(1);
        }
        near.sort_unstable_by_key(|&(kernel, _)| kernel);
        let most_urgent =
            |best: (usize, f64), next: (usize, f64)| if exceeds(next.1, best.1) { next } else { best };
        let (kernel, urgency) = near.into_iter().reduce(most_urgent)?;
        let kernels = self.0.get_mut(&urgency.to_bits())?;
        kernels.remove(&kernel);
        if kernels.is_empty() {
            self.0.remove(&urgency.to_bits());
        }
        Some(kernel)
    }
}

fn exceeds(urgency: f64, other: f64) -> bool {
    urgency > other * (1.0 + 1e-9)
}

fn seconds(kernel: &Kernel) -> f64 {
    let bytes = (kernel.bytes_read + kernel.bytes_written) as f64 * SECONDS_PER_BYTE;
    SECONDS_PER_LAUNCH + bytes.max(kernel.flops as f64 * SECONDS_PER_FLOP)
}

/// Whether kernels wait for each other.
pub fn is_circular(before: &Before) -> bool {
    let mut graph = DiGraph::<(), (), usize>::default();
    before.iter().for_each(|_| _ = graph.add_node(()));
    let edges = before.iter().enumerate().flat_map(|(kernel, list)| list.iter().map(move |&b| (b, kernel)));
    graph.extend_with_edges(edges);
    is_cyclic_directed(&graph)
}

/// By kernel: the time from its start to the end of the longest chain that it starts.
fn critical_paths(kernels: &[Kernel], after: &[Vec<usize>]) -> Vec<f64> {
    let edges =
        after.iter().enumerate().flat_map(|(kernel, list)| list.iter().map(move |&next| (kernel, next)));
    let mut graph = DiGraph::<(), (), usize>::default();
    kernels.iter().for_each(|_| _ = graph.add_node(()));
    graph.extend_with_edges(edges);
    let order = toposort(&graph, None).unwrap_or_else(|circle| {
        crate::bug!("kernels wait for each other, {:?} for itself", circle.node_id())
    });
    let mut path = vec![0.0; kernels.len()];
    for kernel in order.into_iter().rev().map(NodeIndex::index) {
        let rest = after[kernel].iter().map(|&next| path[next]).fold(0.0, f64::max);
        path[kernel] = seconds(&kernels[kernel]) + rest;
    }
    path
}

/// The stream that can start soonest. Among equals, the stream of the latest dependency, which needs no event.
fn best_stream(
    kernel: usize,
    before: &Before,
    order: &[Scheduled],
    position: &[usize],
    free_at: &[f64],
    ready_at: f64,
) -> usize {
    let home = before[kernel].iter().map(|&b| position[b]).max().map(|at| order[at].stream);
    let start = |stream: usize| ready_at.max(free_at[stream]);
    let best = (0..free_at.len()).reduce(|a, b| if start(b) < start(a) { b } else { a }).unwrap_or(0);
    match home {
        Some(home) if start(home) <= start(best) => home,
        _ => best,
    }
}

/// The latest dependency on each other stream. It implies the earlier ones on the same stream.
fn waits(
    kernel: usize,
    stream: usize,
    before: &Before,
    order: &[Scheduled],
    position: &[usize],
) -> Vec<usize> {
    let mut latest: Vec<usize> = vec![];
    for &b in &before[kernel] {
        let at = position[b];
        if order[at].stream == stream {
            continue;
        }
        match latest.iter_mut().find(|known| order[**known].stream == order[at].stream) {
            Some(known) => *known = (*known).max(at),
            None => latest.push(at),
        }
    }
    latest.sort_unstable();
    latest
}

/// The known order of launches, from streams and waits: a vector clock per launch.
///
/// Launches of a stream run in order. So the number of finished launches per stream is a complete record.
pub struct Clocks {
    /// By launch: its stream, and the number of launches of the stream before it.
    pub place: Vec<(usize, usize)>,
    /// By launch and stream: the number of launches of the stream that have finished before the launch starts.
    pub finished: Vec<Vec<usize>>,
    /// The launches of each stream.
    pub launches: Vec<Vec<usize>>,
}

impl Clocks {
    /// The clocks of launches in their order.
    pub fn new(order: &[Scheduled], n_streams: usize) -> Clocks {
        let (place, finished) = Default::default();
        let mut clocks = Clocks { place, finished, launches: vec![vec![]; n_streams] };
        for (at, launch) in order.iter().enumerate() {
            let on_stream = clocks.launches[launch.stream].last().copied();
            let mut clock = vec![0; n_streams];
            for previous in on_stream.into_iter().chain(launch.waits.iter().copied()) {
                let known = clocks.finished[previous].iter();
                clock.iter_mut().zip(known).for_each(|(slot, &known)| *slot = known.max(*slot));
                let (stream, number) = clocks.place[previous];
                clock[stream] = clock[stream].max(number + 1);
            }
            clocks.place.push((launch.stream, clocks.launches[launch.stream].len()));
            clocks.launches[launch.stream].push(at);
            clocks.finished.push(clock);
        }
        clocks
    }
}
