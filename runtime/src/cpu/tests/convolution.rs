//! Convolutions as implicit GEMMs, against the oracle.

use super::*;
use engine_core::fusion::KernelBody;
use proptest::prelude::*;

/// A convolution of images `[n, groups · channels, h, w]`.
#[derive(Clone, Debug)]
struct Convolution {
    n: usize,
    groups: usize,
    channels: usize,
    out: usize,
    image: [usize; 2],
    size: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
}

fn convolutions() -> impl Strategy<Value = Convolution> {
    let pair = |least: usize, most: usize| [least..=most, least..=most];
    let shape = (1..=3usize, 1..=3usize, 1..=4usize, 1..=9usize, pair(9, 40));
    (shape, pair(1, 4), pair(1, 3), pair(1, 2), pair(0, 3)).prop_map(
        |((n, groups, channels, out, image), size, stride, dilation, padding)| Convolution {
            n,
            groups,
            channels,
            out,
            image,
            size,
            stride,
            dilation,
            padding,
        },
    )
}

impl Convolution {
    /// The rounding of sums of numbers around 1: a partial sum of n of them is about √n, and √n roundings of it add up.
    fn tolerance(&self) -> f64 {
        let n_addends = self.n * self.image[0] * self.image[1];
        f64::from(f32::EPSILON) * n_addends as f64
    }

    /// The windows `[n, groups, channels, h, size, w, size]` of an image, and their numbers.
    fn windows(&self, b: &mut Builder, x: Value) -> (Value, [usize; 2]) {
        let border = [0, 0, 0, self.padding[0], self.padding[1]];
        let mut x = b.pad(x, &border, &border, Literal::Float(0.0));
        for axis in [1, 0] {
            x = b.window(x, 3 + axis, self.size[axis], [self.stride[axis], self.dilation[axis]]);
        }
        let extents = b.extents(x);
        (x, [extents[3], extents[5]])
    }

    /// The product with the weights, and with the gradients of the results: of an image and of the image backwards.
    fn graph(&self) -> Graph {
        let &Convolution { n, groups, channels, out, image: [h, w], size, .. } = self;
        graph(|b| {
            let given = f32s(b, "x", &[n, groups, channels, h, w]);
            let back = b.slice(given, &[0, 0, 0, h - 1, 0], &[n, groups, channels, h, w], &[1, 1, 1, -1, 1]);
            for (name, x) in [("y", given), ("y_back", back)] {
                let (x, [rows, columns]) = self.windows(b, x);
                let k = channels * size[0] * size[1];
                let weights = f32s(b, &format!("{name}.w"), &[n * groups, out, k]);
                let windows = b.permute(x, &[0, 1, 2, 4, 6, 3, 5]);
                let windows = b.reshape(windows, &[n * groups, k, rows * columns]);
                let by_k = MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]);
                let y = b.matmul(weights, windows, by_k.clone());
                let zero = b.full_like(y, 0.0);
                let y = b.binary(Binary::Max, y, zero);
                output(b, name, y);
                let g = f32s(b, &format!("{name}.g"), &[groups, out, n * rows * columns]);
                let windows = b.permute(x, &[1, 0, 3, 5, 2, 4, 6]);
                let windows = b.reshape(windows, &[groups, n * rows * columns, k]);
                let dw = b.matmul(g, windows, by_k);
                output(b, &format!("{name}.dw"), dw);
            }
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn products_of_windows_are_those_of_the_oracle(convolution in convolutions()) {
        check_given(&convolution.graph(), convolution.tolerance(), &[]);
    }
}

/// Windows are read where they lie: no kernel copies them.
#[test]
fn windows_are_no_tensor() {
    let convolution = Convolution {
        n: 2,
        groups: 2,
        channels: 3,
        out: 4,
        image: [20, 17],
        size: [3, 3],
        stride: [2, 1],
        dilation: [1, 2],
        padding: [1, 2],
    };
    let kernels = fuse(&convolution.graph(), true).kernels;
    let uneven = |body: &KernelBody| matches!(body, KernelBody::Matmul(body) if body.uneven[1].is_some());
    assert_eq!(kernels.iter().filter(|kernel| uneven(&kernel.body)).count(), 4);
    let windows = 2 * 2 * 3 * 9 * 10 * 17;
    assert!(kernels.iter().flat_map(|kernel| &kernel.operands).all(|operand| operand.ty.numel() < windows));
}
