//! The source `csv`: tables with a column to predict.

use std::fs;
use std::path::PathBuf;

use engine_core::ir::{Attr, Literal};
use indexmap::IndexMap;

use super::files::{empty_set, expect, split_names};
use super::{DataError, DataSet, LoadContext, Source, Split};
use crate::data::csv::{self, Record, Records};
use crate::data::table::TableError;
use crate::tensor::HostTensor;

/// The field `features`, `f32[rows, columns]`, and, if a column is named as such, `label`.
pub(super) struct Csv;

const FILE: &str = "file";
const LABEL: &str = "label";
const SEPARATOR: &str = "separator";

impl Source for Csv {
    fn name(&self) -> &str {
        "csv"
    }

    fn summary(&self) -> &str {
        "the table of a CSV `file`: the column `label`, if there is one, and all others as `features`"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[FILE, LABEL, SEPARATOR, "splits"])?;
        let Some(file) = context.text(FILE)? else {
            return Err(DataError::BadOption {
                name: FILE.to_string(),
                expected: "the name of a CSV file".to_string(),
                found: "left out".to_string(),
            });
        };
        let (separator, label) = (separator(context)?, Label::new(context)?);
        let mut tables = IndexMap::new();
        for split in split_names(context, &[(FILE, file)])? {
            let path = expect(context, file, &split)?;
            tables.insert(split, Table::read(path, separator, label.as_ref())?);
        }
        set(self.name(), &tables, label.is_some())
    }
}

fn separator(context: &LoadContext) -> Result<char, DataError> {
    let Some(text) = context.text(SEPARATOR)? else { return Ok(',') };
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(separator), None) if !matches!(separator, '"' | '\n' | '\r') => Ok(separator),
        _ => Err(DataError::BadOption {
            name: SEPARATOR.to_string(),
            expected: "one character, such as \";\" or \"\\t\"".to_string(),
            found: Attr::from(text).to_string(),
        }),
    }
}

/// The column to predict.
enum Label {
    Name(String),
    /// Counted from 0.
    Number(usize),
}

impl Label {
    /// The option is the name of a column, or its number counted from 1.
    fn new(context: &LoadContext) -> Result<Option<Label>, DataError> {
        let number = context
            .options
            .iter()
            .any(|(option, value)| &**option == LABEL && matches!(value, Attr::Lit(Literal::Int(_))));
        Ok(match number {
            true => context.count(LABEL, 1 << 20)?.map(|number| Label::Number(number - 1)),
            false => context.text(LABEL)?.map(|name| Label::Name(name.to_string())),
        })
    }

    fn column(&self, names: &[String]) -> Result<usize, DataError> {
        let column = match self {
            Label::Number(column) => Some(*column).filter(|column| *column < names.len()),
            Label::Name(label) => names.iter().position(|name| name == label),
        };
        column.ok_or_else(|| DataError::BadOption {
            name: LABEL.to_string(),
            expected: format!("one of the columns {}", names.join(", ")),
            found: match self {
                Label::Name(name) => Attr::from(name.as_str()).to_string(),
                Label::Number(column) => (column + 1).to_string(),
            },
        })
    }
}

/// What a file holds.
struct Table {
    path: PathBuf,
    features: Vec<f32>,
    n_features: usize,
    labels: Vec<String>,
    n_rows: usize,
}

impl Table {
    fn read(path: PathBuf, separator: char, label: Option<&Label>) -> Result<Table, DataError> {
        let bytes = fs::read(&path).map_err(|error| TableError::Unreadable { path: path.clone(), error })?;
        let text = String::from_utf8_lossy(&bytes);
        let mut table =
            Table { path: path.clone(), features: vec![], n_features: 0, labels: vec![], n_rows: 0 };
        let mut label_column = None;
        for (i, record) in Records::new(&path, &text, separator).enumerate() {
            let record = record?;
            if i == 0 {
                let (names, has_head) = names(&record);
                label_column = label.map(|label| label.column(&names)).transpose()?;
                table.n_features = names.len() - usize::from(label_column.is_some());
                if has_head {
                    continue;
                }
            }
            table.push(&record, label_column)?;
        }
        match table.n_rows {
            0 => Err(TableError::NoRows { path }.into()),
            _ => Ok(table),
        }
    }

    fn push(&mut self, record: &Record<'_>, label: Option<usize>) -> Result<(), TableError> {
        for column in (0..record.fields.len()).filter(|&column| Some(column) != label) {
            self.features.push(csv::number(&self.path, record, column)? as f32);
        }
        self.labels.extend(label.map(|column| record.fields[column].to_string()));
        self.n_rows += 1;
        Ok(())
    }
}

/// The names of the columns, and whether the record holds them; otherwise they are numbers.
fn names(record: &Record<'_>) -> (Vec<String>, bool) {
    match csv::is_head(record) {
        true => (record.fields.iter().map(|field| field.to_string()).collect(), true),
        false => ((1..=record.fields.len()).map(|number| number.to_string()).collect(), false),
    }
}

