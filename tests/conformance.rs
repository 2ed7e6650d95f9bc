#![allow(clippy::unwrap_used, missing_docs)]
//! Every op beside an independent implementation, with gradients, in all types, on the devices that are present.
//! `docs/conformance.md` holds the largest errors, and no error may grow.
//!
//! Without `CONFORMANCE=all`, GPUs compute a sample of ops and types.

use engine::Engine;
use engine::core::front::layers;
use engine::core::ir::DType;
use engine::runtime::device::{Device, DeviceKind};
use error::Worst;
use fixtures::{Case, Peer, peers, place};
use limits::{Limit, Table};
use page::{Documented, Figure, Row, page, parse, step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use trial::Results;

#[path = "conformance/error.rs"]
mod error;
#[path = "conformance/fixtures.rs"]
mod fixtures;
#[path = "conformance/limits.rs"]
mod limits;
#[path = "conformance/page.rs"]
mod page;
#[path = "common/present.rs"]
mod present;
#[path = "conformance/trial.rs"]
mod trial;

const PAGE: &str = "docs/conformance.md";

/// Part of an op's name; other ops are left out. For a look at one op.
fn only() -> Option<String> {
    std::env::var("CONFORMANCE_OP").ok()
}

fn recorded() -> Vec<Peer> {
    peers().into_iter().filter(|peer| only().is_none_or(|part| peer.op.contains(&part))).collect()
}

#[test]
fn every_op_has_a_peer_or_a_reason_for_none() {
    let registry = Engine::new().registry;
    let layers = layers(&registry);
    let forms = || registry.ops().map(|form| &**form).chain(layers.iter().map(|form| &**form));
    let names: BTreeSet<&str> = forms().map(|form| &*form.name).collect();
    let aliases: BTreeSet<&str> = registry
        .ops()
        .filter(|form| form.summary.starts_with("Another name of"))
        .map(|form| &*form.name)
        .collect();
    let (compared, table) = (peers(), Table::read());
    let compared: BTreeSet<&str> = compared.iter().map(|peer| &*peer.op).collect();
    let explained: BTreeSet<&str> =
        table.without_peer.iter().flat_map(|(ops, _)| ops).map(String::as_str).collect();
    let known: BTreeSet<&str> = [&compared, &explained, &aliases].into_iter().flatten().copied().collect();
    assert_eq!(
        names.difference(&known).collect::<Vec<_>>(),
        [] as [&&str; 0],
        "neither compared nor explained"
    );
    assert_eq!(known.difference(&names).collect::<Vec<_>>(), [] as [&&str; 0], "no such ops");
    assert_eq!(
        compared.intersection(&explained).collect::<Vec<_>>(),
        [] as [&&str; 0],
        "compared and explained"
    );
}

#[test]
fn no_op_is_further_from_its_peer_than_the_page_says() {
    let peers = recorded();
    let (devices, table) = (devices(), Table::read());
    let outcomes = Mutex::new((BTreeMap::<usize, Row>::new(), Vec::<String>::new()));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let engine = Engine::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(peer) = peers.get(number) else { break };
                    let (row, failures) = compare(&engine, &table, number, peer, &devices);
                    let mut outcomes = outcomes.lock().unwrap();
                    outcomes.0.insert(number, row);
                    outcomes.1.extend(failures);
                }
            });
        }
    });
    let (rows, mut failures) = outcomes.into_inner().unwrap();
    let rows: Vec<Row> = rows.into_values().collect();
    if only().is_none() {
        failures.extend(compare_with_page(rows, &table, !failures.is_empty()));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Compares figures with the page, or writes it anew unless there are failures already.
fn compare_with_page(rows: Vec<Row>, table: &Table, has_failed: bool) -> Vec<String> {
    let known = std::fs::read_to_string(place(PAGE)).unwrap_or_default();
    let documented = parse(&known);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        if !has_failed {
            std::fs::write(place(PAGE), page(&rows, table, &documented)).unwrap();
        }
        return vec![];
    }
    let mut failures = regressions(&rows, &documented);
    // Rows, peers and tables are those of the page; figures that shrink leave it as it is.
    let kept: Vec<Row> = rows.into_iter().map(|row| as_documented(row, &documented)).collect();
    if page(&kept, table, &documented) != known {
        failures.push("docs/conformance.md is stale; UPDATE_EXPECT=1 CONFORMANCE=all writes it".into());
    }
    failures
}

