//! Linear models and support vectors of `ai.onnx.ml`.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::heads::{step, unfit};
use crate::node::{Attribute, Node};
use crate::scores::{Scores, classified, labels, transformed, two_by_two};
use crate::table::expression;
use crate::translate::Translation;
use crate::trees::{rows, table};

/// The most classes whose pairs have support vectors.
const MOST_CLASSES: usize = 64;

fn floats<'n>(node: &'n Node, name: &str) -> &'n [f64] {
    match node.attributes.get(name) {
        Some(Attribute::Floats(items)) => items,
        _ => &[],
    }
}

/// Rows of f32, and the number of their elements, which `all` weights for `n` results tell.
fn features(
    of: &mut Translation,
    node: &Node,
    (all, n): (usize, usize),
) -> Result<(String, usize), Diagnostic> {
    let (x, _, dtype) = rows(of, node)?;
    let x = if dtype == DType::F32 { x } else { format!("cast({x}, dtype=f32)") };
    let width = all.checked_div(n).filter(|width| *width > 0 && width * n == all);
    Ok((step(of, node, "rows", &format!("copy({x})"))?, width.ok_or_else(|| unfit(node))?))
}

/// Products with coefficients `[results, features]`, and what is added to each.
fn products(of: &mut Translation, node: &Node, n: usize) -> Result<String, Diagnostic> {
    let coefficients = floats(node, "coefficients");
    let (x, width) = features(of, node, (coefficients.len(), n))?;
    let weights = table(of, node, "coefficients", (&[n, width], DType::F32), coefficients)?;
    let added = match floats(node, "intercepts") {
        [] => String::new(),
        items if items.len() == n => {
            format!(" + {}", table(of, node, "intercepts", (&[n], DType::F32), items)?)
        }
        _ => return Err(unfit(node)),
    };
    step(of, node, "products", &format!("{x} @ transpose({weights}){added}"))
}

