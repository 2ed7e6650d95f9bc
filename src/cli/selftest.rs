//! `engine selftest`: the examples of all ops, their gradients and their fusion, on any device.

use std::sync::Arc;

use engine_core::compile::{Options, compile};
use engine_core::ir::{Builder, DType, Graph};
use engine_core::op::{Example, OpForm, Registry};
use engine_core::oracle::{Oracle, OracleTensor};
use engine_core::testing;
use engine_runtime::device::{Device, DeviceError, RunError};
use engine_runtime::plan_runner::Once;
use engine_runtime::tensor::HostTensor;

use super::args::SelftestArgs;
use super::device::open_device;
use super::output::{Failure, print};
use crate::Engine;

/// The form in which an example runs on the device.
#[derive(Clone, Copy)]
enum Form {
    /// Every node is a kernel of its own.
    Unfused,
    /// Fused.
    Fused,
    /// Fused with a map over every float result.
    Followed,
}

/// The result of the checks.
#[derive(Default)]
struct Count {
    n_ops: usize,
    n_checks: usize,
    /// Kernels that the device reports as unsupported.
    skipped: Vec<String>,
    failures: Vec<String>,
}

pub(super) fn selftest(engine: Engine, args: &SelftestArgs) -> Result<(), Failure> {
    let device = open_device(&args.device)?;
    let registry = &engine.registry;
    let is_wanted = |name: &str| args.filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let mut count = Count::default();
    for form in registry.ops().filter(|form| is_wanted(&form.name)) {
        count.n_ops += 1;
        for example in &form.examples {
            count.check(form, example, registry, &device)?;
        }
        // The numbers of the examples are independent of this engine. The interpreter, which devices are compared with,
        // must reproduce them.
        let formal =
            testing::op_examples(form, registry).into_iter().chain(testing::op_gradients(form, registry));
        count.failures.extend(formal.map(|failure| failure.to_string()));
        count.n_checks += 2 * form.examples.len();
    }
    report(&count, &device.info().name)
}

fn report(count: &Count, device: &str) -> Result<(), Failure> {
    count.skipped.iter().for_each(|skipped| print(format!("skipped: {skipped}")));
    let Count { n_ops, n_checks, skipped, failures } = count;
    let n_skipped = skipped.len();
    if *n_ops == 0 {
        return Err(Failure::graph("no op has a name like that; `engine ops` lists them"));
    }
    if failures.is_empty() {
        print(format!("{n_ops} ops, {n_checks} checks on {device}: all passed, {n_skipped} skipped"));
        return Ok(());
    }
    failures.iter().for_each(print);
    let n_failures = failures.len();
    Err(Failure::graph(format!(
        "{n_ops} ops, {n_checks} checks on {device}: {n_failures} failed, {n_skipped} skipped"
    )))
}

impl Count {
    /// Fails only if the computation of the device cannot be judged.
    fn check(
        &mut self,
        form: &OpForm,
        example: &Example,
        registry: &Registry,
        device: &Arc<dyn Device>,
    ) -> Result<(), Failure> {
        for (run_as, text) in [
            (Form::Unfused, "unfused"),
            (Form::Fused, "fused"),
            (Form::Followed, "fused with a map after it"),
        ] {
            let place = format!("{}, {:?}, {text}", form.name, example.title);
            self.n_checks += 1;
            match run(example, registry, device, run_as) {
                Ok(()) => {}
                Err(Fault::Unsupported(why)) => self.skipped.push(format!("{place}: {why}")),
                Err(Fault::Wrong(why)) => self.failures.push(format!("{place}: {why}")),
                Err(Fault::Machine(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Why a device differs from the interpreter.
pub(super) enum Fault {
    /// The device does not support it.
    Unsupported(String),
    /// The device failed or computed a wrong result.
    Wrong(String),
    /// The device is lost or out of memory, which does not judge its computation.
    Machine(DeviceError),
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Device(DeviceError::Unsupported { .. }) => Fault::Unsupported(error.to_string()),
            RunError::Device(error @ (DeviceError::Lost { .. } | DeviceError::OutOfMemory { .. })) => {
                Fault::Machine(error)
            }
            _ => Fault::Wrong(error.to_string()),
        }
    }
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Self {
        RunError::from(error).into()
    }
}

fn run(example: &Example, registry: &Registry, device: &Arc<dyn Device>, form: Form) -> Result<(), Fault> {
    let case = testing::case(example, registry).map_err(Fault::Wrong)?;
    let graph = match form {
        Form::Followed => followed(case.graph, registry),
        Form::Unfused | Form::Fused => case.graph,
    };
    let exact = Oracle::rounded(registry).run(&graph, &case.inputs, 0, 0);
    let exact = exact.map_err(|error| Fault::Wrong(error.to_string()))?;
    let model = device.model();
    let fuse = !matches!(form, Form::Unfused);
    let options = Options { fuse, device: model, ..Options::default() };
    let plan = Arc::new(compile(&graph, registry, &options).plan);
    let mut once = Once::new(device, plan, &case.inputs, 0)?;
    once.run(0)?;
    let found = once.outputs()?;
    for (name, expected) in &exact.outputs {
        // A result that is an input or empty needs no kernel and has no buffer.
        if let Some(found) = found.get(name) {
            difference(name, found, expected).map_or(Ok(()), |why| Err(Fault::Wrong(why)))?;
        }
    }
    Ok(())
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

/// The first element whose error exceeds the tolerance of its type.
pub(super) fn difference(name: &str, found: &HostTensor, expected: &OracleTensor) -> Option<String> {
    let tolerance = tolerance(expected.dtype);
    let pairs = found.to_f64().into_iter().zip(expected.to_f64());
    pairs.enumerate().find_map(|(i, (a, b))| {
        let is_near = a == b
            || (a.is_nan() && b.is_nan())
            || (expected.dtype.is_float() && (a - b).abs() <= tolerance * b.abs() + 1e-6);
        (!is_near).then(|| format!("{name}[{i}] is {a} instead of {b}"))
    })
}

/// The relative tolerance of a type.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-2,
        DType::BF16 => 2e-2,
        _ => 1e-5,
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::plan::Plan;
    use engine_runtime::device::{DeviceBuffer, DeviceInfo, DeviceKind, Executable};

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
            let mut count = Count::default();
            let failure = count.check(form, &form.examples[0], &registry, &device).unwrap_err();
            assert!(is_of_machine(&failure, code) && count.failures.is_empty(), "{}", failure.text);
        }
    }
}
