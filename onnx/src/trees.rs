//! Ensembles of trees: all rows walk through all trees at once, one level at a time.

use std::collections::HashMap;

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::{broken, unsupported};
use crate::heads::{step, step_name, unfit};
use crate::known::Number;
use crate::literal::list;
use crate::node::{Attribute, Node};
use crate::operands::operand;
use crate::scores::{self, Scores};
use crate::table::expression;
use crate::tensor::Stored;
use crate::translate::Translation;

/// The most levels of a tree.
const MOST_LEVELS: usize = 256;
/// The most numbers in a table of votes, for each number in the model.
const MOST_VOTES: usize = 64;

/// The comparisons of nodes, in the order of their numbers.
const MODES: [(&str, &str); 6] = [
    ("BRANCH_LEQ", "<="),
    ("BRANCH_LT", "<"),
    ("BRANCH_GTE", ">="),
    ("BRANCH_GT", ">"),
    ("BRANCH_EQ", "=="),
    ("BRANCH_NEQ", "!="),
];

/// A node of a tree. Both branches of a leaf lead back to it.
#[derive(Clone, Debug)]
struct Place {
    feature: i64,
    threshold: f64,
    mode: usize,
    /// Whether a row without the feature takes the branch for true.
    takes_missing: bool,
    /// The next node if the comparison is false, and if it is true.
    next: [usize; 2],
}

/// A number that a leaf adds to a class or target.
struct Vote {
    place: usize,
    class: usize,
    weight: f64,
}

/// All trees of a node.
struct Forest {
    places: Vec<Place>,
    roots: Vec<usize>,
    votes: Vec<Vote>,
    n_classes: usize,
    levels: usize,
}

fn damaged(node: &Node) -> Diagnostic {
    broken(
        format!("{} has trees whose parts contradict each other", node.describe()),
        "export the model again",
    )
}

/// A list of floats, which may also be a tensor.
fn floats(node: &Node, name: &str) -> Vec<f64> {
    let tensor = node.attributes.get(name).or_else(|| node.attributes.get(&format!("{name}_as_tensor")));
    match tensor {
        Some(Attribute::Floats(items)) => items.clone(),
        Some(Attribute::Tensor(stored)) => numbers(stored),
        _ => vec![],
    }
}

/// The elements of a tensor as floats.
fn numbers(stored: &Stored) -> Vec<f64> {
    let size = stored.dtype.size();
    let element = |bytes: &[u8]| match (stored.dtype, bytes.len()) {
        (DType::F32, 4) => bytes.try_into().map(f32::from_le_bytes).map_or(0.0, f64::from),
        (DType::F64, 8) => bytes.try_into().map_or(0.0, f64::from_le_bytes),
        _ => bytes.iter().rev().fold(0.0, |n, byte| n * 256.0 + f64::from(*byte)),
    };
    stored.bytes.chunks_exact(size).map(element).collect()
}

fn words<'n>(node: &'n Node, name: &str) -> &'n [String] {
    match node.attributes.get(name) {
        Some(Attribute::Texts(words)) => words,
        _ => &[],
    }
}

