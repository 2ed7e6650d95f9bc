//! Convolution and pooling: padding that ONNX leaves to a rule becomes numbers.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::broken;
use crate::known::Number;
use crate::literal::{list, of_number};
use crate::node::Node;
use crate::operands::{ints, numbers, operand};
use crate::regions::side_by_side;
use crate::table::expression;
use crate::translate::Translation;

/// Items and channels.
const LEAD: usize = 2;
/// The most places of a window whose largest one is looked for.
const MOST_PLACES: i64 = 1 << 10;
/// The largest number of an attribute of windows.
const MOST: i64 = 1 << 31;

/// The windows on the spatial axes of the first operand, one number for each axis.
pub(crate) struct Windows {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    before: Vec<i64>,
    behind: Vec<i64>,
    /// Elements behind the padding that `ceil_mode` adds.
    further: Vec<i64>,
}

fn unfit(node: &Node) -> Diagnostic {
    broken(format!("{} has windows that do not fit its operand", node.describe()), "export the model again")
}

/// Numbers of an attribute for n axes.
fn per_axis(node: &Node, name: &str, n: usize, default: i64) -> Result<Vec<i64>, Diagnostic> {
    let given = node.ints(name).map_or_else(|| vec![default; n], <[i64]>::to_vec);
    let is_fit = given.len() == n && given.iter().all(|x| (default.min(1)..MOST).contains(x));
    is_fit.then_some(given).ok_or_else(|| unfit(node))
}

impl Windows {
    /// The windows of a node, whose sizes an attribute or the weights give.
    pub(crate) fn of(of: &Translation, node: &Node, sizes: &[i64]) -> Result<Windows, Diagnostic> {
        let (_, shape) = operand(of, node, 0)?;
        let n = sizes.len();
        if shape.len() != n + LEAD || !sizes.iter().all(|size| (1..MOST).contains(size)) {
            return Err(unfit(node));
        }
        let pads = per_axis(node, "pads", 2 * n, 0)?;
        let mut windows = Windows {
            sizes: sizes.to_vec(),
            strides: per_axis(node, "strides", n, 1)?,
            dilations: per_axis(node, "dilations", n, 1)?,
            before: pads[..n].to_vec(),
            behind: pads[n..].to_vec(),
            further: vec![0; n],
        };
        let rule = node.text("auto_pad", "NOTSET");
        for at in 0..n {
            let extent = || shape[LEAD + at].int().ok_or_else(|| node.fault("has windows on an open extent"));
            if rule.starts_with("SAME") {
                windows.keep_extent(at, extent()?, rule == "SAME_LOWER");
            }
            if node.int("ceil_mode", 0) != 0 {
                windows.round_up(at, extent()?);
            }
        }
        Ok(windows)
    }

    /// Elements from the first of a window to its last.
    fn reach(&self, at: usize) -> i64 {
        (self.sizes[at] - 1).saturating_mul(self.dilations[at]).saturating_add(1)
    }

    /// As many windows as strides fit in the extent, rounded up. An odd element goes behind, or before.
    fn keep_extent(&mut self, at: usize, extent: i64, before: bool) {
        let stride = self.strides[at];
        let last = (extent.saturating_add(stride - 1) / stride - 1).saturating_mul(stride);
        let all = last.saturating_add(self.reach(at)).saturating_sub(extent).clamp(0, MOST);
        let (less, more) = (all / 2, all - all / 2);
        (self.before[at], self.behind[at]) = if before { (more, less) } else { (less, more) };
    }

    /// A further window for the elements that are left, if it starts before the padding behind.
    fn round_up(&mut self, at: usize, extent: i64) {
        let stride = self.strides[at];
        let padded = extent.saturating_add(self.before[at] + self.behind[at]);
        let rest = padded.saturating_sub(self.reach(at));
        if rest < 0 || rest % stride == 0 {
            return;
        }
        let next = (rest / stride + 1).saturating_mul(stride);
        if next < extent.saturating_add(self.before[at]) {
            self.further[at] = next.saturating_add(self.reach(at)).saturating_sub(padded).clamp(0, MOST);
        }
    }

