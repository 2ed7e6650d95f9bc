//! `topk_rows`.

use crate::axis::{dtype, expect_rows, operand, scattered};
use crate::rank::{Ranked, with_element};
use crate::rank_words::Order;
use crate::select::Select;
use crate::sort_gpu;
use crate::sort_rows::ordered;
use crate::topk_ending::ValuesAndIndices;
use crate::topk_gpu::selection;
use engine_core::codegen::fold_rows;
use engine_core::device_model::DeviceModel;
use engine_core::ir::{Attrs, Binary, Builder, DType, Dim, Type, Value};
use engine_core::op::gpu::BlockFold;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{
    AttrKind, AttrSpec, Example, GpuForm, Grad, GradCall, GradCheck, KernelForm, Lower, OpForm, Role,
    Rounding, RowFold, RowReduction, TypeIssue, TypeRule,
};
use engine_core::oracle::OracleTensor;
use std::sync::Arc;

/// The first k along the last axis: `[..., n]` to values `[..., k]` and indices `i32[..., k]`. The gradient of the
/// values goes to the selected elements.
pub fn topk_rows() -> OpForm {
    let monoid = RowReduction::new(fold).on_gpu(block_fold).with_positions(1);
    let gpu = GpuForm::Launches(Arc::new(|call, device| match block_fold(call, device) {
        Ok(fold) => fold_rows(fold, call, device),
        Err(_) => sort_gpu::sorted(call, is_descending(call), k(call), device),
    }));
    OpForm {
        name: "topk_rows".into(),
        family: "order".into(),
        summary: "Takes the k largest or smallest elements of each row along the last axis, in order.".into(),
        inputs: operand(),
        outputs: vec!["values".into(), "indices".into()],
        attrs: attrs(),
        types: TypeRule::custom(|inputs, attrs| {
            types("topk_rows", &inputs[0], inputs[0].rank().max(1) - 1, attrs)
        }),
        lower: Lower::Kernel(KernelForm { gpu, ..KernelForm::of_rows(&monoid, Arc::new(oracle)) }),
        grad: Grad::rule(gradient),
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "the two largest, ties by index",
                "topk_rows(a, k=2)",
                &[("f32[2, 4]", &[1.0, 3.0, 2.0, 3.0, -1.0, -4.0, -2.0, -3.0])],
                &[("f32[2, 2]", &[3.0, 3.0, -1.0, -2.0]), ("i32[2, 2]", &[1.0, 3.0, 0.0, 2.0])],
            ),
            Example::new(
                "more than there are, padded",
                "topk_rows(a, k=3, largest=false, pad=true)",
                &[("i32[2]", &[1.0, -3.0])],
                &[("i32[3]", &[-3.0, 1.0, 2147483647.0]), ("i32[3]", &[1.0, 0.0, -1.0])],
            ),
        ],
        role: Role::RowReduction(monoid),
        rounding: Rounding::Never,
    }
}

/// `k`, `largest` and `pad`.
pub fn attrs() -> Vec<AttrSpec> {
    vec![
        AttrSpec::must("k", "how many, at least 1", AttrKind::Int),
        AttrSpec::with_default(
            "largest",
            "the largest rather than the smallest; NaN is last in both",
            AttrKind::Bool,
            true,
        ),
        AttrSpec::with_default(
            "pad",
            "whether k may exceed the row: index -1 and an infinity (of integers, the extreme) fill up",
            AttrKind::Bool,
            false,
        ),
    ]
}

/// Types of values and indices along `axis`.
pub fn types(op: &str, x: &Type, axis: usize, attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    expect_rows(op, x)?;
    let k = attrs.int("k");
    let Some(k) = usize::try_from(k).ok().filter(|k| *k >= 1) else {
        return Err(TypeIssue::new(format!("`{op}` of k = {k}")).help("k is at least 1"));
    };
    if let (Dim::Fixed(n), false) = (&x.shape[axis], attrs.bool("pad"))
        && k > *n
    {
        return Err(TypeIssue::new(format!("`{op}` of k = {k} from {n} elements"))
            .at(0, format!("this is {x}"))
            .help("`pad=true` fills up with index -1"));
    }
    let mut values = x.clone();
    values.shape[axis] = Dim::Fixed(k);
    Ok(vec![values.clone(), values.with_dtype(DType::I32)])
}

fn fold(call: &KernelCall) -> Box<dyn RowFold> {
    let (k, descending) = (k(call), is_descending(call));
    with_element!(dtype(call), T => match T::IS_NARROW {
        true => Box::new(Select::<T, u64>::new(k, descending)),
        false => Box::new(Select::<T, [u64; 2]>::new(k, descending)),
    })
}

fn k(call: &KernelCall) -> usize {
    call.attrs().int("k") as usize
}

fn is_descending(call: &KernelCall) -> bool {
    call.attrs().bool("largest")
}

fn block_fold(call: &KernelCall, device: &DeviceModel) -> Result<Arc<dyn BlockFold>, &'static str> {
    let order = Order { dtype: dtype(call), is_descending: is_descending(call), is_nan_first: false };
    selection(k(call), order, call.rows().1, Arc::new(ValuesAndIndices), device)
}

fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let (k, descending) = (k(call), is_descending(call));
    ordered(call, args[0], descending, Some((k, last(dtype(call), descending))))
}

/// The number that comes last.
fn last(dtype: DType, descending: bool) -> f64 {
    let (least, most) = match dtype.int_range() {
        Some((least, most)) => (least as f64, most as f64),
        None if dtype == DType::Bool => (0.0, 1.0),
        None => (f64::NEG_INFINITY, f64::INFINITY),
    };
    if descending { least } else { most }
}

fn gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let (x, indices) = (call.inputs[0], call.outputs[1]);
    let Some(grad) = call.grads[0] else { return vec![None] };
    if !call.attrs.bool("pad") {
        return vec![Some(scattered(b, x, indices, grad))];
    }
    // Padding has no source: its gradient, zero, goes to element 0.
    let zero = b.full_like(indices, 0.0);
    let is_there = b.binary(Binary::Ge, indices, zero);
    let index = b.binary(Binary::Max, indices, zero);
    let none = b.full_like(grad, 0.0);
    let grad = b.scalar(engine_core::ir::Scalar::Select, &[is_there, grad, none]);
    vec![Some(scattered(b, x, index, grad))]
}
