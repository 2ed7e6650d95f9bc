//! Loops: trips enqueued one by one, or a conditional node of a graph, whose body the GPU repeats by itself.

use super::compile::Function;
use super::context::Context;
use super::error::failed;
use super::stop::Stop;
use crate::device::DeviceError;
use crate::gpu::api::Gpu;
use crate::gpu::prepared::{PreparedStep, Work};
use crate::gpu::source::Source;
use cudarc::driver::result::{self, DriverError, launch_kernel};
use cudarc::driver::sys::{self, CUdeviceptr, CUgraph, CUgraphNode, CUstream};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The largest number of launches of a loop that are captured one by one, as a graph of several steps has at most. Not
/// measured; a WHILE node takes 4.4 us a trip with a body of one small kernel (H200).
const MOST_STARTS: usize = 1000;

/// The least number of launches in the body of a WHILE node whose number of trips is known. The 4.4 us of the node (H200)
/// are then a small part of the 0.6 us or more that each launch takes (docs/decisions/052-device-loops.md).
const BODY_STARTS: usize = 96;

/// What the end of a body needs.
pub struct Trips {
    context: Arc<Context>,
    go_on: Arc<Function>,
    stop: Arc<Stop>,
}

/// Where a loop counts its trips, and what ends it.
#[derive(Clone, Copy)]
pub struct Ends {
    /// The truth value that ends the loop; 0 if there is none.
    pub until: CUdeviceptr,
    /// The number of trips so far.
    pub number: CUdeviceptr,
    /// The number of trips, or the most of them.
    pub trips: usize,
    /// The error flag, whose first word ends the loop.
    pub failed: CUdeviceptr,
}

/// The trips of a node.
#[derive(Clone, Copy, Debug)]
struct Division {
    /// Trips that are captured before the node.
    before: usize,
    /// Trips in the body of the node.
    of_body: usize,
}

impl Division {
    /// Divides the trips of a loop of `n_starts` launches. The end of a loop that may end early is read after each trip.
    fn new(n_starts: usize, trips: usize, may_end: bool) -> Division {
        let starts_of_trip = (n_starts / trips.max(1)).max(1);
        let of_body = if may_end { 1 } else { BODY_STARTS.div_ceil(starts_of_trip).min(trips.max(1)) };
        Division { before: trips % of_body, of_body }
    }
}

/// Whether a loop is a node in graphs.
fn is_node(work: &Work) -> bool {
    matches!(work, Work::Loop { until: Some(_), .. }) || work.n_starts() > MOST_STARTS
}

fn has_nodes(steps: &[PreparedStep]) -> bool {
    steps.iter().any(|step| match &step.work {
        Work::Loop { body, .. } => is_node(&step.work) || has_nodes(body),
        _ => false,
    })
}

impl Trips {
    /// The kernel that ends trips, if a step is a loop that needs it.
    pub fn of(
        context: &Arc<Context>,
        steps: &[PreparedStep],
        stop: &Arc<Stop>,
    ) -> Result<Option<Trips>, DeviceError> {
        if !has_nodes(steps) {
            return Ok(None);
        }
        let [text, entry] = [GO_ON, "go_on"].map(str::to_string);
        let sources = [("loop".to_string(), Source { text, entry, ..Source::default() })];
        let loaded = context.state.kernels.load(&sources, |owner, source| context.compile(owner, source));
        let go_on = loaded?.remove(0);
        Ok(Some(Trips { context: Arc::clone(context), go_on, stop: Arc::clone(stop) }))
    }

