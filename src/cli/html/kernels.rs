//! The kernels of a step: a picture, their times by kind, and a table.

use std::fmt::Write;

use engine_core::fusion::{Kernel, Use};
use engine_core::plan::Plan;
use indexmap::IndexMap;

use super::picture::{Box, Picture};
use super::written::{bytes, escaped, operations, time_text};

/// Longer lists of kernels are closed at first.
const MOST_OPEN: usize = 40;

/// Seconds by launch, where they were measured.
pub(super) type Seconds<'s> = Option<&'s [f64]>;

/// The section on kernels.
pub(super) fn section(plan: &Plan, seconds: Seconds<'_>) -> String {
    let n_launches = plan.launches.len();
    let open = if n_launches > MOST_OPEN { "" } else { " open" };
    format!(
        "<h3>Kernels of a step</h3>\n{}<details class=\"kernels\"{open}><summary>picture of {n_launches} kernels</summary>\n{}</details>\n\
<details{open}><summary>list of {n_launches} kernels</summary>\n{}</details>\n",
        by_kind(plan, seconds),
        graph(plan).svg(),
        table(plan, seconds)
    )
}

fn kernel(plan: &Plan, launch: usize) -> &Kernel {
    &plan.kernels[plan.launches[launch].kernel]
}

/// Number and time of the kernels of each kind, the longest time first.
fn by_kind(plan: &Plan, seconds: Seconds<'_>) -> String {
    let mut kinds: IndexMap<&str, (usize, f64)> = IndexMap::new();
    for launch in 0..plan.launches.len() {
        let (n, total) = kinds.entry(kernel(plan, launch).kind()).or_default();
        *n += 1;
        *total += seconds.map_or(0.0, |seconds| seconds[launch]);
    }
    kinds.sort_by(|_, a, _, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    let total: f64 = kinds.values().map(|(_, seconds)| seconds).sum();
    let time = |(kind, (n, seconds)): (&&str, &(usize, f64))| match total > 0.0 {
        true => format!("{n} {kind} ({}, {:.0}%)", time_text(*seconds), seconds / total * 100.0),
        false => format!("{n} {kind}"),
    };
    let kinds: Vec<String> = kinds.iter().map(time).collect();
    let measured = if total > 0.0 { format!(" {} in kernels.", time_text(total)) } else { String::new() };
    format!("<p>{}.{measured}</p>\n", kinds.join(", "))
}

fn table(plan: &Plan, seconds: Seconds<'_>) -> String {
    let total: f64 = seconds.iter().flat_map(|seconds| seconds.iter()).sum();
    let times = if seconds.is_some() { "<th class=\"n\">µs</th><th class=\"n\">share</th>" } else { "" };
    let mut text = format!(
        "<div class=\"wide\"><table class=\"kernels\"><tr><th class=\"n\">#</th><th>kernel</th><th>kind</th><th>covers</th>\
{times}<th class=\"n\">reads</th><th class=\"n\">writes</th><th class=\"n\">FLOP</th></tr>\n"
    );
    for launch in 0..plan.launches.len() {
        let kernel = kernel(plan, launch);
        let time = seconds.map_or(String::new(), |seconds| {
            let (us, share) = (seconds[launch] * 1e6, seconds[launch] / total.max(1e-12) * 100.0);
            format!("<td class=\"n\">{us:.1}</td><td class=\"n\">{share:.1}%</td>")
        });
        let _ = writeln!(
            text,
            "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td>{time}<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            launch + 1,
            escaped(&kernel.name),
            kernel.kind(),
            escaped(&kernel.ops.join(" ")),
            bytes(kernel.bytes_read),
            bytes(kernel.bytes_written),
            operations(kernel.flops)
        );
    }
    text + "</table></div>\n"
}

fn graph(plan: &Plan) -> Picture {
    let drawn = |launch: usize| {
        let kernel = kernel(plan, launch);
        Box {
            title: format!("{}: {}", kernel.name, kernel.ops.join(" ")),
            lines: [format!("{} {}", launch + 1, kernel.name), kernel.kind().to_string()],
            class: class(kernel.kind()),
        }
    };
    Picture { boxes: (0..plan.launches.len()).map(drawn).collect(), edges: edges(plan) }
}

fn class(kind: &str) -> &'static str {
    match kind {
        "map" | "segmented map" => "map",
        "row" | "scan" => "rows",
        "matmul" => "matmul",
        _ => "other",
    }
}

/// Pairs of launches: the writer of a value and its reader.
fn edges(plan: &Plan) -> Vec<(usize, usize)> {
    let operands = |launch: usize, usage: Use| {
        let launch = &plan.launches[launch];
        let operands = plan.kernels[launch.kernel].operands.iter().zip(&launch.buffers);
        operands.filter(move |(operand, _)| operand.usage == usage).map(|(operand, _)| operand.value)
    };
    let mut edges = vec![];
    for to in 0..plan.launches.len() {
        for value in operands(to, Use::Read) {
            let writer =
                (0..to).rev().find(|&from| operands(from, Use::Write).any(|written| written == value));
            edges.extend(writer.map(|from| (from, to)).filter(|edge| !edges.contains(edge)));
        }
    }
    edges
}
