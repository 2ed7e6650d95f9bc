//! Results of many numbers or large ones: running sums, scores of attention, and random numbers below their bound.

use super::*;
use engine::core::oracle::{Oracle, OracleTensor};

fn devices() -> Vec<Arc<dyn Device>> {
    [cpu()].into_iter().chain(gpus().iter().cloned()).collect()
}

fn graph(ops: &Registry, build: impl FnOnce(&mut Builder) -> Vec<Value>) -> Graph {
    let mut b = Builder::new(Graph::new("case"), ops);
    let outputs = build(&mut b);
    let outputs = outputs.into_iter().enumerate().map(|(i, value)| (format!("out{i}").into(), value));
    Graph { outputs: outputs.collect(), ..b.graph }.pruned()
}

fn attrs(settings: &[(&str, Attr)]) -> Attrs {
    settings.iter().fold(Attrs::default(), |attrs, (name, value)| attrs.with(name, value.clone()))
}

#[test]
fn running_sums_stay_within_a_millionth() {
    let registry = Engine::new().registry;
    for (shape, axis) in [(vec![3_000_000], 0i64), (vec![70_000, 3], 0), (vec![2, 100_000], 1)] {
        let ty = Type::new(DType::F32, &shape);
        let graph = graph(&registry, |b| {
            let x = b.input("x", InputKind::Data, ty.clone());
            b.call("cumsum", &[x], attrs(&[("axis", Attr::from(axis))])).unwrap()
        });
        let values: Vec<f32> = noise(ty.numel(), 5).map(|x| 0.1 + 0.05 * x as f32).collect();
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let inputs = HashMap::from([("x".to_string(), bytes)]);
        let case = Case { graph, inputs, is_in_order: false, matmul: Precision::F32 };
        let (row, inner) = (shape[axis as usize], shape[axis as usize + 1..].iter().product::<usize>());
        for device in devices() {
            let found = case.run(&*device, true).unwrap().remove(0);
            let mut total = 0.0;
            for (outer, lane) in (0..ty.numel() / row / inner).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                for step in 0..row {
                    let i = (outer * row + step) * inner + lane;
                    total = if step == 0 { 0.0 } else { total } + f64::from(values[i]);
                    let error = (found[i] - total).abs() / total;
                    assert!(
                        error <= 1e-6,
                        "{shape:?} on {}: {} instead of {total}",
                        device.info().name,
                        found[i]
                    );
                }
            }
        }
    }
}

#[test]
fn scores_of_attention_are_not_rounded_to_halves() {
    let registry = Engine::new().registry;
    for dtype in [DType::F16, DType::BF16] {
        for (extents, scale) in [([1, 3, 8], None), ([2, 5, 16], Some(6.0)), ([1, 80, 16], Some(6.0))] {
            let ty = Type::new(dtype, &extents);
            let graph = graph(&registry, |b| {
                let operands = ["q", "k", "v"].map(|name| b.input(name, InputKind::Data, ty.clone()));
                b.call("attention", &operands, Attrs::default()).unwrap()[..1].to_vec()
            });
            let inputs = ["q", "k", "v"].iter().enumerate().map(|(seed, name)| {
                let values = noise(ty.numel(), seed as u32 + 1);
                // Scores of 28,000 per term overflow a half. Scores of some 50 lose a third of e.
                (name.to_string(), tensor(&ty, values.map(|x| scale.map_or(100.0, |scale| scale * x))))
            });
            let inputs: HashMap<String, Vec<u8>> = inputs.collect();
            let known = inputs.iter().map(|(name, bytes)| {
                let values = HostTensor::from_bytes(dtype, &extents, bytes).unwrap().to_f64();
                (name.clone(), OracleTensor::new(dtype, &extents, &values))
            });
            let expected =
                Oracle::new(&registry).run(&graph, &known.collect(), 0, 0).unwrap().outputs[0].to_f64();
            let case = Case { graph, inputs, is_in_order: false, matmul: Precision::F32 };
            let size = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
            let allowed = size * if dtype == DType::F16 { 2e-3 } else { 1.6e-2 };
            for (device, fuse) in devices().iter().flat_map(|device| [(device, true), (device, false)]) {
                let found = case.run(&**device, fuse).unwrap().remove(0);
                for (a, b) in found.iter().zip(&expected) {
                    let name = device.info().name;
                    assert!(
                        (a - b).abs() <= allowed,
                        "{dtype} {extents:?} on {name}, fuse {fuse}: {a}, not {b}"
                    );
                }
            }
        }
    }
}

#[test]
fn uniform_numbers_stay_below_their_bound_in_every_type() {
    let registry = Engine::new().registry;
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (low, high) in [(0.0, 1.0), (1.0, 2.0), (-1.0, 1.0), (0.0, 3.0), (-3.0, -1.0)] {
            let graph = graph(&registry, |b| {
                let settings = [
                    ("low", Attr::from(low)),
                    ("high", Attr::from(high)),
                    ("shape", Attr::Shape(vec![Dim::Fixed(1 << 17)])),
                    ("dtype", Attr::DType(dtype)),
                ];
                b.call("uniform", &[], attrs(&settings)).unwrap()
            });
            let case = Case { graph, inputs: HashMap::new(), is_in_order: false, matmul: Precision::F32 };
            for device in devices() {
                let found = case.run(&*device, true).unwrap().remove(0);
                let wrong = found.iter().find(|&&x| !(low..high).contains(&x));
                let name = device.info().name;
                assert_eq!(wrong, None, "{dtype} between {low} and {high} on {name}");
            }
        }
    }
}