impl Forest {
    /// The trees of the older ops, whose nodes are numbered within their tree. `kind` begins the names of votes.
    fn by_ids(node: &Node, kind: &str, n_classes: usize) -> Result<Forest, Diagnostic> {
        let list = |name: &str| node.ints(name).unwrap_or_default();
        let (trees, ids) = (list("nodes_treeids"), list("nodes_nodeids"));
        let (features, modes) = (list("nodes_featureids"), words(node, "nodes_modes"));
        let (thresholds, branches) =
            (floats(node, "nodes_values"), [list("nodes_falsenodeids"), list("nodes_truenodeids")]);
        let missing = list("nodes_missing_value_tracks_true");
        let lengths =
            [ids.len(), features.len(), modes.len(), thresholds.len(), branches[0].len(), branches[1].len()];
        if trees.is_empty() || lengths.iter().any(|n| *n != trees.len()) {
            return Err(damaged(node));
        }
        let keys: HashMap<(i64, i64), usize> =
            trees.iter().copied().zip(ids.iter().copied()).zip(0..).collect();
        let find = |tree: i64, id: i64| keys.get(&(tree, id)).copied().ok_or_else(|| damaged(node));
        let mut places = vec![];
        for at in 0..trees.len() {
            let (mode, next) = match modes[at].as_str() {
                "LEAF" => (0, [at; 2]),
                word => {
                    let mode = MODES.iter().position(|(name, _)| *name == word);
                    let mode =
                        mode.ok_or_else(|| node.lacking(&format!("has nodes of the kind `{word}`")))?;
                    (mode, [find(trees[at], branches[0][at])?, find(trees[at], branches[1][at])?])
                }
            };
            let takes_missing = missing.get(at).is_some_and(|n| *n != 0);
            places.push(Place {
                feature: features[at],
                threshold: thresholds[at],
                mode,
                takes_missing,
                next,
            });
        }
        let votes = [
            list(&format!("{kind}_treeids")),
            list(&format!("{kind}_nodeids")),
            list(&format!("{kind}_ids")),
        ];
        let weights = floats(node, &format!("{kind}_weights"));
        if votes.iter().any(|list| list.len() != weights.len()) {
            return Err(damaged(node));
        }
        let vote = |at: usize| {
            let class = usize::try_from(votes[2][at]).map_err(|_| damaged(node))?;
            Ok(Vote { place: find(votes[0][at], votes[1][at])?, class, weight: weights[at] })
        };
        let votes = (0..weights.len()).map(vote).collect::<Result<Vec<_>, Diagnostic>>()?;
        let roots = roots(&places, trees);
        Forest { places, roots, votes, n_classes, levels: 0 }.sound(node)
    }

    /// The trees of `TreeEnsemble`, whose leaves stand behind all other nodes here.
    fn by_places(node: &Node) -> Result<Forest, Diagnostic> {
        let list = |name: &str| node.ints(name).unwrap_or_default();
        let (features, modes, splits) =
            (list("nodes_featureids"), floats(node, "nodes_modes"), floats(node, "nodes_splits"));
        let branches = [
            (list("nodes_falsenodeids"), list("nodes_falseleafs")),
            (list("nodes_truenodeids"), list("nodes_trueleafs")),
        ];
        let (targets, weights) = (list("leaf_targetids"), floats(node, "leaf_weights"));
        let missing = list("nodes_missing_value_tracks_true");
        let n = features.len();
        let is_even = branches.iter().all(|(ids, leaves)| ids.len() == n && leaves.len() == n);
        if !is_even || modes.len() != n || splits.len() != n || targets.len() != weights.len() {
            return Err(damaged(node));
        }
        let next = |at: usize, side: usize| {
            let (ids, leaves) = branches[side];
            let (start, end) = if leaves[at] == 0 { (0, n) } else { (n, n + weights.len()) };
            let found = usize::try_from(ids[at]).ok().and_then(|id| id.checked_add(start));
            found.filter(|found| *found < end).ok_or_else(|| damaged(node))
        };
        let mut places = vec![];
        for at in 0..n {
            let mode = modes[at] as usize;
            if mode >= MODES.len() {
                return Err(node.lacking("has nodes that look for members of sets"));
            }
            let takes_missing = missing.get(at).is_some_and(|n| *n != 0);
            let next = [next(at, 0)?, next(at, 1)?];
            places.push(Place { feature: features[at], threshold: splits[at], mode, takes_missing, next });
        }
        let leaf =
            |at: usize| Place { feature: 0, threshold: 0.0, mode: 0, takes_missing: false, next: [at; 2] };
        places.extend((n..n + weights.len()).map(leaf));
        let vote = |(at, (class, weight)): (usize, (&i64, &f64))| {
            let class = usize::try_from(*class).map_err(|_| damaged(node))?;
            Ok(Vote { place: n + at, class, weight: *weight })
        };
        let votes =
            targets.iter().zip(&weights).enumerate().map(vote).collect::<Result<Vec<_>, Diagnostic>>()?;
        let root =
            |root: &i64| usize::try_from(*root).ok().filter(|root| *root < n).ok_or_else(|| damaged(node));
        let roots = list("tree_roots").iter().map(root).collect::<Result<Vec<_>, _>>()?;
        let n_classes = usize::try_from(node.int("n_targets", 1)).map_err(|_| damaged(node))?;
        Forest { places, roots, votes, n_classes, levels: 0 }.sound(node)
    }

