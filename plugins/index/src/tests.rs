//! Tests of every form, PyTorch's and NumPy's numbers, and known pitfalls of indexing.
#![allow(clippy::unwrap_used)]

use crate::Index;
use engine_core::grad::differentiate;
use engine_core::ir::{Builder, Value};
use engine_core::op::{Example, Registry};
use engine_core::oracle::Oracle;
use engine_core::testing;
use engine_order::Order;

type Tensor = (&'static str, Vec<f64>);

#[test]
fn examples_gradients_and_recorded_cases_hold() {
    testing::assert_families(&[&Order, &Index], include_str!("../../../tests/examples/index.json"));
}

fn registry() -> Registry {
    testing::registry(&[&Order, &Index])
}

fn example(call: &'static str, inputs: &[Tensor], outputs: &[Tensor]) -> Example {
    Example { title: "a test", call, inputs: inputs.to_vec(), outputs: outputs.to_vec() }
}

fn assert_gives(call: &'static str, inputs: &[Tensor], output: Tensor) {
    assert_eq!(testing::check(&example(call, inputs, &[output]), &registry()), Ok(()));
}

fn error_of(call: &'static str, inputs: &[Tensor], output: &'static str, n: usize) -> String {
    testing::check(&example(call, inputs, &[(output, vec![0.0; n])]), &registry()).unwrap_err()
}

/// The gradient of the sum of a result with respect to the first operand.
fn gradient_of_sum(call: &'static str, inputs: &[Tensor], output: Tensor) -> Vec<f64> {
    let registry = registry();
    let case = testing::case(&example(call, inputs, &[output]), &registry).unwrap();
    let mut b = Builder::new(case.graph.clone(), &registry);
    let y = case.graph.outputs[0].1;
    let axes: Vec<usize> = (0..b.ty(y).rank()).collect();
    let total = b.sum(y, &axes);
    let first = Value::of(case.graph.find("a").unwrap().node);
    let done = differentiate(&b.graph, &registry, total, &[first]).unwrap();
    let mut graph = done.graph;
    graph.outputs = vec![("gradient".into(), done.grads[0])];
    Oracle::new(&registry).run(&graph, &case.inputs, 0, 0).unwrap().outputs[0].to_f64()
}

/// `0, 1, 2, …`
fn counted(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64).collect()
}

/// Numbers without a pattern that 16-bit floats represent exactly.
fn scattered(n: usize, most: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + 13) % most) as f64).collect()
}

/// Where numbers meet: the element, and the update. The base is `[0, -0, 1.5, NaN, -0, 7, -3, 2]`.
const MEETING: [(f64, f64); 14] = [
    (6., -0.0),
    (1., 0.0),
    (0., -0.0),
    (4., f64::NAN),
    (2., -0.0),
    (7., 2.),
    (6., 0.0),
    (3., 5.),
    (1., -0.0),
    (2., 0.0),
    (4., 2.),
    (7., 2.),
    (6., -0.0),
    (0., -1.),
];

fn meeting() -> [Tensor; 3] {
    let (at, updates) = MEETING.into_iter().unzip();
    let base = vec![0.0, -0.0, 1.5, f64::NAN, -0.0, 7., -3., 2.];
    [("f32[8]", base), ("i32[14]", at), ("f32[14]", updates)]
}

#[test]
fn extremes_of_equal_numbers_are_the_base_or_the_last_update() {
    let registry = registry();
    let spelled = |call: &'static str| {
        let case = testing::case(&example(call, &meeting(), &[("f32[8]", vec![0.0; 8])]), &registry).unwrap();
        let run = Oracle::rounded(&registry).run(&case.graph, &case.inputs, 0, 0).unwrap();
        run.outputs[0].to_f64().iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(spelled("scatter_reduce(a, b, c, reduce=\"amax\")"), "0 -0 1.5 NaN NaN 7 -0 2");
    assert_eq!(spelled("scatter_reduce(a, b, c, reduce=\"amin\")"), "-1 -0 0 NaN NaN 7 -3 2");
    let alone = "scatter_reduce(a, b, c, reduce=\"amax\", include_self=false)";
    assert_eq!(spelled(alone), "-0 -0 0 5 NaN 7 -0 2");
    let alone = "scatter_reduce(a, b, c, reduce=\"amin\", include_self=false)";
    assert_eq!(spelled(alone), "-1 -0 0 5 NaN 7 -0 2");
}

