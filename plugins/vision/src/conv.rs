//! Convolution.

use crate::windows::{LEAD, Windows, places, settings, shifted, spread, unfolded, windows};
use engine_core::ir::{Attrs, Builder, DType, Dim, E, Literal, MatmulSpec, Type, Value, dense_strides};
use engine_core::op::{AttrSpec, Grad, OpForm, TypeIssue, checked};

/// Cross-correlation, as networks call a convolution: `y[n, o, p] = Σ x[n, c, p·stride + r·dilation - padding]·w[o, c, r]`
/// over the channels of a group and the places of a window. Padding is zeros. Small floats accumulate in f32.
pub fn conv() -> OpForm {
    OpForm::new("conv", "Slides trained windows over a signal, an image or a volume.")
        .rounds_operands()
        .input("x", "[N, C, …], one to three spatial axes")
        .input("w", "[O, C / groups, …], a window for each channel of the result")
        .optional("bias", "[O]")
        .attrs(settings())
        .attr(groups())
        .types(|types, attrs| {
            let windows = fitting("conv", &types[0], &types[1], attrs)?;
            let (x, w) = (&types[0], &types[1]);
            expect_channels(x, &w.shape[1], attrs)?;
            expect_divided("conv", &w.shape[0], attrs)?;
            expect_bias("conv", &w.shape[0], types.get(2), x)?;
            let spatial = windows.iter().map(|windows| Dim::Fixed(windows.count()));
            let shape = [x.shape[0].clone(), w.shape[0].clone()].into_iter().chain(spatial).collect();
            Ok(vec![Type { dtype: x.dtype, shape }])
        })
        .expand(|b, call| {
            let (x, w) = (call.inputs[0], call.inputs[1]);
            let windows = checked(fitting("conv", b.ty(x), b.ty(w), call.attrs));
            let y = convolved(b, x, w, &windows, call.attrs.int("groups") as usize);
            vec![with_bias(b, y, call.inputs.get(2))]
        })
        .grad(Grad::rule(|b, call| {
            let (x, w, Some(g)) = (call.inputs[0], call.inputs[1], call.grads[0]) else {
                return vec![None; call.inputs.len()];
            };
            let windows = checked(fitting("conv", b.ty(x), b.ty(w), call.attrs));
            let groups = call.attrs.int("groups") as usize;
            let dx = spread_back(b, g, w, &windows, groups);
            let dw = of_weights(b, x, g, &windows, groups);
            let bias = call.inputs.get(2).map(|_| bias_gradient(b, g));
            [dx, dw].into_iter().chain(bias).map(Some).collect()
        }))
        .example(
            "a signal",
            "conv(a, b)",
            &[("f32[1, 1, 4]", &[1., 2., 3., 5.]), ("f32[1, 1, 2]", &[1., 10.])],
            &[("f32[1, 1, 3]", &[21., 32., 53.])],
        )
        .example(
            "an image in steps of 2, with a border",
            "conv(a, b, c, stride=2, padding=1)",
            &[
                ("f32[1, 1, 3, 3]", &[1., 2., 3., 4., 5., 6., 7., 8., 9.]),
                ("f32[1, 1, 3, 3]", &[1., 0., 0., 0., 1., 0., 0., 0., 1.]),
                ("f32[1]", &[100.]),
            ],
            &[("f32[1, 1, 2, 2]", &[106., 103., 107., 114.])],
        )
        .example(
            "in two groups",
            "conv(a, b, groups=2)",
            &[("f32[1, 2, 2]", &[1., 2., 3., 4.]), ("f32[2, 1, 2]", &[1., 1., 1., -1.])],
            &[("f32[1, 2, 1]", &[3., -1.])],
        )
}

/// The setting `groups`.
pub fn groups() -> AttrSpec {
    AttrSpec::int("groups", "channels are convolved in so many groups", 1).at_least(1.0)
}

