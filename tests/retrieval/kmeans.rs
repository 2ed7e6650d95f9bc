//! Starts and settings of k-means beside loops in double precision, on every device that is present.

use crate::present;
use crate::run::run;
use crate::ways::devices;
use engine::Engine;

mod online;

type Rows = Vec<Vec<f64>>;

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The number of the nearest centre, the first of equals, and its squared distance.
fn nearest(row: &[f64], c: &[Vec<f64>]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (at, c) in c.iter().enumerate() {
        if squared(row, c) < best.1 {
            best = (at, squared(row, c));
        }
    }
    best
}

fn cost(x: &[Vec<f64>], c: &[Vec<f64>]) -> f64 {
    x.iter().map(|row| nearest(row, c).1).sum()
}

fn rows(values: &[f64], width: usize) -> Rows {
    values.chunks(width).map(<[f64]>::to_vec).collect()
}

/// A pipeline of these functions and nodes that shows all of `outputs`.
fn pipeline(seed: usize, functions: &str, nodes: &str, outputs: &str) -> String {
    format!(
        r#"(
            seed: {seed},
            functions: {{{functions}}},
            nodes: {{{nodes}}},
            stages: {{"go": Run(outputs: [{outputs}])}},
        )"#
    )
}

/// Checks that numbers are equal to rounding in `f32`.
fn assert_near(found: &[f64], expected: &[f64], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_near = (found - expected).abs() <= 2e-6 * expected.abs().max(1.0);
        assert!(is_near, "{name}, at {at}: {found} for {expected}");
    }
}

/// Candidates of k-means‖ and what is known of each row.
struct Candidates {
    c: Rows,
    d: Vec<f64>,
    label: Vec<usize>,
}

impl Candidates {
    /// Adds the rows of the largest keys.
    fn round(&mut self, x: &[Vec<f64>], noise: &[f64], n: usize) {
        let keys: Vec<f64> = self.d.iter().zip(noise).map(|(d, noise)| d.ln() + noise).collect();
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&a, &b| keys[b].total_cmp(&keys[a]));
        let gaps = order[..=n].windows(2).map(|pair| keys[pair[0]] - keys[pair[1]]);
        assert!(gaps.fold(f64::INFINITY, f64::min) > 1e-5, "rounding does not change the order");
        let drawn: Rows = order[..n].iter().map(|&row| x[row].clone()).collect();
        for (at, row) in x.iter().enumerate() {
            let (near, own) = nearest(row, &drawn);
            if own < self.d[at] {
                (self.label[at], self.d[at]) = (self.c.len() + near, own);
            }
        }
        self.c.extend(drawn);
    }
}

#[test]
fn a_round_draws_the_rows_of_the_largest_keys() {
    let nodes = r#"
        "i": "reshape(arange(stop=60), shape=[60, 1])",
        "j": "arange(stop=2)",
        "x": "cast((i * i * 31 + j * 17 + i * j * 7) % 23, dtype=f32)",
        "first": "select(x, axis=0, index=4)",
        "noise": "cast(arange(stop=60) * 37 % 61, dtype=f32) / 16.0",
        "zero": "full(shape=[], value=0, dtype=i32)",
        "d": "sum(square(x - first), axis=1)",
        "c": "broadcast_to(first, shape=[17, 2])",
        "one": "start_parallel_step(c, d, zeros(shape=[60], dtype=i32), zero, x, noise, rows=8)",
        "two": "start_parallel_step(one, one.d, one.label, one.i, x, flip(noise, axis=[0]), rows=8)",
    "#;
    let outputs = r#""x", "noise", "one.done", "two", "two.d", "two.label", "two.i", "two.done""#;
    for device in devices() {
        let name = device.0.info().name.clone();
        let of = run(&pipeline(1, "", nodes, outputs), device).unwrap();
        let (x, mut noise) = (rows(&of("x"), 2), of("noise"));
        let d = x.iter().map(|row| squared(row, &x[4])).collect();
        let mut known = Candidates { c: vec![x[4].clone()], d, label: vec![0; 60] };
        known.round(&x, &noise, 8);
        noise.reverse();
        known.round(&x, &noise, 8);
        assert_eq!(
            (of("one.done"), of("two.done"), of("two.i")),
            (vec![0.0], vec![1.0], vec![2.0]),
            "{name}"
        );
        assert_eq!(of("two"), known.c.concat(), "{name}");
        assert_eq!(of("two.d"), known.d, "{name}");
        assert_eq!(of("two.label"), known.label.iter().map(|&l| l as f64).collect::<Vec<f64>>(), "{name}");
    }
}