fn set(source: &str, tables: &IndexMap<String, Table>, has_label: bool) -> Result<DataSet, DataError> {
    let Some(first) = tables.values().next() else { return Err(DataError::NoRows) };
    let mut set = empty_set(source, &first.path);
    let kind = Kind::of(tables.values().flat_map(|table| &table.labels));
    for (split, table) in tables {
        if table.n_features != first.n_features {
            return Err(DataError::WrongContent {
                path: table.path.clone(),
                set: set.name,
                expected: format!("{} columns of features", first.n_features),
                found: table.n_features.to_string(),
            });
        }
        let features = HostTensor::from_slice(&[table.n_rows, table.n_features], &table.features)?;
        let mut fields = IndexMap::from([("features".to_string(), features)]);
        if has_label {
            fields.insert(LABEL.to_string(), kind.tensor(&table.labels)?);
        }
        set.splits.insert(split.clone(), Split::new(fields)?);
    }
    Ok(set)
}

/// What a column of labels holds in all splits.
enum Kind {
    /// Whole numbers: `i32`.
    Whole,
    /// Numbers: `f32`.
    Numbers,
    /// Names of classes, sorted: `i32`, the place in this list.
    Classes(Vec<String>),
}

impl Kind {
    fn of<'l>(labels: impl Iterator<Item = &'l String> + Clone) -> Kind {
        if labels.clone().all(|label| label.parse::<i32>().is_ok()) {
            return Kind::Whole;
        }
        if labels.clone().all(|label| label.parse::<f64>().is_ok()) {
            return Kind::Numbers;
        }
        let mut classes: Vec<String> = labels.cloned().collect();
        classes.sort_unstable();
        classes.dedup();
        Kind::Classes(classes)
    }

    fn tensor(&self, labels: &[String]) -> Result<HostTensor, DataError> {
        let shape = [labels.len()];
        let whole = |number: &dyn Fn(&String) -> i32| {
            HostTensor::from_slice(&shape, &labels.iter().map(number).collect::<Vec<i32>>())
        };
        Ok(match self {
            Kind::Whole => whole(&|label| label.parse().unwrap_or_default())?,
            Kind::Classes(classes) => whole(&|label| classes.partition_point(|class| class < label) as i32)?,
            Kind::Numbers => {
                let numbers = labels.iter().map(|label| label.parse().unwrap_or(f32::NAN));
                HostTensor::from_slice(&shape, &numbers.collect::<Vec<f32>>())?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    struct Desk(tempfile::TempDir);

    impl Desk {
        fn load(&self, options: &[(&str, Attr)]) -> Result<DataSet, DataError> {
            let options = options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
            Csv.load(&LoadContext { options, ..LoadContext::offline_in(self.0.path()) })
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.0.path().join(file), text).unwrap();
        }
    }

    fn desk(text: &str) -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.write("train.csv", text);
        desk
    }

    #[test]
    fn a_column_of_class_names_is_numbered_alike_in_all_splits() {
        let desk = desk("width;height;kind\n1;2;rose\n3;4;\"iris\"\n");
        desk.write("test.csv", "width;height;kind\n5;6;tulip\n");
        let options = [(FILE, "{split}.csv".into()), (SEPARATOR, ";".into()), (LABEL, "kind".into())];
        let set = desk.load(&options).unwrap();
        let train = set.splits["train"].fields();
        assert_eq!(format!("{train:?}"), r#"{"features": f32[2,2], "label": i32[2]}"#);
        assert_eq!(train["features"].to_f64(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(train["label"].to_f64(), [1.0, 0.0]);
        assert_eq!(set.splits["test"].field("label").unwrap().to_f64(), [2.0]);
    }

    #[test]
    fn labels_are_whole_numbers_or_numbers_if_all_are() {
        let label = |text: &str| {
            let options = [(FILE, "train.csv".into()), (LABEL, Attr::from(1))];
            desk(text).load(&options).map(|set| set.splits["train"].field(LABEL).unwrap().clone())
        };
        assert_eq!(format!("{:?}", label("7,1\n-8,2\n").unwrap()), "i32[2]");
        let numbers = label("7,1\n0.5,2\n").unwrap();
        assert_eq!((format!("{numbers:?}"), numbers.to_f64()), ("f32[2]".to_string(), vec![7.0, 0.5]));
        let plain = desk("1,2\n").load(&[(FILE, "train.csv".into())]).unwrap();
        assert_eq!(format!("{:?}", plain.splits["train"].fields()), r#"{"features": f32[1,2]}"#);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str, options: &[(&str, Attr)]| {
            let file = [(FILE, Attr::from("train.csv"))];
            let error = desk(text).load(&[&file[..], options].concat()).unwrap_err();
            error.to_string().rsplit('/').next().unwrap().to_string()
        };
        assert_eq!(error("a,b\n1,2\n3,four\n", &[]), "train.csv:3: column 2: `four` is not a number");
        assert_eq!(error("a,b\n1,2\n3\n", &[]), "train.csv:3: 1 columns, the lines before have 2");
        assert_eq!(error("a,b\n", &[]), "train.csv: has no rows");
        assert_eq!(error("a,b\n1,2\n", &[(LABEL, "c".into())]), "option `label` cannot be \"c\"");
        assert_eq!(error("a,b\n1,2\n", &[(LABEL, 3.into())]), "option `label` cannot be 3");
        assert_eq!(error("1,2\n", &[(SEPARATOR, ";;".into())]), "option `separator` cannot be \";;\"");
        let desk = desk("1,2\n");
        assert_eq!(desk.load(&[]).unwrap_err().to_string(), "option `file` cannot be left out");
        desk.write("test.csv", "1,2,3\n");
        let uneven = desk.load(&[(FILE, "{split}.csv".into())]).unwrap_err().to_string();
        assert!(uneven.ends_with("has 2 columns of features") && uneven.contains("test.csv: 3 "), "{uneven}");
    }
}
