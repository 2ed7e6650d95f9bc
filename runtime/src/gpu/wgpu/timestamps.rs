//! Timestamp queries around compute passes.

use super::context::Context;
use super::memory::Staging;
use crate::device::DeviceError;
use std::sync::Arc;

/// A query set holds at most 4096 queries, two per pass.
pub const MOST_PASSES: usize = 2048;

/// The queries at the beginnings and ends of compute passes.
pub struct Timestamps {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    n_passes: usize,
}

impl Timestamps {
    /// Queries of `n_passes` passes, at most [`MOST_PASSES`].
    pub fn new(context: &Context, n_passes: usize) -> Timestamps {
        let set = context.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2 * n_passes as u32,
        });
        let resolved = context.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16 * n_passes as u64,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Timestamps { set, resolved, n_passes }
    }

    /// Begins a pass with its queries.
    pub fn begin<'e>(&self, encoder: &'e mut wgpu::CommandEncoder, pass: usize) -> wgpu::ComputePass<'e> {
        let first = 2 * pass as u32;
        let timestamp_writes = Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        });
        encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes })
    }

    /// Submits the passes, waits for them, and returns the seconds of each.
    pub fn submit(
        &self,
        context: &Arc<Context>,
        mut encoder: wgpu::CommandEncoder,
    ) -> Result<Vec<f64>, DeviceError> {
        encoder.resolve_query_set(&self.set, 0..2 * self.n_passes as u32, &self.resolved, 0);
        context.queue.submit([encoder.finish()]);
        let mut bytes = vec![0; 16 * self.n_passes];
        let staging = Staging::new(context, bytes.len())?;
        staging.copy(&self.resolved, 0);
        staging.read(&mut bytes)?;
        let stamps: Vec<u64> = bytes.as_chunks().0.iter().map(|&stamp| u64::from_le_bytes(stamp)).collect();
        let period = f64::from(context.queue.get_timestamp_period()) * 1e-9;
        let seconds = |&[start, end]: &[u64; 2]| end.saturating_sub(start) as f64 * period;
        Ok(stamps.as_chunks().0.iter().map(seconds).collect())
    }
}
