//! Loops. Short ones are written out (`regions`). The body of all others becomes a function, which the pipeline calls for
//! each trip.
//!
//! A loop whose number of trips is known visits the numbers of the trips, or a sequence (`over=0`). All others end by a
//! result of the function (`until=…`).

use engine_core::diag::Diagnostic;
use engine_core::ir::{DType, Dim, Type};

use crate::body::close;
use crate::fault::broken;
use crate::known::{Known, Number};
use crate::literal::{list, of_number};
use crate::narrow::Narrow;
use crate::node::Node;
use crate::operands::{axis, numbers, operand};
use crate::proto::{GraphProto, ValueInfoProto};
use crate::regions::{graph, results, scalar, uneven, untaken, written_scan, written_trips};
use crate::shapes;
use crate::table::expression;
use crate::translate::Translation;
use crate::values::{Item, Mark};

/// The most trips of a loop that is written out if it might stay one.
const SHORT: i64 = 16;
/// The most trips of a loop of the engine.
const MOST_TRIPS: i64 = i32::MAX as i64;

/// A tensor of the pipeline.
#[derive(Clone)]
pub(crate) struct Tensor {
    name: String,
    ty: Type,
    narrow: Option<&'static Narrow>,
}

/// A trip of a loop while it is translated.
pub(crate) struct Trip<'n> {
    node: &'n Node,
    mark: Mark,
    /// The values that the first trip is given.
    initial: Vec<Tensor>,
    /// The values that a trip is given.
    carried: Vec<Tensor>,
    /// The number of the trip, or the position of a sequence that it visits.
    visited: Tensor,
}

impl Tensor {
    fn item(&self) -> Item {
        Item::tensor(&self.name, self.ty.clone(), self.narrow)
    }

    /// The tensor of an item.
    fn of(of: &mut Translation, label: &str, item: Item) -> Result<Tensor, Diagnostic> {
        let narrow = item.narrow;
        let (name, ty) = of.values.tensor_of(label, item)?;
        Ok(Tensor { name, ty, narrow })
    }

    /// An operand of the function.
    fn local(of: &mut Translation, like: &str, ty: Type, narrow: Option<&'static Narrow>) -> Tensor {
        Tensor { name: of.values.local(like, ty.clone()), ty, narrow }
    }

    fn input(&self) -> (String, Type) {
        (self.name.clone(), self.ty.clone())
    }
}

impl<'n> Trip<'n> {
    /// Begins a trip, which is given the values of these names, under names like those of the inputs of the body.
    pub(crate) fn begin(
        of: &mut Translation,
        node: &'n Node,
        (names, inputs): (&[String], &[ValueInfoProto]),
        (visited, ty, narrow): (&str, Type, Option<&'static Narrow>),
    ) -> Result<Trip<'n>, Diagnostic> {
        if inputs.len() < names.len() {
            return Err(uneven(node));
        }
        let mut initial: Vec<Tensor> = vec![];
        for name in names {
            let item = of.values.item(name).ok_or_else(|| uneven(node))?;
            let (tensor, ty) = of.values.tensor(name)?;
            initial.push(Tensor { name: tensor, ty, narrow: item.narrow });
        }
        let mark = of.values.mark();
        let carried = initial.iter().zip(inputs);
        let carried =
            carried.map(|(x, input)| Tensor::local(of, &input.name, x.ty.clone(), x.narrow)).collect();
        let visited = Tensor::local(of, visited, ty, narrow);
        Ok(Trip { node, mark, initial, carried, visited })
    }

    /// The results of the body as tensors. The first are handed on, and keep their types.
    pub(crate) fn results(&self, of: &mut Translation, found: Vec<Item>) -> Result<Vec<Tensor>, Diagnostic> {
        let mut results = vec![];
        for (at, item) in found.into_iter().enumerate() {
            let result = Tensor::of(of, self.label(at), item)?;
            if let Some(before) = self.carried.get(at)
                && (before.ty != result.ty || before.narrow != result.narrow)
            {
                let fact = format!(
                    "hands on `{}`, which is {} before a trip and {} after it",
                    self.label(at),
                    before.ty,
                    result.ty
                );
                let help = "values that a loop hands on keep their type; up to 4,096 trips of a known number are written out";
                return Err(self.node.refused(&fact, help));
            }
            results.push(result);
        }
        Ok(results)
    }

