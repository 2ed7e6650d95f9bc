//! Curves over steps, and memory over launches.

use std::fmt::Write;
use std::ops::Range;

use engine_core::plan::{Place, Plan};
use indexmap::IndexSet;

use super::written::{bytes, escaped};
use crate::cli::record::{Course, Curve};

const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 200.0;
/// Room for the numbers at the axes, and for the title above.
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// The maximum number of marks on an axis.
const MOST_MARKS: usize = 8;

/// More points than this are not drawn.
const MOST_POINTS: usize = 400;

/// One line of a chart.
struct Line<'c> {
    label: String,
    /// The class of its colour.
    class: &'static str,
    curve: &'c Curve,
    has_dots: bool,
}

/// A chart for each metric, with training and evaluation together, then the learning rates, the norm of the gradients and
/// the speed.
pub(super) fn curves(course: &Course) -> String {
    let metrics = [&course.training, &course.means, &course.evaluated].into_iter().flat_map(|map| map.keys());
    let metrics: IndexSet<&String> = metrics.collect();
    let evaluated_on = course.evaluated_on.as_deref().unwrap_or("evaluation");
    let mut text = String::new();
    for name in metrics {
        let line = |label: &str, class, curve: Option<&'_ Curve>, has_dots| {
            curve.map(|curve| (label.to_string(), class, curve.clone(), has_dots))
        };
        let lines = [
            line("training, a step", "step", course.training.get(name), false),
            line("training, mean of the epoch", "mean", course.means.get(name), true),
            line(evaluated_on, "line", course.evaluated.get(name), true),
        ];
        let lines: Vec<_> = lines.into_iter().flatten().collect();
        let lines = lines.iter().map(|(label, class, curve, has_dots)| Line {
            label: label.clone(),
            class,
            curve,
            has_dots: *has_dots,
        });
        text.push_str(&chart(name, &lines.collect::<Vec<_>>()));
    }
    for (name, curve) in &course.rates {
        text.push_str(&single(&format!("learning rate {name}"), curve));
    }
    for (name, title) in [("grad_norm", "norm of the gradients"), ("steps_per_second", "steps per second")] {
        text.push_str(&course.numbers.get(name).map_or(String::new(), |curve| single(title, curve)));
    }
    if text.is_empty() { text } else { format!("<div class=\"row\">\n{text}</div>\n") }
}

fn single(title: &str, curve: &Curve) -> String {
    chart(title, &[Line { label: String::new(), class: "line", curve, has_dots: false }])
}

fn chart(title: &str, lines: &[Line<'_>]) -> String {
    let points = || lines.iter().flat_map(|line| line.curve).filter(|(_, value)| value.is_finite());
    let (low, high) =
        points().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, v)| (low.min(*v), high.max(*v)));
    if low > high {
        return String::new();
    }
    let last = points().map(|(step, _)| *step).max().unwrap_or(1).max(1);
    let range = if high > low { high - low } else { 1.0 };
    let x = |step: u64| LEFT + 8.0 + (RIGHT - LEFT - 16.0) * step as f64 / last as f64;
    let y = |value: f64| BOTTOM - 6.0 - (BOTTOM - TOP - 6.0) * (value - low) / range;
    let mut inside = mark_left(y(high), &short(high));
    if high > low {
        inside.push_str(&mark_left(y(low), &short(low)));
    }
    for step in (0..=last).step_by(pace(last) as usize) {
        inside.push_str(&mark_below(x(step), step));
    }
    lines.iter().for_each(|line| inside.push_str(&line.drawn(&x, &y)));
    let labels = lines.iter().filter(|line| !line.label.is_empty());
    let labels = labels.map(|line| {
        format!("<tspan class=\"key {}\" dx=\"12\">{}</tspan>", line.class, escaped(&line.label))
    });
    framed(&format!("{}{}", escaped(title), labels.collect::<String>()), &inside)
}

impl Line<'_> {
    fn drawn(&self, x: &dyn Fn(u64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
        let points: Vec<(u64, f64)> = self.curve.iter().copied().filter(|(_, v)| v.is_finite()).collect();
        let stride = points.len().div_ceil(MOST_POINTS).max(1);
        let is_drawn = |i: &usize| i.is_multiple_of(stride) || i + 1 == points.len();
        let drawn = (0..points.len()).filter(is_drawn).map(|i| points[i]);
        let drawn: Vec<(u64, f64)> = drawn.collect();
        let line: Vec<String> =
            drawn.iter().map(|&(step, value)| format!("{:.1},{:.1}", x(step), y(value))).collect();
        let class = self.class;
        let mut text = format!("<polyline class=\"{class}\" points=\"{}\"/>", line.join(" "));
        for (step, value) in drawn.into_iter().filter(|_| self.has_dots || points.len() == 1) {
            let _ = write!(
                text,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>step {step}: {value}</title></circle>",
                x(step),
                y(value)
            );
        }
        text
    }
}

