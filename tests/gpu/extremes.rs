//! Unary float ops and their gradients near zero and at large operands, on every device, compared with numbers of 60
//! digits (`tests/examples/extremes.py`).

use super::*;
use engine::core::grad::differentiate;
use engine::core::op::Example;
use engine::core::testing;
use serde_json::Value as Json;

const TABLE: &str = include_str!("../examples/extremes.json");

/// Explicit digits, the exponent of the smallest normal number, and the relative tolerance on the CPU.
fn precision(dtype: DType) -> (i32, i32, f64) {
    match dtype {
        DType::F16 => (10, -14, 1.5e-3),
        DType::BF16 => (7, -126, 1.2e-2),
        _ => (23, -126, 2e-6),
    }
}

/// The bits of a number, if it is one of the type.
fn bits(x: f64, dtype: DType) -> Option<u64> {
    let (digits, least, _) = precision(dtype);
    let n_bits = 8 * dtype.size() as u32;
    let sign = u64::from(x.is_sign_negative()) << (n_bits - 1);
    let size = x.abs();
    let end = (1u64 << (n_bits - 1)) - (1 << digits);
    if size == 0.0 || size.is_infinite() {
        return Some(sign | if size == 0.0 { 0 } else { end });
    }
    let exponent = (((size.to_bits() >> 52) as i32) - 1023).max(least);
    let places = size / 2f64.powi(exponent - digits);
    let number = ((exponent - least) as u64 * (1 << digits)).wrapping_add(places as u64);
    (places.fract() == 0.0 && number < end).then_some(sign | number)
}

fn number(json: &Json) -> Option<f64> {
    json.as_f64().or_else(|| json.as_str().map(|spelled| spelled.parse().unwrap()))
}

/// The value of an op at each of these numbers, and its derivative there if it has one.
fn case(call: &str, dtype: DType, points: &[(f64, u64)]) -> Case {
    let registry = Engine::new().registry;
    let ty: &'static str = format!("{dtype}[{}]", points.len()).leak();
    let example = Example {
        title: "",
        call: call.to_owned().leak(),
        inputs: vec![(ty, points.iter().map(|point| point.0).collect())],
        outputs: vec![(ty, vec![0.0; points.len()])],
    };
    let given = testing::case(&example, &registry).unwrap();
    let mut b = Builder::new(given.graph.clone(), &registry);
    let (value, x) = (given.graph.outputs[0].1, Value::of(given.graph.inputs().next().unwrap().0));
    let wide = b.cast(value, DType::F32);
    let total = b.sum(wide, &[0]);
    let with_total = Graph { outputs: vec![("y".into(), value), ("total".into(), total)], ..b.graph };
    let graph = match differentiate(&with_total, &registry, total, &[x]) {
        Ok(found) => {
            let outputs = vec![found.graph.outputs[0].clone(), ("dy".into(), found.grads[0])];
            Graph { outputs, ..found.graph }
        }
        Err(_) => Graph { outputs: vec![("y".into(), value)], ..with_total },
    };
    let name = given.graph.nodes[x.node].name().to_string();
    let bytes = points.iter().flat_map(|point| point.1.to_le_bytes()[..dtype.size()].to_vec()).collect();
    let inputs = HashMap::from([(name, bytes)]);
    Case { graph: graph.pruned(), inputs, is_in_order: false, matmul: Precision::F32 }
}

#[test]
fn unary_ops_and_gradients_hold_near_zero_and_far_out() {
    let table: HashMap<String, Vec<Vec<Json>>> = serde_json::from_str(TABLE).unwrap();
    let devices: Vec<(Arc<dyn Device>, bool)> =
        [(cpu(), false)].into_iter().chain(gpus().iter().map(|gpu| (Arc::clone(gpu), true))).collect();
    let (mut failures, mut n_compared) = (vec![], 0);
    for (call, rows) in &table {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let rows = rows.iter().filter_map(|row| Some((row, number(&row[0])?)));
            let rows: Vec<(&Vec<Json>, (f64, u64))> =
                rows.filter_map(|(row, x)| Some((row, (x, bits(x, dtype)?)))).collect();
            let case = case(call, dtype, &rows.iter().map(|row| row.1).collect::<Vec<_>>());
            for (device, on_gpu) in &devices {
                let found = case.run(&**device, true).unwrap();
                for (i, (row, (x, _))) in rows.iter().enumerate() {
                    // WGSL lets a GPU flush subnormal numbers to zero.
                    if *on_gpu && x.abs() < f64::from(f32::MIN_POSITIVE) && *x != 0.0 {
                        continue;
                    }
                    for (column, what) in [(1, "value"), (2, "derivative")] {
                        let (Some(found), Some(wanted)) = (found.get(column - 1), number(&row[column]))
                        else {
                            continue;
                        };
                        n_compared += 1;
                        if !is_near(found[i], wanted, *x, dtype, *on_gpu) {
                            let name = device.info().name;
                            failures.push(format!(
                                "{what} of {call} at {x:e} in {dtype} on {name}: {:e} instead of {wanted:e}",
                                found[i]
                            ));
                        }
                    }
                }
            }
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(n_compared > 4000, "{n_compared} were compared");
}

/// Whether a number is within a share of the result, or of the operand if that is small. Sums such as 1 + erf x lose
/// smaller differences.
fn is_near(found: f64, wanted: f64, x: f64, dtype: DType, on_gpu: bool) -> bool {
    let (digits, least, share) = precision(dtype);
    let share = if on_gpu { 10.0 * share } else { share };
    let smallest = 2f64.powi(if on_gpu || dtype == DType::BF16 { least } else { least - digits + 1 });
    if wanted.is_nan() || wanted.abs() >= dtype.largest() * (1.0 - share) {
        let end = dtype.largest() * (1.0 - share) * wanted.signum();
        return if wanted.is_nan() { found.is_nan() } else { found * wanted.signum() >= end.abs() };
    }
    (found - wanted).abs() <= share * (wanted.abs() + x.abs().min(1.0)) + smallest
}
