//! Algorithms of the library for a product: their text, and the fastest by trying them on tensors full of noise.

use super::autotune::{fill, seconds, warm_up};
use super::context::{Context, failed};
use super::graph::exclude_captures;
use super::memory::Memory;
use super::product::{Places, Product};
use crate::autotune::Choice;
use crate::device::DeviceError;
use crate::tensor::HostTensor;
use cudarc::cublaslt::sys::{
    cublasLtMatmulAlgo_t, cublasLtMatmulAlgoConfigAttributes_t, cublasLtMatmulAlgoConfigGetAttribute,
    cublasStatus_t,
};
use engine_core::ir::DType;
use engine_core::program::NO_ALGORITHM;
use std::sync::Arc;

/// The one of `choices` that `seconds` tells is the fastest, each by the least of some times; one that does not run is
/// none.
pub fn fastest<T: Copy>(
    context: &Arc<Context>,
    choices: &[T],
    mut seconds: impl FnMut(T) -> Result<f64, DeviceError>,
) -> Result<T, DeviceError> {
    warm_up(context)?;
    let mut least = vec![f64::INFINITY; choices.len()];
    let mut refused = None;
    for _ in 0..N_ROUNDS {
        for (&choice, least) in choices.iter().zip(&mut least) {
            match seconds(choice) {
                Ok(time) => *least = least.min(time),
                Err(error) => refused = Some(error),
            }
        }
    }
    let best = (0..choices.len()).min_by(|&a, &b| least[a].total_cmp(&least[b]));
    match (best.filter(|&best| least[best].is_finite()), refused) {
        (Some(best), _) => Ok(choices[best]),
        (None, Some(error)) => Err(error),
        (None, None) => engine_core::bug!("nothing to choose from"),
    }
}

/// Times of each choice, by turns: what slows the device for a while then slows all of them.
const N_ROUNDS: usize = 3;

/// What the library computes a product with; none if it cannot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Algorithm(pub Option<cublasLtMatmulAlgo_t>);

/// Its properties, for people, and its words in hexadecimal.
impl Choice for Algorithm {
    fn to_text(&self) -> String {
        let Some(algorithm) = self.0 else { return NO_ALGORITHM.to_string() };
        let words: Vec<String> = algorithm.data.iter().map(|word| format!("{word:x}")).collect();
        format!("{}: {}", label(&algorithm), words.join(" "))
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

/// `id 66 tile 20 stages 35 split-k 1`, as far as the library tells.
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

/// How large the tensors of a product are.
pub struct Tensors {
    /// The types of the factors and of the result.
    pub elements: [DType; 2],
    /// In the library's order.
    pub factor_bytes: [usize; 2],
    pub result_bytes: usize,
    pub bias_bytes: usize,
    pub workspace_bytes: usize,
}

/// A product's tensors, to be tried on.
pub struct AlgorithmTrial {
    context: Arc<Context>,
    elements: [DType; 2],
    factors: [Memory; 2],
    result: Memory,
    result_bytes: usize,
    bias: Memory,
    workspace: Memory,
}

impl AlgorithmTrial {
    /// All zeros.
    pub fn new(context: &Arc<Context>, tensors: &Tensors) -> Result<AlgorithmTrial, DeviceError> {
        let memory = |bytes: usize| Memory::new(context, bytes.next_multiple_of(16));
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
        self.factors.iter().try_for_each(|factor| fill(&self.context, factor, self.elements[0]))
    }

    /// The algorithms whose result is NaN wherever a factor is.
    pub fn nan_preserving(
        &self,
        product: &Product,
        algorithms: Vec<cublasLtMatmulAlgo_t>,
    ) -> Result<Vec<cublasLtMatmulAlgo_t>, DeviceError> {
        // NaN in every type.
        self.factors[0].set(0xFF)?;
        let mut kept = vec![];
        for algorithm in algorithms {
            if self.keeps_nan(product, &algorithm)? {
                kept.push(algorithm);
            }
        }
        Ok(kept)
    }

    /// One that does not run keeps nothing.
    fn keeps_nan(&self, product: &Product, algorithm: &cublasLtMatmulAlgo_t) -> Result<bool, DeviceError> {
        self.result.clear()?;
        let stream = self.context.new_stream()?;
        {
            let _excluded = exclude_captures();
            if product
                .launch_by(algorithm, self.places(), &self.workspace.range(), stream.cu_stream())
                .is_err()
            {
                return Ok(false);
            }
        }
        stream.synchronize().map_err(|error| failed("trying a product", &error))?;
        // Results are made tile by tile: the first and the last ones.
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

    /// The time of a product by an algorithm.
    pub fn seconds(&self, product: &Product, algorithm: &cublasLtMatmulAlgo_t) -> Result<f64, DeviceError> {
        let stream = self.context.new_stream()?;
        let places = self.places();
        seconds(&stream, || product.launch_by(algorithm, places, &self.workspace.range(), stream.cu_stream()))
    }

    fn places(&self) -> Places {
        Places {
            factors: [self.factors[0].start(), self.factors[1].start()],
            result: self.result.start(),
            bias: Some(self.bias.start()),
        }
    }
}

/// Of each end of a result, when it is looked at; a multiple of the size of every element.
const MAX_CHECKED_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_reads_as_it_prints() {
        let algorithm = Algorithm(Some(cublasLtMatmulAlgo_t { data: [0, 1, u64::MAX, 3, 4, 5, 6, 0xabc] }));
        for algorithm in [algorithm, Algorithm(None)] {
            assert_eq!(Algorithm::from_text(&algorithm.to_text()), Some(algorithm));
        }
        for damaged in ["", "0 1 2 3 4 5 6", "0 1 2 3 4 5 6 x", "0 1 2 3 4 5 6 7 8"] {
            assert!(Algorithm::from_text(damaged).is_none(), "{damaged}");
        }
    }
}
