//! Expressions: `relu(x @ w1 + b1)`, and the statements of the text form: `h: f32[B, 128] = relu(x)`.
//!
//! | binds | operators | |
//! |---|---|---|
//! | tightest | `f(a, n=1)`, `(…).port` | |
//! | | `**` | to the right: `a ** b ** c` is `a ** (b ** c)` |
//! | | `-a`, `!a` | `-a ** b` is `-(a ** b)` |
//! | | `*`, `/`, `%`, `@` | to the left |
//! | | `+`, `-` | to the left |
//! | | `<`, `<=`, `>`, `>=`, `==`, `!=` | not in a row |
//! | | `&` | to the left |
//! | loosest | `\|` | to the left |
//!
//! A name may have dotted parts. Whether `x.indices` is a value of that name or the result `indices` of `x` is for the
//! reader of the tree to find out.

mod print;
mod token;
mod tree;

pub use tree::{
    ALL_RESULTS, BinaryOp, Expr, ExprKind, Further, MAX_LEVELS, Statement, TypeExpr, TypePattern, UnaryOp,
};

use super::Text;
use super::lex::shorten;
use crate::diag::{Code, Diagnostic, Diagnostics, Span, Spanned};
use crate::work::steps;
use token::{Kind, Token, tokens};
use tree::{COMPARISON, UNARY, word};

/// Reads an expression. A fault is reported, and yields nothing.
pub fn parse_expr(text: &Text, diags: &mut Diagnostics) -> Option<Expr> {
    parse_all(text, diags, |parser| parser.expr())
}

/// Reads a type. A fault is reported, and yields nothing.
pub fn parse_type(text: &Text, diags: &mut Diagnostics) -> Option<TypeExpr> {
    parse_all(text, diags, |parser| parser.type_expr())
}

/// Reads a pattern of types. A fault is reported, and yields nothing.
pub fn parse_pattern(text: &Text, diags: &mut Diagnostics) -> Option<TypePattern> {
    parse_all(text, diags, |parser| parser.pattern())
}

/// Reads one statement. A fault is reported, and yields nothing.
pub fn parse_statement(text: &Text, diags: &mut Diagnostics) -> Option<Statement> {
    parse_all(text, diags, |parser| parser.statement())
}

/// Reads statements, one per line; a line within brackets goes on in the next. Faulty ones are reported and left out.
pub fn parse_statements(text: &Text, diags: &mut Diagnostics) -> Vec<Statement> {
    let mut parser = Parser::new(text, true, diags);
    let mut statements = vec![];
    while parser.tokens[parser.at].kind != Kind::End {
        parser.line = parser.at;
        parser.n_brackets = 0;
        let statement = parser.statement().and_then(|statement| parser.end().map(|()| statement));
        statements.extend(statement);
        parser.skip_line();
    }
    statements
}

fn parse_all<T>(
    text: &Text,
    diags: &mut Diagnostics,
    read: impl FnOnce(&mut Parser) -> Option<T>,
) -> Option<T> {
    let n_errors = diags.n_errors();
    let mut parser = Parser::new(text, false, diags);
    if parser.diags.n_errors() > n_errors {
        return None;
    }
    let tree = read(&mut parser)?;
    parser.end().map(|()| tree)
}

/// Every method reports what does not fit and then yields `None`, so that an expression has one error at most.
struct Parser<'a> {
    text: &'a Text,
    tokens: Vec<Token>,
    at: usize,
    /// Levels of expressions around the current place.
    depth: usize,
    /// Whether a statement ends with its line, unless a bracket is open.
    by_line: bool,
    /// First token of the current statement.
    line: usize,
    n_brackets: usize,
    diags: &'a mut Diagnostics,
}