/// The base's shares; an extreme that is NaN has none.
#[test]
fn gradients_of_extremes_are_split_over_equal_numbers() {
    let shares = |call| gradient_of_sum(call, &meeting(), ("f32[8]", vec![0.0; 8]));
    let largest = [0.5, 1. / 3., 1., 0., 0., 1., 0., 1. / 3.];
    assert_eq!(shares("scatter_reduce(a, b, c, reduce=\"amax\")"), largest);
    assert_eq!(
        shares("scatter_reduce(a, b, c, reduce=\"amin\")"),
        [0., 1. / 3., 0., 0., 0., 1., 1., 1. / 3.]
    );
    let of_updates = "scatter_reduce(c, b, a, reduce=\"amax\")";
    let [base, at, updates] = meeting();
    let swapped = [updates, at, base];
    let shares = gradient_of_sum(of_updates, &swapped, ("f32[8]", vec![0.0; 8]));
    let third = 1. / 3.;
    assert_eq!(shares, [third, third, 0.5, 0., 0., third, third, 0., third, 0., 0., third, third, 0.]);
}

// ---- The named cases of gather and scatter_add.

#[test]
fn gather_1d_simple() {
    let x = ("f32[5]", vec![10., 20., 30., 40., 50.]);
    assert_gives("gather(a, b)", &[x.clone(), ("i64[3]", vec![0., 2., 4.])], ("f32[3]", vec![10., 30., 50.]));
    assert_gives("index_select(a, b)", &[x, ("i64[3]", vec![0., 2., 4.])], ("f32[3]", vec![10., 30., 50.]));
}

#[test]
fn gather_2d() {
    let inputs = [("f32[4, 3]", counted(12)), ("i64[2]", vec![3., 1.])];
    assert_gives("index_select(a, b)", &inputs, ("f32[2, 3]", vec![9., 10., 11., 3., 4., 5.]));
}

#[test]
fn gather_3d() {
    let inputs = [("f32[2, 3, 2]", counted(12)), ("i64[2, 2]", vec![2., 0., 1., 1.])];
    assert_gives("batch_gather(a, b)", &inputs, ("f32[2, 2, 2]", vec![4., 5., 0., 1., 8., 9., 8., 9.]));
}

#[test]
fn gather_fp16() {
    let inputs = [("f16[4, 2]", counted(8)), ("i64[2]", vec![3., 0.])];
    assert_gives("index_select(a, b)", &inputs, ("f16[2, 2]", vec![6., 7., 0., 1.]));
}

#[test]
fn gather_bf16() {
    let inputs = [("bf16[4, 2]", counted(8)), ("i64[2]", vec![3., 0.])];
    assert_gives("index_select(a, b)", &inputs, ("bf16[2, 2]", vec![6., 7., 0., 1.]));
}

#[test]
fn gather_large() {
    let (x, idx) = (scattered(1024 * 256, 100_003), scattered(128, 1024));
    let rows = idx.iter().flat_map(|&i| x[i as usize * 256..][..256].to_vec()).collect();
    assert_gives("index_select(a, b)", &[("f32[1024, 256]", x), ("i64[128]", idx)], ("f32[128, 256]", rows));
}

#[test]
fn scatter_add_simple() {
    let inputs = [
        ("f32[4, 2]", vec![0.; 8]),
        ("i64[3]", vec![0., 2., 3.]),
        ("f32[3, 2]", vec![1., 2., 3., 4., 5., 6.]),
    ];
    assert_gives("scatter_add(a, b, c)", &inputs, ("f32[4, 2]", vec![1., 2., 0., 0., 3., 4., 5., 6.]));
}

