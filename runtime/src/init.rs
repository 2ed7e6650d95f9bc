//! Initial values of parameters, computed on the host.
//!
//! Each parameter draws from Philox4x32-10 under the key (seed, stream of `init/NAME`), element by element. So its
//! values depend only on the seed, its name and its shape, and not on other parameters or the device.

use std::f64::consts::TAU;

use engine_core::ir::{DType, Literal, stream_of};
use engine_core::pipeline::{Init, ParamDecl};
use half::{bf16, f16};

use crate::philox::philox_block;
use crate::tensor::{Element, HostTensor, TensorError};

/// The initial values of a parameter.
///
/// Constants are elements of the parameter's type, as [`Literal::cast`] makes them. Random values are computed in f64
/// and rounded once to that type. Integers and booleans are converted like Rust's `as` and `!= 0`. `fan_in` is the
/// product of all extents except the last, and `fan_out` the last. For a vector, both are its extent. `Xavier` is
/// uniform within ±√(6 / (fan_in + fan_out)) and `Kaiming` within ±√(6 / fan_in).
pub fn initial_values(param: &ParamDecl, seed: u64) -> Result<HostTensor, TensorError> {
    let extents = param.ty.extents();
    let draws = Draws::new(seed, &param.name);
    let uniform = |low: f64, high: f64| {
        let last = if low < high { Literal::Float(high).below(param.ty.dtype) } else { f64::INFINITY };
        let value = move |element| (low + (high - low) * draws.uniform(element)).min(last);
        filled(param.ty.dtype, &extents, value)
    };
    let (fan_in, fan_out) = fans(&extents);
    match param.init {
        Init::Zeros => HostTensor::zeros(param.ty.dtype, &extents),
        Init::Constant(value) => constant(value, param.ty.dtype, &extents),
        Init::Uniform { low, high } => uniform(low, high),
        Init::Normal { mean, std } => {
            filled(param.ty.dtype, &extents, |element| mean + std * draws.normal(element))
        }
        Init::Xavier => symmetric(&uniform, 6.0 / (fan_in + fan_out)),
        Init::Kaiming => symmetric(&uniform, 6.0 / fan_in),
    }
}

fn symmetric<T>(uniform: &dyn Fn(f64, f64) -> T, squared_bound: f64) -> T {
    let bound = squared_bound.sqrt();
    uniform(-bound, bound)
}

/// At least 1 each, so that empty parameters do not divide by zero.
fn fans(extents: &[usize]) -> (f64, f64) {
    let (fan_in, fan_out) = match extents {
        [] => (1, 1),
        [n] => (*n, *n),
        [ins @ .., out] => (ins.iter().product(), *out),
    };
    (fan_in.max(1) as f64, fan_out.max(1) as f64)
}

fn constant(value: Literal, dtype: DType, extents: &[usize]) -> Result<HostTensor, TensorError> {
    match value.cast(dtype) {
        // The float may have more digits than an i64 can hold.
        Literal::Int(whole) if dtype == DType::I64 => {
            let mut tensor = HostTensor::zeros(dtype, extents)?;
            fill(&mut tensor, |_| whole)?;
            Ok(tensor)
        }
        element => filled(dtype, extents, |_| element.as_f64()),
    }
}

fn filled(dtype: DType, extents: &[usize], value: impl Fn(usize) -> f64) -> Result<HostTensor, TensorError> {
    let mut tensor = HostTensor::zeros(dtype, extents)?;
    match dtype {
        DType::Bool => fill(&mut tensor, |element| u8::from(value(element) != 0.0))?,
        DType::U8 => fill(&mut tensor, |element| value(element) as u8)?,
        DType::I8 => fill(&mut tensor, |element| value(element) as i8)?,
        DType::I16 => fill(&mut tensor, |element| value(element) as i16)?,
        DType::U16 => fill(&mut tensor, |element| value(element) as u16)?,
        DType::I32 => fill(&mut tensor, |element| value(element) as i32)?,
        DType::I64 => fill(&mut tensor, |element| value(element) as i64)?,
        DType::U32 => fill(&mut tensor, |element| value(element) as u32)?,
        DType::F16 => fill(&mut tensor, |element| f16::from_f64(value(element)))?,
        DType::BF16 => fill(&mut tensor, |element| bf16::from_f64(value(element)))?,
        DType::F32 => fill(&mut tensor, |element| value(element) as f32)?,
        DType::F64 => fill(&mut tensor, value)?,
    }
    Ok(tensor)
}

