//! Nodes with graphs of their own: branches, and loops that are written out. `loops` keeps others as loops.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::literal::list;
use crate::node::Node;
use crate::operands::{axis, numbers, operand};
use crate::proto::GraphProto;
use crate::shapes;
use crate::table::expression;
use crate::translate::{Translation, subgraph};
use crate::values::{Item, extents};

/// The most trips of a loop that is written out.
const MOST_TRIPS: i64 = 1 << 12;
/// The most operands of `stack` and `concat`.
const MOST_PARTS: usize = 16;

pub(crate) fn graph<'n>(node: &'n Node, name: &str) -> Result<&'n GraphProto, Diagnostic> {
    let found = subgraph(node, name);
    found.ok_or_else(|| broken(format!("{} has no `{name}`", node.describe()), "export the model again"))
}

pub(crate) fn uneven(node: &Node) -> Diagnostic {
    broken(
        format!("{} has a graph with other inputs or outputs than it needs", node.describe()),
        "export the model again",
    )
}

/// `If(c)`: the branch of a condition that is known at import, or else a choice between the results of both.
pub(crate) fn branch(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let (then, other) = (graph(node, "then_branch")?, graph(node, "else_branch")?);
    let known = of.values.known(name).and_then(|known| known.single().and_then(Number::int));
    if let Some(truth) = known {
        let found = of.region(node, if truth != 0 { then } else { other }, &[])?;
        return results(of, node, found);
    }
    let [first, second] = [then, other].map(|graph| of.region(node, graph, &[]));
    let (first, second) = (first?, second?);
    let condition = of.values.operand(name, None)?;
    for (at, output) in node.outputs.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
        let parts = [&first, &second].map(|results| results.get(at).cloned());
        let [Some(first), Some(second)] = parts else { return Err(uneven(node)) };
        let narrow = first.narrow;
        let a = of.values.tensor_of(&format!("{output}_then"), first)?;
        let b = of.values.tensor_of(&format!("{output}_else"), second)?;
        if a.1 != b.1 {
            return Err(node.fault(
                "has branches with results of different types, and a condition that only data determine",
            ));
        }
        let chosen = format!("where(reshape({condition}, shape=[]), {}, {})", a.0, b.0);
        of.values.define(output, expression(&chosen))?;
        of.values.set_narrow(output, narrow);
    }
    Ok(())
}

pub(crate) fn results(of: &mut Translation, node: &Node, found: Vec<Item>) -> Result<(), Diagnostic> {
    if node.outputs.len() > found.len() {
        return Err(uneven(node));
    }
    for (output, item) in node.outputs.iter().zip(found).filter(|(output, _)| !output.is_empty()) {
        of.values.put(output, item);
    }
    Ok(())
}

/// Values as items.
fn items(of: &mut Translation, names: &[String]) -> Result<Vec<Item>, Diagnostic> {
    let missing = |name: &String| {
        broken(format!("a loop carries `{name}`, which is left out"), "export the model again")
    };
    names.iter().map(|name| of.values.item(name).ok_or_else(|| missing(name))).collect()
}

pub(crate) fn scalar(dtype: DType, number: Number) -> Item {
    Item::of(Known { dtype, dims: vec![], elements: vec![number] }, None)
}

