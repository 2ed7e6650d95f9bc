//! `engine new`: a new graph or plugin from a template.

use std::fs;
use std::path::{Path, PathBuf};

use super::args::{NewArgs, NewWhat};
use super::output::{Failure, print};

/// The placeholder for the name in the templates.
const NAME: &str = "NAME";
/// The files of the example plugin, which is the template, and its name in it.
const PLUGIN: [(&str, &str); 15] = [
    ("Cargo.toml", include_str!("../../examples/plugin/Cargo.toml")),
    ("functions.ron", include_str!("../../examples/plugin/functions.ron")),
    ("smooth.ron", include_str!("../../examples/plugin/smooth.ron")),
    ("src/main.rs", include_str!("../../examples/plugin/src/main.rs")),
    ("src/lib.rs", include_str!("../../examples/plugin/src/lib.rs")),
    ("src/softsign.rs", include_str!("../../examples/plugin/src/softsign.rs")),
    ("src/bessel.rs", include_str!("../../examples/plugin/src/bessel.rs")),
    ("src/running_median.rs", include_str!("../../examples/plugin/src/running_median.rs")),
    ("src/row_moments.rs", include_str!("../../examples/plugin/src/row_moments.rs")),
    ("src/log_cosh.rs", include_str!("../../examples/plugin/src/log_cosh.rs")),
    ("src/norms.rs", include_str!("../../examples/plugin/src/norms.rs")),
    ("src/inverse_sqrt.rs", include_str!("../../examples/plugin/src/inverse_sqrt.rs")),
    ("src/reciprocal_rank.rs", include_str!("../../examples/plugin/src/reciprocal_rank.rs")),
    ("tests/forms.rs", include_str!("../../examples/plugin/tests/forms.rs")),
    ("tests/ops.rs", include_str!("../../examples/plugin/tests/ops.rs")),
];
const PLUGIN_NAME: &str = "my_plugin";
/// The dependency in the example's manifest.
const IN_WORKSPACE: &str = "engine = { path = \"../..\" }";
/// The remark on that dependency in other manifests.
const OUTSIDE: &str = "# The path must lead to a checkout of the engine.";
/// The library that plugins depend on, at its path when this program was built.
const ENGINE: &str = env!("CARGO_MANIFEST_DIR");
/// The plugin is a workspace of its own. Every profile optimizes arithmetic.
const WORKSPACE: &str = "
[workspace]

[profile.dev]
opt-level = 1

[profile.dev.package.\"*\"]
opt-level = 2
debug = false
";

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
    for folder in ["src", "tests"] {
        fs::create_dir_all(dir.join(folder)).map_err(|error| Failure::unwritable(dir, &error))?;
    }
    for (file, text) in PLUGIN {
        let text = text.replace(PLUGIN_NAME, name);
        let text =
            text.replace(IN_WORKSPACE, &format!("{OUTSIDE}\nengine = {{ path = {ENGINE:?} }}\n{WORKSPACE}"));
        write(&dir.join(file), &text)?;
    }
    print(format!(
        "{name}/: `cargo test` tests its ops, `cargo run -- ops` lists them, `cargo run -- run smooth.ron` trains through them"
    ));
    Ok(())
}

fn check_name(name: &str) -> Result<(), Failure> {
    if is_name(name) {
        return Ok(());
    }
    // A file name, as in `mine.ron`.
    let start = name.split('.').next().filter(|start| is_name(start));
    let hint = start.map_or(String::new(), |start| format!("; did you mean `{start}`?"));
    Err(Failure::graph(format!("`{name}` is no name: letters, digits and `_`, a letter first{hint}")))
}

fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic());
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Fails if the file exists.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    match path.exists() {
        true => Err(exists(path)),
        false => fs::write(path, text).map_err(|error| Failure::unwritable(path, &error)),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::graph(format!("{} already exists", path.display()))
}
