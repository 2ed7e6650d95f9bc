//! `rows_by_bounds`.

use super::choice::Choice;
use super::filter::{Flags, expect_filter, flags_of};
use super::metric;
use super::metric::Metric;
use super::number::Number;
use crate::rank::Entry;
use engine_core::ir::{Attrs, DType, Dim, Type};
use engine_core::op::kernel::{KernelCall, Lent};
use engine_core::op::{
    AttrKind, AttrSpec, GpuForm, Grad, GradCheck, HostKernel, KernelForm, Lower, OpForm, TypeIssue,
};
use engine_core::oracle::OracleTensor;
use std::sync::Arc;

/// The rows that may be among the k nearest to each query, ascending, `i32[m, room]`, and how many these are, `i32[m]`: at
/// least k. The third result, `i32[m]`, is how many other rows were compared with the query. The value of row j for query i
/// (a squared distance, for example) is at least `slope[i]·scores[i, j] + offset[i]`. A row is not listed if k others are
/// nearer than that. A bound that is NaN hides no row. Rows that a filter hides come behind all others.
///
/// A few rows of the least scores are compared first: no row is listed whose bound lies behind the k-th of them. Where the
/// others are too many for the list, they are compared as well, and the k nearest are listed.
pub fn rows_by_bounds() -> OpForm {
    OpForm::new(
        "rows_by_bounds",
        "Finds the rows that may be among the k nearest, given bounds of their values.",
    )
    .input("queries", "`f32` or `f64` `[m, d]`")
    .input("base", "the rows to search, `[n, d]`")
    .input("scores", "`[m, n]`; less is nearer")
    .input("slope", "`[m]`, not negative")
    .input("offset", "`[m]`")
    .optional("filter", "whether each row may be found: `bool[n]`, or `bool[m, n]` for each query")
    .results(&["rows", "count", "compared"])
    .attr(AttrSpec::must("k", "how many are wanted, at least 1 and at most n", AttrKind::Int))
    .attr(AttrSpec::must("room", "how many are listed at most, at least k", AttrKind::Int))
    .attr(metric())
    .types(types)
    .lower(Lower::Kernel(KernelForm {
        host: Arc::new(|call| match call.inputs[0].dtype {
            DType::F64 => host::<f64, [u64; 2]>(call),
            _ => host::<f32, u64>(call),
        }),
        oracle: Arc::new(oracle),
        gpu: GpuForm::None { why: "rows end at different times; `nearest_rows` chooses candidates instead" },
    }))
    .grad(Grad::None { why: "its results are numbers of rows; `nearest` has a gradient" })
    .check(GradCheck::None { why: "its results are numbers of rows" })
    .example(
        "a bound that leaves the first row out",
        "rows_by_bounds(a, b, c, d, e, k=1, room=2)",
        &[
            ("f32[1, 2]", &[1.0, 0.5]),
            ("f32[3, 2]", &[5.0, 0.0, 1.0, 1.0, 0.0, 3.0]),
            ("f32[1, 3]", &[16.0, 0.0, -1.0]),
            ("f32[1]", &[1.0]),
            ("f32[1]", &[0.25]),
        ],
        &[("i32[1, 2]", &[1.0, 2.0]), ("i32[1]", &[2.0]), ("i32[1]", &[0.0])],
    )
}

