//! Values of the command line.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use engine_core::front::given_text;
use engine_core::ir::Symbol;
use engine_core::pipeline::Given;

/// The path of a folder that exists.
pub(super) fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.is_dir() {
        true => Ok(path),
        false => Err("there is no such folder"),
    })
}

pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number from 0 on".to_string())
}

pub(super) fn parse_mib(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u32::MAX))
}

pub(super) fn parse_every(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(every @ 1..) => Ok(every),
        _ => Err("expected a whole number from 1 on".to_string()),
    }
}

pub(super) fn parse_steps(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(steps @ 1..=1_000_000) => Ok(steps),
        _ => Err("expected a whole number from 1 to 1000000".to_string()),
    }
}

pub(super) fn parse_switch(name: &str) -> Result<String, String> {
    let switches = engine_core::compile::switches();
    match switches.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("known are {}", switches.join(", "))),
    }
}

pub(super) fn parse_override(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as train.epochs=1")?;
    if key.trim().is_empty() {
        return Err("the key is empty".to_string());
    }
    Ok((key.trim().to_string(), value.to_string()))
}

pub(super) fn parse_dim(text: &str) -> Result<(Symbol, usize), String> {
    let (name, extent) = text.split_once('=').ok_or("expected NAME=N, such as batch=8")?;
    let extent = extent.trim().parse().map_err(|_| "expected a whole number behind `=`")?;
    Ok((name.trim().into(), extent))
}

pub(super) fn parse_input(text: &str) -> Result<(String, Given), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as x=values.npy or x=[1,2]")?;
    Ok((name.trim().to_string(), given_text(value.trim())?))
}

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a whole number from 1 to 1024".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_have_a_key_and_any_value() {
        let read = |text| parse_override(text).ok();
        assert_eq!(read("train.epochs=1"), Some(("train.epochs".to_string(), "1".to_string())));
        assert_eq!(read("name=\"a=b\""), Some(("name".to_string(), "\"a=b\"".to_string())));
        assert_eq!((read("seed"), read("=1")), (None, None));
    }
}
