//! `Resize`: each axis is a product with a matrix of shares, a choice of elements, or the engine's own `resize`.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use engine_core::text::expr::Expr;

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::literal::list;
use crate::node::{Attribute, Node};
use crate::operands::{axis, ints, matrix, numbers, operand};
use crate::table::expression;
use crate::translate::Translation;

/// The most elements of the matrix of an axis.
const MOST_SHARES: usize = 1 << 22;
/// Places farther outside count as these.
const FAR: f64 = 1e9;
/// How far shares of the engine's own op may be from those of ONNX.
const NEAR: f64 = 1e-6;

/// How one axis is sampled.
struct Axis {
    at: usize,
    extent: usize,
    size: usize,
    scale: f64,
    /// The part of the axis that is sampled, from 0 to 1.
    part: [f64; 2],
}

/// The attributes of a node.
struct Rule {
    place: String,
    mode: String,
    nearest: String,
    smooths: bool,
    excludes: bool,
    cubic: f64,
    /// Whether aligned corners lie as the length of the result says. Otherwise the product of extent and scale, which need not
    /// be a whole number, stands for the length.
    corners_of_result: bool,
    /// The value of places outside; nothing if there are none.
    beyond: Option<f64>,
}

/// `Resize(x, part, scales, sizes)`, and before opset 11 `Resize(x, scales)`
pub(crate) fn resize(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let is_old = of.opset < 11;
    let place = node.text("coordinate_transformation_mode", if is_old { "asymmetric" } else { "half_pixel" });
    let rule = Rule {
        place: place.to_owned(),
        mode: node.text("mode", "nearest").to_owned(),
        nearest: node.text("nearest_mode", if is_old { "floor" } else { "round_prefer_floor" }).to_owned(),
        smooths: node.int("antialias", 0) != 0,
        excludes: node.int("exclude_outside", 0) != 0,
        cubic: node.float("cubic_coeff_a", -0.75),
        // PyTorch computes its models so; the tests of ONNX want the product.
        corners_of_result: of.is_pytorch,
        beyond: (place == "tf_crop_and_resize").then(|| node.float("extrapolation_value", 0.0)),
    };
    let [part, scales, sizes] = if is_old { [None, Some(1), None] } else { [Some(1), Some(2), Some(3)] };
    let read = |at: Option<usize>| -> Result<Option<Vec<f64>>, Diagnostic> {
        let found = at.map(|at| numbers(of, node, at)).transpose()?.flatten();
        let found = found.map(|found| found.iter().map(Number::float).collect::<Option<Vec<_>>>());
        match found {
            Some(None) => Err(node.fault("has sizes of open extent")),
            other => Ok(other.flatten().filter(|found| !found.is_empty())),
        }
    };
    let part = if rule.beyond.is_some() { read(part)? } else { None };
    let axes = axes(of, node, part, [read(scales)?, read(sizes)?])?;
    sampled(of, node, &rule, &axes)
}

/// `Upsample(x, scales)`, which opset 7 has as an attribute
pub(crate) fn upsample(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let rule = Rule {
        place: "asymmetric".to_owned(),
        mode: node.text("mode", "nearest").to_owned(),
        nearest: "floor".to_owned(),
        smooths: false,
        excludes: false,
        cubic: 0.0,
        corners_of_result: false,
        beyond: None,
    };
    let scales = match node.attributes.get("scales") {
        Some(Attribute::Floats(scales)) => Some(scales.clone()),
        _ => numbers(of, node, 1)?.map(|found| found.iter().filter_map(Number::float).collect()),
    };
    let axes = axes(of, node, None, [scales, None])?;
    sampled(of, node, &rule, &axes)
}

