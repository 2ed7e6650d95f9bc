//! Activations.

mod dropout;
mod elu;
mod gelu;
mod hardsigmoid;
mod hardtanh;
mod mish;
mod relu;
mod relu6;
mod relu_squared;
mod selu;
mod sigmoid;
mod silu;
mod softcap;
mod softplus;

use engine_core::ir::E;
use engine_core::op::OpForm;

/// All ops of this family.
pub(crate) fn ops() -> Vec<OpForm> {
    vec![
        relu::relu(),
        relu6::relu6(),
        relu_squared::relu_squared(),
        sigmoid::sigmoid(),
        hardsigmoid::hardsigmoid(),
        silu::silu(),
        mish::mish(),
        gelu::gelu(),
        selu::selu(),
        softplus::softplus(),
        hardtanh::hardtanh(),
        elu::elu(),
        elu::celu(),
        softcap::softcap_tanh_projection(),
        dropout::dropout(),
    ]
}

/// Beyond ±800, e^-|x| is 0 in every type.
const REACH: f64 = 800.0;

/// For functions x·s(x) where s tends to 0 on the left and to 1 on the right, as fast as e^-|x| or faster. The results
/// replace the factor x and the operand of s. So neither the value nor the derivative has a product of 0 and infinity.
fn within_reach(x: E) -> (E, E) {
    let left = x.max(-REACH);
    (left, left.min(REACH))
}
