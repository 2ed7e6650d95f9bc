//! Convolution.

use crate::windows::{LEAD, Windows, places, settings, shifted, spread, unfolded, windows};
use engine_core::ir::{Attrs, Builder, Dim, MatmulSpec, Type, Value};
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
    let (n, channels) = (b.extents(g)[0], b.extents(w)[1] * groups);
    let mut g = grouped(b, g, 1, groups);
    let mut back = vec![];
    for (axis, windows) in (3..).zip(windows) {
        let reach = windows.reach() - 1;
        g = spread(b, g, axis, windows.stride);
        g = shifted(b, g, axis, reach as i64 - windows.padding[0] as i64, windows.extent + reach);
        back.push(Windows { extent: windows.extent + reach, stride: 1, padding: [0, 0], ..*windows });
    }
    let g = unfolded(b, g, &back, 0.0);
    let of_windows = places(3, windows.len());
    let g = reversed(b, g, &of_windows);
    let w = for_items(b, w, groups, n);
    let contracted = [(2, 2)].into_iter().chain((4..).zip(of_windows)).collect();
    let x = b.matmul(w, g, MatmulSpec::new(BATCH.to_vec(), contracted));
    let extents = [n, channels].into_iter().chain(windows.iter().map(|windows| windows.extent));
    b.reshape(x, &extents.collect::<Vec<_>>())
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
