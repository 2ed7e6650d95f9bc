//! A report as one self-contained HTML page: settings, curves, the graph, its kernels and its memory.

mod chart;
mod kernels;
mod layers;
mod picture;
mod written;

use std::fmt::Write;

use engine_core::compile::Compiled;
use engine_core::ir::Symbol;
use engine_core::pipeline::Pipeline;
use engine_runtime::session::{Report, RunEnd, StageMeasure, StageReport};
use indexmap::IndexMap;

use super::bench::Times;
use super::file::PAGE_START;
use super::machine;
use super::record::Course;
use written::escaped;

pub(super) use written::{bytes, latency_text, time_text};

/// A run to show.
pub(super) struct Seen<'s> {
    pub(super) report: &'s Report,
    /// By training stage.
    pub(super) courses: &'s IndexMap<String, Course>,
    pub(super) compiled: &'s [(Symbol, Compiled)],
    /// The times of kernels, where they were measured.
    pub(super) measured: &'s [StageMeasure],
    pub(super) pipeline: &'s Pipeline,
    /// By path.
    pub(super) settings: &'s [(String, String)],
}

/// The page.
pub(super) fn page(seen: &Seen<'_>) -> String {
    let title = escaped(&seen.report.graph);
    let mut body = format!("<h1>{title}</h1>\n{}{}", facts(seen.report), settings(seen.settings));
    let _ = write!(body, "<h2>Graph</h2>\n{}", layers::section(seen.pipeline));
    for stage in &seen.report.stages {
        let (name, kind) = (escaped(&stage.name), escaped(&stage.kind));
        let _ = write!(body, "<h2>{name} <small>{kind}</small></h2>\n{}", measured(stage));
        body.push_str(&seen.courses.get(&stage.name).map_or(String::new(), chart::curves));
        body.push_str(&kernels_of(seen, &stage.name));
    }
    format!(
        "{PAGE_START}\
<meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\n\
<body>\n{body}</body>\n</html>\n"
    )
}

/// The kernels and the memory of a stage's step, with times if it was measured.
fn kernels_of(seen: &Seen<'_>, stage: &str) -> String {
    let timed = seen.measured.iter().find(|measured| *measured.name == *stage);
    let compiled =
        seen.compiled.iter().find(|(name, _)| **name == *stage).map(|(_, compiled)| &compiled.plan);
    let Some(plan) = timed.map(|timed| &*timed.plan).or(compiled) else { return String::new() };
    let seconds: Option<Vec<f64>> =
        timed.map(|timed| timed.launches.iter().map(|times| Times::of(times).median).collect());
    format!(
        "{}<h3>Memory over the launches of a step</h3>\n{}",
        kernels::section(plan, seconds.as_deref()),
        chart::memory(plan)
    )
}

/// The settings of the pipeline.
fn settings(settings: &[(String, String)]) -> String {
    let row = |(path, value): &(String, String)| {
        format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(path), escaped(value))
    };
    let rows: String = settings.iter().map(row).collect();
    format!(
        "<details><summary>{} settings</summary>\n<table class=\"settings\">\n{rows}</table></details>\n",
        settings.len()
    )
}

