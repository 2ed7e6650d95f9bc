//! Cross-entropy of the logits of a linear layer, without the logits.

use super::rows::{attrs, averaged, ignore_index, masked, row_type, row_weight, targets};
use engine_core::ir::{
    Attr, Attrs, Builder, Combine, DType, E, Graph, InputKind, Keep, Literal, MatmulSpec, NodeOp, Output,
    Type, Value,
};
use engine_core::op::{AttrSpec, Grad, GradCall, Lowering, OpForm, TypeIssue, checked};
use std::f64::consts::LN_2;

/// The cross-entropy of the logits `x · wᵀ`, for rows `x` f[…, d], a row of `w` f[n, d] for each class, and one class per row.
/// It is f32 or wider.
///
/// - The logits are never stored. Each is folded into its row's log-sum-exp as it is computed.
/// - The gradient computes the probabilities of `1 / parts` of the classes at a time, once more from `x` and `w`.
///
/// `cross_entropy(x @ transpose(w), targets)` has the same value. It is faster in training, and stores all logits.
pub fn linear_cross_entropy() -> OpForm {
    OpForm::new(
        "linear_cross_entropy",
        "Computes the cross-entropy of the logits of a linear layer without storing these, by default averaged over rows.",
    )
    .input("x", "rows, features along the last axis")
    .input("w", "the features of each class")
    .input("targets", "one class per row")
    .results(&["loss"])
    .attrs(attrs(&["mean", "sum", "none"]))
    .attr(parts())
    .rounds_operands()
    .types(|types, attrs| {
        let rows = types_of_rows("linear_cross_entropy", types)?;
        Ok(vec![if attrs.str("reduction") == "none" { rows } else { Type::scalar(rows.dtype) }])
    })
    .expand(|b, call| {
        let [x, w, given] = [0, 1, 2].map(|i| call.inputs[i]);
        let own = ["ignore_index", "parts"].map(|name| (name, call.attrs.get(name).clone()));
        let own = own.into_iter().fold(Attrs::default(), |attrs, (name, value)| attrs.with(name, value));
        let loss = called(b, "linear_cross_entropy_rows", &[x, w, given], own)[0];
        let n_classes = b.extents(w)[0];
        let targets = targets(b, given, n_classes, call.attrs);
        let weight = row_weight(b, loss, &targets, None);
        vec![averaged(b, loss, weight, call.attrs)]
    })
    .example(
        "equal logits cost ln 2",
        "linear_cross_entropy(a, b, c)",
        &[("f32[2, 1]", &[0., 5.]), ("f32[2, 1]", &[1., 1.]), ("i32[2]", &[1., 0.])],
        &[("f32[]", &[LN_2])],
    )
    .example(
        "an ignored row",
        "linear_cross_entropy(a, b, c, ignore_index=-1)",
        &[("f32[2, 1]", &[5., 9.]), ("f32[2, 1]", &[1., 1.]), ("i32[2]", &[1., -1.])],
        &[("f32[]", &[LN_2])],
    )
}

/// The losses of [`linear_cross_entropy`] row by row, 0 for ignored rows, together with the log-sum-exp of the logits.
pub fn linear_cross_entropy_rows() -> OpForm {
    OpForm::new(
        "linear_cross_entropy_rows",
        "Computes the cross-entropy of every row of logits of a linear layer, and their log-sum-exp.",
    )
    .input("x", "rows, features along the last axis")
    .input("w", "the features of each class")
    .input("targets", "one class per row")
    .results(&["loss", "log_sum_exp"])
    .attr(ignore_index())
    .attr(parts())
    .rounds_operands()
    .types(|types, _| Ok(vec![types_of_rows("linear_cross_entropy_rows", types)?; 2]))
    .expand(by_row)
    .grad(Grad::rule(by_parts))
    .example(
        "two rows",
        "linear_cross_entropy_rows(a, b, c)",
        &[("f32[2, 2]", &[0., 0., 1., 100.]), ("f32[2, 2]", &[0., 0., 0., 1.]), ("i32[2]", &[1., 0.])],
        &[("f32[2]", &[LN_2, 100.]), ("f32[2]", &[LN_2, 100.])],
    )
}

fn parts() -> AttrSpec {
    let doc = "the gradient has the probabilities of that share of the classes in memory at a time";
    AttrSpec::int("parts", doc, 16).at_least(1.0)
}

fn called(b: &mut Builder, op: &str, operands: &[Value], attrs: Attrs) -> Vec<Value> {
    checked(b.call(op, operands, attrs))
}

/// The type of a number per row.
fn types_of_rows(op: &str, types: &[Type]) -> Result<Type, TypeIssue> {
    let [x, w] = [&types[0], &types[1]];
    w.expect_dtype(op, 1, DType::is_float, "floats")?;
    let fits = w.rank() == 2 && w.dtype == x.dtype && x.shape.last() == w.shape.last();
    if !fits {
        return Err(TypeIssue::new(format!("`{op}` of {x} and {w}"))
            .at(1, format!("this is {w}"))
            .help("`w` holds the features of each class: one row for each, as long and of the same type as those of `x`"));
    }
    let rows = row_type(op, x, &types[2])?;
    Ok(rows.with_dtype(x.dtype.accumulator()))
}

