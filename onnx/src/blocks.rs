//! Weights in blocks of few bits, with a scale for each block: `MatMulNBits`, `MatMulBnb4` and `GatherBlockQuantized`.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::heads::{expect_default, step, unfit};
use crate::known::Number;
use crate::literal::{list, of_number};
use crate::node::Node;
use crate::operands::{axis, ints, matrix, operand};
use crate::table::expression;
use crate::translate::Translation;

/// The most elements that an axis may have.
const MOST: i64 = 1 << 40;

/// The numbers of 4 bits by which bitsandbytes stores normally distributed weights.
const NORMAL: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_53,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

/// Its floats of 4 bits.
const FLOATS: [f64; 16] = [
    0.0,
    0.005_208_333_333_333_333,
    0.666_666_666_666_666_6,
    1.0,
    0.333_333_333_333_333_3,
    0.5,
    0.166_666_666_666_666_66,
    0.25,
    0.0,
    -0.005_208_333_333_333_333,
    -0.666_666_666_666_666_6,
    -1.0,
    -0.333_333_333_333_333_3,
    -0.5,
    -0.166_666_666_666_666_66,
    -0.25,
];

/// Bytes as the numbers of so many bits that lie in them, the lowest first, on a further axis behind the others.
fn unpacked(bytes: &str, bits: i64, rank: usize) -> String {
    let mask = (1 << bits) - 1;
    let part = |shift: i64| match shift {
        0 => format!("{bytes} & {mask}"),
        _ => format!("right_shift({bytes}, {shift}) & {mask}"),
    };
    let parts: Vec<String> = (0..8 / bits).map(|at| part(at * bits)).collect();
    format!("stack({}, axis={rank})", parts.join(", "))
}

/// The bits of a number, if there are translations for so many.
fn bits_of(node: &Node) -> Result<i64, Diagnostic> {
    match node.int("bits", 4) {
        bits @ (2 | 4 | 8) => Ok(bits),
        bits => Err(node.lacking(&format!("has numbers of {bits} bits"))),
    }
}

fn extent(node: &Node, name: &str) -> Result<i64, Diagnostic> {
    Some(node.int(name, 0)).filter(|n| (1..MOST).contains(n)).ok_or_else(|| unfit(node))
}

/// `MatMulNBits(x, weights, scales, zeros, order, bias)`: a row of weights `[blocks, bytes]` for each column of the result.
pub(crate) fn matmul_n_bits(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    expect_default(node, &[("weight_prepacked", 0)])?;
    let (bits, block) = (bits_of(node)?, extent(node, "block_size")?);
    let (n, depth) = (extent(node, "N")?, extent(node, "K")?);
    let blocks = (depth - 1) / block + 1;
    if node.input(4).is_some() {
        return Err(node.lacking("reorders its groups"));
    }
    let (x, weights, scales) = (operand(of, node, 0)?.0, operand(of, node, 1)?.0, operand(of, node, 2)?.0);
    let ((x, ty), (weights, _), (scales, _)) =
        (of.values.tensor(x)?, of.values.tensor(weights)?, of.values.tensor(scales)?);
    let dtype = ty.dtype;
    let whole = |x: &str, bytes: i64| {
        let bytes_of = format!("reshape({x}, shape={})", list(&ints(&[n, bytes])));
        match bits {
            8 => bytes_of,
            _ => format!("reshape({}, shape=[{n}, _])", unpacked(&bytes_of, bits, 2)),
        }
    };
    let numbers = whole(&weights, blocks * block * bits / 8);
    let numbers =
        format!("reshape(cast({numbers}, dtype={dtype}), shape={})", list(&ints(&[n, blocks, block])));
    let zeros = match node.input(3) {
        None => format!("{}.0", 1 << (bits - 1)),
        Some(name) => {
            let (zeros, ty) = of.values.tensor(name)?;
            let zeros = match ty.dtype {
                DType::U8 => {
                    let all = whole(&zeros, (blocks * bits + 7) / 8);
                    format!("cast(slice({all}, axis=1, stop={blocks}), dtype={dtype})")
                }
                _ => zeros,
            };
            format!("reshape({zeros}, shape={})", list(&ints(&[n, blocks, 1])))
        }
    };
    let scales = format!("reshape({scales}, shape={})", list(&ints(&[n, blocks, 1])));
    let all = format!("reshape(({numbers} - {zeros}) * {scales}, shape=[{n}, {}])", blocks * block);
    let all = if blocks * block == depth { all } else { format!("slice({all}, axis=1, stop={depth})") };
    let all = step(of, node, "weights", &all)?;
    let bias = match node.input(5) {
        Some(bias) => format!(" + {}", of.values.tensor(bias)?.0),
        None => String::new(),
    };
    of.values.define(&node.outputs[0], expression(&format!("{x} @ transpose({all}){bias}"))).map(drop)
}

