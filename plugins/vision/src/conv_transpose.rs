//! Transposed convolution.

use crate::conv::{
    bias_gradient, convolved, expect_bias, expect_divided, groups, of_weights, sizes, spread_back, with_bias,
};
use crate::windows::{Windows, list, paddings, per_axis, settings, spatial};
use engine_core::ir::{Attrs, Dim, Type};
use engine_core::op::{Grad, OpForm, TypeIssue, checked};

/// The gradient of [`conv`](crate::conv) for its operand, as an op: each element adds a window of weights to the result.
/// A spatial axis of extent n becomes `(n - 1)·stride - padding + (size - 1)·dilation + 1 + extra`.
pub fn conv_transpose() -> OpForm {
    OpForm::new(
        "conv_transpose",
        "Adds a trained window to the result for each element, as the gradient of a convolution.",
    )
    .rounds_operands()
    .input("x", "[N, O, …], one to three spatial axes")
    .input("w", "[O, C / groups, …], as of the convolution from C to O channels")
    .optional("bias", "[C]")
    .attrs(settings())
    .attr(list("extra", "elements added behind, a number or one for each axis", 0))
    .attr(groups())
    .types(|types, attrs| {
        let windows = backwards(&types[0], &types[1], attrs)?;
        let (x, w) = (&types[0], &types[1]);
        let n_groups = Dim::Fixed(attrs.int("groups") as usize);
        let op = "conv_transpose";
        if w.shape[0] != x.shape[1] {
            let message = format!("`{op}` has weights for {} channels, and x has {}", w.shape[0], x.shape[1]);
            return Err(TypeIssue::new(message).at(0, format!("this is {x}")));
        }
        expect_divided(op, &w.shape[0], attrs)?;
        let channels = w.shape[1].times(&n_groups).unwrap_or_else(|| w.shape[1].clone());
        expect_bias(op, &channels, types.get(2), x)?;
        let spatial = windows.iter().map(|windows| Dim::Fixed(windows.extent));
        let shape = [x.shape[0].clone(), channels].into_iter().chain(spatial).collect();
        Ok(vec![Type { dtype: x.dtype, shape }])
    })
    .expand(|b, call| {
        let (x, w) = (call.inputs[0], call.inputs[1]);
        let windows = checked(backwards(b.ty(x), b.ty(w), call.attrs));
        let y = spread_back(b, x, w, &windows, call.attrs.int("groups") as usize);
        vec![with_bias(b, y, call.inputs.get(2))]
    })
    .grad(Grad::rule(|b, call| {
        let (x, w, Some(g)) = (call.inputs[0], call.inputs[1], call.grads[0]) else {
            return vec![None; call.inputs.len()];
        };
        let windows = checked(backwards(b.ty(x), b.ty(w), call.attrs));
        let groups = call.attrs.int("groups") as usize;
        let dx = convolved(b, g, w, &windows, groups);
        let dw = of_weights(b, g, x, &windows, groups);
        let bias = call.inputs.get(2).map(|_| bias_gradient(b, g));
        [dx, dw].into_iter().chain(bias).map(Some).collect()
    }))
    .example(
        "a signal",
        "conv_transpose(a, b, stride=2)",
        &[("f32[1, 1, 2]", &[1., 2.]), ("f32[1, 1, 3]", &[1., 10., 100.])],
        &[("f32[1, 1, 5]", &[1., 10., 102., 20., 200.])],
    )
    .example(
        "an image without its border",
        "conv_transpose(a, b, stride=2, padding=1, extra=1)",
        &[("f32[1, 1, 2, 2]", &[1., 2., 3., 4.]), ("f32[1, 1, 2, 2]", &[1., 1., 1., 1.])],
        &[("f32[1, 1, 3, 3]", &[1., 2., 2., 3., 4., 4., 3., 4., 4.])],
    )
}

/// The windows of the convolution whose gradient this is; their extents are those of the result.
fn backwards(x: &Type, w: &Type, attrs: &Attrs) -> Result<Vec<Windows>, TypeIssue> {
    let op = "conv_transpose";
    let sizes = sizes(op, x, w)?;
    let n = sizes.len();
    let [stride, dilation] = [per_axis(attrs, "stride", n, 1)?, per_axis(attrs, "dilation", n, 1)?];
    let (padding, extra) = (paddings(attrs, n)?, per_axis(attrs, "extra", n, 0)?);
    let counts = spatial(op, x, n)?;
    (0..n)
        .map(|i| {
            let padding = padding[i];
            let windows =
                Windows { extent: 0, size: sizes[i], stride: stride[i], dilation: dilation[i], padding };
            let grown = counts[i]
                .checked_sub(1)
                .filter(|_| sizes[i] > 0)
                .map(|rest| rest * stride[i] + windows.reach());
            let extent = grown.and_then(|grown| (grown + extra[i]).checked_sub(padding[0] + padding[1]));
            let windows = Windows { extent: extent.unwrap_or(0), ..windows };
            // Elements behind the last window would get nothing from it in the convolution.
            match extent.filter(|&extent| extent > 0 && windows.count() == counts[i]) {
                Some(_) => Ok(windows),
                None => Err(TypeIssue::new(format!("`{op}` of {x} has no extent on axis {}", i + 2))
                    .at(0, format!("this is {x}"))
                    .help("`extra` is below the stride, and `padding` leaves a part of the result")),
            }
        })
        .collect()
}
