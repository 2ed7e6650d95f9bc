//! `nearest_of_lists`.

use super::comparison::{Best, Query};
use super::filter::{Flags, expect_filter, flags_of};
use super::metric;
use super::metric::Metric;
use super::number::Number;
use crate::rank::Entry;
use engine_core::ir::{Attrs, DType, Dim, Type};
use engine_core::op::kernel::{KernelCall, Lent, Part};
use engine_core::op::{
    AttrKind, AttrSpec, GpuForm, Grad, GradCheck, HostKernel, KernelForm, Lower, OpForm, TypeIssue,
};
use engine_core::oracle::OracleTensor;
use std::sync::Arc;

/// The k rows nearest to each query among those that it lists, ascending: `i32[m, k]`. Lists `i32[m, room]` ascend, and have
/// `count[i]` rows for query i, at least k. A negative count stands for all rows. Rows that a filter hides come behind all
/// others.
///
/// All queries are compared with one block of rows before the next block. So a row is read from memory once, however many
/// queries list it.
pub fn nearest_of_lists() -> OpForm {
    OpForm::new("nearest_of_lists", "Finds the k rows nearest to each query among rows that it lists.")
        .input("queries", "`f32` or `f64` `[m, d]`")
        .input("base", "the rows, `[n, d]`")
        .input("lists", "`i32[m, room]`")
        .input("count", "`i32[m]`; a negative one lists all rows")
        .optional("filter", "whether each row may be found: `bool[n]`, or `bool[m, n]` for each query")
        .results(&["rows"])
        .attr(AttrSpec::must("k", "how many, at least 1 and at most the room", AttrKind::Int))
        .attr(metric())
        .types(types)
        .lower(Lower::Kernel(KernelForm {
            host: Arc::new(|call| match call.inputs[0].dtype {
                DType::F64 => host::<f64, [u64; 2]>(call),
                _ => host::<f32, u64>(call),
            }),
            oracle: Arc::new(oracle),
            gpu: GpuForm::None {
                why: "lists have lengths of their own; `nearest_rows` chooses candidates instead",
            },
        }))
        .grad(Grad::None { why: "its results are numbers of rows; `nearest` has a gradient" })
        .check(GradCheck::None { why: "its results are numbers of rows" })
        .example(
            "two of three rows are listed",
            "nearest_of_lists(a, b, c, d, k=1)",
            &[
                ("f32[1, 2]", &[1.0, 0.5]),
                ("f32[3, 2]", &[1.0, 0.5, 1.0, 1.0, 0.0, 3.0]),
                ("i32[1, 3]", &[1.0, 2.0, -1.0]),
                ("i32[1]", &[2.0]),
            ],
            &[("i32[1, 1]", &[1.0])],
        )
}

fn types(inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let [queries, base, lists, count] = [0, 1, 2, 3].map(|i| &inputs[i]);
    let is_number = |dtype: DType| matches!(dtype, DType::F32 | DType::F64);
    queries.expect_dtype("nearest_of_lists", 0, is_number, "`f32` or `f64`")?;
    let fits = queries.rank() == 2
        && base.rank() == 2
        && base.dtype == queries.dtype
        && base.shape[1] == queries.shape[1]
        && lists.rank() == 2
        && lists.shape[0] == queries.shape[0]
        && count.shape[..] == queries.shape[..1]
        && [lists, count].iter().all(|ty| ty.dtype == DType::I32);
    if !fits {
        let types: Vec<String> = inputs.iter().map(Type::to_string).collect();
        return Err(TypeIssue::new(format!("`nearest_of_lists` of {}", types.join(", ")))
            .help("queries are [m, d], rows [n, d] of the same type, lists i32[m, room], counts i32[m]"));
    }
    if let Some(filter) = inputs.get(4) {
        expect_filter("nearest_of_lists", [queries, base], filter, 4)?;
    }
    let (k, room) = (attrs.int("k"), lists.shape[1].fixed());
    let k = usize::try_from(k).ok().filter(|&k| k >= 1 && room.is_none_or(|room| k <= room));
    let Some(k) = k else {
        return Err(TypeIssue::new(format!("`nearest_of_lists` of k = {} in {lists}", attrs.int("k")))
            .help("k is at least 1, and at most the room of a list"));
    };
    Ok(vec![Type { dtype: DType::I32, shape: vec![queries.shape[0].clone(), Dim::Fixed(k)] }])
}

/// Bytes of the rows of a block.
const BLOCK_BYTES: usize = 1 << 18;
/// The fewest rows of a block.
const FEWEST_ROWS: usize = 4;
/// The most parts of the queries.
const MAX_PARTS: usize = 64;

/// The extents of a call.
#[derive(Clone, Copy)]
struct Extents {
    m: usize,
    n: usize,
    d: usize,
    room: usize,
    k: usize,
    /// The rank of the filter, 0 without one.
    filter: usize,
    metric: Metric,
}

impl Extents {
    fn of(call: &KernelCall) -> Extents {
        let [queries, base, lists] = [0, 1, 2].map(|i| call.inputs[i].extents());
        let filter = Flags::rank(call, 4);
        let (k, metric) = (call.attrs().int("k") as usize, Metric::of(call.attrs()));
        Extents { m: queries[0], n: base[0], d: base[1], room: lists[1], k, filter, metric }
    }