/// `LinearRegressor(x)`
pub(crate) fn regressor(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let n = usize::try_from(node.int("targets", 1)).map_err(|_| unfit(node))?;
    let y = products(of, node, n)?;
    let transform = node.text("post_transform", "NONE");
    // One score alone has no transformation but this.
    let y = transformed(of, node, &y, if n == 1 && transform != "PROBIT" { "NONE" } else { transform })?;
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// `LinearClassifier(x)`
pub(crate) fn classifier(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let names = labels(node, "classlabels_ints", "classlabels_strings")?;
    let n = floats(node, "intercepts").len();
    let scores = products(of, node, n)?;
    let transform = node.text("post_transform", "NONE");
    match (n, names.len()) {
        (1, 2) => {
            let decides = format!("reshape({scores}, shape=[_]) > 0.0");
            let all = match transform {
                "LOGISTIC" => format!("concat(-{scores}, {scores}, axis=1)"),
                "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" => format!("concat(1.0 - {scores}, {scores}, axis=1)"),
                _ => return Err(node.lacking("has one score for two labels")),
            };
            let all = step(of, node, "scores", &all)?;
            let transform = if transform == "LOGISTIC" { transform } else { "NONE" };
            two_by_two(of, node, &names, (&all, &decides, transform))
        }
        (n, labels) if n == labels => {
            classified(of, node, &names, Scores { raw: scores, voted: None, transform })
        }
        _ => Err(unfit(node)),
    }
}

/// The kernel between rows and vectors `[n, features]`: `[rows, n]`.
fn kernel(of: &mut Translation, node: &Node, (x, vectors): (&str, &str)) -> Result<String, Diagnostic> {
    let params = floats(node, "kernel_params");
    let param = |at: usize| params.get(at).copied().unwrap_or(0.0);
    let (gamma, shift, degree) = (param(0), param(1), param(2));
    let product = format!("{x} @ transpose({vectors})");
    let text = match node.text("kernel_type", "LINEAR") {
        "LINEAR" => product,
        "POLY" => format!("({gamma:?} * ({product}) + {shift:?}) ** {degree:?}"),
        "SIGMOID" => format!("tanh({gamma:?} * ({product}) + {shift:?})"),
        "RBF" => {
            let width = of.values.tensor_type(vectors).and_then(|ty| ty.shape.get(1).cloned());
            let width = width.and_then(|width| width.fixed()).ok_or_else(|| unfit(node))?;
            let apart =
                format!("reshape({x}, shape=[_, 1, {width}]) - reshape({vectors}, shape=[1, _, {width}])");
            format!("exp({:?} * sum(square({apart}), axis=2))", -gamma)
        }
        other => return Err(node.lacking(&format!("has the kernel `{other}`"))),
    };
    step(of, node, "kernel", &text)
}

/// `SVMRegressor(x)`
pub(crate) fn svm_regressor(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (coefficients, vectors) = (floats(node, "coefficients"), floats(node, "support_vectors"));
    let n = usize::try_from(node.int("n_supports", 0)).map_err(|_| unfit(node))?;
    let rho = floats(node, "rho").first().copied().ok_or_else(|| unfit(node))?;
    let sums = match n {
        0 => {
            let (x, width) = features(of, node, (coefficients.len(), 1))?;
            let weights = table(of, node, "coefficients", (&[1, width], DType::F32), coefficients)?;
            format!("{x} @ transpose({weights})")
        }
        n if coefficients.len() == n => {
            let (x, width) = features(of, node, (vectors.len(), n))?;
            let vectors = table(of, node, "vectors", (&[n, width], DType::F32), vectors)?;
            let kernel = kernel(of, node, (&x, &vectors))?;
            let weights = table(of, node, "coefficients", (&[n, 1], DType::F32), coefficients)?;
            format!("{kernel} @ {weights}")
        }
        _ => return Err(unfit(node)),
    };
    let y = step(of, node, "sums", &format!("{sums} + {rho:?}"))?;
    let y = match node.int("one_class", 0) {
        0 => y,
        _ => step(of, node, "sides", &format!("where({y} > 0.0, 1.0, -1.0)"))?,
    };
    let transform = if node.text("post_transform", "NONE") == "PROBIT" { "PROBIT" } else { "NONE" };
    let y = transformed(of, node, &y, transform)?;
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// The scores of all pairs of classes `[rows, pairs]`, by support vectors that lie class by class.
fn pairs(of: &mut Translation, node: &Node, sizes: &[usize]) -> Result<String, Diagnostic> {
    let (coefficients, vectors) = (floats(node, "coefficients"), floats(node, "support_vectors"));
    let all = sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size)).ok_or_else(|| unfit(node))?;
    let (n, rho) = (sizes.len(), floats(node, "rho"));
    let n_pairs = n * (n - 1) / 2;
    let is_whole = all.checked_mul(n - 1) == Some(coefficients.len());
    if !is_whole || rho.len() < n_pairs {
        return Err(unfit(node));
    }
    let (x, width) = features(of, node, (vectors.len(), all))?;
    let vectors = table(of, node, "vectors", (&[all, width], DType::F32), vectors)?;
    let kernel = kernel(of, node, (&x, &vectors))?;
    let start = |class: usize| sizes[..class].iter().sum::<usize>();
    let mut weights = vec![0.0; all * n_pairs];
    let both = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    for (pair, (i, j)) in both.enumerate() {
        for (class, row) in [(i, j - 1), (j, i)] {
            for at in start(class)..start(class) + sizes[class] {
                weights[at * n_pairs + pair] = coefficients[row * all + at];
            }
        }
    }
    let weights = table(of, node, "weights", (&[all, n_pairs], DType::F32), &weights)?;
    let rho = table(of, node, "rho", (&[n_pairs], DType::F32), &rho[..n_pairs])?;
    step(of, node, "pairs", &format!("{kernel} @ {weights} + {rho}"))
}

