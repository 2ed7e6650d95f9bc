//! Outputs that are classes, and the names of the classes.

use engine_core::lower::primitives;
use engine_core::op::Registry;
use engine_core::pipeline::{Pipeline, PredictStage};
use engine_core::stage::{Prediction, inference, picks_among};
use engine_runtime::session::DataNames;
use indexmap::IndexMap;

use crate::cli::output::{Failure, remark};

/// Names of classes by output.
pub(super) type Classes = IndexMap<String, Vec<String>>;

/// Names of classes, for outputs named in the stage's `classes` and for outputs that pick one of the data's classes.
pub(super) fn classes_of_outputs(
    pipeline: &Pipeline,
    registry: &Registry,
    (stage, fed): (&PredictStage, &Prediction),
    trained: &DataNames,
) -> Result<Classes, Failure> {
    let mut classes = Classes::new();
    for (output, (data, field)) in &stage.classes {
        let field = format!("{data}.{field}");
        match trained.get(&field).map(|names| &names.classes).filter(|classes| !classes.is_empty()) {
            Some(names) => drop(classes.insert(output.to_string(), names.clone())),
            None => remark(format!("note: no names of classes of `{field}` were kept in training")),
        }
    }
    // Classes of columns that are inputs are none of the outputs. Labels may be both: a loss of each row reads them.
    let inputs = pipeline.inputs.iter().filter(|decl| fed.inputs.iter().any(|(name, _)| *name == decl.name));
    let inputs: Vec<String> =
        inputs.filter_map(|decl| decl.from.as_ref()).map(|(data, field)| format!("{data}.{field}")).collect();
    let outputs = trained.iter().filter(|(field, names)| names.columns.is_empty() || !inputs.contains(field));
    let mut known = outputs.map(|(_, names)| &names.classes).filter(|classes| !classes.is_empty());
    let (Some(names), None) = (known.next(), known.next()) else { return Ok(classes) };
    let extents = [(fed.rows.clone(), stage.batch.max(1))];
    let Ok(graph) = inference(pipeline, &stage.outputs, &extents, (stage.mode, stage.precision)) else {
        return Ok(classes);
    };
    let graph = primitives(&graph, registry);
    for (output, value) in &graph.outputs {
        let ty = graph.ty(*value);
        let is_pick = ty.rank() == 1 && ty.dtype.is_int() && picks_among(&graph, *value) == Some(names.len());
        if is_pick {
            classes.entry(output.to_string()).or_insert_with(|| names.clone());
        }
    }
    Ok(classes)
}