    /// The settings of a call: the stride, unless it is the default of the op, padding and dilation.
    pub(crate) fn settings(&self, default_stride: &[i64], padding: [&[i64]; 2]) -> String {
        let stride =
            if self.strides == default_stride { String::new() } else { setting("stride", &self.strides, 0) };
        let [before, behind] = padding;
        let padding = if before == behind {
            setting("padding", before, 0)
        } else {
            setting("padding", &[before, behind].concat(), 0)
        };
        format!("{stride}{padding}{}", setting("dilation", &self.dilations, 1))
    }

    /// The settings of a convolution.
    pub(crate) fn of_conv(&self) -> String {
        self.settings(&vec![1; self.sizes.len()], [&self.before, &self.behind])
    }

    /// The places of a window for each step along a spatial axis.
    fn inner(&self, at: usize) -> i64 {
        self.sizes[at + 1..].iter().product()
    }

    /// The padding behind, with what `ceil_mode` adds.
    fn all_behind(&self) -> Vec<i64> {
        self.behind.iter().zip(&self.further).map(|(behind, further)| behind + further).collect()
    }

    /// The settings of pooling whose padding never counts.
    fn of_pool(&self) -> String {
        let size = setting("size", &self.sizes, 0);
        size + &self.settings(&self.sizes, [&self.before, &self.all_behind()])
    }
}

/// A setting of one number if all are equal; nothing if they are the default.
fn setting(name: &str, values: &[i64], default: i64) -> String {
    match values.first() {
        Some(first) if values.iter().all(|value| value == first) => {
            if *first == default {
                String::new()
            } else {
                format!(", {name}={first}")
            }
        }
        _ => format!(", {name}={}", list(&ints(values))),
    }
}

/// The extents of the weights on spatial axes.
pub(crate) fn sizes(of: &Translation, node: &Node, at: usize) -> Result<Vec<i64>, Diagnostic> {
    let (_, shape) = operand(of, node, at)?;
    let sizes = shape.iter().skip(LEAD).map(Number::int).collect::<Option<Vec<_>>>();
    sizes.ok_or_else(|| node.fault("has weights of open extents"))
}

/// The setting `groups`.
pub(crate) fn groups(node: &Node) -> String {
    setting("groups", &[node.int("group", 1)], 1)
}

/// `Conv(x, w, b)`
pub(crate) fn conv(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let windows = Windows::of(of, node, &sizes(of, node, 1)?)?;
    let operands = operands(of, node)?;
    let call = format!("conv({operands}{}{})", windows.of_conv(), groups(node));
    of.values.define(&node.outputs[0], expression(&call)).map(drop)
}

/// The operands of a node between commas.
fn operands(of: &mut Translation, node: &Node) -> Result<String, Diagnostic> {
    let names = node.inputs.iter().filter(|name| !name.is_empty());
    let operands = names.map(|name| of.values.operand(name, None).map(|operand| operand.to_string()));
    Ok(operands.collect::<Result<Vec<_>, _>>()?.join(", "))
}

/// `ConvTranspose(x, w, b)`. A given extent of the result settles the padding, or adds elements behind.
pub(crate) fn conv_transpose(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let sizes = sizes(of, node, 1)?;
    let (n, rule) = (sizes.len(), node.text("auto_pad", "NOTSET").to_owned());
    let plain = Node { attributes: node.attributes.clone(), ..node.clone() };
    let mut windows = Windows::of(of, &without_rule(plain), &sizes)?;
    let mut extra = per_axis(node, "output_padding", n, 0)?;
    let (_, shape) = operand(of, node, 0)?;
    for at in 0..n {
        let given = match node.ints("output_shape") {
            Some(shape) => Some(*shape.get(at).ok_or_else(|| unfit(node))?),
            None if rule.starts_with("SAME") => {
                let extent =
                    shape[LEAD + at].int().ok_or_else(|| node.fault("has windows on an open extent"))?;
                Some(extent.saturating_mul(windows.strides[at]))
            }
            None => None,
        };
        let Some(given) = given else { continue };
        let extent = shape[LEAD + at].int().ok_or_else(|| node.fault("has windows on an open extent"))?;
        let whole = (extent - 1).saturating_mul(windows.strides[at]).saturating_add(windows.reach(at));
        let all = whole.saturating_add(extra[at]).saturating_sub(given).clamp(-MOST, MOST);
        extra[at] += (-all).max(0);
        let (less, more) = (all.max(0) / 2, all.max(0) - all.max(0) / 2);
        let is_upper = rule == "SAME_UPPER";
        (windows.before[at], windows.behind[at]) = if is_upper { (less, more) } else { (more, less) };
    }
    let extra = setting("extra", &extra, 0);
    let call = format!("conv_transpose({}{}{}{extra})", operands(of, node)?, windows.of_conv(), groups(node));
    of.values.define(&node.outputs[0], expression(&call)).map(drop)
}

