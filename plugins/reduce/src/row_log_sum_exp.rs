//! `row_log_sum_exp`: the logarithm of the sum of exponentials as a streaming reduction of rows.
//!
//! A row needs its largest element and the sum of exponentials relative to it. Kept as running values, they allow elements one
//! after another (Milakov and Gimelshein 2018), so a row that a matmul computes is never stored.

use engine_core::codegen::{Code, native, thread_fold};
use engine_core::cubecl;
use engine_core::cubecl::ir::{ElemType, FloatKind, Scope, UIntKind, Variable};
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::{Builder, DType, E, Type, Value};
use engine_core::op::gpu::{BlockFold, ThreadFold};
use engine_core::op::kernel::{Elements, KernelCall, Share};
use engine_core::op::{
    Example, Grad, GradCall, GradCheck, InputSpec, KernelForm, Lower, OpForm, Role, Rounding, RowFold,
    RowReduction, TypeIssue, TypeRule,
};
use engine_core::oracle::OracleTensor;
use std::f64::consts::LN_2;
use std::sync::Arc;

/// `ln Σ exp(x)` of each row along the last axis, for `x` f32[…, n]: -∞ for a row of -∞ alone, ∞ for a row with ∞, and NaN for
/// a row with NaN. Behind a matmul that has no other reader, the product is never stored. [`log_sum_exp`](crate::log_sum_exp) is
/// for other types and axes, and fuses with what stands beside it.
pub fn row_log_sum_exp() -> OpForm {
    let reduction = RowReduction::new(|_| Box::new(LogSumExp)).on_gpu(block_fold);
    OpForm {
        name: "row_log_sum_exp".into(),
        family: "reduce".into(),
        summary: "Computes the logarithm of the sum of exponentials of each row. A product that only it reads is never stored."
            .into(),
        inputs: vec![InputSpec::required("x", "rows of f32")],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| Ok(vec![rows_of(&inputs[0])?])),
        lower: Lower::Kernel(KernelForm::of_rows(&reduction, Arc::new(oracle))),
        grad: Grad::rule(softmax_of_operand),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "large numbers do not overflow",
                "row_log_sum_exp(a)",
                &[("f32[2, 2]", &[1000., 1000., 0., f64::NEG_INFINITY])],
                &[("f32[2]", &[1000.0 + LN_2, 0.])],
            ),
            Example::new("one number", "row_log_sum_exp(a)", &[("f32[1]", &[-3.5])], &[("f32[]", &[-3.5])]),
        ],
        role: Role::RowReduction(reduction),
        rounding: Rounding::Never,
    }
}

fn rows_of(x: &Type) -> Result<Type, TypeIssue> {
    match x.shape.split_last() {
        Some((_, rows)) if x.dtype == DType::F32 => Ok(Type { dtype: DType::F32, shape: rows.to_vec() }),
        _ => Err(TypeIssue::new("`row_log_sum_exp` takes rows of f32")
            .at(0, format!("this is {x}"))
            .help("`log_sum_exp` takes any floats, along any axes")),
    }
}

/// `g·exp(x - y)`; a row of -∞ alone has weights 0.
fn softmax_of_operand(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None] };
    let x = call.inputs[0];
    let axis = b.ty(x).rank() - 1;
    let [y, g] = [call.outputs[0], g].map(|y| b.unreduce(y, &[axis], x));
    let dx = b.map(&[x, y, g], |v| {
        let reference = E::select(v[1].eq(f64::NEG_INFINITY), 0.0, v[1]);
        v[2] * (v[0] - reference).exp()
    });
    vec![Some(dx)]
}

/// Neighbours that a CPU exponentiates at once.
const LANES: usize = 16;

/// The fold on the CPU. State: the largest element, and the sum of exponentials relative to it. The largest of no elements is
/// the least finite number, so that no difference is NaN.
struct LogSumExp;

fn read(state: &[u64]) -> [f32; 2] {
    [0, 1].map(|i| f32::from_bits(state[i] as u32))
}

