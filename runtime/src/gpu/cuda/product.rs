//! Calls of libraries, and matmuls by cuBLASLt with autotuned algorithms.

use super::algorithm::{Algorithm, AlgorithmTrial, Tensors};
use super::context::Context;
use super::convolution::ConvolutionProduct;
use super::descriptor::{Descriptor, LIBRARY, MatmulAddresses};
use crate::autotune::Choice;
use crate::device::DeviceError;
use crate::gpu::api::GpuState;
use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::program::{Activation, MatmulCall, Multiplier};
use std::ops::Range;
use std::sync::Arc;

/// A call of a library with its algorithm.
pub enum Product {
    /// By cuBLASLt.
    Matmul(MatmulProduct),
    /// By cuDNN.
    Convolution(ConvolutionProduct),
}

impl Product {
    /// The product of a call; `None` if its library has no algorithm for it.
    pub fn new(context: &Arc<Context>, call: &MatmulCall) -> Result<Option<Product>, DeviceError> {
        Ok(match &call.multiplier {
            Multiplier::Library => MatmulProduct::new(context, call)?.map(Product::Matmul),
            Multiplier::Convolution(convolution) => {
                ConvolutionProduct::new(context, call, convolution)?.map(Product::Convolution)
            }
            Multiplier::MatrixUnits(_) => None,
        })
    }

    /// The text of its algorithm.
    pub fn algorithm_text(&self) -> String {
        match self {
            Product::Matmul(product) => product.algorithm_text(),
            Product::Convolution(product) => product.algorithm_text(),
        }
    }

    /// Enqueues it on a stream.
    pub fn launch(
        &self,
        addresses: MatmulAddresses,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        match self {
            Product::Matmul(product) => product.launch(addresses, workspace, stream),
            Product::Convolution(product) => product.launch(addresses, workspace, stream),
        }
    }
}

/// A matmul of cuBLASLt with its algorithm.
pub struct MatmulProduct {
    descriptor: Descriptor,
    algorithm: cublasLtMatmulAlgo_t,
}

impl MatmulProduct {
    /// The matmul of a call; `None` if the library has no algorithm for it that handles NaN correctly.
    fn new(context: &Arc<Context>, call: &MatmulCall) -> Result<Option<MatmulProduct>, DeviceError> {
        let Some(descriptor) = Descriptor::new(context, call)? else { return Ok(None) };
        let algorithm = choose(context, &descriptor, call)?;
        Ok(algorithm.map(|algorithm| MatmulProduct { descriptor, algorithm }))
    }

    fn algorithm_text(&self) -> String {
        Algorithm(Some(self.algorithm)).to_text()
    }

    fn launch(
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
    let [left, right] = call.factor_bytes();
    Tensors {
        elements: [call.dtype, call.result],
        factor_bytes: [right, left],
        result_bytes: call.result_bytes(),
        bias_bytes: call.n * call.result.size(),
        workspace_bytes: LIBRARY.workspace_bytes,
    }
}
