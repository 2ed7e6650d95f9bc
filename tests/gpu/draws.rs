//! Draws among the first tokens of rows on GPUs, in one kernel.

use super::*;

/// The tokens that a call draws from rows with ties, and some with an element that is no number.
fn case(k: i64, [n_rows, n, n_draws]: [usize; 3], cuts: [f64; 3]) -> Case {
    Case::new(|b| {
        let x = data(b, "x", DType::F32, &[n_rows, n]);
        // The last row is -inf throughout.
        let row = b.iota(0, Type::new(DType::I32, &[n_rows, n]));
        let logits = b.map(&[x, row], |v| {
            let odd = E::select(v[1].eq(1i64), f64::NAN, E::select(v[1].eq(2i64), f64::INFINITY, v[0]));
            let spread = E::select(v[0].gt(0.99), odd, (v[0] * 12.0).round() * 0.5);
            E::select(
                v[1].eq(n_rows as i64 - 1),
                f64::NEG_INFINITY,
                E::select(v[1].lt(3i64), spread, v[0] * 9.0),
            )
        });
        let u = data(b, "u", DType::F32, &[n_rows, n_draws]);
        let u = b.map(&[u], |u| u[0].abs() * 0.999 + 0.0005);
        let attrs = ["temperature", "top_p", "min_p"].into_iter().zip(cuts);
        let attrs = attrs.fold(Attrs::default(), |attrs, (name, x)| attrs.with(name, Attr::from(x)));
        let attrs = attrs.with("top_k", Attr::from(k)).with("num_samples", Attr::from(n_draws as i64));
        b.call("sample_logits", &[logits, u], attrs).unwrap()
    })
}

/// Whole rows, and rows in pieces, on each GPU and with the least limits of WebGPU.
#[test]
fn draws_among_the_first_tokens_agree() {
    let gpus: Vec<_> = gpus().iter().cloned().chain(plain_gpu()).chain(least_gpu()).collect();
    for (k, extents, cuts) in [
        (2, [5, 300, 3], [1.0, 1.0, 0.0]),
        (40, [37, 1000, 1], [0.7, 0.91, 0.0]),
        (33, [6, 257, 300], [1.3, 1.0, 0.07]),
        (512, [4, 5000, 9], [2.0, 0.87, 0.0]),
        (50, [5, 200_000, 4], [0.8, 0.93, 0.002]),
    ] {
        let case = case(k, extents, cuts);
        let plan = case.plan(&*gpus[0], true);
        assert!(plan.kernels.iter().any(|kernel| kernel.ops == ["draw_rows"]), "{k} of {extents:?}");
        case.check_within(gpus.iter(), &[Closeness(0.0)]);
    }
}
