//! Progress of a session: bars on a terminal, plain lines otherwise.

mod training;

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine_core::diag::legible::message;
use engine_core::ir::DType;
use engine_runtime::data::source::DataSet;
use engine_runtime::session::{
    EndReason, EpochReport, Event, Measure, OutputReport, StageReport, TrainingEnd, Values,
};
use engine_runtime::tensor::HostTensor;
use indexmap::{IndexMap, IndexSet};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::html::{bytes, latency_text, time_text};
use super::machine::peak_bytes;
use super::output::{print, print_part, remark};
use training::{Numbers, amount};

/// The maximum bytes of a stage's name at its bar.
const LONGEST_NAME: usize = 40;

/// Shows events as they come.
pub(super) struct Progress {
    quiet: bool,
    /// The last line of an epoch, which is the result of a quiet run.
    last_epoch: Option<String>,
    /// Checkpoints that the stage has written, possibly several times.
    saved: IndexSet<PathBuf>,
    /// Where bars are drawn.
    target: Box<dyn Fn() -> ProgressDrawTarget>,
    /// Whether bars are seen.
    is_live: bool,
    /// The bar of the running stage. Between stages, there is none.
    bar: Option<ProgressBar>,
    /// The end of the first line of a bar: epoch and loss.
    state: Arc<Mutex<String>>,
    numbers: Numbers,
}

impl Progress {
    /// Bars appear if the standard error is a terminal.
    pub(super) fn new(quiet: bool) -> Self {
        let live = !quiet && io::stderr().is_terminal();
        let target = if live { ProgressDrawTarget::stderr } else { ProgressDrawTarget::hidden };
        Progress::drawn_on(quiet, live, target)
    }

    fn drawn_on(quiet: bool, is_live: bool, target: impl Fn() -> ProgressDrawTarget + 'static) -> Self {
        Progress {
            quiet,
            last_epoch: None,
            saved: IndexSet::new(),
            target: Box::new(target),
            is_live,
            bar: None,
            state: Arc::default(),
            numbers: Numbers::new(is_live),
        }
    }

