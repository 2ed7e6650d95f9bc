//! Attention of many queries and its gradient, which store no scores where the device has a kernel for them.

use super::*;
use engine::core::grad::differentiate;

/// Matrices, heads of keys, heads of queries that share one, queries, keys, and columns of keys and of values.
type Shape = [usize; 7];

/// Ragged tiles, shared heads, fewer queries than keys, and values narrower or wider than keys.
const SHAPES: [Shape; 4] = [
    [2, 1, 1, 128, 128, 64, 64],
    [2, 2, 1, 200, 300, 128, 96],
    [2, 1, 2, 128, 130, 96, 128],
    [2, 1, 1, 70, 131, 256, 160],
];

/// Queries, keys, values and, if there is one, a mask.
fn operands(b: &mut Builder, dtype: DType, shape: Shape, mask: Option<DType>) -> Vec<Value> {
    let [matrices, heads, shared, queries, keys, depth, width] = shape;
    let mut operands = vec![
        data(b, "q", dtype, &[matrices, heads * shared, queries, depth]),
        data(b, "k", dtype, &[matrices, heads, keys, depth]),
        data(b, "v", dtype, &[matrices, heads, keys, width]),
    ];
    operands.extend(mask.map(|mask| data(b, "mask", mask, &[queries, keys])));
    operands
}

fn attention(dtype: DType, shape: Shape, causal: bool) -> Case {
    Case::new(|b| {
        let operands = operands(b, dtype, shape, None);
        b.call("attention", &operands, Attrs::default().with("causal", Attr::from(causal))).unwrap()
    })
}

/// The gradients of the sum of squares of the result and of all logarithms.
fn gradients(shape: Shape, causal: bool, mask: Option<DType>) -> Case {
    let registry = Engine::new().registry;
    let mut b = Builder::new(Graph::new("case"), &registry);
    let operands = operands(&mut b, DType::F32, shape, mask);
    let attrs = Attrs::default().with("causal", Attr::from(causal));
    let [y, lse] = b.call("attention", &operands, attrs).unwrap()[..] else { panic!("two results") };
    let squares = b.mul(y, y);
    let [squares, logarithms] = [squares, lse].map(|x| {
        let rank = b.ty(x).rank();
        b.sum(x, &(0..rank).collect::<Vec<_>>())
    });
    let loss = b.add(squares, logarithms);
    b.graph.outputs = vec![("loss".into(), loss)];
    let found = differentiate(&b.graph, &registry, loss, &operands[..3]).unwrap();
    let names = ["dq", "dk", "dv"].into_iter().map(Symbol::from);
    Case::of(Graph { outputs: names.zip(found.grads).collect(), ..found.graph }.pruned())
}

#[test]
fn attention_of_many_queries_agrees() {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 2e-3), (DType::BF16, 1.6e-2)] {
        for (shape, causal) in SHAPES.into_iter().flat_map(|shape| [(shape, true), (shape, false)]) {
            attention(dtype, shape, causal).check(tolerance);
        }
    }
}

/// Rows whose keys are all hidden yield 0.
#[test]
fn attention_behind_masks_agrees() {
    for mask in [DType::Bool, DType::F32] {
        let mut case = Case::new(|b| {
            let operands = operands(b, DType::F32, [1, 2, 2, 70, 90, 24, 40], Some(mask));
            b.call("attention", &operands, Attrs::default()).unwrap()
        });
        let (seen, hidden) = if mask == DType::Bool { (1.0, 0.0) } else { (0.5, f64::NEG_INFINITY) };
        let values =
            noise(70 * 90, 9).enumerate().map(|(i, x)| if x > 0.6 && i / 90 != 7 { seen } else { hidden });
        case.inputs.insert("mask".into(), tensor(&Type::new(mask, &[70, 90]), values));
        case.check(1e-5);
    }
}

/// A softmax that is spelled out: rows of NaN alone, rows that are hidden, and rows with infinite scores.
#[test]
fn rows_without_numbers_agree() {
    let mut case = Case::new(|b| {
        let operands = operands(b, DType::F32, [1, 1, 1, 40, 64, 8, 8], Some(DType::F32));
        let by = |left, right| MatmulSpec::new(vec![(0, 0), (1, 1)], vec![(left, right)]);
        let scores = b.matmul(operands[0], operands[1], by(3, 3));
        let mask = b.reshape(operands[3], &[1, 1, 40, 64]);
        let scores = b.add(scores, mask);
        let peak = b.reduce(Monoid::Max, scores, &[3]);
        let wide = b.unreduce(peak, &[3], scores);
        let shifted = b.sub(scores, wide);
        let weights = b.unary(Unary::Exp, shifted);
        let total = b.sum(weights, &[3]);
        let wide = b.unreduce(total, &[3], weights);
        let weights = b.div(weights, wide);
        vec![b.matmul(weights, operands[2], by(3, 2)), peak, total]
    });
    let mask = noise(40 * 64, 3).enumerate().map(|(i, x)| match (i / 64, i % 64) {
        (3, _) => f64::NAN,
        (5, _) => f64::NEG_INFINITY,
        (7, 9) => f64::NAN,
        (11, 20) => f64::INFINITY,
        (13, column) if column > 30 => f64::NEG_INFINITY,
        _ => x,
    });
    case.inputs.insert("mask".into(), tensor(&Type::new(DType::F32, &[40, 64]), mask));
    case.check(1e-5);
}

#[test]
fn gradients_of_attention_agree() {
    let shapes = [[2, 2, 1, 150, 150, 40, 24], [1, 2, 2, 70, 131, 64, 64]];
    for (shape, causal) in shapes.into_iter().flat_map(|shape| [(shape, true), (shape, false)]) {
        gradients(shape, causal, None).check(1e-4);
    }
    gradients([1, 1, 1, 96, 130, 16, 16], false, Some(DType::F32)).check(1e-4);
    // Tiles without a ragged end, and values for half of the threads of a block.
    gradients([1, 1, 2, 64, 64, 64, 32], true, None).check(1e-4);
}

/// A device that runs attention in tiles has one kernel for it, and one for its gradient.
#[test]
fn attention_in_tiles_stores_no_scores() {
    let shape = [2, 2, 1, 512, 512, 64, 64];
    for gpu in gpus().iter().filter(|gpu| gpu.model().kernels.columns_in_tiles >= 64) {
        for (case, kind) in [
            (attention(DType::F32, shape, true), "attention"),
            (gradients(shape, true, None), "attention gradient"),
        ] {
            let plan = case.plan(&**gpu, true);
            let kinds: Vec<&str> = plan.kernels.iter().map(|kernel| kernel.kind()).collect();
            assert!(kinds.contains(&kind) && !kinds.contains(&"matmul"), "{kinds:?}");
            assert!(plan.buffers.iter().all(|buffer| buffer.ty.numel() < 512 * 512), "{kinds:?}");
        }
    }
}
