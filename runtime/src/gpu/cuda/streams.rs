//! The streams of a plan. Each has a side stream, on which independent steps of a launch run concurrently.

use super::context::Context;
use super::error::failed;
use super::event::Event;
use crate::device::DeviceError;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;
use std::sync::Arc;

/// The streams of a plan. Steps begin and end on the first, the main stream.
pub struct PlanStreams {
    streams: Vec<PlanStream>,
    /// Recorded on the main stream when a step begins.
    begun: Event,
}

/// A stream with its side stream.
pub struct PlanStream {
    stream: Arc<CudaStream>,
    beside: Arc<CudaStream>,
    forked: Event,
    joined: Event,
    /// Recorded on the stream when a step ends.
    ended: Event,
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
        &self.streams[0].stream
    }

    /// Makes the other streams wait for the beginning of a step on the main stream.
    pub fn begin(&self) -> Result<(), DeviceError> {
        let [main, others @ ..] = &self.streams[..] else { return Ok(()) };
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
            stream: context.new_stream()?,
            beside: context.new_stream()?,
            forked: new_event()?,
            joined: new_event()?,
            ended: new_event()?,
        })
    }

    pub fn stream(&self) -> CUstream {
        self.stream.cu_stream()
    }

    /// Records an event on the stream.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        record(event, self.stream())
    }

    /// Makes later work on the stream wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        wait(self.stream(), event)
    }

    /// The side stream.
    pub fn beside(&self) -> CUstream {
        self.beside.cu_stream()
    }

    /// Makes the side stream wait for the work enqueued on the stream so far.
    pub fn fork(&self) -> Result<(), DeviceError> {
        self.record(&self.forked)?;
        wait(self.beside(), &self.forked)
    }

    /// Makes the stream wait for its side stream.
    pub fn join(&self) -> Result<(), DeviceError> {
        record(&self.joined, self.beside())?;
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

/// Makes later work on a stream wait for an event.
pub fn wait(stream: CUstream, event: &Event) -> Result<(), DeviceError> {
    event.hold(stream).map_err(|error| failed("waiting for an event", &error))
}
