//! Memory of a GPU.

use super::context::{Context, MOST_STAGED};
use crate::bindings::check_range;
use crate::device::DeviceError;
use crate::gpu::GpuMemory;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wgpu::BufferUsages;

/// Copies move whole words.
const WORD: usize = 4;
/// Kernels read whole vectors, also of a last one that is not full.
pub const VECTOR: usize = 16;
/// Seconds after which a copy that is done, but not told, is given up.
const LONGEST_WAIT: usize = 60;
/// Bytes that are fetched at once.
const LARGEST_FETCH: usize = 64 << 20;

/// Zeroed bytes on a GPU.
pub struct Memory {
    buffer: wgpu::Buffer,
    bytes: usize,
    context: Arc<Context>,
}

impl GpuMemory for Memory {
    type Context = Context;

    fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}

impl Memory {
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Memory, DeviceError> {
        let size = bytes.next_multiple_of(VECTOR).max(VECTOR) as u64;
        let largest = context.limits.max_buffer_size;
        if size > largest {
            let (device, buffer) = (context.name.clone(), String::new());
            return Err(DeviceError::TooLarge { device, buffer, bytes: size, most: largest, span: None });
        }
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let failed = |said| DeviceError::Failed(format!("allocating memory on {}: {said}", context.name));
        let buffer = context.make(bytes, failed, || context.device.create_buffer(&descriptor))?;
        Ok(Memory { buffer, bytes, context: Arc::clone(context) })
    }

    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies from the host.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(offset, bytes.len(), self.bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if offset.is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD) {
            return self.send(offset, bytes);
        }
        // Whole words around it.
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

    /// Copies to the host.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        check_range(offset, bytes.len(), self.bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
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

    /// Whole words from the host.
    fn send(&self, offset: usize, words: &[u8]) -> Result<(), DeviceError> {
        let mut start = offset;
        for part in words.chunks(MOST_STAGED) {
            self.context.queue.write_buffer(&self.buffer, start as u64, part);
            self.context.note_written(part.len())?;
            start += part.len();
        }
        self.context.check()
    }

    /// Whole words to the host.
    fn fetch(&self, offset: usize, words: &mut [u8]) -> Result<(), DeviceError> {
        let mut start = offset;
        for part in words.chunks_mut(LARGEST_FETCH) {
            let staging = Staging::new(&self.context, part.len())?;
            staging.take(&self.buffer, start);
            staging.read(part)?;
            start += part.len();
        }
        Ok(())
    }
}

/// Memory that the GPU copies to and the host reads.
pub struct Staging {
    buffer: wgpu::Buffer,
    context: Arc<Context>,
    /// That a copy can be read; kept, so that reading allocates nothing.
    told: SyncSender<Told>,
    hears: Mutex<Receiver<Told>>,
}

type Told = Result<(), wgpu::BufferAsyncError>;

impl Staging {
    /// `bytes` is a multiple of 4.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Staging, DeviceError> {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let size = bytes as u64;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let failed = |said| {
            DeviceError::Failed(format!("allocating {bytes} bytes to read from {}: {said}", context.name))
        };
        let buffer = context.make(bytes, failed, || context.device.create_buffer(&descriptor))?;
        let (told, hears) = sync_channel(1);
        Ok(Staging { buffer, context: Arc::clone(context), told, hears: Mutex::new(hears) })
    }

    /// Hands in a copy of as many bytes as there is room for.
    pub fn take(&self, source: &wgpu::Buffer, offset: usize) {
        let mut encoder =
            self.context.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.take_by(&mut encoder, source, offset);
        self.context.queue.submit([encoder.finish()]);
    }

    /// The same as the last of what an encoder hands in.
    pub fn take_by(&self, encoder: &mut wgpu::CommandEncoder, source: &wgpu::Buffer, offset: usize) {
        encoder.copy_buffer_to_buffer(source, offset as u64, &self.buffer, 0, self.buffer.size());
    }

    /// Waits for everything, and copies what was taken.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let hears = self.hears.lock().unwrap_or_else(PoisonError::into_inner);
        match self.map(&hears) {
            Ok(()) => bytes.copy_from_slice(&self.buffer.slice(..).get_mapped_range()),
            Err(error) => {
                // It may be mapped all the same, or be told to be later; the next read begins anew.
                let _ = self.context.checked(|| self.buffer.unmap());
                let _ = hears.try_recv();
                return Err(error);
            }
        }
        self.buffer.unmap();
        Ok(())
    }

    /// Waits for everything, and until the host can read it.
    fn map(&self, hears: &Receiver<Told>) -> Result<(), DeviceError> {
        let told = self.told.clone();
        self.buffer.slice(..).map_async(wgpu::MapMode::Read, move |result| {
            // Nobody listens if waiting has failed.
            let _ = told.try_send(result);
        });
        // Another thread that waits for the GPU may be the one that is told, a moment later.
        let mapped = (0..LONGEST_WAIT).find_map(|_| {
            self.context.wait().map_or_else(
                |error| Some(Err(error)),
                |()| hears.recv_timeout(Duration::from_secs(1)).ok().map(Ok),
            )
        });
        match mapped {
            Some(Ok(told)) => told.map_err(|error| self.unread(&error.to_string())),
            Some(Err(error)) => Err(error),
            None => Err(self.unread("the copy was not made")),
        }
    }

    fn unread(&self, why: &str) -> DeviceError {
        DeviceError::Failed(format!("reading from {}: {why}", self.context.name))
    }
}