/// The results of a `Loop` that is known to have no trip: the values that it is given, and no rows. Nothing if it may have one.
pub(crate) fn untaken(of: &mut Translation, node: &Node) -> Result<Option<Vec<Item>>, Diagnostic> {
    let known = |at: usize| of.values.known(node.input(at)?)?.single()?.int();
    if known(0).is_none_or(|n| n > 0) && known(1) != Some(0) {
        return Ok(None);
    }
    let body = graph(node, "body")?;
    let mut found = items(of, node.inputs.get(2..).unwrap_or_default())?;
    let n_carried = found.len();
    if body.output.len() <= n_carried {
        return Err(uneven(node));
    }
    if node.outputs.iter().skip(n_carried).all(String::is_empty) {
        found.resize(node.outputs.len().max(n_carried), Item::default());
        return Ok(Some(found));
    }
    // The body says of which types the rows are.
    let mark = of.values.mark();
    let own = [scalar(DType::I64, Number::Int(0)), scalar(DType::Bool, Number::Bool(true))];
    let inputs: Vec<Item> = own.into_iter().chain(found.iter().cloned()).collect();
    let mut rows = vec![];
    for item in of.region(node, body, &inputs)?.into_iter().skip(n_carried + 1) {
        let narrow = item.narrow;
        rows.push((of.values.tensor_of("row", item)?.1, narrow));
    }
    of.values.roll_back(&mark);
    for (at, (ty, narrow)) in rows.into_iter().enumerate() {
        let Some(label) = node.outputs.get(n_carried + at).filter(|name| !name.is_empty()) else {
            found.push(Item::default());
            continue;
        };
        let value = if ty.dtype == DType::Bool { "false" } else { "0" };
        let shape = list(&[vec![Number::Int(0)], extents(&ty)].concat());
        let none = format!("full(value={value}, shape={shape}, dtype={})", ty.dtype);
        found.push(of.values.derive(label, &none, narrow)?);
    }
    Ok(Some(found))
}

/// The results of a `Loop` whose trips are written out. The condition must be known before each trip.
pub(crate) fn written_trips(of: &mut Translation, node: &Node) -> Result<Vec<Item>, Diagnostic> {
    let body = graph(node, "body")?;
    let single = |of: &Translation, at: usize| {
        numbers(of, node, at).map(|found| found.and_then(|found| found.first().and_then(Number::int)))
    };
    let most = if node.input(0).is_some() { single(of, 0)? } else { Some(i64::MAX) };
    let most = most.ok_or_else(|| node.fault("has a number of trips that is an open extent"))?;
    let mut goes_on = if node.input(1).is_some() { single(of, 1)? } else { Some(1) };
    let mut carried = items(of, node.inputs.get(2..).unwrap_or_default())?;
    let n_carried = carried.len();
    let n_rows = body.output.len().checked_sub(n_carried + 1).ok_or_else(|| uneven(node))?;
    let mut rows: Vec<Vec<Item>> = vec![vec![]; n_rows];
    let mut trip = 0;
    while trip < most && goes_on != Some(0) {
        if trip >= MOST_TRIPS {
            return Err(node.fault("has too many trips to be written out"));
        }
        let own = [scalar(DType::I64, Number::Int(trip)), scalar(DType::Bool, Number::Bool(true))];
        let inputs: Vec<Item> = own.into_iter().chain(carried).collect();
        let mut found = of.region(node, body, &inputs)?.into_iter();
        let condition = found.next().and_then(|item| item.known).and_then(|known| known.single()?.int());
        goes_on =
            Some(condition.ok_or_else(|| node.fault("goes on by a condition that only data determine"))?);
        carried = found.by_ref().take(n_carried).collect();
        rows.iter_mut().zip(found).for_each(|(rows, item)| rows.push(item));
        trip += 1;
    }
    let stacked = rows.into_iter().enumerate().map(|(at, rows)| {
        let name = node.outputs.get(n_carried + at).filter(|name| !name.is_empty());
        name.map_or(Ok(Item::default()), |name| stacked(of, node, (name, 0), rows))
    });
    let stacked = stacked.collect::<Result<Vec<_>, _>>()?;
    Ok(carried.into_iter().chain(stacked).collect())
}

