//! Ragged results on every device that is present, beside plain loops in double precision.

use crate::offline;
use crate::ways::devices;
use engine::core::compile::Options;
use engine::core::diag::Code;
use engine::core::ir::Symbol;
use engine::runtime::device::Device;
use engine::runtime::diagnostic::Coded;
use indexmap::IndexMap;
use std::sync::Arc;

/// The outputs of a graph of these nodes, `"name": "expression"` each, on one device.
fn run<const N: usize>(
    nodes: &[(&str, String)],
    outputs: [&str; N],
    (device, fuse): &(Arc<dyn Device>, bool),
) -> [Vec<f64>; N] {
    let nodes: String = nodes.iter().map(|(name, call)| format!("\"{name}\": \"{call}\",\n")).collect();
    let named = outputs.map(|name| format!("\"{name}\"")).join(", ");
    let text = format!("(nodes: {{\n{nodes}}}, stages: {{\"go\": Run(outputs: [{named}])}})");
    let options = Options { fuse: *fuse, ..Options::default() };
    let session = offline::session(&text, Arc::clone(device), options);
    let found = session.run(&outputs.map(Symbol::from), &IndexMap::new());
    let found = found.unwrap_or_else(|error| panic!("{error}\n{text}"));
    outputs.map(|name| found[name].to_f64())
}

/// Where the rows of flags begin, and the columns that are set.
fn listed(flags: &[f64], n_columns: usize, cap: usize) -> [Vec<f64>; 3] {
    let (mut lims, mut ids, mut rows) = (vec![0.0], vec![], vec![]);
    for (row, flags) in flags.chunks(n_columns.max(1)).enumerate() {
        let found = (0..flags.len()).filter(|&column| flags[column] != 0.0);
        ids.extend(found.map(|column| column as f64));
        rows.resize(ids.len(), row as f64);
        lims.push(ids.len() as f64);
    }
    ids.resize(cap, -1.0);
    rows.resize(cap, -1.0);
    [lims, ids, rows]
}

#[test]
fn flags_are_listed_row_by_row() {
    let cases = [
        ([1, 1], 1.0, 1),
        ([1, 31], 0.5, 31),
        ([3, 33], 0.5, 99),
        ([7, 64], 0.0, 3),
        ([5, 40], 1.0, 200),
        ([100, 7], 0.1, 200),
        ([11, 1000], 0.02, 400),
        // More words than one scan takes.
        ([3, 70_001], 0.001, 400),
        ([1500, 100], 0.01, 2000),
        ([1, 131_072], 1.0, 131_072),
        ([1, 131_073], 1.0, 131_073),
    ];
    for ([n_rows, n_columns], share, cap) in cases {
        let nodes = [
            ("flags", format!("uniform(shape=[{n_rows}, {n_columns}]) < {share:.4}")),
            ("found", format!("compact(flags, cap={cap})")),
        ];
        for device in devices() {
            let outputs = ["flags", "found", "found.ids", "found.rows"];
            let [flags, lims, ids, rows] = run(&nodes, outputs, &device);
            let expected = listed(&flags, n_columns, cap);
            assert_eq!(
                [lims, ids, rows],
                expected,
                "{n_rows}x{n_columns} of {share} on {}",
                device.0.info().name
            );
        }
    }
}

#[test]
fn limits_alone_have_no_capacity() {
    let nodes =
        [("flags", "uniform(shape=[9, 50]) < 0.5".to_owned()), ("found", "compact(flags, cap=0)".to_owned())];
    for device in devices() {
        let [flags, lims] = run(&nodes, ["flags", "found"], &device);
        assert_eq!(lims, listed(&flags, 50, 450)[0]);
    }
}