fn fitting(op: &str, x: &Type, w: &Type, attrs: &Attrs) -> Result<Vec<Windows>, TypeIssue> {
    windows(op, x, &sizes(op, x, w)?, attrs)
}

/// The extents of the windows of weights for an operand.
pub fn sizes(op: &str, x: &Type, w: &Type) -> Result<Vec<usize>, TypeIssue> {
    let wrong = |message: String| TypeIssue::new(message).at(1, format!("this is {w}"));
    if w.rank() != x.rank() || w.rank() <= LEAD {
        return Err(wrong(format!("`{op}` takes x and w of one rank, not {x} and {w}")));
    }
    if x.dtype != w.dtype || !x.dtype.is_float() {
        return Err(wrong(format!("`{op}` takes floats of one type, not {x} and {w}")));
    }
    let sizes: Option<Vec<usize>> = w.shape[LEAD..].iter().map(Dim::fixed).collect();
    sizes.ok_or_else(|| wrong(format!("the windows of {w} are not known")).help("give them as numbers"))
}

/// Checks the channels of x, `groups` times those of the weights.
fn expect_channels(x: &Type, per_group: &Dim, attrs: &Attrs) -> Result<(), TypeIssue> {
    let groups = Dim::Fixed(attrs.int("groups") as usize);
    if per_group.times(&groups).as_ref() == Some(&x.shape[1]) {
        return Ok(());
    }
    let found = &x.shape[1];
    let message =
        format!("`conv` has weights for {per_group} channels in each of {groups} groups, and x has {found}");
    Err(TypeIssue::new(message).at(0, format!("this is {x}")))
}

/// Checks that the groups divide the channels.
pub fn expect_divided(op: &str, channels: &Dim, attrs: &Attrs) -> Result<(), TypeIssue> {
    let groups = Dim::Fixed(attrs.int("groups") as usize);
    if channels.divided_by(&groups).is_some() {
        return Ok(());
    }
    let message = format!("`{op}` cannot divide {channels} channels into {groups} groups");
    Err(TypeIssue::new(message).at_setting("groups"))
}

/// Checks that there is a bias for each channel of the result.
pub fn expect_bias(op: &str, channels: &Dim, bias: Option<&Type>, x: &Type) -> Result<(), TypeIssue> {
    let Some(bias) = bias else { return Ok(()) };
    let expected = Type { dtype: x.dtype, shape: vec![channels.clone()] };
    if *bias == expected {
        return Ok(());
    }
    let message = format!("the bias of `{op}` is {expected}, not {bias}");
    Err(TypeIssue::new(message).at(2, format!("this is {bias}")))
}

/// A number for each channel added to it.
pub fn with_bias(b: &mut Builder, y: Value, bias: Option<&Value>) -> Value {
    let Some(&bias) = bias else { return y };
    let shape = b.ty(y).shape.clone();
    let spread = b.broadcast_axes(bias, &[1], &shape);
    b.add(y, spread)
}

/// The gradient of that number.
pub fn bias_gradient(b: &mut Builder, g: Value) -> Value {
    let others: Vec<usize> = (0..b.ty(g).rank()).filter(|&axis| axis != 1).collect();
    b.sum(g, &others)
}

/// An axis of channels as groups and the channels of one.
fn grouped(b: &mut Builder, x: Value, axis: usize, groups: usize) -> Value {
    let mut extents = b.extents(x);
    let channels = extents[axis];
    extents.splice(axis..=axis, [groups, channels / groups]);
    b.reshape(x, &extents)
}

/// The weights `[groups, O / groups, C / groups, …]`, for each of `n` items.
fn for_items(b: &mut Builder, w: Value, groups: usize, n: usize) -> Value {
    let w = grouped(b, w, 0, groups);
    let axes: Vec<usize> = (1..=b.ty(w).rank()).collect();
    let shape: Vec<Dim> = [Dim::Fixed(n)].into_iter().chain(b.ty(w).shape.clone()).collect();
    b.broadcast_axes(w, &axes, &shape)
}

