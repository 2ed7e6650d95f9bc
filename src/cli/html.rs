//! A report as one page of HTML that needs nothing else: curves, the fused graph, its kernels and its memory.

use std::fmt::Write;

use engine_core::compile::Compiled;
use engine_core::fuse::Use;
use engine_core::ir::Symbol;
use engine_core::plan::{Place, Plan};
use engine_runtime::session::{EpochReport, Report, StageReport};

/// The page.
pub(super) fn page(report: &Report, compiled: &[(Symbol, Compiled)]) -> String {
    let title = escaped(&report.graph);
    let mut body = format!("<h1>{title}</h1>\n{}", facts(report));
    for stage in &report.stages {
        let _ =
            write!(body, "<h2>{} ({})</h2>\n{}", escaped(&stage.name), escaped(&stage.kind), measured(stage));
        body.push_str(&curves(&stage.epochs));
        if let Some((_, compiled)) = compiled.iter().find(|(name, _)| **name == *stage.name) {
            let plan = &compiled.plan;
            let _ = write!(body, "<h3>Kernels of a step</h3>\n{}{}", picture(plan), table(plan));
            let _ = write!(body, "<h3>Memory over the launches of a step</h3>\n{}", memory(plan));
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n<body>\n{body}</body>\n</html>\n"
    )
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:left}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{display:block;margin:1rem 0;max-width:100%;height:auto}\
svg text{font:12px system-ui,sans-serif;fill:#333}.note{color:#a33}";

fn facts(report: &Report) -> String {
    let mut text = format!("<p>Device {}, seed {}.</p>\n", escaped(&report.device), report.seed);
    for (name, data) in &report.data {
        let rows: Vec<String> = data.rows.iter().map(|(split, rows)| format!("{rows} to {split}")).collect();
        let (set, from) = (escaped(&data.name), escaped(&data.provenance));
        let _ = writeln!(
            text,
            "<p>Data {}: {set} ({from}), rows: {}.</p>",
            escaped(name),
            escaped(&rows.join(", "))
        );
        if let Some(note) = &data.note {
            let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(note));
        }
    }
    text
}

fn measured(stage: &StageReport) -> String {
    let metrics: Vec<String> =
        stage.metrics.iter().map(|(name, value)| format!("{} {value:.4}", escaped(name))).collect();
    format!(
        "<p>{} steps of {:.1} µs, {:.2} s in all; {} kernels a step, arena {:.1} KiB. {}</p>\n",
        stage.steps,
        stage.step_us,
        stage.seconds,
        stage.kernels_per_step,
        stage.peak_bytes as f64 / 1024.0,
        metrics.join(", ")
    )
}

// ---- Curves.

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 200.0;
const MARGIN: f64 = 46.0;

/// The loss, and each metric that is measured after every epoch.
fn curves(epochs: &[EpochReport]) -> String {
    if epochs.is_empty() {
        return String::new();
    }
    let losses: Vec<f64> = epochs.iter().map(|epoch| epoch.train_loss).collect();
    let mut text = curve("training loss by epoch", &losses);
    for name in epochs[0].metrics.keys() {
        let values = epochs.iter().filter_map(|epoch| epoch.metrics.get(name).copied());
        text.push_str(&curve(&format!("{name} by epoch"), &values.collect::<Vec<f64>>()));
    }
    text
}

fn curve(title: &str, values: &[f64]) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) =
        finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return String::new();
    }
    let range = if high > low { high - low } else { 1.0 };
    let last = values.len().saturating_sub(1).max(1) as f64;
    let x = |i: usize| MARGIN + (WIDTH - 2.0 * MARGIN) * i as f64 / last;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (value - low) / range;
    let points = values.iter().enumerate().filter(|(_, value)| value.is_finite());
    let points: Vec<(f64, f64)> = points.map(|(i, &value)| (x(i), y(value))).collect();
    let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dots: String = points
        .iter()
        .map(|(x, y)| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#246\"/>"))
        .collect();
    let (left, bottom, right) = (MARGIN, HEIGHT - MARGIN, WIDTH - MARGIN);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\"><text x=\"{left}\" y=\"20\">{}</text>\
<path d=\"M{left} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"#999\"/>\
<text x=\"4\" y=\"{:.0}\">{high:.4}</text><text x=\"4\" y=\"{bottom}\">{low:.4}</text>\
<text x=\"{left}\" y=\"{:.0}\">1</text><text x=\"{:.0}\" y=\"{:.0}\">{}</text>\
<polyline points=\"{}\" fill=\"none\" stroke=\"#246\" stroke-width=\"2\"/>{dots}</svg>\n",
        escaped(title),
        MARGIN + 4.0,
        bottom + 18.0,
        right - 10.0,
        bottom + 18.0,
        values.len(),
        line.join(" ")
    )
}

// ---- The graph of kernels.

const BOX: (f64, f64) = (190.0, 46.0);
const GAP: (f64, f64) = (24.0, 34.0);

