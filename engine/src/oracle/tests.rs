#![allow(clippy::unwrap_used)]

use super::*;
use crate::ir::{Binary, Builder, Literal, Scalar, Unary};

fn compute(
    inputs: &[(&str, OracleTensor)],
    formula: impl Fn(&mut Builder, &[Value]) -> Value,
) -> OracleTensor {
    try_compute(inputs, Precision::F64, formula).unwrap()
}

fn try_compute(
    inputs: &[(&str, OracleTensor)],
    precision: Precision,
    formula: impl Fn(&mut Builder, &[Value]) -> Value,
) -> Result<OracleTensor, OracleError> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("test"), &registry);
    let values: Vec<Value> =
        inputs.iter().map(|(name, tensor)| b.input(name, InputKind::Data, tensor.ty())).collect();
    let y = formula(&mut b, &values);
    let mut graph = b.graph;
    graph.outputs = vec![("y".into(), y)];
    let inputs = inputs.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())).collect();
    let run = Oracle { registry: &registry, precision }.run(&graph, &inputs, 0x1_0000_0002, 5)?;
    Ok(run.outputs["y"].clone())
}

fn f32s(extents: &[usize], elements: &[f64]) -> OracleTensor {
    OracleTensor::new(DType::F32, extents, elements)
}

fn i32s(extents: &[usize], elements: &[f64]) -> OracleTensor {
    OracleTensor::new(DType::I32, extents, elements)
}

/// A sum whose terms cancel is as sensitive as its largest terms.
#[test]
fn the_terms_of_a_sum_are_moved() {
    let x = f32s(&[3], &[3e7, 1.0, -3e7]);
    let sum = |precision| {
        try_compute(&[("x", x.clone())], precision, |b, v| b.sum(v[0], &[0])).unwrap().to_f64()[0]
    };
    let moves: Vec<f64> = (0..4).map(|seed| (sum(Precision::Perturbed(seed)) - 1.0).abs()).collect();
    let most = 8.0 * f64::from(f32::EPSILON) * 3e7;
    assert!(moves.iter().all(|&moved| moved <= 1.01 * most) && moves.iter().any(|&moved| moved > 0.1 * most));
    assert_eq!(sum(Precision::F64), 1.0);
}

/// Published test vectors of the Random123 library (`kat_vectors`, philox4x32 10).
#[test]
fn philox_gives_the_published_answers() {
    let published = [
        ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
        (
            [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xa4093822, 0x299f31d0],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ),
    ];
    for (counter, key, expected) in published {
        assert_eq!(philox::philox_block(counter, key), expected);
    }
}

#[test]
fn random_bits_depend_on_seed_stream_step_and_element() {
    let bits = compute(&[], |b, _| {
        b.set_scope("h", None);
        b.random_bits("u", &[6])
    });
    let key = [1 ^ 2, crate::ir::stream_of("h/u")];
    let blocks = [philox::philox_block([0, 0, 5, 0], key), philox::philox_block([1, 0, 5, 0], key)];
    let expected: Vec<f64> = blocks.concat()[..6].iter().map(|&word| word as f64).collect();
    assert_eq!(bits.to_f64(), expected);
}

#[test]
fn uniforms_lie_strictly_inside_the_unit_interval() {
    let u = try_compute(&[], Precision::Rounded, |b, _| b.random_uniform("u", &[1000])).unwrap().to_f64();
    assert!(u.iter().all(|&u| 0.0 < u && u < 1.0));
    let mean = u.iter().sum::<f64>() / 1000.0;
    assert!((mean - 0.5).abs() < 0.04, "{mean}");
}

#[test]
fn nan_goes_through_and_is_the_largest() {
    let x = f32s(&[2, 3], &[1.0, f64::NAN, f64::NAN, 4.0, 9.0, 9.0]);
    for (monoid, second) in
        [(Monoid::Max, 9.0), (Monoid::Min, 4.0), (Monoid::Sum, 22.0), (Monoid::Prod, 324.0)]
    {
        let y = compute(&[("x", x.clone())], |b, x| b.reduce(monoid, x[0], &[1])).to_f64();
        assert!(y[0].is_nan() && y[1] == second, "{monoid:?}: {y:?}");
    }
    for (monoid, expected) in [(Monoid::ArgMax, [1.0, 1.0]), (Monoid::ArgMin, [1.0, 0.0])] {
        assert_eq!(compute(&[("x", x.clone())], |b, x| b.reduce(monoid, x[0], &[1])).to_f64(), expected);
    }
    let zero = f32s(&[2, 3], &[0.0; 6]);
    let larger = compute(&[("x", x), ("zero", zero)], |b, x| b.binary(Binary::Max, x[1], x[0])).to_f64();
    assert!(larger[1].is_nan() && larger[3] == 4.0);
}

