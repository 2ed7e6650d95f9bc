//! A text while it is generated.

use crate::philox::WordStream;

/// The tokens of a text and its bytes.
pub struct Text {
    /// The tokens of the prompt, then those that were drawn.
    pub tokens: Vec<u32>,
    pub bytes: Vec<u8>,
    /// The random numbers that pick its tokens.
    pub draws: WordStream,
    n_prompt_tokens: usize,
    n_prompt_bytes: usize,
    n_shown: usize,
}

impl Text {
    /// A text that consists of its prompt.
    pub fn new(prompt: &str, tokens: Vec<u32>, draws: WordStream) -> Text {
        let bytes = prompt.as_bytes().to_vec();
        let (n_prompt_tokens, n_prompt_bytes) = (tokens.len(), bytes.len());
        Text { tokens, bytes, draws, n_prompt_tokens, n_prompt_bytes, n_shown: 0 }
    }

    /// The number of drawn tokens.
    pub fn n_drawn(&self) -> usize {
        self.tokens.len() - self.n_prompt_tokens
    }

    /// Whether it has `length` drawn tokens, or ends with `stop` behind its prompt.
    pub fn is_done(&self, length: usize, stop: Option<&str>) -> bool {
        let drawn = &self.bytes[self.n_prompt_bytes..];
        self.n_drawn() >= length || stop.is_some_and(|stop| drawn.ends_with(stop.as_bytes()))
    }

    /// Appends a token with its bytes.
    pub fn push(&mut self, token: u32, bytes: &[u8]) {
        self.tokens.push(token);
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes that were not asked for before: whole characters, and all of them once the text is done.
    pub fn take_new(&mut self, is_done: bool) -> &[u8] {
        const LONGEST: usize = 4;
        let new = &self.bytes[self.n_shown..];
        let n_whole = match std::str::from_utf8(new) {
            Err(fault) if !is_done && new.len() - fault.valid_up_to() < LONGEST => fault.valid_up_to(),
            _ => new.len(),
        };
        self.n_shown += n_whole;
        &new[..n_whole]
    }
}