    /// Words of the workspace for a query: its place in the list, how many rows are among the best, and these.
    fn words<E: Entry>(&self) -> usize {
        2 + self.k * size_of::<E>() / 8
    }
}

/// The operands of a call.
struct Operands<'a, T> {
    queries: &'a [T],
    base: &'a [T],
    lists: &'a [i32],
    counts: &'a [i32],
    filter: Option<Flags<'a>>,
}

impl<T: Number> Operands<'_, T> {
    /// Compares queries with the rows they list, block by block, and writes the best of each.
    fn run<E: Entry>(
        &self,
        extents: Extents,
        queries: std::ops::Range<usize>,
        workspace: &mut [u64],
        mut write: impl FnMut(usize, &[E]),
    ) {
        let Extents { n, d, .. } = extents;
        let words = extents.words::<E>();
        workspace[..queries.len() * words].fill(0);
        let block = (BLOCK_BYTES / (d * size_of::<T>()).max(1)).max(FEWEST_ROWS);
        for end in (0..n).step_by(block).map(|start| start + block) {
            for (query, own) in queries.clone().zip(workspace.chunks_mut(words)) {
                self.compare::<E>(extents, query, own, end);
            }
        }
        for (query, own) in queries.zip(workspace.chunks_mut(words)) {
            let n_best = own[1] as usize;
            write(query, &E::slice(&mut own[2..])[..n_best]);
        }
    }

    /// Compares a query with the rows that it lists before `end` and that were not compared yet.
    fn compare<E: Entry>(&self, extents: Extents, query: usize, own: &mut [u64], end: usize) {
        let Extents { n, d, room, k, metric, .. } = extents;
        let (first, end) = (own[0] as usize, end.min(n));
        if self.counts[query] == k as i32 {
            // All that are listed: nothing to compare.
            let (state, entries) = own.split_at_mut(2);
            if state[1] == 0 {
                let rows = &self.lists[query * room..][..k];
                E::slice(entries)
                    .iter_mut()
                    .zip(rows)
                    .for_each(|(entry, &row)| *entry = E::new(0, row as usize));
                state[1] = k as u64;
            }
            return;
        }
        let list = match self.counts[query] {
            ..0 => None,
            count => Some(&self.lists[query * room..][first..(count as usize).min(room)]),
        };
        let within = match list {
            Some(list) => list.iter().take_while(|&&row| (row as usize) < end).count(),
            None => end - first,
        };
        if within == 0 {
            return;
        }
        let allowed = self.filter.map(|filter| filter.of_query(query, n));
        let vector = &self.queries[query * d..(query + 1) * d];
        let query = Query::new(metric, vector, self.base, allowed);
        let (state, entries) = own.split_at_mut(2);
        let mut best = Best { entries: &mut E::slice(entries)[..k], n: state[1] as usize };
        for at in 0..within {
            let row = list.map_or(first + at, |list| list[at] as usize);
            best.offer(E::new(query.value(row).rank(false), row));
        }
        state[0] += within as u64;
        state[1] = best.n as u64;
    }
}

fn host<T: Number, E: Entry>(call: &KernelCall) -> HostKernel {
    let extents = Extents::of(call);
    HostKernel {
        // Parts have at most one query more than others.
        workspace_bytes: 8 * (extents.m + MAX_PARTS) * extents.words::<E>(),
        run: Box::new(move |lent: &mut Lent| {
            let filter = Flags::new(extents.filter, || lent.input(4));
            let (queries, base) = (lent.input::<T>(0), lent.input::<T>(1));
            let operands = Operands { queries, base, lists: lent.input(2), counts: lent.input(3), filter };
            let n_parts = lent.n_threads().min(MAX_PARTS);
            lent.parallel_for(extents.m, n_parts, &|part| {
                let Part { units, workspace, mut results } = part;
                operands.run::<E>(extents, units, workspace, |query, best| {
                    let mut results = results.unit(query);
                    in_order(best, results.take::<i32>(0));
                });
            });
        }),
    }
}

/// Writes the rows of entries in ascending order.
fn in_order<E: Entry>(best: &[E], rows: &mut [i32]) {
    rows.fill(0);
    for (row, entry) in rows.iter_mut().zip(best) {
        *row = entry.index() as i32;
    }
    rows.sort_unstable();
}

fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let extents = Extents::of(call);
    let Extents { m, k, .. } = extents;
    let [queries, base] = [0, 1].map(|i| args[i].to_f64());
    let [lists, counts] = [2, 3].map(|i| args[i].to_f64().into_iter().map(|x| x as i32).collect::<Vec<_>>());
    let flags = flags_of(args.get(4));
    let filter = Flags::new(extents.filter, || &flags);
    let operands = Operands { queries: &queries, base: &base, lists: &lists, counts: &counts, filter };
    let mut workspace = vec![0; m * extents.words::<[u64; 2]>()];
    let mut rows = vec![0; m * k];
    operands.run::<[u64; 2]>(extents, 0..m, &mut workspace, |query, best| {
        in_order(best, &mut rows[query * k..(query + 1) * k]);
    });
    vec![OracleTensor::ints(DType::I32, &[m, k], rows.into_iter().map(i64::from).collect())]
}
