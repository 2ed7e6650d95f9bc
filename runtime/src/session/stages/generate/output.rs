//! Where texts appear while they grow: the terminal, and a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use engine_core::pipeline::GenerateStage;
use serde_json::json;

use super::text::Text;
use crate::files::{self, Format, Overwrite, Target, starts_with};
use crate::session::error::SessionError;
use crate::session::event::Event;
use crate::session::stages::StageRun;

/// A text as it is. It has no mark of its writer, so any file is replaced.
const PLAIN: Format = Format { name: "a text", is_own: |_| Ok(true), into_special: true };
/// An object for each text.
const OBJECTS: Format =
    Format { name: "a file of texts", is_own: |file| starts_with(file, b"{\"prompt\":"), into_special: true };

/// The format of texts, by the extension of their file.
pub fn format_of(path: &Path) -> &'static Format {
    if has_objects(path) { &OBJECTS } else { &PLAIN }
}

fn has_objects(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Texts in the order of their prompts. The first one that is not done is shown as it grows, the others after it.
pub struct Output<'s> {
    stage: &'s GenerateStage,
    file: Option<(&'s Path, File)>,
    /// The number of the text that is shown.
    current: usize,
}

impl<'s> Output<'s> {
    /// Opens the file of the stage, if it has one.
    pub fn open(stage: &'s GenerateStage, overwrite: Overwrite) -> Result<Output<'s>, SessionError> {
        let open = |path| {
            let target = Target::new(path, format_of(path), overwrite).map_err(io::Error::other);
            let file = target.and_then(|target| files::open_growing(&target));
            file.map(|file| (path, file)).map_err(|source| fault(path, source))
        };
        let file = stage.write.as_deref().map(Path::new).map(open).transpose()?;
        Ok(Output { stage, file, current: 0 })
    }

    /// Shows what is new. A plain file grows with the text, and one of objects by a line for each text that is done.
    pub fn show(&mut self, run: &mut StageRun<'_, '_>, texts: &mut [Text]) -> Result<(), SessionError> {
        while let Some(text) = texts.get_mut(self.current) {
            let is_done = text.is_done(self.stage.length, self.stage.stop.as_deref());
            let new = text.take_new(is_done);
            let end = if is_done { "\n" } else { "" };
            let shown = format!("{}{end}", String::from_utf8_lossy(new));
            if !shown.is_empty() {
                (run.tell)(&Event::Generated { stage: run.name, text: &shown });
            }
            if let Some((path, file)) = &mut self.file {
                let written = match (has_objects(path), is_done) {
                    (false, _) => file.write_all(new),
                    (true, true) => {
                        let prompt = &self.stage.prompts[self.current];
                        let text = String::from_utf8_lossy(&text.bytes);
                        file.write_all(format!("{}\n", json!({"prompt": prompt, "text": text})).as_bytes())
                    }
                    (true, false) => Ok(()),
                };
                written.map_err(|source| fault(path, source))?;
            }
            if !is_done {
                break;
            }
            self.current += 1;
        }
        Ok(())
    }
}

fn fault(path: &Path, source: io::Error) -> SessionError {
    SessionError::Output { path: path.to_path_buf(), source }
}