/// The axes that are resized, by scales or by sizes.
fn axes(
    of: &Translation,
    node: &Node,
    part: Option<Vec<f64>>,
    [scales, sizes]: [Option<Vec<f64>>; 2],
) -> Result<Vec<Axis>, Diagnostic> {
    let unfit = || {
        broken(format!("{} has scales or sizes that do not fit", node.describe()), "export the model again")
    };
    let (_, shape) = operand(of, node, 0)?;
    let given = node.ints("axes").map_or_else(|| (0..shape.len() as i64).collect(), <[i64]>::to_vec);
    let numbers = scales.as_ref().or(sizes.as_ref()).ok_or_else(unfit)?;
    let n = given.len();
    if numbers.len() != n || part.as_ref().is_some_and(|part| part.len() != 2 * n) {
        return Err(unfit());
    }
    let mut axes = vec![];
    for (i, (along, &number)) in given.iter().zip(numbers).enumerate() {
        let at = axis(node, *along, shape.len())?;
        let is_whole = if scales.is_some() { number == 1.0 } else { shape[at].float() == Some(number) };
        if is_whole && part.is_none() {
            continue;
        }
        let extent = shape[at].int().ok_or_else(|| node.fault("resizes an open extent"))?;
        let scale = if scales.is_some() { number } else { number / extent as f64 };
        let size = if scales.is_some() { (extent as f64 * number).floor() } else { number };
        if !(scale > 0.0 && (1.0..1e9).contains(&size)) {
            return Err(unfit());
        }
        let part = part.as_ref().map_or([0.0, 1.0], |part| [part[i], part[n + i]]);
        axes.push(Axis { at, extent: extent as usize, size: size as usize, scale, part });
    }
    let scales = axes.iter().map(|axis| axis.scale);
    let common = match node.text("keep_aspect_ratio_policy", "stretch") {
        _ if sizes.is_none() => None,
        "not_larger" => scales.reduce(f64::min),
        "not_smaller" => scales.reduce(f64::max),
        _ => None,
    };
    if let Some(scale) = common {
        for axis in &mut axes {
            (axis.scale, axis.size) = (scale, (axis.extent as f64 * scale + 0.5).floor().max(1.0) as usize);
        }
    }
    Ok(axes)
}

impl Rule {
    /// The place in the operand of an element of the result.
    fn place(&self, axis: &Axis, at: usize) -> f64 {
        let (x, n, size) = (at as f64, axis.extent as f64, axis.size as f64);
        let exact = axis.scale * n;
        let corners = if self.corners_of_result { size } else { exact };
        let half = (x + 0.5) / axis.scale - 0.5;
        let [start, end] = axis.part.map(|share| share * (n - 1.0));
        let place = match self.place.as_str() {
            "asymmetric" => x / axis.scale,
            "align_corners" if corners == 1.0 => 0.0,
            "align_corners" => x * (n - 1.0) / (corners - 1.0),
            "tf_crop_and_resize" if exact == 1.0 => (start + end) / 2.0,
            "tf_crop_and_resize" => start + x * (end - start) / (exact - 1.0),
            "pytorch_half_pixel" if axis.size == 1 => 0.0,
            "half_pixel_symmetric" => n / 2.0 * (1.0 - size / exact) + half,
            _ => half,
        };
        // A part may lie far outside.
        if place.is_nan() { 0.0 } else { place.clamp(-FAR, FAR) }
    }

    /// The element that is nearest to a place.
    fn nearest(&self, place: f64, n: usize) -> i64 {
        let at = match self.nearest.as_str() {
            "round_prefer_ceil" => (place + 0.5).floor(),
            "floor" => place.floor(),
            "ceil" => place.ceil(),
            _ => (place - 0.5).ceil(),
        };
        (at as i64).clamp(0, n as i64 - 1)
    }

    fn weight(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.cubic);
        match (self.mode.as_str(), x) {
            ("cubic", ..=1.0) => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            ("cubic", ..2.0) => ((x - 5.0) * x + 8.0) * x * a - 4.0 * a,
            ("cubic", _) => 0.0,
            _ => (1.0 - x).max(0.0),
        }
    }

    /// The share that each element of the operand has in the one at a place. Places beyond the ends are the ends.
    fn shares(&self, place: f64, axis: &Axis) -> Vec<f64> {
        let mut shares = vec![0.0; axis.extent];
        let reach = if self.mode == "cubic" { 2.0 } else { 1.0 };
        let scale = if self.smooths { axis.scale.clamp(1.0 / axis.extent as f64, 1.0) } else { 1.0 };
        let first = (-reach / scale).floor() as i64 + 1;
        let left = place.ceil() - 1.0;
        for tap in first..2 - first {
            let (at, weight) = (left as i64 + tap, self.weight((left + tap as f64 - place) * scale));
            let inside = at.clamp(0, axis.extent as i64 - 1);
            if !self.excludes || at == inside {
                shares[inside as usize] += weight;
            }
        }
        let sum: f64 = shares.iter().sum();
        let divisor = if self.excludes || self.smooths { sum } else { 1.0 };
        shares.iter().map(|share| share / divisor).collect()
    }
}

