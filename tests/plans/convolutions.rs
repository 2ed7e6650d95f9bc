//! Convolutions found among matmuls, for a library that takes the image. They are compared with the matmuls, term by term.

use super::*;
use engine::core::device_model::{DeviceModel, KernelLimits};
use engine::core::fusion::{
    Axis, Computed, Convolution, FewWindows, KernelBody, MatmulBody, Side, TensorLayout,
};
use engine::core::program::{Action, Multiplier, NO_ALGORITHM, Recorded};

/// An H200 with a library of convolutions.
const DEVICE: DeviceModel = DeviceModel {
    kernels: KernelLimits { convolutions: true, ..DeviceModel::H200.kernels },
    ..DeviceModel::H200
};

/// A training step of a pipeline on rows of 784 bytes with labels.
fn step(pipeline: &Pipeline, registry: &Registry, batch: usize) -> Compiled {
    let train = train_stage(pipeline);
    let data = pipeline.inputs.iter().find_map(|input| input.from.clone()).unwrap().0;
    let split = SplitShape { data, ..digits() };
    let rows = Rows::Batches { batch, per_epoch: ROWS / batch };
    let step = stage::training(pipeline, train, &split, rows, registry).unwrap();
    compile(&step.graph, registry, &Options { device: DEVICE, ..Options::default() })
}

fn matmuls(compiled: &Compiled) -> impl Iterator<Item = &MatmulBody> {
    compiled.plan.kernels.iter().filter_map(|kernel| match &kernel.body {
        KernelBody::Matmul(body) => Some(body),
        _ => None,
    })
}

/// Numbers between -1 and 1 that follow from a place of a tensor.
fn number(tensor: usize, at: i64) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (tensor as u64) << 17;
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A number of points as a coordinate on each of some axes, outermost first.
fn coordinates(mut point: usize, extents: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let coordinate = point % extent;
            point /= extent;
            coordinate
        })
        .collect();
    found.reverse();
    found
}

fn along(axes: &[Axis], point: usize) -> i64 {
    let extents: Vec<usize> = axes.iter().map(|axis| axis.extent).collect();
    coordinates(point, &extents).iter().zip(axes).map(|(&at, axis)| at as i64 * axis.stride).sum()
}

/// An element of the product, by the axes of the matrices.
fn by_axes(body: &MatmulBody, [batch, i, j]: [usize; 3]) -> f64 {
    let (lhs, rhs) = (body.axes(Side::Lhs), body.axes(Side::Rhs));
    let left = |k: usize| {
        let at = along(&lhs.batch, batch) + along(&lhs.rows, i) + along(&lhs.columns, k);
        number(0, body.lhs.offset + at)
    };
    let right = |k: usize| {
        let at = along(&rhs.batch, batch) + along(&rhs.rows, k) + along(&rhs.columns, j);
        number(1, body.rhs.offset + at)
    };
    (0..body.k).map(|k| left(k) * right(k)).sum()
}

/// An element of a tensor, given by the operand that it lies in and the offset there.
fn element(layout: &TensorLayout, (tensor, offset): (usize, i64), at: [usize; 5]) -> f64 {
    let at: i64 = at.iter().zip(layout.strides).map(|(&at, stride)| at as i64 * stride).sum();
    number(tensor, offset + at)
}

/// Where a window at a place reads the image, if it is not the border.
fn pixel(it: &Convolution, place: &[usize], part: &[usize]) -> Option<[usize; 3]> {
    let mut found = [0; 3];
    for axis in 0..3 {
        let place = place[axis] * it.stride[axis] + part[axis] * it.dilation[axis];
        found[axis] = place.checked_sub(it.padding[axis])?;
    }
    found.iter().zip(&it.image.extents[2..]).all(|(at, extent)| at < extent).then_some(found)
}

