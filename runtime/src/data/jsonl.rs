//! JSON Lines: one object on each line, flattened into columns.
//!
//! A column's name is the path of its value: `user.age`, and `pixels.0` for an element of an array. The file is read
//! twice: for its columns, then for its rows.

use std::borrow::Cow;
use std::io::BufRead;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;

use super::fault::TableError;
use super::records::{Columns, ReadRecords, Record, Text};

/// The rows of a text of JSON objects. A value that a line lacks is an empty cell, as `null` is.
pub(super) struct JsonRecords<'p> {
    lines: Lines<'p>,
    columns: Columns,
    /// The place of each column by its name.
    places: IndexMap<String, usize>,
}

impl<'p> JsonRecords<'p> {
    /// Opens a text and finds its columns, in the order of their first line.
    pub(super) fn open(text: Text<'p>) -> Result<JsonRecords<'p>, TableError> {
        let mut lines = Lines::open(text)?;
        let mut places: IndexMap<String, usize> = IndexMap::new();
        // The lengths of arrays, by their paths.
        let mut lengths: IndexMap<String, usize> = IndexMap::new();
        while let Some((line, object)) = lines.read_next()? {
            let mut fault = None;
            let mut note_length = |path: &str, found: usize| {
                let expected = *lengths.entry(path.to_string()).or_insert(found);
                if found != expected && fault.is_none() {
                    fault = Some(format!("`{path}` has {found} elements, {expected} on the lines before"));
                }
            };
            flatten(&object, String::new(), &mut note_length, &mut |path, _| {
                let n_columns = places.len();
                places.entry(path).or_insert(n_columns);
            });
            if let Some(why) = fault {
                return Err(lines.fault(line, why));
            }
        }
        let names: Vec<String> = places.keys().cloned().collect();
        let columns = Columns { n_columns: names.len(), names: Some(names) };
        Ok(JsonRecords { lines: Lines::open(text)?, columns, places })
    }
}

impl ReadRecords for JsonRecords<'_> {
    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn read_next(&mut self) -> Result<Option<Record<'_>>, TableError> {
        let Some((line, object)) = self.lines.read_next()? else { return Ok(None) };
        let mut fields: Vec<Cow<'_, str>> = vec![Cow::Borrowed(""); self.columns.n_columns];
        let mut twice = None;
        flatten(&object, String::new(), &mut |_, _| {}, &mut |path, value| match self
            .places
            .get(&path)
            .and_then(|&place| fields.get_mut(place))
        {
            Some(field) if field.is_empty() => *field = Cow::Owned(cell(value)),
            _ => twice = Some(path),
        });
        match twice {
            Some(path) => Err(self.lines.fault(line, format!("`{path}` has two values"))),
            None => Ok(Some(Record { line, fields })),
        }
    }
}

/// Visits the values within a value by their paths, and the lengths of its arrays.
fn flatten(
    value: &Value,
    path: String,
    note_length: &mut dyn FnMut(&str, usize),
    visit: &mut dyn FnMut(String, &Value),
) {
    let below = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(value, below(key), note_length, visit));
        }
        Value::Array(elements) => {
            note_length(&path, elements.len());
            for (place, element) in elements.iter().enumerate() {
                flatten(element, below(&place.to_string()), note_length, visit);
            }
        }
        _ => visit(path, value),
    }
}

/// A value as the text of a cell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(truth) => u8::from(*truth).to_string(),
        Value::String(text) => text.trim().to_string(),
        number => number.to_string(),
    }
}

/// The objects of a text, one on each line that is not empty.
struct Lines<'p> {
    path: &'p Path,
    reader: Box<dyn BufRead + 'p>,
    /// The number of lines that have been read.
    n_lines: usize,
    bytes: Vec<u8>,
}

