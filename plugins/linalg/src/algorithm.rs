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
/// The results of one matrix; the second is empty if there is none.
pub type Results<'a, T> = [&'a mut [T]; 2];

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

/// The maximum number of parts over which matrices are spread.
const MAX_PARTS: usize = 64;

fn host<A: Algorithm, T: Real>(call: &KernelCall) -> HostKernel {
    let (algorithm, count) = (A::of(call), count(call));
    let (n_inputs, n_outputs) = (call.inputs.len(), call.outputs.len());
    HostKernel {
        workspace_bytes: 0,
        run: Box::new(move |lent: &mut Lent| {
            let given = [0, 1].map(|i| if i < n_inputs { lent.input::<T>(i) } else { &[] });
            lent.parallel_for(count, count.min(MAX_PARTS), &|mut part| {
                for matrix in part.units.clone() {
                    let operands = given.map(|all| of_matrix(all, matrix, count));
                    let mut results = part.results.unit(matrix);
                    let results = [0, 1].map(|i| if i < n_outputs { results.take::<T>(i) } else { &mut [] });
                    algorithm.run(operands, results);
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
    let mut found: Vec<Vec<f64>> = call.outputs.iter().map(|ty| vec![0.0; ty.numel()]).collect();
    for matrix in 0..count {
        let operands = [0, 1].map(|i| given.get(i).map_or(&[][..], |all| of_matrix(all, matrix, count)));
        let mut results = found.iter_mut().map(|all| {
            let n = all.len() / count;
            &mut all[matrix * n..(matrix + 1) * n]
        });
        let results = [0, 1].map(|_| results.next().unwrap_or(&mut []));
        algorithm.run(operands, results);
    }
    let typed = call.outputs.iter().zip(found);
    typed.map(|(ty, elements)| OracleTensor::floats(ty.dtype, &ty.extents(), elements)).collect()
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