impl<'a> Parser<'a> {
    fn new(text: &'a Text, by_line: bool, diags: &'a mut Diagnostics) -> Parser<'a> {
        let tokens = tokens(text, diags);
        Parser { text, tokens, at: 0, depth: 0, by_line, line: 0, n_brackets: 0, diags }
    }

    // ---- Statements and types.

    fn statement(&mut self) -> Option<Statement> {
        let start = self.here();
        let targets = match self.is("(") {
            true => self.bracketed(")", Parser::target)?,
            false => vec![self.target()?],
        };
        self.expect("=", "`=` and an expression")?;
        let value = self.expr()?;
        Some(Statement { span: start.to(self.previous()), targets, value })
    }

    fn target(&mut self) -> Option<(Spanned<String>, Option<TypeExpr>)> {
        let name = self.name("a name")?;
        let ty = if self.eat(":") { Some(self.type_expr()?) } else { None };
        Some((name, ty))
    }

    fn type_expr(&mut self) -> Option<TypeExpr> {
        let dtype = self.name("a type such as `f32[B, 784]`")?;
        if !self.is("[") {
            let name = shorten(&dtype.value);
            self.error(Code::E0009, dtype.span, format!("`{name}` is not a whole type"))
                .help(format!("write the extents: `{name}[B, 784]`, or `{name}[]` for a scalar"));
            return None;
        }
        let dims = self.bracketed("]", Parser::dim)?;
        Some(TypeExpr { span: dtype.span.to(self.previous()), dtype, dims })
    }

    fn pattern(&mut self) -> Option<TypePattern> {
        let start = self.here();
        let dtype = if self.is("[") { None } else { Some(self.name("a pattern such as `[..., D]`")?) };
        if !self.is("[") {
            return self.unexpected("the extents of a pattern such as `[..., D]`");
        }
        let items = self.bracketed("]", Parser::pattern_item)?;
        let further = match &items[..] {
            [None, ..] => Further::First,
            [.., None] => Further::Last,
            _ => Further::None,
        };
        let dims: Vec<Expr> = items.iter().flatten().cloned().collect();
        let span = start.to(self.previous());
        if dims.len() + usize::from(further != Further::None) != items.len() {
            self.error(Code::E0009, span, "`...` comes first or last in a pattern")
                .help("it stands for any number of axes: `[..., D]`, `[N, C, ...]`");
            return None;
        }
        Some(TypePattern { span, dtype, further, dims })
    }

    /// An extent, or nothing for `...`.
    fn pattern_item(&mut self) -> Option<Option<Expr>> {
        if !self.eat(".") {
            return self.dim().map(Some);
        }
        (self.eat(".") && self.eat(".")).then_some(None).or_else(|| self.unexpected("`...`"))
    }

    fn dim(&mut self) -> Option<Expr> {
        if matches!(self.peek(), Kind::Int(_) | Kind::Name | Kind::Symbol("(")) {
            return self.expr();
        }
        let (span, message) = (self.here(), format!("expected an extent, found {}", self.found()));
        self.error(Code::E0009, span, message)
            .help("an extent is a number, a name such as `B`, or arithmetic of them");
        None
    }

    // ---- Expressions.

    fn expr(&mut self) -> Option<Expr> {
        self.binary(1)
    }

    /// Operators that bind at least as tightly as `weakest`, and their operands.
    fn binary(&mut self, weakest: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        let mut compared = false;
        while let Some(op) = self.operator().filter(|op| op.strength() >= weakest) {
            let op = Spanned::new(self.here(), op);
            if compared && op.strength() == COMPARISON {
                self.error(Code::E0008, op.span, "comparisons cannot stand in a row")
                    .help("write `(a < b) & (b < c)`");
                return None;
            }
            compared = op.strength() == COMPARISON;
            self.at += 1;
            // Powers group to the right, all others to the left.
            let tighter = if op.value == BinaryOp::Pow { op.strength() } else { op.strength() + 1 };
            let right = self.nested(|parser| parser.binary(tighter))?;
            let span = left.span.to(self.previous());
            left = self.build(span, ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) })?;
        }
        Some(left)
    }

    fn operator(&self) -> Option<BinaryOp> {
        match self.peek() {
            Kind::Symbol(symbol) => BinaryOp::ALL.into_iter().find(|op| op.symbol() == *symbol),
            _ => None,
        }
    }

    fn unary(&mut self) -> Option<Expr> {
        let start = self.here();
        let op = match self.peek() {
            Kind::Symbol("-") => UnaryOp::Neg,
            Kind::Symbol("!") => UnaryOp::Not,
            _ => return self.postfix(),
        };
        self.at += 1;
        if let Some(literal) = self.negated_literal().filter(|_| op == UnaryOp::Neg) {
            self.at += 1;
            return self.build(start.to(self.previous()), literal);
        }
        let operand = self.nested(|parser| parser.binary(UNARY + 1))?;
        self.build(start.to(self.previous()), ExprKind::Unary(op, Box::new(operand)))
    }

    /// The negative of the number here, unless a power comes first: `-2 ** 2` is `-(2 ** 2)`.
    fn negated_literal(&self) -> Option<ExprKind> {
        if self.tokens.get(self.at + 1).is_some_and(|next| next.kind == Kind::Symbol("**")) {
            return None;
        }
        match self.peek() {
            Kind::Int(n) => Some(ExprKind::Int(0i64.wrapping_sub_unsigned(*n))),
            Kind::Float(x) => Some(ExprKind::Float(-x)),
            Kind::Name => match word(self.written()) {
                ExprKind::Float(x) => Some(ExprKind::Float(-x)),
                _ => None,
            },
            _ => None,
        }
    }

    /// `f(x).port`, and `t.*` for all results
    fn postfix(&mut self) -> Option<Expr> {
        let mut base = self.primary()?;
        while self.eat(".") {
            let port = match self.peek() {
                Kind::Name | Kind::Int(_) | Kind::Symbol(ALL_RESULTS) => {
                    Spanned::new(self.here(), self.written().to_owned())
                }
                _ => return self.unexpected("the name of a result"),
            };
            self.at += 1;
            let span = base.span.to(port.span);
            base = self.build(span, ExprKind::Port { base: Box::new(base), port })?;
        }
        Some(base)
    }

    fn primary(&mut self) -> Option<Expr> {
        let span = self.here();
        let kind = match self.peek().clone() {
            Kind::Symbol("(") => return self.parenthesized(),
            Kind::Symbol("[") => ExprKind::List(self.bracketed("]", Parser::expr)?),
            Kind::Name => return self.name_or_call(),
            Kind::Int(n) => self.positive(n)?,
            Kind::Float(x) => self.leaf(ExprKind::Float(x)),
            Kind::Str(text) => self.leaf(ExprKind::Str(text)),
            Kind::Symbol(_) | Kind::End => return self.unexpected("a value"),
        };
        self.build(span.to(self.previous()), kind)
    }

    fn leaf(&mut self, kind: ExprKind) -> ExprKind {
        self.at += 1;
        kind
    }

    fn positive(&mut self, n: u64) -> Option<ExprKind> {
        let span = self.here();
        self.at += 1;
        if let Ok(n) = i64::try_from(n) {
            return Some(ExprKind::Int(n));
        }
        self.error(Code::E0005, span, "this number is too large")
            .help("integers have 64 bits; write a float: `1e20`");
        None
    }

    fn parenthesized(&mut self) -> Option<Expr> {
        let mut parts = self.bracketed(")", Parser::expr)?;
        match (parts.pop(), parts.pop()) {
            (Some(only), None) => Some(only),
            (None, _) => {
                let span = self.previous();
                self.error(Code::E0008, span, "there is nothing in these parentheses");
                None
            }
            (Some(last), Some(_)) => {
                self.error(Code::E0008, last.span, "parentheses hold one expression")
                    .help("a list stands in brackets: `[a, b]`");
                None
            }
        }
    }

    fn name_or_call(&mut self) -> Option<Expr> {
        let name = self.name("a name")?;
        if !self.is("(") {
            return self.build(name.span, word(&name.value));
        }
        let (mut args, mut named) = (vec![], vec![]);
        for (setting, value) in self.bracketed(")", Parser::argument)? {
            match setting {
                Some(setting) => named.push((setting, value)),
                None if named.is_empty() => args.push(value),
                None => {
                    self.error(Code::E0008, value.span, "an operand stands behind a setting")
                        .help("operands come first: `f(a, b, n=1)`");
                    return None;
                }
            }
        }
        self.build(name.span.to(self.previous()), ExprKind::Call { callee: name, args, named })
    }

    /// An operand, or a setting `name=value`.
    fn argument(&mut self) -> Option<(Option<Spanned<String>>, Expr)> {
        let is_setting = *self.peek() == Kind::Name
            && self.tokens.get(self.at + 1).is_some_and(|next| next.kind == Kind::Symbol("="));
        let setting = if is_setting { Some(self.name("a setting")?) } else { None };
        self.at += is_setting as usize;
        Some((setting, self.expr()?))
    }

    fn build(&mut self, span: Span, kind: ExprKind) -> Option<Expr> {
        let expr = Expr::new(span, kind);
        if expr.levels > MAX_LEVELS {
            self.too_deep(span);
            return None;
        }
        Some(expr)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_LEVELS {
            let span = self.here();
            self.too_deep(span);
            return None;
        }
        self.depth += 1;
        let tree = read(self);
        self.depth -= 1;
        tree
    }

    fn too_deep(&mut self, span: Span) {
        self.error(Code::E0006, span, format!("more than {MAX_LEVELS} levels of expressions"))
            .help("give parts of it names of their own");
    }

    // ---- Tokens.

    /// Items between commas, within the bracket that opens here and `close`.
    fn bracketed<T>(&mut self, close: &'static str, item: fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let opened = self.here();
        self.at += 1;
        self.n_brackets += 1;
        let mut items = vec![];
        while !self.is(close) {
            items.push(self.nested(item)?);
            if !self.eat(",") && !self.is(close) {
                return self.unclosed(opened, close);
            }
        }
        self.at += 1;
        self.n_brackets -= 1;
        Some(items)
    }

    fn unclosed<T>(&mut self, opened: Span, close: &str) -> Option<T> {
        let hint = self.hint();
        let message = format!("expected `,` or `{close}`, found {}", self.found());
        let error = self.error(Code::E0008, self.here(), message);
        error.also(opened, "opened here");
        error.help = hint.map(str::to_owned);
        None
    }

    fn peek(&self) -> &Kind {
        steps(1);
        let token = &self.tokens[self.at];
        let line_ended = self.by_line && self.n_brackets == 0 && self.at > self.line && token.starts_line;
        if line_ended { &Kind::End } else { &token.kind }
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Kind::Symbol(found) if *found == symbol)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += found as usize;
        found
    }

    fn expect(&mut self, symbol: &str, wanted: &str) -> Option<()> {
        if self.eat(symbol) { Some(()) } else { self.unexpected(wanted) }
    }

    fn name(&mut self, wanted: &str) -> Option<Spanned<String>> {
        if *self.peek() != Kind::Name {
            return self.unexpected(wanted);
        }
        let name = Spanned::new(self.here(), self.written().to_owned());
        self.at += 1;
        Some(name)
    }

    fn end(&mut self) -> Option<()> {
        if *self.peek() == Kind::End { Some(()) } else { self.unexpected("an operator or the end") }
    }

    fn skip_line(&mut self) {
        let rest = &self.tokens[self.line + 1..];
        let next =
            rest.iter().inspect(|_| steps(1)).position(|token| token.starts_line || token.kind == Kind::End);
        let next = self.line + 1 + next.unwrap_or(0);
        self.at = self.at.max(next);
        while self.tokens[self.at].kind != Kind::End && !self.tokens[self.at].starts_line {
            self.at += 1;
        }
    }

    /// The characters of the current token.
    fn written(&self) -> &'a str {
        let token = &self.tokens[self.at];
        &self.text.value[token.start..token.end]
    }

    fn here(&self) -> Span {
        let token = &self.tokens[self.at];
        if *self.peek() == Kind::End && self.at > 0 {
            return self.previous().after();
        }
        self.text.span(token.start, token.end)
    }

    fn previous(&self) -> Span {
        let token = &self.tokens[self.at.saturating_sub(1)];
        self.text.span(token.start, token.end)
    }

    // ---- Reports.

    fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.diags.error(code, span, message)
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Option<T> {
        let hint = self.hint();
        let message = format!("expected {wanted}, found {}", self.found());
        self.error(Code::E0008, self.here(), message).help = hint.map(str::to_owned);
        None
    }

    fn found(&self) -> String {
        match self.peek() {
            Kind::End => "the end".into(),
            Kind::Str(_) => "a string".into(),
            _ => format!("`{}`", shorten(self.written())),
        }
    }

    /// What was probably meant by what stands here, in the spelling of other languages.
    fn hint(&self) -> Option<&'static str> {
        let before = self.tokens[self.line..self.at].last();
        let applies = before.is_some() && self.n_brackets == 0;
        let before = before.map(|token| &self.text.value[token.start..token.end]);
        let here = if *self.peek() == Kind::End { "" } else { self.written() };
        match (before.unwrap_or(""), here) {
            ("&", "&") => Some("`and` is written `a & b`"),
            ("|", "|") => Some("`or` is written `a | b`"),
            ("/", "/") => Some("a quotient rounded down is `floor(a / b)`; comments start with `#`"),
            ("*", "*") => Some("a power is written `a ** b`"),
            // In brackets, what has a name alone before the sign may be a setting.
            (")", "=") => Some("equality is written `a == b`"),
            (_, "=") if applies => Some("equality is written `a == b`"),
            (_, "and") => Some("`and` is written `a & b`"),
            (_, "or") => Some("`or` is written `a | b`"),
            ("not", _) => Some("`not` is written `!a`"),
            (_, "if" | "?") => Some("a choice is written `where(condition, a, b)`"),
            (_, "[") if applies => Some("a part of a tensor is taken by an op such as `slice`"),
            (_, ")" | "]") if applies => Some("no bracket is open here"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
