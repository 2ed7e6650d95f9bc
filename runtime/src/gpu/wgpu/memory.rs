//! Memory of a GPU, and staging buffers that the host maps.

use super::context::{Context, MOST_STAGED};
use super::errors::checked;
use crate::device::DeviceError;
use crate::gpu::api::GpuMemory;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wgpu::BufferUsages;

/// The unit of copies.
const WORD: usize = 4;
/// The unit of sizes and bindings: kernels load whole vectors, including a partial last one.
pub const VECTOR: usize = 16;
/// The seconds to wait for the callback of a mapping after its copy is done.
const LONGEST_WAIT: usize = 60;
/// The largest number of bytes in one staging copy to the host.
const LARGEST_FETCH: usize = 64 << 20;

/// Zero-initialized device memory.
pub struct WgpuMemory {
    buffer: wgpu::Buffer,
    bytes: usize,
    context: Arc<Context>,
}

impl GpuMemory for WgpuMemory {
    type Gpu = Context;

    fn new(context: &Arc<Context>, bytes: usize) -> Result<WgpuMemory, DeviceError> {
        let size = bytes.next_multiple_of(VECTOR).max(VECTOR) as u64;
        let largest = context.limits.max_buffer_size;
        if size > largest {
            let (device, buffer) = (context.state.name.clone(), String::new());
            return Err(DeviceError::TooLarge { device, buffer, bytes: size, most: largest, span: None });
        }
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let failed =
            |error| DeviceError::Failed(format!("allocating memory on {}: {error}", context.state.name));
        let buffer = context.make(bytes, failed, || context.device.create_buffer(&descriptor))?;
        Ok(WgpuMemory { buffer, bytes, context: Arc::clone(context) })
    }

    fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        if offset.is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD) {
            return self.send(offset, bytes);
        }
        // The whole words around the range.
        let start = offset / WORD * WORD;
        let end = (offset + bytes.len()).next_multiple_of(WORD);
        let mut words = vec![0; end - start];
        let is_all = start == offset && offset + bytes.len() == self.bytes;
        if !is_all {
            self.fetch(start, &mut words)?;
        }
        words[offset - start..][..bytes.len()].copy_from_slice(bytes);
        self.send(start, &words)
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let start = offset / WORD * WORD;
        let end = (offset + bytes.len()).next_multiple_of(WORD);
        if start == offset && end == offset + bytes.len() {
            return self.fetch(offset, bytes);
        }
        let mut words = vec![0; end - start];
        self.fetch(start, &mut words)?;
        bytes.copy_from_slice(&words[offset - start..][..bytes.len()]);
        Ok(())
    }

    fn clear(&self) -> Result<(), DeviceError> {
        let mut encoder = self.context.encoder();
        encoder.clear_buffer(&self.buffer, 0, None);
        self.context.queue.submit([encoder.finish()]);
        self.context.wait()
    }
}

impl WgpuMemory {
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Copies whole words from the host.
    fn send(&self, offset: usize, words: &[u8]) -> Result<(), DeviceError> {
        let mut start = offset;
        for part in words.chunks(MOST_STAGED) {
            self.context.queue.write_buffer(&self.buffer, start as u64, part);
            self.context.note_written(part.len())?;
            start += part.len();
        }
        self.context.check()
    }

    /// Copies whole words to the host.
    fn fetch(&self, offset: usize, words: &mut [u8]) -> Result<(), DeviceError> {
        let mut start = offset;
        for part in words.chunks_mut(LARGEST_FETCH) {
            let staging = Staging::new(&self.context, part.len())?;
            staging.copy(&self.buffer, start);
            staging.read(part)?;
            start += part.len();
        }
        Ok(())
    }
}

/// A staging buffer, which the GPU copies to and the host maps.
pub struct Staging {
    buffer: wgpu::Buffer,
    context: Arc<Context>,
    /// The channel of the mapping callback, created once so that reading allocates nothing.
    sender: SyncSender<Mapped>,
    receiver: Mutex<Receiver<Mapped>>,
}

/// The result of a mapping.
type Mapped = Result<(), wgpu::BufferAsyncError>;

impl Staging {
    /// `bytes` is a multiple of 4.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Staging, DeviceError> {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let size = bytes as u64;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let failed = |error| {
            DeviceError::Failed(format!(
                "allocating {bytes} bytes to read from {}: {error}",
                context.state.name
            ))
        };
        let buffer = context.make(bytes, failed, || context.device.create_buffer(&descriptor))?;
        let (sender, receiver) = sync_channel(1);
        Ok(Staging { buffer, context: Arc::clone(context), sender, receiver: Mutex::new(receiver) })
    }

    /// Submits a copy that fills the buffer.
    pub fn copy(&self, source: &wgpu::Buffer, offset: usize) {
        let mut encoder = self.context.encoder();
        self.encode_copy(&mut encoder, source, offset);
        self.context.queue.submit([encoder.finish()]);
    }

    /// Encodes a copy that fills the buffer.
    pub fn encode_copy(&self, encoder: &mut wgpu::CommandEncoder, source: &wgpu::Buffer, offset: usize) {
        encoder.copy_buffer_to_buffer(source, offset as u64, &self.buffer, 0, self.buffer.size());
    }

    /// Waits for all submissions, and reads the buffer.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        match self.map(&receiver) {
            Ok(()) => bytes.copy_from_slice(&self.buffer.slice(..).get_mapped_range()),
            Err(error) => {
                // The buffer may be mapped all the same, now or later. The next read starts from an unmapped buffer.
                let _ = checked(&self.context.device, || self.buffer.unmap());
                let _ = receiver.try_recv();
                return Err(error);
            }
        }
        self.buffer.unmap();
        Ok(())
    }

    /// Waits for all submissions, and maps the buffer.
    fn map(&self, receiver: &Receiver<Mapped>) -> Result<(), DeviceError> {
        let sender = self.sender.clone();
        self.buffer.slice(..).map_async(wgpu::MapMode::Read, move |result| {
            // After a failed wait, no thread receives the result.
            let _ = sender.try_send(result);
        });
        // The callback may run on another thread that waits for the GPU, after this wait has ended.
        let mapped = (0..LONGEST_WAIT).find_map(|_| {
            self.context.wait().map_or_else(
                |error| Some(Err(error)),
                |()| receiver.recv_timeout(Duration::from_secs(1)).ok().map(Ok),
            )
        });
        match mapped {
            Some(Ok(mapped)) => mapped.map_err(|error| self.unread(&error.to_string())),
            Some(Err(error)) => Err(error),
            None => Err(self.unread("the copy was not made")),
        }
    }

    fn unread(&self, why: &str) -> DeviceError {
        DeviceError::Failed(format!("reading from {}: {why}", self.context.state.name))
    }
}
