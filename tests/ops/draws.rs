//! Draws among the first tokens of rows: one kernel on the CPU, and CUDA texts that run on the host. The reference is the
//! expansion to a selection, a softmax, a running sum and a choice.

use super::on_gpu::{Products, check_graph, numbers};
use super::*;

/// Settings, with the length of a row and the tokens drawn from it.
const DRAWS: [(&str, [usize; 2]); 12] = [
    ("top_k=2", [300, 1]),
    ("top_k=50", [1000, 3]),
    ("top_k=50, top_p=0.87, temperature=0.6", [1000, 3]),
    ("top_k=50, top_p=0.03", [1000, 3]),
    ("top_k=50, top_p=0.0", [999, 1]),
    ("top_k=33, min_p=0.13", [1000, 40]),
    ("top_k=33, min_p=1.0", [70, 2]),
    ("top_k=64, top_p=0.71, min_p=0.009, temperature=1.7", [257, 5]),
    ("top_k=299, temperature=3.5", [300, 30]),
    ("top_k=512, top_p=0.93, temperature=0.9", [5000, 7]),
    ("top_k=40, top_p=0.91", [40_000, 4]),
    ("top_k=300, temperature=1e-30", [40_000, 1]),
];

const N_ROWS: usize = 9;

/// Logits of rows: of many kinds, with ties, with an element that is no number, and without many finite elements.
fn logits(n: usize) -> Vec<f64> {
    let mut rows: Vec<f64> =
        numbers(N_ROWS * n, 1 << 18).into_iter().map(|x| x / f64::from(1 << 15)).collect();
    let row = |row: usize| row * n..(row + 1) * n;
    rows[row(1)].iter_mut().for_each(|x| *x = x.round());
    rows[row(2)].fill(0.5);
    for (place, odd) in [(3, f64::NAN), (4, f64::INFINITY), (5, f64::NEG_INFINITY)] {
        rows[row(place)][n - 2] = odd;
    }
    rows[row(6)].fill(f64::NEG_INFINITY);
    rows[row(7)][2..].fill(f64::NEG_INFINITY);
    rows[row(8)].sort_by(f64::total_cmp);
    rows
}

/// Numbers in (0, 1), the first of them next to the ends.
fn uniform(n: usize) -> Vec<f64> {
    let mut u: Vec<f64> = numbers(n, 1 << 16).into_iter().map(|x| (x + 32_768.5) / 65_536.0).collect();
    u.iter_mut().zip([1e-7, 1.0 - 1e-7]).for_each(|(u, end)| *u = end);
    u
}

fn inputs([n, n_draws]: [usize; 2]) -> HashMap<String, OracleTensor> {
    let tensor =
        |columns: usize, elements: Vec<f64>| OracleTensor::new(DType::F32, &[N_ROWS, columns], &elements);
    let (a, u) = (tensor(n, logits(n)), tensor(n_draws, uniform(N_ROWS * n_draws)));
    HashMap::from([("a".to_owned(), a), ("u".to_owned(), u)])
}

/// A draw, and the same in `f64`, which is expanded on every device.
fn nodes(settings: &str, [n, n_draws]: [usize; 2]) -> String {
    let call =
        |logits: &str, u: &str| format!("sample_logits({logits}, {u}, {settings}, num_samples={n_draws})");
    let ty = format!("i32[{N_ROWS}, {n_draws}]");
    format!(
        "input a: f32[{N_ROWS}, {n}]\ninput u: f32[{N_ROWS}, {n_draws}]\ny: {ty} = {}\n\
         b: f64[{N_ROWS}, {n}] = cast(a, dtype=f64)\nv: f64[{N_ROWS}, {n_draws}] = cast(u, dtype=f64)\n\
         wide: {ty} = {}\noutput y = y",
        call("a", "u"),
        call("b", "v")
    )
}

fn kernels(compiled: &Compiled) -> Vec<String> {
    let launches = compiled.plan.launches.iter().map(|launch| &compiled.plan.kernels[launch.kernel]);
    launches.map(|kernel| kernel.ops.join(" ")).collect()
}