impl<'p> Lines<'p> {
    fn open(text: Text<'p>) -> Result<Lines<'p>, TableError> {
        Ok(Lines { path: text.path(), reader: text.open()?, n_lines: 0, bytes: vec![] })
    }

    /// The next object with its line, counted from 1.
    fn read_next(&mut self) -> Result<Option<(usize, Value)>, TableError> {
        loop {
            self.bytes.clear();
            let n_bytes = self.reader.read_until(b'\n', &mut self.bytes);
            let unreadable = |error| TableError::Unreadable { path: self.path.to_path_buf(), error };
            if n_bytes.map_err(unreadable)? == 0 {
                return Ok(None);
            }
            self.n_lines += 1;
            let text = self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes).trim_ascii();
            if text.is_empty() {
                continue;
            }
            return match serde_json::from_slice(text) {
                Ok(object @ Value::Object(_)) => Ok(Some((self.n_lines, object))),
                Ok(_) => Err(self.fault(self.n_lines, "the line is not a JSON object".to_string())),
                Err(error) => {
                    let why = error.to_string();
                    let why = why.split(" at line ").next().unwrap_or_default();
                    Err(self.fault(self.n_lines, format!("column {}: no JSON: {why}", error.column())))
                }
            };
        }
    }

    fn fault(&self, line: usize, why: String) -> TableError {
        TableError::BadLine { path: self.path.to_path_buf(), line, why }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::fuzz::many_times;

    /// The names of the columns, and the line and the fields of each row.
    type Rows = (Vec<String>, Vec<(usize, Vec<String>)>);

    fn read(text: &str) -> Result<Rows, TableError> {
        let mut records = JsonRecords::open(Text::Memory(Path::new("a.jsonl"), text))?;
        let mut rows = vec![];
        while let Some(record) = records.read_next()? {
            rows.push((record.line, record.fields.into_iter().map(Cow::into_owned).collect()));
        }
        Ok((records.columns.names.unwrap(), rows))
    }

    #[test]
    fn objects_are_flattened_into_columns() {
        let text = "\u{feff}{\"id\": 9007199254740993, \"user\": {\"city\": \" Bern \", \"age\": null}}\n\n\
                    {\"user\": {\"age\": 4.50}, \"ok\": true, \"v\": [1, [-2e3, 0.1]]}\r\n";
        let (columns, rows) = read(text).unwrap();
        assert_eq!(columns, ["id", "user.city", "user.age", "ok", "v.0", "v.1.0", "v.1.1"]);
        let expected = |line, cells: [&str; 7]| (line, cells.map(String::from).to_vec());
        assert_eq!(rows[0], expected(1, ["9007199254740993", "Bern", "", "", "", "", ""]));
        assert_eq!(rows[1], expected(3, ["", "", "4.5", "1", "1", "-2000.0", "0.1"]));
        assert_eq!(read("").unwrap().0, Vec::<String>::new());
    }

    #[test]
    fn lines_that_are_no_rows_are_named() {
        let error = |text| read(text).unwrap_err().to_string();
        assert_eq!(error("{\"a\": 1}\n{\"a\": }\n"), "a.jsonl:2: column 7: no JSON: expected value");
        assert_eq!(error("{\"a\": 1}\n[1]\n"), "a.jsonl:2: the line is not a JSON object");
        let uneven = "{\"v\": [1, 2]}\n{\"v\": null}\n{\"v\": [1]}\n";
        assert_eq!(error(uneven), "a.jsonl:3: `v` has 1 elements, 2 on the lines before");
        assert_eq!(error("{\"a.b\": 1, \"a\": {\"b\": 2}}\n"), "a.jsonl:1: `a.b` has two values");
        assert!(error("\0").starts_with("a.jsonl:1: column 1: no JSON"));
    }

    #[test]
    fn damaged_lines_never_panic() {
        const LINE: &[u8] = b"{\"a\": [1, 2.5], \"b\": {\"c\": \"d\", \"e\": null}}\n";
        many_times(0x150, |stream| {
            let mut text = LINE.repeat(2);
            for _ in 0..=stream.below(3) {
                let place = stream.below(text.len() as u32) as usize;
                text[place] = stream.word() as u8;
            }
            drop(read(&String::from_utf8_lossy(&text)));
        });
    }
}