fn sampled(of: &mut Translation, node: &Node, rule: &Rule, axes: &[Axis]) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let rank = shape.len();
    let x = of.values.operand(name, None)?;
    let output = &node.outputs[0];
    if axes.is_empty() {
        of.values.alias(output, name);
        return Ok(());
    }
    if axes.iter().any(|axis| axis.extent.saturating_mul(axis.size) > MOST_SHARES || axis.extent == 0) {
        return Err(node.fault("resizes too large an axis"));
    }
    let places: Vec<Vec<f64>> =
        axes.iter().map(|axis| (0..axis.size).map(|at| rule.place(axis, at)).collect()).collect();
    if let Some(own) = own(rule, axes, &places, (&x, &shape)) {
        return of.values.define(output, own).map(drop);
    }
    let mut y = x;
    for (axis, places) in axes.iter().zip(&places) {
        let part = format!("{output}_axis{}", axis.at);
        y = match rule.mode.as_str() {
            "nearest" => {
                let picked =
                    places.iter().map(|&place| Number::Int(rule.nearest(place, axis.extent))).collect();
                of.values
                    .add_known(&part, Known { dtype: DType::I32, dims: vec![axis.size], elements: picked });
                let picked = of.values.tensor(&part)?.0;
                expression(&format!("index_select({y}, {picked}, axis={})", axis.at))
            }
            "linear" | "cubic" => {
                let shares: Vec<f64> = places.iter().flat_map(|&place| rule.shares(place, axis)).collect();
                let shares = matrix(of, &part, &[axis.size, axis.extent], &shares);
                product(&y, &shares?, axis.at, rank)
            }
            _ => return Err(node.fault("resizes by an unknown mode")),
        };
        y = outside(of, rule, &part, (axis, places), y, rank)?;
    }
    of.values.define(output, y).map(drop)
}

/// The engine's `resize`, if it samples the same places.
fn own(rule: &Rule, axes: &[Axis], places: &[Vec<f64>], (x, shape): (&Expr, &[Number])) -> Option<Expr> {
    if axes.iter().any(|axis| axis.at < 2) || !(3..=5).contains(&shape.len()) || rule.beyond.is_some() {
        return None;
    }
    let is_like = |own: &dyn Fn(usize, usize, usize) -> Vec<f64>| {
        axes.iter().zip(places).all(|(axis, places)| {
            places.iter().enumerate().all(|(at, &place)| {
                let shares = match rule.mode.as_str() {
                    "nearest" => vec![rule.nearest(place, axis.extent) as f64],
                    _ => rule.shares(place, axis),
                };
                let own = own(at, axis.extent, axis.size);
                own.iter().zip(&shares).all(|(a, b)| (a - b).abs() < NEAR)
            })
        })
    };
    let between = |place: f64, n: usize| -> Vec<f64> {
        let place = place.clamp(0.0, n as f64 - 1.0);
        (0..n).map(|at| (1.0 - (at as f64 - place).abs()).max(0.0)).collect()
    };
    let settings = match rule.mode.as_str() {
        "nearest" if is_like(&|at, n, size| vec![(at * n / size) as f64]) => "",
        "linear" if is_like(&|at, n, size| between((at as f64 + 0.5) * n as f64 / size as f64 - 0.5, n)) => {
            ", mode=linear"
        }
        "linear"
            if is_like(&|at, n, size| {
                between(at as f64 * (n as f64 - 1.0) / (size as f64 - 1.0).max(1.0), n)
            }) =>
        {
            ", mode=linear, corners=true"
        }
        _ => return None,
    };
    let mut sizes = shape[2..].to_vec();
    for axis in axes {
        sizes[axis.at - 2] = Number::Int(axis.size as i64);
    }
    Some(expression(&format!("resize({x}, size={}{settings})", list(&sizes))))
}

/// The product with a matrix `[size, extent]` along an axis.
fn product(x: &Expr, shares: &str, at: usize, rank: usize) -> Expr {
    let letters: Vec<char> = ('a'..='y').take(rank).collect();
    let result: String =
        letters.iter().enumerate().map(|(i, letter)| if i == at { 'z' } else { *letter }).collect();
    let operand: String = letters.iter().collect();
    expression(&format!("einsum({shares}, {x}, equation=\"z{},{operand}->{result}\")", letters[at]))
}

/// The result with a value at places outside the operand.
fn outside(
    of: &mut Translation,
    rule: &Rule,
    part: &str,
    (axis, places): (&Axis, &[f64]),
    y: Expr,
    rank: usize,
) -> Result<Expr, Diagnostic> {
    let is_inside = |place: &f64| (0.0..=axis.extent as f64 - 1.0).contains(place);
    let Some(value) = rule.beyond.filter(|_| !places.iter().all(is_inside)) else { return Ok(y) };
    let name = format!("{part}_inside");
    let elements = places.iter().map(|place| Number::Bool(is_inside(place))).collect();
    of.values.add_known(&name, Known { dtype: DType::Bool, dims: vec![axis.size], elements });
    let inside = of.values.tensor(&name)?.0;
    let mut shape = vec![1; rank];
    shape[axis.at] = axis.size as i64;
    Ok(expression(&format!("where(reshape({inside}, shape={}), {y}, {value:?})", list(&ints(&shape)))))
}
