//! `row_moments`: a streaming row reduction with code for GPUs, by the algorithm of Welford (1962) and Chan (1979).

use std::sync::Arc;

use engine::core::codegen::{Code, native, thread_fold};
use engine::core::cubecl;
use engine::core::cubecl::ir::{ElemType, FloatKind, Scope, UIntKind, Variable};
use engine::core::cubecl::prelude::*;
use engine::core::device_model::DeviceModel;
use engine::core::ir::{DType, Type};
use engine::core::op::gpu::{BlockFold, ThreadFold};
use engine::core::op::kernel::{Elements, KernelCall, Share};
use engine::core::op::{
    Example, Grad, GradCheck, InputSpec, KernelForm, Lower, OpForm, Role, Rounding, RowFold, RowReduction,
    TypeIssue, TypeRule,
};
use engine::core::oracle::OracleTensor;

/// The mean and the variance of each row along the last axis. Behind a matmul, the product is never stored.
pub fn row_moments() -> OpForm {
    let reduction = RowReduction::new(|_| Box::new(Moments)).on_gpu(block_fold);
    OpForm {
        name: "row_moments".into(),
        family: "my_plugin".into(),
        summary: "Computes the mean and the variance of each row along the last axis.".into(),
        inputs: vec![InputSpec::required("x", "rows")],
        outputs: vec!["mean".into(), "variance".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| {
            let x = &inputs[0];
            match x.dtype == DType::F32 && x.rank() >= 1 {
                true => Ok(vec![Type { dtype: DType::F32, shape: x.shape[..x.rank() - 1].to_vec() }; 2]),
                false => Err(TypeIssue::new("`row_moments` takes rows of f32").at(0, format!("it is {x}"))),
            }
        }),
        lower: Lower::Kernel(KernelForm::of_rows(&reduction, Arc::new(oracle))),
        grad: Grad::None { why: "it measures" },
        check: GradCheck::None { why: "it has no gradient" },
        examples: vec![Example::new(
            "two rows",
            "row_moments(a)",
            &[("f32[2, 4]", &[1.0, 3.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0])],
            &[("f32[2]", &[2.0, 5.0]), ("f32[2]", &[0.5, 0.0])],
        )],
        role: Role::RowReduction(reduction),
        rounding: Rounding::Never,
    }
}

/// The fold on the CPU. State: the number of elements, their mean, and the sum of their squared distances from it.
struct Moments;

fn merged(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    let count = (a[0] + b[0]).max(1.0);
    let distance = b[1] - a[1];
    [a[0] + b[0], a[1] + distance * b[0] / count, a[2] + b[2] + distance * distance * (a[0] * b[0] / count)]
}

fn merge_into(state: &mut [u64], other: [f64; 3]) {
    let own = [0, 1, 2].map(|i| f64::from_bits(state[i]));
    state.iter_mut().zip(merged(own, other)).for_each(|(word, value)| *word = value.to_bits());
}

impl RowFold for Moments {
    fn state_words(&self) -> usize {
        3
    }

    fn init(&self, state: &mut [u64]) {
        state.fill(0);
    }

    fn step(&self, state: &mut [u64], _: usize, piece: Elements) {
        piece.get::<f32>().iter().for_each(|&x| merge_into(state, [1.0, f64::from(x), 0.0]));
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        merge_into(state, [0, 1, 2].map(|i| f64::from_bits(later[i])));
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        let [count, mean, squares] = [0, 1, 2].map(|i| f64::from_bits(state[i]));
        results.take::<f32>(0)[0] = mean as f32;
        results.take::<f32>(1)[0] = (squares / count.max(1.0)) as f32;
    }
}

const F32: ElemType = ElemType::Float(FloatKind::F32);
const U32: ElemType = ElemType::UInt(UIntKind::U32);

fn block_fold(call: &KernelCall, device: &DeviceModel) -> Result<Arc<dyn BlockFold>, &'static str> {
    thread_fold(ThreadMoments { device: *device }, DType::F32, call.rows().1, device)
}

/// The fold of a thread on a GPU, with the state of [`Moments`] in `f32`.
#[derive(Debug)]
struct ThreadMoments {
    device: DeviceModel,
}

#[cube]
fn merged_mean(count: f32, mean: f32, other_count: f32, other_mean: f32) -> f32 {
    let total = max(count + other_count, 1.0f32);
    mean + (other_mean - mean) * (other_count / total)
}

#[cube]
fn merged_squares(
    count: f32,
    mean: f32,
    squares: f32,
    other_count: f32,
    other_mean: f32,
    other_squares: f32,
) -> f32 {
    let total = max(count + other_count, 1.0f32);
    let distance = other_mean - mean;
    squares + other_squares + distance * distance * (count * other_count / total)
}

#[cube]
fn total(count: f32, other: f32) -> f32 {
    count + other
}

#[cube]
fn variance(count: f32, squares: f32) -> f32 {
    squares / max(count, 1.0f32)
}

impl ThreadFold for ThreadMoments {
    fn state(&self) -> Vec<DType> {
        vec![DType::F32; 3]
    }

    fn init(&self, scope: &mut Scope) -> Vec<Variable> {
        let code = &mut Code::new(scope, U32, self.device);
        vec![code.float(F32, 0.0); 3]
    }

    fn step(&self, scope: &mut Scope, state: &[Variable], value: Variable, _: Variable) {
        let code = &mut Code::new(scope, U32, self.device);
        let [one, zero] = [1.0, 0.0].map(|number| code.float(F32, number));
        self.merge(code.scope, state, &[one, value, zero]);
    }

    fn merge(&self, scope: &mut Scope, state: &[Variable], other: &[Variable]) {
        let code = &mut Code::new(scope, U32, self.device);
        let a = [0, 1, 2].map(|i| code.snapshot(state[i]));
        let [n, mean, squares] = a.map(native);
        let [other_n, other_mean, other_squares] = [other[0], other[1], other[2]].map(native);
        let squares =
            merged_squares::expand(code.scope, n, mean, squares, other_n, other_mean, other_squares);
        let [n, mean] = [a[0], a[1]].map(native);
        let [other_n, other_mean] = [other[0], other[1]].map(native);
        let mean = merged_mean::expand(code.scope, n, mean, other_n, other_mean);
        let count = total::expand(code.scope, native(a[0]), native(other[0]));
        let merged = [count.into(), mean.into(), squares.into()];
        state.iter().zip(merged).for_each(|(&local, value)| code.assign(local, value));
    }

    fn finish(&self, scope: &mut Scope, state: &[Variable]) -> Vec<Variable> {
        let variance = variance::expand(scope, native(state[0]), native(state[2]));
        vec![state[1], variance.into()]
    }
}

/// The oracle in double precision.
fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let (n_rows, n) = call.rows();
    let x = args[0].to_f64();
    let moments = |row: usize| {
        let elements = x[row * n..][..n].iter();
        elements.fold([0.0; 3], |state, &x| merged(state, [1.0, x, 0.0]))
    };
    let moments: Vec<[f64; 3]> = (0..n_rows).map(moments).collect();
    let of = |value: fn(&[f64; 3]) -> f64| {
        OracleTensor::floats(DType::F32, &call.outputs[0].extents(), moments.iter().map(value).collect())
    };
    vec![of(|state| state[1]), of(|state| state[2] / state[0].max(1.0))]
}