/// Operands as matrices, with one class for each row.
struct Matrices {
    x: Value,
    w: Value,
    class: Value,
}

fn matrices(b: &mut Builder, inputs: &[Value], class: Value) -> Matrices {
    let (w, extents) = (inputs[1], b.extents(inputs[0]));
    let (&d, rows) = extents.split_last().unwrap_or((&1, &[]));
    let m = rows.iter().product();
    Matrices { x: b.reshape(inputs[0], &[m, d]), w, class: b.reshape(class, &[m]) }
}

/// The product over a pair of axes, with sums in f32 or wider.
fn product(b: &mut Builder, lhs: Value, rhs: Value, contracted: [usize; 2]) -> Value {
    b.matmul_wide(lhs, rhs, MatmulSpec::new(vec![], vec![(contracted[0], contracted[1])]))
}

fn by_row(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let n_classes = b.extents(call.inputs[1])[0];
    let rows = b.extents(call.inputs[2]);
    let targets = targets(b, call.inputs[2], n_classes, call.attrs);
    let Matrices { x, w, class } = matrices(b, call.inputs, targets.class);
    let logits = product(b, x, w, [1, 1]);
    let log_sum_exp = match b.dtype(logits) {
        DType::F32 => called(b, "row_log_sum_exp", &[logits], Attrs::default())[0],
        _ => called(b, "log_sum_exp", &[logits], Attrs::default().with("axis", Attr::Ints(vec![1])))[0],
    };
    let own = b.gather(w, class, 0, 0);
    let [wide, own] = [x, own].map(|x| b.widen(x));
    let terms = b.mul(wide, own);
    let picked = b.sum(terms, &[1]);
    let loss = b.sub(log_sum_exp, picked);
    let [loss, log_sum_exp] = [loss, log_sum_exp].map(|x| b.reshape(x, &rows));
    vec![masked(b, loss, &targets), log_sum_exp]
}

/// Parts have a multiple of so many classes, whose probabilities then begin at aligned addresses.
const ALIGNED: usize = 8;

/// Gradients `p · w` and `pᵀ · x` with `p = softmax·(g + h) - onehot·g`, for gradients g of the losses and h of the
/// log-sum-exp. A trip of a loop has a part of the classes, so that only its columns of `p` are in memory.
fn by_parts(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let extents = b.extents(call.inputs[0]);
    let class = b.cast(call.inputs[2], DType::I32);
    let Matrices { x, w, class } = matrices(b, call.inputs, class);
    let Some(rows) = Rows::of(b, call, class) else { return vec![None; 3] };
    let (dtype, n_classes) = (b.dtype(x), b.extents(w)[0]);
    let width = n_classes.div_ceil(call.attrs.int("parts") as usize).next_multiple_of(ALIGNED);
    let (dx, dw) = match n_classes <= width {
        true => of_part(b, [x, w], &rows, None),
        false => of_all_parts(b, [x, w], &rows, width),
    };
    let dx = b.cast(dx, dtype);
    vec![Some(b.reshape(dx, &extents)), Some(dw), None]
}

/// The loop over parts of `width` classes.
fn of_all_parts(b: &mut Builder, [x, w]: [Value; 2], rows: &Rows, width: usize) -> (Value, Value) {
    let (wide, [n_classes, d]) =
        (b.ty(x).with_dtype(b.dtype(x).accumulator()), [0, 1].map(|i| b.extents(w)[i]));
    let trips = n_classes.div_ceil(width);
    let sum = b.full(Literal::Float(0.0), wide);
    let stack = b.full(Literal::Float(0.0), Type::new(b.dtype(w), &[trips, width, d]));
    let (carried, given) = ([sum, stack], [vec![x, w], rows.values()].concat());
    let region = region(b, carried, &given, rows, width);
    let op = NodeOp::Loop {
        trips,
        n_given: given.len(),
        until: false,
        counted: false,
        reverse: false,
        keep: Keep::All,
    };
    let types = carried.map(|value| b.ty(value).clone());
    let outputs = types.map(|ty| Output { name: b.fresh_name(), ty }).to_vec();
    let node = b.push_node(op, [&carried[..], &given].concat(), outputs);
    b.graph.nodes[node].regions = vec![region];
    let [dx, dw] = [0, 1].map(|port| Value { node, port });
    let dw = b.reshape(dw, &[trips * width, d]);
    (dx, b.slice(dw, &[0, 0], &[n_classes, d], &[1, 1]))
}

