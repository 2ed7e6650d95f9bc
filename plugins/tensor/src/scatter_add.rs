//! Indexed sums.

use crate::checked;
use crate::gather::{back, expect_alike, last};
use crate::indices::{expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Combine, DType, Type, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, TypeIssue,
    TypeRule,
};

/// The base with updates added at indices along an axis. A vector of indices names whole slices:
/// `y[…, idx[i], …] += updates[…, i, …]`; indices shaped like the updates name an element each:
/// `y[…, idx[…, i, …], …] += updates[…, i, …]`. What meets adds up, in f32 for the small floats. An update that is
/// skipped adds nothing.
pub fn scatter_add() -> OpForm {
    let axis = AttrSpec::with_default("axis", "the axis that is indexed", AttrKind::Int, 0i64);
    OpForm {
        name: "scatter_add".into(),
        family: "tensor".into(),
        summary: "Adds updates to a tensor at indices along an axis; what meets adds up.".into(),
        inputs: vec![
            InputSpec::required("base", "what is added to"),
            InputSpec::required("idx", "positions along the axis: a vector, or one for each update"),
            InputSpec::required("updates", "what is added"),
        ],
        outputs: vec!["y".into()],
        attrs: [axis].into_iter().chain(policy()).collect(),
        types: TypeRule::custom(|types, attrs| {
            let axis = types[0].axis(attrs.int("axis"))?;
            expect_index("scatter_add", 1, &types[1])?;
            expect_updates(&types[0], &types[1], &types[2], axis)?;
            Ok(vec![types[0].clone()])
        }),
        lower: Lower::expand(|b, call| vec![scattered(b, call)]),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "two rows meet",
                "scatter_add(a, b, c)",
                &[
                    ("f32[2, 2]", &[1., 1., 1., 1.]),
                    ("i32[3]", &[0., 1., 0.]),
                    ("f32[3, 2]", &[1., 2., 3., 4., 5., 6.]),
                ],
                &[("f32[2, 2]", &[7., 9., 4., 5.])],
            ),
            Example::new(
                "an element each",
                "scatter_add(a, b, c, axis=1)",
                &[("f32[2, 2]", &[0., 0., 0., 0.]), ("i32[2, 1]", &[1., 0.]), ("f32[2, 1]", &[5., 6.])],
                &[("f32[2, 2]", &[0., 5., 6., 0.])],
            ),
        ],
        role: Role::Plain,
    }
}

fn expect_updates(base: &Type, idx: &Type, updates: &Type, axis: usize) -> Result<(), TypeIssue> {
    let mismatch = |help: &str| {
        TypeIssue::new(format!("`scatter_add` of {updates} to {base} at {idx} along axis {axis}"))
            .at(2, format!("this is {updates}"))
            .help(help)
    };
    if base.dtype != updates.dtype || base.dtype == DType::Bool {
        return Err(mismatch("base and updates must be of one numeric type"));
    }
    expect_alike("scatter_add", base, 2, updates, axis)?;
    let fits = match idx.rank() == base.rank() {
        true => idx.shape == updates.shape,
        false => idx.rank() == 1 && idx.shape[0] == updates.shape[axis],
    };
    if fits { Ok(()) } else { Err(mismatch("give one index per slice of the updates, or one per element")) }
}

fn scattered(b: &mut Builder, call: &Lowering) -> Value {
    let given = call.inputs[0];
    let wide = b.dtype(given).accumulator();
    let base = b.cast(given, wide);
    let updates = b.cast(call.inputs[2], wide);
    let rank = b.ty(base).rank();
    let axis = checked(b.ty(base).axis(call.attrs.int("axis")));
    let idx = indices(b, call.inputs[1], b.extents(base)[axis], call);
    let y = if b.ty(idx.at).rank() == rank {
        let axes: Vec<usize> = (0..rank).collect();
        let updates = masked(b, updates, idx.counts, &axes);
        by_element(b, base, idx.at, updates, axis)
    } else {
        let updates = masked(b, updates, idx.counts, &[axis]);
        b.scatter(base, idx.at, updates, axis, 0, Combine::Add)
    };
    b.cast(y, b.dtype(given))
}

fn by_element(b: &mut Builder, base: Value, idx: Value, updates: Value, axis: usize) -> Value {
    let rank = b.ty(base).rank();
    let last = last(rank, axis);
    let [base, idx, updates] = [base, idx, updates].map(|x| b.permute(x, &last));
    let y = b.scatter(base, idx, updates, rank - 1, rank - 1, Combine::Add);
    b.permute(y, &back(rank, axis))
}
