//! `engine selftest`: the examples of all ops, their gradients and their fusion, on any device.

use std::sync::Arc;

use engine_core::compile::{Options, compile};
use engine_core::ir::{Builder, Graph};
use engine_core::op::{Example, OpForm, Registry};
use engine_core::oracle::Oracle;
use engine_core::testing::{self, Case};
use engine_runtime::device::Device;

use super::args::SelftestArgs;
use super::comparison::{Fault, Tally, Trial, run};
use super::device::open_device;
use super::output::{Failure, print};
use crate::Engine;

pub(super) fn selftest(engine: Engine, args: &SelftestArgs) -> Result<(), Failure> {
    let device = open_device(&args.device)?;
    let registry = &engine.registry;
    let is_wanted = |name: &str| args.filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let (mut n_ops, mut tally) = (0, Tally::default());
    for form in registry.ops().filter(|form| is_wanted(&form.name)) {
        n_ops += 1;
        for example in &form.examples {
            check(&mut tally, form, example, registry, &device)?;
        }
        // The numbers of the examples are independent of this engine. The interpreter, which devices are compared with,
        // must reproduce them.
        let formal =
            testing::op_examples(form, registry).into_iter().chain(testing::op_gradients(form, registry));
        tally.wrong.extend(formal.map(|failure| failure.to_string()));
        tally.n += 2 * form.examples.len();
    }
    report(n_ops, &tally, &device.info().name)
}

fn report(n_ops: usize, tally: &Tally, device: &str) -> Result<(), Failure> {
    let Tally { n, skipped, wrong } = tally;
    skipped.iter().for_each(|skipped| print(format!("skipped: {skipped}")));
    let (n_skipped, n_failures) = (skipped.len(), wrong.len());
    if n_ops == 0 {
        return Err(Failure::graph("no op has a name like that; `engine ops` lists them"));
    }
    let checks = format!("{n_ops} ops, {n} checks on {device}");
    if wrong.is_empty() {
        print(format!("{checks}: all passed, {n_skipped} skipped"));
        return Ok(());
    }
    wrong.iter().for_each(print);
    Err(Failure::graph(format!("{checks}: {n_failures} failed, {n_skipped} skipped")))
}

/// Compares a device with the interpreter on an example, in three forms. Fails only if the computation of the device
/// cannot be judged.
fn check(
    tally: &mut Tally,
    form: &OpForm,
    example: &Example,
    registry: &Registry,
    device: &Arc<dyn Device>,
) -> Result<(), Failure> {
    for (fuse, is_followed, text) in
        [(false, false, "unfused"), (true, false, "fused"), (true, true, "fused with a map after it")]
    {
        let place = format!("{}, {:?}, {text}", form.name, example.title);
        let outcome = testing::case(example, registry).map_err(Fault::Wrong).and_then(|case| {
            let graph = if is_followed { followed(case.graph, registry) } else { case.graph };
            compare(&Case { graph, ..case }, fuse, registry, device)
        });
        tally.count(&place, outcome, |()| String::new())?;
    }
    Ok(())
}

fn compare(case: &Case, fuse: bool, registry: &Registry, device: &Arc<dyn Device>) -> Result<(), Fault> {
    let Case { graph, inputs, .. } = case;
    let exact = Oracle::rounded(registry).run(graph, inputs, 0, 0);
    let exact = exact.map_err(|error| Fault::Wrong(error.to_string()))?;
    let options = Options { fuse, device: device.model(), ..Options::default() };
    let plan = Arc::new(compile(graph, registry, &options).plan);
    let trial = Trial { operands: inputs.clone(), seed: 0, step: 0, sort: "an example" };
    let found = run(device, &plan, &trial)?;
    // A result that is an input or empty needs no kernel and has no buffer.
    let computed =
        exact.outputs.iter().filter_map(|(name, expected)| Some((name, found.get(name)?, expected)));
    let mut differences =
        computed.map(|(name, found, expected)| testing::difference(name, found.to_f64(), expected));
    differences.try_for_each(|difference| difference.map_err(Fault::Wrong))
}

/// The graph with `y·½ + 1` in place of every float result.
fn followed(graph: Graph, registry: &Registry) -> Graph {
    let outputs = graph.outputs.clone();
    let mut builder = Builder::new(graph, registry);
    let after = |builder: &mut Builder, value| match builder.dtype(value).is_float() {
        true => builder.map(&[value], |y| y[0] * 0.5 + 1.0),
        false => value,
    };
    let outputs = outputs.into_iter().map(|(name, value)| (name, after(&mut builder, value))).collect();
    Graph { outputs, ..builder.graph }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::plan::Plan;
    use engine_runtime::device::{DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable};

    /// A device on which every operation fails, with this error.
    pub(in crate::cli) struct Failing(pub(in crate::cli) DeviceError);

    impl Device for Failing {
        fn info(&self) -> DeviceInfo {
            DeviceInfo { name: "a GPU".into(), kind: DeviceKind::Wgpu, memory_bytes: 0, details: vec![] }
        }
        fn allocate(&self, _: usize) -> Result<DeviceBuffer, DeviceError> {
            Err(self.0.clone())
        }
        fn write(&self, _: &DeviceBuffer, _: usize, _: &[u8]) -> Result<(), DeviceError> {
            Err(self.0.clone())
        }
        fn read(&self, _: &DeviceBuffer, _: usize, _: &mut [u8]) -> Result<(), DeviceError> {
            Err(self.0.clone())
        }
        fn prepare(&self, _: Arc<Plan>, _: u64) -> Result<Box<dyn Executable>, DeviceError> {
            Err(self.0.clone())
        }
    }

    /// Devices that are lost or full.
    pub(in crate::cli) fn failing() -> [(Failing, &'static str); 2] {
        let (device, why) = ("a GPU".to_string(), "unplugged".to_string());
        let full = DeviceError::out_of_memory(&device, 1 << 40, None);
        [(Failing(DeviceError::Lost { device, why }), "E0609"), (Failing(full), "E0604")]
    }

    /// Whether a failure blames the machine, in a diagnostic of this code.
    pub(in crate::cli) fn is_of_machine(failure: &Failure, code: &str) -> bool {
        let exit_code = format!("{:?}", failure.exit_code());
        exit_code == format!("{:?}", std::process::ExitCode::from(3)) && failure.text.contains(code)
    }

    #[test]
    fn a_device_that_is_gone_or_full_computes_nothing_wrong() {
        let registry = Engine::new().registry;
        let form = registry.ops().find(|form| form.name.contains("softmax")).unwrap();
        for (device, code) in failing() {
            let device: Arc<dyn Device> = Arc::new(device);
            let mut tally = Tally::default();
            let failure = check(&mut tally, form, &form.examples[0], &registry, &device).unwrap_err();
            assert!(is_of_machine(&failure, code) && tally.wrong.is_empty(), "{}", failure.text);
        }
    }
}
