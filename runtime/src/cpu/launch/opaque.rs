//! Launches of opaque kernels: an op's own kernel, with memory and threads lent to it.

use super::super::pool::Pool;
use super::call::{Call, KernelLaunch};
use super::scratch::WorkerScratch;
use engine_core::fusion::{Kernel, OpaqueBody, Use};
use engine_core::op::HostKernel;
use engine_core::op::kernel::{Lent, Memory, Threads};

impl Threads for Pool {
    fn run(&mut self, n_chunks: usize, body: &(dyn Fn(usize) + Sync)) {
        Pool::run(self, n_chunks, &|chunk, _| body(chunk));
    }

    fn count(&self) -> usize {
        self.n_threads()
    }
}

/// An opaque kernel, ready to run.
pub struct OpaqueLaunch {
    kernel: HostKernel,
    /// The memory of each kernel operand; each run sets the addresses.
    memory: Vec<Memory>,
    n_inputs: usize,
    workspace: *mut u64,
}

// SAFETY: the workspace is an address in the executable's own arena.
unsafe impl Send for OpaqueLaunch {}

impl OpaqueLaunch {
    /// Prepares the kernel for its shapes; `workspace` is the kernel's workspace.
    pub fn new(body: &OpaqueBody, kernel: &Kernel, workspace: *mut u8) -> OpaqueLaunch {
        let operands = kernel.operands.iter();
        let memory = |ty: &engine_core::ir::Type| Memory {
            start: std::ptr::null_mut(),
            len: ty.numel(),
            dtype: ty.dtype,
        };
        OpaqueLaunch {
            kernel: (body.call.form().host)(&body.call),
            n_inputs: operands.clone().filter(|operand| operand.usage == Use::Read).count(),
            memory: operands.map(|operand| memory(&operand.ty)).collect(),
            workspace: workspace.cast(),
        }
    }
}

impl KernelLaunch for OpaqueLaunch {
    unsafe fn run(&mut self, pool: &mut Pool, _workers: &mut [WorkerScratch], call: Call) {
        for (memory, buffer) in self.memory.iter_mut().zip(call.buffers) {
            memory.start = buffer.start;
        }
        let (inputs, outputs) = self.memory.split_at(self.n_inputs);
        let n_words = self.kernel.workspace_bytes / 8;
        // SAFETY: the caller's; the plan keeps results and workspace apart from all other live buffers.
        unsafe {
            let workspace = std::slice::from_raw_parts_mut(self.workspace, n_words);
            (self.kernel.run)(&mut Lent::new(inputs, outputs, workspace, pool));
        }
    }
}
