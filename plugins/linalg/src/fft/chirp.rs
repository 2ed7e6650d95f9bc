//! Transforms of any length. A length with a large prime factor is a convolution with a chirp (Bluestein 1970), which
//! transforms of a power of two compute.

use super::lines::{radices, resized};
use super::rows::transformed as rows;
use crate::matrices::call;
use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue};

/// The transform of rows of n complex numbers, `[…, n, 2]`.
pub fn transformed(b: &mut Builder, z: Value, n: usize, is_inverse: bool) -> Value {
    match radices(n, &[]) {
        Some(_) => rows(b, z, is_inverse),
        None => by_chirp(b, z, n, is_inverse),
    }
}

/// With c[k] = e^(∓πi·k²/n): jk = (j² + k² - (k - j)²)/2, so y[k] = c[k]·Σⱼ (x[j]·c[j])·c̄[k - j].
fn by_chirp(b: &mut Builder, z: Value, n: usize, is_inverse: bool) -> Value {
    let (axis, dtype) = (b.ty(z).rank() - 2, b.dtype(z));
    let count = (2 * n - 1).next_power_of_two();
    let chirp = |b: &mut Builder, count: usize, is_inverse: bool| {
        let counts = [("n", n), ("count", count)].map(|(name, n)| (name, Attr::from(n as i64)));
        let others = [("inverse", Attr::from(is_inverse)), ("dtype", Attr::from(dtype))];
        let attrs =
            counts.into_iter().chain(others).fold(Attrs::default(), |attrs, (name, x)| attrs.with(name, x));
        call(b, "fft_chirp", &[], attrs)[0]
    };
    let product = |b: &mut Builder, x: Value, y: Value| call(b, "complex_mul", &[x, y], Attrs::default())[0];
    let before = chirp(b, n, is_inverse);
    let x = product(b, z, before);
    let x = resized(b, x, axis, count);
    let kernel = chirp(b, count, !is_inverse);
    let [x, kernel] = [x, kernel].map(|x| rows(b, x, false));
    let y = product(b, x, kernel);
    let y = rows(b, y, true);
    let y = resized(b, y, axis, n);
    let behind = chirp(b, n, is_inverse);
    let y = product(b, y, behind);
    b.scale(y, (count as f64).recip())
}

/// The largest n whose square fits 32 bits.
const LONGEST_NARROW: usize = 46340;

/// `e^(∓πi·k²/n)` for k from 0, `[count, 2]`. With more than n numbers, they wrap around: number `count - k` is number k.
/// Numbers from n to `count - n` are 0.
pub fn fft_chirp() -> OpForm {
    OpForm::new("fft_chirp", "Makes the chirp by which `fft` computes lengths with large prime factors.")
        .attr(AttrSpec::must("n", "the length; e^(-πi·k²/n) is the number at place k", AttrKind::Int))
        .attr(AttrSpec::must(
            "count",
            "how many numbers: n, or at least 2n - 1 that wrap around",
            AttrKind::Int,
        ))
        .attr(AttrSpec::flag("inverse", "whether the exponent is positive", false))
        .attr(AttrSpec::dtype("dtype", "f32 or f64", DType::F32))
        .types(|_, attrs| Ok(vec![chirp_type(attrs)?]))
        .expand(|b, call| {
            let [n, count] = ["n", "count"].map(|name| call.attrs.int(name) as usize);
            vec![chirp(b, call.attrs.dtype("dtype"), [n, count], call.attrs.bool("inverse"))]
        })
        .no_grad("it has no operands")
        .example(
            "of three numbers",
            "fft_chirp(n=3, count=3)",
            &[],
            &[(
                "f32[3, 2]",
                &[1.0, 0.0, 0.5000000000000001, -0.8660254037844386, -0.5000000000000004, 0.8660254037844384],
            )],
        )
        .example(
            "that wraps around",
            "fft_chirp(n=5, count=11, inverse=true, dtype=f64)",
            &[],
            &[(
                "f64[11, 2]",
                &[
                    1.0,
                    0.0,
                    0.8090169943749475,
                    0.5877852522924731,
                    -0.8090169943749473,
                    0.5877852522924732,
                    0.8090169943749473,
                    -0.5877852522924734,
                    -0.8090169943749476,
                    -0.587785252292473,
                    0.0,
                    0.0,
                    0.0,
                    0.0,
                    -0.8090169943749476,
                    -0.587785252292473,
                    0.8090169943749473,
                    -0.5877852522924734,
                    -0.8090169943749473,
                    0.5877852522924732,
                    0.8090169943749475,
                    0.5877852522924731,
                ],
            )],
        )
}

