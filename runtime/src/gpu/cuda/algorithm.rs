//! Algorithms of cuBLASLt: their texts, and timing them on noise.

use super::clock::seconds;
use super::context::Context;
use super::descriptor::{Descriptor, MatmulAddresses};
use super::error::failed;
use super::graph::exclude_captures;
use super::memory::CudaMemory;
use crate::autotune::Choice;
use crate::device::DeviceError;
use crate::gpu::api::GpuMemory;
use crate::gpu::autotune::fastest_of;
use crate::gpu::noise;
use crate::tensor::HostTensor;
use cudarc::cublaslt::sys::{
    cublasLtMatmulAlgo_t, cublasLtMatmulAlgoConfigAttributes_t, cublasLtMatmulAlgoConfigGetAttribute,
    cublasStatus_t,
};
use engine_core::ir::DType;
use engine_core::program::NO_ALGORITHM;
use std::sync::Arc;

/// The algorithm of a matmul; `None` if the library has none for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Algorithm(pub Option<cublasLtMatmulAlgo_t>);

/// The text has the algorithm's properties and its words in hexadecimal.
impl Choice for Algorithm {
    fn to_text(&self) -> String {
        let Some(algorithm) = self.0 else { return NO_ALGORITHM.to_string() };
        text(&algorithm, &label(&algorithm))
    }

    fn from_text(text: &str) -> Option<Algorithm> {
        if text == NO_ALGORITHM {
            return Some(Algorithm(None));
        }
        let words = text.rsplit(": ").next().unwrap_or(text);
        let words = words.split(' ').map(|word| u64::from_str_radix(word, 16));
        let words: Vec<u64> = words.collect::<Result<_, _>>().ok()?;
        Some(Algorithm(Some(cublasLtMatmulAlgo_t { data: words.try_into().ok()? })))
    }
}

/// The text of an algorithm with these properties.
fn text(algorithm: &cublasLtMatmulAlgo_t, properties: &str) -> String {
    let words: Vec<String> = algorithm.data.iter().map(|word| format!("{word:x}")).collect();
    format!("{properties}: {}", words.join(" "))
}