/// Element `at` of what a convolution computes, by the definition of a convolution.
fn by_definition(it: &Convolution, lhs_offset: i64, at: usize) -> f64 {
    let [outputs, channels, ..] = it.weights;
    let per_group = outputs / it.groups;
    let (window, places) = (&it.weights[2..], &it.result.extents[2..]);
    let read = |place: &[usize], part: &[usize]| pixel(it, place, part);
    let tensor = |n: usize, channel: usize, [d, h, w]: [usize; 3]| [n, channel, d, h, w];
    let whole = |of: &[usize]| [of[0], of[1], of[2]];
    let weight = |output: usize, channel: usize, part: &[usize]| {
        let extents = [outputs, channels, window[0], window[1], window[2]];
        let at = [output, channel, part[0], part[1], part[2]];
        number(
            0,
            lhs_offset + at.iter().zip(extents).fold(0, |sum, (&at, extent)| sum * extent as i64 + at as i64),
        )
    };
    let parts = || (0..window.iter().product()).map(|part| coordinates(part, window));
    let mut sum = 0.0;
    match it.computed {
        Computed::Result => {
            let point = coordinates(at, &it.result.extents);
            let (n, output) = (point[0], point[1]);
            for channel in 0..channels {
                for part in parts() {
                    let Some(pixel) = read(&point[2..], &part) else { continue };
                    let pixel = tensor(n, output / per_group * channels + channel, pixel);
                    sum += weight(output, channel, &part) * element(&it.image, (1, it.offset), pixel);
                }
            }
        }
        Computed::Image => {
            let point = coordinates(at, &it.image.extents);
            let (n, group, channel) = (point[0], point[1] / channels, point[1] % channels);
            for place in (0..places.iter().product()).map(|place| coordinates(place, places)) {
                for part in parts().filter(|part| read(&place, part) == Some(whole(&point[2..]))) {
                    for output in group * per_group..(group + 1) * per_group {
                        let gradient = element(&it.result, (1, it.offset), tensor(n, output, whole(&place)));
                        sum += weight(output, channel, &part) * gradient;
                    }
                }
            }
        }
        Computed::Weights => {
            let point = coordinates(at, &it.weights);
            let (output, channel) = (point[0], point[1]);
            for n in 0..it.image.extents[0] {
                for place in (0..places.iter().product()).map(|place| coordinates(place, places)) {
                    let Some(pixel) = read(&place, &point[2..]) else { continue };
                    let pixel = tensor(n, output / per_group * channels + channel, pixel);
                    let gradient = element(&it.result, (0, lhs_offset), tensor(n, output, whole(&place)));
                    sum += gradient * element(&it.image, (1, it.offset), pixel);
                }
            }
        }
    }
    sum
}

/// Compares some elements of the product of a matmul with those of its convolution, which must be one.
fn compare(body: &MatmulBody, n_points: usize) -> Computed {
    let convolution = Convolution::of(body).unwrap();
    let &MatmulBody { batch, m, n, .. } = body;
    let computed = match convolution.computed {
        Computed::Result => convolution.result.extents,
        Computed::Image => convolution.image.extents,
        Computed::Weights => convolution.weights,
    };
    assert_eq!(computed.iter().product::<usize>(), batch * m * n, "{convolution}");
    let last = batch * m * n - 1;
    for point in (0..n_points).map(|i| if i == 0 { last } else { i * 7919 * 31 % (last + 1) }) {
        let [row, column] = [point / n, point % n];
        let expected = by_axes(body, [row / m, row % m, column]);
        let found = by_definition(&convolution, body.lhs.offset, point);
        assert!(
            (found - expected).abs() < 1e-9 * body.k as f64,
            "{convolution} at {point}: {found}, {expected}"
        );
    }
    convolution.computed
}

/// How many results, gradients of images and gradients of weights are convolutions. Phases of an image with strides count as
/// results. A kernel that reads windows where they lie may take those of a few rows.
fn counts(compiled: &Compiled, n_points: usize) -> [usize; 3] {
    let is_few = |body: &MatmulBody| {
        let few = FewWindows::of_axes([&body.axes(Side::Lhs), &body.axes(Side::Rhs)]);
        few.is_some() && Convolution::of(body).is_none()
    };
    let found: Vec<Computed> = matmuls(compiled)
        .filter(|body| body.uneven != [None, None] && !is_few(body))
        .map(|body| compare(body, n_points))
        .collect();
    [Computed::Result, Computed::Image, Computed::Weights]
        .map(|kind| found.iter().filter(|&&computed| computed == kind).count())
}

