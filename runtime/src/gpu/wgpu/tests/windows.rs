//! Matmuls of windows: without a library of convolutions, the windows are copied to the workspace.

use super::limits::outputs;
use super::*;
use engine_core::fusion::KernelBody;

/// A convolution of 3 x 3 in two groups, and its gradients for a given gradient of the result.
fn convolutions(b: &mut Builder) -> Vec<Value> {
    let [n, groups, channels, out, extent] = [2, 2, 3, 5, 12];
    let input = |b: &mut Builder, name: &str, extents: &[usize]| {
        b.input(name, InputKind::Data, Type::new(DType::F32, extents))
    };
    let places = extent - 2;
    let image = input(b, "image", &[n, groups, channels, extent, extent]);
    let weights = input(b, "weights", &[groups, out, channels, 3, 3]);
    let gradient = input(b, "gradient", &[n, groups, out, extent + 2, extent + 2]);
    let windows = |b: &mut Builder, x: Value| {
        let rows = b.window(x, 3, 3, [1, 1]);
        b.window(rows, 5, 3, [1, 1])
    };
    let by_k = MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]);
    // The result.
    let of_image = windows(b, image);
    let columns = b.permute(of_image, &[0, 1, 2, 4, 6, 3, 5]);
    let columns = b.reshape(columns, &[n * groups, channels * 9, places * places]);
    let for_items = |b: &mut Builder, x: Value| {
        let (axes, extents) = (Vec::from_iter(1..6), [vec![n], b.extents(x)].concat());
        let shape: Vec<Dim> = extents.into_iter().map(Dim::Fixed).collect();
        b.broadcast_axes(x, &axes, &shape)
    };
    let rows = for_items(b, weights);
    let rows = b.reshape(rows, &[n * groups, out, channels * 9]);
    let result = b.matmul(rows, columns, by_k.clone());
    let zero = b.full_like(result, 0.0);
    let result = b.binary(Binary::Max, result, zero);
    // The gradient of an image, from windows that run backwards.
    let of_gradient = windows(b, gradient);
    let ends = [0, 0, 0, 0, 2, 0, 2];
    let shape = b.extents(of_gradient);
    let of_gradient = b.slice(of_gradient, &ends, &shape, &[1, 1, 1, 1, -1, 1, -1]);
    let columns = b.permute(of_gradient, &[0, 1, 2, 4, 6, 3, 5]);
    let columns = b.reshape(columns, &[n * groups, out * 9, extent * extent]);
    let rows = for_items(b, weights);
    let rows = b.permute(rows, &[0, 1, 3, 2, 4, 5]);
    let rows = b.reshape(rows, &[n * groups, channels, out * 9]);
    let of_images = b.matmul(rows, columns, by_k.clone());
    // The gradient of the weights.
    let inside = [n, groups, out, places, places];
    let rows = b.slice(gradient, &[0; 5], &inside, &[1; 5]);
    let rows = b.permute(rows, &[1, 2, 0, 3, 4]);
    let rows = b.reshape(rows, &[groups, out, n * places * places]);
    let columns = b.permute(of_image, &[1, 0, 3, 5, 2, 4, 6]);
    let columns = b.reshape(columns, &[groups, n * places * places, channels * 9]);
    let of_weights = b.matmul(rows, columns, by_k);
    vec![result, of_images, of_weights]
}

#[test]
fn windows_are_copied_to_the_workspace() {
    let Some(gpu) = gpu() else { return };
    let cpu = CpuDevice::new(Some(1)).unwrap();
    let mut model = gpu.model();
    model.kernels.convolutions = true;
    let [plan, on_cpu] = [model, cpu.model()].map(|device| planned(&device, convolutions));
    let uneven = |body: &KernelBody| matches!(body, KernelBody::Matmul(body) if body.uneven != [None, None]);
    assert_eq!(plan.kernels.iter().filter(|kernel| uneven(&kernel.body)).count(), 3);
    for (found, expected) in outputs(&gpu, &plan).iter().zip(&outputs(&cpu, &on_cpu)) {
        // Sums of small integers are exact.
        assert_eq!(found, expected);
        assert!(expected.iter().any(|&x| x != 0.0));
    }
}
