//! No search lacks a row, and no first pass is certain of a result that lacks one.

use crate::rows::{Kind, Random};
use crate::truth::{self, Value};
use crate::{METRICS, Values, many, matrix, session};
use engine_runtime::session::Session;

/// One search of a session: a name, its metric, and whether it compares squares of lengths.
struct Search {
    name: String,
    call: String,
    metric: &'static str,
    is_flat: bool,
    /// Whether only certain results are right.
    is_first_pass: bool,
}

/// The searches of all kinds for `k` rows.
fn searches(k: usize) -> Vec<Search> {
    let mut searches = vec![];
    for metric in METRICS {
        let of = format!(r#"k={k}, metric=\"{metric}\""#);
        let mut add = |call: String, is_flat: bool, is_first_pass: bool| {
            let name = format!("found{}_{metric}", searches.len());
            searches.push(Search { name, call, metric, is_flat, is_first_pass });
        };
        for settings in ["margin=0", r#"margin=0, coarse=\"bf16\""#, r#"margin=2, coarse=\"bf16\""#] {
            for exact in [false, true] {
                add(format!("nearest(q, x, {of}, {settings}, exact={exact})"), true, !exact);
            }
        }
        add(format!("nearest(q, x, axes, {of})"), true, false);
        for bound in ["ball", "box", "both"] {
            for exact in [false, true] {
                let call = format!(
                    r#"tree_nearest(q, tree_{metric}.*, {of}, bound=\"{bound}\", budget=1, exact={exact})"#
                );
                add(call, false, !exact);
            }
        }
    }
    searches
}

/// Searches among rows of some shape.
struct Shape {
    m: usize,
    n: usize,
    d: usize,
    k: usize,
    searches: Vec<Search>,
    session: Session,
}

impl Shape {
    fn new([n, d, k, block]: [usize; 4]) -> Shape {
        // Products of few queries have other instructions than those of many.
        let (m, searches) = (if k == 1 { 12 } else { 5 }, searches(k));
        let trees = METRICS
            .map(|metric| format!(r#""tree_{metric}": "tree(x, block={block}, metric=\"{metric}\")","#));
        let nodes = searches.iter().map(|search| format!("\"{}\": \"{}\",", search.name, search.call));
        let text = format!(
            r#"(
                inputs: {{"q": "f32[{m}, {d}]", "x": "f32[{n}, {d}]"}},
                nodes: {{"axes": "eye(n={d})", {} {}}},
            )"#,
            trees.concat(),
            nodes.collect::<String>()
        );
        Shape { m, n, d, k, searches, session: session(&text) }
    }

    /// Searches drawn rows in all ways, and returns how many results of a first pass were certain.
    fn check(&self, kind: Kind, random: &mut Random) -> usize {
        let x = kind.rows(random, [self.n, self.d]);
        let q = kind.queries(random, &x, [self.m, self.d]);
        let parts = ["", ".indices", ".certified"];
        let names =
            self.searches.iter().flat_map(|search| parts.map(|part| format!("{}{part}", search.name)));
        let inputs = [("q", matrix([self.m, self.d], &q)), ("x", matrix([self.n, self.d], &x))];
        let found = Values::of(&self.session, &names.collect::<Vec<_>>(), &inputs).unwrap();
        let mut n_certain = 0;
        for (query, metric) in (0..self.m).flat_map(|query| METRICS.map(|metric| (query, metric))) {
            let q = &q[query * self.d..][..self.d];
            let values = [Value::all(metric, q, &x), Value::all_of_squares(metric, q, &x)];
            for search in self.searches.iter().filter(|search| search.metric == metric) {
                let of =
                    |part: &str| &found.at(&format!("{}{part}", search.name))[query * self.k..][..self.k];
                let is_certain = found.at(&format!("{}.certified", search.name))[query] == 1.0;
                if search.is_first_pass && !is_certain {
                    continue;
                }
                n_certain += usize::from(search.is_first_pass);
                let fault = truth::fault(&values[usize::from(search.is_flat)], &x, of(".indices"));
                let fault = fault.or_else(|| search.disorder(of(""), of(".indices")));
                if let Some(fault) = fault {
                    panic!("{} of {kind:?}: {fault}\nquery {q:?}\nrows {x:?}", search.call);
                }
            }
        }
        n_certain
    }
}

impl Search {
    /// The fault of an order that is not that of values, and of numbers of rows among equal values.
    fn disorder(&self, values: &[f64], ids: &[f64]) -> Option<String> {
        let sign = if self.metric == "ip" { -1.0 } else { 1.0 };
        let key = |at: usize| (sign * values[at], if ids[at] < 0.0 { f64::INFINITY } else { ids[at] });
        let is_sorted = (1..ids.len()).all(|at| key(at - 1) < key(at) || ids[at] < 0.0);
        (!is_sorted).then(|| format!("{ids:?} at {values:?} are out of order"))
    }
}

/// Rows, their length, results and rows of a block.
const SHAPES: [[usize; 4]; 12] = [
    [150, 3, 1, 4],
    [200, 8, 2, 8],
    [90, 1, 2, 4],
    [300, 17, 3, 16],
    [130, 2, 1, 1],
    [257, 5, 4, 5],
    [129, 64, 2, 8],
    [66, 3, 66, 8],
    [160, 4, 2, 64],
    [512, 2, 3, 16],
    [70, 9, 5, 4],
    [400, 33, 6, 16],
];

#[test]
fn no_result_lacks_a_row_and_no_certificate_is_wrong() {
    let mut random = Random::new(0xce47);
    let (mut n_certain, mut n_cases) = (0, 0);
    let n_shapes = many(3).min(SHAPES.len());
    for shape in &SHAPES[..n_shapes] {
        let shape = Shape::new(*shape);
        for _ in 0..many(30).div_ceil(n_shapes) {
            n_certain += shape.check(random.pick(&Kind::ALL), &mut random);
            n_cases += shape.m * shape.searches.len();
        }
    }
    // Half of the searches are first passes alone.
    assert!(4 * n_certain > n_cases / 4, "{n_certain} of {n_cases}");
    println!("{n_cases} searches, {n_certain} of first passes that were certain");
}
