//! Blocks of an index hold their rows.

use crate::rows::{Kind, Random};
use crate::{METRICS, Values, many, matrix, session};
use engine_runtime::session::Session;
use engine_runtime::tensor::HostTensor;

/// An index of rows of some shape.
#[derive(Debug)]
struct Shape {
    n: usize,
    d: usize,
    block: usize,
    metric: &'static str,
    /// Groups that give the index its blocks; 0 for halves of halves.
    n_groups: usize,
    /// Rows that are inserted afterwards.
    n_more: usize,
}

const NAMES: [&str; 8] = ["t", "t.ids", "t.center", "t.inner", "t.radius", "t.low", "t.high", "rows"];

impl Shape {
    fn draw(random: &mut Random) -> Shape {
        let d = random.pick(&[1, 2, 3, 5, 16, 33, 100, 257, 1024]);
        let n = 1 + random.below(if d > 100 { 40 } else { 300 });
        let n_groups = random.pick(&[0, 0, 1, 7]);
        let n_more = if n_groups == 0 { random.pick(&[0, 1, 30]) } else { 0 };
        let (block, metric) = (random.pick(&[1, 4, 5, 16, 64]), random.pick(&METRICS));
        Shape { n, d, block, metric, n_groups, n_more }
    }

    fn session(&self) -> Session {
        let Shape { n, d, block, metric, n_groups, n_more } = self;
        let settings = format!(r#"block={block}, metric=\"{metric}\""#);
        let built = match n_groups {
            0 => format!("tree(x, room={}, {settings})", n + n_more),
            n_groups => format!("tree_of_groups(x, label, groups={n_groups}, {settings})"),
        };
        let nodes = match n_more {
            0 => format!(r#""t": "{built}""#),
            _ => format!(
                r#""built": "{built}", "t": "tree_insert(built.*, more, {n} + arange(stop={n_more}), metric=\"{metric}\")""#
            ),
        };
        let n_more = n_more.max(&1);
        session(&format!(
            r#"(
                inputs: {{"x": "f32[{n}, {d}]", "label": "i32[{n}]", "more": "f32[{n_more}, {d}]"}},
                nodes: {{
                    {nodes},
                    "rows": "tree_check(t.*, metric=\"{metric}\")",
                }},
            )"#
        ))
    }

    /// Checks an index of drawn rows.
    fn check(&self, session: &Session, kind: Kind, random: &mut Random) {
        let n_all = self.n + self.n_more;
        let rows = kind.rows(random, [n_all.max(self.n + 1), self.d]);
        let (x, more) = rows.split_at(self.n * self.d);
        let label: Vec<i32> = (0..self.n).map(|_| random.below(self.n_groups.max(1)) as i32).collect();
        let n_more = self.n_more.max(1);
        let inputs = [
            ("x", matrix([self.n, self.d], x)),
            ("label", HostTensor::from_slice(&[self.n], &label).unwrap()),
            ("more", matrix([n_more, self.d], &more[..n_more * self.d])),
        ];
        let names = NAMES.map(String::from);
        let found =
            Values::of(session, &names, &inputs).unwrap_or_else(|error| panic!("{self:?} {kind:?}: {error}"));
        let place = || format!("{self:?} of {kind:?}");
        assert_eq!(found.at("rows"), [n_all as f64], "{}", place());
        let mut ids: Vec<f64> = found.at("t.ids").iter().copied().filter(|&id| id >= 0.0).collect();
        ids.sort_by(f64::total_cmp);
        assert!(ids.iter().copied().eq((0..n_all).map(|id| id as f64)), "{}", place());
        for (slot, &id) in found.at("t.ids").iter().enumerate().filter(|(_, id)| **id >= 0.0) {
            let row = &rows[id as usize * self.d..][..self.d];
            let key = &found.at("t")[slot * self.d..][..self.d];
            assert!(self.is_key(key, row), "{}, row {id}: {key:?} of {row:?}", place());
            self.check_bounds(&found, slot, &place);
        }
    }

    /// Whether a row is stored as it is, or at length 1.
    fn is_key(&self, key: &[f64], row: &[f32]) -> bool {
        let squares = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        let length = if self.metric == "cosine" && squares > 0.0 { squares.sqrt() } else { 1.0 };
        let error = if self.metric == "cosine" { (self.d + 8) as f64 * 2f64.powi(-24) } else { 0.0 };
        key.iter().zip(row).all(|(key, &x)| (key - f64::from(x) / length).abs() <= error)
    }

    fn check_bounds(&self, found: &Values, slot: usize, place: &dyn Fn() -> String) {
        let (block, d) = (slot / self.block, self.d);
        let key = &found.at("t")[slot * d..][..d];
        let [center, low, high] =
            ["t.center", "t.low", "t.high"].map(|name| &found.at(name)[block * d..][..d]);
        let [inner, radius] = ["t.inner", "t.radius"].map(|name| found.at(name)[block]);
        let distance = key.iter().zip(center).map(|(x, c)| (x - c) * (x - c)).sum::<f64>().sqrt();
        assert!(
            inner <= distance && distance <= radius,
            "{}: {distance} is not in {inner}..{radius}",
            place()
        );
        let is_inside = (0..d).all(|at| low[at] <= key[at] && key[at] <= high[at]);
        assert!(is_inside, "{}: a row beside its box", place());
    }
}

#[test]
fn blocks_hold_their_rows() {
    let mut random = Random::new(0x7ee);
    let (n_shapes, n_each) = (many(8), 4);
    for _ in 0..n_shapes {
        let shape = Shape::draw(&mut random);
        let session = shape.session();
        for _ in 0..n_each {
            shape.check(&session, random.pick(&Kind::ALL), &mut random);
        }
    }
    println!("{} trees hold their rows", n_shapes * n_each);
}

/// Searches mark places without a row by the largest number, so no row has it.
#[test]
fn the_largest_number_is_no_id() {
    for (call, name) in [
        ("tree(x, ids)", "all.ids_are_in_range"),
        ("tree_of_groups(x, 0 * ids, ids, groups=1)", "all.ids_are_in_range"),
        ("tree_insert(built.*, x, ids)", "ids_are_in_range"),
    ] {
        let session = session(&format!(
            r#"(
                inputs: {{"x": "f32[3, 2]", "ids": "i32[3]"}},
                nodes: {{"built": "tree(x, room=6)", "t": "{call}", "all": "t.ids * 1"}},
            )"#
        ));
        let run = |last: i32| {
            let ids = HostTensor::from_slice(&[3], &[7, 5, last]).unwrap();
            Values::of(&session, &["all".into()], &[("x", matrix([3, 2], &[0.0; 6])), ("ids", ids)])
        };
        let n_rows = run(i32::MAX - 1).unwrap().at("all").iter().filter(|id| **id >= 0.0).count();
        assert!(n_rows == 3 || n_rows == 6, "{call}: {n_rows}");
        let error = run(i32::MAX).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&format!("`t.{name}`: the condition at position 2 does not hold")), "{error}");
    }
}
