//! The CPU device: fused kernels as blocks of vectorised loops, matrix products with epilogues, a fork/join pool.
//!
//! Results never depend on the number of threads: work is cut by shape, and sums have an order that depends on
//! shapes alone. From the inside out: [`isa`] picks the instruction set, [`math`] has the scalar functions (`wide` some of them by the vector), [`slice`],
//! [`reduce`] and [`philox`] the loops over slices, [`gemm`] the products, [`pool`] the threads. `address`, `program` and
//! `block` make a tile of the fuser into instructions over blocks; `tile`, `contract`, `attend`, `scatter` and `scan` are the kinds
//! of launch, `feed` and `rows` what those read through; `executable` runs a plan.

pub mod gemm;
pub mod loops;
mod math;
pub mod pool;
mod simd;

mod address;
mod attention;
mod block;
mod body;
mod executable;
mod matmul;
mod matmul_fold;
mod matrix_source;
mod memory;
mod opaque;
mod program;
mod scalar;
mod scan;
mod scatter;

#[cfg(test)]
mod tests;

use crate::device::{Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable};
use crate::tensor::HostTensor;
use engine_core::plan::Plan;
use executable::CpuExecutable;
use memory::Memory;
use pool::Pool;
use simd::isa::Level;
use std::sync::{Arc, Mutex};

/// The processor as a device.
pub struct CpuDevice {
    n_threads: usize,
    pool: Arc<Mutex<Pool>>,
}

impl CpuDevice {
    /// A device of so many threads; `None` takes all that the machine has.
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
        DeviceInfo {
            name: "cpu".into(),
            kind: DeviceKind::Cpu,
            memory_bytes: memory_bytes().unwrap_or(0),
            details: vec![
                ("threads".into(), self.n_threads.to_string()),
                ("instructions".into(), instructions.into()),
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
        // SAFETY: the range is inside, and by the contract of the trait nobody is using the buffer.
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
        Ok(Box::new(CpuExecutable::new(plan, seed, Arc::clone(&self.pool))?))
    }
}

fn range_start(buffer: &DeviceBuffer, offset: usize, length: usize) -> Result<*mut u8, DeviceError> {
    let memory = buffer.memory::<Memory>()?;
    let bytes = memory.bytes();
    match offset.checked_add(length) {
        Some(end) if end <= bytes => Ok(memory.start().wrapping_add(offset)),
        _ => Err(DeviceError::OutOfRange { offset, length, bytes }),
    }
}

/// Total memory, where the system tells.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        text.lines().find(|line| line.starts_with("MemTotal:"))?.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kib)
}
