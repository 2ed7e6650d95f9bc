//! Arithmetic, comparison and conversion by element.

mod alias;
mod arithmetic;
mod blend;
mod cast;
mod clamp;
mod comparison;
mod copy;
mod detach;
mod full_like;
mod functions;
mod isnan;
mod logic;
mod rounding;
mod select;
mod threshold;

use engine_core::op::OpForm;

/// All ops of this family.
pub(crate) fn ops() -> Vec<OpForm> {
    let mut ops = vec![
        arithmetic::add(),
        arithmetic::sub(),
        arithmetic::mul(),
        arithmetic::div(),
        arithmetic::rem(),
        arithmetic::pow(),
        arithmetic::maximum(),
        arithmetic::minimum(),
        arithmetic::neg(),
        arithmetic::abs(),
        arithmetic::sign(),
        arithmetic::square(),
        arithmetic::reciprocal(),
        functions::exp(),
        functions::expm1(),
        functions::log(),
        functions::log1p(),
        functions::sqrt(),
        functions::rsqrt(),
        functions::sin(),
        functions::cos(),
        functions::tanh(),
        functions::erf(),
        rounding::floor(),
        rounding::ceil(),
        rounding::trunc(),
        rounding::round(),
        rounding::frac(),
        copy::copy(),
        detach::detach(),
        full_like::full_like(),
        cast::cast(),
        isnan::isnan(),
        logic::and(),
        logic::or(),
        logic::xor(),
        logic::not(),
        blend::addcmul(),
        blend::addcdiv(),
        blend::lerp(),
        select::select(),
        clamp::clamp(),
        threshold::threshold(),
        threshold::threshold_backward(),
        alias::apply_corrections(),
    ];
    ops.extend(comparison::comparisons());
    ops.extend(alias::aliases());
    ops
}
