//! A graph through every kind of kernel on small integers, whose numbers wrap.

use engine::core::ir::{DType, Graph, Value, parse};
use engine::core::op::Registry;
use engine::core::oracle::OracleTensor;
use std::collections::HashMap;

/// The types of less than 32 bits.
pub const SMALL: [DType; 4] = [DType::U8, DType::I8, DType::I16, DType::U16];

const NODES: &str = "
  input x: T[37, 41]
  input y: T[37, 41]
  input w: T[41, 29]
  input at: T[24]
  sums: T[37, 41] = add(x, y)
  products: T[37, 41] = mul(sums, x)
  differences: T[37, 41] = sub(products, y)
  one: T[] = .const(1)
  odd: T[37, 41] = or(y, one)
  quotients: T[37, 41] = floor_divide(differences, odd)
  rests: T[37, 41] = remainder(products, odd)
  seven: T[] = .const(7)
  few: T[37, 41] = and(y, seven)
  powers: T[37, 41] = pow(x, few)
  left: T[37, 41] = left_shift(sums, few)
  shifted: T[37, 41] = right_shift(left, one)
  sizes: T[37, 41] = abs(x)
  signs: T[37, 41] = sign(y)
  mixed: T[37, 41] = xor(sizes, signs)
  turned: T[37, 41] = not(mixed)
  is_less: bool[37, 41] = lt(shifted, quotients)
  largest: T[37, 41] = maximum(powers, rests)
  clamped: T[37, 41] = clamp(turned, max=100, min=3)
  picks: T[37, 41] = where(is_less, largest, clamped)
  row_sums: T[37] = sum(picks, axis=[1])
  column_products: T[41] = prod(odd, axis=[0])
  most: T[41] = amax(picks, axis=[0])
  least: i32[37] = argmin(picks, axis=1)
  running: T[37, 41] = cumsum(picks, axis=1)
  running_down: T[37, 41] = cumprod(odd, axis=0)
  matrix: T[37, 29] = matmul(picks, w)
  best: T[37] = amax(matrix, axis=[1])
  picked: T[24, 41] = index_select(picks, at)
  row: T[1, 24] = reshape(at, shape=[1, 24])
  elements: T[1, 24] = gather(picks, row, axis=0)
  added: T[37, 41] = scatter_add(picks, at, picked)
  order: i32[37, 41] = argsort(picks)
  (sorted: T[37, 41], from: i32[37, 41]) = sort(picks, axis=0, descending=true)
  (top: T[37, 5], places: i32[37, 5]) = topk(matrix, k=5)
  across: T[41, 37] = transpose(picks)
  joined: T[41, 66] = concat(across, w, axis=1)
  rolled: T[41, 66] = roll(joined, axis=[0], shifts=[3])
  padded: T[38, 46] = pad(picks, after=[0, 3], before=[1, 2], value=7)
  numbers: T[300] = iota(shape=[300], dtype=T)
  floats: f32[37, 41] = cast(picks, dtype=f32)
  factor: f32[] = .const(3.5)
  scaled: f32[37, 41] = mul(floats, factor)
  saturated: T[37, 41] = cast(scaled, dtype=T)
  half: f16[37, 41] = cast(picks, dtype=f16)
  whole: T[37, 41] = cast(half, dtype=T)
  wide: i64[37, 41] = cast(picks, dtype=i64)
  other: u16[37, 41] = cast(picks, dtype=u16)
  narrow: i8[37, 41] = cast(wide, dtype=i8)
  is_above: bool[37, 41] = gt(picks, x)
  is_any: bool[41] = any(is_above, axis=[0])
  hot: f32[24, 40] = one_hot(at, classes=40)
  counts: i32[40] = bincount(at, bins=40)
  product: T[37, 29] = matmul(x, w)
  halved: T[37, 29] = right_shift(product, one)
  line: T[1, 41] = reshape(column_products, shape=[1, 41])
  few_points: T[1, 29] = matmul(line, w)
  is_more: bool[1, 29] = gt(few_points, one)
  scores: T[37, 29] = matmul(sums, w)
  best_score: i32[37] = argmax(scores, axis=1)
  broad: T[41, 136] = pad(joined, after=[0, 70], before=[0, 0], value=7)
  tall: T[136, 41] = transpose(broad)
  blocks: T[136, 136] = matmul(tall, broad)
  halved_blocks: T[136, 136] = right_shift(blocks, one)
";

const OUTPUTS: [&str; 30] = [
    "row_sums",
    "column_products",
    "most",
    "least",
    "running",
    "running_down",
    "best",
    "elements",
    "added",
    "order",
    "sorted",
    "from",
    "top",
    "places",
    "rolled",
    "padded",
    "numbers",
    "floats",
    "saturated",
    "whole",
    "wide",
    "other",
    "narrow",
    "is_any",
    "hot",
    "counts",
    "halved",
    "is_more",
    "best_score",
    "halved_blocks",
];

/// The graph in a type.
pub fn graph(dtype: DType, registry: &Registry) -> Graph {
    let nodes = NODES.replace("T[", &format!("{dtype}[")).replace("=T)", &format!("={dtype})"));
    let outputs = OUTPUTS.map(|name| format!("  output {name} = {name}\n")).concat();
    parse(&format!("graph small {{\n{nodes}{outputs}}}\n"), registry).unwrap()
}

/// Numbers over the whole range of the type, and positions of rows.
pub fn inputs(graph: &Graph) -> HashMap<String, OracleTensor> {
    let inputs = graph.inputs().map(|(id, _)| {
        let (name, ty) = (graph.nodes[id].name().to_string(), graph.ty(Value::of(id)));
        let mixed = |i: usize| ((i + 1009 * id) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let number = |i: usize| match &*name {
            "at" => (mixed(i) % 37) as i64,
            _ => ty.dtype.wrap(mixed(i) as i64),
        };
        let tensor = OracleTensor::ints(ty.dtype, &ty.extents(), (0..ty.numel()).map(number).collect());
        (name, tensor)
    });
    inputs.collect()
}
