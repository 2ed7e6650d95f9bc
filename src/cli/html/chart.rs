//! Curves over epochs, and memory over launches.

use std::fmt::Write;

use engine_core::plan::{Place, Plan};
use engine_runtime::session::EpochReport;

use super::written::{bytes, escaped};

const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 200.0;
/// Room for the numbers at the axes, and for the title above.
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// The maximum number of marks on an axis.
const MOST_MARKS: usize = 8;

/// The loss, and each metric of training and of the evaluation after every epoch.
pub(super) fn curves(epochs: &[EpochReport]) -> String {
    let Some(first) = epochs.first() else { return String::new() };
    let losses: Vec<f64> = epochs.iter().map(|epoch| epoch.train_loss).collect();
    let mut text = curve("training loss by epoch", &losses);
    for name in first.train_metrics.keys() {
        let values = epochs.iter().filter_map(|epoch| epoch.train_metrics.get(name).copied());
        text.push_str(&curve(&format!("{name} in training by epoch"), &values.collect::<Vec<f64>>()));
    }
    for name in first.metrics.keys() {
        let values = epochs.iter().filter_map(|epoch| epoch.metrics.get(name).copied());
        text.push_str(&curve(&format!("{name} by epoch"), &values.collect::<Vec<f64>>()));
    }
    format!("<div class=\"row\">\n{text}</div>\n")
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
    // A single point stands in the middle.
    let x = |i: usize| match values.len() {
        1 => (LEFT + RIGHT) / 2.0,
        _ => LEFT + 8.0 + (RIGHT - LEFT - 16.0) * i as f64 / last,
    };
    let y = |value: f64| BOTTOM - 6.0 - (BOTTOM - TOP - 6.0) * (value - low) / range;
    let points = values.iter().enumerate().filter(|(_, value)| value.is_finite());
    let points: Vec<(usize, f64, f64)> = points.map(|(i, &value)| (i, x(i), y(value))).collect();
    let line: Vec<String> = points.iter().map(|(_, x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut dots = String::new();
    for (i, x, y) in &points {
        let (epoch, value) = (i + 1, values[*i]);
        let _ = write!(
            dots,
            "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{epoch}: {value}</title></circle>"
        );
    }
    let mut marks = mark_left(y(high), &short(high));
    if high > low {
        marks.push_str(&mark_left(y(low), &short(low)));
    }
    for i in marked(values.len()) {
        marks.push_str(&mark_below(x(i), i + 1));
    }
    framed(title, &format!("{marks}<polyline class=\"line\" points=\"{}\"/>{dots}", line.join(" ")))
}

/// A number with about four digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        magnitude if !(1e-3..1e5).contains(&magnitude) => format!("{value:.2e}"),
        magnitude if magnitude < 10.0 => format!("{value:.4}"),
        _ => format!("{value:.1}"),
    }
}

/// The positions that are numbered: the first, and others at equal distances.
fn marked(n: usize) -> impl Iterator<Item = usize> {
    (0..n).step_by(n.div_ceil(MOST_MARKS).max(1))
}

fn mark_left(y: f64, text: &str) -> String {
    let (x, y) = (LEFT - 8.0, y + 4.0);
    format!("<text class=\"soft end\" x=\"{x}\" y=\"{y:.1}\">{}</text>", escaped(text))
}

fn mark_below(x: f64, number: usize) -> String {
    let y = BOTTOM + 18.0;
    format!("<text class=\"soft middle\" x=\"{x:.1}\" y=\"{y}\">{number}</text>")
}

fn framed(title: &str, inside: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\"><text x=\"{LEFT}\" y=\"18\">{}</text>\
<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>{inside}</svg>\n",
        escaped(title)
    )
}

/// Live bytes of the arena by launch.
pub(super) fn memory(plan: &Plan) -> String {
    let in_arena = plan.buffers.iter().filter(|buffer| matches!(buffer.place, Place::Arena(_)));
    let buffers: Vec<_> = in_arena.collect();
    let live = |launch: usize| -> usize {
        let live = buffers.iter().filter(|buffer| (buffer.life.0..=buffer.life.1).contains(&launch));
        live.map(|buffer| buffer.ty.bytes()).sum()
    };
    let n = plan.launches.len().max(1);
    let each = (RIGHT - LEFT) / n as f64;
    let scale = (BOTTOM - TOP) / plan.arena_bytes.max(1) as f64;
    let mut inside = mark_left(TOP, &bytes(plan.arena_bytes as u64)) + &mark_left(BOTTOM, "0");
    for (number, launch) in plan.launches.iter().enumerate() {
        let (held, name) = (live(number), &plan.kernels[launch.kernel].name);
        let (x, tall) = (LEFT + each * number as f64, held as f64 * scale);
        let _ = write!(
            inside,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"><title>{}: {}</title></rect>",
            x + 1.0,
            BOTTOM - tall,
            (each - 2.0).max(0.5),
            escaped(name),
            bytes(held as u64)
        );
    }
    for number in marked(plan.launches.len()) {
        inside.push_str(&mark_below(LEFT + each * (number as f64 + 0.5), number + 1));
    }
    let _ = write!(inside, "<path class=\"peak\" d=\"M{LEFT} {TOP}H{RIGHT}\"/>");
    framed("values held, by launch; the arena above", &inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_spans_its_frame_and_skips_nan() {
        let svg = curve("loss <1>", &[2.0, f64::NAN, 1.0]);
        assert!(svg.contains("loss &lt;1&gt;") && svg.contains("points=\"74.0,40.0 478.0,168.0\""), "{svg}");
        assert_eq!(curve("nothing", &[f64::NAN]), "");
    }

    #[test]
    fn numbers_are_short_and_marks_are_few() {
        let shown = [0.0, 0.24801, -3e-7, 123.45, 1e9].map(short);
        assert_eq!(shown, ["0", "0.2480", "-3.00e-7", "123.5", "1.00e9"]);
        assert_eq!(marked(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(marked(60).collect::<Vec<_>>(), [0, 8, 16, 24, 32, 40, 48, 56]);
    }
}
