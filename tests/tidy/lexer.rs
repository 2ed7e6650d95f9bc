//! A lexer for Rust sources: tokens of the code, and the texts of comments and string literals.

/// A token of the code: an identifier, a number, `::`, or one other character.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub text: String,
    /// The line, from 1.
    pub line: usize,
}

/// A comment or a string literal.
#[derive(Clone, Debug)]
pub struct Text {
    pub text: String,
    /// The first line, from 1.
    pub line: usize,
    /// The last line.
    pub end: usize,
}

/// The parts of a source.
#[derive(Default)]
pub struct Lexed {
    pub tokens: Vec<Token>,
    pub comments: Vec<Text>,
    pub strings: Vec<Text>,
}

/// Cuts a source into tokens, comments and string literals.
pub fn lex(source: &str) -> Lexed {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0, line: 1, lexed: Lexed::default() };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.lexed
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    lexed: Lexed,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn starts_with(&self, prefix: &str) -> bool {
        prefix.chars().enumerate().all(|(i, c)| self.peek(i) == c)
    }

    fn advance(&mut self, n_chars: usize) {
        let end = (self.at + n_chars).min(self.chars.len());
        self.line += self.chars[self.at..end].iter().filter(|&&c| c == '\n').count();
        self.at = end;
    }

    /// Skips as long as a condition on the rest holds.
    fn skip_while(&mut self, holds: impl Fn(&Lexer) -> bool) {
        while self.at < self.chars.len() && holds(self) {
            self.advance(1);
        }
    }

    fn text_since(&self, start: usize, line: usize) -> Text {
        Text { text: self.chars[start..self.at].iter().collect(), line, end: self.line }
    }

    fn step(&mut self) {
        let (start, line) = (self.at, self.line);
        if self.starts_with("//") {
            self.skip_while(|lexer| lexer.peek(0) != '\n');
            let comment = self.text_since(start, line);
            self.lexed.comments.push(comment);
        } else if self.starts_with("/*") {
            self.block_comment();
            let comment = self.text_since(start, line);
            self.lexed.comments.push(comment);
        } else if let Some(n_hashes) = self.raw_string() {
            let end = format!("\"{}", "#".repeat(n_hashes));
            self.skip_while(|lexer| lexer.peek(0) != '"');
            self.advance(1);
            self.skip_while(|lexer| !lexer.starts_with(&end));
            self.advance(end.len());
            let string = self.text_since(start, line);
            self.lexed.strings.push(string);
        } else if self.peek(0) == '"' {
            self.string();
            let string = self.text_since(start, line);
            self.lexed.strings.push(string);
        } else if self.peek(0) == '\'' {
            self.char_or_lifetime();
        } else {
            self.token();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            if self.starts_with("/*") {
                depth += 1;
                self.advance(2);
            } else if self.starts_with("*/") {
                depth -= 1;
                self.advance(2);
            } else {
                self.advance(1);
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The number of `#` of the raw string that starts here.
    fn raw_string(&self) -> Option<usize> {
        let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
            self.starts_with(&format!("{prefix}\"")) || self.starts_with(&format!("{prefix}#"))
        })?;
        let n_hashes = (0..).take_while(|&i| self.peek(prefix.len() + i) == '#').count();
        (self.peek(prefix.len() + n_hashes) == '"').then_some(n_hashes)
    }

    fn string(&mut self) {
        self.advance(1);
        while self.at < self.chars.len() && self.peek(0) != '"' {
            self.advance(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.advance(1);
    }

    fn char_or_lifetime(&mut self) {
        if self.peek(1) == '\\' {
            self.advance(3);
            self.skip_while(|lexer| lexer.peek(0) != '\'');
            self.advance(1);
        } else if self.peek(2) == '\'' {
            self.advance(3);
        } else {
            self.advance(1);
            self.skip_while(|lexer| is_word(lexer.peek(0)));
        }
    }

    fn token(&mut self) {
        let (start, line) = (self.at, self.line);
        if is_word(self.peek(0)) {
            self.skip_while(|lexer| is_word(lexer.peek(0)));
        } else {
            self.advance(if self.starts_with("::") { 2 } else { 1 });
        }
        let text: String = self.chars[start..self.at].iter().collect();
        if !text.trim().is_empty() {
            self.lexed.tokens.push(Token { text, line });
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The token after the item that starts at `at`: after its `;`, its closing brace, or its `,`.
pub fn end_of_item(tokens: &[Token], at: usize) -> usize {
    let is_use =
        tokens[at..].iter().find(|token| !is_visibility(&token.text)).is_some_and(|t| t.text == "use");
    let mut depth = 0_i32;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return i,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 && !is_use {
                    return i + 1;
                }
            }
            ";" | "," if depth == 0 => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn is_visibility(word: &str) -> bool {
    ["pub", "(", ")", "crate", "super", "in"].contains(&word)
}
