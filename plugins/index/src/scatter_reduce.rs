//! `scatter_reduce`.

use crate::gather::{back, last, leading};
use crate::indices::{Indices, expect_index, indices, masked, policy};
use crate::scatter::{expect_elements, reached, replaced_part, write};
use engine_core::ir::{Attr, Attrs, Builder, Combine, DType, E, Literal, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, Lowering, OpForm, TypeIssue, checked};

/// The base with updates combined at indices along an axis, with indices as in [`crate::scatter_add`], one for an update:
/// `y[…, idx[…, i, …], …]` is the sum, mean, product, largest or smallest of the base there and its updates. With
/// `include_self=false`, the base counts only where there is no update. Of m updates along the axis, products take
/// ⌈log₂ m⌉ passes.
///
/// Extremes have the same bits on every device. NaN wins over numbers. Zeros of both signs are equal: the base keeps its
/// sign, and otherwise the last update has it. Gradients of extremes are split evenly over all that equal them; an
/// extreme that is NaN has none.
pub fn scatter_reduce() -> OpForm {
    let words = ["sum", "mean", "prod", "amax", "amin"];
    OpForm::new("scatter_reduce", "Combines updates with a tensor at indices along an axis.")
        .input("base", "the base, of numbers")
        .input("idx", "a position along the axis for each of the first updates")
        .input("updates", "the updates")
        .attr(AttrSpec::choice("reduce", "how updates of one element combine", &words))
        .attr(AttrSpec::int("axis", "the axis that is indexed", 0))
        .attr(AttrSpec::flag("include_self", "whether the base counts beside updates", true))
        .attrs(policy())
        .types(|types, attrs| {
            let axis = types[0].axis(attrs.int("axis"))?;
            types[0].expect_dtype("scatter_reduce", 0, |dtype| dtype != DType::Bool, "numbers")?;
            expect_index("scatter_reduce", 1, &types[1])?;
            expect_elements("scatter_reduce", &types[0], &types[1], &types[2], axis)?;
            match attrs.str("reduce") == "mean" && !types[0].dtype.is_float() {
                true => Err(TypeIssue::new(format!("`scatter_reduce` takes no mean of {}", types[0].dtype))
                    .at(0, format!("this is {}", types[0]))
                    .help("convert it with `cast(x, dtype=f32)`")),
                false => Ok(vec![types[0].clone()]),
            }
        })
        .expand(|b, call| {
            let rows = Rows::new(b, [call.inputs[0], call.inputs[1], call.inputs[2]], call.attrs);
            let y = reduced(b, &rows, call);
            let y = rows.back(b, y, b.dtype(call.inputs[0]));
            vec![replaced_part(b, call.inputs[0], y)]
        })
        .grad(Grad::rule(gradients))
        .example(
            "the largest of each group",
            "scatter_reduce(a, b, c, reduce=\"amax\")",
            &[
                ("f32[3]", &[1., 2., 3.]),
                ("i32[4]", &[0, 2, 0, 2].map(f64::from)),
                ("f32[4]", &[5., -1., 4., 7.]),
            ],
            &[("f32[3]", &[5., 2., 7.])],
        )
        .example(
            "means of updates alone",
            "scatter_reduce(a, b, c, axis=1, reduce=\"mean\", include_self=false)",
            &[("f32[1, 3]", &[1., 2., 3.]), ("i32[1, 3]", &[0., 2., 0.]), ("f32[1, 3]", &[5., -1., 4.])],
            &[("f32[1, 3]", &[4.5, 2., -1.])],
        )
}

/// The parts of the operands that have an index, with the indexed axis moved to the end, in f32 or wider.
struct Rows {
    base: Value,
    idx: Indices,
    updates: Value,
    axis: usize,
}

impl Rows {
    fn new(b: &mut Builder, [base, idx, updates]: [Value; 3], attrs: &Attrs) -> Rows {
        let rank = b.ty(base).rank();
        let axis = checked(b.ty(base).axis(attrs.int("axis")));
        let idx = indices(b, idx, b.extents(base)[axis], attrs);
        let order = last(rank, axis);
        let extents = b.extents(idx.at);
        let (base, updates) = (reached(b, base, &extents, axis), leading(b, updates, &extents));
        let [base, updates] = [base, updates].map(|x| b.widen(x));
        let [base, updates, at] = [base, updates, idx.at].map(|x| b.permute(x, &order));
        let counts = idx.counts.map(|counts| b.permute(counts, &order));
        Rows { base, idx: Indices { at, counts }, updates, axis }
    }

    fn last(&self, b: &Builder) -> usize {
        b.ty(self.base).rank() - 1
    }

    /// The result in the order of the operands.
    fn back(&self, b: &mut Builder, y: Value, dtype: DType) -> Value {
        let y = b.permute(y, &back(b.ty(y).rank(), self.axis));
        b.cast(y, dtype)
    }

