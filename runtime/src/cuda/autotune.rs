//! FailedAssertion the fastest of a library's algorithms by trying them, on tensors of the right sizes filled with noise: the speed of
//! a product depends on its data. What was found is kept on disk, as the library can read its algorithms again.

use super::compile::Text;
use super::context::{Context, failed};
use super::event::Event;
use super::graph::{apart_from_captures, capture};
use super::memory::Memory;
use super::product::{Places, Product, WORKSPACE_BYTES};
use crate::autotune::Choice;
use crate::device::DeviceError;
use crate::tensor::HostTensor;
use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t;
use cudarc::driver::CudaStream;
use cudarc::driver::result::launch_kernel;
use engine_core::ir::DType;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What is chosen for: a few words for people, and all that it depends on.
pub struct TuneKey {
    pub subject: String,
    pub details: String,
}

/// As [`crate::autotune::Tuner::recall`], beside the compiled kernels.
pub fn recall<T: Choice>(
    context: &Context,
    question: &TuneKey,
    is_possible: impl Fn(&T) -> bool,
    find: impl FnOnce() -> Result<T, DeviceError>,
) -> Result<T, DeviceError> {
    let TuneKey { subject, details } = question;
    context.tuner.recall(&context.kernels.disk, (subject, details), is_possible, find)
}