    /// The name of a value that a trip is given.
    pub(crate) fn carried_name(&self, at: usize) -> String {
        self.carried[at].name.clone()
    }

    /// The name of the position that a trip visits.
    pub(crate) fn visited_name(&self) -> String {
        self.visited.name.clone()
    }

    /// The name of a result.
    fn label(&self, at: usize) -> &str {
        self.node.outputs.get(at).map_or("", String::as_str)
    }

    /// Makes the function of these results, and calls it. Returns the names of the call's results, whose types are given.
    fn call(
        self,
        of: &mut Translation,
        (operands, inputs): (Vec<String>, Vec<(String, Type)>),
        results: Vec<(String, Tensor, Type)>,
        manner: impl Fn(&[String]) -> String,
    ) -> Result<Vec<String>, Diagnostic> {
        let own = if self.node.name.is_empty() { self.label(0) } else { &self.node.name };
        let name = of.values.names.owner(own);
        let function = loop {
            let function = of.values.names.owner(&format!("{name}_body"));
            if of.values.registry.op(&function).is_none() {
                break function;
            }
        };
        let labels: Vec<String> =
            results.iter().map(|(label, ..)| of.values.names.owner(&format!("{name}_{label}"))).collect();
        let outputs =
            labels.iter().zip(&results).map(|(label, (_, result, _))| (label.clone(), result.name.clone()));
        let outputs = outputs.collect();
        let captured = close(of, self.node, &self.mark, (&function, inputs), outputs)?;
        let operands: Vec<String> = operands.into_iter().chain(captured).collect();
        let call = format!("{function}({}, {})", operands.join(", "), manner(&labels));
        let types: Vec<(String, Type)> =
            labels.into_iter().zip(results).map(|(label, (_, _, ty))| (label, ty)).collect();
        Ok(of.values.call(&name, expression(&call), &types))
    }

    /// A loop of n trips. Returns what the last trip hands on, and the rows of all trips.
    pub(crate) fn counted(
        self,
        of: &mut Translation,
        results: Vec<Tensor>,
        (sequence, n): (String, &Number),
    ) -> Result<Vec<Item>, Diagnostic> {
        let n = n.dim().ok_or_else(|| self.node.fault("has a negative number of trips"))?;
        of.settle(names_of(&n));
        let n_carried = self.carried.len();
        let mut operands: Vec<String> = self.initial.iter().map(|x| x.name.clone()).collect();
        let mut inputs: Vec<(String, Type)> = self.carried.iter().map(Tensor::input).collect();
        // The engine hands all results on, rows as well.
        for (at, row) in results.iter().enumerate().skip(n_carried) {
            let value = if row.ty.dtype == DType::Bool { "false" } else { "0" };
            let extents: Vec<Number> = row.ty.shape.iter().map(Number::of).collect();
            operands.push(format!("full(value={value}, shape={}, dtype={})", list(&extents), row.ty.dtype));
            inputs
                .push(Tensor::local(of, &format!("{}_before", self.label(at)), row.ty.clone(), None).input());
        }
        operands.push(sequence);
        inputs.push(self.visited.input());
        let stacked =
            |ty: &Type| Type { shape: [std::slice::from_ref(&n), &ty.shape[..]].concat(), ..ty.clone() };
        let labelled = results.iter().enumerate();
        let labelled =
            labelled.map(|(at, x)| (self.label(at).to_owned(), x.clone(), stacked(&x.ty))).collect();
        let node = self.node;
        let names = self.call(of, (operands, inputs), labelled, |_| "over=0".to_owned())?;
        let mut items = vec![];
        for (at, (name, result)) in names.iter().zip(results).enumerate() {
            items.push(match at < n_carried {
                true => {
                    let label = node.outputs.get(at).map_or("last", String::as_str);
                    of.values.derive(label, &format!("select({name}, index=-1)"), result.narrow)?
                }
                false => Item::tensor(name, stacked(&result.ty), result.narrow),
            });
        }
        Ok(items)
    }
}

/// The names in an extent.
fn names_of(dim: &Dim) -> Vec<String> {
    let mut names = vec![];
    crate::body::walk(&of_number(&Number::of(dim)), &mut |expr| {
        names.extend(crate::values::name_of(expr).map(str::to_owned));
    });
    names
}

