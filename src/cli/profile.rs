//! `engine profile`: what each kernel takes, and what limits it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine_core::fuse::{Kernel, KernelBody};
use engine_core::ir::DType;
use engine_core::plan::{Plan, Precision};
use engine_runtime::device::{Device, DeviceKind, RunError};
use engine_runtime::session::{Effort, Fault, StageMeasure};
use serde_json::{Value, json};

use super::ProfileArgs;
use super::bench::{Loaded, Times, measure};
use super::ceiling::{self, Measured};
use super::device::on_device;
use super::output::{Failure, expect_folder, print};
use crate::Engine;

const WARMUP: usize = 10;

pub(super) fn profile(engine: Engine, args: &ProfileArgs) -> Result<(), Failure> {
    args.trace.iter().try_for_each(|path| expect_folder(path))?;
    let loaded = Loaded::new(&engine, &args.pipeline)?;
    let effort = Effort { warmup: WARMUP, steps: args.steps, at_once: 1, profiled: args.steps };
    let (name, measured, ceiling) = on_device(&args.machine.place, |device| {
        let mut session = loaded.session(&args.machine.compile, device)?;
        let measured = measure(&loaded.opened, &mut session, args.stage.as_deref(), effort)?;
        let ceiling = Ceiling::measure(device, measured.iter().map(|stage| &*stage.plan));
        let ceiling = ceiling.map_err(|error| Failure::coded(Fault::Machine, &error))?;
        Ok((session.device_name().to_string(), measured, ceiling))
    })?;
    print(format!("{name}: {}", ceiling.text()));
    measured.iter().for_each(|stage| print(table(stage, &ceiling)));
    match &args.trace {
        Some(path) => write_trace(path, &measured),
        None => Ok(()),
    }
}

/// What the device can do.
struct Ceiling {
    copy: Measured,
    /// By what is multiplied; there is one for each kernel.
    products: Vec<(Factors, Measured)>,
    /// How products in `f32` are taken.
    matmul: Precision,
}

/// What is multiplied, and how.
type Factors = (DType, Precision);

impl Ceiling {
    /// Products are measured in the types that kernels of these plans have.
    fn measure<'p>(
        device: &Arc<dyn Device>,
        plans: impl Iterator<Item = &'p Plan> + Clone,
    ) -> Result<Ceiling, RunError> {
        let is_tf32 = plans.clone().any(|plan| plan.matmul == Precision::Tf32);
        // Other devices take them in `f32` all the same.
        let is_tf32 = is_tf32 && device.info().kind == DeviceKind::Cuda;
        let matmul = if is_tf32 { Precision::Tf32 } else { Precision::F32 };
        let copy = ceiling::copy(device)?;
        let mut products: Vec<(Factors, Measured)> = vec![];
        for kernel in plans.flat_map(|plan| &plan.kernels) {
            let factors = factors(kernel, matmul);
            if products.iter().all(|(known, _)| *known != factors) {
                products.push((factors, ceiling::product(device, factors.0, factors.1)?));
            }
        }
        Ok(Ceiling { copy, products, matmul })
    }

    fn text(&self) -> String {
        let mut text =
            format!("{:.1} GB/s by a copy of {} MiB", self.copy.rate * 1e-9, (4 * self.copy.size) >> 20);
        for (factors, Measured { rate, size }) in &self.products {
            let factors = match factors {
                (DType::F32, Precision::Tf32) => "tf32".to_string(),
                (dtype, _) => dtype.to_string(),
            };
            let rate = rate * 1e-9;
            text.push_str(&format!(", {rate:.1} GFLOP/s by a product of {size}x{size}x{size} in {factors}"));
        }
        text
    }

    /// The most operations a second of what a kernel multiplies.
    fn arithmetic(&self, kernel: &Kernel) -> f64 {
        let factors = factors(kernel, self.matmul);
        let product = self.products.iter().find(|(known, _)| *known == factors);
        product.map_or(f64::INFINITY, |(_, measured)| measured.rate)
    }
}