/// Colours are defined once for light and once for dark themes.
const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--ink:#222;--soft:#5d6470;--rule:#dcdfe4;--axis:#98a0ab;--line:#1f5fa8;\
--step:#9db4d0;--mean:#c2701c;--bar:#8fb0c9;--peak:#b3372f;--map:#e4eefc;--row:#e3f4e1;--matmul:#fdeccf;--other:#f3e3f5}\n\
@media(prefers-color-scheme:dark){:root{--page:#15181c;--ink:#e4e6ea;--soft:#9aa3af;--rule:#333941;--axis:#67707c;\
--line:#7db4f0;--step:#46618a;--mean:#e39a4f;--bar:#47677f;--peak:#f08a80;--map:#20324c;--row:#203a24;--matmul:#4a3a1a;--other:#41294a}}\n\
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;background:var(--page);color:var(--ink)}\n\
h2{margin-top:2.5rem;border-bottom:1px solid var(--rule)}h2 small{font-weight:normal;color:var(--soft)}\n\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}\n\
th{white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n\
.row{display:flex;flex-wrap:wrap;gap:0 2rem}.wide{overflow-x:auto}svg{display:block;margin:.5rem 0;max-width:100%;height:auto}\n\
.wide svg{max-width:none}text{font:12px system-ui,sans-serif;fill:var(--ink)}text.soft{fill:var(--soft)}\
text.end{text-anchor:end}text.middle{text-anchor:middle}\n\
.axis{stroke:var(--axis);fill:none}.edge{stroke:var(--axis);fill:none}polyline{stroke-width:1.7;fill:none}\
polyline.line{stroke:var(--line)}polyline.mean{stroke:var(--mean)}polyline.step{stroke:var(--step);stroke-width:1}\
.key{font-size:11px}circle.line,.key.line{fill:var(--line)}circle.mean,.key.mean{fill:var(--mean)}circle.step,.key.step{fill:var(--step)}\
details details{margin-left:1.5rem}summary{cursor:pointer;margin:.3rem 0}summary small{color:var(--soft)}code{white-space:pre-wrap}\
.bar{fill:var(--bar)}.peak{stroke:var(--peak);stroke-dasharray:4 3}\n\
.box{stroke:var(--axis)}.map{fill:var(--map)}.rows{fill:var(--row)}.matmul{fill:var(--matmul)}.other{fill:var(--other)}\n\
.note{color:var(--peak)}";

fn facts(report: &Report) -> String {
    let (device, most) = (escaped(&report.device), bytes(report.peak_bytes as u64));
    let largest = report.stages.iter().max_by_key(|stage| stage.peak_bytes);
    let most = largest
        .map_or(String::new(), |stage| format!(" Most memory {most}, in stage {}.", escaped(&stage.name)));
    let (command, machine) = (escaped(&machine::command()), escaped(&machine::description()));
    let mut text = format!(
        "<p><code>{command}</code></p>\n<p>{machine}. Device {device}, seed {}.{most}</p>\n",
        report.seed
    );
    match report.end {
        RunEnd::Complete => {}
        RunEnd::Interrupted => text.push_str("<p class=\"note\">The run was interrupted.</p>\n"),
        RunEnd::Failed => text.push_str("<p class=\"note\">The run has failed.</p>\n"),
    }
    for (name, data) in &report.data {
        let rows: Vec<String> = data.rows.iter().map(|(split, rows)| format!("{rows} to {split}")).collect();
        let (set, from) = (escaped(&data.name), escaped(&data.provenance));
        let _ = writeln!(
            text,
            "<p>Data {}: {set} ({from}), rows: {}.</p>",
            escaped(name),
            escaped(&rows.join(", "))
        );
        if let Some(wanted) = &data.stands_in_for {
            let wanted = escaped(wanted);
            let _ = writeln!(text, "<p class=\"note\">Stand-in data: this is not <code>{wanted}</code>.</p>");
        }
        if let Some(note) = &data.note {
            let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(note));
        }
    }
    text
}

fn measured(stage: &StageReport) -> String {
    let metrics: Vec<String> =
        stage.metrics.iter().map(|(name, value)| format!("{} {value:.4}", escaped(name))).collect();
    let steps = match stage.steps {
        0 => String::new(),
        steps => format!(
            "{steps} steps of {}{}, {} kernels a step. Memory {}: parameters {}, optimizer and other state {}, data {}, \
             steps {}. ",
            time_text(stage.step_us * 1e-6),
            stage.latency.as_ref().map_or(String::new(), latency_text),
            stage.kernels_per_step,
            bytes(stage.peak_bytes as u64),
            bytes(stage.memory.parameters as u64),
            bytes(stage.memory.state as u64),
            bytes(stage.memory.data as u64),
            bytes(stage.memory.steps as u64)
        ),
    };
    format!("<p>{:.2} s. {steps}{}</p>\n", stage.seconds, metrics.join(", "))
}
