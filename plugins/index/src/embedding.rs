//! Embeddings: rows of a table by token.

use crate::indices::{expect_index, indices, masked, policy};
use crate::scatter::write;
use engine_core::ir::{Attrs, Builder, Combine, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Grad, GradCall, GradCheck, Lowering, OpForm, TypeIssue, checked};

/// `y[i…] = weight[idx[i…]]` for a table [V, D] and tokens of any shape. The gradient of the table adds up at the
/// tokens, in f32 or wider. The row `padding_idx` gets none. With `scale_grad_by_freq`, each row's gradient is divided
/// by the number of times its token occurs.
pub fn embedding() -> OpForm {
    OpForm::new("embedding", "Looks tokens up in a table of rows.")
        .follows_operands()
        .input("weight", "[V, D], a row for each token")
        .input("idx", "tokens, of any shape")
        .attr(padding_idx())
        .attr(AttrSpec::flag(
            "scale_grad_by_freq",
            "whether a row's gradient is divided by how often its token occurs",
            false,
        ))
        .attrs(policy())
        .types(|types, attrs| {
            expect_table("embedding", &types[0], &types[1])?;
            padding_row(&types[0], attrs)?;
            let shape = types[1].shape.iter().chain(&types[0].shape[1..]).cloned().collect();
            Ok(vec![Type { dtype: types[0].dtype, shape }])
        })
        .expand(|b, call| vec![looked_up(b, call)])
        .grad(Grad::rule(table_gradient))
        .check(GradCheck::Convention {
            why: "the padding row gets no gradient, and frequent rows may get a smaller one",
            grads: vec![vec![vec![3., 4., 6., 8.]]],
        })
        .example(
            "a token twice",
            "embedding(a, b)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[3]", &[1., 0., 1.])],
            &[("f32[3, 2]", &[3., 4., 1., 2., 3., 4.])],
        )
}

/// The table with the rows of these tokens scaled down to a p-norm of at most `max_norm`. As in PyTorch, the factor is
/// `max_norm / (‖row‖ + 1e-7)` where the norm is larger. Other rows are unchanged.
pub fn embedding_renorm() -> OpForm {
    OpForm::new("embedding_renorm", "Scales the rows of some tokens down to a largest norm.")
        .input("weight", "[V, D], a row for each token")
        .input("idx", "tokens, of any shape")
        .results(&["weight_next"])
        .attr(AttrSpec::must("max_norm", "the largest norm that a row may have", AttrKind::Float))
        .attr(AttrSpec::float("norm_type", "the p of the p-norm, above 0", 2.0))
        .attrs(policy())
        .types(|types, attrs| {
            expect_table("embedding_renorm", &types[0], &types[1])?;
            if attrs.float("norm_type") <= 0.0 {
                return Err(TypeIssue::new(format!("there is no {}-norm", attrs.float("norm_type"))));
            }
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| vec![renormed(b, call)])
        .no_grad("rows are scaled down beside the training, not as part of it")
        .example(
            "one row is too long, one is not asked for",
            "embedding_renorm(a, b, max_norm=1.0)",
            &[("f32[3, 2]", &[3., 4., 0.6, 0., 6., 8.]), ("i32[3]", &[0., 1., 0.])],
            &[("f32[3, 2]", &[0.6, 0.8, 0.6, 0., 6., 8.])],
        )
}

fn padding_idx() -> AttrSpec {
    AttrSpec::open("padding_idx", "the row without gradient, negative from the end", AttrKind::Int)
}

fn expect_table(op: &str, weight: &Type, idx: &Type) -> Result<(), TypeIssue> {
    weight.expect_dtype(op, 0, DType::is_float, "floats")?;
    expect_index(op, 1, idx)?;
    match weight.rank() {
        2 => Ok(()),
        _ => Err(TypeIssue::new(format!("`{op}` needs a table of rows, [V, D]"))
            .at(0, format!("this is {weight}"))),
    }
}

fn padding_row(weight: &Type, attrs: &Attrs) -> Result<Option<i64>, TypeIssue> {
    let (Some(row), Some(n)) = (attrs.opt_int("padding_idx"), weight.shape[0].fixed()) else {
        return Ok(None);
    };
    match (-(n as i64)..n as i64).contains(&row) {
        true => Ok(Some(row.rem_euclid(n as i64))),
        false => Err(TypeIssue::new(format!("`padding_idx` is {row}, but the table is {weight}"))
            .at(0, format!("this is {weight}"))),
    }
}

fn looked_up(b: &mut Builder, call: &Lowering) -> Value {
    let weight = call.inputs[0];
    let idx = indices(b, call.inputs[1], b.extents(weight)[0], call.attrs);
    let y = b.gather(weight, idx.at, 0, 0);
    let axes: Vec<usize> = (0..b.ty(idx.at).rank()).collect();
    masked(b, y, idx.counts, &axes)
}

fn table_gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None, None] };
    let weight = call.inputs[0];
    let idx = indices(b, call.inputs[1], b.extents(weight)[0], call.attrs);
    let axes: Vec<usize> = (0..b.ty(idx.at).rank()).collect();
    let mut g = b.widen(g);
    if let Some(row) = checked(padding_row(b.ty(weight), call.attrs)) {
        let counts = b.map(&[idx.at], |i| i[0].ne(row));
        g = masked(b, g, Some(counts), &axes);
    }
    if call.attrs.bool("scale_grad_by_freq") {
        let often = occurrences(b, idx.at, idx.counts, weight);
        let shape = b.ty(g).shape.clone();
        let often = b.broadcast_axes(often, &axes, &shape);
        g = b.div(g, often);
    }
    let table = b.ty(weight).with_dtype(b.dtype(g));
    let zeros = b.full(Literal::Float(0.0), table);
    let sums = write(b, zeros, idx, g, 0, 0, Combine::Add);
    vec![Some(b.cast(sums, b.dtype(weight))), None]
}

