//! The table of ops, which `ops.ron` holds.

use std::sync::OnceLock;

use engine_core::diag::{Diagnostics, Look, Sources};
use engine_core::text::Text;
use engine_core::text::expr::{Expr, ExprKind, parse_expr};
use serde::Deserialize;

/// The text of the table.
const TEXT: &str = include_str!("ops.ron");

/// A row as written.
#[derive(Deserialize)]
struct Written {
    op: String,
    #[serde(default = "first")]
    since: i64,
    inputs: String,
    #[serde(default)]
    attrs: String,
    #[serde(default)]
    refuse: String,
    #[serde(default)]
    expr: String,
    #[serde(default)]
    nodes: String,
    #[serde(default)]
    more: Vec<String>,
}

fn first() -> i64 {
    1
}

/// One op of ONNX from an opset on, as an expression.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) op: String,
    /// The first opset for which the row holds.
    pub(crate) since: i64,
    pub(crate) inputs: Vec<Input>,
    /// Attributes with their defaults; nothing if one is required.
    pub(crate) attrs: Vec<(String, Option<Expr>)>,
    /// A condition under which the op has no translation.
    pub(crate) refuse: Option<Expr>,
    /// The results.
    pub(crate) results: Vec<Expr>,
    /// Whether the results call ops of ONNX.
    pub(crate) is_composed: bool,
}

/// An operand of a row.
#[derive(Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) is_optional: bool,
    /// Whether it stands for all further operands.
    pub(crate) is_variadic: bool,
}

/// All rows, in the order of the table.
pub(crate) fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let written: Result<Vec<Written>, _> = ron::from_str(TEXT);
        written.unwrap_or_else(|error| engine_core::bug!("ops.ron: {error}")).into_iter().map(row).collect()
    })
}

/// The row of an op for an opset.
pub(crate) fn find(op: &str, opset: i64) -> Option<&'static Row> {
    rows().iter().filter(|row| row.op == op && row.since <= opset).max_by_key(|row| row.since)
}

fn row(written: Written) -> Row {
    let attrs = match written.attrs.is_empty() {
        true => vec![],
        // A list of settings is a call's; one without a default is an operand there.
        false => attrs_of(&expression(&format!("f({})", ordered(&written.attrs)))),
    };
    let is_composed = written.expr.is_empty();
    let results = [if is_composed { &written.nodes } else { &written.expr }].into_iter().chain(&written.more);
    Row {
        inputs: written.inputs.split_whitespace().map(input).collect(),
        attrs,
        refuse: Some(written.refuse.as_str()).filter(|text| !text.is_empty()).map(expression),
        results: results.map(|text| expression(text)).collect(),
        is_composed,
        since: written.since,
        op: written.op,
    }
}

/// Settings without a default first, as the grammar of calls wants them.
fn ordered(attrs: &str) -> String {
    let (with, without): (Vec<&str>, Vec<&str>) =
        split(attrs).into_iter().partition(|part| part.contains('='));
    [without, with].concat().join(", ")
}

/// The parts between commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, vec![]);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn attrs_of(call: &Expr) -> Vec<(String, Option<Expr>)> {
    let ExprKind::Call { args, named, .. } = &call.kind else { engine_core::bug!("ops.ron: {call}") };
    let required = args.iter().map(|arg| (arg.to_string(), None));
    required.chain(named.iter().map(|(name, value)| (name.value.clone(), Some(value.clone())))).collect()
}

fn input(word: &str) -> Input {
    let name = word.trim_end_matches(['?', '.']).to_owned();
    Input { name, is_optional: word.ends_with('?'), is_variadic: word.ends_with("...") }
}

/// Reads an expression that this crate has written.
pub(crate) fn expression(text: &str) -> Expr {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let file = sources.add("expression", text);
    let expr = parse_expr(&Text::verbatim(file, 0, text), &mut diags);
    expr.unwrap_or_else(|| engine_core::bug!("{text}: {}", diags.render(&sources, Look::Plain)))
}