/// Axes of items and groups, which both operands have first.
const BATCH: [(usize, usize); 2] = [(0, 0), (1, 1)];

/// The product of windows with the weights of their channels: `[N, O, …]`.
pub fn convolved(b: &mut Builder, x: Value, w: Value, windows: &[Windows], groups: usize) -> Value {
    let (n, out) = (b.extents(x)[0], b.extents(w)[0]);
    let x = grouped(b, x, 1, groups);
    let x = unfolded(b, x, windows, 0.0);
    let w = for_items(b, w, groups, n);
    let of_windows = places(3, windows.len());
    let contracted = [(3, 2)].into_iter().chain((4..).zip(of_windows)).collect();
    let y = b.matmul(w, x, MatmulSpec::new(BATCH.to_vec(), contracted));
    let extents: Vec<usize> = [n, out].into_iter().chain(windows.iter().map(Windows::count)).collect();
    b.reshape(y, &extents)
}

/// The transposed convolution, which is the gradient of x for the gradient `g` of the result: `[N, C, …]`.
pub fn spread_back(b: &mut Builder, g: Value, w: Value, windows: &[Windows], groups: usize) -> Value {
    let n_items = b.extents(g)[0];
    let mut g = grouped(b, g, 1, groups);
    let mut of_axes = vec![];
    for (axis, &windows) in (3..).zip(windows) {
        // Phases of windows with holes would not be evenly spaced.
        let has_holes = windows.stride > 1 && windows.dilation > 1;
        of_axes.push(Windows { stride: if has_holes { 1 } else { windows.stride }, ..windows });
        g = if has_holes { spread(b, g, axis, windows.stride) } else { g };
    }
    let back = Back { g, w, windows: &of_axes, groups, n_items };
    let mut x = back.joined(b);
    for (axis, windows) in (LEAD..).zip(&of_axes) {
        let mut extents = b.extents(x);
        if windows.stride > 1 {
            extents.splice(axis..=axis + 1, [extents[axis] * extents[axis + 1]]);
            x = b.reshape(x, &extents);
        }
        if extents[axis] > windows.extent {
            extents[axis] = windows.extent;
            x = b.slice(x, &vec![0; extents.len()], &extents, &vec![1; extents.len()]);
        }
    }
    x
}

/// A transposed convolution. With a stride, each window reaches but every so many elements by one of its parts. Results that
/// the same parts reach are phases: a product of their own, without a zero between neighbours.
struct Back<'w> {
    /// `[N, groups, O / groups, …]`
    g: Value,
    /// `[O, C / groups, …]`
    w: Value,
    windows: &'w [Windows],
    groups: usize,
    n_items: usize,
}

