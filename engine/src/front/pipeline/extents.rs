//! The extents of inputs, as the file names them.

use super::set::{apply, field, parts};
use crate::diag::{Diagnostics, FileId, Sources};
use crate::front::{Ron, RonKind, parse_ron};
use crate::text::expr::{ExprKind, parse_type};
use indexmap::IndexMap;

/// The field of a pipeline, and of a `Run` stage, that gives extents numbers.
const DIMS: &str = "dims";

/// The names of the extents of each input, by axis; none for numbers.
type Named = IndexMap<String, Vec<Option<String>>>;

/// Which extents of each input are those of `dims`, by axis: the `T` of `i64[B, T]` under `dims: {"T": 16}`.
pub fn fixed_extents(sources: &Sources, file: FileId, overrides: &[(String, String)]) -> Named {
    let mut root = root(sources, file, overrides);
    let dims = names_in(&mut root, DIMS);
    let mut named = named(&mut root);
    let is_open = |name: &String| !dims.contains(name);
    named.values_mut().flatten().for_each(|name| _ = name.take_if(|name| is_open(name)));
    named
}

/// The overrides by which `Run` stages get extents that they leave open, from the shapes of values that inputs are given.
/// `shape` is asked for the inputs with such extents alone.
pub fn dims_of_values(
    sources: &Sources,
    file: FileId,
    overrides: &[(String, String)],
    shape: &mut dyn FnMut(&str) -> Option<Vec<usize>>,
) -> Vec<(String, String)> {
    let mut root = root(sources, file, overrides);
    let (inputs, fixed) = (named(&mut root), names_in(&mut root, DIMS));
    let mut added = vec![];
    for (stage, value) in field(&mut root, "stages").map_or(vec![], parts) {
        let is_run = value.head().is_some_and(|head| head.value == "Run");
        // The path of an override cannot name a stage with a dot in its name.
        if !is_run || !matches!(value.kind, RonKind::Struct { .. }) || stage.contains('.') {
            continue;
        }
        let own = names_in(value, DIMS);
        let is_open = |name: &String| !fixed.contains(name) && !own.contains(name);
        let found = numbers_of(&inputs, &is_open, shape);
        let path = format!("stages.{stage}.{DIMS}");
        match field(value, DIMS) {
            Some(_) => added.extend(found.iter().map(|(name, n)| (format!("{path}.{name}"), n.to_string()))),
            None if found.is_empty() => {}
            None => {
                let entries: Vec<String> = found.iter().map(|(name, n)| format!("\"{name}\": {n}")).collect();
                added.push((path, format!("{{{}}}", entries.join(", "))));
            }
        }
    }
    added
}

/// The numbers of open extents in the shapes of inputs.
fn numbers_of<'i>(
    inputs: &'i Named,
    is_open: &dyn Fn(&String) -> bool,
    shape: &mut dyn FnMut(&str) -> Option<Vec<usize>>,
) -> IndexMap<&'i str, usize> {
    let mut found = IndexMap::new();
    let asked = inputs.iter().filter(|(_, names)| names.iter().flatten().any(is_open));
    for (input, names) in asked {
        let Some(shape) = shape(input).filter(|shape| shape.len() == names.len()) else { continue };
        for (name, extent) in names.iter().zip(shape) {
            if let Some(name) = name.as_ref().filter(|name| is_open(name)) {
                found.entry(name.as_str()).or_insert(extent);
            }
        }
    }
    found
}

/// The tree of a pipeline with its overrides. Faults are reported where the pipeline is read.
fn root(sources: &Sources, file: FileId, overrides: &[(String, String)]) -> Ron {
    let (mut sources, mut diags) = (sources.clone(), Diagnostics::new());
    let mut root = parse_ron(file, sources.text(file), &mut diags);
    apply(&mut root, overrides, &mut sources, &mut diags);
    root
}

/// The names of the fields or entries of a value's field.
fn names_in(value: &mut Ron, name: &str) -> Vec<String> {
    let parts = field(value, name).map_or(vec![], parts);
    parts.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// The names in the types of inputs.
fn named(root: &mut Ron) -> Named {
    let inputs = field(root, "inputs").map_or(vec![], parts);
    inputs.into_iter().filter_map(|(input, value)| Some((input.to_owned(), names_of(value)?))).collect()
}

/// The names in the type of an input: a type alone, or a field beside the data that it is from.
fn names_of(input: &mut Ron) -> Option<Vec<Option<String>>> {
    let mut diags = Diagnostics::new();
    let ty = match field(input, "type") {
        Some(ty) => ty.clone(),
        None => input.clone(),
    };
    let written = parse_type(ty.string("a type", &mut diags)?, &mut diags)?;
    let name = |kind| match kind {
        ExprKind::Name(name) => Some(name),
        _ => None,
    };
    Some(written.dims.into_iter().map(|extent| name(extent.kind)).collect())
}
