//! Sums and means by label, and k-means, on every device that is present.

use crate::present;
use crate::run::run;
use crate::ways::devices;
use engine::Engine;
use engine::core::compile::{Options, compile};
use engine::core::device_model::DeviceModel;
use engine::core::pipeline::RunStage;
use engine::core::stage;
use engine::runtime::device::DeviceKind;

mod labels;
mod scales;

/// Rows of small whole numbers with labels of which some have no row.
struct Case {
    heads: usize,
    rows: usize,
    width: usize,
    labels: usize,
}

impl Case {
    fn x(&self, head: usize, row: usize, column: usize) -> f64 {
        (((head * self.rows + row) * self.width + column) * 7919 % 23) as f64
    }

    fn weight(&self, head: usize, row: usize) -> f64 {
        ((head * self.rows + row) * 31 % 4) as f64
    }

    /// Only the lower labels of each second head have rows.
    fn label(&self, head: usize, row: usize) -> usize {
        let row = row % 1000;
        (row * row * 13 + head) % self.labels.div_ceil(2 - head % 2)
    }

    fn c(&self, label: usize, column: usize) -> f64 {
        (label * 3 + column) as f64
    }

    fn text(&self, call: &str) -> String {
        let Case { heads, rows, width, labels } = self;
        format!(
            r#"(
                dims: {{"H": {heads}, "N": {rows}, "D": {width}, "K": {labels}}},
                nodes: {{
                    "x": "reshape(cast(arange(stop=H * N * D) * 7919 % 23, dtype=f32), shape=[H, N, D])",
                    "w": "reshape(cast(arange(stop=H * N) * 31 % 4, dtype=f32), shape=[H, N])",
                    "i": "reshape(arange(stop=N), shape=[1, N]) % 1000",
                    "h": "reshape(arange(stop=H), shape=[H, 1])",
                    "most": "(K + 1 - h % 2) / (2 - h % 2)",
                    "label": "(i * i * 13 + h) % most",
                    "one": "reshape(arange(stop=K), shape=[K, 1]) * 3 + arange(stop=D)",
                    "c": "cast(one, dtype=f32) + zeros(shape=[H, K, D])",
                    "found": "{call}",
                    "means": "found * 1.0",
                    "counts": "found.counts",
                }},
                stages: {{"go": Run(outputs: ["means", "counts"])}},
            )"#
        )
    }

    /// Means and counts of a head, by loops in double precision.
    fn expected(&self, head: usize, rule: &str, is_weighted: bool) -> (Vec<Vec<f64>>, Vec<f64>) {
        let weight = |row: usize| if is_weighted { self.weight(head, row) } else { 1.0 };
        let mut means = vec![];
        let (mut counts, mut totals) = (vec![], vec![]);
        for label in 0..self.labels {
            let own: Vec<usize> = (0..self.rows).filter(|&row| self.label(head, row) == label).collect();
            let total: f64 = own.iter().map(|&row| weight(row)).sum();
            let mean = |column: usize| match total > 0.0 {
                true => own.iter().map(|&row| weight(row) * self.x(head, row, column)).sum::<f64>() / total,
                false => self.c(label, column),
            };
            means.push((0..self.width).map(mean).collect::<Vec<f64>>());
            counts.push(own.len() as f64);
            totals.push(total);
        }
        let empty: Vec<usize> = (0..self.labels).filter(|&label| totals[label] == 0.0).collect();
        let distance = |row: usize| match weight(row) > 0.0 {
            true => (0..self.width)
                .map(|column| (self.x(head, row, column) - self.c(self.label(head, row), column)).powi(2))
                .sum(),
            false => -1.0,
        };
        if rule == "farthest" {
            let mut far: Vec<usize> = (0..self.rows).collect();
            far.sort_by(|&a, &b| distance(b).total_cmp(&distance(a)));
            for (&label, &row) in empty.iter().zip(&far) {
                means[label] = (0..self.width).map(|column| self.x(head, row, column)).collect();
            }
        }
        if rule == "split" {
            let mut heavy: Vec<usize> = (0..self.labels).filter(|&label| totals[label] > 0.0).collect();
            heavy.sort_by(|&a, &b| totals[b].total_cmp(&totals[a]));
            for (&label, &other) in empty.iter().zip(&heavy) {
                let moved = |sign: f64| {
                    let signs = [sign, -sign].into_iter().cycle();
                    let columns = means[other].iter().zip(signs);
                    columns.map(|(m, sign)| m * (1.0 + sign / 1024.0)).collect::<Vec<f64>>()
                };
                (means[label], means[other]) = (moved(1.0), moved(-1.0));
            }
        }
        (means, counts)
    }

    fn check(&self, rule: &str, is_weighted: bool) {
        let operands = if is_weighted { "x, label, c, w" } else { "x, label, c" };
        let text = self.text(&format!("segment_mean({operands}, empty=\\\"{rule}\\\")"));
        let heads = (0..self.heads).map(|head| self.expected(head, rule, is_weighted));
        let (means, counts): (Vec<_>, Vec<_>) = heads.unzip();
        let (means, counts) = (means.concat().concat(), counts.concat());
        for device in devices() {
            let name =
                format!("{rule}, weights {is_weighted}, on {}, fused {}", device.0.info().name, device.1);
            let of = run(&text, device).unwrap();
            // A report has the first elements of a large value.
            let counted = of("counts");
            assert!(counted.len() >= counts.len().min(1024), "{name}");
            assert_eq!(counted, counts[..counted.len()], "{name}");
            for (at, (found, expected)) in of("means").iter().zip(&means).enumerate() {
                let is_near = (found - expected).abs() <= 4e-7 * expected.abs();
                assert!(is_near, "{name}, at {at}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn means_by_label_are_those_of_loops_on_every_device() {
    let sizes = [[1, 1, 1, 1], [1, 1, 3, 5], [1, 90, 1, 7], [2, 300, 5, 20], [3, 4, 2, 9]];
    for [heads, rows, width, labels] in sizes {
        for rule in ["keep", "farthest", "split"] {
            for is_weighted in [false, true] {
                Case { heads, rows, width, labels }.check(rule, is_weighted);
            }
        }
    }
}

/// Blocks count in shared memory: all elements of the result, or those of one head.
#[test]
fn many_rows_of_few_labels_are_counted() {
    for [heads, rows, labels] in [[1, 70_000, 9], [4, 65_537, 520]] {
        Case { heads, rows, width: 1, labels }.check("keep", false);
    }
}

/// Rounded sums, where the order shows.
#[test]
fn deterministic_sums_by_label_have_the_same_bits_on_every_device() {
    let text = r#"(
        seed: 5,
        deterministic: true,
        nodes: {
            "x": "uniform(shape=[5000, 6])",
            "label": "cast(uniform(shape=[5000]) * 37.0, dtype=i32)",
            "found": "segment_sum(x, label, segments=37)",
            "sums": "found * 1.0",
            "counts": "found.counts",
            "back": "segment_sum(flip(x, axis=[0]), flip(label, axis=[0]), segments=37) * 1.0",
        },
        stages: {"go": Run(outputs: ["sums", "counts", "back"])},
    )"#;
    let mut known: Option<Vec<f64>> = None;
    for device in devices() {
        let of = run(text, device).unwrap();
        assert_eq!(of("counts").iter().sum::<f64>(), 5000.0);
        let sums = of("sums");
        assert_ne!(sums, of("back"), "the order shows");
        assert_eq!(*known.get_or_insert(sums.clone()), sums);
    }
}

/// Rows of 12 groups far apart, as in `tests/examples/clusters.py`.
const ROWS: &str = r#"
    "i": "reshape(arange(stop=2000), shape=[2000, 1])",
    "j": "arange(stop=6)",
    "g": "i % 12",
    "groups": "cast(g * (g + 5 * j) * 37 % 101, dtype=f32) / 2.0",
    "x": "groups + cast((i * i * 31 + j * 1013 + i * j * 7) % 257, dtype=f32) / 64.0",
"#;

/// The least cost of three runs of scikit-learn 1.9.1 on these rows: `python tests/examples/clusters.py`.
const SCIKIT_LEARN: f64 = 16634.641485021246;

/// A pipeline that groups rows `x` of these nodes.
fn grouped(seed: usize, rows: &str, call: &str) -> String {
    format!(
        r#"(
            seed: {seed},
            nodes: {{
                {rows}
                "fit": "{call}",
                "c": "fit * 1.0",
                "label": "fit.label",
                "cost": "sum(fit.distance)",
                "counts": "fit.counts",
                "trips": "fit.trips",
                "is_done": "fit.done",
            }},
            stages: {{"go": Run(outputs: ["c", "label", "cost", "counts", "trips", "is_done"])}},
        )"#
    )
}

#[test]
fn kmeans_costs_no_more_than_scikit_learn() {
    let costs: Vec<f64> = (1..=3)
        .map(|seed| {
            let text = grouped(seed, ROWS, "kmeans(x, k=12, tol=0.0)");
            let of = run(&text, (present::cpu(2), true)).unwrap();
            assert_eq!((of("is_done"), of("counts").iter().sum()), (vec![1.0], 2000.0));
            of("cost")[0]
        })
        .collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least <= 1.005 * SCIKIT_LEARN, "{costs:?}");
}

