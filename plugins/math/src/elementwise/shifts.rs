//! Shifts of the bits of integers.

use crate::takes;
use engine_core::ir::{Binary, Builder, DType, E, Value};
use engine_core::op::OpForm;

/// `a · 2ᵇ`; bits that leave the type are lost. A shift that is negative or as wide as the type gives 0.
pub fn left_shift() -> OpForm {
    shift("left_shift", "Shifts the bits of integers to the left.", Binary::Shl)
        .example(
            "by no bit, by some, and by too many",
            "left_shift(a, b)",
            &[("i32[5]", &[5., 5., -3., 5., 5.]), ("i32[5]", &[0., 3., 2., 32., -1.])],
            &[("i32[5]", &[5., 40., -12., 0., 0.])],
        )
        .example(
            "of bytes",
            "left_shift(a, b)",
            &[("u8[3]", &[5., 200., 200.]), ("u8[3]", &[1., 1., 8.])],
            &[("u8[3]", &[10., 144., 0.])],
        )
}

/// `⌊a / 2ᵇ⌋`. A shift that is negative or as wide as the type gives 0, or -1 for negative numbers.
pub fn right_shift() -> OpForm {
    shift("right_shift", "Shifts the bits of integers to the right and keeps their sign.", Binary::Shr)
        .example(
            "by no bit, by some, and by too many",
            "right_shift(a, b)",
            &[("i32[6]", &[5., 41., -12., 5., -5., -5.]), ("i32[6]", &[0., 3., 2., 32., 32., -1.])],
            &[("i32[6]", &[5., 5., -3., 0., -1., -1.])],
        )
        .example(
            "of bytes",
            "right_shift(a, b)",
            &[("u8[3]", &[5., 200., 200.]), ("u8[3]", &[1., 3., 8.])],
            &[("u8[3]", &[2., 25., 0.])],
        )
}

fn shift(name: &str, summary: &str, direction: Binary) -> OpForm {
    OpForm::new(name, summary)
        .input("a", "integers")
        .input("b", "numbers of bits; it broadcasts with `a`")
        .takes(DType::is_int)
        .expand(move |b, call| vec![shifted(b, call.inputs[0], call.inputs[1], direction)])
        .no_grad("integers have no derivative")
}

/// Devices shift by fewer bits than the type has. Wider shifts to the right leave the sign.
fn shifted(b: &mut Builder, x: Value, by: Value, direction: Binary) -> Value {
    let n_bits = 8 * b.dtype(x).size() as i64;
    let keeps_sign = direction == Binary::Shr && takes::signed(b.dtype(x));
    b.map(&[x, by], |v| {
        let is_narrow = v[1].ge(0i64) & v[1].lt(n_bits);
        let by = E::select(is_narrow, v[1], if keeps_sign { n_bits - 1 } else { 0 });
        let moved = if direction == Binary::Shl { v[0] << by } else { v[0] >> by };
        if keeps_sign { moved } else { E::select(is_narrow, moved, 0i64) }
    })
}
