//! Arithmetic, comparison and conversion by element.

mod abs;
mod add;
mod addcdiv;
mod addcmul;
mod and;
mod cast;
mod comparison;
mod div;
mod exp;
mod expm1;
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
mod rsqrt;
mod sqrt;
mod square;
mod sub;
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
        square::square(),
        reciprocal::reciprocal(),
        exp::exp(),
        expm1::expm1(),
        log::log(),
        log1p::log1p(),
        sqrt::sqrt(),
        rsqrt::rsqrt(),
        addcmul::addcmul(),
        addcdiv::addcdiv(),
        cast::cast(),
        and::and(),
        or::or(),
        xor::xor(),
        not::not(),
    ];
    ops.extend(comparison::comparisons());
    ops
}