/// What determines the number of trips of a `Loop`.
struct Ends {
    /// The number of trips, if it is known; no limit is the largest number.
    limit: Option<Number>,
    /// Whether there is a first trip, if that depends on data: an expression.
    starts: Vec<String>,
}

impl Ends {
    fn of(of: &mut Translation, node: &Node) -> Result<Ends, Diagnostic> {
        let mut ends = Ends { limit: Some(Number::Int(i64::MAX)), starts: vec![] };
        if let Some(name) = node.input(0) {
            ends.limit = numbers(of, node, 0).ok().flatten().and_then(|found| found.first().cloned());
            if ends.limit.is_none() {
                let (limit, _) = of.values.tensor(name)?;
                ends.starts.push(format!("reshape({limit}, shape=[]) > 0"));
            }
        }
        if let Some(name) = node.input(1)
            && of.values.known(name).is_none()
        {
            let (condition, _) = of.values.tensor(name)?;
            ends.starts.push(format!("reshape({condition}, shape=[])"));
        }
        Ok(ends)
    }
}

/// `Loop(trips, condition, carried…)` whose first trip, if only data say whether it is there, is taken in any case.
fn looped_trips(of: &mut Translation, node: &Node) -> Result<Vec<Item>, Diagnostic> {
    let body = graph(node, "body")?;
    let ends = Ends::of(of, node)?;
    let number = body.input.first().map_or("trip", |input| input.name.as_str());
    let names = node.inputs.get(2..).unwrap_or_default();
    let trip = Trip::begin(
        of,
        node,
        (names, body.input.get(2..).unwrap_or_default()),
        (number, Type::scalar(DType::I64), None),
    )?;
    let own = [trip.visited.item(), scalar(DType::Bool, Number::Bool(true))];
    let inputs: Vec<Item> = own.into_iter().chain(trip.carried.iter().map(Tensor::item)).collect();
    let mut found = of.region(node, body, &inputs)?.into_iter();
    let goes_on = found.next().ok_or_else(|| uneven(node))?;
    let results = trip.results(of, found.collect())?;
    if results.len() < names.len() {
        return Err(uneven(node));
    }
    let always = goes_on.known.as_ref().and_then(Known::single).and_then(Number::int);
    match (always, &ends.limit) {
        (Some(1), Some(n)) if ends.starts.is_empty() && n.int() != Some(i64::MAX) => {
            if n.int().is_some_and(|n| !(1..=MOST_TRIPS).contains(&n)) {
                return Err(node.fault("has no trip, or too many"));
            }
            let sequence = format!("iota(shape=[{}], dtype=i64)", of_number(n));
            trip.counted(of, results, (sequence, n))
        }
        _ => ended(of, trip, (results, goes_on), ends),
    }
}

/// A loop that a condition on data ends.
fn ended(
    of: &mut Translation,
    trip: Trip,
    (results, goes_on): (Vec<Tensor>, Item),
    ends: Ends,
) -> Result<Vec<Item>, Diagnostic> {
    let (node, n_carried) = (trip.node, trip.carried.len());
    if node.outputs.iter().skip(n_carried).any(|name| !name.is_empty()) {
        return Err(node.refused(
            "has one row of a result for each trip, and only data determine their number",
            "hand on a tensor for all rows, to which each trip writes one",
        ));
    }
    let most = match &ends.limit {
        Some(n) => n.int().ok_or_else(|| node.fault("may end before an open number of trips"))?,
        None => i64::MAX,
    };
    let next = of.values.derive("next", &format!("{} + 1", trip.visited.name), None)?;
    let next = Tensor::of(of, "next", next)?;
    let done = done(of, node, (goes_on, &next.name), &ends)?;
    let mut operands: Vec<String> = trip.initial.iter().map(|x| x.name.clone()).collect();
    operands.push("full(value=0, shape=[], dtype=i64)".to_owned());
    let inputs = trip.carried.iter().chain([&trip.visited]).map(Tensor::input).collect();
    let handed_on = results.into_iter().take(n_carried).enumerate();
    let mut labelled: Vec<_> =
        handed_on.map(|(at, x)| (trip.label(at).to_owned(), x.clone(), x.ty)).collect();
    labelled.extend([("trip", next), ("done", done)].map(|(label, x)| (label.to_owned(), x.clone(), x.ty)));
    let initial = trip.initial.clone();
    let most = most.clamp(1, MOST_TRIPS);
    let names = trip.call(of, (operands, inputs), labelled, |labels| {
        format!("until={}, most={most}", labels[n_carried + 1])
    })?;
    let mut items = vec![];
    for (at, (before, name)) in initial.into_iter().zip(names).enumerate() {
        let after = Item::tensor(&name, before.ty.clone(), before.narrow);
        items.push(match ends.starts.is_empty() {
            true => after,
            false => {
                let label = node.outputs.get(at).map_or("last", String::as_str);
                let starts = ends.starts.join(" & ");
                of.values.derive(
                    label,
                    &format!("where({starts}, {name}, {})", before.name),
                    before.narrow,
                )?
            }
        });
    }
    items.resize(node.outputs.len().max(items.len()), Item::default());
    Ok(items)
}

