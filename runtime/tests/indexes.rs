#![allow(clippy::unwrap_used, missing_docs)]
//! Searches and indexes of rows that are hard to tell apart: bounds hold, no result is lost, no certificate is wrong, and
//! damaged files of indexes are found out.
//!
//! `ENGINE_INDEX_TIMES=200 cargo test -p engine-runtime --test indexes -- --nocapture` takes 200 times as many cases, and
//! `ENGINE_INDEX_SEED` draws others. `benches/long.md` has the latest result.

use engine::Engine;
use engine::core::compile::Options;
use engine::devices::{Choice, open};
use engine_runtime::data::source::LoadContext;
use engine_runtime::session::{Session, SessionError};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;
use std::path::Path;
use std::sync::LazyLock;

#[path = "indexes/certificates.rs"]
mod certificates;
#[path = "indexes/cut.rs"]
mod cut;
#[path = "indexes/files.rs"]
mod files;
#[path = "indexes/gates.rs"]
mod gates;
#[path = "indexes/rows.rs"]
mod rows;
#[path = "indexes/trees.rs"]
mod trees;
#[path = "indexes/truth.rs"]
mod truth;

const METRICS: [&str; 3] = ["l2", "cosine", "ip"];

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// So many cases, or as many times that as the environment says.
fn many(few: usize) -> usize {
    few * setting("ENGINE_INDEX_TIMES").unwrap_or(1)
}

fn session(text: &str) -> Session {
    static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::new);
    let program = ENGINE.read("index.ron", text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    let device = open(Choice::Cpu, Some(1)).unwrap().device;
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    ENGINE.session(program, device, &data, Options::default(), &mut |_| {}).unwrap()
}

/// Values of nodes by name.
struct Values(IndexMap<String, Vec<f64>>);

impl Values {
    fn of(
        session: &Session,
        names: &[String],
        inputs: &[(&str, HostTensor)],
    ) -> Result<Values, SessionError> {
        let names: Vec<_> = names.iter().map(|name| (&**name).into()).collect();
        let inputs = inputs.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())).collect();
        let found = session.run(&names, &inputs)?;
        Ok(Values(found.iter().map(|(name, tensor)| (name.to_string(), tensor.to_f64())).collect()))
    }

    fn at(&self, name: &str) -> &[f64] {
        &self.0[name]
    }
}

fn matrix(extents: [usize; 2], elements: &[f32]) -> HostTensor {
    HostTensor::from_slice(&extents, elements).unwrap()
}