fn types(inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let [queries, base, scores] = [&inputs[0], &inputs[1], &inputs[2]];
    let is_number = |dtype: DType| matches!(dtype, DType::F32 | DType::F64);
    queries.expect_dtype("rows_by_bounds", 0, is_number, "`f32` or `f64`")?;
    let of = |shape: Vec<Dim>| Type { dtype: queries.dtype, shape };
    let fits = queries.rank() == 2
        && base.rank() == 2
        && *base == of(vec![base.shape[0].clone(), queries.shape[1].clone()])
        && *scores == of(vec![queries.shape[0].clone(), base.shape[0].clone()])
        && inputs[3..5].iter().all(|ty| *ty == of(vec![queries.shape[0].clone()]));
    if !fits {
        let types: Vec<String> = inputs.iter().map(Type::to_string).collect();
        return Err(TypeIssue::new(format!("`rows_by_bounds` of {}", types.join(", ")))
            .help("queries are [m, d], rows [n, d], scores [m, n], slope and offset [m], all of one type"));
    }
    if let Some(filter) = inputs.get(5) {
        expect_filter("rows_by_bounds", [queries, base], filter, 5)?;
    }
    let k = attrs.int("k");
    let k = usize::try_from(k).ok().filter(|&k| k >= 1 && base.shape[0].fixed().is_none_or(|n| k <= n));
    let Some(k) = k else {
        return Err(TypeIssue::new(format!("`rows_by_bounds` of k = {} among {base}", attrs.int("k")))
            .help("k is at least 1, and at most the number of rows"));
    };
    let room = attrs.int("room");
    let Some(room) = usize::try_from(room).ok().filter(|&room| room >= k) else {
        return Err(TypeIssue::new(format!("`rows_by_bounds` of k = {k} with room for {room}"))
            .help("the list has room for the k nearest at least"));
    };
    let m = queries.shape[0].clone();
    let rows = Type { dtype: DType::I32, shape: vec![m.clone(), Dim::Fixed(room)] };
    let count = Type { dtype: DType::I32, shape: vec![m] };
    Ok(vec![rows, count.clone(), count])
}

/// The extents of a call: n, d and k.
fn sizes(call: &KernelCall) -> [usize; 3] {
    let base = call.inputs[1].extents();
    [base[0], base[1], call.attrs().int("k") as usize]
}

/// The most parts of the queries, each with a workspace.
const MAX_PARTS: usize = 64;

fn host<T: Number, E: Entry>(call: &KernelCall) -> HostKernel {
    let ([n, d, k], m) = (sizes(call), call.inputs[0].extents()[0]);
    let choice = Choice::<E>::new(Metric::of(call.attrs()), n, k);
    let n_parts = m.clamp(1, MAX_PARTS);
    let filter_rank = Flags::rank(call, 5);
    HostKernel {
        workspace_bytes: 8 * n_parts * choice.words(),
        run: Box::new(move |lent: &mut Lent| {
            let [queries, base, scores, slope, offset] = [0, 1, 2, 3, 4].map(|i| lent.input::<T>(i));
            let filter = Flags::new(filter_rank, || lent.input(5));
            lent.parallel_for(m, n_parts, &|mut part| {
                for query in part.units.clone() {
                    let of_query = query * n..(query + 1) * n;
                    let allowed = filter.map(|filter| filter.of_query(query, n));
                    let bounds = ((&scores[of_query], slope[query], offset[query]), allowed);
                    let vector = &queries[query * d..(query + 1) * d];
                    let mut results = part.results.unit(query);
                    let rows = results.take::<i32>(0);
                    let chosen = choice.run([vector, base], bounds, part.workspace, rows);
                    rows[chosen.listed..].fill(-1);
                    results.take::<i32>(1)[0] = chosen.listed as i32;
                    results.take::<i32>(2)[0] = chosen.compared as i32;
                }
            });
        }),
    }
}

fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let ([n, d, k], m) = (sizes(call), call.inputs[0].extents()[0]);
    let room = call.attrs().int("room") as usize;
    let choice = Choice::<[u64; 2]>::new(Metric::of(call.attrs()), n, k);
    let [queries, base, scores, slope, offset] = [0, 1, 2, 3, 4].map(|i| args[i].to_f64());
    let mut workspace = vec![0; choice.words()];
    let (mut rows, mut counts, mut compared) = (vec![-1; m * room], vec![], vec![]);
    let flags = flags_of(args.get(5));
    let filter = Flags::new(Flags::rank(call, 5), || &flags);
    for query in 0..m {
        let of_query = query * n..(query + 1) * n;
        let allowed = filter.map(|filter| filter.of_query(query, n));
        let bounds = ((&scores[of_query], slope[query], offset[query]), allowed);
        let vector = &queries[query * d..(query + 1) * d];
        let rows = &mut rows[query * room..(query + 1) * room];
        let chosen = choice.run([vector, &base], bounds, &mut workspace, rows);
        rows[chosen.listed..].fill(-1);
        counts.push(chosen.listed as i64);
        compared.push(chosen.compared as i64);
    }
    let rows = rows.into_iter().map(i64::from).collect();
    let counts = [counts, compared].map(|counts| OracleTensor::ints(DType::I32, &[m], counts));
    [vec![OracleTensor::ints(DType::I32, &[m, room], rows)], counts.to_vec()].concat()
}
