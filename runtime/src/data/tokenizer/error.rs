//! Why a tokenizer cannot be used.

use std::path::PathBuf;

use thiserror::Error;

use crate::data::fault::{TableError, shortened};

/// Why a tokenizer, or a text with it, cannot be used: the file, the fact.
#[derive(Debug, Error)]
#[error("{}: {fact}", .path.display())]
pub struct TokenizerError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fact: TokenizerFact,
}

/// A fault of a tokenizer or of a text.
#[derive(Debug, Error)]
pub enum TokenizerFact {
    /// The file cannot be read.
    #[error("cannot be read as a tokenizer ({0})")]
    Unreadable(Box<TableError>),
    /// The file is not the JSON that it should be.
    #[error("is no tokenizer: {0}")]
    BadJson(serde_json::Error),
    /// The tokenizer is none of those supported.
    #[error("{what} is not supported, only byte-level BPE without a normalizer")]
    Unsupported {
        /// The part of the file.
        what: String,
    },
    /// A pattern is no regular expression.
    #[error("the pattern `{}` is not understood: {error}", shortened(.pattern))]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// The fault.
        error: Box<fancy_regex::Error>,
    },
    /// A merge names a token that does not exist.
    #[error("merge {number}: there is no token `{}`", shortened(.token))]
    UnknownToken {
        /// The merge, counted from 1.
        number: usize,
        /// The token.
        token: String,
    },
    /// A merge is not two tokens with a space between them.
    #[error("merge {number}: `{}` is not two tokens with a space between them", shortened(.text))]
    BadMerge {
        /// The merge, counted from 1.
        number: usize,
        /// The merge as it is written.
        text: String,
    },
    /// The numbers of tokens are absurd.
    #[error("a token has the number {}", .n_tokens - 1)]
    TooManyTokens {
        /// One more than the highest number.
        n_tokens: usize,
    },
    /// The vocabulary lacks a byte of the text.
    #[error("the vocabulary has no token for the byte {byte:#04x}")]
    NoToken {
        /// The byte.
        byte: u8,
    },
    /// A pattern takes too long on the text.
    #[error("the text cannot be split: {0}")]
    Unsplit(Box<fancy_regex::Error>),
    /// The text is not UTF-8.
    #[error("line {line}, column {column}: the byte {byte:#04x} is no UTF-8, which a tokenizer needs")]
    NotUtf8 {
        /// The line, counted from 1.
        line: usize,
        /// The byte in the line, counted from 1.
        column: usize,
        /// The byte.
        byte: u8,
    },
}

impl TokenizerFact {
    /// One concrete thing to do.
    pub fn help(&self) -> &'static str {
        match self {
            TokenizerFact::Unreadable(_) => "check the path",
            TokenizerFact::Unsupported { .. } => {
                "take a tokenizer such as GPT-2's or Llama 3's, or bytes: leave out `tokenizer`"
            }
            TokenizerFact::NoToken { .. } | TokenizerFact::Unsplit(_) => {
                "take a tokenizer that was trained on such texts"
            }
            TokenizerFact::NotUtf8 { .. } => {
                "convert the text to UTF-8, or leave out `tokenizer` to take bytes"
            }
            TokenizerFact::BadJson(_)
            | TokenizerFact::BadPattern { .. }
            | TokenizerFact::UnknownToken { .. }
            | TokenizerFact::BadMerge { .. }
            | TokenizerFact::TooManyTokens { .. } => "fetch the file again",
        }
    }
}