fn write(state: &mut [u64], values: [f32; 2]) {
    state.iter_mut().zip(values).for_each(|(word, value)| *word = u64::from(value.to_bits()));
}

/// The factor of a sum whose reference changes. Equal infinities have the factor 1.
fn factor(from: f32, to: f32) -> f32 {
    if from == to { 1.0 } else { exponential(from - to) }
}

impl RowFold for LogSumExp {
    fn state_words(&self) -> usize {
        2
    }

    fn init(&self, state: &mut [u64]) {
        write(state, [f32::MIN, 0.0]);
    }

    fn step(&self, state: &mut [u64], _: usize, piece: Elements) {
        let [largest, sum] = read(state);
        let x = piece.get::<f32>();
        let mut most = [largest; LANES];
        let mut sums = [0.0; LANES];
        let (blocks, rest) = x.as_chunks::<LANES>();
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        for block in blocks {
            (0..LANES).for_each(|lane| most[lane] = larger(most[lane], block[lane]));
        }
        let reference = most.into_iter().chain(rest.iter().copied()).fold(largest, larger);
        let term = |x: f32| if x == reference { 1.0 } else { exponential(x - reference) };
        for block in blocks {
            (0..LANES).for_each(|lane| sums[lane] += term(block[lane]));
        }
        let of_piece = sums.iter().sum::<f32>() + rest.iter().map(|&x| term(x)).sum::<f32>();
        write(state, [reference, sum * factor(largest, reference) + of_piece]);
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        let ([a, sum_a], [b, sum_b]) = (read(state), read(later));
        let reference = if b > a { b } else { a };
        write(state, [reference, sum_a * factor(a, reference) + sum_b * factor(b, reference)]);
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        let [largest, sum] = read(state);
        results.take::<f32>(0)[0] = largest + sum.ln();
    }
}

/// `exp(x)` for x ≤ 0 in a form that compilers vectorize: 2ⁱ·exp(r) with |r| ≤ ln 2 / 2, and exp(r) by the polynomial of Cephes.
/// 0 below the least normal number.
fn exponential(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    let inside = if x < LOWEST { LOWEST } else { x };
    let whole = (inside * std::f32::consts::LOG2_E - 0.5) as i32;
    let n = whole as f32;
    let r = inside - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let series = p.into_iter().fold(1.987_569_1e-4, |sum, c| sum * r + c);
    let exp = series * (r * r) + r + 1.0;
    let scaled = exp * f32::from_bits(((whole + 127) as u32) << 23);
    if x < LOWEST { 0.0 } else { scaled }
}

const F32: ElemType = ElemType::Float(FloatKind::F32);
const U32: ElemType = ElemType::UInt(UIntKind::U32);

fn block_fold(call: &KernelCall, device: &DeviceModel) -> Result<Arc<dyn BlockFold>, &'static str> {
    thread_fold(ThreadLogSumExp { device: *device }, DType::F32, call.rows().1, device)
}

/// The fold of a thread on a GPU, with the state of [`LogSumExp`].
#[derive(Debug)]
struct ThreadLogSumExp {
    device: DeviceModel,
}

#[cube]
fn largest(a: f32, b: f32) -> f32 {
    select(b > a, b, a)
}

/// The exponential of minus the distance of two numbers; 1 for equal infinities.
#[cube]
fn nearness(a: f32, b: f32) -> f32 {
    select(a == b, 1.0f32, f32::exp(-f32::abs(a - b)))
}

/// The sum with an element: one exponential scales the sum down, or is added to it.
#[cube]
fn with_element(most: f32, sum: f32, x: f32) -> f32 {
    let e = nearness(x, most);
    select(x > most, sum * e + 1.0f32, sum + e)
}

#[cube]
fn merged(most: f32, sum: f32, other: f32, other_sum: f32) -> f32 {
    let reference = largest(most, other);
    sum * nearness(most, reference) + other_sum * nearness(other, reference)
}

#[cube]
fn logarithm(most: f32, sum: f32) -> f32 {
    most + f32::ln(sum)
}

