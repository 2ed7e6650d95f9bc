//! `--log`: a run as it goes on, as lines of JSON and as event files of TensorBoard. `docs/logs.md` describes both.

mod tensorboard;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use engine_core::pipeline::{Evaluation, Pipeline};
use engine_runtime::files::Overwrite;
use engine_runtime::session::{EpochReport, Event, RunEnd, StageReport};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::file::log_in_the_way;
use super::meter::Point;
use super::output::Failure;

use tensorboard::{EventFile, files, now};

/// The file of JSON lines in the folder of a log.
const LINES: &str = "log.jsonl";
/// How the first line begins: with the facts of the run, or with the end of a run that failed before.
const STARTS: [&str; 2] = ["{\"event\":\"run\",", "{\"event\":\"end\","];
/// The run of what training measures on its own rows.
const TRAINING: &str = "train";

/// The log of a run. A failed write ends the log, not the run.
pub(super) struct Log {
    folder: PathBuf,
    lines: File,
    /// Event files by run: `STAGE/train`, and `STAGE/SPLIT` for each split that the stage evaluates.
    runs: IndexMap<String, EventFile>,
    /// Steps before this process.
    first_step: u64,
    /// Steps so far.
    step: u64,
    /// Splits by evaluation stage.
    splits: IndexMap<String, String>,
    /// Settings in Markdown.
    settings: String,
    failure: Option<io::Error>,
}

impl Log {
    /// Begins a log, or continues the one in the folder if the run is resumed.
    pub(super) fn open(
        folder: &Path,
        pipeline: &Pipeline,
        (is_resumed, overwrite): (bool, Overwrite),
    ) -> Result<Self, Failure> {
        let path = folder.join(LINES);
        if path.exists() {
            let is_own = is_log(&path).map_err(|error| Failure::unwritable(&path, &error))?;
            match (is_own, is_resumed, overwrite) {
                (false, _, _) => {
                    let fact = "already exists, and is no log of this program";
                    return Err(log_in_the_way(&path, fact, "choose another folder"));
                }
                (true, true, _) => {}
                (true, false, Overwrite::Any) => {
                    remove(folder).map_err(|error| Failure::unwritable(folder, &error))?
                }
                (true, false, Overwrite::Own) => {
                    let help = "choose another folder, or replace the log with `--force`";
                    return Err(log_in_the_way(&path, "is the log of another run", help));
                }
            }
        }
        let open = || {
            fs::create_dir_all(folder)?;
            OpenOptions::new().create(true).append(true).open(&path)
        };
        let evaluations =
            pipeline.stages.iter().filter_map(|stage| Some((&stage.name, stage.get::<Evaluation>()?)));
        let splits = evaluations.map(|(name, stage)| (name.to_string(), stage.data.split.to_string()));
        Ok(Log {
            folder: folder.to_path_buf(),
            lines: open().map_err(|error| Failure::unwritable(&path, &error))?,
            runs: IndexMap::new(),
            first_step: 0,
            step: 0,
            splits: splits.collect(),
            settings: String::new(),
            failure: None,
        })
    }

    /// The first line of a run, with its facts and settings.
    pub(super) fn begin(&mut self, mut facts: Map<String, Value>, settings: &[(String, String)]) {
        let row = |(path, value): &(String, String)| format!("| {path} | {} |\n", value.replace('|', "\\|"));
        let rows: String = settings.iter().map(row).collect();
        self.settings = format!("| setting | value |\n|---|---|\n{rows}");
        let settings = settings.iter().map(|(path, value)| (path.clone(), value.clone().into()));
        facts.insert("settings".to_string(), Value::Object(settings.collect()));
        self.line("run", facts.into());
    }

    /// A step of training.
    pub(super) fn point(&mut self, point: &Point<'_>) {
        let measured = &point.measured;
        self.step = measured.step;
        let mut line = json!({
            "stage": point.stage, "step": measured.step, "epoch": measured.epoch,
            "metrics": measured.metrics, "rates": measured.rates,
            "device_bytes": measured.device_bytes, "process_bytes": point.process_bytes,
        });
        let mut scalars: Vec<(String, f64)> = vec![];
        scalars.extend(measured.metrics.iter().map(|(name, value)| (name.clone(), *value)));
        scalars.extend(measured.rates.iter().map(|(name, value)| (name.clone(), *value)));
        for (name, value) in point.numbers() {
            if line.get(name).is_none() {
                line[name] = json!(value);
            }
            scalars.push((name.to_string(), value));
        }
        self.line("step", line);
        self.scalars(point.stage, TRAINING, &scalars);
    }