    /// Whether numbers of training are shown while it runs.
    pub(super) fn shows_numbers(&self) -> bool {
        !self.quiet
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::DataLoaded { data, set } => self.data_loaded(data, set),
            Event::Note(note) => self.remark(&format!("note: {note}")),
            Event::StageStarted { stage, kind, n_steps } => self.start_bar(stage, kind, *n_steps),
            Event::Progress { stage, step, n_steps, epoch, n_epochs, loss, measure } => {
                let loss = loss.map_or(String::new(), |loss| format!("  loss {}", number(loss)));
                let state = format!("epoch {epoch}/{n_epochs}{loss}");
                self.move_bar((stage, *step, *n_steps), state, *measure);
            }
            Event::Trip { stage, trip, times } => self.set_position(stage, (*trip, *times)),
            Event::EpochDone { stage, n_epochs, report, set } => {
                let line = epoch_line(stage, *n_epochs, report, *set);
                self.result(&line, false);
                self.last_epoch = Some(line);
            }
            // A search without ground truth measures nothing.
            Event::Evaluated { metrics, .. } if metrics.is_empty() => {}
            Event::Evaluated { stage, metrics, set } => {
                self.result(
                    &format!("{stage}: {}{}", metric_texts("", metrics).join(", "), stand_in(set)),
                    true,
                );
            }
            Event::Outputs { stage, outputs } => {
                for (name, tensor) in *outputs {
                    self.result(&format!("{stage}: {name}: {tensor:?} = {}", values_text(tensor)), true);
                }
            }
            Event::Generated { text, .. } => print_part(text),
            // The value goes to a file.
            Event::Kept { .. } => {}
            Event::CheckpointWritten { path } => _ = self.saved.insert(path.to_path_buf()),
            Event::ResultsWritten { path } => self.remark(&format!("wrote {}", path.display())),
            Event::CheckpointRead { path, step: 0 } => self.remark(&format!("loaded {}", path.display())),
            Event::CheckpointRead { path, step } => {
                self.remark(&format!("resumed {} at step {step}", path.display()));
            }
            Event::StageDone { report } => self.stage_done(report),
        }
    }

    fn stage_done(&mut self, report: &StageReport) {
        self.finish();
        for path in std::mem::take(&mut self.saved) {
            self.remark(&format!("saved {}", path.display()));
        }
        if let Some(line) = self.last_epoch.take().filter(|_| self.quiet) {
            self.result(&line, true);
        }
        if let Some(end) = &report.end {
            self.training_ended(&report.name, end);
        }
        let counted = match &*report.kind {
            "train" => (report.steps, "steps"),
            "search" => (report.steps, "batches of queries"),
            "generate" => (report.tokens.unwrap_or(report.steps), "tokens"),
            "repeat" => {
                let StageReport { name, steps, seconds, .. } = report;
                return self.remark(&format!("{name}: {steps} trips, {seconds:.2} s in all"));
            }
            _ => return,
        };
        self.remark(&stage_line(report, counted));
    }

    /// Removes the bar.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn data_loaded(&self, data: &str, set: &DataSet) {
        let rows = set.splits.iter().map(|(name, split)| format!("{} to {name}", split.n_rows()));
        let rows: Vec<String> = rows.collect();
        self.remark(&format!("data `{data}`: {} ({}), rows: {}", set.name, set.provenance, rows.join(", ")));
        if let Some(note) = &set.note {
            // Printed even if quiet, since numbers on generated data can mislead.
            self.above_bar(|| remark(format!("note: {note}")));
        }
    }

    /// Prints why training ended, and its best epoch. A quiet run prints it only for an unexpected end.
    fn training_ended(&self, stage: &str, end: &TrainingEnd) {
        let TrainingEnd { epoch, n_epochs, best, .. } = end;
        let metric = best.as_ref().map_or("", |best| &best.metric);
        if let EndReason::EarlyStop { patience, min_delta } = end.reason {
            let by = if min_delta > 0.0 { format!(" by more than {min_delta}") } else { String::new() };
            let epochs = if patience == 1 { "epoch".to_string() } else { format!("{patience} epochs") };
            let why = match best {
                Some(_) => format!("`{metric}` has not improved{by} in the last {epochs}"),
                None => "the monitored metric was finite in no epoch, so none is the best".to_owned(),
            };
            self.result(&format!("{stage}: stopped early, after epoch {epoch}/{n_epochs}: {why}"), true);
        }
        if let Some(best) = best {
            let restored = if best.is_restored { "; its state is restored" } else { "" };
            let line =
                format!("{stage}: best epoch {}: {metric} {}{restored}", best.epoch, number(best.value));
            self.result(&line, best.is_restored);
        }
    }

    fn start_bar(&mut self, stage: &str, kind: &str, n_steps: u64) {
        self.finish();
        // A text grows where a bar would stand.
        if kind == "generate" {
            return;
        }
        let template = match kind {
            "train" | "repeat" => "{prefix} {bar:20} {pos}/{len}  {state}  {eta} left\n  {wide_msg}",
            _ => "{prefix} {bar:20} {pos}/{len}  {eta} left",
        };
        let state = Arc::clone(&self.state);
        let shown = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&state.lock().unwrap_or_else(PoisonError::into_inner));
        };
        let style = ProgressStyle::with_template(template).map(|style| style.with_key("state", shown));
        let bar = ProgressBar::with_draw_target(Some(n_steps), (self.target)())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_prefix(message(stage, LONGEST_NAME));
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
        self.numbers = Numbers::new(self.is_live);
        self.set_state(String::new());
    }

    fn set_state(&self, state: String) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn move_bar(&mut self, (stage, step, n_steps): (&str, u64, u64), state: String, measure: Measure<'_>) {
        if self.quiet {
            return;
        }
        let numbers = self.numbers.see(measure, self.is_live);
        if self.is_live {
            self.set_state(state);
        } else if let Some(numbers) = numbers.as_ref().filter(|_| step < n_steps) {
            let state = state.replace("  ", ", ");
            return remark(format!("{stage}: step {step}/{n_steps}, {state}, {}", numbers.join(", ")));
        }
        self.set_position(stage, (step, n_steps));
        if let (Some(bar), Some(numbers)) = (&self.bar, numbers) {
            bar.set_message(numbers.join("  "));
        }
    }

    /// Moves the bar, which shows the latest part of a `Repeat`.
    fn set_position(&self, stage: &str, (step, n_steps): (u64, u64)) {
        if let Some(bar) = &self.bar {
            if bar.length() != Some(n_steps) {
                bar.set_length(n_steps);
                bar.set_prefix(message(stage, LONGEST_NAME));
            }
            bar.set_position(step);
        }
    }

    /// Prints a line on the standard output. Quiet runs omit intermediate lines.
    fn result(&self, line: &str, is_final: bool) {
        if is_final || !self.quiet {
            self.above_bar(|| print(line));
        }
    }

    fn remark(&self, line: &str) {
        if !self.quiet {
            self.above_bar(|| remark(line));
        }
    }

    fn above_bar(&self, show: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(show),
            None => show(),
        }
    }
}

