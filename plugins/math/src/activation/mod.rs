//! Activations.

mod clipped;
mod dropout;
mod elu;
mod gelu;
mod mish;
mod reach;
mod rectified;
mod selu;
mod sigmoid;
mod silu;
mod softcap;
mod softplus;

use engine_core::op::OpForm;

/// All ops of this family.
pub(crate) fn ops() -> Vec<OpForm> {
    vec![
        clipped::relu(),
        clipped::relu6(),
        clipped::relu_squared(),
        rectified::leaky_relu(),
        rectified::prelu(),
        sigmoid::sigmoid(),
        clipped::hardsigmoid(),
        silu::silu(),
        rectified::hardswish(),
        rectified::glu(),
        mish::mish(),
        gelu::gelu(),
        selu::selu(),
        softplus::softplus(),
        clipped::hardtanh(),
        elu::elu(),
        elu::celu(),
        softcap::softcap_tanh_projection(),
        dropout::dropout(),
    ]
}
