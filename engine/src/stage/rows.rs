//! Which rows a step takes, and how they come into its graph.

use super::StageIssue;
use super::own::expect_free;
use crate::ir::{
    Binary, Builder, DType, Dim, Graph, InputKind, Literal, Node, NodeOp, StateLink, Symbol, Type, Value,
};
use crate::op::Registry;
use crate::pipeline::{InputDecl, LastBatch, Pipeline};

/// The input with the row numbers of an epoch in shuffled order.
const ORDER: &str = "order";

/// Which rows a step of a graph takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// Step `s` takes `batch` rows from row `(s mod per_epoch) · batch` on.
    Batches {
        /// Rows a step.
        batch: usize,
        /// Steps before the rows start over, a short last one included.
        per_epoch: usize,
    },
    /// Every step takes the same rows, at the end of the split.
    Last {
        /// The first.
        first: usize,
        /// How many.
        rows: usize,
    },
}

impl Rows {
    /// Rows in one step.
    pub fn per_step(self) -> usize {
        match self {
            Rows::Batches { batch, .. } => batch,
            Rows::Last { rows, .. } => rows,
        }
    }
}

/// The types of a split's fields.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitShape {
    /// The data source's name in the pipeline.
    pub data: Symbol,
    /// Rows of every field.
    pub n_rows: usize,
    /// Rows that are on the device at once: all, or fewer if they stream in windows.
    pub n_held: usize,
    /// Fields by name, each with the type of one row.
    pub fields: Vec<(Symbol, Type)>,
}

/// Steps that go once over the rows.
pub fn steps_per_epoch(n_rows: usize, batch: usize, last: LastBatch) -> usize {
    match last {
        LastBatch::Drop => n_rows / batch.max(1),
        LastBatch::Short => n_rows.div_ceil(batch.max(1)),
    }
}

/// What the leading extents of the inputs that `data` feeds are bound to.
pub fn extents(pipeline: &Pipeline, data: &str, n_rows: usize) -> Result<Vec<(Symbol, usize)>, StageIssue> {
    let mut extents: Vec<(Symbol, usize)> = vec![];
    for input in pipeline.inputs.iter().filter(|input| is_fed(input, data)) {
        let Some(value) = pipeline.graph.find(&input.name) else { continue };
        let ty = pipeline.graph.ty(value);
        match ty.shape.first() {
            Some(Dim::Named(name)) if !extents.iter().any(|(known, _)| known == name) => {
                extents.push((name.clone(), n_rows));
            }
            Some(Dim::Fixed(n)) if *n != n_rows => {
                let message = format!("`{}` takes {n} rows, the stage feeds {}", input.name, n_rows);
                let help = format!("name its first extent: write `B` instead of {n} in `{ty}`");
                return Err(StageIssue::new(message, input.span).help(help));
            }
            None => {
                let message = format!("`{}` is a scalar and cannot take rows of data", input.name);
                return Err(StageIssue::new(message, input.span));
            }
            _ => {}
        }
    }
    Ok(extents)
}

fn is_fed(input: &InputDecl, data: &str) -> bool {
    input.from.as_ref().is_some_and(|(source, _)| **source == *data)
}

/// Nothing if no node bears the name of an input that feeding from `data` adds.
pub fn expect_free_names(pipeline: &Pipeline, graph: &Graph, data: &str) -> Result<(), StageIssue> {
    let fed = pipeline.inputs.iter().filter(|input| is_fed(input, data));
    let fields = fed.filter_map(|input| input.from.as_ref()).map(|(data, field)| format!("{data}.{field}"));
    [ORDER.to_owned()].into_iter().chain(fields).try_for_each(|name| expect_free(graph, &name))
}

