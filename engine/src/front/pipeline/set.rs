//! `--set train.epochs=1`: values of the command line take the place of values of the file. Settings by their paths.

use std::collections::HashSet;

use crate::diag::{Code, Diagnostics, FileId, Sources, Span, Spanned, nearest};
use crate::front::{Ron, RonKind, parse_ron};
use crate::text::Text;

/// Replaces fields by path. A stage goes by its name: `train.epochs` is `stages.train.epochs`.
pub(super) fn apply(
    root: &mut Ron,
    overrides: &[(String, String)],
    sources: &mut Sources,
    diags: &mut Diagnostics,
) {
    for (path, written) in overrides {
        let file = sources.add(format!("--set {path}"), written.clone());
        let mut steps: Vec<&str> = path.split('.').collect();
        if field(root, steps[0]).is_none() && stage(root, steps[0]) {
            steps.insert(0, "stages");
        }
        let span = Span::new(file, 0, written.len());
        if let Some(place) = find(root, &steps, span, diags) {
            let mut faults = Diagnostics::new();
            let parsed = parse_ron(file, written, &mut faults);
            let is_value = !faults.has_errors() && !parsed.is_error();
            let is_text = match place.kind {
                // Quotes are for the shell to eat. A field for a text may also hold a list of texts.
                RonKind::Str(_) => !(is_value && matches!(parsed.kind, RonKind::Str(_) | RonKind::List(_))),
                // A new field: a path such as `a.json` is no value.
                RonKind::Error => !is_value && !written.contains(['"', '(', '[', '{']),
                _ => false,
            };
            *place = match is_text {
                true => Ron { span, kind: RonKind::Str(Text::verbatim(file, 0, written)) },
                false => parse_ron(file, written, diags),
            };
        }
    }
}

/// The parts of a pipeline that are settings. Others declare tensors and the graph.
const SETTINGS: [&str; 7] = ["seed", "matmul", "numerics", "deterministic", "dims", "data", "stages"];

/// The settings of a pipeline as (path, value): what is written in the file, with the overrides in place. The paths are
/// those of overrides. A choice with fields, such as `Adam(lr: 1e-3)`, is its word, followed by its fields.
pub fn settings(sources: &Sources, file: FileId, overrides: &[(String, String)]) -> Vec<(String, String)> {
    let (mut sources, mut diags) = (sources.clone(), Diagnostics::new());
    let mut root = parse_ron(file, sources.text(file), &mut diags);
    apply(&mut root, overrides, &mut sources, &mut diags);
    let known: Vec<String> = parts(&mut root).into_iter().map(|(name, _)| name.to_owned()).collect();
    let mut settings = vec![];
    for (name, value) in parts(&mut root) {
        if name == "stages" {
            for (stage, value) in parts(value) {
                let path = if known.iter().any(|name| name == stage) { "stages." } else { "" };
                flatten(format!("{path}{stage}"), value, &sources, &mut settings);
            }
        } else if SETTINGS.contains(&name) {
            flatten(name.to_owned(), value, &sources, &mut settings);
        }
    }
    settings
}

fn flatten(path: String, value: &mut Ron, sources: &Sources, settings: &mut Vec<(String, String)>) {
    match &value.kind {
        RonKind::Struct { name, .. } => {
            settings.extend(name.iter().map(|name| (path.clone(), name.value.clone())));
        }
        RonKind::Map(_) => {}
        RonKind::Str(text) => return settings.push((path, text.value.clone())),
        _ => {
            let written = sources.slice(value.span).split_whitespace().collect::<Vec<_>>().join(" ");
            return settings.push((path, written));
        }
    }
    for (name, part) in parts(value) {
        flatten(format!("{path}.{name}"), part, sources, settings);
    }
}

fn stage(root: &mut Ron, name: &str) -> bool {
    field(root, "stages").is_some_and(|stages| field(stages, name).is_some())
}

