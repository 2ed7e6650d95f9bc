//! Matmuls, and a training step.

use super::*;
use engine_numerics::gemm::n_parts;

#[test]
fn matmuls_with_bias_and_activation() {
    for [m, n, k] in [[1, 1, 1], [128, 10, 256], [33, 300, 70], [130, 520, 40], [5, 7, 0]] {
        check(2e-5, |b| {
            let (x, w) = (f32s(b, "x", &[m, k]), f32s(b, "w", &[k, n]));
            let bias = f32s(b, "bias", &[n]);
            let y = b.mm(x, w);
            output(b, "bare", y);
            let z = b.add(y, bias);
            let zero = b.full_like(z, 0.0);
            let h = b.binary(Binary::Max, z, zero);
            output(b, "h", h);
        });
    }
}

#[test]
fn matmuls_of_every_layout_and_type() {
    let layouts = [(0, 1), (1, 0)];
    let types = [(DType::F32, 20), (DType::F64, 20), (DType::F16, 20), (DType::I32, 20)];
    // Pairs of bf16 are even or odd along the contracted axis.
    for (dtype, k) in types.into_iter().chain([(DType::BF16, 20), (DType::BF16, 21)]) {
        for (l, r) in layouts.into_iter().flat_map(|l| layouts.map(|r| (l, r))) {
            let tolerance = match dtype {
                DType::F16 => 2e-2,
                DType::BF16 => 1e-1,
                _ => 2e-5,
            };
            check(tolerance, |b| {
                let shape = |free: usize, at: usize| if at == 0 { [k, free] } else { [free, k] };
                let x = data(b, "x", dtype, &shape(30, l.0));
                let y = data(b, "y", dtype, &shape(40, r.0));
                let spec = MatmulSpec::new(vec![], vec![(l.0, r.0)]);
                let product = b.matmul(x, y, spec);
                let moved = b.add(product, product);
                output(b, "moved", moved);
            });
        }
    }
    check(2e-5, |b| {
        let (x, y) = (f32s(b, "x", &[3, 20, 30]), f32s(b, "y", &[3, 30, 8]));
        let spec = MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]);
        let product = b.matmul(x, y, spec);
        let half = b.scale(product, 0.5);
        output(b, "half", half);
    });
}

#[test]
fn a_bias_gradient_beside_its_weight_gradient() {
    let types = [(DType::F32, 2e-5), (DType::F16, 1e-2), (DType::BF16, 8e-2)];
    let shapes = [[128, 256, 784], [40, 10, 33]];
    for ([batch, n, m], (dtype, tolerance)) in
        shapes.into_iter().flat_map(|shape| types.map(|ty| (shape, ty)))
    {
        check(tolerance, |b| {
            let (x, g) = (data(b, "x", dtype, &[batch, m]), data(b, "g", dtype, &[batch, n]));
            let g = b.unary(Unary::Sin, g);
            output(b, "g", g);
            let dw = b.matmul(x, g, MatmulSpec::new(vec![], vec![(0, 0)]));
            let db = b.sum(g, &[0]);
            output(b, "dw", dw);
            output(b, "db", db);
        });
    }
}

/// Products of few elements and a long contraction are split, alone, beside a sum and with an epilogue.
#[test]
fn long_contractions_are_split() {
    for [m, n, k] in [[30, 40, 2100], [1, 300, 2100], [130, 70, 1024]] {
        assert!(n_parts(m, n, k) > 1, "{m} {n} {k}");
        for dtype in [DType::F32, DType::F64] {
            check(1e-4, |b| {
                let (x, d) = (data(b, "x", dtype, &[2, k, m]), data(b, "d", dtype, &[2, k, n]));
                let both = b.matmul(x, d, MatmulSpec::new(vec![(0, 0)], vec![(1, 1)]));
                let half = b.scale(both, 0.5);
                output(b, "half", half);
                let (x, d) = (data(b, "y", dtype, &[k, m]), data(b, "e", dtype, &[k, n]));
                let dw = b.matmul(x, d, MatmulSpec::new(vec![], vec![(0, 0)]));
                output(b, "dw", dw);
                let db = b.sum(d, &[0]);
                output(b, "db", db);
            });
        }
    }
}

/// A training step of a 784-256-10 network with momentum.
fn network_step(batch: usize) -> Graph {
    graph(|b| {
        let images = data(b, "images", DType::U8, &[1000, 784]);
        let labels = data(b, "labels", DType::U8, &[1000]);
        let shapes: [(&str, &[usize]); 4] =
            [("w1", &[784, 256]), ("b1", &[256]), ("w2", &[256, 10]), ("b2", &[10])];
        let params = shapes.map(|(name, shape)| b.input(name, InputKind::Param, ty(DType::F32, shape)));
        let [w1, b1, w2, b2] = params;
        let step = b.step();
        let at = b.scale(step, batch as f64);
        let i = b.iota(0, ty(DType::I32, &[batch]));
        let rows = b.add(at, i);
        let n_rows = b.full_like(rows, 1000.0);
        let rows = b.binary(Binary::Rem, rows, n_rows);
        let x = b.gather(images, rows, 0, 0);
        let x = b.cast(x, DType::F32);
        let x = b.scale(x, 1.0 / 255.0);
        let label = b.gather(labels, rows, 0, 0);
        let label = b.cast(label, DType::I32);
        let pre = b.mm(x, w1);
        let pre = b.add(pre, b1);
        let zero = b.full_like(pre, 0.0);
        let h = b.binary(Binary::Max, pre, zero);
        let logits = b.mm(h, w2);
        let logits = b.add(logits, b2);
        let p = softmax(b, logits, 1);
        let classes = b.iota(1, ty(DType::I32, &[batch, 10]));
        let label_b = b.broadcast_axes(label, &[0], &[batch.into(), 10usize.into()]);
        let hit = b.binary(Binary::Eq, classes, label_b);
        let hit = b.cast(hit, DType::F32);
        let log = b.unary(Unary::Log, p);
        let nll = b.mul(log, hit);
        let loss = b.sum(nll, &[0, 1]);
        output(b, "loss", loss);
        let d = b.sub(p, hit);
        let d = b.scale(d, 1.0 / batch as f64);
        let contracted = |l, r| MatmulSpec::new(vec![], vec![(l, r)]);
        let db2 = b.sum(d, &[0]);
        let dw2 = b.matmul(h, d, contracted(0, 0));
        let dh = b.matmul(d, w2, contracted(1, 1));
        let mask = b.binary(Binary::Gt, h, zero);
        let dh = b.scalar(Scalar::Select, &[mask, dh, zero]);
        let db1 = b.sum(dh, &[0]);
        let dw1 = b.matmul(x, dh, contracted(0, 0));
        for ((param, grad), (name, shape)) in params.into_iter().zip([dw1, db1, dw2, db2]).zip(shapes) {
            let moment = b.input(&format!("{name}.m"), InputKind::State, ty(DType::F32, shape));
            let m = b.scale(moment, 0.9);
            let m = b.add(m, grad);
            let delta = b.scale(m, 0.01);
            let next = b.sub(param, delta);
            b.graph.state.push(StateLink { input: param.node, next });
            b.graph.state.push(StateLink { input: moment.node, next: m });
        }
    })
}

#[test]
fn a_training_step_of_a_network() {
    let weights =
        |n: usize, scale: f64| numbers("w", &ty(DType::F32, &[n])).iter().map(|w| w * scale).collect();
    let given = [("w1", weights(784 * 256, 0.03)), ("w2", weights(2560, 0.05))];
    check_given(&network_step(32), 2e-4, &given);
}