/// The graph with every input that `data` feeds replaced by a gather from the resident field, in shuffled order if the
/// input `order` says so. Several batches may make a step: then the graph's own step number counts those, except for
/// random numbers, which differ from batch to batch.
pub fn feed(
    pipeline: &Pipeline,
    graph: &Graph,
    data: &SplitShape,
    rows: Rows,
    (shuffled, n_batches): (bool, usize),
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    expect_free_names(pipeline, graph, &data.data)?;
    let mut builder = Builder::new(Graph::new(graph.name.clone()), registry);
    builder.reserve(graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
    let batch_number = builder.step();
    let step = step_of(&mut builder, batch_number, n_batches);
    let numbers = row_numbers(&mut builder, data, rows, shuffled);
    let mut map: Vec<Vec<Value>> = vec![];
    for node in &graph.nodes {
        let decl =
            pipeline.inputs.iter().find(|input| input.name == *node.name() && is_fed(input, &data.data));
        let values = match (&node.op, decl) {
            (NodeOp::Input(InputKind::Data), Some(decl)) => {
                vec![gather_field(&mut builder, node, decl, data, numbers)?]
            }
            (NodeOp::Input(InputKind::Step), _) => vec![step],
            _ => {
                let mut inputs: Vec<Value> =
                    node.inputs.iter().map(|input| map[input.node][input.port]).collect();
                if let (NodeOp::Random { .. }, Some(drawn_at)) = (&node.op, inputs.first_mut()) {
                    *drawn_at = batch_number;
                }
                let id = builder.graph.push(Node { inputs, ..node.clone() });
                (0..node.outputs.len()).map(|port| Value { node: id, port }).collect()
            }
        };
        map.push(values);
    }
    let moved = |value: Value| map[value.node][value.port];
    let mut fed = builder.graph;
    fed.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(*value))).collect();
    let link = |l: &StateLink| StateLink { input: moved(Value::of(l.input)).node, next: moved(l.next) };
    fed.state = graph.state.iter().map(link).collect();
    Ok(fed)
}

fn step_of(b: &mut Builder, batch_number: Value, n_batches: usize) -> Value {
    if n_batches <= 1 {
        return batch_number;
    }
    b.set_scope("step_number", None);
    let n_batches = b.full(Literal::Int(n_batches as i64), Type::scalar(DType::I32));
    b.binary(Binary::Div, batch_number, n_batches)
}

/// The row numbers of the step, `i32[rows]`.
fn row_numbers(b: &mut Builder, data: &SplitShape, rows: Rows, shuffled: bool) -> Value {
    b.set_scope("rows", None);
    let scalar = Type::scalar(DType::I32);
    let first = match rows {
        Rows::Last { first, .. } => b.full(Literal::Int(first as i64), scalar),
        Rows::Batches { batch, per_epoch } => {
            let step = b.step();
            let per_epoch = b.full(Literal::Int(per_epoch.max(1) as i64), scalar.clone());
            let batch = b.full(Literal::Int(batch as i64), scalar);
            let position = b.binary(Binary::Rem, step, per_epoch);
            b.mul(position, batch)
        }
    };
    let offset = b.iota(0, Type::new(DType::I32, &[rows.per_step()]));
    let place = b.add(first, offset);
    if !shuffled {
        return place;
    }
    let order = b.input(ORDER, InputKind::Data, Type::new(DType::I32, &[data.n_held]));
    b.gather(order, place, 0, 0)
}

fn gather_field(
    b: &mut Builder,
    node: &Node,
    decl: &InputDecl,
    data: &SplitShape,
    numbers: Value,
) -> Result<Value, StageIssue> {
    let field = decl.from.as_ref().map(|(_, field)| field.clone()).unwrap_or_else(|| decl.name.clone());
    let Some((_, row)) = data.fields.iter().find(|(name, _)| *name == field) else {
        let known: Vec<&str> = data.fields.iter().map(|(name, _)| &**name).collect();
        let message = format!("`{}` has no field `{field}`", data.data);
        return Err(StageIssue::new(message, decl.span).help(format!("it has {}", known.join(", "))));
    };
    let wanted = &node.outputs[0].ty;
    let wanted_row = Type { dtype: wanted.dtype, shape: wanted.shape[1..].to_vec() };
    if row.dtype != wanted.dtype || row.numel() != wanted_row.numel() {
        return field_mismatch(decl, &field, row, &wanted_row);
    }
    // Rows are dense, so those of `u8[28, 28]` lie in memory as those of `u8[784]` do.
    let extents = [vec![data.n_held], wanted_row.extents()].concat();
    let name = format!("{}.{field}", data.data);
    let resident = match b.graph.find(&name) {
        Some(known) if b.extents(known) == extents => known,
        Some(known) => b.reshape(known, &extents),
        None => b.input(&name, InputKind::Data, Type::new(row.dtype, &extents)),
    };
    b.set_scope(node.name(), node.span);
    let gathered = b.gather(resident, numbers, 0, 0);
    b.graph.nodes[gathered.node].outputs[0].name = node.name().clone();
    Ok(gathered)
}

fn field_mismatch(decl: &InputDecl, field: &str, row: &Type, wanted: &Type) -> Result<Value, StageIssue> {
    let name = &decl.name;
    let message = format!("`{name}` takes rows of {wanted}, the field `{field}` has rows of {row}");
    let help = match row.numel() == wanted.numel() {
        true => format!(
            "declare its rows as {}; `cast({name}, dtype={})` converts them",
            wanted.with_dtype(row.dtype),
            wanted.dtype
        ),
        false => format!("declare its rows as {row}"),
    };
    Err(StageIssue::new(message, decl.span).help(help))
}