/// Squared distances of these rows are beyond the range of f16, and the squared limit of a step is below it.
#[test]
fn halves_are_grouped_by_distances_of_f32() {
    for init in ["start_plus", "start_greedy", "start_parallel", "start_random"] {
        let of_type = |dtype: &str| {
            let rows = format!(r#"{}"halves": "cast(40.0 * x, dtype={dtype})","#, ROWS);
            let text = grouped(1, &rows, &format!("kmeans(halves, k=12, init={init})"));
            run(&text, (present::cpu(2), true)).unwrap()
        };
        let [halves, wide] = ["f16", "f32"].map(of_type);
        assert_eq!(halves("is_done"), vec![1.0], "{init}");
        let [cost, expected] = [halves("cost")[0], wide("cost")[0]];
        assert!(cost.is_finite() && cost <= 1.5 * expected, "{init}: {cost} for {expected}");
    }
}

/// The products of these rows are exact, so devices group them alike.
#[test]
fn rows_are_grouped_alike_on_every_device() {
    let text = grouped(1, ROWS, "kmeans(x, k=12, init=start_random, tol=0.0)");
    let mut known: Option<[Vec<f64>; 4]> = None;
    for (device, fuse) in devices() {
        let name = format!("{} fused {fuse}", device.info().name);
        let of = run(&text, (device, fuse)).unwrap();
        let found = ["c", "label", "counts", "trips"].map(&of);
        let [c, label, ..] = known.get_or_insert(found.clone());
        assert_eq!(&found[1], label, "{name}");
        // Quotients of a GPU may be rounded in another way.
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 2e-6 * b.abs();
        assert!(found[0].iter().zip(c.iter()).all(is_near), "{name}");
    }
}

#[test]
fn threads_change_no_bit_of_the_centres() {
    let rows = r#""x": "uniform(shape=[3000, 17])","#;
    let text = grouped(3, rows, "kmeans(x, k=300, most=5)");
    let [one, two] = [1, 2].map(|n_threads| {
        let of = run(&text, (present::cpu(n_threads), true)).unwrap();
        [of("c"), of("label"), of("cost"), of("counts")]
    });
    assert_eq!(one, two);
    assert_eq!(one[3].iter().sum::<f64>(), 3000.0);
    assert!(one[3].iter().all(|&n| n > 0.0), "the farthest rows fill empty clusters");
}

#[test]
fn few_and_equal_rows_are_grouped() {
    let numbers = |n: usize, width: usize| {
        format!(
            r#""x": "reshape(cast(arange(stop={n} * {width}) * 7919 % 101, dtype=f32), shape=[{n}, {width}])","#
        )
    };
    let value = |i: usize| (i * 7919 % 101) as f64;
    let mean = (0..20).map(value).sum::<f64>() / 20.0;
    let variance = (0..20).map(|i| (value(i) - mean).powi(2)).sum::<f64>();
    let equal = r#""x": "full(shape=[50, 3], value=0.7)","#.to_owned();
    let cases = [
        ("equal rows", equal.clone(), 5, 0.0),
        ("one of each", numbers(40, 3), 40, 0.0),
        ("one centre", numbers(20, 1), 1, variance),
        ("a column", numbers(60, 1), 60, 0.0),
        ("one row", numbers(1, 4), 1, 0.0),
        ("as many as equal rows", equal, 50, 0.0),
    ];
    let mut number = 0;
    for (name, rows, k, cost) in cases {
        for start in ["start_plus", "start_random", "start_greedy", "start_parallel"] {
            for rule in ["keep", "farthest", "split"] {
                let call = format!("kmeans(x, k={k}, init={start}, empty=\\\"{rule}\\\", tol=0.0, most=50)");
                number += 1;
                // GPUs compile for longer than they compute, so they take one case in five.
                let is_taken = |kind: DeviceKind| kind == DeviceKind::Cpu || number % 5 == 0;
                for device in devices().into_iter().filter(|(device, _)| is_taken(device.info().kind)) {
                    let name = format!("{name}, {start}, {rule}, {}", device.0.info().name);
                    let of = run(&grouped(1, &rows, &call), device).unwrap();
                    // Halves of a mean are 2⁻¹⁰ apart from it.
                    let allowed = if rule == "split" { 0.002 } else { 1e-5 };
                    let is_near = (of("cost")[0] - cost).abs() <= allowed * (1.0 + cost);
                    assert!(is_near, "{name}: {} for {cost}", of("cost")[0]);
                    assert!(of("c").iter().all(|c| c.is_finite()), "{name}");
                }
            }
        }
    }
}

#[test]
fn rows_that_cannot_be_grouped_are_refused() {
    for start in ["start_plus", "start_random"] {
        let text = grouped(1, r#""x": "uniform(shape=[5, 3])","#, &format!("kmeans(x, k=6, init={start})"));
        let error = Engine::new().read("few.ron", &text).expect_err(start).to_string();
        assert!(error.contains("k = 6 from 5 elements"), "{error}");
    }
    for bad in ["nan", "inf"] {
        let rows = format!(
            r#""u": "uniform(shape=[9, 3])", "n": "reshape(arange(stop=9), shape=[9, 1])",
               "x": "where(n == 7, full(shape=[9, 3], value={bad}), u)","#
        );
        for device in devices() {
            let text = grouped(1, &rows, "kmeans(x, k=2, init=start_random)");
            let error = run(&text, device).err().unwrap_or_else(|| panic!("{bad} is grouped"));
            assert!(error.contains("index -1 at position 7 is not in 0..2"), "{error}");
        }
    }
    let text = grouped(
        1,
        r#""x": "full(shape=[9, 3], value=1.0)","#,
        "kmeans(x, k=3, init=start_random, empty=\\\"error\\\")",
    );
    let error = run(&text, devices().remove(0)).err().unwrap();
    assert!(error.contains("the condition at position 1 does not hold"), "{error}");
}

#[test]
fn heads_are_grouped_each_by_itself() {
    let text = r#"(
        dims: {"H": 3, "N": 200, "K": 5, "D": 4},
        nodes: {
            "x": "reshape(cast(arange(stop=H * N * D) * 7919 % 499, dtype=f32), shape=[H, N, D])",
            "fit": "kmeans_step(slice(x, axis=1, stop=K), x, zeros(shape=[H]), until=done, most=60)",
            "c": "fit * 1.0",
            "last": "select(x, axis=0, index=2)",
            "one": "kmeans_step(slice(last, axis=0, stop=K), last, zeros(shape=[]), until=done, most=60)",
            "of_one": "one * 1.0",
            "done": "fit.done",
            "all": "kmeans_heads(x, k=K)",
            "whole": "x - mean(x, axis=1, keepdim=true)",
            "sizes": "sum(square(whole), axis=2)",
            "shares": "sum(all.distance, axis=1) / sum(sizes, axis=1)",
            "counts": "all.counts",
            "again": "mean(all.distance - sum(square(x - batch_gather(all * 1.0, assign_l2(x, all * 1.0))), axis=2))",
        },
        stages: {"go": Run(outputs: ["c", "of_one", "done", "shares", "counts", "again"])},
    )"#;
    for device in devices() {
        let of = run(text, device).unwrap();
        assert_eq!(of("done"), [1.0]);
        assert_eq!(of("c")[2 * 5 * 4..], of("of_one"));
        assert!(of("shares").iter().all(|share| (0.05..0.8).contains(share)), "{:?}", of("shares"));
        assert!(of("counts").chunks(5).all(|counts| counts.iter().sum::<f64>() == 200.0));
        assert_eq!(of("again"), [0.0]);
    }
}

#[test]
fn other_metrics_assign_by_their_products() {
    let text = r#"(
        nodes: {
            "x": "reshape(sin(cast(arange(stop=300), dtype=f32) * 1.7), shape=[100, 3])",
            "c": "reshape(cos(cast(arange(stop=12), dtype=f32) * 2.3) * cast(arange(stop=12) + 1, dtype=f32), shape=[4, 3])",
            "ip": "assign_ip(x, c)",
            "cosine": "assign_cosine(x, c)",
            "l2": "assign_l2(x, c)",
            "spherical": "kmeans(l2_normalize(x), k=4, assign=assign_cosine)",
            "lengths": "sqrt(sum(square(spherical * 1.0), axis=1))",
        },
        stages: {"go": Run(outputs: ["x", "c", "ip", "cosine", "l2", "lengths"])},
    )"#;
    for device in devices() {
        let of = run(text, device).unwrap();
        let (x, c) = (of("x"), of("c"));
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (row, x) in x.chunks(3).enumerate() {
            let best = |score: &dyn Fn(&[f64]) -> f64| {
                let scores: Vec<f64> = c.chunks(3).map(score).collect();
                (0..4).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap() as f64
            };
            assert_eq!(of("ip")[row], best(&|c| product(x, c)));
            assert_eq!(of("cosine")[row], best(&|c| product(x, c) / product(c, c).sqrt()));
            assert_eq!(of("l2")[row], best(&|c| 2.0 * product(x, c) - product(c, c)));
        }
        assert!(of("lengths").iter().all(|length| *length <= 1.0 + 1e-6));
    }
}

