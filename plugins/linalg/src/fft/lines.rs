//! Lines of complex numbers: their types, lengths and factors.

use engine_core::ir::{Builder, DType, Dim, Literal, Type, Value};
use engine_core::op::TypeIssue;

/// Refuses other types than complex numbers of `f32` or `f64`: two parts along the last axis.
pub fn expect_complex(op: &str, x: &Type) -> Result<(), TypeIssue> {
    x.expect_dtype(op, 0, |dtype| matches!(dtype, DType::F32 | DType::F64), "f32 or f64")?;
    match x.shape.last() {
        Some(Dim::Fixed(2)) => Ok(()),
        _ => Err(TypeIssue::new(format!("`{op}` of {x}, which holds no complex numbers"))
            .at(0, format!("this is {x}"))
            .help("the last axis holds a real and an imaginary part; `complex(re, im)` makes it")),
    }
}

/// The largest prime factor whose sums are computed term by term. A larger one is cheaper by [`super::chirp`].
pub const LARGEST_PRIME: usize = 61;

/// Factors of n in the order of the passes: as many as possible of each preferred one, then primes from the smallest.
/// `[1]` for n = 1. None if there is a prime factor above [`LARGEST_PRIME`].
pub fn radices(n: usize, preferred: &[usize]) -> Option<Vec<usize>> {
    let (mut rest, mut found) = (n, vec![]);
    for radix in preferred.iter().copied().chain(2..=LARGEST_PRIME) {
        while rest > 1 && rest.is_multiple_of(radix) {
            rest /= radix;
            found.push(radix);
        }
    }
    if found.is_empty() {
        found.push(1);
    }
    (rest == 1).then_some(found)
}

/// The rows of a call, and the complex numbers of each.
pub fn rows(ty: &Type) -> (usize, usize) {
    let extents = ty.extents();
    let n = extents[extents.len() - 2];
    (extents[..extents.len() - 2].iter().product(), n)
}

/// The first `n` of an axis, padded by zeros.
pub fn resized(b: &mut Builder, x: Value, axis: usize, n: usize) -> Value {
    let mut extents = b.extents(x);
    let none = vec![0; extents.len()];
    let mut behind = none.clone();
    behind[axis] = n.saturating_sub(extents[axis]);
    extents[axis] = extents[axis].min(n);
    let cut = if b.extents(x) == extents { x } else { b.slice(x, &none, &extents, &vec![1; extents.len()]) };
    if behind == none { cut } else { b.pad(cut, &none, &behind, Literal::Float(0.0)) }
}