/// A trip: the gradients of a part, added to that of `x` and put into its place in that of `w`.
fn region(outer: &Builder, carried: [Value; 2], given: &[Value], rows: &Rows, width: usize) -> Graph {
    let mut b = Builder::new(Graph::new("parts"), outer.ops);
    let b = &mut b;
    let input = |b: &mut Builder, name: &str, ty: &Type| b.input(name, InputKind::Data, ty.clone());
    let [sum, stack] =
        [("sum", carried[0]), ("stack", carried[1])].map(|(name, v)| input(b, name, outer.ty(v)));
    let number = input(b, "number", &Type::scalar(DType::I32));
    let given: Vec<Value> =
        (0..given.len()).map(|i| input(b, &format!("given.{i}"), outer.ty(given[i]))).collect();
    let [x, w] = [given[0], given[1]];
    let n_classes = b.extents(w)[0];
    let place = b.iota(0, Type::new(DType::I32, &[width]));
    let classes = b.map(&[place, number], |v| v[0] + v[1] * width as f64);
    let inside = b.map(&[classes], |v| v[0].min((n_classes - 1) as f64));
    let own = b.gather(w, inside, 0, 0);
    let (dx, dw) = of_part(b, [x, own], &rows.in_region(&given[2..]), Some((classes, n_classes)));
    let sum = b.add(sum, dx);
    let extents = [&[1][..], &b.extents(dw)].concat();
    let dw = b.reshape(dw, &extents);
    let at = b.reshape(number, &[1]);
    let stack = b.scatter(stack, at, dw, 0, 0, Combine::Set);
    b.graph.outputs = vec![("next.sum".into(), sum), ("next.stack".into(), stack)];
    std::mem::replace(&mut b.graph, Graph::new("parts"))
}

/// The gradients of `x`, in the type of sums, and of these rows of `w`. Their classes are given, and the number of all classes:
/// those behind the last count for nothing.
fn of_part(
    b: &mut Builder,
    [x, w]: [Value; 2],
    rows: &Rows,
    classes: Option<(Value, usize)>,
) -> (Value, Value) {
    let logits = product(b, x, w, [1, 1]);
    let p = rows.weights(b, logits, classes);
    let p = b.cast(p, b.dtype(x));
    (product(b, p, w, [1, 0]), b.matmul(p, x, MatmulSpec::new(vec![], vec![(0, 0)])))
}

/// What the weight of a logit depends on besides the logit: numbers by row.
#[derive(Clone, Copy)]
struct Rows {
    class: Value,
    /// The class of rows without weights, if there is one. Their logits may be infinite.
    ignored: Option<i64>,
    log_sum_exp: Value,
    /// The factor of probabilities.
    of_softmax: Value,
    /// The gradient of the loss, subtracted at the row's class.
    of_loss: Option<Value>,
}

impl Rows {
    /// None without gradients.
    fn of(b: &mut Builder, call: &GradCall, class: Value) -> Option<Rows> {
        let m = b.extents(class)[0];
        let flat = |b: &mut Builder, x: Value| b.reshape(x, &[m]);
        let log_sum_exp = flat(b, call.outputs[1]);
        let mut of_loss = call.grads[0].map(|g| flat(b, g));
        if let (Some(g), Some(ignored)) = (of_loss, call.attrs.opt_int("ignore_index")) {
            of_loss = Some(b.map(&[class, g], |v| E::select(v[0].eq(ignored), 0.0, v[1])));
        }
        let of_log_sum_exp = call.grads[1].map(|h| flat(b, h));
        // Ignored rows have gradients of their log-sum-exp.
        let ignored = call.attrs.opt_int("ignore_index").filter(|_| of_log_sum_exp.is_none());
        let of_softmax = match (of_loss, of_log_sum_exp) {
            (Some(g), Some(h)) => b.add(g, h),
            (one, other) => one.or(other)?,
        };
        Some(Rows { class, ignored, log_sum_exp, of_softmax, of_loss })
    }

    fn values(&self) -> Vec<Value> {
        [self.class, self.log_sum_exp, self.of_softmax].into_iter().chain(self.of_loss).collect()
    }

    /// The same in the region of a loop that is given [`Rows::values`].
    fn in_region(&self, given: &[Value]) -> Rows {
        let of_loss = self.of_loss.map(|_| given[3]);
        Rows { class: given[0], log_sum_exp: given[1], of_softmax: given[2], of_loss, ..*self }
    }

    /// The weights of the logits of some classes, by default of all.
    fn weights(&self, b: &mut Builder, logits: Value, classes: Option<(Value, usize)>) -> Value {
        let ty = b.ty(logits).with_dtype(DType::I32);
        let [log_sum_exp, factor] = [self.log_sum_exp, self.of_softmax].map(|x| b.unreduce(x, &[1], logits));
        let mut p = b.map(&[logits, log_sum_exp, factor], |v| (v[0] - v[1]).exp() * v[2]);
        let column = match classes {
            None => b.iota(1, ty),
            Some((classes, n_classes)) => {
                let column = b.unreduce(classes, &[0], logits);
                p = b.map(&[column, p], |v| E::select(v[0].lt(n_classes as f64), v[1], 0.0));
                column
            }
        };
        let Some(of_loss) = self.of_loss else { return p };
        let [class, g] = [self.class, of_loss].map(|x| b.unreduce(x, &[1], logits));
        let p = b.map(&[p, column, class, g], |v| v[0] - E::select(v[1].eq(v[2]), v[3], 0.0));
        match self.ignored {
            Some(ignored) => b.map(&[class, p], |v| E::select(v[0].eq(ignored), 0.0, v[1])),
            None => p,
        }
    }
}
