//! Tokenizers: texts as numbers of tokens, and back.

mod error;
mod merges;
mod pieces;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use super::table::bytes_of;
pub use error::{TokenizerError, TokenizerFact};
use merges::{Merge, Merges};
use pieces::{Step, byte_letters, kind_of, steps_of};

/// A byte-level BPE tokenizer, as the file `tokenizer.json` of Hugging Face's `tokenizers` describes it (GPT-2, Llama 3 and
/// others), or one whose tokens are bytes.
#[derive(Debug)]
pub struct Tokenizer {
    /// The bytes of each token; none for a number that the vocabulary skips.
    tokens: Vec<Option<Box<[u8]>>>,
    /// Absent if tokens are bytes.
    bpe: Option<Bpe>,
}

#[derive(Debug)]
struct Bpe {
    /// Tokens that are searched for before anything else, longest first.
    added: Vec<(String, u32)>,
    steps: Vec<Step>,
    merges: Merges,
    /// The token of each byte, if there is one.
    of_byte: [Option<u32>; 256],
    /// Tokens by their bytes, if a piece that is a token is not to be merged from its bytes.
    whole: Option<HashMap<Box<[u8]>, u32>>,
}

/// Pieces up to so many bytes are encoded once and remembered.
const MOST_REMEMBERED: usize = 64;

impl Tokenizer {
    /// The tokenizer whose 256 tokens are the bytes of a text.
    pub fn bytes() -> Tokenizer {
        Tokenizer { tokens: (0..=255u8).map(|byte| Some(Box::from([byte]))).collect(), bpe: None }
    }

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged, or describes another algorithm than byte-level BPE without a normalizer.
    pub fn read(path: &Path) -> Result<Tokenizer, TokenizerError> {
        let fail = |fact| TokenizerError { path: path.to_path_buf(), fact };
        let bytes = bytes_of(path).map_err(|error| fail(TokenizerFact::Unreadable(Box::new(error))))?;
        Tokenizer::parse(&bytes).map_err(fail)
    }

    fn parse(json: &[u8]) -> Result<Tokenizer, TokenizerFact> {
        let file: File = serde_json::from_slice(json).map_err(TokenizerFact::BadJson)?;
        file.expect_supported()?;
        let steps = steps_of(file.pre_tokenizer.as_ref())?;
        let vocabulary = &file.model.vocab;
        let highest = vocabulary.values().chain(file.added_tokens.iter().map(|added| &added.id)).max();
        let n_tokens = highest.map_or(0, |&highest| highest as usize + 1);
        if n_tokens > MOST_TOKENS {
            return Err(TokenizerFact::TooManyTokens { n_tokens });
        }
        let mut tokens = vec![None; n_tokens];
        let mut of_byte = [None; 256];
        let bytes_of_letters: HashMap<char, u8> = byte_letters().into_iter().zip(0..=255).collect();
        for (text, &id) in vocabulary {
            let bytes: Box<[u8]> =
                match text.chars().map(|letter| bytes_of_letters.get(&letter).copied()).collect() {
                    Some(bytes) => bytes,
                    None => text.as_bytes().into(),
                };
            if let [byte] = *bytes {
                of_byte[usize::from(byte)] = Some(id);
            }
            tokens[id as usize] = Some(bytes);
        }
        let merges = Merges::new(vocabulary, &file.model.merges)?;
        let whole = file.model.ignore_merges.then(|| {
            let all = tokens.iter().zip(0u32..);
            all.filter_map(|(bytes, id)| Some((bytes.clone()?, id))).collect()
        });
        let mut added: Vec<(String, u32)> = vec![];
        for token in file.added_tokens {
            tokens[token.id as usize] = Some(token.content.as_bytes().into());
            added.push((token.content, token.id));
        }
        added.retain(|(text, _)| !text.is_empty());
        added.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Ok(Tokenizer { tokens, bpe: Some(Bpe { added, steps, merges, of_byte, whole }) })
    }

