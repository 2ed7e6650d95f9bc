//! The source `text`: windows of the tokens of a file, and the tokens that follow.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use super::files::empty_set;
use super::validation::VALIDATION;
use super::{DataError, DataSet, LoadContext, Source, Split};
use crate::data::field::{Field, SlidingWindows};
use crate::data::shuffle::epoch_order;
use crate::data::table::bytes_of;
use crate::data::tokenizer::{Tokenizer, TokenizerError, TokenizerFact};
use crate::tensor::HostTensor;

/// The fields `input` and `target`, `[rows, context]`: a window of tokens, and the window that starts one token later. The
/// field `context` is `input`, and `next`, `[rows]`, is the last of `target`. Bytes are u8, tokens of a tokenizer i32.
pub(super) struct Text;

const FILE: &str = "file";
const CONTEXT: &str = "context";
const STRIDE: &str = "stride";
const TEST: &str = "test";
const TOKENIZER: &str = "tokenizer";
const DEFAULT_CONTEXT: usize = 16;
const MOST: usize = 1 << 16;

impl Source for Text {
    fn name(&self) -> &str {
        "text"
    }

    fn summary(&self) -> &str {
        "windows of `context` bytes or tokens of a `file` as `input`, and as `target` those one later; the end is for tests"
    }

    fn divides(&self) -> bool {
        true
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[FILE, CONTEXT, STRIDE, TEST, TOKENIZER])?;
        let width = context.count(CONTEXT, MOST)?.unwrap_or(DEFAULT_CONTEXT);
        let stride = context.count(STRIDE, MOST)?.unwrap_or(1);
        let shares = [context.share(TEST)?.unwrap_or(0.1), context.share(VALIDATION)?.unwrap_or(0.0)];
        let Some(file) = context.text(FILE)? else {
            return Err(DataError::BadOption {
                name: FILE.to_string(),
                expected: "the name of a file".to_string(),
                found: "left out".to_string(),
            });
        };
        let path = context.find(Path::new(file));
        let (mut set, bytes) = match &path {
            Some(path) => (empty_set(self.name(), path), bytes_of(path)?),
            None => stand_in(context, file)?,
        };
        let (tokens, tokenizer) = match context.text(TOKENIZER)? {
            Some(tokenizer) => {
                let tokenizer = Tokenizer::read(&context.expect(Path::new(tokenizer))?)?;
                (encoded(path.as_deref().unwrap_or(Path::new(file)), &tokenizer, &bytes)?, tokenizer)
            }
            None => (HostTensor::from_slice(&[bytes.len()], &bytes)?, Tokenizer::bytes()),
        };
        set.tokenizer = Some(Arc::new(tokenizer));
        let [test, validation] = shares;
        let before = |end: usize, share: f64| ((1.0 - share) * end as f64) as usize;
        let train_and_validation = before(tokens.n_elements(), test);
        let train = before(train_and_validation, validation);
        let parts = [
            ("train", 0..train, stride),
            // Windows to judge by do not overlap, so each token counts once.
            (VALIDATION, train..train_and_validation, width),
            ("test", train_and_validation..tokens.n_elements(), width),
        ];
        let is_empty = |split| split == VALIDATION && validation == 0.0 || split == "test" && test == 0.0;
        for (split, part, stride) in parts.into_iter().filter(|(split, ..)| !is_empty(*split)) {
            let rows = windows(&tokens, (part.start, part.len()), [width, stride], split)?;
            set.splits.insert(split.to_string(), rows);
        }
        set.empty_splits.extend((test == 0.0).then(|| "test".to_string()));
        Ok(set)
    }
}

/// The tokens of a text; `path` is named in errors.
fn encoded(path: &Path, tokenizer: &Tokenizer, bytes: &[u8]) -> Result<HostTensor, DataError> {
    let fail = |fact| TokenizerError { path: path.to_path_buf(), fact };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (before, rest) = bytes.split_at(error.valid_up_to());
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        fail(TokenizerFact::NotUtf8 { line, column, byte: rest[0] })
    })?;
    let tokens: Vec<i32> =
        tokenizer.encode(text).map_err(fail)?.into_iter().map(|token| token as i32).collect();
    Ok(HostTensor::from_slice(&[tokens.len()], &tokens)?)
}

/// The rows of a part of the tokens: its first token and how many. None reads a token of another part.
fn windows(
    tokens: &HostTensor,
    (first, n_tokens): (usize, usize),
    [width, stride]: [usize; 2],
    split: &str,
) -> Result<Split, DataError> {
    let Some(after_first) = n_tokens.checked_sub(width + 1) else {
        return Err(DataError::ShortText { split: split.to_string(), n_tokens, width });
    };
    let steps = (stride, after_first / stride + 1);
    let field = |extents: &[usize], offset| {
        Field::Lazy(Arc::new(SlidingWindows::new(tokens, extents, first + offset, steps)))
    };
    Split::new(IndexMap::from([
        (CONTEXT.to_string(), field(&[width], 0)),
        ("next".to_string(), field(&[], width)),
        ("input".to_string(), field(&[width], 0)),
        ("target".to_string(), field(&[width], 1)),
    ]))
}

const N_LINES: usize = 4000;