#[test]
fn draws_in_one_kernel_are_those_of_the_expansion_on_the_cpu() {
    let registry = Engine::new().registry;
    let device = CpuDevice::new(Some(2)).unwrap();
    let long = ("top_k=40, top_p=0.91, min_p=0.002", [200_000, 6]);
    for (settings, extents) in DRAWS.into_iter().chain([long]) {
        let text = format!("graph test {{\n{}\noutput wide = wide\n}}\n", nodes(settings, extents));
        let graph = parse(&text, &registry).unwrap();
        for fuse in [true, false] {
            let compiled = compile(&graph, &registry, &Options { fuse, ..Options::default() });
            assert!(
                kernels(&compiled).contains(&"draw_rows".to_owned()),
                "{settings}: {:?}",
                kernels(&compiled)
            );
            let found = run(&device, &compiled, &inputs(extents)).unwrap();
            assert_eq!(found["y"], found["wide"], "{settings}");
            let n_draws = extents[1];
            let has_none =
                |row: usize| found["y"][row * n_draws..(row + 1) * n_draws].iter().all(|&y| y == -1.0);
            let without: Vec<usize> = (0..N_ROWS).filter(|&row| has_none(row)).collect();
            assert_eq!(without, [3, 4, 6], "{settings}");
        }
    }
}

#[test]
fn draws_in_one_kernel_are_those_of_the_expansion_in_cuda_texts() {
    for (settings, extents) in DRAWS {
        check_graph(&nodes(settings, extents), &inputs(extents), Products::Own);
    }
    // The least shared memory, with comparisons that ignore NaN.
    for (settings, extents) in [DRAWS[1], DRAWS[7], DRAWS[9], DRAWS[10]] {
        check_graph(&nodes(settings, extents), &inputs(extents), Products::Poor(16));
    }
}

/// Numbers at equal distances draw each token as often as the law says, to one draw at each end of its share.
#[test]
fn draws_in_one_kernel_follow_the_law_that_is_left_after_the_cuts() {
    const DRAWN: usize = 10_000;
    let registry = Engine::new().registry;
    let device = CpuDevice::new(Some(2)).unwrap();
    let row: Vec<f64> = [1.0, 5.0, 2.0, 4.0, 3.0f64].iter().map(|weight| weight.ln()).collect();
    let u: Vec<f64> = (0..DRAWN).map(|i| (i as f64 + 0.5) / DRAWN as f64).collect();
    for (settings, weights) in [
        ("top_k=4", [0.0, 5.0, 2.0, 4.0, 3.0]),
        ("top_k=4, temperature=0.5", [0.0, 25.0, 4.0, 16.0, 9.0]),
        ("top_k=3, top_p=0.8", [0.0, 5.0, 0.0, 4.0, 3.0]),
        ("top_k=3, top_p=0.7", [0.0, 5.0, 0.0, 4.0, 0.0]),
        ("top_k=4, min_p=0.5", [0.0, 5.0, 0.0, 4.0, 3.0]),
        ("top_k=4, top_p=0.9, min_p=0.7", [0.0, 5.0, 0.0, 4.0, 0.0]),
    ] {
        let text = format!(
            "graph test {{\ninput a: f32[1, 5]\ninput u: f32[1, {DRAWN}]\n\
             y: i32[1, {DRAWN}] = sample_logits(a, u, {settings}, num_samples={DRAWN})\noutput y = y\n}}\n"
        );
        let graph = parse(&text, &registry).unwrap();
        let compiled = compile(&graph, &registry, &Options::default());
        assert_eq!(kernels(&compiled), ["draw_rows"]);
        let inputs = HashMap::from([
            ("a".to_owned(), OracleTensor::new(DType::F32, &[1, 5], &row)),
            ("u".to_owned(), OracleTensor::new(DType::F32, &[1, DRAWN], &u)),
        ]);
        let found = run(&device, &compiled, &inputs).unwrap();
        let total: f64 = weights.iter().sum();
        for (token, weight) in weights.iter().enumerate() {
            let hits = found["y"].iter().filter(|&&y| y == token as f64).count() as f64;
            let expected = DRAWN as f64 * weight / total;
            let is_near = if *weight == 0.0 { hits == 0.0 } else { (hits - expected).abs() <= 2.0 };
            assert!(is_near, "{settings}: {hits} times {token} instead of {expected}");
        }
    }
}
