//! Algorithms of cuDNN: the candidates for a convolution, and their names.
//!
//! The candidates sum products as a matmul does, in a fixed order. Winograd's algorithm and Fourier transforms are none: they
//! spread a NaN over neighbouring results and lose digits. Nor are algorithms that add atomically.

use super::super::library_call::Algorithm as HasText;
use cudarc::cudnn::sys::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionFwdAlgo_t,
};
use engine_core::fusion::Computed;

/// The algorithms of the gradients, which are implicit GEMMs.
pub const OF_IMAGE: cudnnConvolutionBwdDataAlgo_t =
    cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
pub const OF_WEIGHTS: cudnnConvolutionBwdFilterAlgo_t =
    cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

/// An algorithm of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Windows are read in place, through tables of their offsets.
    PrecomputedGemm,
    /// Windows are read in place.
    ImplicitGemm,
    /// Windows are copied.
    Gemm,
}

impl Algorithm {
    const ALL: [Algorithm; 3] = [Algorithm::PrecomputedGemm, Algorithm::ImplicitGemm, Algorithm::Gemm];

    /// The candidates, the most likely one first.
    pub fn candidates(computed: Computed) -> &'static [Algorithm] {
        match computed {
            Computed::Result => &Algorithm::ALL,
            Computed::Image | Computed::Weights => &[Algorithm::ImplicitGemm],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Algorithm::PrecomputedGemm => "precomputed implicit GEMM",
            Algorithm::ImplicitGemm => "implicit GEMM",
            Algorithm::Gemm => "GEMM",
        }
    }

    /// The library's name, for results.
    pub fn of_result(self) -> cudnnConvolutionFwdAlgo_t {
        match self {
            Algorithm::PrecomputedGemm => {
                cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM
            }
            Algorithm::ImplicitGemm => cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            Algorithm::Gemm => cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
        }
    }
}

impl HasText for Algorithm {
    fn to_text(&self) -> String {
        self.name().to_string()
    }

    fn from_text(text: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::library_call::Chosen;
    use super::*;
    use crate::autotune::Choice;

    #[test]
    fn the_text_of_an_algorithm_can_be_parsed() {
        for chosen in Algorithm::ALL.map(Some).into_iter().chain([None]).map(Chosen) {
            assert_eq!(Chosen::from_text(&chosen.to_text()), Some(chosen));
        }
        assert_eq!(Chosen::<Algorithm>::from_text("Winograd"), None);
    }
}
