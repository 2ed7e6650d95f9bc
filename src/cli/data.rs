//! `engine data`.

use engine_core::diag::{Code, Diagnostic, Sources as Texts};
use engine_runtime::data::source::{LoadContext, Sources};
use engine_runtime::session::Fault;

use super::args::DataArgs;
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
        Some(note) => {
            let mut missing = Diagnostic::error(Code::E0501, note);
            missing.help("put its files into one of these folders, or fetch it on a machine with a network");
            Err(Failure::diagnostic(Fault::Graph, missing, &Texts::new()))
        }
        None => Ok(()),
    }
}