/// The names and the devices: the CPU and all GPUs.
fn devices() -> Vec<(String, Arc<dyn Device>)> {
    let named = |gpu: &Arc<dyn Device>| {
        let name = gpu.info().name;
        let name = match gpu.info().kind {
            DeviceKind::Cuda => "cuda",
            _ if name.contains("llvmpipe") => "wgpu:software",
            _ => "wgpu",
        };
        (name.to_string(), Arc::clone(gpu))
    };
    let cpu = ("cpu".to_string(), present::cpu(1));
    std::iter::once(cpu).chain(present::gpus().iter().map(named)).collect()
}

fn is_whole_suite() -> bool {
    std::env::var("CONFORMANCE").is_ok_and(|which| which == "all")
}

/// Whether a device computes an op in a type. Emulated GPUs are slow, so they compute a sample, except in the whole suite.
/// `norm` in `f64` is always in it: it once had constant operands that WGSL refuses.
fn is_chosen(number: usize, op: &str, dtype: DType, device: &str) -> bool {
    let is_in_sample =
        (9 * number + dtype as usize).is_multiple_of(32) || (op, dtype) == ("norm", DType::F64);
    device == "cpu" || is_whole_suite() || is_in_sample
}

/// Compares all cases of an op in all types on all devices.
fn compare(
    engine: &Engine,
    table: &Table,
    number: usize,
    peer: &Peer,
    devices: &[(String, Arc<dyn Device>)],
) -> (Row, Vec<String>) {
    let mut failures = vec![];
    let mut figures = BTreeMap::<String, BTreeMap<String, Figure>>::new();
    let types: BTreeSet<DType> = peer.cases.iter().flat_map(|case| case.types.iter().copied()).collect();
    for dtype in types {
        let of_type = figures.entry(dtype.to_string()).or_default();
        for (name, device) in devices.iter().filter(|(name, _)| is_chosen(number, &peer.op, dtype, name)) {
            let is_meant = |case: &&Case| {
                case.types.contains(&dtype) && (case.only.is_empty() || case.only.contains(name))
            };
            let cases: Vec<&Case> = peer.cases.iter().filter(is_meant).collect();
            for fuse in [true, false] {
                for (case, results) in results(engine, &peer.op, &cases, dtype, device, fuse) {
                    let found = results
                        .and_then(|results| judge(table.limit(&peer.op, dtype), case, dtype, &results));
                    match found {
                        Ok(figure) => of_type.entry(name.clone()).or_default().include(figure),
                        Err(why) => failures.push(format!(
                            "{}: {} ({}), {dtype}, {name}, fuse={fuse}: {why}",
                            peer.op, case.title, case.call
                        )),
                    }
                }
            }
        }
    }
    let Peer { op, peer, cases } = peer;
    (Row { op: op.clone(), peer: peer.clone(), n_cases: cases.len(), figures }, failures)
}

/// The results of all cases, which share a pipeline unless that fails.
fn results<'c>(
    engine: &Engine,
    op: &str,
    cases: &[&'c Case],
    dtype: DType,
    device: &Arc<dyn Device>,
    fuse: bool,
) -> Vec<(&'c Case, Result<Results, String>)> {
    if let Ok(all) = trial::run(engine, op, cases, dtype, device, fuse) {
        return cases.iter().copied().zip(all.into_iter().map(Ok)).collect();
    }
    let alone = |&case: &&'c Case| {
        let results = trial::run(engine, op, &[case], dtype, device, fuse);
        (case, results.map(|mut results| results.remove(0)))
    };
    cases.iter().map(alone).collect()
}