/// The distance of the marks of steps: 1, 2 or 5 times a power of ten, so that there are at most six.
fn pace(last: u64) -> u64 {
    let mut ten = 1;
    loop {
        if let Some(factor) = [1, 2, 5].into_iter().find(|factor| last / (factor * ten) <= 5) {
            return factor * ten;
        }
        ten *= 10;
    }
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

fn mark_below(x: f64, number: u64) -> String {
    let y = BOTTOM + 18.0;
    format!("<text class=\"soft middle\" x=\"{x:.1}\" y=\"{y}\">{number}</text>")
}

/// `title` is HTML.
fn framed(title: &str, inside: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\"><text x=\"{LEFT}\" y=\"18\">{}</text>\
<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>{inside}</svg>\n",
        title
    )
}

/// Live bytes of the arena by launch.
pub(super) fn memory(plan: &Plan) -> String {
    let live = |launch: usize| {
        let live = plan.buffers.iter().filter(|buffer| (buffer.life.0..=buffer.life.1).contains(&launch));
        covered(live.filter_map(|buffer| match buffer.place {
            Place::Arena(start) => Some(start..start + buffer.ty.bytes()),
            Place::Input(_) => None,
        }))
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
        inside.push_str(&mark_below(LEFT + each * (number as f64 + 0.5), number as u64 + 1));
    }
    let _ = write!(inside, "<path class=\"peak\" d=\"M{LEFT} {TOP}H{RIGHT}\"/>");
    framed("values held, by launch; the arena above", &inside)
}

/// The bytes that some ranges cover. A result may lie in the memory of an operand.
fn covered(ranges: impl Iterator<Item = Range<usize>>) -> usize {
    let mut ranges: Vec<Range<usize>> = ranges.collect();
    ranges.sort_by_key(|range| range.start);
    let (mut end, mut bytes) = (0, 0);
    for range in ranges {
        bytes += range.end.saturating_sub(end.max(range.start));
        end = end.max(range.end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_spans_its_frame_and_skips_nan() {
        let svg = single("loss <1>", &vec![(1, 2.0), (2, f64::NAN), (4, 1.0)]);
        assert!(svg.contains("loss &lt;1&gt;") && svg.contains("points=\"175.0,40.0 478.0,168.0\""), "{svg}");
        assert_eq!(single("nothing", &vec![(1, f64::NAN)]), "");
    }

    #[test]
    fn training_and_evaluation_share_a_chart() {
        let curves_of = |value| indexmap::IndexMap::from([("loss".to_string(), vec![(1, value), (9, 1.0)])]);
        let (training, evaluated) = (curves_of(3.0), curves_of(2.0));
        let course =
            Course { training, evaluated, evaluated_on: Some("test".to_string()), ..Course::default() };
        let svg = curves(&course);
        assert_eq!((svg.matches("<svg").count(), svg.matches("<polyline").count()), (1, 2), "{svg}");
        assert!(svg.contains(">test</tspan>"), "{svg}");
    }

    #[test]
    fn many_points_are_thinned_and_the_last_one_stays() {
        let curve: Curve = (0..10_000).map(|step| (step, step as f64)).collect();
        let svg = single("steps", &curve);
        assert!(svg.matches(',').count() <= MOST_POINTS + 1 && svg.contains(" 478.0,40.0\""), "{svg}");
        assert_eq!([1, 5, 6, 469, 2000, 10_001].map(pace), [1, 1, 2, 100, 500, 2000]);
    }

    #[test]
    fn memory_that_is_used_twice_counts_once() {
        assert_eq!(covered([8..12, 0..4, 2..6, 3..5].into_iter()), 10);
        assert_eq!(covered([0..4, 0..4, 4..4].into_iter()), 4);
    }

    #[test]
    fn numbers_are_short_and_marks_are_few() {
        let shown = [0.0, 0.24801, -3e-7, 123.45, 1e9].map(short);
        assert_eq!(shown, ["0", "0.2480", "-3.00e-7", "123.5", "1.00e9"]);
        assert_eq!(marked(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(marked(60).collect::<Vec<_>>(), [0, 8, 16, 24, 32, 40, 48, 56]);
    }
}