/// Three convolutions, of which the image of the first needs no gradient.
#[test]
fn the_convolutions_of_mnist_and_their_gradients_are_found() {
    let (pipeline, registry) = load("mnist_cnn.ron");
    assert_eq!(counts(&step(&pipeline, &registry, 8), 12), [3, 2, 3]);
}

/// Of 20 convolutions, 19 are found; the image of the first needs no gradient.
#[test]
fn the_convolutions_of_resnet_and_their_gradients_are_found() {
    let (pipeline, registry) = load("resnet.ron");
    // Three convolutions with a stride have four phases each, and one of these has a single tap.
    assert_eq!(counts(&step(&pipeline, &registry, 4), 4), [19 + 9, 13, 19]);
}

/// A training step of two convolutions in turn.
fn two_convolutions(image: &str, weights: [[usize; 4]; 2], settings: [&str; 2]) -> Compiled {
    let [first, second] = weights.map(|weights| format!("(type: \"f32{weights:?}\", init: Xavier)"));
    let text = format!(
        r#"(
  name: "two",
  data: {{"digits": (source: "mnist")}},
  inputs: {{"image": (type: "u8[B, 784]", from: "digits.images")}},
  params: {{"w1": {first}, "w2": {second}}},
  nodes: {{
    "x": "reshape(cast(image, dtype=f32) / 255.0, shape=[B, {image}])",
    "y": "relu(conv(x, w1, {}))",
    "z": "conv(y, w2, {})",
    "loss": "mean(z * z)",
  }},
  stages: {{
    "train": Train(data: "digits.train", batch: 4, epochs: 1, loss: "loss", optimizer: Sgd(lr: 0.1)),
  }},
)"#,
        settings[0], settings[1]
    );
    let (pipeline, registry) = parse("two.ron", text);
    step(&pipeline, &registry, 4)
}

/// Where windows overlap, or touch without a border. Others repeat no element of the image, so that a copy of it with its
/// border saves nothing.
#[test]
fn strides_dilation_borders_and_groups_are_found() {
    let settings =
        ["stride=1", "stride=2, padding=1", "dilation=[2, 1], padding=[1, 2]", "stride=[1, 2], dilation=2"];
    let mut found = [0; 3];
    let mut add = |counts: [usize; 3]| found.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    for first in settings {
        for second in settings {
            for w1 in [[6, 4, 3, 3], [6, 4, 1, 3], [6, 4, 2, 1]] {
                add(counts(&two_convolutions("4, 14, 14", [w1, [5, 6, 3, 2]], [first, second]), 20));
            }
        }
    }
    for groups in [2, 4] {
        let [first, second] =
            ["padding=1", "stride=2"].map(|settings| format!("{settings}, groups={groups}"));
        let weights = [[8, 4 / groups, 3, 3], [4, 8 / groups, 3, 3]];
        add(counts(&two_convolutions("4, 14, 14", weights, [&first, &second]), 40));
    }
    // Of 100 results, 50 gradients of images, of which those with strides are phases, and 100 gradients of weights.
    assert_eq!(found, [87 + 27, 36, 87]);
}