/// The one of `choices` that `seconds` tells is the fastest, each by the least of some times; one that does not run is
/// none.
pub fn fastest<T: Copy>(
    context: &Arc<Context>,
    choices: &[T],
    mut seconds: impl FnMut(T) -> Result<f64, DeviceError>,
) -> Result<T, DeviceError> {
    wake(context)?;
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

/// An idle GPU runs at a fraction of its clock, and takes a while to get up to it.
fn wake(context: &Arc<Context>) -> Result<(), DeviceError> {
    if context.is_awake.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let memory = Memory::new(context, 64 << 20)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(60) {
        fill(context, &memory, DType::F32)?;
    }
    Ok(())
}

/// The time of what `enqueue` puts on the stream.
pub fn seconds(
    stream: &Arc<CudaStream>,
    enqueue: impl Fn() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let said = |error| failed("trying a kernel", &error);
    // What the libraries load at first use cannot be captured.
    {
        let _apart = apart_from_captures();
        enqueue()?;
    }
    let graph = capture(stream, || (0..N_TURNS).try_for_each(|_| enqueue()))?;
    graph.launch().map_err(said)?;
    let (begin, end) = (Event::new().map_err(said)?, Event::new().map_err(said)?);
    begin.record(stream.cu_stream()).map_err(said)?;
    graph.launch().map_err(said)?;
    end.record(stream.cu_stream()).map_err(said)?;
    stream.synchronize().map_err(said)?;
    Ok(begin.seconds_to(&end).map_err(said)? / N_TURNS as f64)
}

/// Turns of a measurement, launched at once.
const N_TURNS: usize = 16;

/// What the library computes a product with; none if it cannot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Algorithm(pub Option<cublasLtMatmulAlgo_t>);

/// Its words in hexadecimal.
impl Choice for Algorithm {
    fn to_text(&self) -> String {
        let Some(algorithm) = self.0 else { return NO_ALGORITHM.to_string() };
        let words: Vec<String> = algorithm.data.iter().map(|word| format!("{word:x}")).collect();
        words.join(" ")
    }

    fn from_text(text: &str) -> Option<Algorithm> {
        if text == NO_ALGORITHM {
            return Some(Algorithm(None));
        }
        let words = text.split(' ').map(|word| u64::from_str_radix(word, 16));
        let words: Vec<u64> = words.collect::<Result<_, _>>().ok()?;
        Some(Algorithm(Some(cublasLtMatmulAlgo_t { data: words.try_into().ok()? })))
    }
}

const NO_ALGORITHM: &str = "none";

/// How large the tensors of a product are.
pub struct Tensors {
    /// The types of the factors and of the result.
    pub elements: [DType; 2],
    /// In the library's order.
    pub factor_bytes: [usize; 2],
    pub result_bytes: usize,
    pub bias_bytes: usize,
}

/// A product's tensors, to be tried on.
pub struct Trial {
    context: Arc<Context>,
    elements: [DType; 2],
    factors: [Memory; 2],
    result: Memory,
    result_bytes: usize,
    bias: Memory,
    workspace: Memory,
}

impl Trial {
    /// All zeros.
    pub fn new(context: &Arc<Context>, tensors: &Tensors) -> Result<Trial, DeviceError> {
        let memory = |bytes: usize| Memory::new(context, bytes.next_multiple_of(16));
        Ok(Trial {
            context: Arc::clone(context),
            elements: tensors.elements,
            factors: [memory(tensors.factor_bytes[0])?, memory(tensors.factor_bytes[1])?],
            result: memory(tensors.result_bytes)?,
            result_bytes: tensors.result_bytes,
            bias: memory(tensors.bias_bytes)?,
            workspace: memory(WORKSPACE_BYTES)?,
        })
    }

    /// Fills the factors with noise.
    pub fn fill(&self) -> Result<(), DeviceError> {
        self.factors.iter().try_for_each(|factor| fill(&self.context, factor, self.elements[0]))
    }

    /// The algorithms whose result is NaN wherever a factor is.
    pub fn those_that_keep_nan(
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
            let _apart = apart_from_captures();
            if product.launch_by(algorithm, self.places(), &self.workspace, stream.cu_stream()).is_err() {
                return Ok(false);
            }
        }
        stream.synchronize().map_err(|error| failed("trying a product", &error))?;
        // Results are made tile by tile: the first and the last ones.
        let n_bytes = self.result_bytes.min(MOST_BYTES_LOOKED_AT);
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
        seconds(&stream, || product.launch_by(algorithm, places, &self.workspace, stream.cu_stream()))
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
const MOST_BYTES_LOOKED_AT: usize = 1 << 20;

/// Fills memory with numbers of both signs between a half and one.
pub fn fill(context: &Arc<Context>, memory: &Memory, element: DType) -> Result<(), DeviceError> {
    // What each word keeps of the noise, and the exponents that it gets; the low words of doubles are all noise.
    let (kept, set): ([u32; 2], [u32; 2]) = match element {
        DType::F64 => ([0xffff_ffff, 0x800f_ffff], [0, 0x3fe0_0000]),
        DType::F16 => ([0x83ff_83ff; 2], [0x3800_3800; 2]),
        DType::BF16 => ([0x807f_807f; 2], [0x3f00_3f00; 2]),
        _ => ([0x807f_ffff; 2], [0x3f00_0000; 2]),
    };
    let text = Text { owner: "noise", text: FILL, entry: "fill", shared_bytes: 0 };
    let [function] = context.kernels.load(&[text])?[..] else { engine_core::bug!("one kernel for one text") };
    let (mut start, mut n_words) = (memory.start(), memory.bytes() as u64 / 4);
    let (mut kept, mut set) = (kept, set);
    let [kept_even, kept_odd] = &mut kept;
    let [set_even, set_odd] = &mut set;
    let mut arguments = [
        (&raw mut start).cast(),
        (&raw mut n_words).cast(),
        (&raw mut *kept_even).cast(),
        (&raw mut *kept_odd).cast(),
        (&raw mut *set_even).cast(),
        (&raw mut *set_odd).cast(),
    ];
    let stream = context.new_stream()?;
    let said = |error| failed("filling memory with noise", &error);
    let _apart = apart_from_captures();
    // SAFETY: the arguments are those of `FILL`, which writes whole words inside the memory.
    unsafe { launch_kernel(function.0, (1024, 1, 1), (256, 1, 1), 0, stream.cu_stream(), &mut arguments) }
        .map_err(said)?;
    stream.synchronize().map_err(said)
}

const FILL: &str = r#"
extern "C" __global__ void fill(
    unsigned int* words, unsigned long long n_words,
    unsigned int kept_even, unsigned int kept_odd, unsigned int set_even, unsigned int set_odd
) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n_words; i += step) {
        unsigned int x = (unsigned int)i * 2654435761u + 12345u;
        x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
        words[i] = i % 2 == 0 ? (x & kept_even) | set_even : (x & kept_odd) | set_odd;
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_reads_as_it_prints() {
        let algorithm = Algorithm(Some(cublasLtMatmulAlgo_t { data: [0, 1, u64::MAX, 3, 4, 5, 6, 0xabc] }));
        assert_eq!(algorithm.to_text(), "0 1 ffffffffffffffff 3 4 5 6 abc");
        for algorithm in [algorithm, Algorithm(None)] {
            assert_eq!(Algorithm::from_text(&algorithm.to_text()), Some(algorithm));
        }
        for damaged in ["", "0 1 2 3 4 5 6", "0 1 2 3 4 5 6 x", "0 1 2 3 4 5 6 7 8"] {
            assert!(Algorithm::from_text(damaged).is_none(), "{damaged}");
        }
    }
}