impl ThreadFold for ThreadLogSumExp {
    fn state(&self) -> Vec<DType> {
        vec![DType::F32; 2]
    }

    fn init(&self, scope: &mut Scope) -> Vec<Variable> {
        let code = &mut Code::new(scope, U32, self.device);
        [f64::from(f32::MIN), 0.0].map(|value| code.float(F32, value)).to_vec()
    }

    fn step(&self, scope: &mut Scope, state: &[Variable], value: Variable, _: Variable) {
        let code = &mut Code::new(scope, U32, self.device);
        let [most, sum] = [0, 1].map(|i| code.snapshot(state[i]));
        let [own_most, own_sum, x] = [most, sum, value].map(native::<f32>);
        let next_sum = with_element::expand(code.scope, own_most, own_sum, x);
        let [own_most, x] = [most, value].map(native::<f32>);
        let next_most = largest::expand(code.scope, own_most, x);
        code.assign(state[0], next_most.into());
        code.assign(state[1], next_sum.into());
    }

    fn merge(&self, scope: &mut Scope, state: &[Variable], other: &[Variable]) {
        let code = &mut Code::new(scope, U32, self.device);
        let own = [0, 1].map(|i| code.snapshot(state[i]));
        let [most, sum, other_most, other_sum] = [own[0], own[1], other[0], other[1]].map(native::<f32>);
        let next_sum = merged::expand(code.scope, most, sum, other_most, other_sum);
        let [most, other_most] = [own[0], other[0]].map(native::<f32>);
        let next_most = largest::expand(code.scope, most, other_most);
        code.assign(state[0], next_most.into());
        code.assign(state[1], next_sum.into());
    }

    fn finish(&self, scope: &mut Scope, state: &[Variable]) -> Vec<Variable> {
        vec![logarithm::expand(scope, native(state[0]), native(state[1])).into()]
    }
}

/// The oracle in double precision.
fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let (n_rows, n) = call.rows();
    let x = args[0].to_f64();
    let of_row = |row: usize| {
        let elements = &x[row * n..][..n];
        let largest = elements.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let reference = if largest.is_infinite() { 0.0 } else { largest };
        reference + elements.iter().map(|x| (x - reference).exp()).sum::<f64>().ln()
    };
    vec![OracleTensor::floats(DType::F32, &call.outputs[0].extents(), (0..n_rows).map(of_row).collect())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_near_those_of_the_library() {
        for i in 0..100_000 {
            let x = -(i as f32) * 1e-3;
            let (found, exact) = (f64::from(exponential(x)), f64::from(x).exp());
            assert!((found - exact).abs() <= 2e-7 * exact + 1e-37, "{x}: {found} instead of {exact}");
        }
        assert!(exponential(f32::NAN).is_nan());
        assert_eq!((exponential(0.0), exponential(f32::NEG_INFINITY)), (1.0, 0.0));
    }

    /// Pieces of rows with infinities and NaN, and an empty row, by the state and by the definition.
    #[test]
    fn states_of_special_rows_hold() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let rows: [(&[f32], f32); 7] = [
            (&[], -inf),
            (&[-inf, -inf], -inf),
            (&[-inf, 2.0], 2.0),
            (&[1.0, inf, inf, 3.0], inf),
            (&[f32::MIN, -inf], f32::MIN),
            (&[0.0, nan, inf], nan),
            (&[f32::MAX, 1.0], f32::MAX),
        ];
        for (row, expected) in rows {
            for cut in 0..=row.len() {
                let mut states = [[0; 2]; 2];
                for (state, piece) in states.iter_mut().zip([&row[..cut], &row[cut..]]) {
                    LogSumExp.init(state);
                    LogSumExp.step(state, 0, Elements::of(piece, DType::F32));
                }
                let [mut first, second] = states;
                LogSumExp.merge(&mut first, &second);
                let [largest, sum] = read(&first);
                let found = largest + sum.ln();
                assert!(
                    found == expected || (found.is_nan() && expected.is_nan()),
                    "{row:?}, {cut}: {found}"
                );
            }
        }
    }
}
