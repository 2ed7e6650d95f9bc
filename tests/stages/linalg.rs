//! Factors of matrices: what defines them, on matrices that are large, of low rank, or no numbers.

use std::sync::Arc;

use super::*;
use engine::runtime::device::Device;

/// The values of nodes on a device.
fn values(nodes: &str, wanted: &[&str], device: &Arc<dyn Device>) -> IndexMap<String, Vec<f64>> {
    let text = format!(r#"(seed: 3, nodes: {{{nodes}}}, stages: {{"go": Run(outputs: {wanted:?})}})"#);
    let mut session = offline::session(&text, Arc::clone(device), Options::default());
    let report = session.run_stages(None, &mut |_| {}).unwrap();
    report.outputs.iter().map(|(name, output)| (name.to_string(), output.values.to_f64())).collect()
}

fn present_devices() -> impl Iterator<Item = Arc<dyn Device>> {
    [present::cpu(2)].into_iter().chain(present::gpus().iter().cloned())
}

/// Checks that nodes are small. Their names begin with `e_`.
fn check_small(nodes: &str, most: f64) {
    let wanted: Vec<&str> = nodes.split('"').filter(|name| name.starts_with("e_")).collect();
    assert!(!wanted.is_empty());
    for device in present_devices() {
        for (name, error) in values(nodes, &wanted, &device) {
            assert!(error[0] <= most, "{name} is {} on {}", error[0], device.info().name);
        }
    }
}

const RANDOM: &str =
    r#""x": "normal(shape=[3, 50, 33])", "w": "permute(x, axes=[0, 2, 1])", "i": "eye(n=33)","#;

#[test]
fn factors_of_random_matrices_are_orthonormal_and_multiply_to_them() {
    let nodes = r#"
        "q": "qr(x)", "e_q": "max(abs(permute(q, axes=[0, 2, 1]) @ q - i))", "e_qr": "max(abs(q @ q.r - x))",
        "f": "svd(x)", "e_u": "max(abs(permute(f, axes=[0, 2, 1]) @ f - i))",
        "e_v": "max(abs(f.v @ permute(f.v, axes=[0, 2, 1]) - i))",
        "e_usv": "max(abs((f * reshape(f.s, shape=[3, 1, 33])) @ f.v - x))",
        "g": "svd(w)", "e_wide": "max(abs(g.s - f.s))",
        "e_order": "max(slice(f.s, axis=1, start=1) - slice(f.s, axis=1, start=0, stop=32))",
    "#;
    check_small(&format!("{RANDOM}{nodes}"), 2e-5);
}

#[test]
fn symmetric_matrices_and_equations_are_solved() {
    let nodes = r#"
        "a": "w @ x", "h": "eigh(a)", "e_h": "max(abs(permute(h.v, axes=[0, 2, 1]) @ h.v - i))",
        "e_hvv": "max(abs((h.v * reshape(h, shape=[3, 1, 33])) @ permute(h.v, axes=[0, 2, 1]) - a)) / 100.0",
        "l": "cholesky(a + i)", "e_l": "max(abs(l @ permute(l, axes=[0, 2, 1]) - a - i)) / 100.0",
        "y": "solve(a + i, w)", "e_y": "max(abs((a + i) @ y - w)) / 10.0",
        "n": "inverse(a + i)", "e_n": "max(abs((a + i) @ n - i)) / 10.0",
        "t": "solve_triangular(l, w)", "e_t": "max(abs(l @ t - w)) / 10.0",
    "#;
    check_small(&format!("{RANDOM}{nodes}"), 2e-5);
}

/// Matrices of more than a block, a batch of them, and others of an extent that no block divides. Rows of the equations
/// must be exchanged.
#[test]
fn matrices_of_several_blocks_are_factored_and_solved() {
    let nodes = r#"
        "x": "normal(shape=[2, 150, 150])", "i": "eye(n=150)", "b": "normal(shape=[2, 150, 3])",
        "a": "x @ permute(x, axes=[0, 2, 1]) / 150.0 + i",
        "l": "cholesky(a)", "e_l": "max(abs(l @ permute(l, axes=[0, 2, 1]) - a))", "e_upper": "max(abs(triu(l, diagonal=1)))",
        "t": "solve_triangular(l, b)", "e_t": "max(abs(l @ t - b))",
        "u": "permute(l, axes=[0, 2, 1])", "v": "solve_triangular(u, b, lower=false)", "e_v": "max(abs(u @ v - b))",
        "y": "lu_solve(x, b)", "e_y": "max(abs(x @ y - b)) / (1.0 + max(abs(y))) / 20.0",
        "size": "max(abs(tril(y.factors, diagonal=-1))) - 1.0", "e_size": "relu(size)",
        "n": "inverse(a)", "e_n": "max(abs(a @ n - i))", "q": "qr(x)", "e_qr": "max(abs(q @ q.r - x)) / 20.0",
        "e_q": "max(abs(permute(q, axes=[0, 2, 1]) @ q - i))",
    "#;
    check_small(nodes, 2e-5);
}

/// A matrix of rank 4 with singular values that fall by ten each, and one of Hilbert's kind.
#[test]
fn matrices_of_low_rank_have_factors() {
    let nodes = r#"
        "k": "reshape(cast(arange(stop=4), dtype=f32), shape=[1, 4])", "size": "10.0 ** (0.0 - k)",
        "x": "(qr(normal(shape=[60, 4])) * size) @ transpose(qr(normal(shape=[40, 4])))",
        "f": "randomized_svd(x, rank=4)", "e_s": "max(abs(f.s / reshape(size, shape=[4]) - 1.0)) / 10.0",
        "e_back": "max(abs(reconstruct(f, f.s, f.v) - x))",
        "c": "compress_residuals(x)", "e_exact": "max(abs(reconstruct(c, c.s, c.v) - x))",
        "d": "compress_residuals(x, rank=5, by=randomized_svd)", "e_drawn": "max(abs(reconstruct(d, d.s, d.v) - x))",
        "e_ratio": "abs(c.ratio - 404.0 / 2400.0) + abs(d.ratio - 505.0 / 2400.0)",
        "whole": "svd(x)", "e_rest": "max(slice(whole.s, axis=0, start=4))",
        "m": "reshape(arange(stop=20), shape=[20, 1]) + reshape(arange(stop=20), shape=[1, 20])",
        "hilbert": "1.0 / (1.0 + cast(m, dtype=f32))", "q": "qr(hilbert)",
        "e_qr": "max(abs(q @ q.r - hilbert))", "e_q": "max(abs(transpose(q) @ q - eye(n=20)))",
    "#;
    check_small(nodes, 2e-5);
}

/// The oversampled basis of a small matrix is cut to its rank.
#[test]
fn random_factors_of_small_matrices_are_exact() {
    let nodes = r#"
        "x": "normal(shape=[12, 9])", "f": "randomized_svd(x, rank=7)",
        "e_s": "max(abs(f.s - slice(svd(x).s, stop=7)))",
        "t": "normal(shape=[5, 30])", "g": "randomized_svd(t, rank=5)",
        "e_back": "max(abs(reconstruct(g, g.s, g.v) - t))",
    "#;
    check_small(nodes, 2e-5);
}

/// Beside numpy's `eigh` of the products of all columns.
#[test]
fn principal_axes_are_those_of_numpy() {
    let nodes = r#"
        "i": "reshape(cast(arange(stop=40), dtype=f32), shape=[40, 1])",
        "j": "reshape(cast(arange(stop=6), dtype=f32), shape=[1, 6])",
        "x": "sin(0.7 * i + j * j) * (j + 1.0) + cos(0.3 * i * (j + 1.0))",
        "main": "principal_axes(x, count=2, sample=40)",
        "axes": "transpose(main)", "mean": "main.mean * 1.0",
        "all": "principal_axes(x, count=6, sample=80)", "e_q": "max(abs(transpose(all) @ all - eye(n=6)))",
        "wide": "normal(shape=[30, 100]) * exp(cast(arange(stop=100), dtype=f32) / -10.0)",
        "some": "principal_axes(wide, count=9, sample=30, power=12)",
        "f": "svd(wide - mean(wide, axis=0))",
        "spread": "norm((wide - some.mean) @ some, axis=0)",
        "e_spread": "max(abs(spread / slice(f.s, stop=9) - 1.0)) / 10.0",
        "inside": "norm(slice(f.v, stop=6) @ some, axis=1)", "e_inside": "max(abs(inside - 1.0)) / 10.0",
    "#;
    check_small(nodes, 2e-5);
    let expected = [
        0.1294722, 0.1759858, -0.2439271, -0.4015271, -0.5420816, 0.6615807, 0.0042383, -0.4149919,
        0.5790033, -0.5316976, 0.3541412, 0.2905178,
    ];
    let of_mean = [0.0213942, 0.0964687, -0.2134744, -0.170398, -0.3339477, 0.3798171];
    for device in present_devices() {
        let found = values(nodes, &["axes", "mean"], &device);
        for (found, expected) in [(&found["axes"], &expected[..]), (&found["mean"], &of_mean)] {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 2e-5, "{found} for {expected} on {}", device.info().name);
            }
        }
    }
}

