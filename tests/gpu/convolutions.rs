//! Convolutions and their gradients: as matmuls of windows, and by cuDNN where it is installed.

use super::*;
use engine::core::grad::differentiate;
use engine::runtime::autotune::Tuning;

/// The last two have two channels of the result for each one of the image.
const SETTINGS: [&[(&str, i64)]; 6] = [
    &[("padding", 1)],
    &[("padding", 1), ("stride", 2)],
    &[("dilation", 2)],
    &[("padding", 1), ("groups", 4)],
    &[("padding", 1), ("groups", 16)],
    &[("padding", 2), ("groups", 16), ("stride", 2), ("dilation", 2)],
];

/// A convolution of a rectified image, with the gradients of image and weights.
fn convolution(dtype: DType, settings: &[(&'static str, i64)]) -> Case {
    let registry = Engine::new().registry;
    let mut b = Builder::new(Graph::new("convolution"), &registry);
    let groups =
        settings.iter().find(|setting| setting.0 == "groups").map_or(1, |setting| setting.1 as usize);
    let x = data(&mut b, "x", dtype, &[4, 16, 22, 20]);
    let w = data(&mut b, "w", dtype, &[32, 16 / groups, 3, 3]);
    let attrs = settings.iter().fold(Attrs::default(), |attrs, &(name, value)| {
        attrs.with(
            name,
            if name == "groups" { Attr::Lit(Literal::Int(value)) } else { Attr::Ints(vec![value]) },
        )
    });
    let y = b.call("conv", &[x, w], attrs).unwrap()[0];
    let extents = b.extents(y);
    let g = data(&mut b, "g", dtype, &extents);
    let product = b.mul(y, g);
    let wide = b.cast(product, DType::F32);
    let total = b.sum(wide, &[0, 1, 2, 3]);
    let zero = b.full_like(y, 0.0);
    let relu = b.binary(Binary::Max, y, zero);
    b.graph.outputs = vec![("y".into(), relu), ("total".into(), total)];
    let mut found = differentiate(&b.graph, &registry, total, &[x, w]).unwrap();
    found.graph.outputs.truncate(1);
    let gradients = ["dx", "dw"].map(Into::into).into_iter().zip(found.grads);
    found.graph.outputs.extend(gradients);
    Case::of(found.graph.pruned())
}

/// Sums over channels and windows, channels of the result and windows, and items and places.
fn bounds(dtype: DType) -> [Closeness; 3] {
    [16 * 9, 32 * 9, 4 * 22 * 20].map(|n| Closeness::of_product(dtype, n))
}

#[test]
fn convolutions_and_their_gradients_agree() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for settings in SETTINGS {
            convolution(dtype, settings).check_within(gpus().iter(), &bounds(dtype));
        }
    }
}

/// Each of these variants is forced by a record of choices, wherever it is one.
#[test]
fn convolutions_agree_by_cudnn_and_without() {
    for gpu in gpus().iter().filter(|gpu| gpu.info().kind == DeviceKind::Cuda) {
        if !gpu.model().kernels.convolutions {
            eprintln!("skipped: there is no cuDNN");
            continue;
        }
        for (dtype, settings) in [DType::F32, DType::F16].into_iter().flat_map(|d| SETTINGS.map(|s| (d, s))) {
            let case = convolution(dtype, settings);
            case.run(&**gpu, true).unwrap();
            for variant in ["convolution", "library", "windows"] {
                let mut tuning = gpu.tuning().unwrap();
                let choices = tuning.choices.iter_mut().filter(|choice| choice.0.starts_with("variant of"));
                choices.for_each(|choice| *choice.1 = variant.to_string());
                let forced: Arc<dyn Device> = Arc::new(CudaDevice::new(0).unwrap());
                assert!(forced.adopt(&Tuning { ..tuning }));
                case.check_within([&forced].into_iter(), &bounds(dtype));
                let chosen = forced.tuning().unwrap().choices;
                let n_chosen = chosen.values().filter(|text| *text == variant).count();
                println!("{dtype} {settings:?}: {n_chosen} by {variant}, {chosen:?}");
                assert!(n_chosen > 0 || variant != "library", "{chosen:?}");
            }
        }
    }
}
