//! Event files of TensorBoard: records of `TFRecord`, each an `Event` of `event.proto` with a `Summary` of
//! `summary.proto` (tensorflow/core/util and tensorflow/core/framework). Only the fields in use are declared.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

/// A file of events. A record is in the file as soon as its function returns.
pub(super) struct EventFile {
    file: File,
}

/// The folder of a run has event files of this name.
pub(super) const PREFIX: &str = "events.out.tfevents.";

impl EventFile {
    /// A new file in the folder of a run, which is created. TensorBoard reads the files of a folder in the order of their
    /// names, and drops what earlier ones have from step `first_step` on.
    pub(super) fn create(folder: &Path, first_step: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let n_known = files(folder)?.len();
        let seconds = now() as u64;
        let path = folder.join(format!("{PREFIX}{seconds:010}.engine.{n_known:04}"));
        let mut events = EventFile { file: File::create_new(path)? };
        events.write(0, Event { file_version: Some("brain.Event:2".to_string()), ..Event::default() })?;
        let session = Some(SessionLog { status: SESSION_START });
        events.write(first_step, Event { session_log: session, ..Event::default() })?;
        Ok(events)
    }

    /// Numbers by tag.
    pub(super) fn scalars(&mut self, step: u64, scalars: &[(String, f64)]) -> io::Result<()> {
        let value = |(tag, number): &(String, f64)| Value {
            tag: tag.clone(),
            simple_value: Some(*number as f32),
            ..Value::default()
        };
        self.summary(step, scalars.iter().map(value).collect())
    }

    /// A text in Markdown.
    pub(super) fn text(&mut self, step: u64, tag: &str, text: &str) -> io::Result<()> {
        let plugin = Some(PluginData { plugin_name: "text".to_string() });
        let tensor = Tensor { dtype: DT_STRING, string_val: vec![text.as_bytes().to_vec()] };
        let metadata = Some(Metadata { plugin_data: plugin });
        let value = Value { tag: tag.to_string(), metadata, tensor: Some(tensor), ..Value::default() };
        self.summary(step, vec![value])
    }

    fn summary(&mut self, step: u64, value: Vec<Value>) -> io::Result<()> {
        self.write(step, Event { summary: Some(Summary { value }), ..Event::default() })
    }

    fn write(&mut self, step: u64, event: Event) -> io::Result<()> {
        let event = Event { wall_time: now(), step: step as i64, ..event };
        self.file.write_all(&record(&event.encode_to_vec()))
    }
}

/// The event files of a folder, in order.
pub(super) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A record: the length of the data, its checksum, the data, their checksum; numbers are little-endian.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()].concat()
}

/// The masked CRC-32C of `TFRecord`.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// `SessionLog::START`
const SESSION_START: i32 = 1;
/// `DataType::DT_STRING`
const DT_STRING: i32 = 7;

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "8")]
    tensor: Option<Tensor>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginData {
    #[prost(string, tag = "1")]
    plugin_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(bytes = "vec", repeated, tag = "8")]
    string_val: Vec<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32C is that of RFC 3720, appendix B.4; the mask is that of TensorFlow's `crc32c.h`.
    #[test]
    fn checksums_are_masked() {
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x8a91_36aau32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}
