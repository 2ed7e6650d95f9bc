//! The streams of a plan, each with one beside it for steps that wait for nothing else in their launch.

use super::context::{Context, failed};
use super::event::Event;
use crate::device::DeviceError;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;
use std::sync::Arc;

/// The streams of a plan; the first is the main one, where steps begin and end.
pub struct PlanStreams {
    streams: Vec<PlanStream>,
    /// The main stream has reached the beginning of a step.
    begun: Event,
}

/// A stream with the one beside it.
pub struct PlanStream {
    stream: Arc<CudaStream>,
    beside: Arc<CudaStream>,
    forked: Event,
    joined: Event,
    /// The stream has reached the end of a step.
    ended: Event,
}

impl PlanStreams {
    /// So many streams.
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

    /// Lets the other streams begin a step when the main one does.
    pub fn begin(&self) -> Result<(), DeviceError> {
        let [main, others @ ..] = &self.streams[..] else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        main.record(&self.begun)?;
        others.iter().try_for_each(|stream| stream.wait(&self.begun))
    }

    /// Lets the main stream wait for the end of the step on all others.
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

    /// Notes a point of the stream.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        record(event, self.stream())
    }

    /// Lets what comes next wait for a point.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        wait(self.stream(), event)
    }

    /// The stream beside it.
    pub fn beside(&self) -> CUstream {
        self.beside.cu_stream()
    }

    /// Lets the stream beside go on from here.
    pub fn fork(&self) -> Result<(), DeviceError> {
        self.record(&self.forked)?;
        wait(self.beside(), &self.forked)
    }

    /// Lets this stream wait for the one beside.
    pub fn join(&self) -> Result<(), DeviceError> {
        record(&self.joined, self.beside())?;
        self.wait(&self.joined)
    }
}

fn new_event() -> Result<Event, DeviceError> {
    Event::new().map_err(|error| failed("making an event", &error))
}

/// Notes a point of a stream.
pub fn record(event: &Event, stream: CUstream) -> Result<(), DeviceError> {
    event.record(stream).map_err(|error| failed("recording an event", &error))
}

/// Lets a stream wait for a point.
pub fn wait(stream: CUstream, event: &Event) -> Result<(), DeviceError> {
    event.hold(stream).map_err(|error| failed("waiting for an event", &error))
}
