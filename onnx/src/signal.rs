//! Discrete Fourier transforms, as products with matrices of cosines and sines.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use std::f64::consts::TAU;

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::literal::{list, of_number};
use crate::node::Node;
use crate::operands::{axis, matrix, numbers, operand};
use crate::table::expression;
use crate::tensor::{Stored, dtype_from};
use crate::translate::Translation;

/// The most elements of a matrix.
const MOST: usize = 1 << 22;

/// A transform of n numbers.
struct Transform {
    /// The numbers that are read; further ones count as 0.
    given: usize,
    n: usize,
    is_inverse: bool,
    /// Whether one half of a spectrum stands for both, as the other one is its mirror image.
    is_half: bool,
    /// 1 for real numbers, 2 for complex ones.
    parts: usize,
}

impl Transform {
    /// The numbers of a result, and the parts of each.
    fn result(&self) -> (usize, usize) {
        match (self.is_half, self.is_inverse) {
            (false, _) => (self.n, 2),
            (true, false) => (self.n / 2 + 1, 2),
            (true, true) => (self.n, 1),
        }
    }

    /// The matrix `[result, given, parts, parts of the result]`.
    fn matrix(&self) -> Vec<f64> {
        let (rows, parts) = self.result();
        let mut elements = Vec::with_capacity(rows * self.given * self.parts * parts);
        for row in 0..rows {
            for at in 0..self.given {
                let is_whole = !self.is_half || !self.is_inverse;
                // A number that is its own mirror image counts once.
                let is_single = is_whole || at == 0 || 2 * at == self.n;
                let share = if at < self.n { 1.0 } else { 0.0 } * if is_single { 1.0 } else { 2.0 };
                let scale = if self.is_inverse { share / self.n as f64 } else { share };
                let angle = TAU * (row as u128 * at as u128 % self.n as u128) as f64 / self.n as f64;
                let (sin, cos) = if self.is_inverse { angle.sin_cos() } else { (-angle).sin_cos() };
                let whole = [[cos, sin], [-sin, cos]];
                elements
                    .extend(whole[..self.parts].iter().flat_map(|part| &part[..parts]).map(|x| x * scale));
            }
        }
        elements
    }
}

/// The product of a transform with an axis of `[…, n, …, parts]`.
fn transformed(
    of: &mut Translation,
    node: &Node,
    x: &str,
    (at, rank): (usize, usize),
    transform: &Transform,
) -> Result<String, Diagnostic> {
    let (rows, parts) = transform.result();
    let n_elements = rows.saturating_mul(transform.given).saturating_mul(parts * transform.parts);
    if n_elements > MOST || rank > 20 {
        return Err(node.fault("transforms too many numbers"));
    }
    let name = format!("{}_waves", node.outputs[0]);
    let dims = [rows, transform.given, transform.parts, parts];
    let waves = matrix(of, &name, &dims, &transform.matrix())?;
    let letters: String = ('a'..).take(rank - 1).collect();
    let own = letters.as_bytes()[at] as char;
    let result = letters.replace(own, "z");
    Ok(format!("einsum({waves}, {x}, equation=\"z{own}uv,{letters}u->{result}v\")"))
}

