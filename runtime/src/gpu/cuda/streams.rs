//! The streams of a plan. Each has a side stream, on which independent steps of a launch run concurrently.

use super::context::Context;
use super::error::failed;
use super::event::Event;
use crate::device::DeviceError;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;
use std::cell::Cell;
use std::sync::Arc;

/// The streams of a plan. Steps begin and end on the first, the main stream.
pub struct PlanStreams {
    streams: Vec<PlanStream>,
    /// Recorded on the main stream when a step begins.
    begun: Event,
}

/// A stream with its side stream.
pub struct PlanStream {
    main: Lane,
    beside: Lane,
    forked: Event,
    joined: Event,
    /// Recorded on the stream when a step ends.
    ended: Event,
}

/// A stream, and what the next launch on it waits for.
pub struct Lane {
    stream: Arc<CudaStream>,
    /// Whether the next launch waits for nothing but a kernel of code generation before it. Such kernels wait themselves, so
    /// their blocks may start before.
    is_behind_kernel: Cell<bool>,
}

impl Lane {
    fn new(context: &Arc<Context>) -> Result<Lane, DeviceError> {
        Ok(Lane { stream: context.new_stream()?, is_behind_kernel: Cell::new(false) })
    }

    pub fn stream(&self) -> CUstream {
        self.stream.cu_stream()
    }

    /// Notes what is enqueued now: a kernel of code generation, or something else. Returns whether the work before was such a
    /// kernel.
    pub fn enqueues(&self, is_kernel: bool) -> bool {
        self.is_behind_kernel.replace(is_kernel)
    }

    /// Makes later work wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.enqueues(false);
        wait(self.stream(), event)
    }
}

impl PlanStreams {
    /// Creates `n_streams` streams.
    pub fn new(context: &Arc<Context>, n_streams: usize) -> Result<PlanStreams, DeviceError> {
        let streams = (0..n_streams).map(|_| PlanStream::new(context)).collect::<Result<_, _>>()?;
        Ok(PlanStreams { streams, begun: new_event()? })
    }

    /// The stream of that number.
    pub fn stream(&self, number: usize) -> &PlanStream {
        &self.streams[number]
    }

    /// The main stream.
    pub fn main(&self) -> &Arc<CudaStream> {
        &self.streams[0].main.stream
    }

    /// Makes the other streams wait for the beginning of a step on the main stream.
    pub fn begin(&self) -> Result<(), DeviceError> {
        let [main, others @ ..] = &self.streams[..] else { return Ok(()) };
        main.main.enqueues(false);
        if others.is_empty() {
            return Ok(());
        }
        main.record(&self.begun)?;
        others.iter().try_for_each(|stream| stream.wait(&self.begun))
    }

    /// Makes the main stream wait for the end of the step on all other streams.
    pub fn end(&self) -> Result<(), DeviceError> {
        let [main, others @ ..] = &self.streams[..] else { return Ok(()) };
        others.iter().try_for_each(|stream| {
            stream.record(&stream.ended)?;
            main.wait(&stream.ended)
        })
    }
}

impl PlanStream {
    fn new(context: &Arc<Context>) -> Result<PlanStream, DeviceError> {
        Ok(PlanStream {
            main: Lane::new(context)?,
            beside: Lane::new(context)?,
            forked: new_event()?,
            joined: new_event()?,
            ended: new_event()?,
        })
    }

    pub fn main(&self) -> &Lane {
        &self.main
    }

    /// Records an event on the stream.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        record(event, self.main.stream())
    }

    /// Makes later work on the stream wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.main.wait(event)
    }

    /// The side stream.
    pub fn beside(&self) -> &Lane {
        &self.beside
    }

    /// Makes the side stream wait for the work enqueued on the stream so far.
    pub fn fork(&self) -> Result<(), DeviceError> {
        self.record(&self.forked)?;
        self.beside.wait(&self.forked)
    }

    /// Makes the stream wait for its side stream.
    pub fn join(&self) -> Result<(), DeviceError> {
        record(&self.joined, self.beside.stream())?;
        self.wait(&self.joined)
    }
}

fn new_event() -> Result<Event, DeviceError> {
    Event::new().map_err(|error| failed("making an event", &error))
}

/// Records an event on a stream.
pub fn record(event: &Event, stream: CUstream) -> Result<(), DeviceError> {
    event.record(stream).map_err(|error| failed("recording an event", &error))
}

fn wait(stream: CUstream, event: &Event) -> Result<(), DeviceError> {
    event.hold(stream).map_err(|error| failed("waiting for an event", &error))
}