    /// Any event but progress.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::StageStarted { stage, kind, n_steps } => {
                self.line("stage", json!({ "stage": stage, "kind": kind, "n_steps": n_steps }));
            }
            Event::EpochDone { stage, n_epochs, report, .. } => self.epoch(stage, *n_epochs, report),
            Event::Evaluated { stage, metrics, .. } => {
                let split = self.splits.get(*stage).cloned().unwrap_or_default();
                let line = json!({ "stage": stage, "step": self.step, "split": split, "metrics": metrics });
                self.line("evaluation", line);
                let run = if split.is_empty() { "evaluation" } else { &split };
                self.metrics(stage, run, metrics);
            }
            Event::Note(text) => self.line("note", json!({ "text": text })),
            Event::CheckpointRead { path, step } => {
                (self.first_step, self.step) = (*step, *step);
                self.line("read", json!({ "path": path, "step": step }));
            }
            Event::CheckpointWritten { path } => {
                self.line("written", json!({ "path": path, "step": self.step }));
            }
            Event::ResultsWritten { path } => self.line("written", json!({ "path": path })),
            Event::StageDone { report } => self.stage_done(report),
            Event::DataLoaded { .. }
            | Event::Progress { .. }
            | Event::Trip { .. }
            | Event::Outputs { .. }
            | Event::Generated { .. }
            | Event::Kept { .. } => {}
        }
    }

    fn epoch(&mut self, stage: &str, n_epochs: u64, report: &EpochReport) {
        self.step = report.step;
        let mut means = IndexMap::from([("loss".to_string(), report.train_loss)]);
        means.extend(report.train_metrics.clone());
        let mut line = json!({
            "stage": stage, "step": report.step, "epoch": report.epoch, "n_epochs": n_epochs,
            "seconds": report.seconds, "metrics": means,
        });
        if let Some(split) = &report.evaluated_on {
            line["split"] = json!(split);
            line["evaluation"] = json!(report.metrics);
            self.metrics(stage, split, &report.metrics);
        }
        self.line("epoch", line);
    }

    fn stage_done(&mut self, report: &StageReport) {
        let mut line = json!(report);
        if let Some(fields) = line.as_object_mut() {
            // Each epoch has a line of its own.
            fields.retain(|name, _| name != "epochs");
            let name = fields.shift_remove("name").unwrap_or_default();
            fields.insert("stage".to_string(), name);
        }
        self.line("stage_end", line);
    }

    /// The last line. Fails if something could not be written.
    pub(super) fn end(mut self, end: RunEnd, error: Option<String>) -> Result<(), Failure> {
        let mut line = json!({ "end": end });
        if let Some(error) = error {
            line["error"] = error.into();
        }
        self.line("end", line);
        self.failure.map_or(Ok(()), |error| Err(Failure::unwritable(&self.folder, &error)))
    }

    fn line(&mut self, event: &str, fields: Value) {
        let mut line =
            Map::from_iter([("event".to_string(), event.into()), ("time".to_string(), now().into())]);
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        self.attempt(|log| log.lines.write_all(format!("{}\n", Value::Object(line)).as_bytes()));
    }

    fn metrics(&mut self, stage: &str, run: &str, metrics: &IndexMap<String, f64>) {
        let scalars: Vec<(String, f64)> =
            metrics.iter().map(|(name, value)| (name.clone(), *value)).collect();
        self.scalars(stage, run, &scalars);
    }

    fn scalars(&mut self, stage: &str, run: &str, scalars: &[(String, f64)]) {
        self.attempt(|log| {
            let run_name = format!("{stage}/{run}");
            if !log.runs.contains_key(&run_name) {
                let folder =
                    [stage, run].iter().fold(log.folder.clone(), |folder, name| folder.join(plain(name)));
                let mut events = EventFile::create(&folder, log.first_step + 1)?;
                if run == TRAINING {
                    events.text(log.first_step, "settings", &log.settings)?;
                }
                log.runs.insert(run_name.clone(), events);
            }
            match log.runs.get_mut(&run_name) {
                Some(events) => events.scalars(log.step, scalars),
                None => Ok(()),
            }
        });
    }

    fn attempt(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(self).err();
        }
    }
}

/// A name as a folder: a stage may be called `../x`.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(letter).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

/// Whether a file is a log. That of a run that ended early may be empty, or end within its first line.
fn is_log(path: &Path) -> io::Result<bool> {
    let mut first = String::new();
    BufReader::new(File::open(path)?).read_line(&mut first)?;
    Ok(STARTS.iter().any(|start| first.starts_with(start) || start.starts_with(&first)))
}

/// Removes a log: its lines, and the event files in the folders of its runs.
fn remove(folder: &Path) -> io::Result<()> {
    let folders = |folder: &Path| -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        Ok(entries.collect::<io::Result<Vec<_>>>()?.into_iter().filter(|path| path.is_dir()).collect())
    };
    for stage in folders(folder)? {
        for run in folders(&stage)? {
            files(&run)?.iter().try_for_each(fs::remove_file)?;
        }
    }
    fs::remove_file(folder.join(LINES))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_of_stages_are_folders_within() {
        assert_eq!(plain("digits.test"), "digits.test");
        assert_eq!(plain("../../etc"), "_.._.._etc");
        assert_eq!(plain("a/b\\c"), "a_b_c");
    }
}