/// Numbers in words, one a line, in a random order.
fn stand_in(context: &LoadContext, file: &str) -> Result<(DataSet, Vec<u8>), DataError> {
    let why = format!("it is not in {}", context.roots_text());
    let (provenance, note) = context.stand_in("numbers written by the program", file, &why)?;
    let mut numbers = vec![0; N_LINES];
    epoch_order(23, 0, &mut numbers);
    let bytes = numbers.into_iter().map(|number| in_words(number as usize) + "\n").collect::<String>();
    let set = DataSet { note: Some(note), ..DataSet::new("written-numbers", provenance) };
    Ok((set, bytes.into_bytes()))
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

    fn letters(set: &DataSet, split: &str, field: &str) -> String {
        String::from_utf8(set.splits[split].tensor(field).unwrap().bytes().to_vec()).unwrap()
    }

    #[test]
    fn targets_are_inputs_one_later_and_stay_in_their_split() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "abcdefghijklmnopqrst").unwrap();
        let set =
            load(dir.path(), &[(CONTEXT, 2.into()), (TEST, 0.25.into()), (VALIDATION, 0.4.into())]).unwrap();
        let types = |split: &str| format!("{:?}", set.splits[split].fields());
        assert_eq!(
            types("train"),
            r#"{"context": u8[7,2], "next": u8[7], "input": u8[7,2], "target": u8[7,2]}"#
        );
        assert_eq!(set.splits.keys().collect::<Vec<_>>(), ["train", VALIDATION, "test"]);
        assert_eq!(letters(&set, "train", "input"), "abbccddeeffggh");
        assert_eq!(letters(&set, "train", "target"), "bccddeeffgghhi");
        assert_eq!(letters(&set, "train", "next"), "cdefghi");
        assert_eq!(letters(&set, "train", "context"), letters(&set, "train", "input"));
        let judged = |split| (letters(&set, split, "input"), letters(&set, split, "target"));
        assert_eq!(judged(VALIDATION), ("jklm".into(), "klmn".into()));
        assert_eq!(judged("test"), ("pqrs".into(), "qrst".into()));
        let strided =
            load(dir.path(), &[(CONTEXT, 2.into()), (STRIDE, 6.into()), (TEST, 0.25.into())]).unwrap();
        assert_eq!(letters(&strided, "train", "input"), "abghmn");
    }

    #[test]
    fn options_that_leave_no_window_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "abcdefghij").unwrap();
        let error = |options: &[(&str, Attr)]| load(dir.path(), options).unwrap_err().to_string();
        let short = "has 9 tokens, which hold no window of 9 and the token after it";
        assert_eq!(error(&[(CONTEXT, 9.into())]), format!("the text's part `train` {short}"));
        let short = "has 1 tokens, which hold no window of 2 and the token after it";
        assert_eq!(error(&[(CONTEXT, 2.into())]), format!("the text's part `test` {short}"));
        assert_eq!(error(&[(TEST, 1.into())]), "option `test` cannot be 1");
        assert_eq!(error(&[("steps", 1.into())]), "there is no option `steps`");
    }

    #[test]
    fn a_part_may_have_no_share() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "abcdefghij").unwrap();
        let whole = load(dir.path(), &[(CONTEXT, 9.into()), (TEST, 0.0.into())]).unwrap();
        assert_eq!(whole.splits.keys().collect::<Vec<_>>(), ["train"]);
        assert_eq!(letters(&whole, "train", "input"), "abcdefghi");
        let error = whole.split("test").unwrap_err().to_string();
        assert!(error.ends_with("has no split `test`, whose share is 0"), "{error}");
        let kept = |options: &[(&str, Attr)]| {
            let set = load(dir.path(), options).unwrap();
            set.splits.keys().cloned().collect::<Vec<String>>()
        };
        let validated = kept(&[(CONTEXT, 2.into()), (TEST, 0.into()), (VALIDATION, 0.3.into())]);
        assert_eq!(validated, ["train", VALIDATION]);
        let tested = kept(&[(CONTEXT, 2.into()), (TEST, 0.3.into()), (VALIDATION, 0.0.into())]);
        assert_eq!(tested, ["train", "test"]);
    }

    #[test]
    fn tokens_take_the_place_of_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let json = include_str!("../../../../tests/examples/tokenizer_gpt2.json");
        fs::write(dir.path().join("tokenizer.json"), json).unwrap();
        let text = "The licence of this work, and nothing else. ".repeat(20);
        let with = |text: &[u8], name: &str| {
            fs::write(dir.path().join("a.txt"), text).unwrap();
            load(dir.path(), &[(CONTEXT, 4.into()), (TOKENIZER, name.into())])
        };
        let set = with(text.as_bytes(), "tokenizer.json").unwrap();
        let target = set.splits["train"].field("target").unwrap().first_rows(1).unwrap();
        let tokenizer = Tokenizer::read(&dir.path().join("tokenizer.json")).unwrap();
        let expected = tokenizer.encode("The licence of this work").unwrap();
        let target = target.as_slice::<i32>().unwrap().iter().map(|&token| token as u32);
        assert!(target.eq(expected[1..5].iter().copied()));

        let error = |text: &[u8], name: &str| with(text, name).unwrap_err().to_string();
        let wrong = error(b"good\nnot \xff good", "tokenizer.json");
        let expected = "a.txt: line 2, column 5: the byte 0xff is no UTF-8, which a tokenizer needs";
        assert!(wrong.ends_with(expected), "{wrong}");
        assert!(error(b"abc", "none.json").starts_with("`none.json` is not in "));
        fs::write(dir.path().join("bad.json"), "{\n  \"model\": 7}").unwrap();
        let bad = error(b"abc", "bad.json");
        assert!(bad.contains("bad.json: is no tokenizer: ") && bad.ends_with("at line 2 column 12"), "{bad}");
    }

    /// Rows of a long context take the memory of the text alone.
    #[test]
    fn overlapping_windows_are_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), vec![b'a'; 1 << 20]).unwrap();
        let set = load(dir.path(), &[(CONTEXT, 4096.into())]).unwrap();
        let train = &set.splits["train"];
        assert!(train.n_rows() > 900_000 && train.fields().values().all(|field| field.stored().is_none()));
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
