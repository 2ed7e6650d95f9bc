//! Opaque kernels and matmul folds.

use super::*;
use engine_core::fusion::{Kernel, KernelBody};
use engine_core::op::kernel::{Elements, KernelCall, Share};
use engine_core::op::{
    Grad, GradCheck, InputSpec, KernelForm, Lower, OpForm, Role, Rounding, RowFold, RowReduction, TypeRule,
};

/// Whole numbers, whose sums and products are exact in f32; many are equal.
fn whole(name: &str, extents: &[usize]) -> Vec<f64> {
    let numbers = numbers(name, &ty(DType::F32, extents));
    numbers.into_iter().map(|x| (x * 3.0).round()).collect()
}

fn kernels(graph: &Graph) -> Vec<Kernel> {
    fuse(graph, true).kernels
}

/// `[batch, m, k] · [batch, k, n]`, the right operand transposed, then `2·x + bias` and a reduction by `monoid`.
fn product(
    monoid: Monoid,
    [batch, m, k, n]: [usize; 4],
    dtype: DType,
) -> (Graph, Vec<(&'static str, Vec<f64>)>) {
    let graph = graph(|b| {
        let x = data(b, "x", dtype, &[batch, m, k]);
        let w = data(b, "w", dtype, &[batch, n, k]);
        let bias = data(b, "bias", dtype, &[n]);
        let spec = MatmulSpec::new(vec![(0, 0)], vec![(2, 2)]);
        let y = b.matmul(x, w, spec);
        let y = b.scale(y, 2.0);
        let bias = b.broadcast_like(bias, y);
        let y = b.add(y, bias);
        let best = b.reduce(monoid, y, &[2]);
        output(b, "best", best);
    });
    let given = vec![
        ("x", whole("x", &[batch, m, k])),
        ("w", whole("w", &[batch, n, k])),
        ("bias", whole("bias", &[n])),
    ];
    (graph, given)
}

#[test]
fn extremes_of_a_product_are_a_matmul_fold() {
    let shapes = [[1, 1, 3, 256], [1, 100, 64, 4900], [3, 37, 16, 300], [1, 700, 33, 513], [2, 5, 0, 400]];
    for (i, shape) in shapes.into_iter().enumerate() {
        for monoid in [Monoid::ArgMax, Monoid::ArgMin, Monoid::Max, Monoid::Min] {
            let dtype = if i % 2 == 0 { DType::F32 } else { DType::F64 };
            let (graph, given) = product(monoid, shape, dtype);
            if shape[2] > 0 {
                let [kernel] = &kernels(&graph)[..] else { panic!("{shape:?} is several kernels") };
                let KernelBody::Matmul(body) = &kernel.body else { panic!("{}", kernel.kind()) };
                assert!(body.rows.is_some());
                assert_eq!(
                    kernel.bytes_written as usize,
                    shape[0] * shape[1] * kernel.operands.last().unwrap().ty.dtype.size()
                );
            }
            check_given(&graph, 0.0, &given);
        }
    }
}

#[test]
fn blocks_of_columns_of_a_product_are_reduced_in_tiles() {
    let shapes = [[1, 1, 3200, 256], [1, 70, 20, 1024], [2, 300, 9, 512], [1, 5, 3, 20480]];
    for [batch, m, k, n] in shapes {
        for (width, monoid) in [(16, Monoid::Min), (64, Monoid::Max), (128, Monoid::Sum), (128, Monoid::Min)]
        {
            let graph = graph(|b| {
                let x = data(b, "x", DType::F32, &[batch, m, k]);
                let w = data(b, "w", DType::F32, &[batch, n, k]);
                let bias = data(b, "bias", DType::F32, &[n]);
                let y = b.matmul(x, w, MatmulSpec::new(vec![(0, 0)], vec![(2, 2)]));
                let bias = b.broadcast_like(bias, y);
                let y = b.sub(y, bias);
                let y = b.reshape(y, &[batch, m, n / width, width]);
                let best = b.reduce(monoid, y, &[3]);
                output(b, "best", best);
            });
            let [kernel] = &kernels(&graph)[..] else { panic!("{m}x{n} by {width} is several kernels") };
            assert_eq!(kernel.bytes_written as usize, batch * m * n / width * 4);
            let given = vec![
                ("x", whole("x", &[batch, m, k])),
                ("w", whole("w", &[batch, n, k])),
                ("bias", whole("bias", &[n])),
            ];
            check_given(&graph, 0.0, &given);
        }
    }
}

#[test]
fn a_product_with_other_users_or_short_rows_is_stored() {
    let stored = |n: usize, is_output: bool| {
        let graph = graph(|b| {
            let (x, w) = (f32s(b, "x", &[30, 8]), f32s(b, "w", &[8, n]));
            let y = b.mm(x, w);
            let best = b.reduce(Monoid::Max, y, &[1]);
            output(b, "best", best);
            if is_output {
                output(b, "y", y);
            }
        });
        check_given(&graph, 1e-5, &[]);
        kernels(&graph).len() == 2
    };
    assert!(!stored(128, false));
    assert!(stored(127, false));
    assert!(stored(128, true));
}

#[test]
fn a_matmul_fold_has_side_sums() {
    let graph = graph(|b| {
        let (x, w) = (f32s(b, "x", &[50, 70]), f32s(b, "w", &[50, 300]));
        let y = b.matmul(x, w, MatmulSpec::new(vec![], vec![(0, 0)]));
        let best = b.reduce(Monoid::Max, y, &[1]);
        let bias = b.sum(w, &[0]);
        output(b, "best", best);
        output(b, "bias", bias);
    });
    assert_eq!(kernels(&graph).len(), 1);
    check_given(&graph, 1e-5, &[]);
}

/// A row reduction of the test's own: the sum of the whole numbers at even places.
struct EvenSum;

impl RowFold for EvenSum {
    fn state_words(&self) -> usize {
        1
    }

    fn init(&self, state: &mut [u64]) {
        state[0] = 0;
    }

    fn step(&self, state: &mut [u64], first: usize, piece: Elements) {
        let even = piece.get::<f32>().iter().zip(first..).filter(|(_, place)| place % 2 == 0);
        state[0] = state[0].wrapping_add_signed(even.map(|(&x, _)| x as i64).sum());
    }

    fn merge(&self, state: &mut [u64], later: &[u64]) {
        state[0] = state[0].wrapping_add(later[0]);
    }

    fn finish(&self, state: &mut [u64], results: &mut Share) {
        results.take::<f32>(0)[0] = state[0] as i64 as f32;
    }
}

fn even_sum(role: fn(RowReduction) -> Role) -> OpForm {
    let monoid = RowReduction::new(|_| Box::new(EvenSum));
    let oracle = |call: &KernelCall, args: &[&OracleTensor]| {
        let (n_rows, n) = call.rows();
        let sum = |row: usize| (0..n).step_by(2).map(|i| args[0].float(row * n + i)).sum();
        vec![OracleTensor::floats(DType::F32, &call.outputs[0].extents(), (0..n_rows).map(sum).collect())]
    };
    OpForm {
        name: "even_sum".into(),
        family: "test".into(),
        summary: "Adds up every other element of each row.".into(),
        inputs: vec![InputSpec::required("x", "rows")],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::custom(|inputs, _| {
            let rank = inputs[0].rank();
            Ok(vec![Type { dtype: DType::F32, shape: inputs[0].shape[..rank - 1].to_vec() }])
        }),
        lower: Lower::Kernel(KernelForm::of_rows(&monoid, Arc::new(oracle))),
        grad: Grad::None { why: "a test" },
        check: GradCheck::None { why: "a test" },
        examples: vec![],
        role: role(monoid),
        rounding: Rounding::Never,
    }
}

fn with_op(form: OpForm, build: impl FnOnce(&mut Builder)) -> Graph {
    let mut registry = Registry::new();
    registry.add(form);
    let mut builder = Builder::new(Graph::new("test"), &registry);
    build(&mut builder);
    primitives(&builder.graph.pruned(), &registry)
}

#[test]
fn an_opaque_kernel_runs_between_others() {
    for extents in [[3, 7], [100, 300], [2, 200_001], [0, 5], [4, 0]] {
        let graph = with_op(even_sum(|_| Role::Plain), |b| {
            let x = f32s(b, "x", &extents);
            let doubled = b.scale(x, 2.0);
            let y = b.call("even_sum", &[doubled], Attrs::default()).unwrap()[0];
            let z = b.scale(y, -1.0);
            // A reshaped input needs no copy.
            let flat = b.reshape(x, &[extents[0], 1, extents[1]]);
            let again = b.call("even_sum", &[flat], Attrs::default()).unwrap()[0];
            output(b, "z", z);
            output(b, "again", again);
        });
        if extents[0] * extents[1] > 0 {
            let kinds: Vec<&str> = kernels(&graph).iter().map(Kernel::kind).collect();
            assert_eq!(kinds, ["map", "kernel", "map", "kernel"]);
        }
        check_given(&graph, 0.0, &[("x", whole("x", &extents))]);
    }
}

#[test]
fn any_row_reduction_of_a_product_is_a_matmul_fold() {
    let build = |b: &mut Builder| {
        let (x, w) = (f32s(b, "x", &[90, 20]), f32s(b, "w", &[20, 3000]));
        let y = b.mm(x, w);
        let y = b.call("even_sum", &[y], Attrs::default()).unwrap()[0];
        output(b, "y", y);
    };
    let given = [("x", whole("x", &[90, 20])), ("w", whole("w", &[20, 3000]))];
    for (form, n_kernels) in [(even_sum(Role::RowReduction), 1), (even_sum(|_| Role::Plain), 2)] {
        let graph = with_op(form, build);
        assert_eq!(kernels(&graph).len(), n_kernels);
        check_given(&graph, 0.0, &given);
    }
}
