//! Scores of classes and the labels of the largest ones, as `ai.onnx.ml` has them.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::{broken, unsupported};
use crate::heads::{step, step_name, wanted};
use crate::known::Known;
use crate::node::{Attribute, Node};
use crate::operands::ints;
use crate::table::expression;
use crate::translate::Translation;

/// 2 / (0.147 π) as onnxruntime rounds it, of an approximation by Winitzki.
const WINITZKI: f64 = 4.330750408828252;

/// Scores `[rows, classes]` before their transformation.
pub(crate) struct Scores<'s> {
    pub(crate) raw: String,
    /// Which classes may have the label.
    pub(crate) voted: Option<String>,
    pub(crate) transform: &'s str,
}

/// The labels of the classes.
///
/// # Errors
/// If there are none, or they are texts.
pub(crate) fn labels(node: &Node, name: &str, texts: &str) -> Result<Vec<i64>, Diagnostic> {
    match (node.ints(name), node.attributes.get(texts)) {
        (Some(labels), _) if !labels.is_empty() => Ok(labels.to_vec()),
        (_, Some(Attribute::Texts(words))) if !words.is_empty() => Err(unsupported(
            format!("{} has texts as labels", node.describe()),
            "train with whole numbers as labels",
        )),
        _ => Err(broken(format!("{} has no labels", node.describe()), "export the model again")),
    }
}

/// Scores as an attribute transforms them.
///
/// # Errors
/// If the transformation is unknown.
pub(crate) fn transformed(
    of: &mut Translation,
    node: &Node,
    scores: &str,
    transform: &str,
) -> Result<String, Diagnostic> {
    Ok(match transform {
        "NONE" => format!("copy({scores})"),
        "LOGISTIC" => format!("sigmoid({scores})"),
        "SOFTMAX" => format!("softmax({scores}, axis=1)"),
        "SOFTMAX_ZERO" => {
            // Scores of 0 stay 0.
            let largest = step(of, node, "largest", &format!("amax({scores}, axis=1, keepdim=true)"))?;
            let share = format!("where(abs({scores}) > 1e-7, exp({scores} - {largest}), 0.0)");
            let share = step(of, node, "shares", &share)?;
            let rest = format!("where(abs({scores}) > 1e-7, {share}, {scores} * exp(-{largest}))");
            format!("({rest}) / sum({share}, axis=1, keepdim=true)")
        }
        // onnxruntime approximates the inverse of the normal distribution like this.
        "PROBIT" => {
            let x = step(of, node, "probit", &format!("2.0 * {scores} - 1.0"))?;
            let log = step(of, node, "probit_log", &format!("log((1.0 - {x}) * (1.0 + {x}))"))?;
            let v = format!("({WINITZKI:?} + 0.5 * {log})");
            let root = format!("sqrt({v} * {v} - {log} / 0.147)");
            format!("1.41421356 * where({x} < 0.0, -1.0, 1.0) * sqrt({root} - {v})")
        }
        other => return Err(node.lacking(&format!("has the transformation `{other}`"))),
    })
}

/// The labels as a tensor.
fn table(of: &mut Translation, node: &Node, labels: &[i64]) -> Result<String, Diagnostic> {
    let name = step_name(node, "labels");
    let known = Known { dtype: DType::I64, dims: vec![labels.len()], elements: ints(labels) };
    of.values.add_known(&name, known);
    of.values.tensor(&name).map(|(name, _)| name)
}

/// Defines a result, if it is wanted.
fn define(of: &mut Translation, node: &Node, at: usize, text: &str) -> Result<(), Diagnostic> {
    match wanted(node, at) {
        Some(output) => of.values.define(output, expression(text)).map(drop),
        None => Ok(()),
    }
}

/// Defines the label of the largest score, and the scores.
///
/// # Errors
/// If the transformation is unknown.
pub(crate) fn classified(
    of: &mut Translation,
    node: &Node,
    labels: &[i64],
    scores: Scores,
) -> Result<(), Diagnostic> {
    let Scores { raw, voted, transform } = scores;
    let labels = table(of, node, labels)?;
    let counted = voted.map_or(raw.clone(), |voted| format!("where({voted}, {raw}, -inf)"));
    define(of, node, 0, &format!("index_select({labels}, argmax({counted}, axis=1))"))?;
    let y = transformed(of, node, &raw, transform)?;
    define(of, node, 1, &y)
}

/// Defines one of two labels by a condition on rows, and the scores.
///
/// # Errors
/// If the transformation is unknown.
pub(crate) fn two_by_two(
    of: &mut Translation,
    node: &Node,
    labels: &[i64],
    (scores, decides, transform): (&str, &str, &str),
) -> Result<(), Diagnostic> {
    let labels = table(of, node, labels)?;
    define(of, node, 0, &format!("index_select({labels}, cast({decides}, dtype=i32))"))?;
    let y = transformed(of, node, scores, transform)?;
    define(of, node, 1, &y)
}

/// Defines one of two labels by one score, and the scores of both.
///
/// # Errors
/// If the transformation is unknown.
pub(crate) fn two_by_one(
    of: &mut Translation,
    node: &Node,
    labels: &[i64],
    (score, is_positive, transform): (&str, bool, &str),
) -> Result<(), Diagnostic> {
    let labels = table(of, node, labels)?;
    let limit = if is_positive { "0.5" } else { "0.0" };
    let decides = format!("reshape({score}, shape=[_]) > {limit}");
    define(of, node, 0, &format!("index_select({labels}, cast({decides}, dtype=i32))"))?;
    let y = match (is_positive, transform) {
        (_, "PROBIT") => return Err(node.lacking("has the transformation `PROBIT` of one score")),
        (_, "LOGISTIC") => format!("concat(sigmoid(-{score}), sigmoid({score}), axis=1)"),
        (true, _) => format!("concat(1.0 - {score}, {score}, axis=1)"),
        (false, _) => format!("concat(-{score}, {score}, axis=1)"),
    };
    define(of, node, 1, &y)
}