/// The line at the end of a stage: how many steps, or tokens, in which time, and the peaks of memory of the device and of
/// this process.
fn stage_line(report: &StageReport, (count, each): (u64, &str)) -> String {
    let StageReport { name, steps, step_us, seconds, rows, latency, peak_bytes: device, .. } = report;
    let in_steps = *steps as f64 * step_us * 1e-6;
    let rows = rows.filter(|_| in_steps > 0.0);
    let rows = rows.map_or(String::new(), |rows| format!(" ({} rows/s)", amount(rows as f64 / in_steps)));
    let host = peak_bytes().map_or(String::new(), |host| format!(", host {}", bytes(host)));
    format!(
        "{name}: {count} {each}, {} each{rows}{}, {seconds:.2} s in all; device {}{host}",
        time_text(in_steps / count.max(1) as f64),
        latency.as_ref().map_or(String::new(), latency_text),
        bytes(*device as u64)
    )
}

/// The line of an epoch: the metrics of training, measured while parameters changed, then those of the evaluation's
/// split.
fn epoch_line(stage: &str, n_epochs: u64, report: &EpochReport, set: Option<&DataSet>) -> String {
    let mut parts = vec![format!("train loss {}", number(report.train_loss))];
    parts.extend(metric_texts("train ", &report.train_metrics));
    let split = report.evaluated_on.as_ref().map_or(String::new(), |split| format!("{split} "));
    parts.extend(metric_texts(&split, &report.metrics));
    parts.push(format!("{:.2} s", report.seconds));
    let note = set.filter(|_| !report.metrics.is_empty()).map_or(String::new(), stand_in);
    format!("{stage}: epoch {}/{n_epochs}: {}{note}", report.epoch, parts.join(", "))
}

fn metric_texts(prefix: &str, metrics: &IndexMap<String, f64>) -> Vec<String> {
    metrics.iter().map(|(name, value)| format!("{prefix}{name} {}", number(*value))).collect()
}

/// The remark for metrics on generated data.
fn stand_in(set: &DataSet) -> String {
    match set.is_synthetic() {
        true => format!(" (on the built-in {}, not on real data)", set.name),
        false => String::new(),
    }
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}

/// The first elements, each in the shortest form for its type.
fn values_text(tensor: &HostTensor) -> String {
    const MOST: usize = 16;
    let shown: Vec<String> = match OutputReport::from(tensor).values {
        Values::Whole(values) => values.iter().take(MOST).map(i64::to_string).collect(),
        Values::Floats(values) => {
            values.iter().take(MOST).map(|value| number_text(*value, tensor.dtype())).collect()
        }
    };
    let rest = if tensor.n_elements() > MOST { ", …" } else { "" };
    format!("[{}{rest}]", shown.join(", "))
}