/// The number of occurrences of each counting token, at each of them; at least 1.
fn occurrences(b: &mut Builder, at: Value, counts: Option<Value>, weight: Value) -> Value {
    let dtype = b.dtype(weight).accumulator();
    let ones = b.full(Literal::Float(1.0), b.ty(at).with_dtype(dtype));
    let axes: Vec<usize> = (0..b.ty(at).rank()).collect();
    let ones = masked(b, ones, counts, &axes);
    let rows: Vec<Dim> = b.ty(weight).shape[..1].to_vec();
    let zeros = b.full(Literal::Float(0.0), Type { dtype, shape: rows });
    let totals = b.scatter(zeros, at, ones, 0, 0, Combine::Add);
    let own = b.gather(totals, at, 0, 0);
    b.map(&[own], |n| n[0].max(1.0))
}

fn renormed(b: &mut Builder, call: &Lowering) -> Value {
    let weight = call.inputs[0];
    let idx = indices(b, call.inputs[1], b.extents(weight)[0], call.attrs);
    let rows = b.gather(weight, idx.at, 0, 0);
    let wide = b.widen(rows);
    let last = b.ty(wide).rank() - 1;
    let p = call.attrs.float("norm_type");
    let powers = b.map(&[wide], |x| if p == 2.0 { x[0] * x[0] } else { x[0].abs().pow(p) });
    let total = b.sum(powers, &[last]);
    let norm = b.map(&[total], |t| if p == 2.0 { t[0].sqrt() } else { t[0].pow(1.0 / p) });
    let norm = b.unreduce(norm, &[last], wide);
    let most = call.attrs.float("max_norm");
    let scaled =
        b.map(&[wide, norm], |v| E::select(v[1].gt(most), v[0] * (E::from(most) / (v[1] + 1e-7)), v[0]));
    let scaled = b.cast(scaled, b.dtype(weight));
    // All occurrences of a token write the same row.
    write(b, weight, idx, scaled, 0, 0, Combine::Set)
}