    /// The base with updates written at the indices.
    fn written(&self, b: &mut Builder, base: Value, updates: Value, combine: Combine) -> Value {
        let last = self.last(b);
        let idx = Indices { at: self.idx.at, counts: self.idx.counts };
        write(b, base, idx, updates, last, last, combine)
    }

    /// The number of updates of each element.
    fn counted(&self, b: &mut Builder) -> Value {
        let [zeros, ones] = [(self.base, 0.0), (self.updates, 1.0)].map(|(like, x)| b.full_like(like, x));
        self.written(b, zeros, ones, Combine::Add)
    }

    /// Elements at the indices, one for each update; 0 where an index does not count.
    fn read(&self, b: &mut Builder, x: Value) -> Value {
        let last = self.last(b);
        let y = b.gather(x, self.idx.at, last, last);
        let axes: Vec<usize> = (0..=last).collect();
        masked(b, y, self.idx.counts, &axes)
    }

    /// The base where it counts, else the neutral element.
    fn start(&self, b: &mut Builder, attrs: &Attrs, neutral: f64) -> Value {
        if attrs.bool("include_self") {
            return self.base;
        }
        let count = self.counted(b);
        b.map(&[count, self.base], |v| E::select(v[0].gt(0.0), neutral, v[1]))
    }

    /// These rows with updates and indices in another order.
    fn ordered(&self, b: &mut Builder, order: Value) -> Rows {
        let last = self.last(b);
        let mut moved = |x: Value| b.gather(x, order, last, last);
        let idx = Indices { at: moved(self.idx.at), counts: self.idx.counts.map(&mut moved) };
        Rows { base: self.base, idx, updates: moved(self.updates), axis: self.axis }
    }
}

fn reduced(b: &mut Builder, rows: &Rows, call: &Lowering) -> Value {
    let include_self = call.attrs.bool("include_self");
    match call.attrs.str("reduce") {
        "sum" => {
            let start = rows.start(b, call.attrs, 0.0);
            rows.written(b, start, rows.updates, Combine::Add)
        }
        "mean" => {
            let start = rows.start(b, call.attrs, 0.0);
            let sum = rows.written(b, start, rows.updates, Combine::Add);
            let count = rows.counted(b);
            b.map(&[sum, count], |v| v[0] / if include_self { v[1] + 1.0 } else { v[1].max(1.0) })
        }
        "prod" => {
            let start = rows.start(b, call.attrs, 1.0);
            let product = product(b, rows);
            b.mul(start, product)
        }
        word => {
            let extreme = extreme(b, rows, word == "amax");
            // Devices choose freely among zeros of both signs, so the base stays wherever it is as far out.
            match (include_self, word) {
                (false, _) => extreme,
                (true, "amax") => {
                    b.map(&[rows.base, extreme], |v| E::select(v[0].ge(v[1]), v[0], v[0].max(v[1])))
                }
                (true, _) => b.map(&[rows.base, extreme], |v| E::select(v[0].le(v[1]), v[0], v[0].min(v[1]))),
            }
        }
    }
}

/// Updates are written in the order of their values, so the most extreme one of an element is the last. NaN sorts last.
/// Sorted values have lost the sign of zeros, so the updates themselves are read.
fn extreme(b: &mut Builder, rows: &Rows, is_largest: bool) -> Value {
    let descending = Attrs::default().with("descending", Attr::from(!is_largest));
    let sorted = checked(b.call("sort_rows", &[rows.updates], descending));
    let sorted = rows.ordered(b, sorted[1]);
    sorted.written(b, rows.base, sorted.updates, Combine::Set)
}

/// The product of the updates of each element. Updates are sorted by index. In each pass, an update is multiplied by the
/// product that ends twice as far before it, if it is of the same element. The last one of an element then holds all.
fn product(b: &mut Builder, rows: &Rows) -> Value {
    let sorted = checked(b.call("sort_rows", &[rows.idx.at], Attrs::default()));
    let last = rows.last(b);
    let mut sorted = rows.ordered(b, sorted[1]);
    if let Some(counts) = sorted.idx.counts {
        sorted.updates = b.map(&[counts, sorted.updates], |v| E::select(v[0], v[1], 1.0));
    }
    let extents = b.extents(sorted.updates);
    let mut reach = 1;
    while reach < extents[last] {
        let [before, group] =
            [(sorted.updates, 1), (sorted.idx.at, 0)].map(|(x, fill)| moved(b, x, reach, fill));
        sorted.updates = b.map(&[sorted.updates, before, sorted.idx.at, group], |v| {
            v[0] * E::select(v[2].eq(v[3]), v[1], 1.0)
        });
        reach *= 2;
    }
    let ones = b.full_like(rows.base, 1.0);
    sorted.written(b, ones, sorted.updates, Combine::Set)
}