/// Whether a trip is the last one: its condition does not hold, or the next number is that of trips.
fn done(
    of: &mut Translation,
    node: &Node,
    (goes_on, next): (Item, &str),
    ends: &Ends,
) -> Result<Tensor, Diagnostic> {
    let mut done = vec![];
    if goes_on.known.as_ref().and_then(Known::single).and_then(Number::int) != Some(1) {
        let goes_on = Tensor::of(of, "goes_on", goes_on)?;
        done.push(format!("!reshape({}, shape=[])", goes_on.name));
    }
    if let (None, Some(name)) = (&ends.limit, node.input(0)) {
        let (limit, _) = of.values.tensor(name)?;
        done.push(format!("{} >= reshape({limit}, shape=[])", next));
    }
    let done =
        if done.is_empty() { "full(value=false, shape=[], dtype=bool)".to_owned() } else { done.join(" | ") };
    let done = of.values.derive("done", &done, None)?;
    Tensor::of(of, "done", done)
}

/// A sequence of a `Scan`: its tensor with the positions on the first axis, in the order of the trips.
fn sequence(
    of: &mut Translation,
    node: &Node,
    at: usize,
    n_carried: usize,
) -> Result<(Tensor, Number), Diagnostic> {
    let (name, shape) = operand(of, node, n_carried + at)?;
    let narrow = of.values.item(name).and_then(|item| item.narrow);
    let along = axis(node, node.int_of("scan_input_axes", at), shape.len())?;
    let (mut text, ty) = of.values.tensor(name)?;
    if along != 0 {
        let axes = Number::vector(
            [along].into_iter().chain((0..shape.len()).filter(|axis| *axis != along)).map(|axis| axis as i64),
        );
        text = format!("permute({text}, axes={})", list(&axes));
    }
    if node.int_of("scan_input_directions", at) != 0 {
        text = format!("slice({text}, step=-1)");
    }
    let tensor = match text == *name || of.values.tensor_type(&text).is_some() {
        true => Tensor { name: text, ty, narrow },
        false => {
            let item = of.values.derive(name, &text, narrow)?;
            Tensor::of(of, name, item)?
        }
    };
    Ok((tensor, shape[along].clone()))
}

/// `Scan(carried…, sequences…)`: a trip for each place on an axis of the sequences.
fn looped_scan(
    of: &mut Translation,
    node: &Node,
    (body, n_carried): (&GraphProto, usize),
) -> Result<Vec<Item>, Diagnostic> {
    let n_sequences = node.inputs.len() - n_carried;
    let found =
        (0..n_sequences).map(|at| sequence(of, node, at, n_carried)).collect::<Result<Vec<_>, _>>()?;
    let Some((first, n)) = found.first().cloned() else { return Err(uneven(node)) };
    if found.iter().any(|(_, other)| *other != n) || n.int().is_some_and(|n| !(1..=MOST_TRIPS).contains(&n)) {
        return Err(uneven(node));
    }
    // A single sequence is visited itself. Of several, the numbers of the positions are visited.
    let row = |ty: &Type| Type { shape: ty.shape[1..].to_vec(), ..ty.clone() };
    let is_single = n_sequences == 1;
    let (like, ty, narrow) = match is_single {
        true => (first.name.as_str(), row(&first.ty), first.narrow),
        false => ("position", Type::scalar(DType::I32), None),
    };
    let trip = Trip::begin(of, node, (&node.inputs[..n_carried], &body.input), (like, ty, narrow))?;
    let mut inputs: Vec<Item> = trip.carried.iter().map(Tensor::item).collect();
    for (sequence, _) in &found {
        inputs.push(match is_single {
            true => trip.visited.item(),
            false => {
                let part = format!("index_select({}, {})", sequence.name, trip.visited.name);
                of.values.derive(&sequence.name, &part, sequence.narrow)?
            }
        });
    }
    let results = of.region(node, body, &inputs)?;
    let results = trip.results(of, results)?;
    let visited = match is_single {
        true => first.name,
        false => format!("iota(shape=[{}])", of_number(&n)),
    };
    let mut items = trip.counted(of, results, (visited, &n))?;
    for (at, item) in items.iter_mut().skip(n_carried).enumerate() {
        let label = node.outputs.get(n_carried + at).map_or("rows", String::as_str);
        *item = turned(of, node, (label, at), item.clone())?;
    }
    Ok(items)
}