/// Each pair of first centres as often as its law says: of four rows, one at random, and another one by squared distance.
#[test]
fn first_centres_follow_squared_distances() {
    let n = 4000;
    let text = format!(
        r#"(
            seed: 2,
            functions: {{
                "drawn": (inputs: ["before", "i", "x"], output: "start_plus(x, k=2) + cast(i, dtype=f32) * 0.0"),
            }},
            nodes: {{
                "x": "reshape(cast(arange(stop=4) * arange(stop=4), dtype=f32), shape=[4, 1])",
                "pairs": "drawn(zeros(shape=[2, 1]), arange(stop={n}), x, over=0)",
                "numbers": "cast(sqrt(reshape(pairs, shape=[{n}, 2])), dtype=i32)",
                "found": "bincount(select(numbers, axis=1, index=0) * 4 + select(numbers, axis=1, index=1), bins=16)",
            }},
            stages: {{"go": Run(outputs: ["found"])}},
        )"#
    );
    let found = run(&text, (present::cpu(2), true)).unwrap()("found");
    let x = [0.0, 1.0, 4.0, 9.0];
    for (at, found) in found.into_iter().enumerate() {
        let [first, second] = [x[at / 4], x[at % 4]];
        let sum: f64 = x.iter().map(|x| (x - first) * (x - first)).sum();
        let share = 0.25 * (second - first) * (second - first) / sum;
        let deviation = (f64::from(n) * share * (1.0 - share)).sqrt();
        let is_near = (found - f64::from(n) * share).abs() <= 4.5 * deviation;
        assert!(is_near, "{first}, {second}: {found} for {}", f64::from(n) * share);
    }
}