    /// The forest with its number of levels, if all walks end.
    fn sound(mut self, node: &Node) -> Result<Forest, Diagnostic> {
        let is_vote =
            |vote: &Vote| vote.class < self.n_classes && self.places[vote.place].next == [vote.place; 2];
        let most = MOST_VOTES.saturating_mul(self.places.len() + self.votes.len());
        let is_small = self.n_classes.checked_mul(self.places.len()).is_some_and(|n| n <= most);
        if self.roots.is_empty() || self.votes.is_empty() || !self.votes.iter().all(is_vote) {
            return Err(damaged(node));
        }
        if !is_small {
            return Err(unsupported(format!("{} has too many classes", node.describe()), "split the model"));
        }
        let mut open: Vec<(usize, usize)> = self.roots.iter().map(|root| (*root, 0)).collect();
        let mut n_visits = 0;
        while let Some((at, level)) = open.pop() {
            n_visits += 1;
            self.levels = self.levels.max(level);
            if level > MOST_LEVELS || n_visits > 2 * self.places.len() {
                return Err(node.lacking("has trees that are too deep, or nodes that several branches share"));
            }
            let next = self.places[at].next.into_iter().filter(|next| *next != at);
            open.extend(next.map(|next| (next, level + 1)));
        }
        Ok(self)
    }
}

/// The first node of each tree that no other node leads to.
fn roots(places: &[Place], trees: &[i64]) -> Vec<usize> {
    let mut is_inner = vec![false; places.len()];
    for (at, place) in places.iter().enumerate() {
        place.next.iter().filter(|next| **next != at).for_each(|next| is_inner[*next] = true);
    }
    let mut found: Vec<(i64, usize)> = vec![];
    for (at, tree) in trees.iter().enumerate().filter(|(at, _)| !is_inner[*at]) {
        if found.last().is_none_or(|(last, _)| last != tree) {
            found.push((*tree, at));
        }
    }
    found.into_iter().map(|(_, at)| at).collect()
}

/// Adds a tensor of integers under a name of its own.
fn places(of: &mut Translation, node: &Node, part: &str, items: &[usize]) -> Result<String, Diagnostic> {
    let bytes = items.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect();
    let name = step_name(node, part);
    of.values.add_stored(&name, Stored::new(DType::I32, vec![items.len()], bytes));
    of.values.tensor(&name).map(|(name, _)| name)
}

/// Adds a tensor of floats under a name of its own.
pub(crate) fn table(
    of: &mut Translation,
    node: &Node,
    part: &str,
    (dims, dtype): (&[usize], DType),
    items: &[f64],
) -> Result<String, Diagnostic> {
    let bytes = match dtype {
        DType::F64 => items.iter().flat_map(|x| x.to_le_bytes()).collect(),
        _ => items.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
    };
    let name = step_name(node, part);
    of.values.add_stored(&name, Stored::new(dtype, dims.to_vec(), bytes));
    of.values.tensor(&name).map(|(name, _)| name)
}

/// The rows of the operand, as floats.
pub(crate) fn rows(of: &mut Translation, node: &Node) -> Result<(String, Vec<Number>, DType), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let (x, ty) = of.values.tensor(name)?;
    let dtype = if ty.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let x = if ty.dtype == dtype { x } else { format!("cast({x}, dtype={dtype})") };
    match &shape[..] {
        [n] => Ok((format!("reshape({x}, shape=[1, _])"), vec![Number::Int(1), n.clone()], dtype)),
        [_, _] => Ok((x, shape, dtype)),
        _ => Err(unfit(node)),
    }
}

