//! No bound of a block lies above a value of its rows, and no search by radius passes over a row.

use crate::rows::{Kind, Random};
use crate::truth::Value;
use crate::{METRICS, Values, many, matrix, session};
use engine_runtime::session::Session;
use engine_runtime::tensor::HostTensor;

const BOUNDS: [&str; 3] = ["ball", "box", "both"];

/// Queries and rows of some shape.
#[derive(Debug)]
struct Shape {
    m: usize,
    n: usize,
    d: usize,
    block: usize,
    metric: &'static str,
}

impl Shape {
    fn draw(random: &mut Random) -> Shape {
        let d = random.pick(&[1, 2, 3, 8, 17, 64]);
        let (n, block) = (1 + random.below(150), random.pick(&[1, 4, 5, 16]));
        // Few pairs of queries and blocks are compared without bounds by `within`.
        let m = random.pick(&[5, 5, 5, 40]);
        Shape { m, n, d, block, metric: random.pick(&METRICS) }
    }

    fn session(&self) -> Session {
        let Shape { m, n, d, block, metric } = self;
        let metric = format!(r#"metric=\"{metric}\""#);
        let bounds = BOUNDS.map(|bound| {
            format!(
                r#""{bound}": "tree_bound(queries, t.center, t.inner, t.radius, t.low, t.high, {metric}, bound=\"{bound}\")",
                   "in_{bound}": "tree_within(q, t.*, reach, {metric}, bound=\"{bound}\", cap={m}*{n}, pairs={m}*{n})","#
            )
        });
        session(&format!(
            r#"(
                inputs: {{"q": "f32[{m}, {d}]", "x": "f32[{n}, {d}]", "reach": "f32[{m}]"}},
                nodes: {{
                    "t": "tree(x, block={block}, {metric})",
                    "queries": "tree_queries(q, t.kind, {metric})",
                    "far": "tree_value(reshape(queries, shape=[{m}, 1, {d}]), t, {metric})",
                    {}
                    "flat": "within(q, x, reach, {metric}, cap={m}*{n})",
                    "flat_bf16": "within(q, x, reach, {metric}, cap={m}*{n}, coarse=\"bf16\")",
                }},
            )"#,
            bounds.concat()
        ))
    }

    fn rows(&self, random: &mut Random) -> [Vec<f32>; 2] {
        let kind = random.pick(&Kind::ALL);
        let x = kind.rows(random, [self.n, self.d]);
        [kind.queries(random, &x, [self.m, self.d]), x]
    }

    fn inputs(&self, [q, x]: &[Vec<f32>; 2], reach: &[f32]) -> [(&'static str, HostTensor); 3] {
        let reach = HostTensor::from_slice(&[self.m], reach).unwrap();
        [("q", matrix([self.m, self.d], q)), ("x", matrix([self.n, self.d], x)), ("reach", reach)]
    }

    /// Checks the bounds of all blocks, and returns how many are worth something.
    fn check_bounds(&self, session: &Session, rows: &[Vec<f32>; 2]) -> usize {
        let names = ["t", "t.ids", "queries", "far", "ball", "box", "both"].map(String::from);
        let found = Values::of(session, &names, &self.inputs(rows, &vec![0.0; self.m])).unwrap();
        let (ids, far) = (found.at("t.ids"), found.at("far"));
        let (d, p, n_blocks) = (self.d, ids.len(), ids.len() / self.block);
        let single = |name: &str| found.at(name).iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let [keys, queries] = ["t", "queries"].map(single);
        // Rows and queries have their lengths already.
        let has_length = |x: &[f32]| x.iter().any(|&x| x != 0.0);
        let exact = |q: &[f32], x: &[f32]| match self.metric {
            "cosine" if has_length(q) && has_length(x) => 0.5 * Value::of("l2", q, x).exact,
            "cosine" => 1.0,
            metric => Value::of(metric, q, x).exact,
        };
        let mut n_useful = 0;
        for (query, slot) in (0..self.m).flat_map(|query| (0..p).map(move |slot| (query, slot))) {
            if ids[slot] < 0.0 {
                continue;
            }
            let exact = exact(&queries[query * d..][..d], &keys[slot * d..][..d]);
            for bound in BOUNDS {
                let least = found.at(bound)[query * n_blocks + slot / self.block];
                let value = far[query * p + slot];
                n_useful += usize::from(least > -1e30 && least > value - 0.5 * value.abs());
                assert!(
                    least <= value && least <= exact,
                    "{self:?}, {bound}: {least:e} for {value:e}, {exact:e}\n{rows:?}"
                );
            }
        }
        n_useful
    }

    /// Searches all rows, then those within the value of one of them.
    fn check_within(&self, session: &Session, rows: &[Vec<f32>; 2], random: &mut Random) {
        let far = if self.metric == "ip" { f32::NEG_INFINITY } else { f32::INFINITY };
        let sign = if self.metric == "ip" { -1.0 } else { 1.0 };
        let searches = ["in_ball", "in_box", "in_both", "flat", "flat_bf16"];
        let names: Vec<String> = searches
            .iter()
            .flat_map(|name| ["", ".ids", ".values"].map(|of| format!("{name}{of}")))
            .collect();
        let run = |reach: &[f32]| Values::of(session, &names, &self.inputs(rows, reach)).unwrap();
        let all = run(&vec![far; self.m]);
        for name in searches {
            let hits = |found: &Values, query: usize| -> Vec<(usize, f64)> {
                let [from, to] = [query, query + 1].map(|at| found.at(name)[at] as usize);
                let of = |part: &str| found.at(&format!("{name}{part}"))[from..to].to_vec();
                of(".ids").iter().map(|&id| id as usize).zip(of(".values")).collect()
            };
            let mut reach = vec![];
            for query in 0..self.m {
                let all = hits(&all, query);
                assert!(all.iter().map(|hit| hit.0).eq(0..self.n), "{self:?}, {name}: {all:?}\n{rows:?}");
                let query = &rows[0][query * self.d..][..self.d];
                let values = match name.starts_with("flat") {
                    true => Value::all_of_squares(self.metric, query, &rows[1]),
                    false => Value::all(self.metric, query, &rows[1]),
                };
                for &(id, value) in &all {
                    let value = sign * value;
                    let Value { exact, error } = values[id];
                    assert!(
                        (value - exact).abs() <= error || error.is_infinite(),
                        "{self:?}, {name}: {value:e} for {exact:e}\n{rows:?}"
                    );
                }
                reach.push(all[random.below(self.n)].1 as f32);
            }
            let some = run(&reach);
            for (query, &reach) in reach.iter().enumerate() {
                let limit = sign * f64::from(reach);
                let wanted: Vec<_> =
                    hits(&all, query).into_iter().filter(|hit| sign * hit.1 <= limit).collect();
                assert_eq!(hits(&some, query), wanted, "{self:?}, {name}, within {limit:e}\n{rows:?}");
            }
        }
    }
}

#[test]
fn no_bound_hides_a_row() {
    let mut random = Random::new(0x6a7e);
    let (mut n_useful, n_shapes, n_each) = (0, many(6), 8);
    for _ in 0..n_shapes {
        let shape = Shape::draw(&mut random);
        let session = shape.session();
        for _ in 0..n_each {
            let rows = shape.rows(&mut random);
            n_useful += shape.check_bounds(&session, &rows);
            shape.check_within(&session, &rows, &mut random);
        }
    }
    assert!(n_useful > 1000, "{n_useful}");
    println!("{} sets of rows, {n_useful} bounds near a value", n_shapes * n_each);
}
