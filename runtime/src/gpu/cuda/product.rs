//! Matmuls by cuBLASLt, with autotuned algorithms.

use super::algorithm::{Algorithm, AlgorithmTrial, Tensors};
use super::context::Context;
use super::descriptor::{Descriptor, LIBRARY, MatmulAddresses};
use crate::autotune::Choice;
use crate::device::DeviceError;
use crate::gpu::api::GpuState;
use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::fusion::MatrixOperand;
use engine_core::ir::DType;
use engine_core::program::{Activation, MatmulCall};
use std::ops::Range;
use std::sync::Arc;

/// A matmul of the library with its algorithm.
pub struct Product {
    descriptor: Descriptor,
    algorithm: cublasLtMatmulAlgo_t,
}

impl Product {
    /// The matmul of a call; `None` if the library has no algorithm for it that handles NaN correctly.
    pub fn new(context: &Arc<Context>, call: &MatmulCall) -> Result<Option<Product>, DeviceError> {
        let Some(descriptor) = Descriptor::new(context, call)? else { return Ok(None) };
        let algorithm = choose(context, &descriptor, call)?;
        Ok(algorithm.map(|algorithm| Product { descriptor, algorithm }))
    }

    /// The text of its algorithm.
    pub fn algorithm_text(&self) -> String {
        Algorithm(Some(self.algorithm)).to_text()
    }

    /// Enqueues the matmul on a stream.
    pub fn launch(
        &self,
        addresses: MatmulAddresses,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        self.descriptor.launch(&self.algorithm, addresses, workspace, stream)
    }
}

/// The algorithm that is recorded for a call, or else the fastest; `None` if no algorithm is usable.
fn choose(
    context: &Arc<Context>,
    descriptor: &Descriptor,
    call: &MatmulCall,
) -> Result<Option<cublasLtMatmulAlgo_t>, DeviceError> {
    // Some of the library's algorithms turn NaN into 0 in a ReLU epilogue.
    let clamps = call.epilogue.activation == Activation::Relu;
    let is_possible = |Algorithm(known): &Algorithm| known.is_none_or(|known| descriptor.accepts(&known));
    // The first call of the heuristic takes as long as all other work together, so a recorded choice avoids it.
    let proposed = || descriptor.proposed(call.result);
    let GpuState { tuner, choices, .. } = &context.state;
    let chosen = tuner.recall(choices, &call.key(), is_possible, || {
        let mut algorithms = proposed()?;
        if algorithms.len() < 2 && !clamps {
            return Ok(Algorithm(algorithms.first().copied()));
        }
        let trial = AlgorithmTrial::new(context, &tensors(call))?;
        if clamps {
            algorithms = trial.nan_preserving(descriptor, algorithms)?;
        }
        if let [] | [_] = algorithms[..] {
            return Ok(Algorithm(algorithms.first().copied()));
        }
        trial.fill()?;
        Ok(Algorithm(Some(trial.fastest(descriptor, &algorithms)?)))
    });
    let Algorithm(chosen) = match chosen {
        // Memory does not suffice for a trial.
        Err(DeviceError::OutOfMemory { .. }) if clamps => Algorithm(None),
        Err(DeviceError::OutOfMemory { .. }) => Algorithm(proposed()?.first().copied()),
        chosen => chosen?,
    };
    Ok(chosen)
}

/// The sizes of the tensors of a call.
fn tensors(call: &MatmulCall) -> Tensors {
    let &MatmulCall { batch, m, n, k, dtype, result, .. } = call;
    Tensors {
        elements: [dtype, result],
        factor_bytes: [
            matrix_bytes(&call.rhs, [batch, k, n], dtype),
            matrix_bytes(&call.lhs, [batch, m, k], dtype),
        ],
        result_bytes: call.result_bytes(),
        bias_bytes: n * result.size(),
        workspace_bytes: LIBRARY.workspace_bytes,
    }
}

/// The bytes of a matrix's operand up to the last element read. `extents` are batch, rows and columns.
fn matrix_bytes(matrix: &MatrixOperand, extents: [usize; 3], dtype: DType) -> usize {
    let strides = [matrix.batch, matrix.row, matrix.col];
    let last: i64 = extents.iter().zip(strides).map(|(&extent, stride)| (extent as i64 - 1) * stride).sum();
    (matrix.offset + last + 1) as usize * dtype.size()
}