/// The leaves that rows reach, `[rows, trees]`.
fn walk(of: &mut Translation, node: &Node, forest: &Forest) -> Result<String, Diagnostic> {
    let (x, shape, dtype) = rows(of, node)?;
    let x = step(of, node, "rows", &format!("copy({x})"))?;
    let all = &forest.places;
    let of_all = |value: &dyn Fn(&Place) -> usize| all.iter().map(value).collect::<Vec<_>>();
    if all.iter().any(|place| i32::try_from(place.feature).is_err() || place.feature < 0) {
        return Err(damaged(node));
    }
    let features = places(of, node, "features", &of_all(&|place| place.feature as usize))?;
    let thresholds: Vec<f64> = all.iter().map(|place| place.threshold).collect();
    let thresholds = table(of, node, "thresholds", (&[all.len()], dtype), &thresholds)?;
    let next: Vec<usize> = all.iter().flat_map(|place| place.next).collect();
    let next = places(of, node, "next", &next)?;
    let is_inner = |(at, place): &(usize, &Place)| place.next != [*at; 2];
    let inner: Vec<&Place> = all.iter().enumerate().filter(is_inner).map(|(_, place)| place).collect();
    let used: Vec<usize> =
        (0..MODES.len()).filter(|mode| inner.iter().any(|place| place.mode == *mode)).collect();
    let modes = match used.len() {
        0 | 1 => String::new(),
        _ => places(of, node, "modes", &of_all(&|place| place.mode))?,
    };
    let missing = match inner.iter().any(|place| place.takes_missing) {
        true => places(of, node, "missing", &of_all(&|place| usize::from(place.takes_missing)))?,
        false => String::new(),
    };
    let roots = places(of, node, "roots", &forest.roots)?;
    let shape = list(&[shape[0].clone(), Number::Int(forest.roots.len() as i64)]);
    let mut at =
        step(of, node, "level0", &format!("broadcast_to(reshape({roots}, shape=[1, _]), shape={shape})"))?;
    for level in 1..=forest.levels {
        let value = step(
            of,
            node,
            &format!("value{level}"),
            &format!("gather({x}, index_select({features}, {at}), axis=1)"),
        )?;
        let limit = format!("index_select({thresholds}, {at})");
        let mut holds = String::new();
        for mode in used.iter().rev() {
            let compared = format!("({value} {} {limit})", MODES[*mode].1);
            holds = match holds.is_empty() {
                true => compared,
                false => format!("where(index_select({modes}, {at}) == {mode}, {compared}, {holds})"),
            };
        }
        if !missing.is_empty() {
            holds = format!("({holds} | (isnan({value}) & (index_select({missing}, {at}) == 1)))");
        }
        let step_to = format!("index_select({next}, {at} * 2 + cast({holds}, dtype=i32))");
        at = step(of, node, &format!("level{level}"), &step_to)?;
    }
    Ok(at)
}

/// The sums, means or extremes of the votes, `[rows, classes]`, and how many votes there were.
fn votes(
    of: &mut Translation,
    node: &Node,
    (forest, fold): (&Forest, &str),
) -> Result<(String, Option<String>), Diagnostic> {
    let leaves = walk(of, node, forest)?;
    let (n, width) = (forest.places.len(), forest.n_classes);
    let empty = match fold {
        "MIN" => f64::INFINITY,
        "MAX" => f64::NEG_INFINITY,
        _ => 0.0,
    };
    let (mut weights, mut counts) = (vec![empty; n * width], vec![0.0; n * width]);
    for vote in &forest.votes {
        let at = vote.place * width + vote.class;
        weights[at] = match fold {
            "MIN" => weights[at].min(vote.weight),
            "MAX" => weights[at].max(vote.weight),
            _ => weights[at] + vote.weight,
        };
        counts[at] = 1.0;
    }
    let dims = [n, width];
    let weights = table(of, node, "weights", (&dims, DType::F32), &weights)?;
    let found = format!("index_select({weights}, {leaves})");
    let sums = match fold {
        "MIN" | "MAX" => {
            let reduced = format!("{}({found}, axis=1)", if fold == "MIN" { "amin" } else { "amax" });
            let reduced = step(of, node, "extreme", &reduced)?;
            format!("where(isinf({reduced}), 0.0, {reduced})")
        }
        "AVERAGE" => format!("sum({found}, axis=1) / {:?}", forest.roots.len() as f64),
        _ => format!("sum({found}, axis=1)"),
    };
    let sums = step(of, node, "sums", &sums)?;
    let is_leaf = |at: usize| forest.places[at].next == [at; 2];
    let is_whole = (0..n)
        .filter(|at| is_leaf(*at))
        .all(|at| counts[at * width..(at + 1) * width].iter().all(|n| *n > 0.0));
    if is_whole {
        return Ok((sums, None));
    }
    let counts = table(of, node, "counts", (&dims, DType::F32), &counts)?;
    let counts = step(of, node, "voted", &format!("sum(index_select({counts}, {leaves}), axis=1) > 0.0"))?;
    Ok((sums, Some(counts)))
}

