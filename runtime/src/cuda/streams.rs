//! The streams of a plan: each with scratch of its own, and a stream beside it for parts of a launch that wait for nothing
//! else in it.

use super::context::{Context, failed};
use super::event::Event;
use super::memory::Memory;
use crate::device::DeviceError;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;
use std::sync::Arc;

/// The streams of a plan; the first is the main one, where steps begin and end.
pub struct PlanStreams {
    lanes: Vec<PlanStream>,
    /// The main lane has come to the beginning of a step.
    begun: Event,
}

/// A stream with its own.
pub struct PlanStream {
    stream: Arc<CudaStream>,
    /// Where products go that have no place of their own.
    pub scratch: Memory,
    /// Scratch of the library.
    pub workspace: Memory,
    beside: Arc<CudaStream>,
    forked: Event,
    joined: Event,
    /// What goes through each of two slots is there, and has been taken.
    made: [Event; 2],
    taken: [Event; 2],
    /// The lane has come to the end of a step.
    ended: Event,
}

impl PlanStreams {
    /// A lane for each size of scratch.
    pub fn new(
        context: &Arc<Context>,
        scratch_bytes: &[usize],
        workspace_bytes: usize,
    ) -> Result<PlanStreams, DeviceError> {
        let lane = |&scratch_bytes: &usize| PlanStream::new(context, scratch_bytes, workspace_bytes);
        let lanes = scratch_bytes.iter().map(lane).collect::<Result<_, _>>()?;
        Ok(PlanStreams { lanes, begun: new_event()? })
    }

    /// The lane of that number.
    pub fn lane(&self, number: usize) -> &PlanStream {
        &self.lanes[number]
    }

    /// The main lane's stream.
    pub fn main(&self) -> &Arc<CudaStream> {
        &self.lanes[0].stream
    }

    /// Lets the other lanes begin a step when the main one does.
    pub fn begin(&self) -> Result<(), DeviceError> {
        let [main, others @ ..] = &self.lanes[..] else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        main.record(&self.begun)?;
        others.iter().try_for_each(|lane| lane.wait(&self.begun))
    }

    /// Lets the main lane go on when all others have come to the end of a step.
    pub fn end(&self) -> Result<(), DeviceError> {
        let [main, others @ ..] = &self.lanes[..] else { return Ok(()) };
        others.iter().try_for_each(|lane| {
            lane.record(&lane.ended)?;
            main.wait(&lane.ended)
        })
    }

    /// Scratch of all lanes.
    pub fn bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.scratch.bytes() + lane.workspace.bytes()).sum()
    }
}

impl PlanStream {
    fn new(
        context: &Arc<Context>,
        scratch_bytes: usize,
        workspace_bytes: usize,
    ) -> Result<PlanStream, DeviceError> {
        Ok(PlanStream {
            stream: context.new_stream()?,
            scratch: Memory::new(context, scratch_bytes)?,
            workspace: Memory::new(context, workspace_bytes)?,
            beside: context.new_stream()?,
            forked: new_event()?,
            joined: new_event()?,
            made: [new_event()?, new_event()?],
            taken: [new_event()?, new_event()?],
            ended: new_event()?,
        })
    }

    pub fn stream(&self) -> CUstream {
        self.stream.cu_stream()
    }

    /// Notes a point of the lane.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        record(event, self.stream())
    }

    /// Lets what comes next wait for a point.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        wait(self.stream(), event)
    }

    /// Starts both, the second on the stream beside: neither waits for the other, and what comes next waits for both.
    pub fn side_by_side(
        &self,
        first: impl FnOnce(CUstream) -> Result<(), DeviceError>,
        second: impl FnOnce(CUstream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.record(&self.forked)?;
        wait(self.beside.cu_stream(), &self.forked)?;
        first(self.stream())?;
        second(self.beside.cu_stream())?;
        record(&self.joined, self.beside.cu_stream())?;
        self.wait(&self.joined)
    }

    /// Starts `make` for each of `n` numbers, and `take` on the stream beside once that is done: while one number is taken
    /// the next is made. Two numbers of the same parity never overlap.
    pub fn pipelined(
        &self,
        n: usize,
        mut make: impl FnMut(usize, CUstream) -> Result<(), DeviceError>,
        mut take: impl FnMut(usize, CUstream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let (here, beside) = (self.stream(), self.beside.cu_stream());
        self.record(&self.forked)?;
        wait(beside, &self.forked)?;
        for number in 0..n {
            let slot = number % 2;
            if number >= 2 {
                wait(here, &self.taken[slot])?;
            }
            make(number, here)?;
            record(&self.made[slot], here)?;
            wait(beside, &self.made[slot])?;
            take(number, beside)?;
            record(&self.taken[slot], beside)?;
        }
        record(&self.joined, beside)?;
        self.wait(&self.joined)
    }
}

fn new_event() -> Result<Event, DeviceError> {
    Event::new().map_err(|error| failed("making an event", &error))
}

fn record(event: &Event, stream: CUstream) -> Result<(), DeviceError> {
    event.record(stream).map_err(|error| failed("recording an event", &error))
}

fn wait(stream: CUstream, event: &Event) -> Result<(), DeviceError> {
    event.hold(stream).map_err(|error| failed("waiting for an event", &error))
}