#[test]
fn means_that_follow_rows_become_the_mean_of_all() {
    let text = r#"(
        params: {"c": (type: "f32[3, 2]", state: true), "n": (type: "i32[3]", state: true)},
        nodes: {
            "i": "arange(stop=70)",
            "x": "reshape(cast(arange(stop=140) * 7919 % 101, dtype=f32) + cast(step, dtype=f32), shape=[70, 2])",
            "moved": "online_means(c, n, x, i * i % 3)",
            "next": "moved * 1.0",
            "count": "moved.n",
        },
        stages: {"follow": Run(state: {"c": "next", "n": "count"}, steps: 5, outputs: ["next", "count"])},
    )"#;
    for device in devices() {
        let of = run(text, device).unwrap();
        for label in 0..3 {
            let rows =
                (0..5).flat_map(|step| (0..70).map(move |i| (step, i))).filter(|(_, i)| i * i % 3 == label);
            let rows: Vec<(usize, usize)> = rows.collect();
            assert_eq!(of("count")[label], rows.len() as f64);
            for column in 0..2 {
                let value = |&(step, i): &(usize, usize)| ((2 * i + column) * 7919 % 101 + step) as f64;
                let mean = rows.iter().map(value).sum::<f64>() / rows.len().max(1) as f64;
                let found = of("next")[2 * label + column];
                assert!((found - mean).abs() <= 1e-5 * mean.abs(), "{found} for {mean}");
            }
        }
    }
}

