//! Calls that do not fit are refused, with the fact.

use engine::Engine;
use engine::core::op::Example;
use engine::core::testing;

/// Calls with the types of their operands, and what their refusal says.
const CALLS: &[(&str, &[&str], &str)] = &[
    ("tril(a)", &["f32[3]"], "`tril` of f32[3], which is no matrix"),
    ("cholesky(a)", &["f32[2, 3]"], "`cholesky` takes square matrices"),
    ("cholesky(a)", &["i32[2, 2]"], "`cholesky` takes f32 or f64 here, not i32"),
    ("solve(a, b)", &["f32[2, 2]", "f32[3, 1]"], "`solve` of f32[2, 2] and f32[3, 1]"),
    ("solve(a, b)", &["f32[2, 2]", "f64[2, 1]"], "`solve` of f32[2, 2] and f64[2, 1]"),
    ("solve_triangular(a, b)", &["f32[2, 2]", "f32[2]"], "`solve_triangular` of f32[2], which is no matrix"),
    ("inverse(a)", &["f32[3]"], "`inverse` of f32[3], which is no matrix"),
    ("qr(a)", &["f32[2, 3]"], "`qr` takes matrices with at least as many rows as columns"),
    ("svd(a, rank=3)", &["f32[2, 3]"], "`svd` of rank 3, where the matrix has a rank of at most 2"),
    ("eigh(a)", &["f32[2, 3]"], "`eigh` takes square matrices"),
    ("fft(a)", &["f32[4]"], "`fft` of f32[4], which holds no complex numbers"),
    ("fft(a)", &["f16[4, 2]"], "`fft` takes f32 or f64 here, not f16"),
    ("fft(a, axis=1)", &["f32[4, 2]"], "f32[4] has no axis 1"),
    ("fft(a)", &["f32[0, 2]"], "`fft` of no numbers along axis 0"),
    ("ifft(a, n=-3)", &["f32[4, 2]"], "`ifft` of no numbers along axis 0"),
    ("fft(a, axis=[0, 1], n=4)", &["f32[4, 4, 2]"], "`fft` along 2 axes"),
    ("rfft(a)", &["i32[4]"], "`rfft` takes f32 or f64 here, not i32"),
    ("irfft(a)", &["f32[1, 2]"], "`irfft` of f32[1, 2], which tells no numbers"),
    ("fft_rows(a)", &["f32[67, 2]"], "`fft_rows` of f32[67, 2]"),
    ("fft_chirp(n=4, count=6)", &[], "`fft_chirp` of 6 numbers for 4"),
    ("complex_mul(a, b)", &["f32[3, 2]", "f32[4, 2]"], "`complex_mul` of f32[3, 2] and f32[4, 2]"),
    ("eye(n=-1)", &[], "`eye` cannot have -1 rows or columns"),
    ("diag(a)", &["f32[2, 2, 2]"], "`diag` of f32[2, 2, 2]"),
    ("repeat(a, repeats=[2])", &["f32[2, 2]"], "`repeat` of f32[2, 2] has 1 numbers of repeats"),
    ("tile(a, repeats=[-2])", &["f32[2]"], "nothing can be repeated -2 times"),
    ("repeat_interleave(a, repeats=2, axis=1)", &["f32[2]"], "f32[2] has no axis 1"),
    ("repeat_interleave(a)", &["f32[2]"], "`repeat_interleave` without a number of repeats"),
    ("repeat_interleave(a, b)", &["f32[2]", "i32[2]"], "`repeat_interleave` of f32[2] by i32[2]"),
    ("repeat_interleave(a, b, total=4)", &["f32[2]", "i32[3]"], "`repeat_interleave` of f32[2] by i32[3]"),
    ("roll(a, shifts=[1, 2], axis=0)", &["f32[2]"], "`roll` of 1 axes by 2 shifts"),
    ("meshgrid(a, b)", &["f32[2]", "f32[2, 2]"], "`meshgrid` of f32[2, 2], which is no vector"),
    ("glu(a)", &["f32[3]"], "`glu` cannot halve axis 0 of f32[3]"),
    ("prelu(a, b)", &["f32[2, 3]", "f32[2]"], "`prelu` of f32[2, 3] with slopes f32[2]"),
    ("masked_fill(a, b, value=1)", &["f32[2]", "f32[2]"], "the mask of `masked_fill` is f32[2]"),
    ("masked_fill(a, b, value=1)", &["f32[2]", "bool[3]"], "the mask bool[3] does not broadcast to f32[2]"),
    ("masked_fill(a, b, value=0.5)", &["i32[2]", "bool[2]"], "`0.5` is no element of i32"),
    ("left_shift(a, b)", &["f32[2]", "f32[2]"], "`left_shift` does not take f32"),
    ("isinf(a)", &["i32[2]"], "`isinf` takes floats here, not i32"),
    ("sub(a, b)", &["bool[2]", "bool[2]"], "`sub` does not take bool"),
    ("norm(a, p=nan)", &["f32[2]"], "there is no norm of the exponent NaN"),
    ("norm(a, p=inf)", &["f32[0]"], "`norm` of no elements has no value"),
    ("logcumsumexp(a)", &["i32[2]"], "`logcumsumexp` takes floats here, not i32"),
    ("cummax(a, axis=1)", &["f32[]"], "f32[1] has no axis 1"),
    (
        "cross_entropy(a, b, ignore_index=0)",
        &["f32[2, 3]", "f32[2, 3]"],
        "`ignore_index` is for targets of one class",
    ),
    ("cross_entropy(a, b)", &["f32[2, 3]", "f32[2]"], "`cross_entropy` of f32[2, 3] and f32[2]"),
    ("cross_entropy(a, b, c)", &["f32[2, 3]", "i32[2]", "f32[2]"], "cannot look classes up in f32[2]"),
    ("cross_entropy(a, b, label_smoothing=1.5)", &["f32[2, 3]", "i32[2]"], "`label_smoothing` cannot be 1.5"),
    ("kthvalue(a, k=4)", &["f32[3]"], "`kthvalue` of k = 4 from 3 elements"),
    ("median(a, axis=1)", &["f32[2, 0]"], "`median` of no elements has no value"),
    ("quantile(a, q=0.5)", &["i32[3]"], "`quantile` takes floats here, not i32"),
    ("quantile(a, q=1.5)", &["f32[3]"], "`q` cannot be 1.5"),
    ("searchsorted(a, b)", &["f32[2, 3]", "f32[3, 1]"], "`searchsorted` of values f32[3, 1] in f32[2, 3]"),
    ("searchsorted(a, b)", &["f32[3]", "i32[3]"], "`searchsorted` of values i32[3] in f32[3]"),
    ("bucketize(a, b)", &["f32[3]", "f32[1, 3]"], "boundaries are a vector, not f32[1, 3]"),
    ("gather(a, b, axis=1)", &["f32[2, 3]", "i32[3, 1]"], "`gather` of f32[2, 3] by i32[3, 1] along axis 1"),
    (
        "scatter(a, b, c)",
        &["f32[3, 2]", "i32[1, 3]", "f32[1, 3]"],
        "`scatter` of f32[3, 2] by i32[1, 3] along axis 0",
    ),
    (
        "scatter_add(a, b, c)",
        &["f32[3, 2]", "i32[3, 2]", "f32[2, 2]"],
        "`scatter_add` of f32[2, 2] to f32[3, 2] at i32[3, 2] along axis 0",
    ),
    (
        "scatter_reduce(a, b, c)",
        &["f32[3, 2]", "i32[2]", "f32[2, 2]"],
        "`scatter_reduce` of f32[2, 2] at i32[2]",
    ),
    (
        "scatter_reduce(a, b, c, reduce=\"mean\")",
        &["i32[3]", "i32[2]", "i32[2]"],
        "`scatter_reduce` takes no mean of i32",
    ),
    (
        "conv(a, b)",
        &["f32[1, 2, 4, 9]", "f32[3, 2, 5, 1]"],
        "no window of 5 fits on axis 2 of f32[1, 2, 4, 9]",
    ),
    (
        "conv(a, b, dilation=3)",
        &["f32[1, 2, 6]", "f32[3, 2, 3]"],
        "no window of 3 fits on axis 2 of f32[1, 2, 6]",
    ),
    ("max_pool(a, size=[3])", &["f32[1, 2, 0]"], "no window of 3 fits on axis 2 of f32[1, 2, 0]"),
    ("avg_pool(a, size=[2, 5])", &["f32[1, 2, 4, 4]"], "no window of 5 fits on axis 3 of f32[1, 2, 4, 4]"),
    ("multinomial(a, num_samples=4)", &["f32[2, 3]"], "`multinomial` cannot draw 4 of f32[2, 3]"),
    ("multinomial(a, b, num_samples=2)", &["f32[2, 3]", "f32[2, 2]"], "with uniform numbers f32[2, 2]"),
    ("draw_rows(a, b, k=4)", &["f32[2, 3]", "f32[2, 1]"], "`draw_rows` of k = 4 from f32[2, 3]"),
    ("draw_rows(a, b, k=600)", &["f32[2, 900]", "f32[2, 1]"], "`draw_rows` of k = 600 from f32[2, 900]"),
    ("draw_rows(a, b, k=2)", &["f32[2, 3]", "f32[3, 1]"], "`draw_rows` of f32[2, 3] by f32[3, 1]"),
    (
        "draw_rows(a, b, k=2, temperature=0.0)",
        &["f32[2, 3]", "f32[2, 1]"],
        "a temperature that is not above 0",
    ),
];

#[test]
fn calls_that_do_not_fit_are_refused() {
    let registry = Engine::new().registry;
    for (call, types, fact) in CALLS {
        let inputs: Vec<(&str, &[f64])> = types.iter().map(|ty| (*ty, &[][..])).collect();
        let example = Example::new("refused", call, &inputs, &[("f32[7]", &[])]);
        let message = testing::case(&example, &registry).err().unwrap_or_default();
        assert!(message.contains(fact), "{call} of {types:?}: {message}");
    }
}
