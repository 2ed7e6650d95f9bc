//! Trials of a library's algorithms: a call on tensors of noise.

use super::clock;
use super::context::Context;
use super::error::failed;
use super::graph::exclude_captures;
use super::library_call::{CallAddresses, LIBRARY, LibraryCall};
use super::memory::CudaMemory;
use crate::device::DeviceError;
use crate::gpu::api::GpuMemory;
use crate::gpu::autotune::fastest_of;
use crate::gpu::noise;
use crate::tensor::HostTensor;
use engine_core::ir::DType;
use engine_core::program::MatmulCall;
use std::sync::Arc;

/// The tensors of a call on which algorithms are timed.
pub struct CallTrial {
    context: Arc<Context>,
    /// The element types of the factors and of the result.
    elements: [DType; 2],
    /// The right factor comes first.
    factors: [CudaMemory; 2],
    result: CudaMemory,
    result_bytes: usize,
    added: Option<CudaMemory>,
    bias: CudaMemory,
    workspace: CudaMemory,
}

impl CallTrial {
    /// Allocates the tensors, filled with zeros.
    pub fn new(context: &Arc<Context>, call: &MatmulCall) -> Result<CallTrial, DeviceError> {
        let memory = |bytes: usize| CudaMemory::new(context, bytes.next_multiple_of(16));
        let [left, right] = call.factor_bytes();
        Ok(CallTrial {
            context: Arc::clone(context),
            elements: [call.dtype, call.result],
            factors: [memory(right)?, memory(left)?],
            result: memory(call.result_bytes())?,
            result_bytes: call.result_bytes(),
            added: call.epilogue.adds.then(|| memory(call.result_bytes())).transpose()?,
            bias: memory(call.n * call.result.size())?,
            workspace: memory(call.workspace_bytes(LIBRARY))?,
        })
    }

    /// The algorithms whose result is NaN if a factor is NaN.
    pub fn nan_preserving<C: LibraryCall>(
        &self,
        call: &C,
        algorithms: Vec<C::Algorithm>,
    ) -> Result<Vec<C::Algorithm>, DeviceError> {
        // Every floating-point type reads these bytes as NaN.
        self.factors[0].set(0xFF)?;
        let mut kept = vec![];
        for algorithm in algorithms {
            if self.keeps_nan(call, &algorithm)? {
                kept.push(algorithm);
            }
        }
        Ok(kept)
    }

    /// Whether the result of an algorithm is NaN. An algorithm that fails to launch does not count.
    fn keeps_nan<C: LibraryCall>(&self, call: &C, algorithm: &C::Algorithm) -> Result<bool, DeviceError> {
        self.result.clear()?;
        let stream = self.context.new_stream()?;
        {
            let _excluded = exclude_captures();
            let workspace = self.workspace.range();
            if call.launch(algorithm, self.addresses(), &workspace, stream.cu_stream()).is_err() {
                return Ok(false);
            }
        }
        stream.synchronize().map_err(|error| failed("trying a product", &error))?;
        // Algorithms compute results by tiles, so the first and the last ones are checked.
        let n_bytes = self.result_bytes.min(MAX_CHECKED_BYTES);
        for start in [0, self.result_bytes - n_bytes] {
            let mut result = HostTensor::zeros(self.elements[1], &[n_bytes / self.elements[1].size()])
                .map_err(|error| DeviceError::Failed(error.to_string()))?;
            self.result.read(start, result.bytes_mut())?;
            if !result.to_f64().iter().all(|element| element.is_nan()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Those of some algorithms that the library runs. It may refuse what it has a workspace for.
    pub fn running<C: LibraryCall>(
        &self,
        call: &C,
        algorithms: &[C::Algorithm],
    ) -> Result<Vec<C::Algorithm>, DeviceError> {
        let stream = self.context.new_stream()?;
        let runs = |algorithm: &C::Algorithm| {
            let _excluded = exclude_captures();
            call.launch(algorithm, self.addresses(), &self.workspace.range(), stream.cu_stream()).is_ok()
        };
        let running = algorithms.iter().copied().filter(runs).collect();
        stream.synchronize().map_err(|error| failed("trying a product", &error))?;
        Ok(running)
    }

    /// The fastest of some algorithms, on noise.
    pub fn fastest<C: LibraryCall>(
        &self,
        call: &C,
        algorithms: &[C::Algorithm],
    ) -> Result<C::Algorithm, DeviceError> {
        self.factors.iter().try_for_each(|factor| noise::fill(factor, self.elements[0]))?;
        noise::warm_up(&self.context)?;
        let (stream, addresses, workspace) =
            (self.context.new_stream()?, self.addresses(), self.workspace.range());
        let best = fastest_of(algorithms.len(), |i, _| {
            clock::seconds(&stream, || call.launch(&algorithms[i], addresses, &workspace, stream.cu_stream()))
        })?;
        Ok(algorithms[best])
    }

    fn addresses(&self) -> CallAddresses {
        CallAddresses {
            factors: [self.factors[0].start(), self.factors[1].start()],
            result: self.result.start(),
            added: self.added.as_ref().map(CudaMemory::start),
            bias: Some(self.bias.start()),
        }
    }
}

/// Bytes checked at each end of a result: a multiple of the size of every element.
const MAX_CHECKED_BYTES: usize = 1 << 20;