/// Scores with the numbers that an attribute adds to each.
fn based(of: &mut Translation, node: &Node, sums: String, n: usize) -> Result<String, Diagnostic> {
    match floats(node, "base_values") {
        base if base.is_empty() => Ok(sums),
        base if base.len() == n || base.len() == 1 => {
            let base = table(of, node, "base", (&[base.len()], DType::F32), &base)?;
            step(of, node, "based", &format!("{sums} + {base}"))
        }
        _ => Err(damaged(node)),
    }
}

/// `TreeEnsembleRegressor(x)`
pub(crate) fn regressor(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let n = usize::try_from(node.int("n_targets", 1)).map_err(|_| damaged(node))?;
    let forest = Forest::by_ids(node, "target", n)?;
    let fold = node.text("aggregate_function", "SUM");
    regressed(of, node, &forest, (fold, node.text("post_transform", "NONE")))
}

/// `TreeEnsemble(x)`
pub(crate) fn ensemble(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let forest = Forest::by_places(node)?;
    let word = |name: &str, default: i64, words: &[&'static str]| {
        let at = usize::try_from(node.int(name, default)).ok();
        at.and_then(|at| words.get(at).copied()).ok_or_else(|| damaged(node))
    };
    let fold = word("aggregate_function", 1, &["AVERAGE", "SUM", "MIN", "MAX"])?;
    let transform = word("post_transform", 0, &["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])?;
    regressed(of, node, &forest, (fold, transform))
}

fn regressed(
    of: &mut Translation,
    node: &Node,
    forest: &Forest,
    (fold, transform): (&str, &str),
) -> Result<(), Diagnostic> {
    if !["SUM", "AVERAGE", "MIN", "MAX"].contains(&fold) {
        return Err(node.lacking(&format!("joins trees by `{fold}`")));
    }
    let (sums, _) = votes(of, node, (forest, fold))?;
    let sums = based(of, node, sums, forest.n_classes)?;
    // One score alone has no transformation but this.
    let transform = if forest.n_classes == 1 && transform != "PROBIT" { "NONE" } else { transform };
    let y = scores::transformed(of, node, &sums, transform)?;
    let dtype = of.values.type_of(node.input(0).unwrap_or_default()).map(|ty| ty.dtype);
    let is_double = node.op == "TreeEnsemble" && dtype == Some(DType::F64);
    let y = if is_double { format!("cast({y}, dtype=f64)") } else { y };
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// `TreeEnsembleClassifier(x)`: the label of the largest sum of votes, and the sums.
pub(crate) fn classifier(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let labels = scores::labels(node, "classlabels_int64s", "classlabels_strings")?;
    let forest = Forest::by_ids(node, "class", labels.len())?;
    let transform = node.text("post_transform", "NONE");
    let (sums, voted) = votes(of, node, (&forest, "SUM"))?;
    if labels.len() != 2 {
        let n_base = floats(node, "base_values").len();
        let sums = based(of, node, sums, labels.len())?;
        let voted = voted.filter(|_| n_base == 0);
        return scores::classified(of, node, &labels, Scores { raw: sums, voted, transform });
    }
    binary(of, node, (&forest, &labels), (&sums, transform))
}

/// Two classes. If only one of them gets votes, its sum decides for both.
fn binary(
    of: &mut Translation,
    node: &Node,
    (forest, labels): (&Forest, &[i64]),
    (sums, transform): (&str, &str),
) -> Result<(), Diagnostic> {
    let voted = [0, 1].map(|class| forest.votes.iter().any(|vote| vote.class == class));
    let base = floats(node, "base_values");
    let is_positive = forest.votes.iter().all(|vote| vote.weight >= 0.0);
    match (voted, base.len()) {
        ([true, false], 0 | 1) => {
            let sum = based(of, node, format!("slice({sums}, axis=1, stop=1)"), 1)?;
            let sum = step(of, node, "sum", &format!("copy({sum})"))?;
            scores::two_by_one(of, node, labels, (&sum, is_positive, transform))
        }
        ([false, true] | [true, true], 0) => {
            let limit = if voted[0] || !is_positive { "0.0" } else { "0.5" };
            let decides = format!("select({sums}, axis=1, index=1) > {limit}");
            scores::two_by_two(of, node, labels, (sums, &decides, transform))
        }
        _ => Err(node.lacking("has base values for votes of two classes")),
    }
}