/// The node without a rule for its padding.
fn without_rule(mut node: Node) -> Node {
    node.attributes.remove("auto_pad");
    node
}

fn pooled(of: &Translation, node: &Node) -> Result<Windows, Diagnostic> {
    let sizes = node.ints("kernel_shape").ok_or_else(|| unfit(node))?;
    Windows::of(of, node, sizes)
}

/// `MaxPool(x)`, and the places of the largest elements. Integers are compared as f32.
pub(crate) fn max_pool(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let windows = pooled(of, node)?;
    let (name, shape) = operand(of, node, 0)?;
    let dtype = of.values.type_of(name).map_or(DType::F32, |ty| ty.dtype);
    let x = of.values.operand(name, None)?;
    let x = if dtype.is_float() { x.to_string() } else { format!("cast({x}, dtype=f32)") };
    let pooled = format!("max_pool({x}{})", windows.of_pool());
    let call = if dtype.is_float() { pooled } else { format!("cast({pooled}, dtype={dtype})") };
    let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
    of.values.define(&node.outputs[0], expression(&call))?;
    of.values.set_narrow(&node.outputs[0], narrow);
    match node.outputs.get(1).filter(|name| !name.is_empty()) {
        Some(output) => places(of, node, &windows, (&x, &shape, output)),
        None => Ok(()),
    }
}

/// The places of the largest elements of windows, counted through the whole operand. Shifted copies of the operand lie
/// side by side, one for each place in a window, and the first largest one is found.
fn places(
    of: &mut Translation,
    node: &Node,
    windows: &Windows,
    (x, shape, output): (&str, &[Number], &str),
) -> Result<(), Diagnostic> {
    let extents = shape.iter().map(Number::int).collect::<Option<Vec<_>>>();
    let extents = extents.ok_or_else(|| node.fault("returns places in open extents"))?;
    let (n, n_places) =
        (windows.sizes.len(), windows.sizes.iter().try_fold(1, |n, size| i64::checked_mul(n, *size)));
    let n_places =
        n_places.filter(|n| *n <= MOST_PLACES).ok_or_else(|| node.fault("has windows of too many places"))?;
    let behind = windows.all_behind();
    let padded = |at: usize| extents[LEAD + at].saturating_add(windows.before[at]).saturating_add(behind[at]);
    let counts: Vec<i64> = (0..n)
        .map(|at| padded(at).saturating_sub(windows.reach(at)).max(0) / windows.strides[at] + 1)
        .collect();
    let side = |given: &[i64]| list(&ints(&[&[0; LEAD], given].concat()));
    let around = format!("pad({x}, before={}, after={}, value=-inf)", side(&windows.before), side(&behind));
    let around = of.values.derive(&format!("{output}/padded"), &around, None)?;
    let around = of.values.tensor_of(output, around)?.0;
    let shifted = |place: i64| {
        (0..n).fold(around.clone(), |text, at| {
            let start = place / windows.inner(at) % windows.sizes[at] * windows.dilations[at];
            let stop = start + (counts[at] - 1) * windows.strides[at] + 1;
            format!(
                "slice({text}, axis={}, start={start}, stop={stop}, step={})",
                at + LEAD,
                windows.strides[at]
            )
        })
    };
    let copies = side_by_side((0..n_places).map(shifted).collect(), true, 0);
    let first = of.values.derive(
        &format!("{output}/first"),
        &format!("cast(argmax({copies}, axis=0), dtype=i64)"),
        None,
    )?;
    let first = of.values.tensor_of(output, first)?.0;
    let sum = flat_places(windows, node.int("storage_order", 0) != 0, &extents, &counts, &first);
    of.values.define(output, expression(&sum)).map(drop)
}

