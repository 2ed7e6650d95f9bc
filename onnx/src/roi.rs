//! Parts of images at places that data name: `RoiAlign`; and determinants of small matrices.

use engine_core::diag::Diagnostic;

use crate::heads::{step, unfit};
use crate::known::Number;
use crate::literal::list;
use crate::node::Node;
use crate::operands::{ints, operand};
use crate::table::expression;
use crate::translate::Translation;

/// The most samples along an axis of a part.
const MOST: i64 = 1 << 12;

/// The first opset that counts places from the middle of elements.
const FIRST_HALF_PIXEL: i64 = 16;

/// One axis of the image.
struct Axis {
    /// The column of its first bound among those of a part.
    column: i64,
    extent: i64,
    /// The cells of the result, and the samples of each.
    cells: i64,
    /// Whether it is the last axis.
    is_last: bool,
}

/// The settings of a node.
struct Rule {
    scale: f64,
    /// Whether places count from the middle of elements.
    is_half: bool,
    samples: i64,
}

/// `RoiAlign(x, parts, items)`: samples of each part between the elements of its image, averaged for each cell.
pub(crate) fn align(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((x, shape), (parts, rows)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let ([_, _, height, width], [rows, _]) = (&shape[..], &rows[..]) else { return Err(unfit(node)) };
    let (Some(height), Some(width)) = (height.int().filter(|n| *n > 0), width.int().filter(|n| *n > 0))
    else {
        return Err(node.fault("samples images of open extents"));
    };
    let items = operand(of, node, 2)?.0;
    let (x, parts, items) = (of.values.tensor(x)?.0, of.values.tensor(parts)?.0, of.values.tensor(items)?.0);
    let default = if of.opset < FIRST_HALF_PIXEL { "output_half_pixel" } else { "half_pixel" };
    let rule = Rule {
        scale: node.float("spatial_scale", 1.0),
        is_half: node.text("coordinate_transformation_mode", default) == "half_pixel",
        samples: node.int("sampling_ratio", 0),
    };
    let cells = [node.int("output_height", 1), node.int("output_width", 1)];
    if !(1..MOST).contains(&rule.samples) || cells.iter().any(|n| !(1..MOST).contains(n)) {
        return Err(node.lacking("takes as many samples as the size of its parts asks for"));
    }
    let y = Axis { column: 1, extent: height, cells: cells[0], is_last: false };
    let z = Axis { column: 0, extent: width, cells: cells[1], is_last: true };
    let (y, z) = (taps(of, node, (&parts, &rule), &y)?, taps(of, node, (&parts, &rule), &z)?);
    let image = step(of, node, "image", &format!("permute({x}, axes=[0, 2, 3, 1])"))?;
    let items = step(of, node, "items", &format!("reshape({items}, shape=[_, 1, 1])"))?;
    let mut terms = vec![];
    for (row, row_share) in &y {
        for (column, column_share) in &z {
            let found = format!("index({image}, {items}, {row}, {column})");
            let share =
                format!("reshape({row_share} * {column_share}, shape={})", samples(rows, &cells, &rule));
            terms.push(step(of, node, &format!("tap{}", terms.len()), &format!("{found} * {share}"))?);
        }
    }
    let split = [rows.clone()].into_iter().chain(ints(&[cells[0], rule.samples, cells[1], rule.samples]));
    let split = list(&split.chain([crate::shapes::open()]).collect::<Vec<_>>());
    let y = match node.text("mode", "avg") {
        "avg" => format!("mean(reshape({}, shape={split}), axis=[2, 4])", terms.join(" + ")),
        "max" => {
            let all = terms.into_iter().reduce(|a, b| format!("maximum({a}, {b})")).unwrap_or_default();
            format!("amax(reshape({all}, shape={split}), axis=[2, 4])")
        }
        other => return Err(node.lacking(&format!("has the mode `{other}`"))),
    };
    of.values.define(&node.outputs[0], expression(&format!("permute({y}, axes=[0, 3, 1, 2])"))).map(drop)
}

/// The extents of the shares of all samples.
fn samples(rows: &Number, cells: &[i64; 2], rule: &Rule) -> String {
    let extents = ints(&[cells[0] * rule.samples, cells[1] * rule.samples, 1]);
    list(&[std::slice::from_ref(rows), &extents[..]].concat())
}

/// The elements before and behind each sample along an axis, and their shares. Samples beyond the image have none.
fn taps(
    of: &mut Translation,
    node: &Node,
    (parts, rule): (&str, &Rule),
    axis: &Axis,
) -> Result<[(String, String); 2], Diagnostic> {
    let label = if axis.is_last { "x" } else { "y" };
    let Axis { column, extent, cells, .. } = axis;
    let n = cells * rule.samples;
    let mut make = |part: &str, text: &str| step(of, node, &format!("{label}_{part}"), text);
    let bound = |at: i64| {
        let bound = format!("slice({parts}, axis=1, start={at}, stop={}) * {:?}", at + 1, rule.scale);
        if rule.is_half { format!("({bound} - 0.5)") } else { format!("({bound})") }
    };
    let start = make("start", &bound(*column))?;
    let size = format!("{} - {start}", bound(column + 2));
    // Without the shift by a half, a part has at least the size of an element.
    let size = if rule.is_half { size } else { format!("maximum({size}, 1.0)") };
    let size = make("size", &size)?;
    let place = format!("{start} + (iota(shape=[1, {n}], axis=1, dtype=f32) + 0.5) * ({size} / {n}.0)");
    let place = make("place", &place)?;
    let inside = make("inside", &format!("({place} >= -1.0) & ({place} <= {extent}.0)"))?;
    let held = make("held", &format!("clamp({place}, min=0.0, max={}.0)", extent - 1))?;
    let first = make("first", &format!("floor({held})"))?;
    let shape = |of: &str| match axis.is_last {
        true => format!("reshape({of}, shape=[_, 1, {n}])"),
        false => format!("reshape({of}, shape=[_, {n}, 1])"),
    };
    let low = make("low", &shape(&format!("cast({first}, dtype=i32)")))?;
    let high = make("high", &format!("minimum({low} + 1, {})", extent - 1))?;
    let behind = make("behind", &shape(&format!("where({inside}, {held} - {first}, 0.0)")))?;
    let before = make("before", &shape(&format!("where({inside}, 1.0 - ({held} - {first}), 0.0)")))?;
    Ok([(low, before), (high, behind)])
}

/// `Det(x)` of matrices with up to three rows.
pub(crate) fn determinant(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let x = of.values.tensor(name)?.0;
    let at =
        |row: i64, column: i64| format!("select(select({x}, axis=-1, index={column}), axis=-1, index={row})");
    let minor = |column: i64| {
        let (a, b) = ((column + 1) % 3, (column + 2) % 3);
        format!("{} * ({} * {} - {} * {})", at(0, column), at(1, a), at(2, b), at(1, b), at(2, a))
    };
    let y = match shape.last().and_then(Number::int) {
        Some(1) if shape.len() > 1 => at(0, 0),
        Some(2) if shape.len() > 1 => format!("{} * {} - {} * {}", at(0, 0), at(1, 1), at(0, 1), at(1, 0)),
        Some(3) if shape.len() > 1 => format!("{} + {} + {}", minor(0), minor(1), minor(2)),
        _ => return Err(node.lacking("has matrices of more than three rows")),
    };
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}
