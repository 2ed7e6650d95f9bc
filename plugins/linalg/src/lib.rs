//! Linear algebra: factors of matrices, linear equations, Fourier transforms.
//!
//! Operands are batches of matrices of `f32` or `f64` along their last two axes.

mod algorithm;
mod cholesky;
mod eigh;
mod fft;
mod lu_panel;
mod matrices;
mod orthogonal_rows;
mod qr;
mod small_cholesky;
mod small_triangular;
mod solve;
mod solve_triangular;
mod svd;

pub use cholesky::cholesky;
pub use eigh::eigh;
pub use fft::{complex_mul, fft, fft_chirp, fft_rows, ifft, irfft, rfft};
pub use lu_panel::lu_panel;
pub use orthogonal_rows::orthogonal_rows;
pub use qr::qr;
pub use small_cholesky::small_cholesky;
pub use small_triangular::small_triangular;
pub use solve::{inverse, lu_solve, solve};
pub use solve_triangular::solve_triangular;
pub use svd::svd;

use engine_core::op::{OpForm, Plugin};

/// Linear algebra.
pub struct Linalg;

impl Plugin for Linalg {
    fn name(&self) -> &str {
        "linalg"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            cholesky(),
            small_cholesky(),
            solve_triangular(),
            small_triangular(),
            solve(),
            inverse(),
            lu_solve(),
            lu_panel(),
            qr(),
            orthogonal_rows(),
            svd(),
            eigh(),
            fft(),
            ifft(),
            rfft(),
            irfft(),
            fft_rows(),
            fft_chirp(),
            complex_mul(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::testing;
    use engine_order::Order;

    #[test]
    fn examples_gradients_and_recorded_cases_hold() {
        testing::assert_families(&[&Linalg, &Order], include_str!("../../../tests/examples/linalg.json"));
    }
}
