//! Loops: trips enqueued one by one, or a conditional node of a graph, whose body the GPU repeats by itself.

use super::compile::Function;
use super::context::Context;
use super::error::failed;
use super::stop::Stop;
use crate::device::DeviceError;
use crate::gpu::api::Gpu;
use crate::gpu::graph_loops::{Division, GraphLoop, MOST_STARTS};
use crate::gpu::prepared::{PreparedStep, Work};
use crate::gpu::source::Source;
use cudarc::driver::result::{self, DriverError, launch_kernel};
use cudarc::driver::sys::{self, CUdeviceptr, CUgraph, CUgraphNode, CUstream};
use std::mem::MaybeUninit;
use std::sync::Arc;

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
    /// The numbers of the trips that are enqueued at once: `i32`, one after the other. The first is that of the trips so far.
    pub number: CUdeviceptr,
    /// The number of trips, or the most of them.
    pub trips: usize,
    /// The error flag, whose first word ends the loop.
    pub failed: CUdeviceptr,
}

/// A trip that is enqueued on a stream, by its place among those that are enqueued at once.
type Trip<'t> = &'t dyn Fn(CUstream, usize) -> Result<(), DeviceError>;

impl Trips {
    /// The kernel that counts trips and ends bodies, if a step is a loop.
    pub fn of(
        context: &Arc<Context>,
        steps: &[PreparedStep],
        stop: &Arc<Stop>,
    ) -> Result<Option<Trips>, DeviceError> {
        if !steps.iter().any(|step| matches!(step.work, Work::Loop { .. })) {
            return Ok(None);
        }
        let [text, entry] = [GO_ON, "go_on"].map(str::to_string);
        let source = Source { text, entry, ..Source::default() };
        let compile = |owner: &str, source: &Source| context.compile(owner, source);
        let go_on = context.state.kernels.load_one("loop", source, compile)?;
        Ok(Some(Trips { context: Arc::clone(context), go_on, stop: Arc::clone(stop) }))
    }

    /// Enqueues a loop.
    pub fn enqueue(
        trips: Option<&Trips>,
        work: &Work,
        ends: Ends,
        stream: CUstream,
        trip: Trip,
    ) -> Result<(), DeviceError> {
        let trips = trips.unwrap_or_else(|| engine_core::bug!("a loop that nothing counts"));
        let GraphLoop::Node(Division { before, of_body }) = GraphLoop::new(work, ends.trips) else {
            // Trips without launches have no numbers.
            trips.count(ends, SET, ends.trips.clamp(1, MOST_STARTS), stream)?;
            return (0..ends.trips).try_for_each(|number| trip(stream, number));
        };
        let handle = capture_of(stream)?.map_or(Ok(0), |captured| trips.condition(captured.graph))?;
        // The condition is set before the node, because a loop within a body starts anew in each trip.
        let start = Ends { until: 0, ..ends };
        trips.go_on(handle, start, (SET, of_body), stream)?;
        if before > 0 {
            (0..before).try_for_each(|number| trip(stream, number))?;
            trips.go_on(handle, start, (before as i32, of_body), stream)?;
        }
        match capture_of(stream)? {
            None => trips.run(ends, stream, ends.trips - before, trip),
            Some(captured) => trips.capture((captured, handle), ends, stream, (of_body, trip)),
        }
    }

    /// Enqueues trips and waits for those that may be the last.
    fn run(&self, ends: Ends, stream: CUstream, n_trips: usize, trip: Trip) -> Result<(), DeviceError> {
        for _ in 0..n_trips {
            trip(stream, 0)?;
            self.count(ends, 1, 1, stream)?;
            if self.stop.is_cancelled() || ends.until != 0 && has_ended(ends, stream)? {
                break;
            }
        }
        Ok(())
    }

