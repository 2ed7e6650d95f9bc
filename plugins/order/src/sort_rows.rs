//! `sort_rows`.

use crate::axis::{dtype, expect_rows, operand, scattered};
use crate::rank::{Entry, Ranked, with_element};
use crate::sort_gpu;
use engine_core::ir::{DType, Type};
use engine_core::op::kernel::{KernelCall, Lent, Part};
use engine_core::op::{
    AttrKind, AttrSpec, Example, GpuForm, Grad, GradCheck, HostKernel, KernelForm, Lower, OpForm, Role,
    Rounding, TypeIssue, TypeRule,
};
use engine_core::oracle::OracleTensor;
use std::cmp::Ordering;
use std::sync::Arc;

/// A stable sort along the last axis, with the former index of each element. The gradient of the values goes back to
/// these indices.
pub fn sort_rows() -> OpForm {
    OpForm {
        name: "sort_rows".into(),
        family: "order".into(),
        summary: "Sorts each row along the last axis, stably, and returns the former index of each element."
            .into(),
        inputs: operand(),
        outputs: vec!["values".into(), "indices".into()],
        attrs: attrs(),
        types: TypeRule::custom(|inputs, _| types("sort_rows", &inputs[0])),
        lower: Lower::Kernel(KernelForm {
            host: Arc::new(host),
            oracle: Arc::new(|call, args| ordered(call, args[0], call.attrs().bool("descending"), None)),
            gpu: GpuForm::Launches(Arc::new(|call, device| {
                sort_gpu::sorted(call, call.attrs().bool("descending"), call.rows().1, device)
            })),
        }),
        grad: Grad::rule(|b, call| {
            vec![call.grads[0].map(|grad| scattered(b, call.inputs[0], call.outputs[1], grad))]
        }),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example::new(
            "equal elements keep their order",
            "sort_rows(a, descending=true)",
            &[("f32[2, 3]", &[1.0, 3.0, 1.0, -0.0, 0.0, -2.0])],
            &[
                ("f32[2, 3]", &[3.0, 1.0, 1.0, 0.0, 0.0, -2.0]),
                ("i32[2, 3]", &[1.0, 0.0, 2.0, 0.0, 1.0, 2.0]),
            ],
        )],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// `descending`.
pub fn attrs() -> Vec<AttrSpec> {
    vec![AttrSpec::with_default(
        "descending",
        "whether the largest comes first; NaN is last either way",
        AttrKind::Bool,
        false,
    )]
}

/// Types of values and indices.
pub fn types(op: &str, x: &Type) -> Result<Vec<Type>, TypeIssue> {
    expect_rows(op, x)?;
    Ok(vec![x.clone(), x.with_dtype(DType::I32)])
}

/// The sorted rows of `x`, and the former index of each element. With `first`, only that many of each row, padded with
/// a number and index -1.
pub fn ordered(
    call: &KernelCall,
    x: &OracleTensor,
    descending: bool,
    first: Option<(usize, f64)>,
) -> Vec<OracleTensor> {
    let (n_rows, n) = call.rows();
    let (count, fill) = first.unwrap_or((n, 0.0));
    let (mut values, mut indices) = (vec![], vec![]);
    for row in 0..n_rows {
        let mut order: Vec<usize> = (row * n..(row + 1) * n).collect();
        order.sort_by(|&a, &b| compare(x, a, b, descending));
        order.truncate(count);
        let n_missing = count - order.len();
        values.extend(order.iter().map(|&i| x.float(i)).chain(std::iter::repeat_n(fill, n_missing)));
        indices.extend(order.iter().map(|&i| (i - row * n) as i64).chain(std::iter::repeat_n(-1, n_missing)));
    }
    let [out, out_indices] = [&call.outputs[0], &call.outputs[1]];
    vec![
        OracleTensor::new(out.dtype, &out.extents(), &values),
        OracleTensor::ints(out_indices.dtype, &out_indices.extents(), indices),
    ]
}

fn compare(x: &OracleTensor, a: usize, b: usize, descending: bool) -> Ordering {
    if !x.dtype.is_float() {
        let order = x.int(a).cmp(&x.int(b));
        return if descending { order.reverse() } else { order };
    }
    let (a, b) = (x.float(a), x.float(b));
    let order = a.partial_cmp(&b).map(|order| if descending { order.reverse() } else { order });
    // NaN is last, and equal to itself.
    order.unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The maximum number of parts over which rows are spread. More parts would not balance better.
const MAX_PARTS: usize = 64;

fn host(call: &KernelCall) -> HostKernel {
    let (n_rows, n) = call.rows();
    let descending = call.attrs().bool("descending");
    with_element!(dtype(call), T => match T::IS_NARROW {
        true => kernel::<T, u64>(n_rows, n, descending),
        false => kernel::<T, [u64; 2]>(n_rows, n, descending),
    })
}

fn kernel<T: Ranked, E: Entry>(n_rows: usize, n: usize, descending: bool) -> HostKernel {
    let n_parts = n_rows.min(MAX_PARTS);
    HostKernel {
        workspace_bytes: n_parts * n * size_of::<E>(),
        run: Box::new(move |lent: &mut Lent| {
            let x = lent.input::<T>(0);
            lent.parallel_for(n_rows, n_parts, &|part| sort_part::<T, E>(part, x, n, descending));
        }),
    }
}

fn sort_part<T: Ranked, E: Entry>(mut part: Part, x: &[T], n: usize, descending: bool) {
    let entries = &mut E::slice(part.workspace)[..n];
    for row in part.units.clone() {
        let elements = &x[row * n..(row + 1) * n];
        for (i, (entry, x)) in entries.iter_mut().zip(elements).enumerate() {
            *entry = E::new(x.rank(descending), i);
        }
        // No two entries are equal, so an unstable sort is stable here.
        entries.sort_unstable();
        let mut results = part.results.unit(row);
        let (values, indices) = (results.take::<T>(0), results.take::<i32>(1));
        for (entry, (value, index)) in entries.iter().zip(values.iter_mut().zip(indices)) {
            *value = T::of_rank(entry.rank(), descending);
            *index = entry.index() as i32;
        }
    }
}