#[test]
fn halves_round_to_even_and_zero_keeps_its_sign() {
    let x = f32s(&[5], &[0.5, 1.5, 2.5, -0.5, -1.5]);
    let rounded = compute(&[("x", x)], |b, x| b.unary(Unary::Round, x[0])).to_f64();
    assert_eq!(rounded, [0.0, 2.0, 2.0, 0.0, -2.0]);
    let signs = compute(&[("x", f32s(&[3], &[-0.0, -7.0, 3.0]))], |b, x| b.unary(Unary::Sign, x[0])).to_f64();
    assert!(signs == [0.0, -1.0, 1.0] && signs[0].is_sign_negative());
}

#[test]
fn integers_wrap_and_conversions_saturate() {
    let x = i32s(&[2], &[2147483647.0, -7.0]);
    let y = compute(&[("x", x)], |b, x| b.map(&[x[0]], |x| x[0] * 2.0));
    assert_eq!(y, i32s(&[2], &[-2.0, -14.0]));
    let x = f32s(&[4], &[300.7, -2.5, f64::NAN, 255.9]);
    let bytes = compute(&[("x", x)], |b, x| b.cast(x[0], DType::U8)).to_f64();
    assert_eq!(bytes, [255.0, 0.0, 0.0, 255.0]);
    let powers = compute(
        &[("x", i32s(&[4], &[3.0, -2.0, 2.0, 0.0])), ("e", i32s(&[4], &[4.0, 3.0, -1.0, 0.0]))],
        |b, x| b.binary(Binary::Pow, x[0], x[1]),
    );
    assert_eq!(powers.to_f64(), [81.0, -8.0, 0.0, 1.0]);
}

#[test]
fn results_are_rounded_to_their_type_if_asked() {
    let third = |dtype, precision| {
        let x = OracleTensor::new(dtype, &[], &[1.0]);
        let third = |b: &mut Builder, x: &[Value]| b.map(&[x[0]], |x| x[0] / 3.0);
        try_compute(&[("x", x)], precision, third).unwrap().float(0)
    };
    assert_eq!(third(DType::F32, Precision::F64), 1.0 / 3.0);
    assert_eq!(third(DType::F32, Precision::Rounded), (1f32 / 3.0) as f64);
    // 1/3 = 0x3eaaaaab as f32, 0x3eab as bf16.
    assert_eq!(third(DType::BF16, Precision::Rounded), f32::from_bits(0x3eab_0000) as f64);
}

#[test]
fn subnormal_numbers_are_zeros_if_asked() {
    let back_and_forth = |dtype, factor: f64, precision| {
        let x = OracleTensor::new(dtype, &[], &[-factor]);
        let body = |b: &mut Builder, x: &[Value]| {
            let small = b.mul(x[0], x[0]);
            b.map(&[small], |v| v[0].sqrt())
        };
        try_compute(&[("x", x)], precision, body).unwrap().float(0)
    };
    let x = 2f64.powi(-64);
    assert_eq!(back_and_forth(DType::F32, x, Precision::Rounded), x);
    assert_eq!(back_and_forth(DType::F32, x, Precision::Flushed), 0.0);
    assert_eq!(back_and_forth(DType::F32, 2.0 * x, Precision::Flushed), 2.0 * x, "the smallest normal one");
    assert_eq!(back_and_forth(DType::F64, x, Precision::Flushed), x);
    assert_eq!(
        back_and_forth(DType::F16, 2f64.powi(-12), Precision::Flushed),
        2f64.powi(-12),
        "2^-24 in f32"
    );
}