fn fill<T: Element>(tensor: &mut HostTensor, value: impl Fn(usize) -> T) -> Result<(), TensorError> {
    for (element, slot) in tensor.as_mut_slice()?.iter_mut().enumerate() {
        *slot = value(element);
    }
    Ok(())
}

/// The random numbers of one parameter, by element.
#[derive(Clone, Copy)]
struct Draws {
    seed: u32,
    stream: u32,
    /// A second stream, for distributions that need two numbers per element.
    angle: u32,
}

impl Draws {
    fn new(seed: u64, name: &str) -> Self {
        Draws {
            seed: seed as u32 ^ (seed >> 32) as u32,
            stream: stream_of(&format!("init/{name}")),
            angle: stream_of(&format!("init/{name}/angle")),
        }
    }

    /// (k + ½)·2⁻²³ with k the upper 23 random bits, strictly between 0 and 1.
    fn uniform(&self, element: usize) -> f64 {
        self.uniform_of(self.stream, element)
    }

    /// Box and Muller (1958): the radius from one uniform number, the angle from another.
    fn normal(&self, element: usize) -> f64 {
        let radius = (-2.0 * self.uniform_of(self.stream, element).ln()).sqrt();
        radius * (TAU * self.uniform_of(self.angle, element)).cos()
    }