/// What a kernel multiplies; one without a product computes in `f32`, as all but doubles do.
fn factors(kernel: &Kernel, matmul: Precision) -> Factors {
    let dtype = match &kernel.body {
        KernelBody::Contract(body) => body.dtype,
        KernelBody::Attend(body) => body.dtype,
        _ => return (DType::F32, Precision::F32),
    };
    (dtype, if dtype == DType::F32 { matmul } else { Precision::F32 })
}

/// A line for each kernel, in the order of launches.
fn table(stage: &StageMeasure, ceiling: &Ceiling) -> String {
    let medians: Vec<f64> = stage.launches.iter().map(|times| Times::of(times).median).collect();
    let total: f64 = medians.iter().sum();
    let mut text = format!(
        "\nstage {}: {} kernels, {:.1} µs in kernels, {:.1} µs a step\n{:<28} {:<13} {:>10} {:>6} {:>9} {:>9} {:>9} {:>8}  {}",
        stage.name,
        medians.len(),
        total * 1e6,
        Times::of(&stage.steps).median * 1e6,
        "kernel",
        "kind",
        "µs",
        "share",
        "KiB",
        "GB/s",
        "GFLOP/s",
        "ceiling",
        "limited by"
    );
    for (launch, &seconds) in stage.plan.launches.iter().zip(&medians) {
        let kernel = &stage.plan.kernels[launch.kernel];
        text.push_str(&line(kernel, seconds, seconds / total.max(1e-12), ceiling));
    }
    text
}

fn line(kernel: &Kernel, seconds: f64, share: f64, ceiling: &Ceiling) -> String {
    let bytes = (kernel.bytes_read + kernel.bytes_written) as f64;
    let flops = kernel.flops as f64;
    let (reached, limit) = limit(bytes, flops, seconds, [ceiling.copy.rate, ceiling.arithmetic(kernel)]);
    format!(
        "\n{:<28} {:<13} {:>10.1} {:>5.1}% {:>9.1} {:>9.2} {:>9.2} {:>7.0}%  {limit}",
        kernel.name,
        kernel.kind(),
        seconds * 1e6,
        share * 100.0,
        bytes / 1024.0,
        bytes / seconds.max(1e-12) * 1e-9,
        flops / seconds.max(1e-12) * 1e-9,
        reached * 100.0
    )
}

/// The share of the ceiling that a kernel reaches, and which ceiling that is. The roofline: no kernel is faster than its
/// bytes take at the speed of a copy, or its arithmetic at that of a product.
/// `most`: bytes and operations a second.
fn limit(bytes: f64, flops: f64, seconds: f64, most: [f64; 2]) -> (f64, &'static str) {
    let (moving, computing) = (bytes / most[0], flops / most[1]);
    let least = moving.max(computing);
    let reached = least / seconds.max(1e-12);
    let limit = match (reached < 0.1, moving >= computing) {
        (true, _) if least < 5e-6 => "launching: too little work",
        (_, true) => "memory",
        (_, false) => "arithmetic",
    };
    (reached, limit)
}