#[test]
fn views_move_elements() {
    let x = || vec![("x", f32s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))];
    let turned = compute(&x(), |b, x| b.permute(x[0], &[1, 0]));
    assert_eq!(turned, f32s(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
    let backwards = compute(&x(), |b, x| b.slice(x[0], &[1, 2], &[2, 2], &[-1, -2]));
    assert_eq!(backwards, f32s(&[2, 2], &[5.0, 3.0, 2.0, 0.0]));
    let padded = compute(&x(), |b, x| b.pad(x[0], &[0, 1], &[1, 0], Literal::Float(9.0)));
    assert_eq!(padded.to_f64(), [9.0, 0.0, 1.0, 2.0, 9.0, 3.0, 4.0, 5.0, 9.0, 9.0, 9.0, 9.0]);
    let repeated = compute(&[("x", f32s(&[2, 1], &[1.0, 2.0]))], |b, x| {
        b.broadcast_axes(x[0], &[0, 2], &[2.into(), 2.into(), 2.into()])
    });
    assert_eq!(repeated.to_f64(), [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
}

#[test]
fn gathers_and_scatters() {
    let src = || ("src", f32s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    let idx = || ("idx", i32s(&[2, 2], &[2.0, 0.0, 1.0, 1.0]));
    let along = compute(&[src(), idx()], |b, x| b.gather(x[0], x[1], 1, 1));
    assert_eq!(along, f32s(&[2, 2], &[2.0, 0.0, 4.0, 4.0]));
    let across = compute(&[src(), idx()], |b, x| b.gather(x[0], x[1], 1, 0));
    assert_eq!(across, f32s(&[2, 2, 2], &[2.0, 0.0, 1.0, 1.0, 5.0, 3.0, 4.0, 4.0]));
    let updates = || ("u", f32s(&[2, 2], &[10.0, 20.0, 30.0, 40.0]));
    let scatter =
        |combine| compute(&[src(), idx(), updates()], |b, x| b.scatter(x[0], x[1], x[2], 1, 1, combine));
    assert_eq!(scatter(Combine::Add).to_f64(), [20.0, 1.0, 12.0, 3.0, 74.0, 5.0]);
    assert_eq!(scatter(Combine::Set).to_f64(), [20.0, 1.0, 10.0, 3.0, 40.0, 5.0]);
}

#[test]
fn a_bad_index_names_node_position_and_value() {
    let idx = ("idx", i32s(&[3], &[0.0, 4.0, 7.0]));
    let error = try_compute(&[idx], Precision::F64, |b, x| {
        b.set_scope("rows", None);
        b.check_index(x[0], 4)
    });
    assert_eq!(error.unwrap_err().to_string(), "`rows`: index 4 at position 1 is not in 0..4");
}

#[test]
fn matmuls_over_several_axes() {
    let x = ("x", f32s(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
    let y = ("y", f32s(&[2, 2, 1], &[1.0, 10.0, 100.0, 1000.0]));
    // Σ over a, c of x[a, b, c] · y[c, a, d].
    let spec = MatmulSpec::new(vec![], vec![(0, 1), (2, 0)]);
    let sums = compute(&[x, y], |b, x| b.matmul(x[0], x[1], spec.clone()));
    assert_eq!(sums, f32s(&[2, 1], &[1.0 + 200.0 + 50.0 + 6000.0, 3.0 + 400.0 + 70.0 + 8000.0]));
}

#[test]
fn select_lets_nothing_leak_and_scans_are_prefixes() {
    let x = ("x", f32s(&[4], &[-1.0, 2.0, -3.0, 4.0]));
    let logs = compute(std::slice::from_ref(&x), |b, x| {
        let zero = b.full_like(x[0], 0.0);
        let positive = b.binary(Binary::Gt, x[0], zero);
        let log = b.unary(Unary::Log, x[0]);
        b.scalar(Scalar::Select, &[positive, log, zero])
    });
    assert_eq!(logs.to_f64(), [0.0, 2f64.ln(), 0.0, 4f64.ln()]);
    let sums = compute(&[x], |b, x| {
        let ty = b.ty(x[0]).clone();
        b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 0 }, vec![x[0]], ty)
    });
    assert_eq!(sums.to_f64(), [-1.0, 1.0, -2.0, 2.0]);
}

#[test]
fn inputs_are_checked() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("test"), &registry);
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[2]));
    let mut graph = b.graph;
    graph.outputs = vec![("x".into(), x)];
    let run = |inputs| Oracle::new(&registry).run(&graph, &inputs, 0, 0).unwrap_err().to_string();
    assert_eq!(run(HashMap::new()), "input `x` is missing");
    let wrong = HashMap::from([("x".into(), f32s(&[3], &[0.0; 3]))]);
    assert_eq!(run(wrong), "input `x` is f32[3], the graph needs f32[2]");
}
