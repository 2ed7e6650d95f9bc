//! The data sets of a pipeline.

use engine_core::ir::{DType, Symbol};
use engine_core::pipeline::{DataDecl, Pipeline};
use indexmap::IndexMap;

use super::error::SessionError;
use super::event::{Event, Subscriber};
use crate::data::source::{DataSet, LoadContext, Sources};

/// Loads the data sets of a pipeline, by their names in it.
pub fn load_data(
    pipeline: &Pipeline,
    sources: &Sources,
    context: &LoadContext,
    tell: &mut Subscriber<'_>,
) -> Result<IndexMap<Symbol, DataSet>, SessionError> {
    let mut sets = IndexMap::new();
    for decl in &pipeline.data {
        let set = load_set(pipeline, decl, sources, context)?;
        tell(&Event::DataLoaded { data: &decl.name, set: &set });
        sets.insert(decl.name.clone(), set);
    }
    Ok(sets)
}

/// Loads one data set of a pipeline, in the types that its inputs declare where the source reads text.
///
/// # Errors
/// If the source fails.
pub fn load_set(
    pipeline: &Pipeline,
    decl: &DataDecl,
    sources: &Sources,
    context: &LoadContext,
) -> Result<DataSet, SessionError> {
    let (options, types) = (decl.options.clone(), declared_types(pipeline, &decl.name));
    let context = LoadContext { options, types, ..context.clone() };
    let set = sources.load(&decl.source, &context);
    set.map_err(|source| SessionError::Data { data: decl.name.clone(), source: Box::new(source) })
}

/// The element types of the inputs that a data source feeds, by field.
fn declared_types(pipeline: &Pipeline, data: &Symbol) -> Vec<(Symbol, DType)> {
    let fed = pipeline.inputs.iter().filter_map(|input| {
        let (_, field) = input.from.as_ref().filter(|(source, _)| source == data)?;
        Some((field.clone(), pipeline.graph.ty(pipeline.graph.find(&input.name)?).dtype))
    });
    fed.collect()
}