/// The places in the whole operand, where `first` has the numbers of places within windows.
fn flat_places(windows: &Windows, is_reverse: bool, extents: &[i64], counts: &[i64], first: &str) -> String {
    let whole = [&extents[..LEAD], counts].concat();
    let position = |axis: usize| {
        let mut shape = vec![1; whole.len()];
        shape[axis] = whole[axis];
        format!("iota(shape={}, axis={axis}, dtype=i64)", list(&ints(&shape)))
    };
    // Channels and items, then the spatial axes, the last or the first of them fastest.
    let mut axes: Vec<usize> = (0..counts.len()).collect();
    if is_reverse {
        axes.reverse();
    }
    let mut sum = format!("{} * {} + {}", position(0), extents[1], position(1));
    for at in axes {
        let shift = format!(
            "{} * {} + floor_divide({first}, {}) % {} * {} - {}",
            position(LEAD + at),
            windows.strides[at],
            windows.inner(at),
            windows.sizes[at],
            windows.dilations[at],
            windows.before[at]
        );
        sum = format!("({sum}) * {} + ({shift})", extents[LEAD + at]);
    }
    sum
}

/// `CausalConvWithState(x, w, b, past)`: each channel is convolved with weights of its own, behind the positions of
/// earlier calls. The last positions are a result, too.
pub(crate) fn causal_conv(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (weights, _), sizes) =
        (operand(of, node, 0)?, operand(of, node, 1)?, sizes(of, node, 1)?);
    let ([size], Some(channels)) = (&sizes[..], shape.get(1).and_then(Number::int)) else {
        return Err(unfit(node));
    };
    let (x, weights) = (of.values.tensor(name)?.0, of.values.tensor(weights)?.0);
    let all = match node.input(3) {
        Some(past) => format!("concat({}, {x}, axis=2)", of.values.tensor(past)?.0),
        None => format!("pad({x}, before=[0, 0, {}], after=[0, 0, 0])", size - 1),
    };
    let all = of.values.derive(&format!("{}/positions", node.outputs[0]), &all, None)?;
    let all = of.values.tensor_of(name, all)?.0;
    let bias = match node.input(2) {
        Some(bias) => format!(", {}", of.values.tensor(bias)?.0),
        None => String::new(),
    };
    let conv = format!("conv({all}, {weights}{bias}{})", setting("groups", &[channels], 1));
    let y = match node.text("activation", "none") {
        "none" => conv,
        "silu" | "swish" => format!("silu({conv})"),
        other => return Err(node.fault(&format!("has the activation `{other}`"))),
    };
    of.values.define(&node.outputs[0], expression(&y))?;
    let Some(output) = node.outputs.get(1).filter(|name| !name.is_empty()) else { return Ok(()) };
    let start = match size {
        1 => shape
            .get(2)
            .and_then(Number::int)
            .ok_or_else(|| node.fault("hands on no position of open extents"))?,
        _ => 1 - size,
    };
    of.values.define(output, expression(&format!("slice({all}, axis=2, start={start})"))).map(drop)
}

/// `AveragePool(x)`. Elements that `ceil_mode` adds never count, those of `pads` count if an attribute says so.
pub(crate) fn average_pool(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let windows = pooled(of, node)?;
    let (name, shape) = operand(of, node, 0)?;
    let x = of.values.operand(name, None)?;
    let all_behind = windows.all_behind();
    let is_padded = windows.before.iter().chain(&all_behind).any(|&n| n > 0);
    let counts = node.int("count_include_pad", 0) != 0;
    let call = match (is_padded, counts) {
        (false, _) => format!("avg_pool({x}{})", windows.of_pool()),
        (true, false) => format!("avg_pool({x}{}, count_padding=false)", windows.of_pool()),
        (true, true) if all_behind == windows.behind => format!("avg_pool({x}{})", windows.of_pool()),
        (true, true) => {
            let zeros = vec![0; shape.len() - windows.sizes.len()];
            let [before, after] =
                [&windows.before, &windows.behind].map(|side| list(&ints(&[&zeros[..], side].concat())));
            let none = vec![0; windows.sizes.len()];
            let settings = windows.settings(&windows.sizes, [&none, &windows.further]);
            let size = setting("size", &windows.sizes, 0);
            format!("avg_pool(pad({x}, before={before}, after={after}){size}{settings}, count_padding=false)")
        }
    };
    of.values.define(&node.outputs[0], expression(&call)).map(drop)
}

