//! Generated queries and keys, choices of blocks, and attention in double precision.

use crate::offline;
use crate::ways::devices;
use engine::core::compile::Options;
use engine::core::ir::Symbol;
use engine::runtime::device::Device;
use indexmap::IndexMap;
use std::sync::Arc;

/// Generated queries and keys, and the ways to choose blocks of them.
#[derive(Clone)]
pub struct Case {
    /// Query heads, key heads, queries, keys in blocks, and keys of the tail.
    pub sizes: [usize; 5],
    /// Rows of a block.
    pub width: usize,
    /// Formulas over normal numbers `a` (queries) and `b` (keys), and the number of the key `i`.
    pub formulas: [&'static str; 2],
    /// Settings of `block_priority`, which begin with a comma.
    pub priority: &'static str,
    pub is_causal: bool,
    /// Whether the choice is made for each head.
    pub per_head: bool,
    /// Calls that choose, over `p`, the priorities.
    pub choices: Vec<&'static str>,
}

/// What the names of results begin with, those of lists of one width and those of lists one after the other.
const FORMS: [&str; 2] = ["y", "z"];
/// The most blocks of a list.
const MOST_LISTED: usize = 70;

/// The extent of a key.
pub const D: usize = 12;
/// The extent of a value.
pub const E: usize = 5;
/// Two sequences.
pub const B: usize = 2;

pub const PLAIN: Case = Case {
    sizes: [4, 2, 3, 50, 0],
    width: 8,
    formulas: ["a", "b"],
    priority: "",
    is_causal: false,
    per_head: false,
    choices: vec![],
};

/// Operands and results of all choices of a case.
pub struct Found {
    case: Case,
    pub tensors: IndexMap<String, Vec<f64>>,
}

impl Case {
    fn n_blocks(&self) -> usize {
        self.sizes[3].div_ceil(self.width)
    }

    fn text(&self) -> String {
        let Case { sizes: [h, g, t, s, r], width, formulas: [q, k], priority, is_causal, per_head, choices } =
            self;
        let nodes: String = choices.iter().enumerate().map(|(i, choice)| {
            let choice = choice.replace('"', "\\\"");
            let tail = if *r > 0 { ", tail_k, tail_v" } else { "" };
            let cap = B * t * MOST_LISTED * if *per_head { h } else { g };
            format!(
                "\"c{i}\": \"{choice}\",\n\
                 \"y{i}\": \"retrieved_attention(q, k, v, c{i}, box{tail}, size=W, causal={is_causal})\",\n\
                 \"l{i}\": \"ragged_blocks(c{i}, cap={cap})\",\n\
                 \"z{i}\": \"ragged_attention(q, k, v, l{i}.lims, l{i}.ids, box{tail}, size=W, causal={is_causal})\",\n"
            )
        }).collect();
        let outputs = self.outputs().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        format!(
            r#"(
                dims: {{"B": {B}, "H": {h}, "G": {g}, "T": {t}, "S": {s}, "R": {r}, "D": {D}, "E": {E}, "W": {width}}},
                nodes: {{
                    "a": "normal(shape=[B, H, T, D])",
                    "b": "normal(shape=[B, G, S, D])",
                    "i": "reshape(arange(stop=S), shape=[S, 1])",
                    "q": "{q}",
                    "k": "{k}",
                    "v": "normal(shape=[B, G, S, E]) * 2.0",
                    "tail_k": "normal(shape=[B, G, R, D])",
                    "tail_v": "normal(shape=[B, G, R, E])",
                    "bounds": "block_bounds(k, size=W)",
                    "box": "box_bounds(q, bounds.low, bounds.high)",
                    "ball": "ball_bounds(q, bounds.mean, bounds.radius)",
                    "means": "mean_scores(q, bounds.mean)",
                    "least": "mean_bounds(q, bounds.mean, bounds.radius)",
                    "p": "block_priority(box, k, size=W, causal={is_causal}, per_head={per_head}, tail=R{priority})",
                    {nodes}
                }},
                stages: {{"go": Run(outputs: [{outputs}])}},
            )"#
        )
    }

