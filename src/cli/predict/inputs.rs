//! The files of inputs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use engine_core::diag::nearest;
use engine_core::ir::{Symbol, Type};
use engine_core::pipeline::Pipeline;
use engine_core::stage::Prediction;
use engine_runtime::tensor::HostTensor;

use crate::cli::output::Failure;

/// An input with its type.
pub(super) type Fed = (Symbol, Type);

/// The file of each input, from `NAME=FILE`, or `FILE` for a single input and for inputs that are columns of one table.
pub(super) fn files_of_inputs(
    given: &[OsString],
    pipeline: &Pipeline,
    fed: &Prediction,
) -> Result<Vec<PathBuf>, Failure> {
    let names: Vec<&str> = fed.inputs.iter().map(|(name, _)| &**name).collect();
    let mut files: Vec<Option<PathBuf>> = vec![None; names.len()];
    if let [file] = given
        && !file.to_string_lossy().contains('=')
        && are_of_one_table(pipeline, &names)
    {
        return Ok(vec![file.into(); names.len()]);
    }
    for text in given {
        let (input, file) = split(text, &names)?;
        if files[input].replace(file).is_some() {
            return Err(Failure::graph(format!("--input: `{}` is given twice", names[input])));
        }
    }
    let missing = |(file, name): (Option<PathBuf>, &&str)| {
        file.ok_or_else(|| {
            let needed: Vec<String> = names.iter().map(|name| format!("--input {name}=FILE")).collect();
            Failure::graph(format!("input `{name}` has no rows; write `{}`", needed.join(" ")))
        })
    };
    files.into_iter().zip(&names).map(missing).collect()
}

/// Whether all these inputs come from one data source.
fn are_of_one_table(pipeline: &Pipeline, names: &[&str]) -> bool {
    let source = |name: &&str| {
        let decl = pipeline.inputs.iter().find(|decl| *decl.name == **name)?;
        decl.from.as_ref().map(|(data, _)| data)
    };
    let mut sources = names.iter().map(source);
    let first = sources.next().flatten();
    first.is_some() && sources.all(|source| source == first)
}

/// The place of an input among these, and its file.
fn split(text: &OsString, names: &[&str]) -> Result<(usize, PathBuf), Failure> {
    let named = text.to_str().and_then(|text| text.split_once('='));
    if let Some((name, file)) = named
        && let Some(input) = names.iter().position(|known| *known == name.trim())
    {
        return Ok((input, file.into()));
    }
    match (names, named) {
        ([_], None) => Ok((0, text.into())),
        ([_], Some(_)) if Path::new(text).exists() => Ok((0, text.into())),
        (_, Some((name, _))) => {
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names.join(", ")),
            };
            Err(Failure::graph(format!("--input: the outputs depend on no input `{name}`; {hint}")))
        }
        (_, None) => {
            let named: Vec<String> = names.iter().map(|name| format!("--input {name}=FILE")).collect();
            Err(Failure::graph(format!(
                "the outputs depend on several inputs, each with a file: `{}`",
                named.join(" ")
            )))
        }
    }
}

/// Fails unless all inputs have equally many rows.
pub(super) fn expect_equal_rows(fed: &Prediction, rows: &[HostTensor]) -> Result<(), Failure> {
    let counts: Vec<usize> = rows.iter().map(|rows| rows.shape()[0]).collect();
    match counts.iter().position(|count| *count != counts[0]) {
        Some(other) => {
            let [(first, _), (second, _)] = [&fed.inputs[0], &fed.inputs[other]];
            Err(Failure::graph(format!(
                "the inputs have different numbers of rows: `{first}` {}, `{second}` {}",
                counts[0], counts[other]
            )))
        }
        None => Ok(()),
    }
}
