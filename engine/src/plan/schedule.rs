//! Launch order: list scheduling over the kernel DAG by critical path.

use crate::fusion::Kernel;
use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};

/// Dependencies between kernels: by kernel, which must have finished before.
pub type Before = Vec<Vec<usize>>;

/// A kernel put in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Index of the kernel.
    pub kernel: usize,
    /// The stream.
    pub stream: usize,
    /// Earlier positions on other streams to wait for.
    pub waits: Vec<usize>,
}

/// Time per byte and per flop of a nominal device, and of a launch: only ratios matter here.
const SECONDS_PER_BYTE: f64 = 1.0 / 2e12;
const SECONDS_PER_FLOP: f64 = 1.0 / 2e14;
const SECONDS_PER_LAUNCH: f64 = 2e-6;

/// Orders the kernels and spreads them over streams.
pub fn schedule(kernels: &[Kernel], before: &Before, n_streams: usize) -> Vec<Scheduled> {
    let urgency = critical_paths(kernels, before);
    let mut done_at = vec![f64::NAN; kernels.len()];
    let mut position = vec![usize::MAX; kernels.len()];
    let mut free_at = vec![0.0f64; n_streams];
    let mut order: Vec<Scheduled> = vec![];
    while let Some(kernel) = most_urgent(&urgency, before, &done_at) {
        let ready_at = before[kernel].iter().map(|&b| done_at[b]).fold(0.0, f64::max);
        let stream = best_stream(kernel, before, &order, &position, &free_at, ready_at);
        let start = ready_at.max(free_at[stream]);
        done_at[kernel] = start + seconds(&kernels[kernel]);
        free_at[stream] = done_at[kernel];
        position[kernel] = order.len();
        let waits = waits(kernel, stream, before, &order, &position);
        order.push(Scheduled { kernel, stream, waits });
    }
    order
}

fn seconds(kernel: &Kernel) -> f64 {
    let bytes = (kernel.bytes_read + kernel.bytes_written) as f64 * SECONDS_PER_BYTE;
    SECONDS_PER_LAUNCH + bytes.max(kernel.flops as f64 * SECONDS_PER_FLOP)
}

/// By kernel: time from its start to the end of the longest chain that it begins.
fn critical_paths(kernels: &[Kernel], before: &Before) -> Vec<f64> {
    let after = dependencies(before);
    let order = toposort(&after, None).unwrap_or_else(|circle| {
        crate::bug!("kernels wait for each other, {:?} for itself", circle.node_id())
    });
    let mut path = vec![0.0; kernels.len()];
    for kernel in order.into_iter().rev() {
        let rest = after.neighbors(kernel).map(|next| path[next.index()]).fold(0.0, f64::max);
        path[kernel.index()] = seconds(&kernels[kernel.index()]) + rest;
    }
    path
}

/// The kernels as a graph whose edges lead to those that have to wait.
pub fn dependencies(before: &Before) -> DiGraph<(), ()> {
    let mut graph = DiGraph::new();
    let nodes: Vec<NodeIndex> = before.iter().map(|_| graph.add_node(())).collect();
    for (kernel, list) in before.iter().enumerate() {
        list.iter().for_each(|&b| _ = graph.add_edge(nodes[b], nodes[kernel], ()));
    }
    graph
}

fn most_urgent(urgency: &[f64], before: &Before, done_at: &[f64]) -> Option<usize> {
    let ready =
        |&kernel: &usize| done_at[kernel].is_nan() && before[kernel].iter().all(|&b| !done_at[b].is_nan());
    let ready = (0..urgency.len()).filter(ready);
    // Ties go to the earlier kernel: the order must not depend on rounding elsewhere.
    ready.reduce(|best, next| if urgency[next] > urgency[best] * (1.0 + 1e-9) { next } else { best })
}

/// The stream that can start soonest; among equals the one of the latest dependency, which needs no event.
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

/// The latest dependency on each other stream; earlier ones on the same stream are implied.
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

/// By position: whether another position is certain to have finished before it starts. Row `i`, column `j`: j before i.
pub fn finished_before(order: &[Scheduled]) -> Vec<Vec<bool>> {
    let mut finished: Vec<Vec<bool>> = vec![];
    for (at, launch) in order.iter().enumerate() {
        let mut row = vec![false; order.len()];
        let on_stream = (0..at).rev().find(|&other| order[other].stream == launch.stream);
        for previous in on_stream.into_iter().chain(launch.waits.iter().copied()) {
            row[previous] = true;
            for (slot, &known) in row.iter_mut().zip(&finished[previous]) {
                *slot |= known;
            }
        }
        finished.push(row);
    }
    finished
}