/// Rows of 12 groups far apart, all of which a report holds.
const GROUPS: &str = r#"
    "i": "reshape(arange(stop=168), shape=[168, 1])",
    "j": "arange(stop=6)",
    "g": "i % 12",
    "groups": "cast(g * (g + 5 * j) * 37 % 101, dtype=f32) / 2.0",
    "x": "groups + cast((i * i * 31 + j * 1013 + i * j * 7) % 257, dtype=f32) / 64.0",
"#;

#[test]
fn starts_are_different_rows_and_those_by_distance_are_better() {
    let starts = ["start_random", "start_plus", "start_parallel"];
    let calls = starts.map(|start| format!(r#""{start}.c": "{start}(x, k=12)","#)).concat();
    let nodes = format!("{GROUPS}{}", calls.replace(".c\"", "_c\""));
    let outputs = r#""x", "start_random_c", "start_plus_c", "start_parallel_c""#;
    let mut costs = [0.0; 3];
    for seed in 1..=6 {
        let of = run(&pipeline(seed, "", &nodes, outputs), (present::cpu(2), true)).unwrap();
        let x = rows(&of("x"), 6);
        for (sum, start) in costs.iter_mut().zip(starts) {
            let c = rows(&of(&format!("{start}_c")), 6);
            assert!(c.iter().all(|c| x.contains(c)), "{start}");
            assert!((0..12).all(|at| !c[..at].contains(&c[at])), "{start}");
            *sum += cost(&x, &c) / 6.0;
        }
    }
    let [random, plus, parallel] = costs;
    assert!(parallel <= plus && plus <= 0.7 * random, "{costs:?}");
}

/// Weights of 0 are never drawn, and others as often as they say.
#[test]
fn first_centres_follow_weights() {
    let n = 4000;
    let functions = r#""drawn": (inputs: ["before", "i", "x", "w"], output: "start_plus(x, w, k=2) + cast(i, dtype=f32) * 0.0"),"#;
    let nodes = format!(
        r#"
        "x": "reshape(cast(arange(stop=4) * arange(stop=4), dtype=f32), shape=[4, 1])",
        "w": "cast(arange(stop=4) * 5 % 4, dtype=f32)",
        "pairs": "drawn(zeros(shape=[2, 1]), arange(stop={n}), x, w, over=0)",
        "numbers": "cast(sqrt(reshape(pairs, shape=[{n}, 2])), dtype=i32)",
        "found": "bincount(select(numbers, axis=1, index=0) * 4 + select(numbers, axis=1, index=1), bins=16)",
        "#
    );
    let found = run(&pipeline(2, functions, &nodes, r#""found""#), (present::cpu(2), true)).unwrap()("found");
    let (x, w) = ([0.0, 1.0, 4.0, 9.0], [0.0, 1.0, 2.0, 3.0]);
    for (at, found) in found.into_iter().enumerate() {
        let [first, second] = [at / 4, at % 4];
        let d = |row: usize| w[row] * (x[row] - x[first]) * (x[row] - x[first]);
        let sum: f64 = (0..4).map(d).sum();
        let share = w[first] / 6.0 * d(second) / sum;
        let deviation = (f64::from(n) * share * (1.0 - share)).sqrt();
        let is_near = (found - f64::from(n) * share).abs() <= 4.5 * deviation;
        assert!(is_near, "{first}, {second}: {found} for {}", f64::from(n) * share);
    }
}

/// Lloyd's algorithm from first centres, and its number of steps.
fn lloyd(x: &[Vec<f64>], mut c: Rows) -> (Rows, usize) {
    for step in 1.. {
        let labels: Vec<usize> = x.iter().map(|row| nearest(row, &c).0).collect();
        let mean = |(label, old): (usize, &Vec<f64>)| {
            let own: Vec<&Vec<f64>> =
                x.iter().zip(&labels).filter(|(_, l)| **l == label).map(|(row, _)| row).collect();
            assert!(!own.is_empty(), "no cluster is empty");
            (0..old.len()).map(|j| own.iter().map(|row| row[j]).sum::<f64>() / own.len() as f64).collect()
        };
        let next: Rows = c.iter().enumerate().map(mean).collect();
        if next == c {
            return (c, step);
        }
        c = next;
    }
    unreachable!("the steps end")
}

/// Each start is one of three, and twelve starts have all of them.
#[test]
fn the_best_of_several_starts_is_kept() {
    let functions = r#""one_of_three": (
        inputs: {"x": "[N, D]"},
        attrs: {"k": Int},
        nodes: {"at": "cast(uniform(shape=[]) * 3.0, dtype=i32) * k"},
        output: "index_select(x, at + arange(stop=k))",
    ),"#;
    let nodes = r#"
        "i": "reshape(arange(stop=300), shape=[300, 1])",
        "j": "arange(stop=3)",
        "x": "cast((i * i * 31 + j * 1013 + i * j * 7) % 64 + i % 5 * 64, dtype=f32)",
        "fit": "kmeans(x, k=7, init=one_of_three, tol=0.0, nredo=12)",
        "inertia": "sum(fit.distance)",
    "#;
    let text = pipeline(1, functions, nodes, r#""x", "fit", "inertia", "fit.trips", "fit.done""#);
    for device in devices() {
        let name = device.0.info().name.clone();
        let of = run(&text, device).unwrap();
        let x = rows(&of("x"), 3);
        let fits: Vec<(Rows, usize)> =
            (0..3).map(|start| lloyd(&x, x[7 * start..7 * start + 7].to_vec())).collect();
        let mut costs: Vec<f64> = fits.iter().map(|(c, _)| cost(&x, c)).collect();
        let best = (0..3).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap();
        assert_near(&of("fit"), &fits[best].0.concat(), &name);
        assert_eq!((of("fit.trips"), of("fit.done")), (vec![fits[best].1 as f64], vec![1.0]), "{name}");
        assert!((of("inertia")[0] / costs[best] - 1.0).abs() < 1e-5, "{name}");
        costs.sort_by(f64::total_cmp);
        assert!(costs[1] > 1.01 * costs[0], "the starts differ: {costs:?}");
    }
}

/// The means of small clusters, by loops: the r-th of them moves to a row of a large one.
fn balanced(c: &Rows, counts: &[usize], x: &Rows, label: &[usize], u: &[f64]) -> Rows {
    let mean = x.len() as f64 / c.len() as f64;
    let mut large: Vec<usize> = (0..x.len()).filter(|&row| counts[label[row]] as f64 > mean).collect();
    large.sort_by_key(|&row| label[row]);
    let mut drawn = u.iter();
    let moved = |(own, &count): (&Vec<f64>, &usize)| {
        if count as f64 >= mean / 4.0 {
            return own.clone();
        }
        let row = large[(drawn.next().unwrap() * large.len() as f64) as usize];
        let w = count.min(7) as f64;
        let columns = c[label[row]].iter().zip(&x[row]);
        columns.map(|(c, x)| (w * c + x) / (w + 1.0)).collect()
    };
    c.iter().zip(counts).map(moved).collect()
}

#[test]
fn small_clusters_move_to_rows_of_large_ones() {
    let nodes = r#"
        "i": "arange(stop=340)",
        // Clusters 4 to 7 have 6, 10, 0 and 2 rows, and the mean is 42.5.
        "label": "where(i % 40 == 3, where(i > 90, 4, 5), where(i % 50 == 4, 5, where(i % 200 == 7, 7, i % 13 % 4)))",
        "x": "cast(reshape(i * i * 31 % 97, shape=[340, 1]) + arange(stop=3) * 5, dtype=f32)",
        "c": "cast(reshape(arange(stop=24) * 7 % 19, shape=[8, 3]), dtype=f32)",
        "counts": "bincount(label, bins=8)",
        "u": "cast(arange(stop=8) * 11 % 16, dtype=f32) / 16.0 + 0.03125",
        "found": "balanced_means(c, counts, x, label, u)",
        "even": "balanced_means(c, bincount(i % 8, bins=8), x, i % 8, u)",
    "#;
    let text = pipeline(1, "", nodes, r#""label", "x", "c", "counts", "u", "found", "even""#);
    for device in devices() {
        let name = device.0.info().name.clone();
        let of = run(&text, device).unwrap();
        let whole = |name: &str| of(name).iter().map(|&n| n as usize).collect::<Vec<usize>>();
        let (c, x) = (rows(&of("c"), 3), rows(&of("x"), 3));
        let expected = balanced(&c, &whole("counts"), &x, &whole("label"), &of("u"));
        assert_eq!(c.iter().zip(&expected).filter(|(c, new)| c != new).count(), 4, "four are small");
        assert_near(&of("found"), &expected.concat(), &name);
        assert_eq!(of("even"), of("c"), "{name}: none is small");
    }
}

/// Most rows lie in one group, and most first centres elsewhere.
#[test]
fn balanced_clusters_have_more_even_counts() {
    let nodes = r#"
        "i": "reshape(arange(stop=4000), shape=[4000, 1])",
        "far": "where(i < 40, 100.0, 0.0)",
        "x": "far * uniform(shape=[4000, 4]) + normal(shape=[4000, 4])",
        "plain": "kmeans(x, k=32, empty=\"keep\", most=30).counts",
        "even": "kmeans(x, k=32, empty=\"keep\", most=30, balanced=true).counts",
    "#;
    let of = run(&pipeline(1, "", nodes, r#""plain", "even""#), (present::cpu(2), true)).unwrap();
    let small = |name: &str| of(name).iter().filter(|&&count| count < 4000.0 / 32.0 / 4.0).count();
    assert!(small("even") * 4 <= small("plain"), "{} for {}", small("even"), small("plain"));
    assert_eq!(of("even").iter().sum::<f64>(), 4000.0);
}

#[test]
fn threads_change_no_bit_with_any_setting() {
    for call in [
        "kmeans(x, k=40, init=start_parallel, most=5)",
        "kmeans(x, k=40, nredo=3, most=5)",
        "kmeans(x, k=40, balanced=true, most=5)",
        "kmeans(x, k=40, sample=20, most=5)",
        "fast_kmeans(x, k=40, init=start_parallel, nredo=2, sample=20, balanced=true, most=5)",
    ] {
        let nodes = format!(r#""x": "normal(shape=[3000, 17])", "fit": "{call}","#);
        let outputs = r#""fit", "fit.label", "fit.distance", "fit.counts""#;
        let text = |seed| pipeline(seed, "", &nodes, outputs);
        let all = |n_threads, seed| {
            let of = run(&text(seed), (present::cpu(n_threads), true)).unwrap();
            ["fit", "fit.label", "fit.distance", "fit.counts"].map(of)
        };
        let one = all(1, 3);
        assert_eq!(one, all(2, 3), "{call}");
        assert_ne!(one, all(2, 4), "{call}: the seed decides");
    }
}

/// With one row of the sample for each centre, the centres are these rows.
#[test]
fn a_sample_gives_the_centres_of_all_rows() {
    let nodes = r#"
        "x": "cast(reshape(arange(stop=900) * 7919 % 499, shape=[300, 3]), dtype=f32)",
        "few": "kmeans(x, k=20, sample=1)",
        "fit": "kmeans(x, k=20, sample=5)",
        "all": "kmeans(x, k=20, sample=15, tol=0.0)",
    "#;
    let outputs =
        r#""x", "few", "fit", "fit.label", "fit.distance", "fit.counts", "all", "all.label", "all.done""#;
    for device in devices() {
        let name = device.0.info().name.clone();
        let of = run(&pipeline(4, "", nodes, outputs), device).unwrap();
        let x = rows(&of("x"), 3);
        let few = rows(&of("few"), 3);
        assert!(few.iter().all(|c| x.contains(c)), "{name}");
        assert!((1..20).all(|at| !few[..at].contains(&few[at])), "{name}");
        let c = rows(&of("fit"), 3);
        let (label, distance) = (of("fit.label"), of("fit.distance"));
        for (at, row) in x.iter().enumerate() {
            let (_, least) = nearest(row, &c);
            let own = squared(row, &c[label[at] as usize]);
            assert!(own <= 1.01 * least + 0.5, "{name}: {own} for {least}");
            assert_near(&[distance[at]], &[own], &name);
        }
        assert_eq!(of("fit.counts").iter().sum::<f64>(), 300.0);
        // The sample is all rows, so the centres are their means.
        let of_all = of("all.label");
        let means = (0..20).flat_map(|label| {
            let own: Vec<&Vec<f64>> =
                x.iter().zip(&of_all).filter(|(_, l)| **l == f64::from(label)).map(|(row, _)| row).collect();
            (0..3).map(move |j| own.iter().map(|row| row[j]).sum::<f64>() / own.len() as f64)
        });
        assert_near(&of("all"), &means.collect::<Vec<f64>>(), &name);
        assert_eq!(of("all.done"), [1.0], "{name}");
    }
}

#[test]
fn centres_without_a_row_are_refused_or_infinitely_far() {
    for setting in ["", ", init=start_parallel", ", init=start_random", ", nredo=2", ", sample=3"] {
        let nodes = format!(r#""x": "uniform(shape=[5, 3])", "fit": "kmeans(x, k=8{setting})","#);
        let error = Engine::new().read("few.ron", &pipeline(1, "", &nodes, r#""fit""#)).expect_err(setting);
        assert!(error.to_string().contains("k = 8 from 5 elements"), "{error}");
        let nodes = nodes.replace("k=8", "k=8, pad=true");
        let outputs = r#""x", "fit", "fit.counts", "fit.label""#;
        for device in devices() {
            let name = format!("{setting} on {}", device.0.info().name);
            let of = run(&pipeline(1, "", &nodes, outputs), device).unwrap();
            let (c, x) = (rows(&of("fit"), 3), rows(&of("x"), 3));
            assert!(c[5..].iter().flatten().all(|&c| c == f64::INFINITY), "{name}");
            let own: Rows = of("fit.label").iter().map(|&label| c[label as usize].clone()).collect();
            assert_near(&own.concat(), &x.concat(), &name);
            assert_eq!(of("fit.counts"), [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0], "{name}");
        }
    }
}

#[test]
fn a_row_that_is_no_number_is_named_with_any_setting() {
    let index = "index -1 at position 37 is not in 0..6";
    for (setting, message) in [
        ("", index),
        (", init=start_parallel", index),
        (", nredo=2", index),
        (", balanced=true", index),
        (", sample=2", "the condition at position 37 does not hold"),
    ] {
        let nodes = format!(
            r#""n": "reshape(arange(stop=90), shape=[90, 1])",
               "x": "where(n == 37, full(shape=[90, 3], value=nan), uniform(shape=[90, 3]))",
               "fit": "kmeans(x, k=6{setting})","#
        );
        for device in devices() {
            let error = run(&pipeline(1, "", &nodes, r#""fit", "fit.label""#), device).err().unwrap();
            assert!(error.contains(message), "{setting}: {error}");
        }
    }
}

#[test]
fn heads_start_by_squared_distances() {
    let nodes = |k: usize, rows: &str| {
        let calls = ["start_heads", "start_plus_heads"].map(|start| {
            format!(
                r#""{start}_fit": "kmeans_heads(x, k={k}, init={start}, most=1)",
                   "{start}_sums": "sum({start}_fit.distance, axis=1)","#
            )
        });
        format!("{rows}{}", calls.concat())
    };
    let groups = r#"
        "i": "reshape(arange(stop=600), shape=[1, 600, 1])",
        "h": "reshape(arange(stop=3), shape=[3, 1, 1])",
        "g": "(i + h) % 6 * 40",
        "x": "cast(g * (h + 1) % 170 + i * i * 31 % 11, dtype=f32) + zeros(shape=[3, 600, 2])",
    "#;
    let outputs = r#""start_heads_sums", "start_plus_heads_sums", "start_plus_heads_fit.counts""#;
    let [mut random, mut plus] = [0.0; 2];
    for seed in 1..=4 {
        let of = run(&pipeline(seed, "", &nodes(6, groups), outputs), (present::cpu(2), true)).unwrap();
        random += of("start_heads_sums").iter().sum::<f64>();
        plus += of("start_plus_heads_sums").iter().sum::<f64>();
    }
    assert!(plus < random, "{plus} for {random}");
    let equal = r#""x": "full(shape=[2, 9, 3], value=0.7)","#;
    let column = r#""x": "reshape(cast(arange(stop=18) * 7 % 19, dtype=f32), shape=[2, 9, 1])","#;
    for (k, rows) in [(1, equal), (4, equal), (9, equal), (9, column)] {
        for device in devices() {
            let name = format!("{k} on {}", device.0.info().name);
            let of = run(&pipeline(1, "", &nodes(k, rows), outputs), device).unwrap();
            assert_near(&of("start_heads_sums"), &[0.0; 2], &name);
            assert_near(&of("start_plus_heads_sums"), &[0.0; 2], &name);
            let counts = of("start_plus_heads_fit.counts");
            assert!(counts.chunks(k).all(|counts| counts.iter().sum::<f64>() == 9.0), "{name}");
        }
    }
}

#[test]
fn an_empty_cluster_is_an_error_with_its_number() {
    let nodes = r#""x": "full(shape=[9, 3], value=1.0)",
        "fit": "kmeans(x, k=3, init=start_random, empty=\"error\")","#;
    for device in devices() {
        let error = run(&pipeline(1, "", nodes, r#""fit""#), device).err().unwrap();
        let message = "each_cluster_has_rows`: the condition at position 1 does not hold";
        assert!(error.contains(message), "{error}");
    }
}
