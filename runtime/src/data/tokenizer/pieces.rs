//! Pieces of a text, within which tokens are merged.

use fancy_regex::Regex;
use serde_json::Value;

use super::error::TokenizerFact;

/// GPT-2's pattern: contractions, words, numbers, other signs, and blanks, each with the blank before it.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A step from a text to its pieces.
#[derive(Debug)]
pub(super) enum Step {
    /// Matches are pieces, and so are the parts between them.
    Split(Regex),
    /// A piece starts with a blank.
    Blank,
}

/// The steps of the part `pre_tokenizer` of the file.
pub(super) fn steps_of(part: Option<&Value>) -> Result<Vec<Step>, TokenizerFact> {
    let mut steps = vec![];
    let is_byte_level = add_steps(part, &mut steps)?;
    match is_byte_level {
        true => Ok(steps),
        false => Err(unsupported(part)),
    }
}

/// Appends the steps of a part; whether it turns bytes into letters.
fn add_steps(part: Option<&Value>, steps: &mut Vec<Step>) -> Result<bool, TokenizerFact> {
    let flag = |name: &str, default: bool| {
        part.and_then(|part| part.get(name)).and_then(Value::as_bool).unwrap_or(default)
    };
    let field = |name: &str| part.and_then(|part| part.get(name));
    match kind_of(part) {
        "ByteLevel" => {
            if flag("add_prefix_space", true) {
                steps.push(Step::Blank);
            }
            if flag("use_regex", true) {
                steps.push(pattern(GPT2)?);
            }
            Ok(true)
        }
        "Digits" => {
            steps.push(pattern(if flag("individual_digits", false) { r"\p{N}" } else { r"\p{N}+" })?);
            Ok(false)
        }
        "Split" => {
            let behavior = field("behavior").and_then(Value::as_str);
            // The parts between matches are dropped, of which a pattern for all letters leaves none.
            let keeps_all = (behavior, flag("invert", false)) == (Some("Isolated"), false);
            let Some(regex) = field("pattern").and_then(|pattern| pattern.get("Regex")?.as_str()) else {
                return Err(unsupported(part));
            };
            match keeps_all {
                true => steps.push(pattern(regex)?),
                false => return Err(unsupported(part)),
            }
            Ok(false)
        }
        "Sequence" => {
            let parts = field("pretokenizers").and_then(Value::as_array).ok_or_else(|| unsupported(part))?;
            let mut is_byte_level = false;
            for (at, inner) in parts.iter().enumerate() {
                is_byte_level = add_steps(Some(inner), steps)?;
                // Behind it, steps would see letters that stand for bytes.
                if is_byte_level && at + 1 < parts.len() {
                    return Err(unsupported(part));
                }
            }
            Ok(is_byte_level)
        }
        _ => Err(unsupported(part)),
    }
}

fn unsupported(part: Option<&Value>) -> TokenizerFact {
    let what = match part {
        Some(part) if part.get("type").is_some_and(|kind| kind == "Split" || kind == "Sequence") => {
            format!("the pre-tokenizer {part}")
        }
        Some(_) => format!("the pre-tokenizer {}", kind_of(part)),
        None => "a tokenizer without a pre-tokenizer".to_string(),
    };
    TokenizerFact::Unsupported { what }
}

fn pattern(regex: &str) -> Result<Step, TokenizerFact> {
    let bad = |error| TokenizerFact::BadPattern { pattern: regex.to_string(), error: Box::new(error) };
    Ok(Step::Split(Regex::new(regex).map_err(bad)?))
}

/// Takes the steps and hands each piece to `emit`.
pub(super) fn split(
    text: &str,
    steps: &[Step],
    emit: &mut dyn FnMut(&str) -> Result<(), TokenizerFact>,
) -> Result<(), TokenizerFact> {
    if text.is_empty() {
        return Ok(());
    }
    let Some((step, steps)) = steps.split_first() else { return emit(text) };
    match step {
        Step::Blank if text.starts_with(' ') => split(text, steps, emit),
        Step::Blank => split(&format!(" {text}"), steps, emit),
        Step::Split(regex) => {
            let mut end = 0;
            for found in regex.find_iter(text) {
                let found = found.map_err(|error| TokenizerFact::Unsplit(Box::new(error)))?;
                split(&text[end..found.start()], steps, emit)?;
                split(found.as_str(), steps, emit)?;
                end = found.end();
            }
            split(&text[end..], steps, emit)
        }
    }
}

/// The letters that stand for the 256 bytes in the vocabulary of a byte-level tokenizer: a byte that is printable in
/// Latin-1 stands for itself, all others are letters from U+0100 on (GPT-2's `bytes_to_unicode`).
pub(super) fn byte_letters() -> [char; 256] {
    let mut next = '\u{100}'..;
    std::array::from_fn(|byte| match byte as u8 {
        byte @ (b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) => char::from(byte),
        _ => next.next().unwrap_or_default(),
    })
}

/// The `type` of a part of the file.
pub(super) fn kind_of(part: Option<&Value>) -> &str {
    part.and_then(|part| part.get("type")).and_then(Value::as_str).unwrap_or("without a type")
}