/// `id 66 tile 20 stages 35 split-k 1`, without the properties that the library does not report.
fn label(algorithm: &cublasLtMatmulAlgo_t) -> String {
    use cublasLtMatmulAlgoConfigAttributes_t as Attribute;
    let properties = [
        ("id", Attribute::CUBLASLT_ALGO_CONFIG_ID),
        ("tile", Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID),
        ("stages", Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID),
        ("split-k", Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
    ];
    let value = |attribute| {
        let (mut value, mut n_written) = (0i32, 0usize);
        // SAFETY: the attributes are integers of 32 bits, and the library writes one.
        let status = unsafe {
            cublasLtMatmulAlgoConfigGetAttribute(
                &raw const *algorithm,
                attribute,
                (&raw mut value).cast(),
                size_of::<i32>(),
                &raw mut n_written,
            )
        };
        (status == cublasStatus_t::CUBLAS_STATUS_SUCCESS).then_some(value)
    };
    let known =
        properties.into_iter().filter_map(|(name, attribute)| Some(format!("{name} {}", value(attribute)?)));
    known.collect::<Vec<_>>().join(" ")
}

/// The sizes of the tensors of a matmul.
pub struct Tensors {
    /// The element types of the factors and of the result.
    pub elements: [DType; 2],
    /// In the library's order.
    pub factor_bytes: [usize; 2],
    pub result_bytes: usize,
    pub bias_bytes: usize,
    pub workspace_bytes: usize,
}

/// The tensors of a matmul on which algorithms are timed.
pub struct AlgorithmTrial {
    context: Arc<Context>,
    elements: [DType; 2],
    factors: [CudaMemory; 2],
    result: CudaMemory,
    result_bytes: usize,
    bias: CudaMemory,
    workspace: CudaMemory,
}

impl AlgorithmTrial {
    /// Allocates the tensors, filled with zeros.
    pub fn new(context: &Arc<Context>, tensors: &Tensors) -> Result<AlgorithmTrial, DeviceError> {
        let memory = |bytes: usize| CudaMemory::new(context, bytes.next_multiple_of(16));
        Ok(AlgorithmTrial {
            context: Arc::clone(context),
            elements: tensors.elements,
            factors: [memory(tensors.factor_bytes[0])?, memory(tensors.factor_bytes[1])?],
            result: memory(tensors.result_bytes)?,
            result_bytes: tensors.result_bytes,
            bias: memory(tensors.bias_bytes)?,
            workspace: memory(tensors.workspace_bytes)?,
        })
    }

    /// Fills the factors with noise.
    pub fn fill(&self) -> Result<(), DeviceError> {
        self.factors.iter().try_for_each(|factor| noise::fill(factor, self.elements[0]))
    }

    /// The algorithms whose result is NaN if a factor is NaN.
    pub fn nan_preserving(
        &self,
        matmul: &Descriptor,
        algorithms: Vec<cublasLtMatmulAlgo_t>,
    ) -> Result<Vec<cublasLtMatmulAlgo_t>, DeviceError> {
        // Every floating-point type reads these bytes as NaN.
        self.factors[0].set(0xFF)?;
        let mut kept = vec![];
        for algorithm in algorithms {
            if self.keeps_nan(matmul, &algorithm)? {
                kept.push(algorithm);
            }
        }
        Ok(kept)
    }

    /// Whether the result of an algorithm is NaN. An algorithm that fails to launch does not count.
    fn keeps_nan(&self, matmul: &Descriptor, algorithm: &cublasLtMatmulAlgo_t) -> Result<bool, DeviceError> {
        self.result.clear()?;
        let stream = self.context.new_stream()?;
        {
            let _excluded = exclude_captures();
            let workspace = self.workspace.range();
            if matmul.launch(algorithm, self.addresses(), &workspace, stream.cu_stream()).is_err() {
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

    /// The fastest of some algorithms.
    pub fn fastest(
        &self,
        matmul: &Descriptor,
        algorithms: &[cublasLtMatmulAlgo_t],
    ) -> Result<cublasLtMatmulAlgo_t, DeviceError> {
        noise::warm_up(&self.context)?;
        let best = fastest_of(algorithms.len(), |i, _| self.seconds(matmul, &algorithms[i]))?;
        Ok(algorithms[best])
    }

    /// The time of a matmul by an algorithm.
    fn seconds(&self, matmul: &Descriptor, algorithm: &cublasLtMatmulAlgo_t) -> Result<f64, DeviceError> {
        let stream = self.context.new_stream()?;
        let addresses = self.addresses();
        seconds(&stream, || matmul.launch(algorithm, addresses, &self.workspace.range(), stream.cu_stream()))
    }

    fn addresses(&self) -> MatmulAddresses {
        MatmulAddresses {
            factors: [self.factors[0].start(), self.factors[1].start()],
            result: self.result.start(),
            bias: Some(self.bias.start()),
        }
    }
}

/// Bytes checked at each end of a result: a multiple of the size of every element.
const MAX_CHECKED_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_algorithm_can_be_parsed() {
        let algorithm = cublasLtMatmulAlgo_t { data: [0, 1, u64::MAX, 3, 4, 5, 6, 0xabc] };
        let known = text(&algorithm, "id 66 tile 20 stages 35 split-k 1");
        assert_eq!(Algorithm::from_text(&known), Some(Algorithm(Some(algorithm))));
        assert_eq!(Algorithm::from_text(&Algorithm(None).to_text()), Some(Algorithm(None)));
        for damaged in ["", "0 1 2 3 4 5 6", "0 1 2 3 4 5 6 x", "0 1 2 3 4 5 6 7 8"] {
            assert!(Algorithm::from_text(damaged).is_none(), "{damaged}");
        }
    }
}