    fn outputs(&self) -> impl Iterator<Item = String> {
        let fixed =
            ["q", "k", "v", "tail_k", "tail_v", "box", "ball", "means", "least", "p"].map(String::from);
        let of = |i| {
            let results = FORMS.into_iter().flat_map(move |y| {
                [format!("{y}{i}"), format!("{y}{i}.lse"), format!("{y}{i}.missed"), format!("{y}{i}.error")]
            });
            [format!("c{i}")].into_iter().chain(results)
        };
        fixed.into_iter().chain((0..self.choices.len()).flat_map(of))
    }

    pub fn run(&self, (device, fuse): (Arc<dyn Device>, bool)) -> Found {
        let text = self.text();
        let options = Options { fuse, ..Options::default() };
        let names: Vec<Symbol> = self.outputs().map(|name| Symbol::from(name.as_str())).collect();
        let outputs = offline::session(&text, device, options)
            .run(&names, &IndexMap::new())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let tensors = names.iter().map(|name| (name.to_string(), outputs[&**name].to_f64())).collect();
        Found { case: self.clone(), tensors }
    }

    /// Checks bounds and results on all devices, and hands the results of each to `more`.
    pub fn check(&self, more: impl Fn(&Found)) {
        for device in devices() {
            let name = format!("{:?} on {}", self.sizes, device.0.info().name);
            let found = self.run(device);
            for b in 0..B {
                for h in 0..self.sizes[0] {
                    (0..self.sizes[2]).for_each(|t| found.check_query([b, h, t], &name));
                }
            }
            more(&found);
        }
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn length(a: &[f64]) -> f64 {
    product(a, a).sqrt()
}

/// Attention to some keys: the sum of weights as a logarithm, and the weighted sum of values.
fn attended(scores: &[(f64, &[f64])]) -> (f64, Vec<f64>) {
    let largest = scores.iter().map(|(score, _)| *score).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|(score, _)| (score - largest).exp()).sum();
    let mut y = vec![0.0; E];
    for (score, value) in scores {
        let weight = (score - largest).exp() / total;
        y.iter_mut().zip(*value).for_each(|(y, v)| *y += weight * v);
    }
    if scores.is_empty() { (f64::NEG_INFINITY, y) } else { (largest + total.ln(), y) }
}

impl Found {
    pub fn row(&self, name: &str, at: usize, width: usize) -> &[f64] {
        &self.tensors[name][at * width..(at + 1) * width]
    }

    /// The number of a query among all.
    pub fn query(&self, [b, h, t]: [usize; 3]) -> usize {
        let [n_heads, _, n_queries, ..] = self.case.sizes;
        (b * n_heads + h) * n_queries + t
    }

    /// The blocks that choice `i` lists for a query.
    pub fn listed(&self, i: usize, [b, h, t]: [usize; 3]) -> &[f64] {
        let [n_heads, n_groups, n_queries, ..] = self.case.sizes;
        let n_choices = if self.case.per_head { n_heads } else { n_groups };
        let list = &self.tensors[&format!("c{i}")];
        let at = (b * n_choices + h * n_choices / n_heads) * n_queries + t;
        let width = list.len() / (B * n_choices * n_queries);
        &list[at * width..(at + 1) * width]
    }

    /// Scores before scaling, and values, of the keys in blocks that a query sees, by number.
    pub fn seen(&self, [b, h, t]: [usize; 3]) -> Vec<(usize, f64, &[f64])> {
        let [n_heads, n_groups, n_queries, n_keys, n_tail] = self.case.sizes;
        let (q, first) =
            (self.row("q", self.query([b, h, t]), D), (b * n_groups + h * n_groups / n_heads) * n_keys);
        let is_seen = |key: &usize| !self.case.is_causal || *key + n_queries <= n_keys + n_tail + t;
        let key = |key| (key, product(q, self.row("k", first + key, D)), self.row("v", first + key, E));
        (0..n_keys).filter(is_seen).map(key).collect()
    }

    /// Scaled scores and values of the keys in the tail that a query sees.
    fn tail(&self, [b, h, t]: [usize; 3]) -> Vec<(f64, &[f64])> {
        let [n_heads, n_groups, n_queries, _, n_tail] = self.case.sizes;
        let (q, first) =
            (self.row("q", self.query([b, h, t]), D), (b * n_groups + h * n_groups / n_heads) * n_tail);
        let is_seen = |key: &usize| !self.case.is_causal || *key + n_queries <= n_tail + t;
        let key = |key| {
            (product(q, self.row("tail_k", first + key, D)) * scale(), self.row("tail_v", first + key, E))
        };
        (0..n_tail).filter(is_seen).map(key).collect()
    }

