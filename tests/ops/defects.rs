//! Known defects of other implementations of these ops, D1 to D12. Each would fail a test here. The ops run as kernels,
//! fused and unfused.

use super::*;

pub(super) type Tensor<'a> = (&'static str, &'a [f64]);

/// The results of a call and its gradients (of Σ (i + 1)·y_i), or its error. Fused and unfused kernels must agree.
pub(super) fn found(
    call: &'static str,
    inputs: &[Tensor],
    outputs: &[&'static str],
) -> Result<HashMap<String, Vec<f64>>, String> {
    let registry = Engine::new().registry;
    let device = CpuDevice::new(Some(2)).unwrap();
    let numel = |ty: &str| ty.split(['[', ',', ']']).filter_map(|n| n.trim().parse::<usize>().ok()).product();
    let blank: Vec<(&'static str, Vec<f64>)> = outputs.iter().map(|&ty| (ty, vec![0.0; numel(ty)])).collect();
    let blank: Vec<Tensor> = blank.iter().map(|(ty, zeros)| (*ty, &zeros[..])).collect();
    let case = testing::case(&Example::new("a defect", call, inputs, &blank), &registry).unwrap();
    let graph = with_gradients(&case.graph, &registry);
    let run_as = |fuse: bool| {
        let compiled = compile(&graph, &registry, &Options { fuse, ..Options::default() });
        run(&device, &compiled, &case.inputs)
    };
    let (fused, unfused) = (run_as(true), run_as(false));
    match (&fused, &unfused) {
        (Ok(fused), Ok(unfused)) => fused.iter().for_each(|(name, x)| assert_near(x, &unfused[name])),
        (Err(_), Err(_)) => {}
        _ => panic!("{call}: {fused:?} and {unfused:?}"),
    }
    fused
}

pub(super) fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(1e-30f64, |most, x| most.max(x.abs()));
    let is_near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-5 * size || a.is_nan() && b.is_nan();
    assert!(found.iter().zip(expected).all(is_near), "{found:?} instead of {expected:?}");
}

fn assert_error(call: &'static str, inputs: &[Tensor], output: &'static str, said: &str) {
    let error = found(call, inputs, &[output]).expect_err(call);
    assert!(error.contains(said), "{call}: {error}");
}

/// The gradient of the weights is a sum over rows for each column, not the row's total for all columns.
#[test]
fn d1_each_weight_of_a_norm_has_a_gradient_of_its_own() {
    let (table, weights) = ([0.5, -1.0, 2.0, 3.0, 0.25, -0.5], [1.5, -0.5, 2.0]);
    let tokens = [1.0, 0.0, 1.0];
    let inputs: [Tensor; 3] = [("f32[2, 3]", &table), ("i32[3]", &tokens), ("f32[3]", &weights)];
    let found = found("embedding_rms_norm(a, b, c)", &inputs, &["f32[3, 3]"]).unwrap();
    let mut expected = [0.0; 3];
    for (i, token) in tokens.iter().enumerate() {
        let row = &table[3 * *token as usize..][..3];
        let rms = (row.iter().map(|x| x * x).sum::<f64>() / 3.0 + 1e-6).sqrt();
        (0..3).for_each(|j| expected[j] += (3 * i + j + 1) as f64 * row[j] / rms);
    }
    assert_near(&found["d_c"], &expected);
}

#[test]
fn d2_an_index_past_either_end_is_never_read() {
    let x: Tensor = ("f32[3]", &[1.0, 2.0, 3.0]);
    for (bad, said) in [(3.0, "index 3"), (-1.0, "index -1")] {
        for call in ["index_select(a, b)", "gather(a, b)", "gather_with_grad(a, b)"] {
            assert_error(call, &[x, ("i32[1]", &[bad])], "f32[1]", said);
        }
    }
    let clamped = found("index_select(a, b, oob=\"clamp\")", &[x, ("i32[2]", &[3.0, -1.0])], &["f32[2]"]);
    assert_eq!(clamped.unwrap()["y0"], [3.0, 1.0]);
}

#[test]
fn d3_an_inner_axis_keeps_the_leading_ones() {
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let inputs: [Tensor; 2] = [("f32[2, 3, 2]", &x), ("i64[2]", &[2.0, 0.0])];
    let found = found("index_select(a, b, axis=1)", &inputs, &["f32[2, 2, 2]"]).unwrap();
    assert_eq!(found["y0"], [4.0, 5.0, 0.0, 1.0, 10.0, 11.0, 6.0, 7.0]);
    assert_eq!(found["d_a"], [3.0, 4.0, 0.0, 0.0, 1.0, 2.0, 7.0, 8.0, 0.0, 0.0, 5.0, 6.0]);
}

/// Additions to a transposed base appear in the result.
#[test]
fn d4_sums_into_a_transposed_base_are_not_lost() {
    let registry = Engine::new().registry;
    let text = "graph test {\ninput a: f32[2, 3]\ninput i: i32[2]\ninput u: f32[2, 2]\n\
                t: f32[3, 2] = transpose(a, axis0=0, axis1=1)\ny: f32[3, 2] = scatter_add(t, i, u)\n\
                output y = y\n}\n";
    let graph = parse(text, &registry).unwrap();
    let floats = |extents: &[usize], x: &[f64]| OracleTensor::new(DType::F32, extents, x);
    let inputs = HashMap::from([
        ("a".to_string(), floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("i".to_string(), OracleTensor::new(DType::I32, &[2], &[2.0, 2.0])),
        ("u".to_string(), floats(&[2, 2], &[10.0, 20.0, 30.0, 40.0])),
    ]);
    for fuse in [true, false] {
        let compiled = compile(&graph, &registry, &Options { fuse, ..Options::default() });
        let found = run(&CpuDevice::new(Some(2)).unwrap(), &compiled, &inputs).unwrap();
        assert_eq!(found["y"], [1.0, 4.0, 2.0, 5.0, 43.0, 66.0]);
    }
}

/// Scores far beyond the range of 16 bits, and keys that several queries share without a copy.
#[test]
fn d5_attention_stays_in_single_precision_and_copies_no_heads() {
    let inputs: [Tensor; 3] = [
        ("f32[2, 1, 1]", &[300_000.0, 200_000.0]),
        ("f32[1, 2, 1]", &[1.0, 1.000_01]),
        ("f32[1, 2, 1]", &[10.0, 20.0]),
    ];
    let found = found("attention(a, b, c, scale=1.0)", &inputs, &["f32[2, 1, 1]", "f32[2, 1]"]).unwrap();
    let key = f64::from(1.000_01f32);
    let weighed = |q: f64| 20.0 - 10.0 / (1.0 + (q * key - q).exp());
    let is_near = |(a, b): (&f64, f64)| (a - b).abs() < 0.1;
    assert!(found["y0"].iter().zip([weighed(3e5), weighed(2e5)]).all(is_near), "{found:?}");
    let nodes = "input q: f32[4, 128, 64]\ninput k: f32[2, 128, 64]\ninput v: f32[2, 128, 64]\n\
                 input g: f32[4, 128, 64]\n(y: f32[4, 128, 64], lse: f32[4, 128]) = attention(q, k, v)\noutput y = y";
    assert!(kinds(nodes, &["q"]).starts_with("forward: attention\n"));
}

#[test]
fn d6_squares_of_halves_are_added_up_in_single_precision() {
    let norm = found("rowwise_l2_norm(a)", &[("f16[1, 2]", &[300.0, 400.0])], &["f16[1]"]).unwrap();
    assert_eq!(norm["y0"], [500.0]);
}

/// D7, a nucleus that was never cut, concerns the distribution of `sample_logits`. A row of -inf alone draws no token.
#[test]
fn d7_a_nucleus_is_cut_and_a_row_without_a_distribution_draws_no_token() {
    let least = f64::NEG_INFINITY;
    let inputs: [Tensor; 2] = [
        ("f32[3, 3]", &[0.0, 3.0, 2.9, least, least, least, 3.0, 0.0, 2.0]),
        ("f32[3, 2]", &[0.01, 0.99, 0.01, 0.99, 0.01, 0.99]),
    ];
    let found = found("sample_logits(a, b, top_p=0.6, num_samples=2)", &inputs, &["i32[3, 2]"]).unwrap();
    assert_eq!(found["y0"], [1.0, 2.0, -1.0, -1.0, 0.0, 0.0]);
}

#[test]
fn d8_a_target_outside_of_its_row_is_an_error() {
    for (target, said) in [(3.0, "index 3"), (-2.0, "index -2")] {
        let inputs: [Tensor; 2] = [("f32[2, 3]", &[0.0; 6]), ("i32[2]", &[0.0, target])];
        for call in ["cross_entropy(a, b, ignore_index=-1)", "cross_entropy(a, b)", "nll_loss(a, b)"] {
            assert_error(call, &inputs, "f32[]", said);
        }
    }
}

/// The largest uniform number in single precision is below 1, and its noise is finite.
#[test]
fn d9_noise_is_finite_at_both_ends() {
    let ends = [0.5 / f64::from(1 << 23), 1.0 - 0.5 / f64::from(1 << 23)];
    let inputs: [Tensor; 3] = [("f32[1, 2]", &[0.0; 2]), ("f32[]", &[0.1]), ("f32[1, 2]", &ends)];
    let soft = found("gumbel_softmax(a, b, c)", &inputs, &["f32[1, 2]"]).unwrap();
    assert_near(&soft["y0"], &[0.0, 1.0]);
    assert!(soft["d_a"].iter().all(|x| x.is_finite()), "{soft:?}");
}

#[test]
fn d10_hard_weights_are_zero_and_one_to_the_bit() {
    let inputs: [Tensor; 3] = [
        ("f32[2, 3]", &[0.3, 0.1, -0.7, 1.1, 1.3, 0.2]),
        ("f32[]", &[0.7]),
        ("f32[2, 3]", &[0.31, 0.57, 0.83, 0.11, 0.42, 0.97]),
    ];
    let hard = found("gumbel_softmax(a, b, c, hard=true)", &inputs, &["f32[2, 3]"]).unwrap();
    assert!(hard["y0"].iter().all(|x| [0.0f64.to_bits(), 1.0f64.to_bits()].contains(&x.to_bits())));
    assert_eq!(hard["y0"].iter().sum::<f64>(), 2.0);
    let soft = found("gumbel_softmax(a, b, c)", &inputs, &["f32[2, 3]"]).unwrap();
    assert_near(&hard["d_a"], &soft["d_a"]);
}

#[test]
fn d11_a_number_that_equals_the_probability_draws_zero() {
    let inputs: [Tensor; 2] = [("f32[2]", &[0.0, 0.0]), ("f32[2]", &[0.5, 0.499_999_97])];
    let found = found("sigmoid_bernoulli(a, b)", &inputs, &["f32[2]"]).unwrap();
    assert_eq!(found["y0"], [0.0, 1.0]);
}

/// A number beyond the range of its axis is found, even if the element at its strides exists.
#[test]
fn d12_each_of_several_numbers_has_a_bound_of_its_own() {
    let x: Tensor = ("f32[2, 2, 3]", &[0.0; 12]);
    let inputs = [x, ("i32[2, 2]", &[0.0, 4.0, 0.0, 0.0])];
    assert_error("multi_index_gather(a, b)", &inputs, "f32[2]", "index 4");
}
