//! `engine profile`: what each kernel takes, and what limits it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine_core::fuse::Kernel;
use engine_core::ir::DType;
use engine_core::plan::Precision;
use engine_runtime::device::{Device, RunError};
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
        let ceiling = Ceiling::measure(device, loaded.opened.pipeline.matmul);
        let ceiling = ceiling.map_err(|error| Failure::coded(Fault::Machine, &error))?;
        Ok((session.device_name().to_string(), measured, ceiling))
    })?;
    let (copied, extent) = (ceiling.copy.size, ceiling.product.size);
    print(format!(
        "{name}: {:.1} GB/s by a copy of {} MiB, {:.1} GFLOP/s by a product of {extent}x{extent}x{extent}",
        ceiling.copy.rate * 1e-9,
        (4 * copied) >> 20,
        ceiling.product.rate * 1e-9
    ));
    measured.iter().for_each(|stage| print(table(stage, &ceiling)));
    match &args.trace {
        Some(path) => write_trace(path, &measured),
        None => Ok(()),
    }
}

/// What the device can do.
struct Ceiling {
    copy: Measured,
    /// In `f32`, as the pipeline has it multiplied.
    product: Measured,
}

impl Ceiling {
    fn measure(device: &Arc<dyn Device>, precision: Precision) -> Result<Ceiling, RunError> {
        Ok(Ceiling {
            copy: ceiling::copy(device)?,
            product: ceiling::product(device, DType::F32, precision)?,
        })
    }
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
    let (reached, limit) = limit(bytes, flops, seconds, ceiling);
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
fn limit(bytes: f64, flops: f64, seconds: f64, ceiling: &Ceiling) -> (f64, &'static str) {
    let (moving, computing) = (bytes / ceiling.copy.rate, flops / ceiling.product.rate);
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
    use super::*;

    #[test]
    fn the_larger_of_two_times_is_the_limit() {
        let measured = |rate: f64| Measured { rate, size: 1 };
        let ceiling = Ceiling { copy: measured(1e9), product: measured(1e10) };
        assert_eq!(limit(1e6, 1e6, 2e-3, &ceiling), (0.5, "memory"));
        assert_eq!(limit(1e6, 1e8, 1e-2, &ceiling), (1.0, "arithmetic"));
        assert_eq!(limit(1e2, 0.0, 1e-5, &ceiling).1, "launching: too little work");
    }
}
