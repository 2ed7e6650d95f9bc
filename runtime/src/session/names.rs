//! Names of columns and classes, which go with the parameters that were trained on them.

use std::path::Path;

use engine_core::ir::Symbol;
use indexmap::IndexMap;

use crate::checkpoint;
use crate::data::source::{ColumnForm, DataSet, FieldNames};

/// The names of a pipeline's data, by `DATA.FIELD`.
pub type DataNames = IndexMap<String, FieldNames>;

/// The entry of a checkpoint's `extra` that holds them.
const NAMES: &str = "names";

/// The names that a checkpoint has kept; none if it is older than they are, or a file of another tool.
pub fn data_names(path: &Path) -> DataNames {
    checkpoint::read_extra(path).map_or_else(|_| DataNames::new(), |extra| from_extra(&extra))
}

pub(super) fn of_sets(sets: &IndexMap<Symbol, DataSet>) -> DataNames {
    let fields = sets.iter().flat_map(|(data, set)| {
        set.names.iter().map(move |(field, names)| (format!("{data}.{field}"), names.clone()))
    });
    fields.collect()
}

pub(super) fn from_extra(extra: &IndexMap<String, String>) -> DataNames {
    extra.get(NAMES).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The entry of a checkpoint; none if there are no names.
pub(super) fn to_extra(names: &DataNames) -> Option<(String, String)> {
    let text = serde_json::to_string(names).ok().filter(|_| !names.is_empty())?;
    Some((NAMES.to_string(), text))
}

/// How the names of data differ from those that a checkpoint was trained on, if they do.
pub(super) fn difference(trained: &DataNames, now: &DataNames) -> Option<String> {
    let both = now.iter().filter_map(|(field, names)| Some((field, trained.get(field)?, names)));
    let differs = |before: &[String], now: &[String]| {
        (!before.is_empty() && !now.is_empty() && before != now).then(|| first_difference(before, now))
    };
    both.filter_map(|(field, before, now)| {
        let columns =
            differs(&before.columns, &now.columns).map(|message| format!("columns of `{field}`: {message}"));
        let classes = || {
            differs(&before.classes, &now.classes).map(|message| format!("classes of `{field}`: {message}"))
        };
        columns.or_else(classes).or_else(|| other_statistics(field, before, now))
    })
    .next()
}

/// The first column whose numbers were transformed otherwise in training.
fn other_statistics(field: &str, before: &FieldNames, now: &FieldNames) -> Option<String> {
    // Checkpoints of older versions have no forms of classes.
    let is_older =
        before.forms.is_empty() && now.forms.iter().all(|form| matches!(form, ColumnForm::Class { .. }));
    let n_forms = before.forms.len().max(now.forms.len());
    let at = (0..n_forms).filter(|_| !is_older).find(|&at| before.forms.get(at) != now.forms.get(at))?;
    let column = match (now.columns.get(at), now.forms.get(at).or(before.forms.get(at))) {
        (Some(name), _) => format!("`{name}`"),
        (None, Some(ColumnForm::Gap { of })) if *of < now.columns.len() => format!("`{}`", now.columns[*of]),
        _ => format!("number {at}"),
    };
    Some(format!("columns of `{field}`: the statistics of {column} are others than in training"))
}

fn first_difference(before: &[String], now: &[String]) -> String {
    let name = |names: &[String], at: usize| {
        names.get(at).map_or("there is none".to_string(), |name| format!("it is `{name}`"))
    };
    let at = (0..).find(|&at| before.get(at) != now.get(at)).unwrap_or_default();
    match before.get(at) {
        Some(was) => format!("number {at} was `{was}` in training, now {}", name(now, at)),
        None => format!("number {at} was not there in training, now {}", name(now, at)),
    }
}