/// One process a stage, one thread a stream; the steps follow each other.
/// Stages are processes and streams their threads, counted from 1, as viewers take 0 for the system's own.
fn write_trace(path: &Path, measured: &[StageMeasure]) -> Result<(), Failure> {
    let mut events: Vec<Value> = vec![];
    for (stage, process) in measured.iter().zip(1..) {
        let named = json!({ "name": &*stage.name });
        events.push(json!({"name": "process_name", "ph": "M", "pid": process, "args": named}));
        for stream in 0..stage.plan.n_streams {
            let (thread, named) = (stream + 1, json!({ "name": format!("stream {stream}") }));
            events.push(
                json!({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": named}),
            );
        }
        // Whole nanoseconds, so that each event starts where the one before has ended.
        let mut at = 0u64;
        let n_steps = stage.launches.first().map_or(0, Vec::len);
        for step in 0..n_steps {
            for (launch, times) in stage.plan.launches.iter().zip(&stage.launches) {
                let kernel = &stage.plan.kernels[launch.kernel];
                let length = (times[step] * 1e9).round() as u64;
                events.push(json!({
                    "name": kernel.name, "cat": kernel.kind(), "ph": "X",
                    "ts": at as f64 / 1e3, "dur": length as f64 / 1e3,
                    "pid": process, "tid": launch.stream + 1,
                    "args": {
                        "step": step, "ops": kernel.ops.join(" "),
                        "bytes_read": kernel.bytes_read, "bytes_written": kernel.bytes_written,
                        "flops": kernel.flops,
                    },
                }));
                at += length;
            }
        }
    }
    let trace = json!({"traceEvents": events, "displayTimeUnit": "ns"});
    fs::write(path, format!("{trace}\n")).map_err(|error| Failure::unwritable(path, &error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::compile::{Options, compile};
    use engine_core::ir::{Builder, Graph, InputKind, Type, Unary};
    use engine_core::op::Registry;
    use engine_runtime::cpu::CpuDevice;

    #[test]
    fn the_larger_of_two_times_is_the_limit() {
        let most = [1e9, 1e10];
        assert_eq!(limit(1e6, 1e6, 2e-3, most), (0.5, "memory"));
        assert_eq!(limit(1e6, 1e8, 1e-2, most), (1.0, "arithmetic"));
        assert_eq!(limit(1e2, 0.0, 1e-5, most).1, "launching: too little work");
    }

    /// The kernels of a product in a type, and of a map.
    fn multiplied(dtype: DType) -> Plan {
        let registry = Registry::new();
        let mut b = Builder::new(Graph::new("g"), &registry);
        let [x, w] = ["x", "w"].map(|name| b.input(name, InputKind::Data, Type::new(dtype, &[64, 64])));
        let product = b.matmul(x, w);
        let map = b.unary(Unary::Exp, x);
        b.graph.outputs.extend([("product".into(), product), ("map".into(), map)]);
        compile(&b.graph, &registry, &Options::default()).plan
    }

    #[test]
    fn each_kernel_is_held_against_products_of_its_own_type() {
        let measured = |rate: f64| Measured { rate, size: 1024 };
        let ceiling = Ceiling {
            copy: Measured { rate: 1e12, size: 1 << 24 },
            products: vec![
                ((DType::F32, Precision::F32), measured(5e13)),
                ((DType::F32, Precision::Tf32), measured(4e14)),
                ((DType::BF16, Precision::F32), measured(8e14)),
            ],
            matmul: Precision::Tf32,
        };
        let text = "1000.0 GB/s by a copy of 64 MiB, 50000.0 GFLOP/s by a product of 1024x1024x1024 in f32, 400000.0 GFLOP/s \
                    by a product of 1024x1024x1024 in tf32, 800000.0 GFLOP/s by a product of 1024x1024x1024 in bf16";
        assert_eq!(ceiling.text(), text);
        let most = |dtype: DType| {
            let mut most: Vec<f64> =
                multiplied(dtype).kernels.iter().map(|kernel| ceiling.arithmetic(kernel)).collect();
            most.sort_by(f64::total_cmp);
            most
        };
        assert_eq!(most(DType::BF16), [5e13, 8e14]);
        assert_eq!(most(DType::F32), [5e13, 4e14]);
    }

    #[test]
    fn products_are_measured_in_the_types_that_kernels_have() {
        let device: Arc<dyn Device> = Arc::new(CpuDevice::new(Some(1)).unwrap());
        let plans = [DType::F32, DType::BF16, DType::BF16].map(multiplied);
        let ceiling = Ceiling::measure(&device, plans.iter()).unwrap();
        let mut measured: Vec<Factors> = ceiling.products.iter().map(|&(factors, _)| factors).collect();
        measured.sort_by_key(|(dtype, _)| dtype.to_string());
        assert_eq!(measured, [(DType::BF16, Precision::F32), (DType::F32, Precision::F32)]);
    }
}