    /// One more than the highest number of a token: the rows that a table of embeddings needs.
    pub fn n_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// The number of the added token of that text, such as `<|endoftext|>`.
    pub fn added(&self, text: &str) -> Option<u32> {
        let added = &self.bpe.as_ref()?.added;
        added.iter().find(|(known, _)| known == text).map(|(_, id)| *id)
    }

    /// The tokens of a text. Added tokens are recognized; none is put at the start or the end.
    ///
    /// # Errors
    /// If a byte of the text is no token, or a pattern of the tokenizer backtracks too far.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerFact> {
        let Some(bpe) = &self.bpe else { return Ok(text.bytes().map(u32::from).collect()) };
        let (mut ids, mut known, mut rest) = (vec![], HashMap::new(), text);
        while let Some((at, token, id)) = bpe.next_added(rest) {
            bpe.encode_part(&rest[..at], &mut known, &mut ids)?;
            ids.push(id);
            rest = &rest[at + token.len()..];
        }
        bpe.encode_part(rest, &mut known, &mut ids)?;
        Ok(ids)
    }

    /// The bytes of a token; none if there is no such token. A character may consist of several tokens.
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        self.tokens.get(id as usize)?.as_deref()
    }

    /// The text of tokens. Bytes that are no UTF-8 become U+FFFD, and numbers without a token are left out.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| self.token(id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Tokens of a piece, by the piece.
type Known = HashMap<Box<str>, Box<[u32]>>;

impl Bpe {
    /// The first added token of a text: its place, its text and its number.
    fn next_added(&self, text: &str) -> Option<(usize, &str, u32)> {
        let found = self.added.iter().filter_map(|(token, id)| Some((text.find(&**token)?, &**token, *id)));
        // Of those at one place the longest is taken, which comes first.
        found.min_by_key(|(at, ..)| *at)
    }

    /// Appends the tokens of a text without added tokens.
    fn encode_part(&self, text: &str, known: &mut Known, ids: &mut Vec<u32>) -> Result<(), TokenizerFact> {
        pieces::split(text, &self.steps, &mut |piece| {
            if let Some(known) = known.get(piece) {
                ids.extend_from_slice(known);
                return Ok(());
            }
            let start = ids.len();
            match self.whole.as_ref().and_then(|whole| whole.get(piece.as_bytes())) {
                Some(id) => ids.push(*id),
                None => {
                    let token =
                        |byte: u8| self.of_byte[usize::from(byte)].ok_or(TokenizerFact::NoToken { byte });
                    let bytes = piece.bytes().map(token).collect::<Result<Vec<u32>, _>>()?;
                    self.merges.merge(bytes, ids);
                }
            }
            if piece.len() <= MOST_REMEMBERED {
                known.insert(piece.into(), ids[start..].into());
            }
            Ok(())
        })
    }
}

/// No vocabulary is as large; a larger number is a damaged file.
const MOST_TOKENS: usize = 1 << 24;

/// The parts of a `tokenizer.json` that matter here.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Deserialize)]
struct Model {
    /// Older files do not name it.
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    ignore_merges: bool,
    vocab: IndexMap<String, u32>,
    merges: Vec<Merge>,
}

impl File {
    fn expect_supported(&self) -> Result<(), TokenizerFact> {
        let model = &self.model;
        let has_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let stripped =
            self.added_tokens.iter().find(|added| added.single_word || added.lstrip || added.rstrip);
        let unsupported = match () {
            () if model.kind.as_ref().is_some_and(|kind| kind != "BPE") => {
                format!("the model {}", model.kind.as_deref().unwrap_or_default())
            }
            () if self.normalizer.is_some() => {
                format!("the normalizer {}", kind_of(self.normalizer.as_ref()))
            }
            () if model.dropout.is_some_and(|share| share > 0.0) => "`dropout`".to_string(),
            () if has_text(&model.continuing_subword_prefix) => "`continuing_subword_prefix`".to_string(),
            () if has_text(&model.end_of_word_suffix) => "`end_of_word_suffix`".to_string(),
            () => match stripped {
                Some(added) => {
                    format!("`lstrip`, `rstrip` or `single_word` of the added token `{}`", added.content)
                }
                None => return Ok(()),
            },
        };
        Err(TokenizerFact::Unsupported { what: unsupported })
    }
}
