//! Loops: trips enqueued one by one, or a conditional node of a graph, whose body the GPU repeats by itself.

use super::compile::Function;
use super::context::Context;
use super::error::failed;
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

/// What the end of a trip needs.
pub struct Trips {
    context: Arc<Context>,
    go_on: Arc<Function>,
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
    pub fn of(context: &Arc<Context>, steps: &[PreparedStep]) -> Result<Option<Trips>, DeviceError> {
        if !has_nodes(steps) {
            return Ok(None);
        }
        let [text, entry] = [GO_ON, "go_on"].map(str::to_string);
        let sources = [("loop".to_string(), Source { text, entry, ..Source::default() })];
        let loaded = context.state.kernels.load(&sources, |owner, source| context.compile(owner, source));
        Ok(Some(Trips { context: Arc::clone(context), go_on: loaded?.remove(0) }))
    }

    /// Enqueues a loop, a trip of which `trip` enqueues on a stream.
    pub fn enqueue(
        trips: Option<&Trips>,
        work: &Work,
        ends: Ends,
        stream: CUstream,
        trip: &dyn Fn(CUstream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        match trips.filter(|_| is_node(work)) {
            None => (0..ends.trips).try_for_each(|_| trip(stream)),
            Some(trips) => match capture_of(stream)? {
                None => trips.run(ends, stream, trip),
                Some(graph) => trips.capture(graph, ends, stream, trip),
            },
        }
    }

    /// Enqueues trips and waits for those that may be the last.
    fn run(
        &self,
        ends: Ends,
        stream: CUstream,
        trip: &dyn Fn(CUstream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        // The kernel is loaded by its first launch, which cannot be captured.
        self.end_trip(0, ends, stream)?;
        for _ in 0..ends.trips {
            trip(stream)?;
            let mut ended = [0u8];
            if ends.until != 0 {
                // SAFETY: the truth value is a byte of live memory, and the host waits for the copy.
                let read = unsafe {
                    result::memcpy_dtoh_async(&mut ended, ends.until, stream)
                        .and_then(|()| result::stream::synchronize(stream))
                };
                read.map_err(|error| failed("reading the end of a loop", &error))?;
            }
            if ended != [0] {
                break;
            }
        }
        Ok(())
    }

    /// Adds a node that repeats a trip to the graph that the stream is captured into.
    fn capture(
        &self,
        captured: Captured,
        ends: Ends,
        stream: CUstream,
        trip: &dyn Fn(CUstream) -> Result<(), DeviceError>,
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
        let queued = trip(stream).and_then(|()| self.end_trip(handle, ends, stream));
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

    /// Enqueues the kernel that decides whether another trip follows. Without a handle, it does nothing.
    fn end_trip(&self, handle: u64, ends: Ends, stream: CUstream) -> Result<(), DeviceError> {
        let Ends { mut until, mut number, trips } = ends;
        let (mut handle, mut trips) = (handle, trips as i32);
        let mut arguments = [
            (&raw mut handle).cast(),
            (&raw mut until).cast(),
            (&raw mut number).cast(),
            (&raw mut trips).cast(),
        ];
        let one = (1, 1, 1);
        // SAFETY: the arguments are those of `GO_ON`, which reads live memory.
        let launched = unsafe { launch_kernel(self.go_on.handle, one, one, 0, stream, &mut arguments) };
        launched.map_err(|error| failed("ending a trip", &error))
    }
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

/// Sets the condition of a loop at the end of a trip.
const GO_ON: &str = r#"
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
extern "C" __global__ void go_on(unsigned long long handle, const unsigned char* until, const int* number, int trips) {
    if (handle == 0) return;
    bool more = *number < trips && (until == nullptr || *until == 0);
    cudaGraphSetConditional(handle, more ? 1u : 0u);
}
"#;