/// The rows of a `Scan` on the axis and in the order that it asks for.
fn turned(
    of: &mut Translation,
    node: &Node,
    (label, at): (&str, usize),
    item: Item,
) -> Result<Item, Diagnostic> {
    let rows = Tensor::of(of, label, item.clone())?;
    let rank = rows.ty.rank();
    let along = shapes::axis(node.int_of("scan_output_axes", at), rank, 0).ok_or_else(|| {
        broken(format!("{} has an axis that its result lacks", node.describe()), "export the model again")
    })?;
    let mut text = rows.name.clone();
    if node.int_of("scan_output_directions", at) != 0 {
        text = format!("slice({text}, step=-1)");
    }
    if along != 0 {
        let axes = Number::vector((1..=along).chain([0]).chain(along + 1..rank).map(|axis| axis as i64));
        text = format!("permute({text}, axes={})", list(&axes));
    }
    match text == rows.name {
        true => Ok(item),
        false => of.values.derive(label, &text, rows.narrow),
    }
}

/// `Loop(trips, condition, carried…)`. Short loops are written out if that can be, as their shapes may change.
pub(crate) fn trips(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    if let Some(found) = untaken(of, node)? {
        return results(of, node, found);
    }
    let first =
        of.values.known(node.input(0).unwrap_or_default()).and_then(Known::single).and_then(Number::int);
    translated(of, node, first.is_some_and(|n| n <= SHORT), [&written_trips, &looped_trips])
}

/// `Scan(carried…, sequences…)` since opset 9: a trip for each place on an axis of the sequences.
pub(crate) fn scan(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    if of.opset < 9 {
        return Err(node.fault("has the form of opset 8"));
    }
    let body = graph(node, "body")?;
    let n_sequences = usize::try_from(node.int("num_scan_inputs", 0)).ok();
    let n_carried = n_sequences.and_then(|n| node.inputs.len().checked_sub(n)).ok_or_else(|| uneven(node))?;
    if body.output.len() < n_carried || node.outputs.len() > body.output.len() {
        return Err(uneven(node));
    }
    let (_, shape) = operand(of, node, n_carried)?;
    let along = axis(node, node.int_of("scan_input_axes", 0), shape.len())?;
    let is_short = shape[along].int().is_some_and(|n| n <= SHORT);
    let written = |of: &mut Translation, node: &Node| written_scan(of, node, (body, n_carried));
    let looped = |of: &mut Translation, node: &Node| looped_scan(of, node, (body, n_carried));
    translated(of, node, is_short, [&written, &looped])
}

/// One way to translate a loop.
type Way<'w> = &'w dyn Fn(&mut Translation, &Node) -> Result<Vec<Item>, Diagnostic>;

/// Writes a loop out, or keeps it as one. What fits better is tried first. The fault of the loop is reported if both fail,
/// but that of the written form if there are few trips.
fn translated(
    of: &mut Translation,
    node: &Node,
    is_short: bool,
    [written, looped]: [Way; 2],
) -> Result<(), Diagnostic> {
    let mark = of.values.mark();
    let ways = if is_short { [written, looped] } else { [looped, written] };
    let found = ways[0](of, node).or_else(|fault| {
        of.values.roll_back(&mark);
        ways[1](of, node).map_err(|_| fault)
    });
    results(of, node, found?)
}
