//! Kernels that compute each matrix of a batch by itself.
//!
//! The host kernel and the oracle share one function, generic over the float. A GPU has a body of its own.

use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::Float;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::gpu::{GpuArgument, GpuArguments, GpuKernel, GpuLaunch, View};
use engine_core::op::kernel::{Element, KernelCall, Lent};
use engine_core::op::{GpuForm, HostKernel, KernelForm, Lower};
use engine_core::oracle::OracleTensor;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

/// Floats that matrices are computed in.
pub trait Real:
    Element
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The distance from 1 to the next number.
    const EPSILON: Self;
    /// The largest finite number.
    const MAX: Self;
    /// The nearest float.
    fn of(x: f64) -> Self;
    /// Square root; NaN below 0.
    fn sqrt(self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
}

macro_rules! real {
    ($($ty:ident)*) => {$(
        impl Real for $ty {
            const EPSILON: $ty = $ty::EPSILON;
            const MAX: $ty = $ty::MAX;
            fn of(x: f64) -> $ty {
                x as $ty
            }
            fn sqrt(self) -> $ty {
                $ty::sqrt(self)
            }
            fn abs(self) -> $ty {
                $ty::abs(self)
            }
        }
    )*};
}
real!(f32 f64);

/// The sum of products of the elements of two slices, from the first to the last.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::of(0.0), |sum, (&a, &b)| sum + a * b)
}

/// The operands of one matrix; the second is empty if there is none.
pub type Operands<'a, T> = [&'a [T]; 2];
/// The results of one matrix. Those it lacks are empty.
pub struct Results<'a, T> {
    /// Matrices.
    pub matrices: [&'a mut [T]; 2],
    /// The order of rows, the result after the first matrix.
    pub order: &'a mut [i32],
}

/// The blocks of a launch and the threads of each.
pub struct Grid {
    /// Blocks.
    pub cubes: usize,
    /// Threads of a block.
    pub threads: usize,
}

/// An algorithm on one matrix of a call of known shapes.
pub trait Algorithm: Copy + Send + Sync + 'static {
    /// Name of its kernels.
    const NAME: &'static str;
    /// The algorithm for a call.
    fn of(call: &KernelCall) -> Self;
    /// Computes the results of one matrix.
    fn run<T: Real>(self, operands: Operands<T>, results: Results<T>);
    /// The grid for `count` matrices.
    fn grid(self, count: usize, device: &DeviceModel) -> Grid;
    /// Appends the code of a thread. Arguments are all operands, then all results.
    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, threads: usize);
}

/// The lowering of an op to an algorithm.
pub fn lowered<A: Algorithm>() -> Lower {
    Lower::Kernel(KernelForm {
        host: Arc::new(|call| match call.inputs[0].dtype {
            DType::F64 => host::<A, f64>(call),
            _ => host::<A, f32>(call),
        }),
        oracle: Arc::new(oracle::<A>),
        gpu: GpuForm::Launches(Arc::new(gpu::<A>)),
    })
}

/// Matrices of a call.
fn count(call: &KernelCall) -> usize {
    let extents = call.inputs[0].extents();
    extents[..extents.len() - 2].iter().product()
}

/// Whether the second result is an order of rows.
fn has_order(call: &KernelCall) -> bool {
    call.outputs.get(1).is_some_and(|ty| ty.dtype == DType::I32)
}

/// The maximum number of parts over which matrices are spread.
const MAX_PARTS: usize = 64;

fn host<A: Algorithm, T: Real>(call: &KernelCall) -> HostKernel {
    let (algorithm, count) = (A::of(call), count(call));
    let (n_inputs, has_order) = (call.inputs.len(), has_order(call));
    let n_matrices = call.outputs.len() - usize::from(has_order);
    HostKernel {
        workspace_bytes: 0,
        run: Box::new(move |lent: &mut Lent| {
            let given = [0, 1].map(|i| if i < n_inputs { lent.input::<T>(i) } else { &[] });
            lent.parallel_for(count, count.min(MAX_PARTS), &|mut part| {
                for matrix in part.units.clone() {
                    let operands = given.map(|all| of_matrix(all, matrix, count));
                    let mut results = part.results.unit(matrix);
                    let mut of = |i| if i < n_matrices { results.take::<T>(i) } else { &mut [] };
                    let matrices = [of(0), of(1)];
                    let order = if has_order { results.take::<i32>(1) } else { &mut [] };
                    algorithm.run(operands, Results { matrices, order });
                }
            });
        }),
    }
}

fn of_matrix<T>(all: &[T], matrix: usize, count: usize) -> &[T] {
    let n = all.len() / count;
    &all[matrix * n..(matrix + 1) * n]
}

fn oracle<A: Algorithm>(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let (algorithm, count) = (A::of(call), count(call));
    let given: Vec<Vec<f64>> = args.iter().map(|arg| arg.to_f64()).collect();
    let numel = |i: usize| call.outputs.get(i).map_or(0, |ty| ty.numel());
    let n_order = if has_order(call) { numel(1) } else { 0 };
    let mut found = [vec![0.0; numel(0)], vec![0.0; numel(1) - n_order]];
    let mut order = vec![0; n_order];
    for matrix in 0..count {
        let operands = [0, 1].map(|i| given.get(i).map_or(&[][..], |all| of_matrix(all, matrix, count)));
        let matrices = found.each_mut().map(|all| of_matrix_mut(all, matrix, count));
        algorithm.run(operands, Results { matrices, order: of_matrix_mut(&mut order, matrix, count) });
    }
    let order = order.into_iter().map(i64::from).collect();
    let typed = call.outputs.iter().zip(found);
    let matrices = typed.map(|(ty, elements)| OracleTensor::floats(ty.dtype, &ty.extents(), elements));
    match call.outputs.get(1).filter(|_| has_order(call)) {
        Some(ty) => matrices.take(1).chain([OracleTensor::ints(ty.dtype, &ty.extents(), order)]).collect(),
        None => matrices.collect(),
    }
}

fn of_matrix_mut<T>(all: &mut [T], matrix: usize, count: usize) -> &mut [T] {
    let n = all.len() / count;
    &mut all[matrix * n..(matrix + 1) * n]
}

fn gpu<A: Algorithm>(call: &KernelCall, device: &DeviceModel) -> GpuKernel {
    let algorithm = A::of(call);
    let Grid { cubes, threads } = algorithm.grid(count(call), device);
    let dtype = call.inputs[0].dtype;
    let inputs = (0..call.inputs.len()).map(|i| GpuArgument::Input(i, View::Elements));
    let outputs = (0..call.outputs.len()).map(|i| GpuArgument::Output(i, View::Elements));
    let launch = GpuLaunch {
        name: A::NAME,
        cubes: if call.outputs.iter().all(|ty| ty.numel() == 0) { 0 } else { cubes },
        threads,
        arguments: inputs.chain(outputs).collect(),
        scalars: vec![],
        body: Arc::new(move |scope, given| match dtype {
            DType::F64 => algorithm.emit::<f64>(scope, given, threads),
            _ => algorithm.emit::<f32>(scope, given, threads),
        }),
    };
    GpuKernel { workspace_bytes: 0, launches: vec![launch] }
}
