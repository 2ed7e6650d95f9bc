//! Algorithms of cuBLASLt as texts.

use super::super::library_call::Algorithm;
use cudarc::cublaslt::sys::{
    cublasLtMatmulAlgo_t, cublasLtMatmulAlgoConfigAttributes_t, cublasLtMatmulAlgoConfigGetAttribute,
    cublasStatus_t,
};

/// The text has the algorithm's properties and its words in hexadecimal.
impl Algorithm for cublasLtMatmulAlgo_t {
    fn to_text(&self) -> String {
        text(self, &label(self))
    }

    fn from_text(text: &str) -> Option<cublasLtMatmulAlgo_t> {
        let words = text.rsplit(": ").next().unwrap_or(text);
        let words = words.split(' ').map(|word| u64::from_str_radix(word, 16));
        let words: Vec<u64> = words.collect::<Result<_, _>>().ok()?;
        Some(cublasLtMatmulAlgo_t { data: words.try_into().ok()? })
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

#[cfg(test)]
mod tests {
    use super::super::super::library_call::Chosen;
    use super::*;
    use crate::autotune::Choice;

    #[test]
    fn the_text_of_an_algorithm_can_be_parsed() {
        let algorithm = cublasLtMatmulAlgo_t { data: [0, 1, u64::MAX, 3, 4, 5, 6, 0xabc] };
        let known = text(&algorithm, "id 66 tile 20 stages 35 split-k 1");
        assert_eq!(Chosen::from_text(&known), Some(Chosen(Some(algorithm))));
        let none = Chosen::<cublasLtMatmulAlgo_t>(None);
        assert_eq!(Chosen::from_text(&none.to_text()), Some(none));
        for damaged in ["", "0 1 2 3 4 5 6", "0 1 2 3 4 5 6 x", "0 1 2 3 4 5 6 7 8"] {
            assert!(Chosen::<cublasLtMatmulAlgo_t>::from_text(damaged).is_none(), "{damaged}");
        }
    }
}
