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
pub struct Algorithm {
    pub sums: Sums,
    /// Whether it works on copies of the tensors whose neighbours are channels, as tensor cores take them.
    pub has_channels_last: bool,
}

/// How sums over windows are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Windows are read in place, through tables of their offsets.
    PrecomputedGemm,
    /// Windows are read in place.
    ImplicitGemm,
    /// Windows are copied.
    Gemm,
}

impl Algorithm {
    /// The candidates, the most likely one first.
    pub fn candidates(computed: Computed) -> Vec<Algorithm> {
        let sums = match computed {
            Computed::Result => &Sums::ALL[..],
            Computed::Image | Computed::Weights => &[Sums::ImplicitGemm],
        };
        let orders = [false, true].into_iter();
        let of_order =
            |has_channels_last| sums.iter().map(move |&sums| Algorithm { sums, has_channels_last });
        orders.flat_map(of_order).collect()
    }
}

impl Sums {
    const ALL: [Sums; 3] = [Sums::PrecomputedGemm, Sums::ImplicitGemm, Sums::Gemm];

    fn name(self) -> &'static str {
        match self {
            Sums::PrecomputedGemm => "precomputed implicit GEMM",
            Sums::ImplicitGemm => "implicit GEMM",
            Sums::Gemm => "GEMM",
        }
    }

    /// The library's name, for results.
    pub fn of_result(self) -> cudnnConvolutionFwdAlgo_t {
        match self {
            Sums::PrecomputedGemm => {
                cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM
            }
            Sums::ImplicitGemm => cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            Sums::Gemm => cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
        }
    }
}

/// What follows the name of sums.
const CHANNELS_LAST: &str = ", channels last";

impl HasText for Algorithm {
    fn to_text(&self) -> String {
        format!("{}{}", self.sums.name(), if self.has_channels_last { CHANNELS_LAST } else { "" })
    }

    fn from_text(text: &str) -> Option<Algorithm> {
        let name = text.strip_suffix(CHANNELS_LAST);
        let sums = Sums::ALL.into_iter().find(|sums| sums.name() == name.unwrap_or(text))?;
        Some(Algorithm { sums, has_channels_last: name.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::library_call::Chosen;
    use super::*;
    use crate::autotune::Choice;

    #[test]
    fn the_text_of_an_algorithm_can_be_parsed() {
        let all = Algorithm::candidates(Computed::Result);
        for chosen in all.into_iter().map(Some).chain([None]).map(Chosen) {
            assert_eq!(Chosen::from_text(&chosen.to_text()), Some(chosen));
        }
        assert_eq!(Chosen::<Algorithm>::from_text("Winograd"), None);
    }
}
