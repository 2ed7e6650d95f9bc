//! Arithmetic, comparison and conversion by element.

mod alias;
mod arithmetic;
mod blend;
mod cast;
mod clamp;
mod comparison;
mod copy;
mod detach;
mod division;
mod full_like;
mod functions;
mod hyperbolic;
mod isnan;
mod logic;
mod masked_fill;
mod rounding;
mod select;
mod shifts;
mod small_float;
mod special;
mod threshold;
mod trigonometric;
mod widen;

use engine_core::op::OpForm;

/// All ops of this family.
pub(crate) fn ops() -> Vec<OpForm> {
    let ops = of_numbers().into_iter().chain(of_analysis()).chain(others());
    ops.chain(comparison::comparisons()).chain(alias::aliases()).collect()
}

/// Sums, products, quotients and signs.
fn of_numbers() -> [OpForm; 15] {
    [
        arithmetic::add(),
        arithmetic::sub(),
        arithmetic::mul(),
        arithmetic::div(),
        arithmetic::rem(),
        division::floor_divide(),
        division::remainder(),
        arithmetic::pow(),
        arithmetic::maximum(),
        arithmetic::minimum(),
        arithmetic::neg(),
        arithmetic::abs(),
        arithmetic::sign(),
        arithmetic::square(),
        arithmetic::reciprocal(),
    ]
}

/// Exponential, trigonometric and special functions.
fn of_analysis() -> [OpForm; 26] {
    [
        functions::exp(),
        functions::expm1(),
        functions::log(),
        functions::log1p(),
        functions::exp2(),
        functions::log2(),
        functions::log10(),
        functions::sqrt(),
        functions::rsqrt(),
        functions::sin(),
        functions::cos(),
        trigonometric::tan(),
        trigonometric::asin(),
        trigonometric::acos(),
        trigonometric::atan(),
        trigonometric::atan2(),
        hyperbolic::sinh(),
        hyperbolic::cosh(),
        functions::tanh(),
        hyperbolic::asinh(),
        hyperbolic::acosh(),
        hyperbolic::atanh(),
        functions::erf(),
        special::erfinv(),
        special::lgamma(),
        special::digamma(),
    ]
}

/// Rounding, conversion, logic and choice.
fn others() -> [OpForm; 31] {
    [
        rounding::floor(),
        rounding::ceil(),
        rounding::trunc(),
        rounding::round(),
        rounding::frac(),
        copy::copy(),
        detach::detach(),
        full_like::full_like(),
        cast::cast(),
        widen::widen(),
        small_float::small_float(),
        isnan::isnan(),
        isnan::isinf(),
        isnan::isfinite(),
        isnan::nan_to_num(),
        logic::and(),
        logic::or(),
        logic::xor(),
        logic::not(),
        logic::popcount(),
        shifts::left_shift(),
        shifts::right_shift(),
        blend::addcmul(),
        blend::addcdiv(),
        blend::lerp(),
        select::select(),
        masked_fill::masked_fill(),
        clamp::clamp(),
        threshold::threshold(),
        threshold::threshold_backward(),
        alias::apply_corrections(),
    ]
}