impl Back<'_> {
    /// The results `[N, C, …]`: for an axis without a stride its elements, for another one the elements of a phase and the
    /// phases.
    fn joined(&self, b: &mut Builder) -> Value {
        let phases: Vec<Vec<Phases>> = self.windows.iter().map(Phases::of).collect();
        let n_phases: Vec<usize> = phases.iter().map(Vec::len).collect();
        let mut parts = vec![];
        for numbers in all_below(&n_phases) {
            let chosen: Vec<Phases> = phases.iter().zip(numbers).map(|(of_axis, i)| of_axis[i]).collect();
            parts.push((self.product(b, &chosen), chosen));
        }
        if let [(only, _)] = parts[..] { only } else { self.interleaved(b, &parts) }
    }

    /// All phases side by side. Each is repeated along the axes of phases, and the result selects by position: no element is
    /// looked for behind an end, which takes longer than all else where ends are a few elements apart.
    fn interleaved(&self, b: &mut Builder, parts: &[(Value, Vec<Phases>)]) -> Value {
        let (axes, n_phases): (Vec<usize>, Vec<usize>) = self.axes_of_phases().into_iter().unzip();
        let steps = dense_strides(&n_phases);
        let mut whole = b.ty(parts[0].0).clone();
        for (&axis, &n) in axes.iter().zip(&n_phases) {
            whole.shape[axis] = Dim::Fixed(n);
        }
        let mut position = None;
        for (&axis, &step) in axes.iter().zip(&steps) {
            let at = b.iota(axis, whole.with_dtype(DType::I32));
            position = Some(match position {
                None => b.map(&[at], |v| v[0] * step as f64),
                Some(before) => b.map(&[before, at], |v| v[0] + v[1] * step as f64),
            });
        }
        let all: Vec<usize> = (0..whole.rank()).collect();
        let mut y = None;
        for (part, chosen) in parts {
            let with_strides = self.windows.iter().zip(chosen).filter(|(windows, _)| windows.stride > 1);
            let of_axes: Vec<&Phases> = with_strides.map(|(_, phases)| phases).collect();
            for numbers in all_below(&of_axes.iter().map(|phases| phases.count).collect::<Vec<_>>()) {
                let (mut place, mut at) = (*part, 0);
                for (i, &number) in numbers.iter().enumerate() {
                    place = shifted(b, place, axes[i], -(number as i64), 1);
                    at += (of_axes[i].first + number) * steps[i];
                }
                let repeated = b.broadcast_axes(place, &all, &whole.shape);
                y = Some(match (y, position) {
                    (Some(others), Some(position)) => {
                        b.map(&[position, repeated, others], |v| E::select(v[0].eq(at as i64), v[1], v[2]))
                    }
                    _ => repeated,
                });
            }
        }
        y.unwrap_or(parts[0].0)
    }

    /// The axes of phases, with the number of phases of each.
    fn axes_of_phases(&self) -> Vec<(usize, usize)> {
        let with_strides = self.windows.iter().enumerate().filter(|(_, windows)| windows.stride > 1);
        let of_axis = |(n_before, (axis, windows)): (usize, (usize, &Windows))| {
            (LEAD + axis + n_before + 1, windows.stride.min(windows.extent))
        };
        with_strides.enumerate().map(of_axis).collect()
    }

    /// The product for some phases of each axis.
    fn product(&self, b: &mut Builder, chosen: &[Phases]) -> Value {
        let windows = || self.windows.iter().zip(chosen);
        let (mut g, mut back) = (self.g, vec![]);
        for (axis, (windows, phases)) in (3..).zip(windows()) {
            let dilation = if windows.stride > 1 { 1 } else { windows.dilation };
            let reach = phases.taps.saturating_sub(1) * dilation;
            let extent = windows.extent.div_ceil(windows.stride) + reach;
            g = shifted(b, g, axis, reach as i64 - phases.ahead as i64, extent);
            back.push(Windows { extent, size: phases.taps, stride: 1, dilation, padding: [0, 0] });
        }
        let (mut w, taps) = self.weights(b, chosen);
        let n_channels = b.extents(w)[1] * self.groups;
        let of_axis = |(windows, phases): (&Windows, &Phases)| {
            let n_elements = windows.extent.div_ceil(windows.stride);
            [n_elements].into_iter().chain((windows.stride > 1).then_some(phases.count))
        };
        let extents = [self.n_items, n_channels].into_iter().chain(windows().flat_map(of_axis));
        let extents: Vec<usize> = extents.collect();
        if chosen.iter().any(|phases| phases.taps == 0) {
            return b.full(Literal::Float(0.0), Type::new(b.dtype(g), &extents));
        }
        let mut g = unfolded(b, g, &back, 0.0);
        let of_windows = places(3, back.len());
        // Weights of phases are copied anyway. Reversed there, the product is a convolution like any other.
        match self.windows.iter().any(|windows| windows.stride > 1) {
            true => w = reversed(b, w, &taps),
            false => g = reversed(b, g, &of_windows),
        }
        let w = for_items(b, w, self.groups, self.n_items);
        let contracted = [(2, 2)].into_iter().chain(taps.into_iter().map(|tap| tap + 2).zip(of_windows));
        let x = b.matmul(w, g, MatmulSpec::new(BATCH.to_vec(), contracted.collect()));
        // Channels and phases come first, then elements.
        let n_phases = extents.len() - LEAD - back.len();
        let (mut phase, mut element) = (3.., 3 + n_phases..);
        let mut order = vec![0, 1, 2];
        for windows in self.windows {
            order.extend(element.next());
            order.extend(if windows.stride > 1 { phase.next() } else { None });
        }
        let x = b.permute(x, &order);
        b.reshape(x, &extents)
    }

    /// The weights of some phases, `[O, C / groups, …]`: for each axis the taps, and behind them the phases if it has a
    /// stride. Also the axes of the taps.
    fn weights(&self, b: &mut Builder, chosen: &[Phases]) -> (Value, Vec<usize>) {
        let (mut w, mut taps, mut axis) = (self.w, vec![], LEAD);
        for (windows, phases) in self.windows.iter().zip(chosen) {
            taps.push(axis);
            if windows.stride > 1 && phases.taps > 0 {
                let span = (phases.taps - 1) * windows.stride + phases.count;
                w = shifted(b, w, axis, -(phases.tap as i64), span);
                w = b.window(w, axis, phases.count, [windows.stride, 1]);
                axis += 1;
            }
            axis += 1;
        }
        (w, taps)
    }
}

