//! Shapes: leading axes, heads, queries and keys.
//!
//! Queries are `[…, heads, queries, depth]`, keys and values `[…, heads, keys, depth or width]`. Several query heads
//! may share one key head. Then they count as more queries of that head, and no key is copied. In this crate, tensors
//! are laid out as one stack of matrices, `[groups, heads per group · queries, …]`.

use engine_core::ir::{Builder, DType, Dim, Type, Value};
use engine_core::op::TypeIssue;

/// Extents of a checked call.
#[derive(Clone, Debug)]
pub struct Heads {
    /// Matrices of keys: leading axes times their heads.
    pub groups: usize,
    /// Query heads that share a key head.
    pub shared: usize,
    /// Queries of a head.
    pub queries: usize,
    /// Keys of a head.
    pub keys: usize,
    /// Extent of a query and a key.
    pub depth: usize,
    /// Extent of a value.
    pub width: usize,
    /// Extents of the queries except the last.
    pub lead: Vec<usize>,
}

/// Type of the results `y` and `lse`, if operands fit.
pub fn result_types(op: &str, types: &[Type]) -> Result<Vec<Type>, TypeIssue> {
    let [q, k, v] = [&types[0], &types[1], &types[2]];
    q.expect_dtype(op, 0, DType::is_float, "floats")?;
    let refuse = |operand: usize, help: &str| {
        Err(TypeIssue::new(format!("`{op}` of {q}, {k} and {v}"))
            .at(operand, format!("this is {}", types[operand]))
            .help(help))
    };
    for operand in [1, 2] {
        if types[operand].dtype != q.dtype {
            return refuse(operand, "queries, keys and values must be of one type; convert with `cast`");
        }
        if types[operand].rank() != q.rank() || q.rank() < 2 {
            return refuse(operand, "all are […, heads, rows, columns], with as many axes each");
        }
    }
    let rank = q.rank();
    if k.shape[rank - 1] != q.shape[rank - 1] {
        return refuse(1, "the last extent of a key is that of a query");
    }
    if v.shape[..rank - 1] != k.shape[..rank - 1] {
        return refuse(2, "there are as many values as keys");
    }
    let n_lead = rank.saturating_sub(3);
    if k.shape[..n_lead] != q.shape[..n_lead] {
        return refuse(1, "leading axes must agree");
    }
    if rank > 2 && !is_multiple(&q.shape[rank - 3], &k.shape[rank - 3]) {
        return refuse(1, "heads of queries must be a multiple of heads of keys");
    }
    let lead = &q.shape[..rank - 1];
    let shape = lead.iter().chain(&v.shape[rank - 1..]).cloned().collect();
    let y = Type { dtype: q.dtype, shape };
    Ok(vec![y, Type { dtype: q.dtype.accumulator(), shape: lead.to_vec() }])
}

fn is_multiple(many: &Dim, few: &Dim) -> bool {
    match (many.fixed(), few.fixed()) {
        (Some(many), Some(few)) => many == few || few > 0 && many.is_multiple_of(few),
        _ => many == few,
    }
}

impl Heads {
    /// The extents for operands that [`result_types`] admits.
    pub fn of(b: &Builder, q: Value, k: Value, v: Value) -> Heads {
        let (q, k, v) = (b.extents(q), b.extents(k), b.extents(v));
        let rank = q.len();
        let groups = k[..rank - 2].iter().product();
        let heads: usize = q[..rank - 2].iter().product();
        Heads {
            groups,
            shared: heads.checked_div(groups).unwrap_or(0),
            queries: q[rank - 2],
            keys: k[rank - 2],
            depth: q[rank - 1],
            width: v[rank - 1],
            lead: q[..rank - 1].to_vec(),
        }
    }

    /// Queries of a group.
    pub fn rows(&self) -> usize {
        self.shared * self.queries
    }

    /// Lays out a tensor by query, `[…, heads, queries, columns]`, as `[groups, rows, columns]`.
    pub fn by_query(&self, b: &mut Builder, x: Value, columns: usize) -> Value {
        b.reshape(x, &[self.groups, self.rows(), columns])
    }

    /// Lays out a tensor by key as `[groups, n, columns]`.
    pub fn by_key(&self, b: &mut Builder, x: Value, columns: usize) -> Value {
        let n = b.extents(x)[b.ty(x).rank() - 2];
        b.reshape(x, &[self.groups, n, columns])
    }

    /// Restores the layout of queries from `[groups, rows, …]`, with these extents after theirs.
    pub fn like_queries(&self, b: &mut Builder, x: Value, columns: &[usize]) -> Value {
        let extents = [&self.lead[..], columns].concat();
        b.reshape(x, &extents)
    }
}