#[test]
fn scatter_add_accumulate() {
    let inputs = [("f32[3]", vec![0.; 3]), ("i64[5]", vec![0., 0., 1., 0., 2.]), ("f32[5]", vec![1.; 5])];
    assert_gives("scatter_add(a, b, c)", &inputs, ("f32[3]", vec![3., 1., 1.]));
}

#[test]
fn scatter_add_values() {
    let inputs =
        [("f32[3]", vec![10., 20., 30.]), ("i64[4]", vec![2., 0., 2., 1.]), ("f32[4]", vec![1., 2., 3., 4.])];
    assert_gives("scatter_add(a, b, c)", &inputs, ("f32[3]", vec![12., 24., 34.]));
}

/// Sums are kept in f32: 2048 and two ones are 2050, not 2048.
#[test]
fn scatter_add_fp16() {
    let inputs = [("f16[2]", vec![2048., 0.]), ("i64[2]", vec![0., 0.]), ("f16[2]", vec![1., 1.])];
    assert_gives("scatter_add(a, b, c)", &inputs, ("f16[2]", vec![2050., 0.]));
}

#[test]
fn scatter_add_large() {
    let (updates, idx) = (scattered(512 * 8, 1009), scattered(512, 1024));
    let mut sums = vec![0.0; 1024 * 8];
    for (row, &i) in idx.iter().enumerate() {
        (0..8).for_each(|j| sums[i as usize * 8 + j] += updates[row * 8 + j]);
    }
    let inputs = [("f32[1024, 8]", vec![0.; 1024 * 8]), ("i64[512]", idx), ("f32[512, 8]", updates)];
    assert_gives("scatter_add(a, b, c)", &inputs, ("f32[1024, 8]", sums));
}

#[test]
fn gather_backward() {
    let inputs = [("f32[4, 2]", counted(8)), ("i64[2]", vec![3., 1.])];
    let grad = gradient_of_sum("gather_with_grad(a, b)", &inputs, ("f32[2, 2]", vec![0.; 4]));
    assert_eq!(grad, [0., 0., 1., 1., 0., 0., 1., 1.]);
}

#[test]
fn gather_backward_duplicate_idx() {
    let inputs = [("f32[6]", counted(6)), ("i64[5]", vec![0., 0., 3., 3., 5.])];
    let grad = gradient_of_sum("gather_with_grad(a, b)", &inputs, ("f32[5]", vec![0.; 5]));
    assert_eq!(grad, [2., 0., 0., 2., 0., 1.]);
}

#[test]
fn gather_single_element() {
    assert_gives("index_select(a, b)", &[("f32[5]", counted(5)), ("i64[1]", vec![3.])], ("f32[1]", vec![3.]));
}

#[test]
fn scatter_add_empty() {
    let inputs = [("f32[3]", counted(3)), ("i64[0]", vec![]), ("f32[0]", vec![])];
    assert_gives("scatter_add(a, b, c)", &inputs, ("f32[3]", counted(3)));
    assert_gives("scatter(a, b, c)", &inputs, ("f32[3]", counted(3)));
}

#[test]
fn gather_int32_index() {
    let inputs = [("f32[4, 3]", counted(12)), ("i32[2]", vec![0., 3.])];
    assert_gives("index_select(a, b)", &inputs, ("f32[2, 3]", vec![0., 1., 2., 9., 10., 11.]));
}

// ---- Common errors of other implementations.