/// Elements moved by `reach` places along the last axis.
fn moved(b: &mut Builder, x: Value, reach: usize, fill: i64) -> Value {
    let mut count = b.extents(x);
    let none = vec![0; count.len()];
    let mut low = none.clone();
    count[none.len() - 1] -= reach;
    low[none.len() - 1] = reach;
    let kept = b.slice(x, &none, &count, &vec![1; none.len()]);
    b.pad(kept, &low, &none, Literal::Int(fill))
}

/// 1 where a condition on operands of one type holds, else 0, in their type.
fn number(b: &mut Builder, operands: &[Value], condition: impl FnOnce(&[E]) -> E) -> Value {
    let holds = b.map(operands, condition);
    b.cast(holds, b.dtype(operands[0]))
}

fn gradients(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None; 3] };
    let rows = Rows::new(b, [call.inputs[0], call.inputs[1], call.inputs[2]], call.attrs);
    let (order, idx) = (last(b.ty(g).rank(), rows.axis), b.extents(call.inputs[1]));
    let whole = g;
    let [g, y] = [g, call.outputs[0]].map(|value| {
        let part = reached(b, value, &idx, rows.axis);
        let wide = b.widen(part);
        b.permute(wide, &order)
    });
    let count = rows.counted(b);
    let include_self = call.attrs.bool("include_self");
    // 1 where the base counts, else 0.
    let own = match include_self {
        true => b.full_like(count, 1.0),
        false => number(b, &[count], |n| n[0].eq(0.0)),
    };
    let [of_base, of_updates] = match call.attrs.str("reduce") {
        "sum" => [b.mul(g, own), rows.read(b, g)],
        "mean" => {
            let share = b.map(&[g, count, own], |v| v[0] / (v[1] + v[2]));
            [b.mul(share, own), rows.read(b, share)]
        }
        "prod" => of_product(b, &rows, g, own),
        _ => of_extreme(b, &rows, [g, y], own),
    };
    let [of_base, of_updates] = [of_base, of_updates].map(|d| rows.back(b, d, b.dtype(call.inputs[0])));
    let unused = b.full_like(call.inputs[2], 0.0);
    let [of_base, of_updates] =
        [(whole, of_base), (unused, of_updates)].map(|(whole, part)| replaced_part(b, whole, part));
    vec![Some(of_base), None, Some(of_updates)]
}

/// The product of all other factors. A division yields it only if no factor is 0.
fn of_product(b: &mut Builder, rows: &Rows, g: Value, own: Value) -> [Value; 2] {
    let nonzero = |v: &[E]| E::select(v[0].eq(0.0), 1.0, v[0]);
    let factors = Rows {
        base: b.map(&[rows.base, own], |v| E::select(v[1].eq(0.0), 1.0, nonzero(v))),
        idx: Indices { at: rows.idx.at, counts: rows.idx.counts },
        updates: b.map(&[rows.updates], nonzero),
        axis: rows.axis,
    };
    let product = product(b, &factors);
    let rest = b.mul(factors.base, product);
    let zeros = number(b, &[rows.base, own], |v| v[0].eq(0.0) & v[1].ne(0.0));
    let zero_updates = number(b, &[rows.updates], |v| v[0].eq(0.0));
    let n_zeros = rows.written(b, zeros, zero_updates, Combine::Add);
    let others = |v: &[E]| {
        let [g, x, rest, n_zeros] = [v[0], v[1], v[2], v[3]];
        let at_zero = E::select(n_zeros.eq(1.0), rest, 0.0);
        g * E::select(x.eq(0.0), at_zero, E::select(n_zeros.eq(0.0), rest / x, 0.0))
    };
    let of_base = b.map(&[g, rows.base, rest, n_zeros], others);
    let of_base = b.map(&[of_base, own], |v| E::select(v[1].eq(0.0), 0.0, v[0]));
    let [g, rest, n_zeros] = [g, rest, n_zeros].map(|x| rows.read(b, x));
    [of_base, b.map(&[g, rows.updates, rest, n_zeros], others)]
}

/// The extreme's gradient, split evenly over all that equal it.
fn of_extreme(b: &mut Builder, rows: &Rows, [g, y]: [Value; 2], own: Value) -> [Value; 2] {
    let hits = number(b, &[rows.base, y, own], |v| v[0].eq(v[1]) & v[2].ne(0.0));
    let found = rows.read(b, y);
    let update_hits = number(b, &[rows.updates, found], |v| v[0].eq(v[1]));
    let n_hits = rows.written(b, hits, update_hits, Combine::Add);
    let share = b.map(&[g, n_hits], |v| v[0] / v[1].max(1.0));
    let of_updates = rows.read(b, share);
    [b.mul(share, hits), b.mul(of_updates, update_hits)]
}