    /// Enqueues a loop, a trip of which `trip` enqueues on a stream.
    pub fn enqueue(
        trips: Option<&Trips>,
        work: &Work,
        ends: Ends,
        stream: CUstream,
        trip: &dyn Fn(CUstream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Some(trips) = trips.filter(|_| is_node(work)) else {
            return (0..ends.trips).try_for_each(|_| trip(stream));
        };
        let Division { before, of_body } = Division::new(work.n_starts(), ends.trips, ends.until != 0);
        // Each trip counts itself, so the node goes on from the number of those before it.
        (0..before).try_for_each(|_| trip(stream))?;
        match capture_of(stream)? {
            None => trips.run(ends, stream, ends.trips - before, trip),
            Some(graph) => trips.capture(graph, ends, stream, (of_body, trip)),
        }
    }

    /// Enqueues trips and waits for those that may be the last.
    fn run(
        &self,
        ends: Ends,
        stream: CUstream,
        n_trips: usize,
        trip: &dyn Fn(CUstream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        // The kernel is loaded by its first launch, which cannot be captured.
        self.end_body(0, ends, 1, stream)?;
        for _ in 0..n_trips {
            trip(stream)?;
            if self.stop.is_cancelled() || ends.until != 0 && has_ended(ends, stream)? {
                break;
            }
        }
        Ok(())
    }

    /// Adds a node that repeats some trips to the graph that the stream is captured into.
    fn capture(
        &self,
        captured: Captured,
        ends: Ends,
        stream: CUstream,
        (of_body, trip): (usize, &dyn Fn(CUstream) -> Result<(), DeviceError>),
    ) -> Result<(), DeviceError> {
        let driver_error = |error| failed("capturing a loop", &error);
        let (handle, body) = self.add_node(captured, stream).map_err(driver_error)?;
        let inner = self.context.new_stream()?;
        let stream = inner.cu_stream();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let (no_nodes, no_edges) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the body is an empty graph that belongs to the node.
        let begun = unsafe { sys::cuStreamBeginCaptureToGraph(stream, body, no_nodes, no_edges, 0, mode) };
        begun.result().map_err(driver_error)?;
        let trips = (0..of_body).try_for_each(|_| trip(stream));
        let queued = trips.and_then(|()| self.end_body(handle, ends, of_body, stream));
        let mut ended: CUgraph = std::ptr::null_mut();
        // SAFETY: the capture has begun above.
        let end = unsafe { sys::cuStreamEndCapture(stream, &mut ended) };
        queued?;
        end.result().map_err(driver_error)
    }

    /// Adds a WHILE node without a body, which the next work of the stream depends on. Returns its condition and its body.
    fn add_node(
        &self,
        Captured { graph, before }: Captured,
        stream: CUstream,
    ) -> Result<(u64, CUgraph), DriverError> {
        let (mut handle, context, no_edges) = (0, self.context.handle(), std::ptr::null());
        let mut node: CUgraphNode = std::ptr::null_mut();
        // SAFETY: the graph is the one that the stream is captured into, and all pointers are valid for the calls. All fields
        // of the parameters that the driver reads for a conditional node are set, the others are zero.
        unsafe {
            // Each launch of the graph starts with a condition that holds.
            sys::cuGraphConditionalHandleCreate(&mut handle, graph, context, 1, 1).result()?;
            let mut params: sys::CUgraphNodeParams = MaybeUninit::zeroed().assume_init();
            params.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
            params.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
                handle,
                type_: sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE,
                size: 1,
                phGraph_out: std::ptr::null_mut(),
                ctx: context,
            };
            let n_before = before.len();
            sys::cuGraphAddNode_v2(&mut node, graph, before.as_ptr(), no_edges, n_before, &mut params)
                .result()?;
            let body = *params.__bindgen_anon_1.conditional.phGraph_out;
            sys::cuStreamUpdateCaptureDependencies_v2(stream, &mut node, no_edges, 1, SET_DEPENDENCIES)
                .result()?;
            Ok((handle, body))
        }
    }

    /// Enqueues the kernel that decides whether the body of a node runs again. Without a handle, it does nothing.
    fn end_body(&self, handle: u64, ends: Ends, of_body: usize, stream: CUstream) -> Result<(), DeviceError> {
        let Ends { mut until, mut number, trips, failed: mut flag } = ends;
        let (mut handle, mut trips, mut of_body) = (handle, trips as i32, of_body as i32);
        let mut stop = self.stop.address();
        let mut arguments = [
            (&raw mut handle).cast(),
            (&raw mut until).cast(),
            (&raw mut number).cast(),
            (&raw mut trips).cast(),
            (&raw mut of_body).cast(),
            (&raw mut flag).cast(),
            (&raw mut stop).cast(),
        ];
        let one = (1, 1, 1);
        // SAFETY: the arguments are those of `GO_ON`, which reads live memory.
        let launched = unsafe { launch_kernel(self.go_on.handle, one, one, 0, stream, &mut arguments) };
        launched.map_err(|error| failed("ending a trip", &error))
    }
}

/// Whether a trip has ended its loop, by its truth value or by a failed assertion.
fn has_ended(ends: Ends, stream: CUstream) -> Result<bool, DeviceError> {
    let (mut until, mut flag) = ([0u8], [0u8; 4]);
    // SAFETY: the truth value and the first word of the flag are live memory, and the host waits for the copies.
    let read = unsafe {
        result::memcpy_dtoh_async(&mut until, ends.until, stream)
            .and_then(|()| result::memcpy_dtoh_async(&mut flag, ends.failed, stream))
            .and_then(|()| result::stream::synchronize(stream))
    };
    read.map_err(|error| failed("reading the end of a loop", &error))?;
    Ok(until != [0] || flag != [0; 4])
}

/// The flag of the driver that replaces the dependencies of a capture.
const SET_DEPENDENCIES: u32 = 1;

/// The graph that a stream is captured into, and the nodes that its next one depends on.
struct Captured {
    graph: CUgraph,
    before: Vec<CUgraphNode>,
}

fn capture_of(stream: CUstream) -> Result<Option<Captured>, DeviceError> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut n_before) = (0, 0);
    let mut graph: CUgraph = std::ptr::null_mut();
    let (mut before, mut edges) = (std::ptr::null(), std::ptr::null());
    // SAFETY: all pointers are valid for the call. The dependencies live until the stream is used again.
    unsafe {
        let asked = sys::cuStreamGetCaptureInfo_v3(
            stream,
            &mut status,
            &mut id,
            &mut graph,
            &mut before,
            &mut edges,
            &mut n_before,
        );
        asked.result().map_err(|error| failed("asking for a capture", &error))?;
        if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
            return Ok(None);
        }
        let before =
            if n_before == 0 { vec![] } else { std::slice::from_raw_parts(before, n_before).to_vec() };
        Ok(Some(Captured { graph, before }))
    }
}