/// `SVMClassifier(x)`: each pair of classes has a vote. Without support vectors, it is a linear model.
pub(crate) fn svm_classifier(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let names = labels(node, "classlabels_ints", "classlabels_strings")?;
    let sizes = node.ints("vectors_per_class").unwrap_or_default();
    let sizes =
        sizes.iter().map(|n| usize::try_from(*n)).collect::<Result<Vec<_>, _>>().map_err(|_| unfit(node))?;
    let transform = node.text("post_transform", "NONE");
    let n = names.len();
    if sizes.iter().all(|size| *size == 0) {
        let coefficients = floats(node, "coefficients");
        let (x, width) = features(of, node, (coefficients.len(), n))?;
        let weights = table(of, node, "coefficients", (&[n, width], DType::F32), coefficients)?;
        let rho = floats(node, "rho").first().copied().ok_or_else(|| unfit(node))?;
        let raw = step(of, node, "scores", &format!("{x} @ transpose({weights}) + {rho:?}"))?;
        if n == 2 {
            return Err(node.lacking("has two classes without support vectors"));
        }
        return classified(of, node, &names, Scores { raw, voted: None, transform });
    }
    if n > MOST_CLASSES {
        return Err(node.lacking("has too many pairs of classes"));
    }
    if sizes.len() != n || n < 2 {
        return Err(unfit(node));
    }
    let pairs = pairs(of, node, &sizes)?;
    // The class of each pair's first and second place, for the votes.
    let (mut first, mut second) = (vec![], vec![]);
    for (i, j) in (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
        for class in 0..n {
            first.push(f64::from(u8::from(class == i)));
            second.push(f64::from(u8::from(class == j)));
        }
    }
    let dims = [n * (n - 1) / 2, n];
    let first = table(of, node, "first", (&dims, DType::F32), &first)?;
    let second = table(of, node, "second", (&dims, DType::F32), &second)?;
    let won = format!("cast({pairs} > 0.0, dtype=f32)");
    let votes = step(of, node, "votes", &format!("{won} @ {first} + (1.0 - {won}) @ {second}"))?;
    probabilities(of, node, (&names, &votes, &pairs), transform)
}

/// The labels of most votes, and the scores: those of pairs, or probabilities of two classes.
fn probabilities(
    of: &mut Translation,
    node: &Node,
    (names, votes, pairs): (&[i64], &str, &str),
    transform: &str,
) -> Result<(), Diagnostic> {
    let decided = |scores: String| (scores, format!("argmax({votes}, axis=1) == 1"));
    match (floats(node, "prob_a"), floats(node, "prob_b"), names.len()) {
        ([], [], 2) => {
            let all = match transform {
                "NONE" => format!("concat(-{pairs}, {pairs}, axis=1)"),
                _ => return Err(node.lacking("transforms the score of a pair")),
            };
            let all = step(of, node, "scores", &all)?;
            let (scores, decides) = decided(all);
            two_by_two(of, node, names, (&scores, &decides, "NONE"))
        }
        ([], [], _) => {
            let shown = transformed(of, node, pairs, transform)?;
            let first = Node { outputs: node.outputs.iter().take(1).cloned().collect(), ..node.clone() };
            classified(of, &first, names, Scores { raw: votes.to_owned(), voted: None, transform: "NONE" })?;
            match node.outputs.get(1).filter(|name| !name.is_empty()) {
                Some(output) => of.values.define(output, expression(&shown)).map(drop),
                None => Ok(()),
            }
        }
        ([a, ..], [b, ..], 2) => {
            // The sigmoid by which Platt turns scores into probabilities.
            let p = format!("clamp(1.0 - sigmoid({pairs} * {a:?} + {b:?}), min=1e-7, max=0.9999999)");
            let p = step(of, node, "probability", &p)?;
            let all = step(of, node, "scores", &format!("concat({p}, 1.0 - {p}, axis=1)"))?;
            let (scores, decides) = decided(all);
            two_by_two(of, node, names, (&scores, &decides, transform))
        }
        _ => Err(node.lacking("has probabilities of more than two classes, which need an iteration")),
    }
}