/// All coordinates within extents, in order.
fn all_below(extents: &[usize]) -> Vec<Vec<usize>> {
    extents.iter().fold(vec![vec![]], |found, &n| {
        found.iter().flat_map(|found| (0..n).map(move |i| [&found[..], &[i]].concat())).collect()
    })
}

/// Neighbouring elements of every stride that taps a stride apart reach, the same number for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phases {
    /// The number of the first one.
    first: usize,
    count: usize,
    /// The first tap of the first phase; that of the next one is its neighbour.
    tap: usize,
    /// The number of taps of a phase.
    taps: usize,
    /// The window whose first tap reaches the first element.
    ahead: usize,
}

impl Phases {
    fn of(windows: &Windows) -> Vec<Phases> {
        let stride = windows.stride;
        let mut found: Vec<Phases> = vec![];
        for first in 0..stride.min(windows.extent) {
            let element = first + windows.padding[0];
            let (tap, ahead) = (element % stride, element / stride);
            let taps = windows.size.saturating_sub(tap).div_ceil(stride);
            match found.last_mut() {
                Some(last) if last.taps == taps && last.ahead == ahead => last.count += 1,
                _ => found.push(Phases { first, count: 1, tap, taps, ahead }),
            }
        }
        found
    }
}

/// Axes from their ends to their starts.
pub fn reversed(b: &mut Builder, x: Value, axes: &[usize]) -> Value {
    let extents = b.extents(x);
    let is_reversed = |axis: &usize| axes.contains(axis) && extents[*axis] > 0;
    let start: Vec<usize> =
        (0..extents.len()).map(|axis| if is_reversed(&axis) { extents[axis] - 1 } else { 0 }).collect();
    let step: Vec<i64> = (0..extents.len()).map(|axis| if is_reversed(&axis) { -1 } else { 1 }).collect();
    b.slice(x, &start, &extents, &step)
}

/// The gradient of the weights: products of windows with the gradients of their results, over all items and windows.
pub fn of_weights(b: &mut Builder, x: Value, g: Value, windows: &[Windows], groups: usize) -> Value {
    let (x, g) = (grouped(b, x, 1, groups), grouped(b, g, 1, groups));
    let x = unfolded(b, x, windows, 0.0);
    let counts = (0..windows.len()).map(|i| (3 + i, 3 + 2 * i));
    let contracted = [(0, 0)].into_iter().chain(counts).collect();
    let w = b.matmul(g, x, MatmulSpec::new(vec![(1, 1)], contracted));
    let mut extents = b.extents(w);
    extents.splice(..2, [extents[0] * extents[1]]);
    b.reshape(w, &extents)
}