/// `DFT(x, length, axis)`; the axis is an attribute before opset 20.
pub(crate) fn dft(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let given = |at: usize| numbers(of, node, at).map(|found| found.and_then(|found| found.first()?.int()));
    let (length, along) = (given(1)?, given(2)?);
    let along = along.unwrap_or_else(|| node.int("axis", if of.opset < 20 { 1 } else { -2 }));
    let along = axis(node, along, shape.len())?;
    let unfit =
        || broken(format!("{} has operands of unexpected shapes", node.describe()), "export the model again");
    let parts = shape.last().and_then(Number::int).filter(|n| matches!(n, 1 | 2)).ok_or_else(unfit)?;
    let own = shape[along].int().ok_or_else(|| node.fault("transforms an open extent"))?;
    let (is_inverse, is_half) = (node.int("inverse", 0) != 0, node.int("onesided", 0) != 0);
    let n = length.unwrap_or(if is_inverse && is_half { 2 * (own - 1) } else { own });
    if along + 1 == shape.len() || !(1..1 << 31).contains(&n) {
        return Err(unfit());
    }
    let transform =
        Transform { given: own as usize, n: n as usize, is_inverse, is_half, parts: parts as usize };
    let x = of.values.operand(name, None)?.to_string();
    let y = transformed(of, node, &x, (along, shape.len()), &transform)?;
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// `STFT(signal, step, window, length)`: the spectra of windows that lie a step apart.
pub(crate) fn stft(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let given = |at: usize| numbers(of, node, at).map(|found| found.and_then(|found| found.first()?.int()));
    let (step, length) = (given(1)?, given(3)?);
    let window = node.input(2).map(|_| operand(of, node, 2)).transpose()?;
    let length = length.or_else(|| window.as_ref().and_then(|(_, shape)| shape.first()?.int()));
    let [items, Number::Int(total), Number::Int(parts)] = &shape[..] else {
        return Err(node.fault("has a signal of open length"));
    };
    let unfit =
        || broken(format!("{} has windows that do not fit", node.describe()), "export the model again");
    let (step, length) = (step.ok_or_else(unfit)?, length.ok_or_else(unfit)?);
    if step < 1 || !(1..=*total).contains(&length) || !matches!(parts, 1 | 2) {
        return Err(unfit());
    }
    let frames = (total - length) / step + 1;
    if frames.saturating_mul(length) > MOST as i64 {
        return Err(node.fault("has too many windows"));
    }
    let places = (0..frames).flat_map(|frame| (0..length).map(move |at| Number::Int(frame * step + at)));
    let picked = format!("{}_places", node.outputs[0]);
    let dims = vec![(frames * length) as usize];
    of.values.add_known(&picked, Known { dtype: DType::I32, dims, elements: places.collect() });
    let picked = of.values.tensor(&picked)?.0;
    let x = of.values.operand(name, None)?;
    let shape = list(&[items.clone(), Number::Int(frames), Number::Int(length), Number::Int(*parts)]);
    let mut windows = format!("reshape(index_select({x}, {picked}, axis=1), shape={shape})");
    if let Some((window, _)) = window {
        let window = of.values.tensor(window)?.0;
        windows = format!("{windows} * reshape({window}, shape=[{}, 1])", of_number(&Number::Int(length)));
    }
    let is_half = node.int("onesided", 1) != 0 && *parts == 1;
    let n = length as usize;
    let transform = Transform { given: n, n, is_inverse: false, is_half, parts: *parts as usize };
    let y = transformed(of, node, &windows, (2, 4), &transform)?;
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// `MelWeightMatrix(bins, length, rate, low, high)`: the shares of the frequencies of a spectrum in bands that are equally wide
/// on the mel scale. A band is a triangle between its neighbours' centres.
pub(crate) fn mel_weights(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let number = |at: usize| {
        let found = numbers(of, node, at)?.and_then(|found| found.first()?.float());
        found.ok_or_else(|| broken(format!("{} lacks an operand", node.describe()), "export the model again"))
    };
    let [n_bands, length, rate, low, high] = [number(0)?, number(1)?, number(2)?, number(3)?, number(4)?];
    let n_rows = (length / 2.0).floor() + 1.0;
    let is_fit = n_bands >= 1.0 && length >= 1.0 && rate >= 1.0 && n_rows * n_bands <= MOST as f64;
    if !is_fit {
        return Err(node.fault("has no bands, or too many"));
    }
    let edges = mel_edges([n_bands, length, rate, low, high]);
    if !edges.iter().all(|edge| (0.0..n_rows).contains(edge)) {
        return Err(node.fault("has bands beyond its spectrum"));
    }
    let (n_rows, n_bands) = (n_rows as usize, n_bands as usize);
    let mut shares = vec![0.0; n_rows * n_bands];
    for (band, edge) in edges.windows(3).enumerate() {
        let [from, centre, to] = [0, 1, 2].map(|at| edge[at] as usize);
        for row in from..to.max(centre + 1) {
            let share = match row {
                _ if row == centre => 1.0,
                _ if row < centre => (row - from) as f64 / (centre - from) as f64,
                _ => (to - row) as f64 / (to - centre) as f64,
            };
            shares[row * n_bands + band] = share;
        }
    }
    let dtype = dtype_from(node.int("output_datatype", 1))
        .ok_or_else(|| node.fault("asks for an element type that the engine lacks"))?;
    if dtype == DType::F32 {
        let bytes = shares.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
        of.values.add_stored(&node.outputs[0], Stored::new(dtype, vec![n_rows, n_bands], bytes));
        return Ok(());
    }
    let weights = matrix(of, &format!("{}_mel", node.outputs[0]), &[n_rows, n_bands], &shares)?;
    of.values.define(&node.outputs[0], expression(&format!("cast({weights}, dtype={dtype})"))).map(drop)
}

/// The places of the edges and centres of bands in a spectrum.
fn mel_edges([n_bands, length, rate, low, high]: [f64; 5]) -> Vec<f64> {
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(high) - mel(low)) / (n_bands + 2.0);
    let hertz = |at: usize| 700.0 * (10f64.powf((at as f64 * step + mel(low)) / 2595.0) - 1.0);
    let n = n_bands as usize + 2;
    (0..n).map(|at| ((length + 1.0) * hertz(at) / rate).floor()).collect()
}