/// `LpPool(x)`: the p-norm of each window.
pub(crate) fn lp_pool(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let windows = pooled(of, node)?;
    let (name, _) = operand(of, node, 0)?;
    let x = of.values.operand(name, None)?;
    let p = node.int("p", 2).max(1);
    let n = windows.sizes.iter().fold(1i64, |n, size| n.saturating_mul(*size));
    let call = format!("({n} * avg_pool(abs({x}) ** {p}.0{})) ** (1 / {p}.0)", windows.of_pool());
    of.values.define(&node.outputs[0], expression(&call)).map(drop)
}

/// `LRN(x)`: elements over a power of the mean square of neighbouring channels.
pub(crate) fn response_norm(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let size = node.int("size", 1).clamp(1, MOST);
    let [items, channels, ..] = &shape[..] else { return Err(unfit(node)) };
    let x = of.values.operand(name, None)?;
    let around = format!("padding=[{}, 0, {}, 0]", (size - 1) / 2, size / 2);
    let [items, channels] = [items, channels].map(of_number);
    let mean = format!(
        "reshape(avg_pool(reshape(square({x}), shape=[{items}, 1, {channels}, _]), size=[{size}, 1], stride=1, {around}), shape={})",
        list(&shape)
    );
    let [alpha, beta, bias] =
        [("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)].map(|(name, x)| node.float(name, x));
    let call = format!("{x} / ({bias:?} + {alpha:?} * {mean}) ** {beta:?}");
    of.values.define(&node.outputs[0], expression(&call)).map(drop)
}

/// `Col2Im(x, image, block)`: blocks of an image, which lie side by side, are added where they belong.
pub(crate) fn col2im(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let known = |at: usize| -> Result<Vec<i64>, Diagnostic> {
        let found = numbers(of, node, at)?.unwrap_or_default();
        found
            .iter()
            .map(Number::int)
            .collect::<Option<_>>()
            .ok_or_else(|| node.fault("has an image of open extents"))
    };
    let (image, block) = (known(1)?, known(2)?);
    let n = block.len();
    let (name, shape) = operand(of, node, 0)?;
    let [Number::Int(items), Number::Int(rows), _] = shape[..] else { return Err(unfit(node)) };
    if image.len() != n || n == 0 || !block.iter().chain(&image).all(|size| (1..MOST).contains(size)) {
        return Err(unfit(node));
    }
    let places = block.iter().fold(1i64, |n, size| n.saturating_mul(*size));
    let pads = per_axis(node, "pads", 2 * n, 0)?;
    let windows = Windows {
        strides: per_axis(node, "strides", n, 1)?,
        dilations: per_axis(node, "dilations", n, 1)?,
        before: pads[..n].to_vec(),
        behind: pads[n..].to_vec(),
        further: vec![0; n],
        sizes: block.clone(),
    };
    let (mut counts, mut extra) = (vec![], vec![]);
    for at in 0..n {
        let rest = image[at] + pads[at] + pads[n + at] - windows.reach(at);
        if rest < 0 {
            return Err(unfit(node));
        }
        counts.push(rest / windows.strides[at] + 1);
        extra.push(rest % windows.strides[at]);
    }
    let channels = rows / places.max(1);
    let x = of.values.operand(name, None)?;
    let whole = list(&ints(&[&[items.saturating_mul(channels), places], &counts[..]].concat()));
    let marks =
        format!("reshape(eye(n={places}), shape={})", list(&ints(&[&[places, 1], &block[..]].concat())));
    let extra = setting("extra", &extra, 0);
    let sums = format!("conv_transpose(reshape({x}, shape={whole}), {marks}{}{extra})", windows.of_conv());
    let shape = list(&ints(&[&[items, channels], &image[..]].concat()));
    of.values.define(&node.outputs[0], expression(&format!("reshape({sums}, shape={shape})"))).map(drop)
}