/// Neither the scores of all pairs nor anything else of their number is a tensor in memory.
#[test]
fn scores_of_pairs_are_not_stored() {
    let rows = |shape: &str, dtype: &str| format!(r#""x": "cast(uniform(shape={shape}), dtype={dtype})","#);
    for (shape, dtype, call) in [
        ("[3000, 16]", "f32", "kmeans(x, k=512)"),
        ("[3000, 16]", "f32", "kmeans(x, k=512, assign=assign_ip)"),
        ("[3000, 16]", "bf16", "kmeans(x, k=512, assign=assign_cosine)"),
        ("[2, 1500, 16]", "f32", "kmeans_heads(x, k=512)"),
        ("[2, 1500, 16]", "f16", "kmeans_heads(x, k=512)"),
    ] {
        let program = Engine::new()
            .read("kmeans.ron", &grouped(1, &rows(shape, dtype), call))
            .unwrap_or_else(|errors| panic!("{errors}"));
        let stage: &RunStage = program.pipeline.stages.iter().find_map(|stage| stage.get()).unwrap();
        let graph = stage::running(&program.pipeline, stage, &program.registry).unwrap();
        for device in [DeviceModel::CPU, DeviceModel::H200] {
            let compiled = compile(&graph, &program.registry, &Options { device, ..Options::default() });
            let kernels = compiled.all_kernels();
            let folds = kernels.iter().filter(|(kernel, _)| kernel.body_text().contains("as it is computed"));
            assert_eq!(folds.count(), 2, "{call}: in the loop, and behind it");
            for (kernel, _) in kernels {
                let largest = kernel.operands.iter().map(|operand| operand.ty.numel()).max().unwrap();
                assert!(largest <= 3000 * 16, "{call}: {largest} in\n{}", kernel.body_text());
            }
        }
    }
}
