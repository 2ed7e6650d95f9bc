//! Calls of libraries with autotuned algorithms: matmuls by cuBLASLt, convolutions by cuDNN.

use super::context::Context;
use super::library_call::{Algorithm, CallAddresses, Chosen, LibraryCall};
use super::trial::CallTrial;
use super::{cublaslt, cudnn};
use crate::device::DeviceError;
use crate::gpu::api::GpuState;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::fusion::Convolution;
use engine_core::program::{Activation, MatmulCall, Multiplier};
use std::ops::Range;
use std::sync::Arc;

/// A call of a library with its algorithm.
pub enum Product {
    /// By cuBLASLt.
    Matmul(Tuned<cublaslt::Descriptor>),
    /// By cuDNN.
    Convolution(Tuned<cudnn::Descriptor>),
}

/// A call of one library with its algorithm.
pub struct Tuned<C: LibraryCall> {
    call: C,
    algorithm: C::Algorithm,
}

impl Product {
    /// The product of a call; `None` if its library has no algorithm for it.
    pub fn new(context: &Arc<Context>, call: &MatmulCall) -> Result<Option<Product>, DeviceError> {
        Ok(match &call.multiplier {
            Multiplier::Library => matmul(context, call)?.map(Product::Matmul),
            Multiplier::Convolution(described) => {
                convolution(context, call, described)?.map(Product::Convolution)
            }
            Multiplier::MatrixUnits(_) => None,
        })
    }

    /// The text of its algorithm.
    pub fn algorithm_text(&self) -> String {
        match self {
            Product::Matmul(product) => product.algorithm.to_text(),
            Product::Convolution(product) => product.algorithm.to_text(),
        }
    }

    /// Enqueues it on a stream.
    pub fn launch(
        &self,
        addresses: CallAddresses,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        match self {
            Product::Matmul(product) => product.call.launch(&product.algorithm, addresses, workspace, stream),
            Product::Convolution(product) => {
                product.call.launch(&product.algorithm, addresses, workspace, stream)
            }
        }
    }
}

/// The matmul of a call; `None` if the library has no algorithm for it that handles NaN correctly.
fn matmul(
    context: &Arc<Context>,
    call: &MatmulCall,
) -> Result<Option<Tuned<cublaslt::Descriptor>>, DeviceError> {
    context.enter()?;
    let Some(described) = cublaslt::Descriptor::new(&context.library, call)? else { return Ok(None) };
    // Some of the library's algorithms turn NaN into 0 in a ReLU epilogue.
    let clamps = call.epilogue.activation == Activation::Relu;
    // The first call of the heuristic takes as long as all other work together, so a recorded choice avoids it.
    let proposed = || described.proposed(call.result);
    let chosen = recalled(context, call, &described, || {
        let mut algorithms = proposed()?;
        if algorithms.len() < 2 && !clamps {
            return Ok(algorithms.first().copied());
        }
        let trial = CallTrial::new(context, call)?;
        if clamps {
            algorithms = trial.nan_preserving(&described, algorithms)?;
        }
        match algorithms[..] {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            _ => trial.fastest(&described, &algorithms).map(Some),
        }
    });
    let algorithm = match chosen {
        // Memory does not suffice for a trial.
        Err(DeviceError::OutOfMemory { .. }) if clamps => None,
        Err(DeviceError::OutOfMemory { .. }) => proposed()?.first().copied(),
        chosen => chosen?,
    };
    Ok(algorithm.map(|algorithm| Tuned { call: described, algorithm }))
}

/// The convolution of a call; `None` if there is no cuDNN, if none of its algorithms computes it, or if memory does not
/// suffice to try one.
fn convolution(
    context: &Arc<Context>,
    call: &MatmulCall,
    convolution: &Convolution,
) -> Result<Option<Tuned<cudnn::Descriptor>>, DeviceError> {
    let Some(cudnn) = &context.cudnn else { return Ok(None) };
    context.enter()?;
    if cudnn.start().is_err() {
        return Ok(None);
    }
    let Some(described) = cudnn::Descriptor::new(cudnn, call, convolution) else { return Ok(None) };
    let chosen = recalled(context, call, &described, || {
        let trial = CallTrial::new(context, call)?;
        match trial.running(&described, &described.candidates())?[..] {
            [] => Ok(None),
            ref algorithms => trial.fastest(&described, algorithms).map(Some),
        }
    });
    let algorithm = match chosen {
        Err(DeviceError::OutOfMemory { .. }) => None,
        chosen => chosen?,
    };
    Ok(algorithm.map(|algorithm| Tuned { call: described, algorithm }))
}

/// The algorithm that is recorded for a call and still possible, or else the one that `find` returns.
fn recalled<C: LibraryCall>(
    context: &Context,
    call: &MatmulCall,
    described: &C,
    find: impl FnOnce() -> Result<Option<C::Algorithm>, DeviceError>,
) -> Result<Option<C::Algorithm>, DeviceError> {
    let GpuState { tuner, choices, .. } = &context.state;
    let is_possible =
        |Chosen(known): &Chosen<C::Algorithm>| known.is_none_or(|known| described.accepts(&known));
    let chosen = tuner.recall(choices, &call.key(), is_possible, || find().map(Chosen))?;
    Ok(chosen.0)
}
