//! Lists of different lengths.

use crate::indices::{expect_index, indices, masked, policy};
use engine_core::ir::{Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Lowering, OpForm, TypeIssue};

/// `y[r, j, …] = src[ids[lims[r] + j], …]` for `j < lims[r+1] - lims[r]`: the rows that each list of ids names, as [R,
/// W, …] padded with 0, and their positions. Ids need not be sorted, and lists may be empty. A list longer than W is an
/// index error. The gradient adds up at the ids.
pub fn ragged_gather() -> OpForm {
    OpForm::new(
        "ragged_gather",
        "Reads the rows that lists of different lengths name, filled up to one length.",
    )
    .follows_operands()
    .input("src", "[N, …], the source")
    .input("lims", "[R + 1], where each list begins, and where the last one ends")
    .input("ids", "all lists, one after the other")
    .results(&["y", "is_there"])
    .attr(AttrSpec::must("width", "W, the length of the longest list", AttrKind::Int))
    .attrs(policy())
    .types(|types, attrs| {
        let (src, lims, ids) = (&types[0], &types[1], &types[2]);
        expect_index("ragged_gather", 1, lims)?;
        expect_index("ragged_gather", 2, ids)?;
        let n_lims = lims.shape.first().and_then(|dim| dim.fixed());
        let width = usize::try_from(attrs.int("width")).ok();
        let (Some(n_lims @ 1..), Some(width)) = (n_lims, width) else {
            return Err(TypeIssue::new(format!("`ragged_gather` by limits {lims}"))
                .at(1, format!("this is {lims}"))
                .help("R lists have R + 1 limits, a known number, and a width of 0 or more"));
        };
        if src.rank() == 0 || lims.rank() != 1 || ids.rank() != 1 {
            return Err(TypeIssue::new(format!("`ragged_gather` of {src} by {lims} and {ids}"))
                .at(0, format!("this is {src}"))
                .help("it takes [N, …], [R + 1] and a vector of ids"));
        }
        let rows = vec![Dim::Fixed(n_lims - 1), Dim::Fixed(width)];
        let shape = rows.iter().chain(&src.shape[1..]).cloned().collect();
        Ok(vec![Type { dtype: src.dtype, shape }, Type { dtype: DType::Bool, shape: rows }])
    })
    .expand(rows)
    .example(
        "a list of two, an empty one and one of one",
        "ragged_gather(a, b, c, width=2)",
        &[("f32[3, 1]", &[1., 2., 3.]), ("i32[4]", &[0., 2., 2., 3.]), ("i32[3]", &[2., 0., 2.])],
        &[("f32[3, 2, 1]", &[3., 1., 0., 0., 3., 0.]), ("bool[3, 2]", &[1., 1., 0., 0., 1., 0.])],
    )
}

fn rows(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [src, lims, ids] = [call.inputs[0], call.inputs[1], call.inputs[2]];
    let width = call.attrs.int("width") as usize;
    let n_ids = b.extents(ids)[0];
    let n_lists = b.extents(lims)[0] - 1;
    let lims = b.cast(lims, DType::I32);
    let lims = b.check_index(lims, n_ids + 1);
    let [starts, ends] = [0, 1].map(|from| b.slice(lims, &[from], &[n_lists], &[1]));
    let lengths = b.sub(ends, starts);
    let lengths = b.check_index(lengths, width + 1);
    let ty = Type::new(DType::I32, &[n_lists, width]);
    let [starts, lengths] = [starts, lengths].map(|x| b.broadcast_axes(x, &[0], &ty.shape));
    let nth = b.iota(1, ty.clone());
    let is_there = b.map(&[nth, lengths], |v| v[0].lt(v[1]));
    if n_ids == 0 {
        // The source is empty, so there is nothing to read.
        let extents: Vec<usize> = [n_lists, width].iter().chain(&b.extents(src)[1..]).copied().collect();
        let zeros = b.full(engine_core::ir::Literal::Float(0.0), Type::new(b.dtype(src), &extents));
        return vec![zeros, is_there];
    }
    let at = b.map(&[is_there, starts, nth], |v| E::select(v[0], v[1] + v[2], 0i64));
    let id = b.gather(ids, at, 0, 0);
    let nothing = b.full_like(id, 0.0);
    let id = b.map(&[is_there, id, nothing], |v| E::select(v[0], v[1], v[2]));
    let idx = indices(b, id, b.extents(src)[0], call.attrs);
    let y = b.gather(src, idx.at, 0, 0);
    let y = masked(b, y, idx.counts, &[0, 1]);
    vec![masked(b, y, Some(is_there), &[0, 1]), is_there]
}
