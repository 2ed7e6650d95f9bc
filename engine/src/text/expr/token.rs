//! Characters to tokens.

use crate::diag::{Code, Diagnostics};
use crate::text::Text;
use crate::text::lex::{escape, is_name_char, is_name_start, is_space, prefix_len, shorten};
use crate::work::steps;

/// A token and its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether it is the first of its line.
    pub(super) starts_line: bool,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name, with dots inside: `digits.images`, `h.1`.
    Name,
    /// Digits; up to 2⁶³, so that the sign can still be put before the smallest integer.
    Int(u64),
    Float(f64),
    Str(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// Operators and brackets; those that begin like others come first.
const SYMBOLS: [&str; 24] = [
    "**", "<=", ">=", "==", "!=", "<", ">", "=", "!", "+", "-", "*", "/", "%", "@", "&", "|", "(", ")", "[",
    "]", ",", ":", ".",
];

/// All tokens of a text, an end token last. What is no token is reported and left out.
pub(super) fn tokens(text: &Text, diags: &mut Diagnostics) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, tokens: vec![], starts_line: true, diags };
    while lexer.skip_space() {
        lexer.token();
    }
    lexer.push(Kind::End, text.len());
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a Text,
    at: usize,
    tokens: Vec<Token>,
    starts_line: bool,
    diags: &'a mut Diagnostics,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text.value[self.at..]
    }

    /// Skips space and comments; whether anything is left.
    fn skip_space(&mut self) -> bool {
        loop {
            let spaces = prefix_len(self.rest(), is_space);
            let comment = match self.rest()[spaces..].starts_with('#') {
                true => prefix_len(&self.rest()[spaces..], |c| c != '\n'),
                false => 0,
            };
            self.starts_line |= self.rest()[..spaces].contains('\n');
            self.at += spaces + comment;
            if comment == 0 {
                return !self.rest().is_empty();
            }
        }
    }

    fn push(&mut self, kind: Kind, end: usize) {
        self.tokens.push(Token { kind, start: self.at, end, starts_line: self.starts_line });
        self.at = end;
        self.starts_line = false;
    }

    fn token(&mut self) {
        let rest = self.rest();
        let mut chars = rest.chars();
        match (chars.next(), chars.next()) {
            (Some(c), _) if is_name_start(c) => self.push(Kind::Name, self.at + path_len(rest)),
            (Some('0'..='9'), _) => self.number(),
            (Some('.'), Some('0'..='9')) if !self.follows_value() => self.number(),
            (Some(quote @ ('"' | '\'')), _) => self.string(quote),
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => self.push(Kind::Symbol(symbol), self.at + symbol.len()),
                None => self.stray(),
            },
        }
    }

    /// Whether a dot here asks for a result of the call before it: `f(x).0`.
    fn follows_value(&self) -> bool {
        matches!(self.tokens.last(), Some(Token { kind: Kind::Symbol(")"), end, .. }) if *end == self.at)
    }

    fn number(&mut self) {
        let written = &self.rest()[..number_len(self.rest())];
        let end = self.at + written.len();
        let plain = written.replace('_', "");
        let is_float = plain.contains(['.', 'e', 'E']);
        let kind = match is_float {
            true => plain.parse().ok().filter(|x: &f64| x.is_finite()).map(Kind::Float),
            false => plain.parse().ok().filter(|&i| i <= i64::MIN.unsigned_abs()).map(Kind::Int),
        };
        if kind.is_none() {
            let help = match plain.bytes().all(|b| b.is_ascii_digit()) {
                true => "integers have 64 bits; write a float: `1e20`",
                false => "write `3`, `0.5` or `1e-3`",
            };
            let message = format!("`{}` is not a number", shorten(written));
            self.diags.error(Code::E0005, self.text.span(self.at, end), message).help(help);
        }
        // Zero stands in, so that the rest of the expression is still checked.
        self.push(kind.unwrap_or(Kind::Int(0)), end);
    }

    fn string(&mut self, quote: char) {
        let (start, mut at) = (self.at, self.at + 1);
        let mut value = String::new();
        loop {
            let plain = prefix_len(&self.text[at..], |c| c != quote && c != '\\');
            value += &self.text[at..at + plain];
            at += plain;
            match self.text[at..].chars().next() {
                None => {
                    self.diags
                        .error(Code::E0003, self.text.span(start, at), "this string is not closed")
                        .help(format!("add the closing `{quote}`"));
                    break;
                }
                Some('\\') => at += 1 + self.escape(at, &mut value),
                Some(_) => {
                    at += 1;
                    break;
                }
            }
        }
        self.push(Kind::Str(value), at);
    }

    /// Appends what the escape at `at` stands for; its length without the backslash.
    fn escape(&mut self, at: usize, value: &mut String) -> usize {
        match escape(&self.text[at + 1..]) {
            Ok((c, len)) => {
                value.push(c);
                len
            }
            Err((len, reason)) => {
                let span = self.text.span(at, at + 1 + len);
                self.diags.error(Code::E0004, span, "unknown escape in a string").help(reason);
                len
            }
        }
    }

    fn stray(&mut self) {
        let c = self.rest().chars().next().unwrap_or(' ');
        let span = self.text.span(self.at, self.at + c.len_utf8());
        let error =
            self.diags.error(Code::E0008, span, format!("`{}` has no meaning here", c.escape_debug()));
        match c {
            '^' => error.help("write a power as `x ** y`"),
            '×' | '·' => error.help("write a product as `x * y`, a matrix product as `x @ y`"),
            _ => error,
        };
        self.at += c.len_utf8();
    }
}

/// Length of a name with its dotted parts; parts behind a dot may be numbers.
fn path_len(text: &str) -> usize {
    let mut len = prefix_len(text, is_name_char);
    while let Some(part) = text[len..].strip_prefix('.') {
        match prefix_len(part, is_name_char) {
            0 => break,
            part => len += 1 + part,
        }
    }
    len
}

/// Length of everything that looks like one number.
fn number_len(text: &str) -> usize {
    let mut previous = ' ';
    let end = text.find(|c| {
        let signs_exponent = matches!((previous, c), ('e' | 'E', '+' | '-'));
        previous = c;
        !(is_name_char(c) || c == '.' || signs_exponent)
    });
    let len = end.unwrap_or(text.len());
    steps(len);
    len
}