fn number_text(value: f64, dtype: DType) -> String {
    let text = match dtype {
        DType::F64 => format!("{value:?}"),
        dtype if dtype.is_float() => format!("{:?}", value as f32),
        _ => value.to_string(),
    };
    text.strip_suffix(".0").unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use engine_runtime::data::source::Provenance;
    use indicatif::TermLike;

    use super::*;

    /// A terminal that keeps what is drawn on it.
    #[derive(Clone, Debug, Default)]
    struct Drawn(Arc<Mutex<String>>);

    impl Drawn {
        fn add(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
    }

    impl TermLike for Drawn {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.add(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Remarks before and between stages, and a restart on another device, draw no bar.
    #[test]
    fn a_bar_is_drawn_while_a_stage_runs_only() {
        let drawn = Drawn::default();
        let target = drawn.clone();
        let mut progress =
            Progress::drawn_on(false, true, move || ProgressDrawTarget::term_like(Box::new(target.clone())));
        let take = || std::mem::take(&mut *drawn.0.lock().unwrap());
        progress.show(&Event::DataLoaded { data: "digits", set: &set(Provenance::Synthetic) });
        progress.finish();
        progress.show(&Event::Note("another device"));
        assert_eq!(take(), "");
        progress.show(&Event::StageStarted { stage: "train\u{1b}[2J", kind: "train", n_steps: 8 });
        progress.show(&Event::Note("a remark above the bar"));
        let shown = take();
        assert!(shown.contains("train\\u{1b}[2J") && shown.contains("0/8"), "{shown}");
        progress.finish();
        take();
        progress.show(&Event::Note("after the stage"));
        assert_eq!(take(), "");
    }

    fn set(provenance: Provenance) -> DataSet {
        DataSet::new("synthetic-digits", provenance)
    }

    #[test]
    fn an_accuracy_on_made_up_data_says_so() {
        let report = EpochReport {
            epoch: 2,
            step: 20,
            train_loss: 0.25,
            seconds: 1.5,
            train_metrics: IndexMap::from([("accuracy".to_string(), 0.5)]),
            metrics: IndexMap::from([("accuracy".to_string(), 0.98765)]),
            evaluated_on: Some("test".to_string()),
        };
        let synthetic = set(Provenance::Synthetic);
        assert_eq!(
            epoch_line("train", 5, &report, Some(&synthetic)),
            "train: epoch 2/5: train loss 0.2500, train accuracy 0.5000, test accuracy 0.9877, 1.50 s (on the built-in synthetic-digits, not on real data)"
        );
        let real = set(Provenance::Files { dir: "data".into() });
        assert!(epoch_line("train", 5, &report, Some(&real)).ends_with("test accuracy 0.9877, 1.50 s"));
    }

    /// Several texts grow in one step.
    #[test]
    fn tokens_are_counted_in_all_texts() {
        let report = StageReport {
            name: "write".to_string(),
            steps: 4,
            step_us: 600.0,
            tokens: Some(12),
            ..StageReport::default()
        };
        let line = stage_line(&report, (12, "tokens"));
        assert!(line.starts_with("write: 12 tokens, 200.0 µs each, "), "{line}");
    }

    #[test]
    fn long_outputs_are_cut() {
        let text = |values: &[f32]| values_text(&HostTensor::from_slice(&[values.len()], values).unwrap());
        assert_eq!(text(&[1.0, -0.1, 1e-9, f32::INFINITY]), "[1, -0.1, 1e-9, inf]");
        assert!(text(&[0.0; 17]).ends_with("0, …]"));
        let whole = HostTensor::from_slice(&[2], &[1i64 << 40, -3]).unwrap();
        assert_eq!(values_text(&whole), "[1099511627776, -3]");
    }
}
