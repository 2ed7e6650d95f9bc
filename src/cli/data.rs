//! `engine data`.

use engine_runtime::data::source::{LoadContext, Sources};

use super::DataArgs;
use super::output::{Failure, print, remark};

pub(super) fn data(sources: &Sources, args: &DataArgs) -> Result<(), Failure> {
    match &args.name {
        None => {
            sources.iter().for_each(|source| print(format!("{:<18} {}", source.name(), source.summary())));
            Ok(())
        }
        Some(name) => load(sources, name, args),
    }
}

fn load(sources: &Sources, name: &str, args: &DataArgs) -> Result<(), Failure> {
    let context = LoadContext { say: |line| remark(line), ..LoadContext::from_env(args.data_dir.as_deref()) };
    let set = sources.load(name, &context)?;
    print(format!("{}: {}", set.name, set.provenance));
    for (split, rows) in &set.splits {
        for (field, tensor) in rows.fields() {
            print(format!("{split}.{field}: {tensor:?}"));
        }
    }
    match set.note {
        Some(note) => Err(Failure::graph(note)),
        None => Ok(()),
    }
}
