//! `GridSample` and `AffineGrid`: an image at places that another tensor gives.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::broken;
use crate::known::Number;
use crate::literal::{list, of_number};
use crate::node::Node;
use crate::operands::{ints, matrix, numbers, operand};
use crate::table::expression;
use crate::translate::Translation;

/// The most elements of the places of `AffineGrid`.
const MOST: i64 = 1 << 22;
/// The parameter of the cubic kernel.
const CUBIC: f64 = -0.75;

/// How an image is sampled.
struct Rule<'n> {
    stem: &'n str,
    mode: &'n str,
    padding: &'n str,
    corners: bool,
    dtype: DType,
}

/// The names of the index and of the weight of a tap on an axis. No weight if it is 1.
type Tap = (String, Option<String>);

/// `GridSample(x, grid)`: `[N, C, …]` at places `[N, …, axes]`, which count the axes from the last.
pub(crate) fn grid_sample(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (places, outer)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let n_axes = shape.len().saturating_sub(2);
    let unfit =
        || broken(format!("{} has operands of unexpected shapes", node.describe()), "export the model again");
    if !(1..=3).contains(&n_axes) || outer.len() != n_axes + 2 {
        return Err(unfit());
    }
    let dtype = of.values.type_of(places).map_or(DType::F32, |ty| ty.dtype);
    let rule = Rule {
        stem: &node.outputs[0],
        mode: node.text("mode", "linear"),
        padding: node.text("padding_mode", "zeros"),
        corners: node.int("align_corners", 0) != 0,
        dtype,
    };
    let grid = of.values.tensor(places)?.0;
    let mut axes: Vec<Vec<Tap>> = vec![];
    for at in 0..n_axes {
        let extent = shape[at + 2].int().filter(|n| (1..1 << 30).contains(n));
        let extent = extent.ok_or_else(|| node.fault("samples an open extent"))?;
        let place = format!("select({grid}, axis=-1, index={})", n_axes - 1 - at);
        axes.push(taps(of, &rule, (at, extent), &place)?);
    }
    let x = of.values.operand(name, None)?;
    let order: Vec<i64> = [0].into_iter().chain(2..shape.len() as i64).chain([1]).collect();
    let last = format!("permute({x}, axes={})", list(&ints(&order)));
    let last = of.values.define(&format!("{}_last", rule.stem), expression(&last))?;
    let mut items = vec![Number::Int(1); n_axes + 1];
    items[0] = outer[0].clone();
    let items = format!("iota(shape={})", list(&items));
    let mut terms: Vec<(Vec<String>, Vec<String>)> = vec![(vec![], vec![])];
    for taps in &axes {
        let joined = terms.iter().flat_map(|(indices, weights)| {
            taps.iter().map(move |(index, weight)| {
                let weights = weights.iter().cloned().chain(weight.clone()).collect();
                ([&indices[..], std::slice::from_ref(index)].concat(), weights)
            })
        });
        terms = joined.collect();
    }
    let shape: Vec<Number> = outer[..=n_axes].iter().cloned().chain([Number::Int(1)]).collect();
    let mut sum: Option<String> = None;
    for (indices, weights) in terms {
        let found = format!("index({last}, {items}, {})", indices.join(", "));
        let term = match weights.is_empty() {
            true => found,
            false => format!("{found} * reshape({}, shape={})", weights.join(" * "), list(&shape)),
        };
        let total = sum.map_or(term.clone(), |sum| format!("{sum} + {term}"));
        sum = Some(of.values.define(&format!("{}_sum", rule.stem), expression(&total))?);
    }
    let back: Vec<i64> = [0, n_axes as i64 + 1].into_iter().chain(1..=n_axes as i64).collect();
    let y = format!("permute({}, axes={})", sum.ok_or_else(unfit)?, list(&ints(&back)));
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// The taps on an axis of an extent for places from -1 to 1.
fn taps(
    of: &mut Translation,
    rule: &Rule,
    (at, extent): (usize, i64),
    place: &str,
) -> Result<Vec<Tap>, Diagnostic> {
    let mut step = |name: String, expr: String| {
        of.values.define(&format!("{}_{name}{at}", rule.stem), expression(&expr))
    };
    let place = match rule.corners {
        true => format!("({place} + 1.0) * {:?}", (extent - 1) as f64 / 2.0),
        false => format!("(({place} + 1.0) * {extent}.0 - 1.0) * 0.5"),
    };
    let place = step("place".into(), place)?;
    let is_nearest = rule.mode == "nearest";
    let first = if is_nearest { format!("round({place})") } else { format!("floor({place})") };
    let first = step("first".into(), first)?;
    let whole = step("whole".into(), format!("cast({first}, dtype=i32)"))?;
    let offsets = match rule.mode {
        "nearest" => 0..1,
        "cubic" | "bicubic" => -1..3,
        _ => 0..2,
    };
    let mut taps = vec![];
    for offset in offsets {
        let index = step(format!("at{}_", offset + 1), format!("{whole} + {offset}"))?;
        let mut weight = (!is_nearest).then(|| weight(rule, &format!("({place} - {first})"), offset));
        let inside = match rule.padding {
            "reflection" => reflected(&index, extent, rule.corners),
            _ => format!("clamp({index}, min=0, max={})", extent - 1),
        };
        if rule.padding == "zeros" {
            let is_inside = format!("cast(({index} >= 0) & ({index} < {extent}), dtype={})", rule.dtype);
            weight = Some(weight.map_or(is_inside.clone(), |weight| format!("({weight}) * {is_inside}")));
        }
        let weight = weight.map(|weight| step(format!("share{}_", offset + 1), weight)).transpose()?;
        taps.push((step(format!("index{}_", offset + 1), inside)?, weight));
    }
    Ok(taps)
}

/// The weight of the tap at an offset from the one before a place, which lies behind it by a fraction.
fn weight(rule: &Rule, fraction: &str, offset: i64) -> String {
    let near = |d: String| format!("(({:?} * {d} - {:?}) * {d} * {d} + 1.0)", CUBIC + 2.0, CUBIC + 3.0);
    let far = |d: String| format!("((({d} - 5.0) * {d} + 8.0) * {d} - 4.0) * {CUBIC:?}");
    match (rule.mode, offset) {
        ("cubic" | "bicubic", -1) => far(format!("({fraction} + 1.0)")),
        ("cubic" | "bicubic", 0) => near(fraction.to_owned()),
        ("cubic" | "bicubic", 1) => near(format!("(1.0 - {fraction})")),
        ("cubic" | "bicubic", _) => far(format!("(2.0 - {fraction})")),
        (_, 0) => format!("1.0 - {fraction}"),
        _ => fraction.to_owned(),
    }
}

/// An index mirrored at the ends, or with `corners` at the centres of the last elements.
fn reflected(index: &str, extent: i64, corners: bool) -> String {
    let (period, last) =
        if corners { (2 * (extent - 1), 2 * (extent - 1)) } else { (2 * extent, 2 * extent - 1) };
    match period {
        0 => format!("{index} * 0"),
        _ => format!("minimum(remainder({index}, {period}), {last} - remainder({index}, {period}))"),
    }
}

/// `AffineGrid(theta, size)`: the places of an image that an affine map moves.
pub(crate) fn affine_grid(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let size = numbers(of, node, 1)?.unwrap_or_default();
    let extents: Option<Vec<i64>> = size.iter().skip(2).map(Number::int).collect();
    let extents = extents.filter(|extents| matches!(extents.len(), 2 | 3) && extents.iter().all(|n| *n > 0));
    let extents = extents.ok_or_else(|| node.fault("has a size of open extents"))?;
    let n_places = extents.iter().try_fold(1i64, |n, extent| n.checked_mul(*extent)).filter(|n| *n < MOST);
    let n_places = n_places.ok_or_else(|| node.fault("has too many places"))?;
    let corners = node.int("align_corners", 0) != 0;
    let mut places = vec![];
    for flat in 0..n_places {
        let mut rest = flat;
        // The last axis comes first.
        for &extent in extents.iter().rev() {
            let at = (rest % extent) as f64;
            rest /= extent;
            places.push(match corners {
                true if extent == 1 => -1.0,
                true => 2.0 * at / (extent - 1) as f64 - 1.0,
                false => (2.0 * at + 1.0) / extent as f64 - 1.0,
            });
        }
        places.push(1.0);
    }
    let n = extents.len();
    if shape.len() != 3 {
        return Err(broken(
            format!("{} has maps of unexpected shape", node.describe()),
            "export the model again",
        ));
    }
    let base = matrix(of, &format!("{}_places", node.outputs[0]), &[n_places as usize, n + 1], &places)?;
    let theta = of.values.tensor(name)?.0;
    let outer = [vec![shape[0].clone()], ints(&extents), vec![Number::Int(n as i64)]].concat();
    let items = of_number(&shape[0]);
    let base = format!("broadcast_to({base}, shape=[{items}, {n_places}, {}])", n + 1);
    let y = format!("reshape({base} @ transpose({theta}), shape={})", list(&outer));
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}