/// The errors of a case, all within the limits of the op.
fn judge(limit: &Limit, case: &Case, dtype: DType, results: &Results) -> Result<Figure, String> {
    let mut figure = Figure::default();
    for (r, (found, expected)) in results.outputs.iter().zip(&case.outputs).enumerate() {
        let (ty, expected) = (expected.dtype(dtype), &expected.elements);
        let worst = error::largest(found, expected, ty, case.is_whole);
        let error = within(limit.forward, worst, &format!("result {r}"), found, expected)?;
        figure.include(Figure { forward: error, gradient: None });
    }
    for (i, (found, expected)) in results.grads.iter().zip(&case.grads).enumerate() {
        if let (Some(found), Some(expected)) = (found, expected) {
            let worst = error::largest(found, expected, case.inputs[i].dtype(dtype), true);
            let error = within(limit.gradient, worst, &format!("gradient {i}"), found, expected)?;
            figure.include(Figure { forward: 0.0, gradient: Some(error) });
        }
    }
    Ok(figure)
}

/// An error within its limit. The message shows the worst element.
fn within(limit: f64, worst: Worst, what: &str, found: &[f64], expected: &[f64]) -> Result<f64, String> {
    let Worst { error, at } = worst;
    match error <= limit {
        true => Ok(error),
        false if found.len() != expected.len() => Err(format!("{what} has {} elements", found.len())),
        false => {
            Err(format!("{what} is {:?} at {at} instead of {:?}: {error:.1} ULP", found[at], expected[at]))
        }
    }
}

/// Figures that are more than twice the documented ones, and above 1.
fn regressions(rows: &[Row], documented: &Documented) -> Vec<String> {
    let has_grown = |now: f64, then: f64| step(now) > (2.0 * then).max(1.0);
    let mut failures = vec![];
    for row in rows {
        for (ty, devices) in &row.figures {
            for (device, figure) in devices {
                let key = (row.op.clone(), ty.clone(), device.clone());
                let Some(known) = documented.get(&key) else { continue };
                let gradients = figure.gradient.zip(known.gradient);
                let of_gradient = gradients.is_some_and(|(now, then)| has_grown(now, then));
                if has_grown(figure.forward, known.forward) || of_gradient {
                    failures
                        .push(format!("{} in {ty} on {device}: {figure:?}, documented: {known:?}", row.op));
                }
            }
        }
    }
    failures
}

/// The row with documented figures in place of measured ones.
fn as_documented(mut row: Row, documented: &Documented) -> Row {
    for (ty, devices) in &mut row.figures {
        let known = |device: &String| documented.get(&(row.op.clone(), ty.clone(), device.clone())).copied();
        *devices = devices.keys().filter_map(|device| Some((device.clone(), known(device)?))).collect();
    }
    row
}

#[test]
fn errors_that_grow_are_regressions() {
    let figure = |forward, gradient| Figure { forward, gradient };
    let row = |figure| Row {
        op: "exp".into(),
        peer: "torch.exp".into(),
        n_cases: 1,
        figures: BTreeMap::from([("f32".to_string(), BTreeMap::from([("cpu".to_string(), figure)]))]),
    };
    let key = || ("exp".to_string(), "f32".to_string(), "cpu".to_string());
    let n = |now, then| regressions(&[row(now)], &Documented::from([(key(), then)])).len();
    assert_eq!(n(figure(1.0, None), figure(0.0, None)), 0);
    assert_eq!(n(figure(3.9, None), figure(2.0, None)), 0);
    assert_eq!(n(figure(4.1, None), figure(2.0, None)), 1);
    assert_eq!(n(figure(0.0, Some(1.1)), figure(0.0, Some(0.5))), 1);
}