    /// Adds a node that repeats some trips to the graph that the stream is captured into.
    fn capture(
        &self,
        (captured, handle): (Captured, u64),
        ends: Ends,
        stream: CUstream,
        (of_body, trip): (usize, Trip),
    ) -> Result<(), DeviceError> {
        let driver_error = |error| failed("capturing a loop", &error);
        let body = self.add_node(captured, handle, stream).map_err(driver_error)?;
        let inner = self.context.new_stream()?;
        let stream = inner.cu_stream();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let (no_nodes, no_edges) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the body is an empty graph that belongs to the node.
        let begun = unsafe { sys::cuStreamBeginCaptureToGraph(stream, body, no_nodes, no_edges, 0, mode) };
        begun.result().map_err(driver_error)?;
        let trips = (0..of_body).try_for_each(|number| trip(stream, number));
        let queued = trips.and_then(|()| self.go_on(handle, ends, (of_body as i32, of_body), stream));
        let mut ended: CUgraph = std::ptr::null_mut();
        // SAFETY: the capture has begun above.
        let end = unsafe { sys::cuStreamEndCapture(stream, &mut ended) };
        queued?;
        end.result().map_err(driver_error)
    }

    /// A condition of a node of this graph.
    fn condition(&self, graph: CUgraph) -> Result<u64, DeviceError> {
        let mut handle = 0;
        // SAFETY: the graph is one that a stream is captured into, and the pointer is valid for the call.
        let made =
            unsafe { sys::cuGraphConditionalHandleCreate(&mut handle, graph, self.context.handle(), 1, 1) };
        made.result().map_err(|error| failed("making the condition of a loop", &error))?;
        Ok(handle)
    }

    /// Adds a WHILE node without a body, which the next work of the stream depends on. Returns its body.
    fn add_node(
        &self,
        Captured { graph, before }: Captured,
        handle: u64,
        stream: CUstream,
    ) -> Result<CUgraph, DriverError> {
        let (context, no_edges) = (self.context.handle(), std::ptr::null());
        let mut node: CUgraphNode = std::ptr::null_mut();
        // SAFETY: the graph is the one that the stream is captured into, and all pointers are valid for the calls. All fields
        // of the parameters that the driver reads for a conditional node are set, the others are zero.
        unsafe {
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
            Ok(body)
        }
    }

    /// Enqueues a kernel that adds to the numbers of `n` trips, or sets them to 0, 1, ….
    fn count(&self, ends: Ends, more: i32, n: usize, stream: CUstream) -> Result<(), DeviceError> {
        self.go_on(0, ends, (more, n), stream)
    }

    /// Enqueues the kernel that also decides whether the body of a node runs again.
    fn go_on(
        &self,
        handle: u64,
        ends: Ends,
        (more, n): (i32, usize),
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        let Ends { mut until, mut number, trips, failed: mut flag } = ends;
        let (mut handle, mut trips, mut more) = (handle, trips as i32, more);
        let mut stop = self.stop.address();
        let mut arguments = [
            (&raw mut handle).cast(),
            (&raw mut until).cast(),
            (&raw mut number).cast(),
            (&raw mut more).cast(),
            (&raw mut trips).cast(),
            (&raw mut flag).cast(),
            (&raw mut stop).cast(),
        ];
        let (one, threads) = ((1, 1, 1), (n as u32, 1, 1));
        // SAFETY: the arguments are those of `GO_ON`, which reads live memory, and writes a number in each thread.
        let launched = unsafe { launch_kernel(self.go_on.handle, one, threads, 0, stream, &mut arguments) };
        launched.map_err(|error| failed("counting trips", &error))
    }
}

/// Sets the numbers of trips to 0, 1, ….
const SET: i32 = -1;

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

/// Counts trips, and sets the condition of a node before the node and at the end of its body. The host's memory is far away, so it is read in
/// each sixteenth body.
pub const GO_ON: &str = r#"
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
extern "C" __global__ void go_on(
    unsigned long long handle, const unsigned char* until, int* numbers, int more, int trips,
    const unsigned int* failed, const volatile unsigned int* stop
) {
    int number = more < 0 ? (int)threadIdx.x : numbers[threadIdx.x] + more;
    numbers[threadIdx.x] = number;
    if (handle == 0 || threadIdx.x != 0) return;
    bool goes_on = number < trips && (until == nullptr || *until == 0) && *failed == 0;
    if (goes_on && number / more % 16 == 0) goes_on = *stop == 0;
    cudaGraphSetConditional(handle, goes_on ? 1u : 0u);
}
"#;
