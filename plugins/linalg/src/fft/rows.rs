//! `fft_rows`.

use super::lines::{LARGEST_PRIME, expect_complex, radices};
use super::{gpu, host};
use engine_core::ir::{Attr, Attrs, Builder, Dim, Type, Value};
use engine_core::op::{AttrSpec, GpuForm, Grad, KernelForm, Lower, OpForm, TypeIssue, checked};
use std::sync::Arc;

/// `y[k] = Σⱼ x[j]·e^(∓2πi·jk/n)` for each row of n complex numbers, by mixed radices: n has no prime factor above
/// `LARGEST_PRIME`. With `inverse`, the exponent is positive; neither direction divides. The gradient is the other
/// direction.
pub fn fft_rows() -> OpForm {
    OpForm::new(
        "fft_rows",
        "Fourier transform of rows of complex numbers, whose length has small prime factors.",
    )
    .input("x", "[…, n, 2]: real and imaginary parts along the last axis")
    .attr(AttrSpec::flag("inverse", "whether the exponent is positive; neither direction divides", false))
    .types(|types, _| {
        let x = &types[0];
        expect_complex("fft_rows", x)?;
        match x.shape[..x.rank() - 1].last() {
            None | Some(Dim::Fixed(0)) => Err(no_row(x)),
            Some(Dim::Fixed(n)) if radices(*n, &[]).is_none() => {
                Err(no_row(x)
                    .help(format!("`fft` takes lengths with prime factors above {LARGEST_PRIME}, too")))
            }
            _ => Ok(vec![x.clone()]),
        }
    })
    .lower(Lower::Kernel(KernelForm {
        host: Arc::new(host::prepared),
        oracle: Arc::new(host::oracle),
        gpu: GpuForm::Launches(Arc::new(gpu::launches)),
    }))
    .grad(Grad::rule(|b, call| {
        let is_inverse = call.attrs.bool("inverse");
        vec![call.grads[0].map(|grad| transformed(b, grad, !is_inverse))]
    }))
    .example(
        "of three numbers",
        "fft_rows(a)",
        &[("f64[3, 2]", &[1., 0., 2., 0., 4., 1.])],
        &[(
            "f64[3, 2]",
            &[7., 1., -2.866025403784438, 1.2320508075688767, -1.1339745962155605, -2.232050807568876],
        )],
    )
    .example(
        "of eight numbers, in two passes",
        "fft_rows(a)",
        &[("f32[8, 2]", &[1., 2., -1., 0.5, 3., 0., 0., -2., 1., 1., 2., -3., 0.5, 0.25, -1., 4.])],
        &[(
            "f32[8, 2]",
            &[
                5.5, 2.75, -4.846194, 6.631728, -6.0, 0.75, 1.31066, -1.803301, 5.5, 3.75, 4.346194,
                -9.631728, 3.0, 4.75, -0.81066, 8.803301,
            ],
        )],
    )
    .example(
        "the other direction",
        "fft_rows(a, inverse=true)",
        &[("f32[2, 2, 2]", &[1., 2., 3., 5., 0., -1., 0., 1.])],
        &[("f32[2, 2, 2]", &[4., 7., -2., -3., 0., 0., 0., -2.])],
    )
}

fn no_row(x: &Type) -> TypeIssue {
    TypeIssue::new(format!("`fft_rows` of {x}")).at(0, format!("this is {x}"))
}

/// The call of `fft_rows`.
pub fn transformed(b: &mut Builder, x: Value, is_inverse: bool) -> Value {
    let attrs = Attrs::default().with("inverse", Attr::from(is_inverse));
    checked(b.call("fft_rows", &[x], attrs))[0]
}