fn chirp_type(attrs: &Attrs) -> Result<Type, TypeIssue> {
    let (n, count, dtype) = (attrs.int("n"), attrs.int("count"), attrs.dtype("dtype"));
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(TypeIssue::new(format!("`fft_chirp` of {dtype}")).at_setting("dtype"));
    }
    match (1..1 << 30).contains(&n) && (count == n || (2 * n - 1..1 << 31).contains(&count)) {
        true => Ok(Type { dtype, shape: [count as usize, 2].map(Dim::Fixed).to_vec() }),
        false => Err(TypeIssue::new(format!("`fft_chirp` of {count} numbers for {n}")).at_setting("count")),
    }
}

fn chirp(b: &mut Builder, dtype: DType, [n, count]: [usize; 2], is_inverse: bool) -> Value {
    let integer = if n <= LONGEST_NARROW { DType::I32 } else { DType::I64 };
    let ty = Type::new(integer, &[count, 2]);
    let (place, part) = (b.iota(0, ty.clone()), b.iota(1, ty));
    b.map(&[place, part], |v| {
        let (turn, total) = (E::from(2 * n as i64), E::from(count as i64));
        let k = if count == n { v[0] } else { v[0].min(total - v[0]) };
        // In turns of 2n, reduced to an eighth of a turn, so that the angle is exact.
        let angle = k * k % turn;
        let quarter = (angle * E::from(4i64) + E::from(n as i64)) / turn;
        let rest =
            (angle * E::from(4i64) - quarter * turn).cast(dtype) * (std::f64::consts::PI / (4 * n) as f64);
        // The sine is the cosine of a quarter less.
        let quarter = (quarter + v[1] * E::from(3i64)) % E::from(4i64);
        let is_sine = quarter.eq(1i64) | quarter.eq(3i64);
        let size = E::select(is_sine, -rest.sin(), rest.cos());
        let signed = E::select(quarter.ge(2i64), -size, size);
        let turned = if is_inverse { signed } else { E::select(v[1].eq(1i64), -signed, signed) };
        E::select(k.lt(n as i64), turned, 0.0)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::Linalg;
    use engine_core::op::Example;
    use engine_core::oracle::Oracle;
    use engine_core::testing;

    /// The results of a call on numbers of a type, each step rounded to it.
    fn rounded(call: &'static str, ty: &'static str, x: &[f64]) -> Vec<f64> {
        let registry = testing::registry(&[&Linalg]);
        let example = Example::new("of many", call, &[(ty, x)], &[(ty, x)]);
        let case = testing::case(&example, &registry).unwrap();
        let run = Oracle::rounded(&registry).run(&case.graph, &case.inputs, 0, 0).unwrap();
        run.outputs[0].to_f64()
    }

    #[test]
    fn single_precision_loses_little_beside_double_where_a_chirp_is_needed() {
        let lengths = [("f32[67, 2]", "f64[67, 2]"), ("f32[2018, 2]", "f64[2018, 2]")];
        for (n, (single, double)) in [67, 2018].into_iter().zip(lengths) {
            let x: Vec<f64> = (0..2 * n).map(|i| f64::from(((i * i % 97) as f32).sin())).collect();
            for call in ["fft(a)", "ifft(a)"] {
                let [found, expected] = [single, double].map(|ty| rounded(call, ty, &x));
                let norm = |x: Vec<f64>| x.iter().map(|x| x * x).sum::<f64>().sqrt();
                let difference = norm(found.iter().zip(&expected).map(|(a, b)| a - b).collect());
                let error = difference / norm(expected);
                assert!(error < 5e-7, "{call} of {n} numbers: {error:e}");
            }
        }
    }

    #[test]
    fn a_long_chirp_is_as_exact_as_a_short_one() {
        let n = 65_537;
        let mut x = vec![0.0; 2 * n];
        x[2] = 1.0;
        // The transform of a number at place 1 is the roots of unity.
        let y = rounded("fft(a)", "f64[65537, 2]", &x);
        for k in [0, 1, 777, 40_000, n - 1] {
            let (sin, cos) = (-2.0 * std::f64::consts::PI * k as f64 / n as f64).sin_cos();
            assert!((y[2 * k] - cos).abs() < 1e-14 && (y[2 * k + 1] - sin).abs() < 1e-14, "{k}");
        }
    }
}
