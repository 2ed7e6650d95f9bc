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