/// An index at the end, or before the beginning, is never read.
#[test]
fn indices_out_of_range_are_errors_everywhere() {
    for (bad, said) in [(3.0, "index 3"), (-1.0, "index -1")] {
        let x = ("f32[3, 3]", counted(9));
        for (call, inputs, output, n) in [
            ("index_select(a, b)", vec![x.clone(), ("i32[1]", vec![bad])], "f32[1, 3]", 3),
            ("gather(a, b)", vec![x.clone(), ("i32[3, 1]", vec![0., 0., bad])], "f32[3, 1]", 3),
            ("batch_gather(a, b)", vec![x.clone(), ("i32[3, 1]", vec![bad, 0., 0.])], "f32[3, 1]", 3),
            ("multi_index_gather(a, b)", vec![x.clone(), ("i32[3, 1]", vec![bad, 0., 0.])], "f32[3]", 3),
            ("index(a, b, wrap_negative=false)", vec![x.clone(), ("i32[1]", vec![bad])], "f32[1, 3]", 3),
            ("embedding(a, b)", vec![x.clone(), ("i32[1]", vec![bad])], "f32[1, 3]", 3),
            (
                "scatter(a, b, c)",
                vec![x.clone(), ("i32[1]", vec![bad]), ("f32[1, 3]", vec![0.; 3])],
                "f32[3, 3]",
                9,
            ),
        ] {
            let message = error_of(call, &inputs, output, n);
            assert!(message.contains(said), "{call}: {message}");
        }
    }
}

/// A number outside the range of its axis is found, although the joined position would be valid.
#[test]
fn each_of_several_numbers_has_its_own_bound() {
    let inputs = [("f32[1, 2, 3]", counted(6)), ("i32[1, 2]", vec![0., 4.])];
    let message = error_of("multi_index_gather(a, b)", &inputs, "f32[1]", 1);
    assert!(message.contains("index 4"), "{message}");
    let inputs = [("f32[2, 3]", counted(6)), ("i32[1]", vec![0.]), ("i32[1]", vec![4.])];
    let message = error_of("index(a, b, c)", &inputs, "f32[1]", 1);
    assert!(message.contains("index 4"), "{message}");
}

/// The leading axes of a 3-d source stay when an inner axis is indexed.
#[test]
fn an_inner_axis_keeps_the_leading_ones() {
    let inputs = [("f32[2, 3, 2]", counted(12)), ("i64[1]", vec![2.])];
    assert_gives("index_select(a, b, axis=1)", &inputs, ("f32[2, 1, 2]", vec![4., 5., 10., 11.]));
    assert_gives("index(a, b, at=\":, #\")", &inputs, ("f32[2, 1, 2]", vec![4., 5., 10., 11.]));
}

/// Eight numbers per row, the maximum that is supported.
#[test]
fn eight_numbers_name_one_element() {
    let inputs = [
        ("f32[2, 2, 2, 2, 2, 2, 2, 2, 2]", counted(512)),
        ("i32[2, 8]", vec![1., 0., 1., 1., 0., 0., 1., 0., 0., 1., 1., 0., 1., 0., 0., 1.]),
    ];
    assert_gives("multi_index_gather(a, b)", &inputs, ("f32[2]", vec![178., 361.]));
}

#[test]
fn a_mask_that_would_decide_an_extent_is_refused() {
    let inputs = [("f32[3]", counted(3)), ("bool[3]", vec![1., 0., 1.])];
    let message = error_of("index(a, b)", &inputs, "f32[3]", 3);
    assert!(message.contains("how much bool[3] picks depends on data"), "{message}");
}

#[test]
fn subscripts_that_mean_nothing_are_refused() {
    let inputs = [("f32[3, 2]", counted(6)), ("i32[1]", vec![0.])];
    for (call, said) in [
        ("index(a, b, at=\"#, #\")", "has 2 `#` for 1 index operands"),
        ("index(a, b, at=\"#, :, :\")", "does not fit f32[3, 2]"),
        ("index(a, b, at=\"..., #, ...\")", "does not fit f32[3, 2]"),
        ("index(a, b, at=\"#, x\")", "`x` means nothing in a subscript"),
        ("index(a, b, at=\"#, 1:2:3:4\")", "`1:2:3:4` means nothing in a subscript"),
        ("index(a, b, at=\"#, ::0\")", "a slice cannot have step 0"),
        ("index(a, b, at=\"#, 2\")", "axis 1 of f32[3, 2] has no index 2"),
    ] {
        let message = error_of(call, &inputs, "f32[1]", 1);
        assert!(message.contains(said), "{call}: {message}");
    }
}
