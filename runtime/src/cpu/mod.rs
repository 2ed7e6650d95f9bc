//! The CPU device: fused kernels as blocks of vectorised loops, matmuls with epilogues, a fork/join pool.
//!
//! Results never depend on the number of threads: work is cut by shape, and the order of each sum depends on shapes
//! alone. The modules, each of which uses those before it:
//!
//! - [`engine_numerics`]: loops over slices, functions of floats, matrix products.
//! - [`pool`] and `memory`: threads and buffers.
//! - `interp`: kernel bodies compiled to programs, and programs run over blocks.
//! - `bounds` and `sharing`: the memory that a kernel reaches.
//! - `launch`: kernels compiled, one file for each kind.
//! - `executable`: the launches of a plan.

pub mod pool;

mod bounds;
mod executable;
mod interp;
mod launch;
mod memory;
mod sharing;

#[cfg(test)]
mod tests;

use crate::bindings::check_range;
use crate::device::{Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable};
use crate::hoisted;
use crate::tensor::HostTensor;
use engine_core::op::simd::Level;
use engine_core::plan::Plan;
use engine_numerics::gemm::has_tiles;
use executable::CpuExecutable;
use memory::Memory;
use pool::Pool;
use std::sync::{Arc, Mutex};

/// The processor as a device.
pub struct CpuDevice {
    n_threads: usize,
    pool: Arc<Mutex<Pool>>,
}

impl CpuDevice {
    /// A device of `n_threads` threads; `None` takes all threads of the machine.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(n_threads: Option<usize>) -> Result<CpuDevice, DeviceError> {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let n_threads = n_threads.unwrap_or_else(all).max(1);
        let refused =
            |error| DeviceError::Failed(format!("{n_threads} threads could not be started: {error}"));
        Ok(CpuDevice { n_threads, pool: Arc::new(Mutex::new(Pool::new(n_threads).map_err(refused)?)) })
    }
}

impl Device for CpuDevice {
    fn info(&self) -> DeviceInfo {
        let instructions = match Level::detected() {
            Level::Baseline => "baseline",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        };
        let tiles = if has_tiles() { ", amx" } else { "" };
        DeviceInfo {
            name: "cpu".into(),
            kind: DeviceKind::Cpu,
            memory_bytes: memory_bytes().unwrap_or(0),
            details: vec![
                ("threads".into(), self.n_threads.to_string()),
                ("instructions".into(), format!("{instructions}{tiles}")),
            ],
        }
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::new(bytes, Arc::new(Memory::new(bytes)?)))
    }

    fn share(&self, tensor: &HostTensor) -> Option<DeviceBuffer> {
        Some(DeviceBuffer::new(tensor.bytes().len(), Arc::new(Memory::of(tensor.clone()))))
    }

    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let start = range_start(buffer, offset, bytes.len())?;
        buffer.note_write();
        // SAFETY: the range is inside, and by the contract of the trait no launch uses the buffer.
        unsafe { std::slice::from_raw_parts_mut(start, bytes.len()) }.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let start = range_start(buffer, offset, bytes.len())?;
        // SAFETY: as above.
        bytes.copy_from_slice(unsafe { std::slice::from_raw_parts(start, bytes.len()) });
        Ok(())
    }

    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        hoisted::prepare(self, plan, &|plan| {
            Ok(Box::new(CpuExecutable::new(plan, seed, Arc::clone(&self.pool))?))
        })
    }
}

fn range_start(buffer: &DeviceBuffer, offset: usize, length: usize) -> Result<*mut u8, DeviceError> {
    let memory = buffer.memory::<Memory>()?;
    check_range(offset, length, memory.bytes())?;
    Ok(memory.start().wrapping_add(offset))
}

/// The total memory, where the system reports it.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        text.lines().find(|line| line.starts_with("MemTotal:"))?.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kib)
}
