//! Scatters of extremes have the interpreter's bits on every device, where zeros of both signs and NaN meet, too.

use super::*;
use engine::core::oracle::{Oracle, OracleTensor};

const NAN: f64 = f64::NAN;

/// Elements of the base, and updates of the elements `(7 * i) % 9`, the last of which has none.
const BASE: [f64; 10] = [0.0, -0.0, 1.5, NAN, -0.0, 7.0, -3.0, 2.0, 0.0, -0.0];
const UPDATES: [f64; 31] = [
    -0.0, 2.0, 0.0, -0.0, 7.0, -0.0, 0.0, -1.0, 0.0, 0.0, -0.0, -0.0, NAN, 0.0, 5.0, -0.0, 2.0, 0.0, -0.0,
    0.0, -0.0, 0.0, 1.0, -0.0, 0.0, NAN, -0.0, 0.0, -0.0, 3.0, -0.0,
];

const GRAPH: &str = "graph extremes {
  input x: T[10]
  input at: i32[31]
  input u: T[31]
  largest: T[10] = scatter_reduce(x, at, u, reduce=\"amax\")
  smallest: T[10] = scatter_reduce(x, at, u, reduce=\"amin\")
  largest_update: T[10] = scatter_reduce(x, at, u, include_self=false, reduce=\"amax\")
  smallest_update: T[10] = scatter_reduce(x, at, u, include_self=false, reduce=\"amin\")
  output largest = largest
  output smallest = smallest
  output largest_update = largest_update
  output smallest_update = smallest_update
}
";

/// The numbers in bytes; those of `bf16` are the upper halves of `f32`.
fn bytes(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    match dtype {
        DType::BF16 => {
            numbers.iter().flat_map(|&x| ((x as f32).to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect()
        }
        _ => tensor(&Type::new(dtype, &[numbers.len()]), numbers.iter().copied()),
    }
}

/// Numbers as text: `0` and `-0` differ, and NaN is NaN.
fn spelled(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn extremes_of_equal_numbers_have_the_same_bits_on_every_device() {
    let registry = Engine::new().registry;
    let at: Vec<f64> = (0..UPDATES.len()).map(|i| (7 * i % 9) as f64).collect();
    for dtype in [DType::F32, DType::BF16, DType::I32] {
        let graph = parse(&GRAPH.replace("T[", &format!("{dtype}[")), &registry).unwrap();
        let operands = [("x", dtype, &BASE[..]), ("at", DType::I32, &at), ("u", dtype, &UPDATES)];
        let given = operands.map(|(name, dtype, numbers)| {
            (name.to_string(), OracleTensor::new(dtype, &[numbers.len()], numbers))
        });
        let expected = Oracle::rounded(&registry).run(&graph, &given.into(), 0, 0).unwrap();
        let inputs = operands.map(|(name, dtype, numbers)| (name.to_string(), bytes(dtype, numbers))).into();
        let mut case = Case { graph, inputs, is_in_order: false, matmul: Precision::F32 };
        for device in [cpu()].iter().chain(gpus()) {
            for (is_in_order, fuse) in [(false, true), (true, true), (true, false)] {
                case.is_in_order = is_in_order;
                let found = case.run(&**device, fuse).unwrap();
                for ((name, _), found) in case.graph.outputs.iter().zip(found) {
                    let expected = spelled(&expected.outputs[name].to_f64());
                    assert_eq!(spelled(&found), expected, "{name} of {dtype} on {}", device.info().name);
                }
            }
        }
    }
}
