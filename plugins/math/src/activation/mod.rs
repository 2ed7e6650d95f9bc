//! Activations.

mod dropout;
mod elu;
mod gelu;
mod hardsigmoid;
mod hardtanh;
mod mish;
mod reach;
mod relu;
mod relu6;
mod relu_squared;
mod selu;
mod sigmoid;
mod silu;
mod softcap;
mod softplus;

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