/// The results of a `Scan` whose trips are written out.
pub(crate) fn written_scan(
    of: &mut Translation,
    node: &Node,
    (body, n_carried): (&GraphProto, usize),
) -> Result<Vec<Item>, Diagnostic> {
    let mut sequences = vec![];
    for (at, name) in node.inputs[n_carried..].iter().enumerate() {
        let (_, shape) = operand(of, node, n_carried + at)?;
        let along = axis(node, node.int_of("scan_input_axes", at), shape.len())?;
        let extent = shape[along].int().filter(|n| *n <= MOST_TRIPS);
        let extent = extent.ok_or_else(|| node.fault("has too many trips, or an open number of them"))?;
        sequences.push((name, along, extent, node.int_of("scan_input_directions", at) != 0));
    }
    let n_trips = sequences.first().map_or(0, |(_, _, extent, _)| *extent);
    if sequences.iter().any(|(_, _, extent, _)| *extent != n_trips) {
        return Err(uneven(node));
    }
    let mut carried = items(of, &node.inputs[..n_carried])?;
    let mut rows: Vec<Vec<Item>> = vec![vec![]; body.output.len() - n_carried];
    for trip in 0..n_trips {
        let mut inputs = carried;
        for (at, (name, along, extent, is_reverse)) in sequences.iter().enumerate() {
            let place = if *is_reverse { extent - 1 - trip } else { trip };
            let x = of.values.tensor(name)?.0;
            let part = format!("{}_{at}_{trip}", node.outputs.first().map_or("scan", String::as_str));
            let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
            let row = format!("select({x}, axis={along}, index={place})");
            inputs.push(of.values.derive(&part, &row, narrow)?);
        }
        let mut found = of.region(node, body, &inputs)?.into_iter();
        carried = found.by_ref().take(n_carried).collect();
        rows.iter_mut().zip(found).for_each(|(rows, item)| rows.push(item));
    }
    let mut stacks = vec![];
    for (at, mut rows) in rows.into_iter().enumerate() {
        let Some(name) = node.outputs.get(n_carried + at).filter(|name| !name.is_empty()) else {
            stacks.push(Item::default());
            continue;
        };
        if node.int_of("scan_output_directions", at) != 0 {
            rows.reverse();
        }
        stacks.push(stacked(of, node, (name, node.int_of("scan_output_axes", at)), rows)?);
    }
    Ok(carried.into_iter().chain(stacks).collect())
}

/// The results of all trips along a new axis.
fn stacked(
    of: &mut Translation,
    node: &Node,
    (name, along): (&str, i64),
    rows: Vec<Item>,
) -> Result<Item, Diagnostic> {
    let Some(first) = rows.first().cloned() else {
        return Err(node.fault("has no trip, and a result with one row for each"));
    };
    let known: Option<Vec<&Known>> = rows.iter().map(|item| item.known.as_ref()).collect();
    if let Some(known) = known.filter(|known| along == 0 && known.iter().all(|row| row.dims == known[0].dims))
    {
        let dims = [&[known.len()], &known[0].dims[..]].concat();
        let elements = known.iter().flat_map(|row| row.elements.clone()).collect();
        return Ok(Item::of(Known { dtype: known[0].dtype, dims, elements }, first.narrow));
    }
    let part = |(trip, item)| of.values.tensor_of(&format!("{name}_row{trip}"), item);
    let parts = rows.into_iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
    let rank = parts[0].1.rank();
    if parts.iter().any(|(_, ty)| *ty != parts[0].1) {
        return Err(node.fault("has results whose shapes differ from trip to trip"));
    }
    let axis = shapes::axis(along, rank + 1, 0).ok_or_else(|| uneven(node))?;
    let texts = side_by_side(parts.into_iter().map(|(name, _)| name).collect(), true, axis);
    of.values.derive(&format!("{name}_rows"), &texts, first.narrow)
}

/// Tensors side by side along an axis, which may be new, by ops of few operands.
pub(crate) fn side_by_side(mut texts: Vec<String>, is_new: bool, axis: usize) -> String {
    let mut op = if is_new { "stack" } else { "concat" };
    while texts.len() > 1 || op == "stack" {
        texts =
            texts.chunks(MOST_PARTS).map(|part| format!("{op}({}, axis={axis})", part.join(", "))).collect();
        op = "concat";
    }
    texts.concat()
}
