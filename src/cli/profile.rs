//! `engine profile`: the time of each kernel, and its limit.

use std::path::Path;

use engine_core::fusion::Kernel;
use engine_runtime::files::Overwrite;
use engine_runtime::session::{Effort, Fault, StageMeasure};
use serde_json::{Value, json};

use super::args::ProfileArgs;
use super::bench::{Loaded, Times, measure};
use super::device::on_device;
use super::file::{self, TRACE};
use super::output::{Failure, print};
use super::roofline::{self, Ceiling};
use crate::Engine;

const WARMUP: usize = 10;

pub(super) fn profile(engine: Engine, args: &ProfileArgs) -> Result<(), Failure> {
    let overwrite = args.force.overwrite();
    let trace = args.trace.as_ref();
    let _held = trace.map(|path| file::expect_writable(path, &TRACE, overwrite)).transpose()?;
    let loaded = Loaded::new(&engine, &args.pipeline)?;
    loaded.opened.expect_stages("--stage", &args.stage)?;
    let effort = Effort { warmup: WARMUP, steps: args.steps, at_once: 1, profiled: args.steps };
    let (name, measured, ceiling) = on_device(&args.machine.place, |device| {
        let mut session = loaded.session(&args.machine.compile, device)?;
        let measured = measure(&loaded.opened, &mut session, args.stage.as_deref(), effort)?;
        let ceiling = Ceiling::measure(device, measured.iter().map(|stage| &*stage.plan));
        let mut ceiling = ceiling.map_err(|error| Failure::coded(Fault::Machine, &error))?;
        measured.iter().flat_map(timed).for_each(|(kernel, seconds)| ceiling.raise(kernel, seconds));
        Ok((session.device_name().to_string(), measured, ceiling))
    })?;
    print(format!("{name}: {}", ceiling.text()));
    measured.iter().for_each(|stage| print(table(stage, &ceiling)));
    match &args.trace {
        Some(path) => write_trace(path, &measured, overwrite),
        None => Ok(()),
    }
}

/// The kernel of each launch, with the median of its times.
fn timed(stage: &StageMeasure) -> impl Iterator<Item = (&Kernel, f64)> {
    let launches = stage.plan.launches.iter().zip(&stage.launches);
    launches.map(|(launch, times)| (&stage.plan.kernels[launch.kernel], Times::of(times).median))
}

/// A line for each kernel, in the order of launches.
fn table(stage: &StageMeasure, ceiling: &Ceiling) -> String {
    let timed: Vec<(&Kernel, f64)> = timed(stage).collect();
    let total: f64 = timed.iter().map(|(_, seconds)| seconds).sum();
    let mut text = format!(
        "\nstage {}: {} kernels, {:.1} µs in kernels, {:.1} µs a step\n{:<28} {:<13} {:>10} {:>6} {:>9} {:>9} {:>9} {:>8}  {}",
        stage.name,
        timed.len(),
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
    for (kernel, seconds) in timed {
        text.push_str(&line(kernel, seconds, seconds / total.max(1e-12), ceiling));
    }
    text
}

fn line(kernel: &Kernel, seconds: f64, share: f64, ceiling: &Ceiling) -> String {
    let (bytes, flops) = (roofline::bytes(kernel) as f64, kernel.flops as f64);
    let (reached, limit) = ceiling.limit(kernel, seconds);
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

/// Writes a trace: one process per stage and one thread per stream, steps in sequence. Processes and threads count from
/// 1, since viewers use 0 for the system's own.
fn write_trace(path: &Path, measured: &[StageMeasure], overwrite: Overwrite) -> Result<(), Failure> {
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
        // Times are whole nanoseconds, so that each event starts at the end of the one before.
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
    file::write(path, (&TRACE, overwrite), &|file| writeln!(file, "{trace}"))
}