/// One box a launch, in layers: each below all whose results it reads.
fn picture(plan: &Plan) -> String {
    let edges = edges(plan);
    let mut layer = vec![0; plan.launches.len()];
    for &(from, to) in &edges {
        layer[to] = layer[to].max(layer[from] + 1);
    }
    let mut n_in_layer = vec![0; plan.launches.len() + 1];
    let places: Vec<(f64, f64)> = layer
        .iter()
        .map(|&layer: &usize| {
            let column = n_in_layer[layer];
            n_in_layer[layer] += 1;
            (column as f64 * (BOX.0 + GAP.0) + 4.0, layer as f64 * (BOX.1 + GAP.1) + 4.0)
        })
        .collect();
    let width = places.iter().map(|place| place.0 + BOX.0 + 4.0).fold(0.0, f64::max);
    let height = places.iter().map(|place| place.1 + BOX.1 + 4.0).fold(0.0, f64::max);
    let mut text = format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\">");
    for (from, to) in edges {
        let ((x1, y1), (x2, y2)) = (places[from], places[to]);
        let (x1, y1, x2) = (x1 + BOX.0 / 2.0, y1 + BOX.1, x2 + BOX.0 / 2.0);
        let _ = write!(text, "<path d=\"M{x1:.0} {y1:.0}L{x2:.0} {y2:.0}\" stroke=\"#888\" fill=\"none\"/>");
    }
    for (launch, (x, y)) in plan.launches.iter().zip(places) {
        let kernel = &plan.kernels[launch.kernel];
        let _ = write!(
            text,
            "<g><title>{}</title><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{}\" stroke=\"#666\"/>\
<text x=\"{:.0}\" y=\"{:.0}\">{}</text><text x=\"{:.0}\" y=\"{:.0}\">{}</text></g>",
            escaped(&kernel.ops.join(" ")),
            BOX.0,
            BOX.1,
            colour(kernel.kind()),
            x + 8.0,
            y + 19.0,
            escaped(&shortened(&kernel.name)),
            x + 8.0,
            y + 36.0,
            kernel.kind()
        );
    }
    text + "</svg>\n"
}

/// Which launch reads what which earlier one has written.
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

fn colour(kind: &str) -> &'static str {
    match kind {
        "map" | "segmented map" => "#e4eefc",
        "row" | "scan" => "#e5f5e3",
        "contract" => "#fdeccf",
        _ => "#f3e3f5",
    }
}

fn shortened(name: &str) -> String {
    const MOST: usize = 26;
    match name.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_string(),
    }
}

fn table(plan: &Plan) -> String {
    let mut text = "<table><tr><th>kernel</th><th>kind</th><th>covers</th><th class=\"n\">reads KiB</th>\
<th class=\"n\">writes KiB</th><th class=\"n\">kFLOP</th></tr>\n"
        .to_string();
    for launch in &plan.launches {
        let kernel = &plan.kernels[launch.kernel];
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{:.1}</td><td class=\"n\">{:.1}</td></tr>",
            escaped(&kernel.name),
            kernel.kind(),
            escaped(&kernel.ops.join(" ")),
            kernel.bytes_read as f64 / 1024.0,
            kernel.bytes_written as f64 / 1024.0,
            kernel.flops as f64 / 1000.0
        );
    }
    text + "</table>\n"
}

/// Bytes of the arena that hold something, launch by launch.
fn memory(plan: &Plan) -> String {
    let in_arena = plan.buffers.iter().filter(|buffer| matches!(buffer.place, Place::Arena(_)));
    let buffers: Vec<_> = in_arena.collect();
    let live = |launch: usize| -> usize {
        let live = buffers.iter().filter(|buffer| (buffer.life.0..=buffer.life.1).contains(&launch));
        live.map(|buffer| buffer.ty.bytes()).sum()
    };
    let n = plan.launches.len().max(1);
    let (left, right, bottom) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN);
    let each = (WIDTH - 2.0 * MARGIN) / n as f64;
    let scale = (HEIGHT - 2.0 * MARGIN) / plan.arena_bytes.max(1) as f64;
    let mut bars = String::new();
    for launch in 0..plan.launches.len() {
        let (bytes, name) = (live(launch), &plan.kernels[plan.launches[launch].kernel].name);
        let tall = bytes as f64 * scale;
        let _ = write!(
            bars,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"#8ab\"><title>{}: {bytes} bytes</title></rect>",
            left + each * launch as f64,
            bottom - tall,
            (each - 1.0).max(0.5),
            escaped(name)
        );
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\"><text x=\"{left}\" y=\"20\">arena: {} bytes</text>{bars}\
<path d=\"M{left} {MARGIN}H{right}\" stroke=\"#a33\" stroke-dasharray=\"4 3\"/><path d=\"M{left} {bottom}H{right}\" stroke=\"#999\"/></svg>\n",
        plan.arena_bytes
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_spans_its_frame_and_skips_what_is_no_number() {
        let svg = curve("loss <1>", &[2.0, f64::NAN, 1.0]);
        assert!(svg.contains("loss &lt;1&gt;") && svg.contains("46.0,46.0 514.0,154.0"), "{svg}");
        assert_eq!(curve("nothing", &[f64::NAN]), "");
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"é".repeat(40)), format!("{}…", "é".repeat(26)));
    }
}
