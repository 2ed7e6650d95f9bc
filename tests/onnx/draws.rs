//! Models that draw (`tests/examples/onnx_draws.py`): what they draw follows the law of each row.

use super::common::{bytes, outputs, tensor};
use super::present::{cpu, gpus};
use engine::core::compile::Options;
use engine::core::ir::DType;
use engine::runtime::device::Device;
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Facts, Model};
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

fn recorded() -> Json {
    serde_json::from_str(include_str!("../examples/onnx_draws.json")).unwrap()
}

fn imported(hex: &Json) -> Model {
    let model = bytes(hex.as_str().unwrap());
    let imported = Engine::new().import(Path::new("model.onnx"), model, &Facts::default());
    imported.unwrap_or_else(|fault| panic!("{}; {:?}", fault.message, fault.help))
}

fn drawn(
    hex: &Json,
    inputs: &IndexMap<String, HostTensor>,
    device: &Arc<dyn Device>,
    fuse: bool,
) -> IndexMap<String, HostTensor> {
    outputs(imported(hex), Arc::clone(device), inputs, Options { fuse, ..Options::default() }).unwrap()
}

fn mean(x: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = x.len() as f64;
    x.sum::<f64>() / n
}

/// Asserts that mean, variance and, of classes, frequencies lie within four and a half standard deviations of the law. A
/// number of these tests is off by chance once in 150,000.
fn assert_law(what: &str, row: &[f64], law: &Json) {
    let n = row.len() as f64;
    let [expected, variance, fourth, low, high] =
        ["mean", "variance", "fourth", "low", "high"].map(|key| law[key].as_f64().unwrap());
    assert!(row.iter().all(|x| (low..=high).contains(x)), "{what}: a number lies outside {low}..{high}");
    // Beside chance, numbers of 16 bits are rounded.
    let is_near = |found: f64, expected: f64, variance: f64| {
        (found - expected).abs() <= 4.5 * (variance / n).sqrt() + 1e-3 * variance.sqrt()
    };
    let found = mean(row.iter().copied());
    assert!(is_near(found, expected, variance), "{what}: the mean is {found} instead of {expected}");
    let spread = mean(row.iter().map(|x| (x - expected).powi(2)));
    let of_spread = fourth - variance.powi(2);
    assert!(is_near(spread, variance, of_spread), "{what}: the variance is {spread} instead of {variance}");
    let shares = law["shares"].as_array().into_iter().flatten().map(|share| share.as_f64().unwrap());
    for (class, share) in shares.enumerate() {
        let hits = row.iter().filter(|&&x| x == class as f64).count() as f64 / n;
        let of_hits = share * (1.0 - share);
        assert!(is_near(hits, share, of_hits), "{what}: {class} has the share {hits} instead of {share}");
    }
    if law["shares"].is_array() {
        assert!(row.iter().all(|x| x.fract() == 0.0), "{what}: a class is no whole number");
    }
}

fn assert_laws(device: &Arc<dyn Device>, fuse: bool) {
    let recorded = recorded();
    for case in recorded["laws"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let inputs = case["inputs"].as_object().unwrap();
        let inputs = inputs.iter().map(|(name, recorded)| (name.clone(), tensor(recorded))).collect();
        let y = drawn(&case["model"], &inputs, device, fuse)["y"].clone();
        let laws = case["rows"].as_array().unwrap();
        assert_eq!((y.dtype().name(), y.shape()), (case["dtype"].as_str().unwrap(), &[laws.len(), 4096][..]));
        let y = y.to_f64();
        for (at, (row, law)) in y.chunks(4096).zip(laws).enumerate() {
            assert_law(&format!("{name}, row {at}"), row, law);
        }
        // Draws of two rows differ, unless their laws allow one number only.
        let is_sure = |law: &Json| law["variance"].as_f64() == Some(0.0);
        for (pair, law) in y.chunks(4096).collect::<Vec<_>>().windows(2).zip(laws) {
            assert!(pair[0] != pair[1] || is_sure(law), "{name}: two rows are equal");
        }
    }
}

#[test]
fn draws_follow_the_laws_of_onnx() {
    assert_laws(&cpu(2), true);
    assert_laws(&cpu(2), false);
}

#[test]
fn draws_on_gpus_follow_the_laws_of_onnx() {
    gpus().iter().for_each(|gpu| assert_laws(gpu, true));
}

#[test]
fn draws_of_one_seed_are_equal() {
    let recorded = recorded();
    let draws = || drawn(&recorded["seeds"], &IndexMap::new(), &cpu(2), true);
    let (first, again) = (draws(), draws());
    for op in ["RandomNormal", "RandomUniform"] {
        // Two of the seed 3, one of 3.25, two without a seed.
        let [a, b, other, own, own_too] = [0, 1, 2, 3, 4].map(|at| first[&format!("{op}{at}")].to_f64());
        assert_eq!(a, b, "{op}");
        for (x, y) in [(&a, &other), (&a, &own), (&other, &own), (&own, &own_too)] {
            assert!(x.iter().zip(y).all(|(x, y)| x != y), "{op}");
        }
        for at in 0..5 {
            let name = format!("{op}{at}");
            assert_eq!(first[&name].to_f64(), again[&name].to_f64(), "{name}");
        }
    }
}

#[test]
fn dropout_in_training_keeps_the_mean() {
    let recorded = recorded();
    let x: Vec<f64> = (0..4096).map(f64::from).collect();
    let given = HostTensor::from_slice(&[4096], &x).unwrap().cast(DType::F32).unwrap();
    let found = drawn(&recorded["dropout"], &IndexMap::from([("x".into(), given)]), &cpu(2), true);
    let (y, mask) = (found["y"].to_f64(), found["mask"].to_f64());
    assert_eq!(found["mask"].dtype(), DType::Bool);
    // Four and a half standard deviations are 125.
    let kept = mask.iter().filter(|&&kept| kept == 1.0).count();
    assert!(kept.abs_diff(3072) <= 125, "{kept} of 4096 are kept by the ratio 0.25");
    for ((x, y), kept) in x.iter().zip(y).zip(mask) {
        assert!((y - x * kept / 0.75).abs() <= 1e-6 * x, "{x} becomes {y}");
    }
}