/// `MatMulBnb4(x, weights, largest)`: numbers of a table, in blocks that run over the rows of the weights.
pub(crate) fn matmul_bnb4(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (n, depth, block) = (extent(node, "N")?, extent(node, "K")?, extent(node, "block_size")?);
    let all = n.checked_mul(depth).filter(|all| *all < MOST).ok_or_else(|| unfit(node))?;
    let (x, weights, largest) = (operand(of, node, 0)?.0, operand(of, node, 1)?.0, operand(of, node, 2)?.0);
    let ((x, ty), (weights, _), (largest, _)) =
        (of.values.tensor(x)?, of.values.tensor(weights)?, of.values.tensor(largest)?);
    let table = if node.int("quant_type", 0) == 0 { &FLOATS } else { &NORMAL };
    let table = matrix(of, &format!("{}/numbers", node.outputs[0]), &[16], table)?;
    // The first number lies in the high bits.
    let places = format!("stack(right_shift({weights}, 4) & 15, {weights} & 15, axis=1)");
    let places = format!("slice(reshape({places}, shape=[_]), stop={all})");
    let scales = format!("slice(repeat_interleave({largest}, repeats={block}), stop={all})");
    let numbers = format!("cast(index_select({table}, {places}), dtype={})", ty.dtype);
    let numbers = format!("reshape({numbers} * {scales}, shape=[{n}, {depth}])");
    let numbers = step(of, node, "weights", &numbers)?;
    let weights = if node.int("transB", 1) == 0 { numbers } else { format!("transpose({numbers})") };
    of.values.define(&node.outputs[0], expression(&format!("{x} @ {weights}"))).map(drop)
}

/// `GatherBlockQuantized(weights, indices, scales, zeros)`: rows of a table whose blocks have scales. The rows are taken
/// first, so that the table stays packed.
pub(crate) fn gather(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (indices, places)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let is_byte = matches!(of.values.element(name), Some((DType::U8, None)));
    let bits = if is_byte { bits_of(node)? } else { 8 };
    let (from, along) = (
        axis(node, node.int("gather_axis", 0), shape.len())?,
        axis(node, node.int("quantize_axis", 1), shape.len())?,
    );
    let block = node.int("block_size", 128);
    let (scales, blocks) = operand(of, node, 2)?;
    let is_spread = blocks.get(from) != shape.get(from);
    if from == along || (bits != 8 && from + 1 == shape.len()) || is_spread || !(1..MOST).contains(&block) {
        return Err(node.lacking("gathers along the axis of its blocks, or has one scale for all rows"));
    }
    let (indices, (scales, ty)) = (of.values.tensor(indices)?.0, of.values.tensor(scales)?);
    let rows = Rows { indices, places, from, bits, dtype: ty.dtype };
    let (numbers, whole) = rows.numbers(of, node, (name, &shape))?;
    let quantized = along;
    let along = if along < from { along } else { along + rows.places.len() - 1 };
    let end = whole.get(along).and_then(Number::int).ok_or_else(|| unfit(node))?;
    let spread = |x: &str| {
        let all = format!("repeat_interleave({x}, repeats={block}, axis={along})");
        format!("slice({all}, axis={along}, stop={end})")
    };
    let zeros = match node.input(3) {
        Some(zeros) => {
            let (_, own) = operand(of, node, 3)?;
            let (zeros, _) = rows.numbers(of, node, (zeros, &own))?;
            let n = blocks.get(quantized).map(of_number).ok_or_else(|| unfit(node))?;
            Some(spread(&format!("slice({zeros}, axis={along}, stop={n})")))
        }
        None => is_byte.then(|| format!("{}.0", 1 << (bits - 1))),
    };
    let numbers = zeros.map_or(numbers.clone(), |zeros| format!("({numbers} - {zeros})"));
    let scales = spread(&rows.taken(&scales));
    of.values.define(&node.outputs[0], expression(&format!("{numbers} * {scales}"))).map(drop)
}

/// The rows that a node takes from its operands.
struct Rows {
    indices: String,
    /// The extents of the indices.
    places: Vec<Number>,
    /// The axis that they index.
    from: usize,
    bits: i64,
    dtype: DType,
}

impl Rows {
    fn taken(&self, x: &str) -> String {
        let at = if self.from == 0 { String::new() } else { format!(", axis={}", self.from) };
        format!("index_select({x}, {}{at}, oob=skip, wrap_negative=true)", self.indices)
    }

    /// The numbers in these rows of an operand, and their extents.
    fn numbers(
        &self,
        of: &mut Translation,
        node: &Node,
        (name, shape): (&str, &[Number]),
    ) -> Result<(String, Vec<Number>), Diagnostic> {
        let x = self.taken(&of.values.tensor(name)?.0);
        let behind = shape.get(self.from + 1..).ok_or_else(|| unfit(node))?;
        let mut whole = [&shape[..self.from], &self.places, behind].concat();
        let rank = whole.len();
        let last = whole.last_mut().ok_or_else(|| unfit(node))?;
        *last = last.times(&Number::Int(8 / self.bits)).ok_or_else(|| unfit(node))?;
        let numbers = match self.bits {
            8 => x,
            bits => format!("reshape({}, shape={})", unpacked(&x, bits, rank), list(&whole)),
        };
        Ok((format!("cast({numbers}, dtype={})", self.dtype), whole))
    }
}
