//! Trips of loops: what their kernels write, and the gradient of a sequence of halves.

use super::*;
use engine::core::device_model::DeviceModel;

/// Positions of the sequence, more than are written out.
const POSITIONS: usize = 200;
/// Sequences, and the columns of each.
const SEQUENCES: usize = 4;
const COLUMNS: usize = 16;
/// The columns of a state of the network.
const WIDTH: usize = 24;

/// The gradient of sequences that go through a recurrent network.
fn gradient(precision: &str, device: DeviceModel) -> (Compiled, Pipeline) {
    let text = format!(
        r#"(
            seed: 4,
            {precision}
            dims: {{"T": {POSITIONS}}},
            params: {{"x": (type: "f32[{SEQUENCES}, T, {COLUMNS}]", init: Normal(0, 1))}},
            nodes: {{"h": "GRU(x, width={WIDTH})", "loss": "sum(h * h)"}},
            stages: {{"gradient": Run(outputs: ["d.x"], loss: "loss")}},
        )"#
    );
    let (pipeline, registry) = parse("sequence.ron", text);
    let stage: &RunStage = pipeline.stages[0].get().unwrap();
    let graph = stage::running(&pipeline, stage, &registry).unwrap();
    (compile(&graph, &registry, &Options { device, ..Options::default() }), pipeline)
}

/// A kernel of a trip that writes a value of all positions writes rows of it in place.
#[test]
fn no_trip_visits_all_positions() {
    for precision in ["", "precision: Bf16,", "precision: F16,"] {
        for device in [DeviceModel::CPU, DeviceModel::H200] {
            let (compiled, _) = gradient(precision, device);
            assert_eq!(compiled.plan.loops.len(), 2, "forward and backward");
            for trip in &compiled.plan.loops {
                let plan = &trip.step;
                for launch in &plan.launches {
                    let kernel = &plan.kernels[launch.kernel];
                    let is_in_place = plan.scatters_in_place(launch) || kernel.writes_rows();
                    let largest = plan.written(launch).map(|id| plan.buffers[id].ty.numel()).max();
                    let is_of_one = largest < Some(SEQUENCES * POSITIONS * WIDTH);
                    assert!(is_in_place || is_of_one, "{precision} `{}` of {plan}", kernel.name);
                }
            }
        }
    }
}

#[test]
fn the_gradient_of_a_sequence_of_halves_is_near_that_of_floats() {
    let device = CpuDevice::new(Some(2)).unwrap();
    let run = |precision: &str| {
        let (compiled, pipeline) = gradient(precision, DeviceModel::CPU);
        let mut executable = prepare(&compiled, &pipeline, &device);
        executable.run(0, 1).unwrap();
        f32s(&*executable, "d.x", SEQUENCES * POSITIONS * COLUMNS)
    };
    let (exact, halves) = (run(""), run("precision: Bf16,"));
    let size = exact.iter().fold(0f32, |most, x| most.max(x.abs()));
    assert!(size > 0.0 && exact != halves, "nothing was rounded");
    assert!(exact.iter().zip(&halves).all(|(a, b)| (a - b).abs() <= 0.03 * size));
}