#[test]
fn a_rank_larger_than_the_matrix_is_refused() {
    for call in ["svd(x, rank=10)", "randomized_svd(x, rank=10)", "compress_residuals(x, rank=10)"] {
        let text = format!(
            r#"(nodes: {{"x": "ones(shape=[12, 9])", "f": "{call}", "y": "f.s * 1.0"}}, stages: {{"go": Run(outputs: ["y"])}})"#
        );
        let Err(faults) = Engine::new().read("rank.ron", &text) else { panic!("{call} is accepted") };
        let faults = faults.to_string();
        assert!(faults.contains("`svd` of rank 10, where the matrix has a rank of at most 9"), "{faults}");
        assert!(faults.contains("give a rank from 0 to 9"), "{faults}");
    }
}

/// A matrix of batch 1 has a NaN, the other one has none. A batch may be empty, and so may matrices.
#[test]
fn nan_stays_in_its_matrix_and_nothing_may_be_empty() {
    let nodes = r#"
        "i": "reshape(cast(arange(stop=2), dtype=f32), shape=[2, 1, 1])",
        "x": "eye(n=3) * 2.0 + 0.5 + where(i == 1.0, log(0.0 - i), 0.0)",
        "c": "cholesky(x)", "s": "solve(x, ones(shape=[2, 3, 1]))", "v": "inverse(x)", "q": "qr(x)", "r": "q.r + 0",
        "f": "svd(x)", "sigma": "f.s + 0", "h": "eigh(x)",
        "no_matrix": "sum(svd(ones(shape=[0, 3, 2]))) + sum(solve(ones(shape=[0, 2, 2]), ones(shape=[0, 2, 1])))",
        "flat": "sum(inverse(ones(shape=[2, 0, 0]))) + sum(cholesky(ones(shape=[0, 0])))",
    "#;
    for device in present_devices() {
        let found = values(nodes, &["c", "s", "v", "r", "sigma", "h", "no_matrix", "flat"], &device);
        let on = device.info().name;
        for (name, values) in &found {
            if let [sum] = values[..] {
                assert_eq!(sum, 0.0, "{name} on {on}");
                continue;
            }
            let (first, second) = values.split_at(values.len() / 2);
            assert!(first.iter().all(|x| x.is_finite()), "{name} on {on}: {first:?}");
            assert!(second.iter().any(|x| x.is_nan()), "{name} on {on}: {second:?}");
        }
    }
}