/// The value at a path. The last step may name a new field. It is added here, and the reader of the
/// value reports it if it is unknown.
fn find<'r>(root: &'r mut Ron, steps: &[&str], span: Span, diags: &mut Diagnostics) -> Option<&'r mut Ron> {
    let mentioned = mentions(root);
    // A path may start at a stage.
    let stages = field(root, "stages").map(parts).unwrap_or_default();
    let stages: Vec<String> = stages.into_iter().map(|(name, _)| name.to_owned()).collect();
    let mut place = root;
    for (i, step) in steps.iter().enumerate() {
        let last = i + 1 == steps.len();
        let is_known = field(place, step).is_some();
        if !is_known && (is_lost(steps, &mentioned) || !(last && add(place, step, span))) {
            let mut known: Vec<&str> = parts(place).into_iter().map(|(name, _)| name).collect();
            known.extend(stages.iter().filter(|_| i == 0).map(String::as_str));
            // Names of one letter are near only if they differ in case.
            let near = nearest(step, known.iter().copied());
            let near = near.filter(|near| step.len() > 1 || step.eq_ignore_ascii_case(near));
            let help = match near {
                _ if i == 0 && *step == "dims" => no_dims(steps, &mentioned),
                Some(near) => format!("did you mean `{near}` for `{step}`?"),
                None if known.is_empty() => "there are no settings below it".to_owned(),
                None if steps[0] == "dims" => format!("the extents are `{}`", known.join("`, `")),
                None => format!("known here are `{}`", known.join("`, `")),
            };
            diags.error(Code::E0208, span, format!("there is no setting `{}`", steps.join("."))).help(help);
            return None;
        }
        place = field(place, step)?;
    }
    Some(place)
}

/// The help for an extent of a pipeline without `dims`.
fn no_dims(steps: &[&str], mentioned: &HashSet<String>) -> String {
    match steps.get(1) {
        Some(name) if mentioned.contains(*name) => {
            format!("the pipeline has no `dims`; `--set 'dims={{\"{name}\": …}}'` adds them")
        }
        Some(name) => format!("the pipeline has no `dims`, and nothing uses an extent `{name}`"),
        None => "the pipeline has no `dims`".to_owned(),
    }
}

/// Whether an extent with a new name would be used by nothing.
fn is_lost(steps: &[&str], mentioned: &HashSet<String>) -> bool {
    matches!(steps, ["dims", name] if !mentioned.contains(*name))
}

/// The names in all texts and words of a pipeline. Names of entries are none of them.
pub(super) fn mentions(root: &Ron) -> HashSet<String> {
    let (mut found, mut left) = (HashSet::new(), vec![root]);
    while let Some(value) = left.pop() {
        match &value.kind {
            RonKind::Str(text) => found.extend(names_in(&text.value)),
            RonKind::Name(word) => found.extend(names_in(word)),
            RonKind::List(items) | RonKind::Tuple { items, .. } => left.extend(items),
            RonKind::Struct { fields, .. } => left.extend(fields.iter().map(|(_, value)| value)),
            RonKind::Map(entries) => left.extend(entries.iter().map(|(_, value)| value)),
            RonKind::Option(Some(inner)) => left.push(inner),
            _ => {}
        }
    }
    found
}

fn names_in(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

pub(super) fn field<'r>(value: &'r mut Ron, name: &str) -> Option<&'r mut Ron> {
    parts(value).into_iter().find(|(part, _)| *part == name).map(|(_, value)| value)
}

/// The names and values of a group or a map; none for other values.
pub(super) fn parts(value: &mut Ron) -> Vec<(&str, &mut Ron)> {
    match &mut value.kind {
        RonKind::Struct { fields, .. } => {
            fields.iter_mut().map(|(name, value)| (name.value.as_str(), value)).collect()
        }
        RonKind::Map(entries) => {
            let named = entries.iter_mut().filter_map(|(key, value)| match &key.kind {
                RonKind::Str(text) => Some((text.value.as_str(), value)),
                RonKind::Name(word) => Some((word.as_str(), value)),
                _ => None,
            });
            named.collect()
        }
        RonKind::Option(Some(inner)) => parts(inner),
        _ => vec![],
    }
}

/// Adds a field without a value. Returns whether the present value can have fields.
fn add(value: &mut Ron, name: &str, span: Span) -> bool {
    let empty = Ron { span, kind: RonKind::Error };
    match &mut value.kind {
        RonKind::Struct { fields, .. } => fields.push((Spanned::new(span, name.to_owned()), empty)),
        RonKind::Map(entries) => entries.push((Ron { span, kind: RonKind::Name(name.to_owned()) }, empty)),
        RonKind::Option(Some(inner)) => return add(inner, name, span),
        _ => return false,
    }
    true
}
