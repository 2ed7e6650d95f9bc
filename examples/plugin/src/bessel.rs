//! `bessel_j0`: a scalar body with functions that the language of bodies lacks. The engine treats them as black boxes.
//! They fuse, and they state their derivatives.

use std::sync::Arc;

use engine::core::cubecl;
use engine::core::cubecl::prelude::*;
use engine::core::ir::{DType, E, Foreign, Scalar};
use engine::core::op::OpForm;

/// The Bessel function of the first kind of order 0. Its derivative is -J₁(x).
pub fn bessel_j0() -> OpForm {
    OpForm::unary(
        "bessel_j0",
        "Applies the Bessel function of the first kind of order 0.",
        |dtype| dtype == DType::F32,
        |x| E::apply(Scalar::Foreign(Arc::new(j0())), &[x]),
    )
    .tested_on(-6.0, 6.0)
    // From scipy.special.j0.
    .example(
        "of some places",
        "bessel_j0(a)",
        &[("f32[4]", &[0.0, 1.0, -2.5, 8.0])],
        &[("f32[4]", &[1.0, 0.7651976865579665, -0.04838377646819804, 0.1716508071375539])],
    )
}

/// The key must change whenever the function does, since kernels are identified by it.
fn j0() -> Foreign {
    Foreign {
        key: "my_plugin.j0@1".into(),
        arity: 1,
        f64: |x| quadrature(|angle| (x[0] * angle.sin()).cos()),
        f32_slice: |x, out| {
            for (out, x) in out.iter_mut().zip(x[0]) {
                *out = quadrature(|angle| (f64::from(*x) * angle.sin()).cos()) as f32;
            }
        },
        partials: |x| vec![-E::apply(Scalar::Foreign(Arc::new(j1())), x)],
        cube: |scope, x| j0_cube::expand(scope, x[0].clone()),
    }
}

fn j1() -> Foreign {
    Foreign {
        key: "my_plugin.j1@2".into(),
        arity: 1,
        f64: |x| quadrature(|angle| (x[0] * angle.sin()).sin() * angle.sin()),
        f32_slice: |x, out| {
            for (out, x) in out.iter_mut().zip(x[0]) {
                *out = quadrature(|angle| (f64::from(*x) * angle.sin()).sin() * angle.sin()) as f32;
            }
        },
        // J₁' = J₀ - J₁/x is undefined at 0, so second derivatives are not offered there.
        partials: |x| {
            let of = |foreign: Foreign| E::apply(Scalar::Foreign(Arc::new(foreign)), x);
            vec![of(j0()) - of(j1()) / x[0]]
        },
        cube: |scope, x| j1_cube::expand(scope, x[0].clone()),
    }
}

/// Points of the trapezoidal rule. For a periodic integrand it converges faster than any power (Trefethen and Weideman,
/// 2014). Here it is exact to the last bit of an f64 for |x| up to 40.
const N_POINTS: usize = 64;

/// The mean over a period. J₀(x) is the mean of cos(x·sin t), and J₁(x) that of sin(x·sin t)·sin t, whose terms do not
/// cancel where it is small.
fn quadrature(integrand: impl Fn(f64) -> f64) -> f64 {
    let angle = |i: usize| std::f64::consts::TAU * i as f64 / N_POINTS as f64;
    (0..N_POINTS).map(|i| integrand(angle(i))).sum::<f64>() / N_POINTS as f64
}

#[cube]
fn j0_cube(x: f32) -> f32 {
    let mut sum = 0.0f32;
    for i in 0..64u32 {
        let angle = f32::cast_from(i) * 0.09817477f32;
        sum += f32::cos(x * f32::sin(angle));
    }
    sum / 64.0f32
}

#[cube]
fn j1_cube(x: f32) -> f32 {
    let mut sum = 0.0f32;
    for i in 0..64u32 {
        let angle = f32::cast_from(i) * 0.09817477f32;
        let height = f32::sin(angle);
        sum += f32::sin(x * height) * height;
    }
    sum / 64.0f32
}
