//! `engine new`: a graph or a plugin to start from.

use std::fs;
use std::path::{Path, PathBuf};

use super::output::{Failure, print};
use super::{NewArgs, NewWhat};

/// Stands for the name in the templates.
const NAME: &str = "NAME";
/// The library that plugins depend on, where this program was built.
const ENGINE: &str = env!("CARGO_MANIFEST_DIR");

pub(super) fn new(args: &NewArgs) -> Result<(), Failure> {
    match &args.what {
        NewWhat::Graph { name } => graph(name),
        NewWhat::Plugin { name } => plugin(name),
    }
}

fn graph(name: &str) -> Result<(), Failure> {
    check_name(name)?;
    let path = PathBuf::from(format!("{name}.ron"));
    write(&path, &include_str!("new/graph.ron").replace(NAME, name))?;
    print(format!("{}: `engine run {0}` trains it", path.display()));
    Ok(())
}

fn plugin(name: &str) -> Result<(), Failure> {
    check_name(name)?;
    let dir = Path::new(name);
    if dir.exists() {
        return Err(exists(dir));
    }
    fs::create_dir_all(dir.join("src")).map_err(|error| Failure::unwritable(dir, &error))?;
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nengine = {{ path = {ENGINE:?} }}\n\n[workspace]\n"
    );
    let main = "//! The engine with these ops: `cargo run -- ops` lists them among the others.\n\nmod ops;\n\nfn main() -> std::process::ExitCode {\n    engine::cli::main_with(|engine| engine.plugin(ops::Ops))\n}\n";
    for (file, text) in [
        ("Cargo.toml", manifest.as_str()),
        ("src/main.rs", main),
        ("src/ops.rs", include_str!("new/ops.rs")),
        ("functions.ron", include_str!("new/functions.ron")),
    ] {
        write(&dir.join(file), &text.replace(NAME, name))?;
    }
    print(format!(
        "{name}/: `cargo test` tests its ops, `cargo run -- ops` lists them, `cargo run -- run GRAPH.ron` runs"
    ));
    Ok(())
}

fn check_name(name: &str) -> Result<(), Failure> {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic());
    match starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => Ok(()),
        false => Err(Failure::graph(format!("`{name}` is no name: letters, digits and `_`, a letter first"))),
    }
}

/// Never over what is there.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    match path.exists() {
        true => Err(exists(path)),
        false => fs::write(path, text).map_err(|error| Failure::unwritable(path, &error)),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::graph(format!("{} is there already", path.display()))
}
