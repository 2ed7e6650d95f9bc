//! The source `text`: the bytes of a file, and which byte follows.

use std::path::Path;

use engine_core::ir::DType;
use indexmap::IndexMap;

use super::files::empty_set;
use super::{DataError, DataSet, LoadContext, Source, Split};
use crate::data::shuffle::epoch_order;
use crate::data::table::bytes_of;
use crate::tensor::HostTensor;

/// The fields `context`, `u8[rows, context]`, and `next`, `u8[rows]`: the byte that follows.
pub(super) struct Text;

const FILE: &str = "file";
const CONTEXT: &str = "context";
const STRIDE: &str = "stride";
const TEST: &str = "test";
const DEFAULT_CONTEXT: usize = 16;
const MOST: usize = 1 << 16;

impl Source for Text {
    fn name(&self) -> &str {
        "text"
    }

    fn summary(&self) -> &str {
        "windows of `context` bytes of a `file`, each with the `next` byte; the last `test` share is to judge by"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[FILE, CONTEXT, STRIDE, TEST])?;
        let width = context.count(CONTEXT, MOST)?.unwrap_or(DEFAULT_CONTEXT);
        let stride = context.count(STRIDE, MOST)?.unwrap_or(1);
        let share = context.share(TEST)?.unwrap_or(0.1);
        let Some(file) = context.text(FILE)? else {
            return Err(DataError::BadOption {
                name: FILE.to_string(),
                expected: "the name of a file".to_string(),
                found: "left out".to_string(),
            });
        };
        let (mut set, bytes) = match context.find(Path::new(file)) {
            Some(path) => (empty_set(self.name(), &path), bytes_of(&path)?),
            None => stand_in(context, file)?,
        };
        let (train, test) = bytes.split_at(((1.0 - share) * bytes.len() as f64) as usize);
        for (split, bytes) in [("train", train), ("test", test)] {
            set.splits.insert(split.to_string(), windows(bytes, width, stride, split)?);
        }
        Ok(set)
    }
}

fn windows(bytes: &[u8], width: usize, stride: usize, split: &str) -> Result<Split, DataError> {
    let rows = || bytes.windows(width + 1).step_by(stride);
    let n_rows = rows().len();
    if n_rows == 0 {
        return Err(DataError::ShortText { split: split.to_string(), n_bytes: bytes.len(), width });
    }
    let mut context = HostTensor::zeros(DType::U8, &[n_rows, width])?;
    let mut next = HostTensor::zeros(DType::U8, &[n_rows])?;
    let filled = context.bytes_mut().chunks_exact_mut(width).zip(next.bytes_mut());
    for ((window, next), row) in filled.zip(rows()) {
        window.copy_from_slice(&row[..width]);
        *next = row[width];
    }
    Split::new(IndexMap::from([(CONTEXT.to_string(), context), ("next".to_string(), next)]))
}

const N_LINES: usize = 4000;

/// Numbers in words, one a line, in a random order.
fn stand_in(context: &LoadContext, file: &str) -> Result<(DataSet, Vec<u8>), DataError> {
    let why = format!("it is not in {}", context.roots_text());
    let (provenance, note) = context.stand_in("numbers written by the program", file, &why)?;
    let mut numbers = vec![0; N_LINES];
    epoch_order(23, 0, &mut numbers);
    let bytes = numbers.into_iter().map(|number| in_words(number as usize) + "\n").collect::<String>();
    let (name, splits, names) = ("written-numbers".to_string(), IndexMap::new(), IndexMap::new());
    Ok((DataSet { name, provenance, note: Some(note), splits, names }, bytes.into_bytes()))
}

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// A number below a million in English words.
fn in_words(number: usize) -> String {
    let with_rest = |unit: usize, name: &str, joint: &str| match number % unit {
        0 => name.to_string(),
        rest => format!("{name}{joint}{}", in_words(rest)),
    };
    match number {
        0..20 => SMALL[number].to_string(),
        20..100 => with_rest(10, TENS[number / 10], "-"),
        100..1000 => with_rest(100, &format!("{} hundred", SMALL[number / 100]), " and "),
        _ => with_rest(1000, &format!("{} thousand", in_words(number / 1000)), " "),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use engine_core::ir::Attr;

    use super::*;

    fn load(dir: &Path, options: &[(&str, Attr)]) -> Result<DataSet, DataError> {
        let file = [(FILE.into(), Attr::from("a.txt"))];
        let options = options.iter().map(|(name, value)| ((*name).into(), value.clone()));
        let options = file.into_iter().chain(options).collect();
        Text.load(&LoadContext { options, ..LoadContext::offline_in(dir) })
    }

    #[test]
    fn windows_do_not_cross_from_one_split_to_the_other() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "abcdefghij").unwrap();
        let set = load(dir.path(), &[(CONTEXT, 2.into()), (STRIDE, 2.into()), (TEST, 0.4.into())]).unwrap();
        let field = |split: &str, field: &str| {
            let bytes = set.splits[split].field(field).unwrap().bytes().to_vec();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!((field("train", "context"), field("train", "next")), ("abcd".into(), "ce".into()));
        assert_eq!((field("test", "context"), field("test", "next")), ("gh".into(), "i".into()));
        let short = load(dir.path(), &[(CONTEXT, 9.into())]).unwrap_err().to_string();
        assert_eq!(
            short,
            "the text's part `train` has 9 bytes, which hold no window of 9 and the byte after it"
        );
        let bad = load(dir.path(), &[(TEST, 1.into())]).unwrap_err().to_string();
        assert_eq!(bad, "option `test` cannot be 1");
    }

    #[test]
    fn a_text_that_is_nowhere_is_replaced_and_it_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let set = load(dir.path(), &[]).unwrap();
        assert!(set.is_synthetic());
        assert!(set.note.unwrap().starts_with("numbers written by the program stand in for `a.txt`"));
        assert!(set.splits["train"].n_rows() > 50_000);
    }

    #[test]
    fn numbers_have_words() {
        let cases =
            [(0, "zero"), (13, "thirteen"), (42, "forty-two"), (70, "seventy"), (300, "three hundred")];
        let more = [(999, "nine hundred and ninety-nine"), (12_001, "twelve thousand one")];
        for (number, words) in cases.into_iter().chain(more) {
            assert_eq!(in_words(number), words);
        }
    }
}
