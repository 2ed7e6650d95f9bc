//! Transposed convolutions and gradients of images, of random strides, windows, holes and borders, beside their definition.

use super::defects::{assert_near, found};

/// Numbers that look random, from 0 on and below `n`.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn many(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.below(9) as f64 - 4.0).collect()
    }
}

/// One axis of a convolution.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    size: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

impl Axis {
    fn drawn(numbers: &mut Numbers) -> Axis {
        let (size, stride) = (1 + numbers.below(5), 1 + numbers.below(4));
        let dilation = if numbers.below(4) == 0 { 2 } else { 1 };
        let padding = numbers.below(size);
        let reach = (size - 1) * dilation + 1;
        Axis {
            extent: reach.saturating_sub(2 * padding).max(1) + numbers.below(9),
            size,
            stride,
            dilation,
            padding,
        }
    }

    fn count(&self) -> usize {
        (self.extent + 2 * self.padding - (self.size - 1) * self.dilation - 1) / self.stride + 1
    }

    /// The element that a part of a window lies on.
    fn element(&self, window: usize, part: usize) -> Option<usize> {
        let element = (window * self.stride + part * self.dilation).checked_sub(self.padding)?;
        (element < self.extent).then_some(element)
    }
}

/// `Σ g[o, window]·w[o, c, part]` at the elements `[c, …]` that the parts lie on.
fn spread_back(
    [rows, columns]: [Axis; 2],
    [n_outputs, n_channels]: [usize; 2],
    g: &[f64],
    w: &[f64],
) -> Vec<f64> {
    let mut x = vec![0.0; n_channels * rows.extent * columns.extent];
    let mut add = |o: usize, c: usize, [i, j]: [usize; 2], [p, q]: [usize; 2]| {
        let (Some(row), Some(column)) = (rows.element(i, p), columns.element(j, q)) else { return };
        let g = g[(o * rows.count() + i) * columns.count() + j];
        let w = w[((o * n_channels + c) * rows.size + p) * columns.size + q];
        x[(c * rows.extent + row) * columns.extent + column] += g * w;
    };
    for (o, c) in (0..n_outputs).flat_map(|o| (0..n_channels).map(move |c| (o, c))) {
        for (i, j) in (0..rows.count()).flat_map(|i| (0..columns.count()).map(move |j| (i, j))) {
            for (p, q) in (0..rows.size).flat_map(|p| (0..columns.size).map(move |q| (p, q))) {
                add(o, c, [i, j], [p, q]);
            }
        }
    }
    x
}

#[test]
fn results_of_any_stride_follow_the_definition() {
    let mut numbers = Numbers(7);
    let text = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    for _ in 0..60 {
        let axes @ [rows, columns] = [0; 2].map(|_| Axis::drawn(&mut numbers));
        let channels @ [n_outputs, n_channels] = [0; 2].map(|_| 1 + numbers.below(3));
        let w = numbers.many(n_outputs * n_channels * rows.size * columns.size);
        let x = numbers.many(n_channels * rows.extent * columns.extent);
        let of_image = text(format!("f32[1, {n_channels}, {}, {}]", rows.extent, columns.extent));
        let of_weights = text(format!("f32[{n_outputs}, {n_channels}, {}, {}]", rows.size, columns.size));
        let of_result = text(format!("f32[1, {n_outputs}, {}, {}]", rows.count(), columns.count()));
        let lists = [("stride", axes.map(|axis| axis.stride)), ("dilation", axes.map(|axis| axis.dilation))];
        let lists = lists.map(|(name, [a, b])| format!("{name}=[{a}, {b}]")).join(", ");
        let settings = format!("{lists}, padding=[{}, {}]", rows.padding, columns.padding);

        let call = text(format!("conv(a, b, {settings})"));
        let image = found(call, &[(of_image, &x), (of_weights, &w)], &[of_result]).expect(call);
        let g: Vec<f64> = (0..n_outputs * rows.count() * columns.count()).map(|i| (i + 1) as f64).collect();
        assert_near(&image["d_a"], &spread_back(axes, channels, &g, &w));

        let extra = axes
            .map(|axis| (axis.extent + 2 * axis.padding - (axis.size - 1) * axis.dilation - 1) % axis.stride);
        let call = text(format!("conv_transpose(a, b, {settings}, extra=[{}, {}])", extra[0], extra[1]));
        let g = numbers.many(g.len());
        let result = found(call, &[(of_result, &g), (of_weights, &w)], &[of_image]).expect(call);
        assert_near(&result["y0"], &spread_back(axes, channels, &g, &w));
    }
}
