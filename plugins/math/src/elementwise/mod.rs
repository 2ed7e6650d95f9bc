//! Arithmetic, comparison and conversion by element.

mod abs;
mod add;
mod addcdiv;
mod addcmul;
mod alias;
mod and;
mod cast;
mod ceil;
mod clamp;
mod comparison;
mod copy;
mod cos;
mod div;
mod erf;
mod exp;
mod expm1;
mod floor;
mod frac;
mod full_like;
mod isnan;
mod lerp;
mod log;
mod log1p;
mod maximum;
mod minimum;
mod mul;
mod neg;
mod not;
mod or;
mod pow;
mod reciprocal;
mod rem;
mod round;
mod rsqrt;
mod select;
mod sign;
mod sin;
mod sqrt;
mod square;
mod sub;
mod tanh;
mod threshold;
mod trunc;
mod xor;

use engine_core::op::OpForm;

/// All ops of this family.
pub(crate) fn ops() -> Vec<OpForm> {
    let mut ops = vec![
        add::add(),
        sub::sub(),
        mul::mul(),
        div::div(),
        rem::rem(),
        pow::pow(),
        maximum::maximum(),
        minimum::minimum(),
        neg::neg(),
        abs::abs(),
        sign::sign(),
        square::square(),
        reciprocal::reciprocal(),
        exp::exp(),
        expm1::expm1(),
        log::log(),
        log1p::log1p(),
        sqrt::sqrt(),
        rsqrt::rsqrt(),
        sin::sin(),
        cos::cos(),
        tanh::tanh(),
        erf::erf(),
        floor::floor(),
        ceil::ceil(),
        trunc::trunc(),
        round::round(),
        frac::frac(),
        copy::copy(),
        full_like::full_like(),
        cast::cast(),
        isnan::isnan(),
        and::and(),
        or::or(),
        xor::xor(),
        not::not(),
        addcmul::addcmul(),
        addcdiv::addcdiv(),
        lerp::lerp(),
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