/// Sets the condition of a node at the end of its body. The host's memory is far away, so it is read in each sixteenth body.
pub const GO_ON: &str = r#"
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
extern "C" __global__ void go_on(
    unsigned long long handle, const unsigned char* until, const int* number, int trips, int of_body,
    const unsigned int* failed, const volatile unsigned int* stop
) {
    if (handle == 0) return;
    bool more = *number < trips && (until == nullptr || *until == 0) && *failed == 0;
    if (more && *number / of_body % 16 == 0) more = *stop == 0;
    cudaGraphSetConditional(handle, more ? 1u : 0u);
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// The trips that a launch of the graph runs, as `GO_ON` counts them.
    fn run(division: Division, trips: usize) -> usize {
        let mut number = division.before;
        loop {
            number += division.of_body;
            if number >= trips {
                return number;
            }
        }
    }

    #[test]
    fn a_node_and_the_trips_before_it_are_all_trips() {
        for starts_of_trip in [1, 2, 7, 17, 95, 96, 97, 5000] {
            for trips in (1..=300).chain([1000, 2000, 99_991, 100_000]) {
                let division = Division::new(starts_of_trip * trips, trips, false);
                assert_eq!(run(division, trips), trips, "{division:?} of {trips}");
                let starts = starts_of_trip * division.of_body;
                let is_large = starts >= BODY_STARTS || division.of_body == trips;
                assert!(is_large && starts < BODY_STARTS + starts_of_trip, "{division:?} of {trips}");
            }
        }
    }

    #[test]
    fn the_end_of_a_loop_is_read_after_each_trip() {
        for trips in [1, 6, 300] {
            let Division { before, of_body } = Division::new(3 * trips, trips, true);
            assert_eq!((before, of_body), (0, 1));
        }
    }
}
