//! Reductions over thousands of rows, which GPUs take in two steps. Sums of small whole numbers are exact in any order.

use super::*;
use engine::runtime::device::Device;
use std::sync::Arc;

const OUTPUTS: [&str; 6] = ["sums", "largest", "least", "halves", "by_group", "first"];

fn found(device: &Arc<dyn Device>, fuse: bool) -> [Vec<f64>; 6] {
    let text = r#"(
        nodes: {
            "place": "arange(stop=4096 * 24)",
            "x": "reshape(cast(remainder(place * 37, 101) - 50, dtype=f32), shape=[4096, 24])",
            "twice": "x * 2.0",
            "sums": "sum(twice, axis=0)",
            "largest": "max(twice, axis=0)",
            "least": "min(x * x - x, axis=0)",
            "halves": "cast(sum(cast(x, dtype=bf16), axis=0), dtype=f32)",
            "by_group": "sum(reshape(x, shape=[2, 2048, 24]), axis=1)",
            "first": "slice(twice, stop=3)",
        },
        stages: {"go": Run(outputs: ["sums", "largest", "least", "halves", "by_group", "first"])},
    )"#;
    let mut session = offline::session(text, Arc::clone(device), Options { fuse, ..Options::default() });
    let report = session.run_stages(None, &mut |_| {}).unwrap();
    OUTPUTS.map(|name| report.outputs[name].values.to_f64())
}

/// The same by arithmetic of whole numbers.
fn expected() -> [Vec<f64>; 6] {
    let x = |row: usize, column: usize| (((row * 24 + column) * 37) % 101) as i64 - 50;
    let by_column = |of: &dyn Fn(usize) -> i64| (0..24).map(|column| of(column) as f64).collect::<Vec<f64>>();
    let sum = |rows: std::ops::Range<usize>, column| rows.map(|row| x(row, column)).sum::<i64>();
    let narrow =
        |sum: f64| f64::from(f32::from_bits((sum as f32).to_bits().wrapping_add(0x7fff + 1) & 0xffff_0000));
    let halves = by_column(&|column| sum(0..4096, column)).into_iter().map(|sum| match sum.abs() < 256.0 {
        true => sum,
        // To the nearest of 8 bits; no sum lies half way.
        false => narrow(sum),
    });
    [
        by_column(&|column| 2 * sum(0..4096, column)),
        by_column(&|column| (0..4096).map(|row| 2 * x(row, column)).max().unwrap()),
        by_column(&|column| (0..4096).map(|row| x(row, column) * (x(row, column) - 1)).min().unwrap()),
        halves.collect(),
        (0..2).flat_map(|group| by_column(&|column| sum(group * 2048..(group + 1) * 2048, column))).collect(),
        (0..3).flat_map(|row| by_column(&|column| 2 * x(row, column))).collect(),
    ]
}

#[test]
fn long_columns_are_reduced_exactly_on_every_device() {
    let (cpu, expected) = (present::cpu(2), expected());
    let ways = [(&cpu, true), (&cpu, false)].into_iter().chain(present::gpus().iter().map(|gpu| (gpu, true)));
    for (device, fuse) in ways {
        let found = found(device, fuse);
        for (name, (found, expected)) in OUTPUTS.iter().zip(found.iter().zip(&expected)) {
            assert_eq!(found, expected, "{name} on {}", device.info().name);
        }
    }
}