    fn check_query(&self, at: [usize; 3], name: &str) {
        let (seen, n, width) = (self.seen(at), self.case.n_blocks(), self.case.width);
        for (block, upper) in self.row("box", self.query(at), n).iter().enumerate() {
            let ball = self.row("ball", self.query(at), n)[block];
            for (key, score, _) in seen.iter().filter(|(key, ..)| key / width == block) {
                assert!(
                    *upper >= *score && ball >= *score,
                    "{name}, key {key} of {at:?}: {upper}, {ball} for {score}"
                );
            }
        }
        for (block, lower) in self.row("least", self.query(at), n).iter().enumerate() {
            let own = seen.iter().filter(|(key, ..)| key / width == block).map(|(_, score, _)| *score);
            let own: Vec<f64> = own.collect();
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            let is_whole = own.len() == width.min(self.case.sizes[3] - block * width);
            assert!(!is_whole || *lower <= mean, "{name}, block {block} of {at:?}: {lower} for {mean}");
        }
        for (i, form) in (0..self.case.choices.len()).flat_map(|i| FORMS.map(|form| (i, form))) {
            self.check_choice((i, form), at, name);
        }
    }

    fn check_choice(&self, (i, form): (usize, &str), at: [usize; 3], name: &str) {
        let (query, seen, tail) = (self.query(at), self.seen(at), self.tail(at));
        let listed = self.listed(i, at);
        let is_listed = |key: usize| listed.contains(&((key / self.case.width) as f64));
        let all: Vec<_> =
            seen.iter().map(|(_, score, v)| (score * scale(), *v)).chain(tail.clone()).collect();
        let some = seen.iter().filter(|(key, ..)| is_listed(*key)).map(|(_, score, v)| (score * scale(), *v));
        let ((lse, y), (dense_lse, dense)) =
            (attended(&some.chain(tail).collect::<Vec<_>>()), attended(&all));
        let name = format!("{name}, {form} by {} at {at:?}, blocks {listed:?}", self.case.choices[i]);
        let found = self.row(&format!("{form}{i}"), query, E);
        let [found_lse, missed, error] =
            ["lse", "missed", "error"].map(|of| self.row(&format!("{form}{i}.{of}"), query, 1)[0]);
        let largest = all.iter().map(|(score, _)| score.abs()).fold(1.0, f64::max);
        let longest = all.iter().map(|(_, v)| length(v)).fold(1.0, f64::max);
        let slack = 2e-6 * largest;
        let is_lse = lse == found_lse || (lse - found_lse).abs() <= slack;
        assert!(is_lse, "{name}: {found_lse} for {lse}");
        let difference =
            |other: &[f64]| length(&found.iter().zip(other).map(|(a, b)| a - b).collect::<Vec<_>>());
        assert!(difference(&y) <= 2.0 * slack * longest, "{name}: {found:?} for {y:?}");
        let truly = if all.is_empty() { 0.0 } else { 1.0 - (lse - dense_lse).exp() };
        assert!((truly - slack..=1.0).contains(&missed), "{name}: {missed} missed, truly {truly}");
        assert!(
            difference(&dense) <= error + 2.0 * slack * longest,
            "{name}: {error} for {}",
            difference(&dense)
        );
    }

    /// Calls a check for each query.
    pub fn each(&self, check: impl Fn([usize; 3])) {
        let [n_heads, _, n_queries, ..] = self.case.sizes;
        for at in 0..B * n_heads * n_queries {
            check([at / n_queries / n_heads, at / n_queries % n_heads, at % n_queries]);
        }
    }

    /// The missed share of a query under choice `i`.
    pub fn missed(&self, i: usize, at: [usize; 3]) -> f64 {
        self.row(&format!("y{i}.missed"), self.query(at), 1)[0]
    }
}

/// The factor of the scores.
fn scale() -> f64 {
    1.0 / (D as f64).sqrt()
}

pub fn n_listed(list: &[f64]) -> usize {
    list.iter().filter(|block| **block >= 0.0).count()
}
