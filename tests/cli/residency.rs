//! Rows that stay on the host do not change results, in combination with any other setting.

use super::*;

/// Eight steps per epoch, the last one short, so that windows of 32 steps are filled three times.
const LONG: [&str; 4] = ["--set", "train.epochs=9", "--quiet", "--threads=2"];

#[test]
fn a_run_on_rows_from_the_host_has_the_same_bits() {
    let desk = Desk::new();
    let cases: [&[&str]; 4] = [
        &[],
        &["--set", "train.accumulate=2", "--set", "train.batch=30", "--set", "train.optimizer.lr=1e-3"],
        &["--trace-nan"],
        &["--no-fuse"],
    ];
    for case in cases {
        let kept = desk.run(&[&LONG[..], case].concat());
        let expected = desk.checkpoint("latest.ckpt");
        let sent = desk.run(&[&LONG[..], case, &["--resident-mib", "0"]].concat());
        assert_eq!(desk.checkpoint("latest.ckpt"), expected, "{case:?}");
        // The line before contains seconds.
        assert_eq!(sent.results.lines().last(), kept.results.lines().last(), "{case:?}");
    }
}

#[test]
fn splits_that_stay_on_the_host_are_reported() {
    let desk = Desk::new();
    let ended = desk.run(&["--resident-mib", "0", "--set", "train.epochs=1"]);
    let note = "`digits.train` stays on the host (1 MiB); its rows are copied to the device 32 steps ahead";
    assert!(ended.errors.contains(note), "{}", ended.errors);
    let ended = desk.run(&["--resident-mib", "1", "--set", "train.epochs=1"]);
    assert!(!ended.errors.contains("stays on the host"), "{}", ended.errors);
}

#[test]
fn rows_from_the_host_can_be_measured() {
    let desk = Desk::new();
    let measure =
        ["bench", "tiny.ron", "--device", "cpu", "--resident-mib", "0", "--steps", "70", "--warmup", "1"];
    let ended = desk.engine(&[&measure[..], &["--at-once", "3"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.contains("train"), "{}", ended.results);
}

/// Rows of large files stay on disk. Here, those of all files do.
#[test]
fn a_run_on_rows_from_disk_has_the_same_bits() {
    let desk = Desk::new();
    desk.write("rows.ron", ON_DISK);
    fs::create_dir(desk.path("data")).unwrap();
    let elements: Vec<f32> = (0..3000).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    save_npy(&desk.path("data/x.npy"), &HostTensor::from_slice(&[1000, 3], &elements).unwrap());
    save_npy(&desk.path("data/y.npy"), &HostTensor::from_slice(&[1000], &elements[..1000]).unwrap());
    let run = |on_disk: &str| {
        let mut command = desk.command(&["run", "rows.ron", "--device", "cpu"]);
        let ended = Ended::from(command.env("ENGINE_ON_DISK_MIB", on_disk).output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        (ended, desk.checkpoint("rows.ckpt"))
    };
    let (in_memory, expected) = run("1");
    let (on_disk, found) = run("0");
    assert_eq!(found, expected);
    let note = "`rows.train` stays on disk (1 MiB); its rows are copied to the device 32 steps ahead";
    assert!(on_disk.errors.contains(note) && !in_memory.errors.contains("stays on"), "{}", on_disk.errors);
}

const ON_DISK: &str = r#"(
  data: {"rows": (source: "files", x: "x.npy", y: "y.npy", validation: 0.2)},
  inputs: {"x": (type: "f32[B, 3]", from: "rows.x"), "y": (type: "f32[B]", from: "rows.y")},
  nodes: {"loss": "mse_loss(reshape(Linear(x, width=1), shape=[B]), y)"},
  stages: {
    "train": Train(
      data: "rows.train", batch: 30, epochs: 3, loss: "loss", optimizer: Adam(lr: 0.01),
      evaluate: Evaluate(data: "rows.validation", batch: 100, metrics: ["loss"]),
      checkpoint: (path: "rows.ckpt"),
    ),
  },
)"#;
