//! `running_median`: a kernel. A scalar body cannot express it, and an expansion would be slow.

use std::sync::Arc;

use engine::core::cubecl;
use engine::core::cubecl::prelude::*;
use engine::core::device_model::DeviceModel;
use engine::core::ir::{Combine, DType};
use engine::core::op::gpu::{GpuArgument, GpuKernel, GpuLaunch, View};
use engine::core::op::kernel::{KernelCall, Lent};
use engine::core::op::{GpuForm, Grad, HostKernel, KernelForm, Lower, OpForm, TypeIssue};
use engine::core::oracle::OracleTensor;

/// The median of each element and its two neighbours along the last axis. Elements at the ends are unchanged. The
/// gradient goes to the selected element, whose index is the second result.
pub fn running_median() -> OpForm {
    OpForm::new(
        "running_median",
        "Takes the median of each element and its two neighbours along the last axis.",
    )
    .input("x", "rows to smooth")
    .results(&["values", "indices"])
    .types(|inputs, _| {
        let x = &inputs[0];
        match x.dtype == DType::F32 && x.rank() >= 1 {
            true => Ok(vec![x.clone(), x.with_dtype(DType::I32)]),
            false => Err(TypeIssue::new("`running_median` takes rows of f32").at(0, format!("it is {x}"))),
        }
    })
    .lower(Lower::Kernel(KernelForm {
        host: Arc::new(host),
        oracle: Arc::new(oracle),
        gpu: GpuForm::Launches(Arc::new(gpu)),
    }))
    .grad(Grad::rule(|b, call| {
        let Some(grad) = call.grads[0] else { return vec![None] };
        let zeros = b.full_like(call.inputs[0], 0.0);
        let axis = b.extents(zeros).len() - 1;
        // The axis is the last one; all axes before it count rows.
        vec![Some(b.scatter(zeros, call.outputs[1], grad, axis, axis, Combine::Add))]
    }))
    .example(
        "a spike goes",
        "running_median(a)",
        &[("f32[2, 4]", &[1.0, 9.0, 2.0, 3.0, 4.0, 3.0, 5.0, 6.0])],
        &[
            ("f32[2, 4]", &[1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 6.0]),
            ("i32[2, 4]", &[0.0, 2.0, 3.0, 3.0, 0.0, 0.0, 2.0, 3.0]),
        ],
    )
}

/// The index in the row of the median of an element and its neighbours.
fn median<T: PartialOrd>(row: &[T], i: usize) -> usize {
    if i == 0 || i + 1 >= row.len() {
        return i;
    }
    let (mut low, mut middle, high) = (i - 1, i, i + 1);
    if row[middle] < row[low] {
        (low, middle) = (middle, low);
    }
    match (row[high] < row[middle], row[high] < row[low]) {
        (false, _) => middle,
        (true, false) => high,
        (true, true) => low,
    }
}

/// The maximum number of parts. The cut into parts follows from the shape alone, so results do not depend on the number
/// of threads.
const MAX_PARTS: usize = 64;

fn host(call: &KernelCall) -> HostKernel {
    let (n_rows, n) = call.rows();
    HostKernel {
        workspace_bytes: 0,
        run: Box::new(move |lent: &mut Lent| {
            let x = lent.input::<f32>(0);
            lent.parallel_for(n_rows, n_rows.min(MAX_PARTS), &|mut part| {
                for row in part.units.clone() {
                    let elements = &x[row * n..(row + 1) * n];
                    let mut results = part.results.unit(row);
                    let (values, indices) = (results.take::<f32>(0), results.take::<i32>(1));
                    for i in 0..n {
                        let at = median(elements, i);
                        (values[i], indices[i]) = (elements[at], at as i32);
                    }
                }
            });
        }),
    }
}

/// Threads per block. Each thread computes one element.
const THREADS: usize = 256;

fn gpu(call: &KernelCall, _: &DeviceModel) -> GpuKernel {
    let (n_rows, n) = call.rows();
    let (input, output) = (GpuArgument::Input(0, View::Elements), |i| GpuArgument::Output(i, View::Elements));
    let launch = GpuLaunch {
        name: "running_median",
        cubes: (n_rows * n).div_ceil(THREADS),
        threads: THREADS,
        arguments: vec![input, output(0), output(1)],
        scalars: vec![n_rows * n],
        body: Arc::new(move |scope, given| {
            median_cube::expand(scope, given.array(0), given.array(1), given.array(2), given.scalar(0), n);
        }),
    };
    GpuKernel { workspace_bytes: 0, launches: vec![launch] }
}

/// A condition does not guard an access in the same expression, so neighbours are read only at elements that have two.
#[cube]
fn median_cube(
    x: &Array<f32>,
    values: &mut Array<f32>,
    indices: &mut Array<i32>,
    n_points: usize,
    #[comptime] n: usize,
) {
    let point = ABSOLUTE_POS;
    if point < n_points {
        let i = point % n;
        let mut at = i;
        if i > 0usize && i + 1usize < n {
            let is_swapped = x[point] < x[point - 1usize];
            let low = select(is_swapped, i, i - 1usize);
            let middle = select(is_swapped, i - 1usize, i);
            let start = point - i;
            at = middle;
            if x[point + 1usize] < x[start + middle] {
                at = select(x[point + 1usize] < x[start + low], low, i + 1usize);
            }
        }
        values[point] = x[point - i + at];
        indices[point] = at as i32;
    }
}

/// The oracle in double precision.
fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let (n_rows, n) = call.rows();
    let x = args[0].to_f64();
    let rows = (0..n_rows).map(|row| &x[row * n..(row + 1) * n]);
    let indices: Vec<i64> = rows.clone().flat_map(|row| (0..n).map(move |i| median(row, i) as i64)).collect();
    let values: Vec<f64> = rows
        .enumerate()
        .flat_map(|(row, x)| indices[row * n..][..n].iter().map(|&at| x[at as usize]))
        .collect();
    let extents = call.inputs[0].extents();
    vec![
        OracleTensor::floats(DType::F32, &extents, values),
        OracleTensor::ints(DType::I32, &extents, indices),
    ]
}
