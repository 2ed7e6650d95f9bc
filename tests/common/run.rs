//! Runs of whole pipelines.

use crate::offline;
use engine::core::compile::Options;
use engine::runtime::device::Device;
use std::sync::Arc;

/// The outputs of a pipeline on a device, or its error.
pub fn run(
    text: &str,
    (device, fuse): (Arc<dyn Device>, bool),
) -> Result<impl Fn(&str) -> Vec<f64> + use<>, String> {
    let options = Options { fuse, ..Options::default() };
    let report = offline::session(text, device, options).run_stages(None, &mut |_| {});
    let outputs = report.map_err(|error| error.to_string())?.outputs;
    Ok(move |name: &str| outputs[name].values.to_f64())
}