#[test]
fn results_without_room_are_an_error_on_every_device() {
    for call in ["compact(x >= 500, cap=1499)", "nonzero(x >= 500, cap=1499)", "unique(x + 500, cap=1499)"] {
        for (device, fuse) in devices() {
            let text = format!(
                "(nodes: {{\"x\": \"minimum(arange(stop=2000), 1499 + 500)\", \"y\": \"{call}\"}}, \
                 stages: {{\"go\": Run(outputs: [\"y\"])}})"
            );
            let text = if call.contains("unique") { text.replace("1499 + 500", "1499") } else { text };
            let options = Options { fuse, ..Options::default() };
            let error = offline::session(&text, device, options).run_stages(None, &mut |_| {}).unwrap_err();
            assert_eq!(error.code(), Some(Code::E0612), "{error}");
            let expected = "it needs room for 1,500 results and has room for 1,499";
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

#[test]
fn positions_and_elements_of_masks_are_listed() {
    for [n_rows, n_columns] in [[1, 1], [30, 70], [3, 50_000]] {
        let cap = n_rows * n_columns;
        let nodes = [
            ("u", format!("uniform(shape=[{n_rows}, {n_columns}])")),
            ("x", "where(u < 0.7, 0.0, u)".to_owned()),
            ("at", format!("nonzero(x, cap={cap})")),
            ("chosen", format!("masked_select(u, x > 0.8, cap={cap})")),
        ];
        for device in devices() {
            let outputs = ["u", "x", "at", "at.count", "chosen", "chosen.count"];
            let [u, x, at, count, chosen, chosen_count] = run(&nodes, outputs, &device);
            let mut expected: Vec<f64> = (0..cap)
                .filter(|&i| x[i] != 0.0)
                .flat_map(|i| [(i / n_columns) as f64, (i % n_columns) as f64])
                .collect();
            assert_eq!(count, [expected.len() as f64 / 2.0]);
            expected.resize(2 * cap, -1.0);
            assert_eq!(at, expected, "{n_rows}x{n_columns} on {}", device.0.info().name);
            let mut expected: Vec<f64> = (0..cap).filter(|&i| x[i] > 0.8).map(|i| u[i]).collect();
            assert_eq!(chosen_count, [expected.len() as f64]);
            expected.resize(cap, 0.0);
            assert_eq!(chosen, expected, "{n_rows}x{n_columns} on {}", device.0.info().name);
        }
    }
}

#[test]
fn distinct_elements_are_listed_with_counts_and_places() {
    for (n, x) in [
        (1, "u"),
        (100, "u"),
        (1000, "round(20.0 * u)"),
        (1000, "0.0 * u + 3.0"),
        (500, "where(u < 0.2, 0.0 * u / 0.0, where(u < 0.4, -0.0 * u, round(9.0 * u)))"),
        (700, "cast(9.0 * u, dtype=i32) - 4"),
    ] {
        let nodes = [
            ("u", format!("uniform(shape=[{n}])")),
            ("x", x.to_owned()),
            ("found", format!("unique(x, cap={n})")),
        ];
        for device in devices() {
            let outputs = ["x", "found", "found.inverse", "found.counts", "found.count"];
            let [x, values, inverse, counts, count] = run(&nodes, outputs, &device);
            let name = &device.0.info().name;
            let is_same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
            let mut sorted = x.clone();
            sorted.sort_by(|a, b| {
                a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))
            });
            let mut expected: Vec<(f64, f64)> = vec![];
            for value in sorted {
                match expected.last_mut() {
                    Some(last) if is_same(last.0, value) => last.1 += 1.0,
                    _ => expected.push((value, 1.0)),
                }
            }
            assert_eq!(count, [expected.len() as f64], "{name}");
            expected.resize(n, (0.0, 0.0));
            for (at, &(value, number)) in expected.iter().enumerate() {
                assert!(is_same(values[at], value) && counts[at] == number, "{name}, value {at}: {value}");
            }
            for (value, place) in x.iter().zip(inverse) {
                assert!(is_same(values[place as usize], *value), "{name}: {value}");
            }
        }
    }
}

/// Limits of segments: empty ones, short ones and one that is long, and elements behind the end.
const LIMITS: &str = "cumsum(where(k % 3 == 0, 0 * k, where(k == 7, 0 * k + 5000, k)))";

#[test]
fn segments_are_reduced_and_spread_as_by_loops() {
    let n = 7000;
    for width in [1, 3] {
        let nodes = [
            ("k", "arange(stop=60)".to_owned()),
            ("lims", LIMITS.replace("k % 3", "remainder(k, 3)")),
            ("u", format!("normal(shape=[{n}, {width}])")),
            ("i", format!("reshape(arange(stop={n}), shape=[{n}, 1])")),
            // Elements behind the end are NaN.
            ("x", format!("where(i < {}, u, u * 0.0 / 0.0)", 6200)),
            ("sums", "segment_reduce(x, lims)".to_owned()),
            ("means", "segment_reduce(x, lims, by=\\\"mean\\\")".to_owned()),
            ("most", "segment_reduce(x, lims, by=\\\"max\\\")".to_owned()),
            ("least", "segment_reduce(x, lims, by=\\\"min\\\")".to_owned()),
            ("again", format!("spread(most, lims, cap={n})")),
            ("weights", "segment_softmax(x, lims)".to_owned()),
        ];
        let mut bits: Option<Vec<Vec<f64>>> = None;
        for device in devices() {
            let outputs = ["x", "lims", "sums", "means", "most", "least", "again", "weights"];
            let results = run(&nodes, outputs, &device);
            let [x, lims, sums, means, most, least, again, weights] = &results;
            check_segments(
                width,
                [x, lims],
                [sums, means, most, least],
                [again, weights],
                &device.0.info().name,
            );
            if device.0.info().name.contains("cpu") {
                let exact = results[..7]
                    .iter()
                    .map(|values| values.iter().map(|x| if x.is_nan() { 0.0 } else { *x }).collect())
                    .collect();
                assert_eq!(*bits.get_or_insert_with(|| Vec::clone(&exact)), exact, "one and two threads");
            }
        }
    }
}

fn check_segments(
    width: usize,
    [x, lims]: [&Vec<f64>; 2],
    [sums, means, most, least]: [&Vec<f64>; 4],
    [again, weights]: [&Vec<f64>; 2],
    name: &str,
) {
    let end = *lims.last().unwrap() as usize;
    assert!(end > 6000 && end <= 6200, "{end}");
    let near = |a: f64, b: f64| (a - b).abs() <= 2e-5 * b.abs().max(1.0);
    for (row, limits) in lims.windows(2).enumerate() {
        let [from, to] = [limits[0] as usize, limits[1] as usize];
        for column in 0..width {
            let at = row * width + column;
            let elements: Vec<f64> = (from..to).map(|i| x[i * width + column]).collect();
            let sum: f64 = elements.iter().sum();
            let [largest, smallest] =
                [f64::max as fn(f64, f64) -> f64, f64::min].map(|pick| elements.iter().copied().reduce(pick));
            assert!(near(sums[at], sum), "{name}, row {row}: {} for {sum}", sums[at]);
            match elements.len() {
                0 => assert!(means[at].is_nan(), "{name}, row {row}"),
                n => assert!(near(means[at], sum / n as f64), "{name}, row {row}"),
            }
            assert_eq!(most[at], largest.unwrap_or(f64::NEG_INFINITY), "{name}, row {row}");
            assert_eq!(least[at], smallest.unwrap_or(f64::INFINITY), "{name}, row {row}");
            let total: f64 = elements.iter().map(|x| (x - most[at]).exp()).sum();
            for i in from..to {
                let place = i * width + column;
                assert_eq!(again[place], most[at], "{name}, row {row}");
                let weight = (x[place] - most[at]).exp() / total;
                assert!((weights[place] - weight).abs() <= 1e-5 * weight.max(1e-3), "{name}, row {row}");
            }
        }
    }
    assert!(again[end * width..].iter().chain(&weights[end * width..]).all(|&x| x == 0.0), "{name}");
}