/// The library is the first variant, behind which come those on a copy of the windows.
#[test]
fn programs_call_the_library_or_copy_windows() {
    let compiled = two_convolutions("16, 7, 7", [[64, 16, 3, 3], [32, 64, 3, 3]], ["padding=1", "padding=1"]);
    let open = compiled.plan.programs(&DEVICE, &Recorded::default()).unwrap();
    let calls = |programs: &engine::core::program::Programs| {
        let steps = programs.programs.iter().flat_map(|program| &program.steps);
        let calls = steps.filter_map(|step| match &step.action {
            Action::Matmul(step) if matches!(step.call.multiplier, Multiplier::Convolution(_)) => {
                Some(step.call.key().name())
            }
            _ => None,
        });
        calls.collect::<Vec<String>>()
    };
    assert_eq!(calls(&open).len(), 5);
    // The library has no algorithm: all windows are copied, and the copies lie in workspaces.
    let refused = calls(&open).into_iter().map(|name| (name, NO_ALGORITHM.to_string())).collect();
    let copied = compiled.plan.programs(&DEVICE, &Recorded(refused)).unwrap();
    assert_eq!(calls(&copied).len(), 0);
    let texts = [open, copied].map(|programs| programs.describe(&compiled.plan, &DEVICE));
    expect_file!["../golden/programs_convolution.txt"].assert_eq(&texts.concat());
}

/// The gradient of an image reads flipped weights for each item. Their copy has the bytes of the weights.
#[test]
fn the_copy_of_weights_does_not_grow_with_the_items() {
    let copies = |n: usize, device: DeviceModel| -> Vec<usize> {
        let text = format!(
            r#"(
  name: "copies",
  params: {{"x": "f32[{n}, 8, 7, 7]", "w": "f32[12, 8, 3, 3]"}},
  nodes: {{"y": "conv(x, w, padding=1)", "loss": "sum(y * y)"}},
  stages: {{"g": Run(outputs: ["loss", "d.x"], loss: "loss")}},
)"#
        );
        let (pipeline, registry) = parse("copies.ron", text);
        let run: &RunStage = pipeline.stages.iter().find_map(Stage::get).unwrap();
        let graph = stage::running(&pipeline, run, &registry).unwrap();
        let compiled = compile(&graph, &registry, &Options { device, ..Options::default() });
        let is_copy = |kernel: &&Kernel| {
            let names: Vec<String> =
                kernel.uses(Use::Read).map(|operand| compiled.name(operand.value).to_string()).collect();
            kernel.kind() == "map" && names == ["w"]
        };
        let copies = compiled.plan.kernels.iter().filter(is_copy);
        copies.flat_map(|kernel| kernel.uses(Use::Write)).map(|operand| operand.ty.bytes()).collect()
    };
    for device in [DeviceModel::CPU, DeviceModel::H200] {
        assert_eq!([2, 16].map(|n| copies(n, device)), [vec![4 * 12 * 8 * 9], vec![4 * 12 * 8 * 9]]);
    }
}

/// A GPU without a library of convolutions copies no windows of a depthwise convolution, or of the gradient of its image.
#[test]
fn a_few_rows_of_windows_are_read_where_they_lie() {
    let text = r#"(
  name: "depthwise",
  params: {"x": "f32[4, 16, 28, 28]", "w": "f32[16, 1, 3, 3]"},
  nodes: {"y": "conv(x, w, padding=1, groups=16)", "loss": "sum(y * y)"},
  stages: {"g": Run(outputs: ["loss", "d.x"], loss: "loss")},
)"#;
    let (pipeline, registry) = parse("depthwise.ron", text.to_string());
    let run: &RunStage = pipeline.stages.iter().find_map(Stage::get).unwrap();
    let graph = stage::running(&pipeline, run, &registry).unwrap();
    let device = DeviceModel::H200;
    let compiled = compile(&graph, &registry, &Options { device, ..Options::default() });
    assert!(matmuls(&compiled).all(|body| body.uneven[1].is_some()));
    let padded = 4 * 16 * 30 * 30;
    let written = compiled.plan.kernels.iter().flat_map(|kernel| kernel.uses(Use::Write));
    assert!(written.map(|operand| operand.ty.numel()).max() <= Some(padded));
    let programs = compiled.plan.programs(&device, &Recorded::default()).unwrap();
    expect_file!["../golden/programs_depthwise.txt"].assert_eq(&programs.describe(&compiled.plan, &device));
}