    fn uniform_of(&self, stream: u32, element: usize) -> f64 {
        let block = element as u64 / 4;
        let words = philox_block([block as u32, (block >> 32) as u32, 0, 0], [self.seed, stream]);
        (f64::from(words[element % 4] >> 9) + 0.5) / 8_388_608.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use engine_core::ir::{InputKind, Type};

    use super::*;

    fn values(name: &str, extents: &[usize], init: Init, seed: u64) -> Vec<f64> {
        typed(DType::F64, name, extents, init, seed)
    }

    fn typed(dtype: DType, name: &str, extents: &[usize], init: Init, seed: u64) -> Vec<f64> {
        let ty = Type::new(dtype, extents);
        let param = ParamDecl { name: name.into(), kind: InputKind::Param, ty, init, span: None };
        initial_values(&param, seed).unwrap().to_f64()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// The largest distance between the share of values below `x` and `law(x)`.
    fn distance_from(values: &[f64], law: impl Fn(f64) -> f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let gaps = sorted.iter().enumerate().map(|(rank, &x)| ((rank as f64 + 0.5) / n - law(x)).abs());
        gaps.fold(0.0, f64::max)
    }

    /// Above this distance, 2,000 values follow another distribution with a certainty of 99.9 % (Kolmogorov and
    /// Smirnov).
    const GREATEST_DISTANCE: f64 = 1.95 / 44.7;

    #[test]
    fn uniform_values_follow_their_law() {
        let drawn = values("w", &[2000], Init::Uniform { low: -3.0, high: 1.0 }, 1);
        assert!(distance_from(&drawn, |x| ((x + 3.0) / 4.0).clamp(0.0, 1.0)) < GREATEST_DISTANCE);
    }

    #[test]
    fn normal_values_follow_their_law() {
        let drawn = values("w", &[2000], Init::Normal { mean: 0.0, std: 1.0 }, 1);
        // A logistic curve in place of the normal distribution, from which it differs by less than 0.0002 in this form
        // (Page 1977).
        let law = |z: f64| 1.0 / (1.0 + (-1.5957691216 * z * (1.0 + 0.044715 * z * z)).exp());
        assert!(distance_from(&drawn, law) < GREATEST_DISTANCE);
        let shifted = values("w", &[2000], Init::Normal { mean: 5.0, std: 0.5 }, 1);
        assert!(drawn.iter().zip(&shifted).all(|(z, x)| (5.0 + 0.5 * z - x).abs() < 1e-12));
    }

    /// Uniform within the bounds of `torch.nn.init.kaiming_uniform_` (with ReLU's gain) and `xavier_uniform_`.
    #[test]
    fn kaiming_and_xavier_values_follow_their_law() {
        for (name, init, bound) in
            [("k", Init::Kaiming, (6.0f64 / 50.0).sqrt()), ("x", Init::Xavier, (6.0f64 / 90.0).sqrt())]
        {
            let drawn = values(name, &[5, 10, 40], init, 3);
            let law = |x: f64| (x / bound + 1.0) / 2.0;
            assert!(distance_from(&drawn, law) < GREATEST_DISTANCE, "{name}");
            // The variance is that of weights which keep the variance of what they multiply, by fan_in or by the mean fan.
            let variance = mean(&drawn.iter().map(|x| x * x).collect::<Vec<_>>());
            assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.08, "{name}: {variance}");
        }
    }

    /// Bounds as in `torch.nn.init.xavier_uniform_` and `kaiming_uniform_` with ReLU's gain.
    #[test]
    fn fans_decide_the_bounds() {
        let check = |extents: &[usize], init: Init, bound: f64| {
            let largest =
                values("w", extents, init, 2).iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
            assert!(largest < bound && largest > 0.99 * bound, "{largest} {bound}");
        };
        check(&[784, 256], Init::Kaiming, 0.087_481_777);
        check(&[784, 256], Init::Xavier, 0.075_955_452);
        check(&[3, 3, 16, 32], Init::Kaiming, 0.204_124_145);
        check(&[600], Init::Kaiming, 0.1);
    }

    /// The first values, from a separate Python implementation. A change would change the meaning of every seed.
    #[test]
    fn values_are_fixed_for_good() {
        let drawn = values("w1", &[6], Init::Uniform { low: 0.0, high: 8_388_608.0 }, 0x1_0000_0002);
        assert_eq!(drawn, [773033.5, 3988979.5, 2859657.5, 3828000.5, 3473678.5, 7305486.5]);
    }

    #[test]
    fn a_name_or_a_seed_of_its_own_gives_values_of_its_own() {
        let init = || Init::Uniform { low: -1.0, high: 1.0 };
        let here = values("w1", &[500], init(), 3);
        assert_eq!(here, values("w1", &[500], init(), 3));
        assert_eq!(here[..100], values("w1", &[100], init(), 3));
        for other in [values("w2", &[500], init(), 3), values("w1", &[500], init(), 4)] {
            let products: Vec<f64> = here.iter().zip(&other).map(|(a, b)| a * b * 3.0).collect();
            // The correlation of 500 independent pairs has a standard deviation of 0.045.
            assert!(mean(&products).abs() < 0.2, "{}", mean(&products));
        }
    }

    #[test]
    fn constants_take_the_type_of_the_parameter() {
        assert_eq!(typed(DType::I32, "n", &[2], Init::Constant(Literal::Float(-3.0)), 0), [-3.0; 2]);
        assert_eq!(typed(DType::Bool, "b", &[2], Init::Constant(Literal::Float(2.0)), 0), [1.0; 2]);
        assert_eq!(typed(DType::F32, "w", &[], Init::Constant(Literal::Float(0.1)), 0), [f64::from(0.1f32)]);
        assert_eq!(typed(DType::BF16, "w", &[1], Init::Constant(Literal::Float(0.1)), 0), [0.100_097_656_25]);
        assert_eq!(typed(DType::F16, "w", &[3], Init::Zeros, 0), [0.0; 3]);
        for whole in [i64::MIN, (1 << 53) + 1, i64::MAX] {
            let held = constant(Literal::Int(whole), DType::I64, &[2]).unwrap();
            assert_eq!(held.as_slice::<i64>().unwrap(), [whole; 2]);
        }
        assert_eq!(typed(DType::F32, "w", &[0, 3], Init::Kaiming, 0), [0.0; 0]);
    }
}
