#![allow(clippy::unwrap_used)]
//! The examples of all rules, and a test that no rule undoes another.

use super::*;
use crate::fusion::fuse;
use crate::ir::{
    Binary, Builder, Combine, DType, InputKind, Literal, MatmulSpec, Monoid, Scalar, Unary, parse,
};
use crate::op::Registry;
use crate::oracle::{Oracle, OracleTensor};
use std::collections::HashMap;

/// Reads a nested primitive expression over a fixed set of inputs.
struct Reader<'a, 'b> {
    rest: &'a str,
    b: &'a mut Builder<'b>,
    /// The type of the value under construction, for constants and views.
    like: Type,
}

const INPUTS: &[(&str, DType, &[usize])] = &[
    ("x", DType::F32, &[4, 8]),
    ("y", DType::F32, &[4, 8]),
    ("c", DType::Bool, &[4, 8]),
    ("w", DType::F32, &[4]),
    ("i", DType::I32, &[4, 1]),
    ("u", DType::F32, &[4, 1]),
    ("t", DType::F32, &[2, 3, 4]),
    ("l", DType::F32, &[131072]),
];

impl Reader<'_, '_> {
    fn eat(&mut self, text: &str) -> bool {
        let trimmed = self.rest.trim_start_matches([',', ' ']);
        match trimmed.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start_matches([',', ' ']);
        let end = self.rest.find([',', '(', ')', ' ', '=']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_string()
    }

    /// The list after `name=`, flattened. Empty if there is none.
    fn list(&mut self, name: &str) -> Vec<usize> {
        if !self.eat(&format!("{name}=")) {
            return vec![];
        }
        let end = if self.rest.starts_with('[') {
            closing(self.rest) + 1
        } else {
            self.rest.find([',', ')']).unwrap()
        };
        let (list, rest) = self.rest.split_at(end);
        self.rest = rest;
        list.split(|ch: char| !ch.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    }

    fn term(&mut self) -> Value {
        if self.eat(".") {
            let name = self.word();
            assert!(self.eat("("));
            let value = self.op(&name);
            assert!(self.eat(")"), "`{}` left over in `.{name}`", self.rest);
            return value;
        }
        let word = self.word();
        if let Ok(number) = word.parse::<f64>() {
            return self.b.full(Literal::Float(number), self.like.clone());
        }
        if word == "m" {
            return guarded_max(self.b);
        }
        self.b.graph.find(&word).unwrap_or_else(|| panic!("no input {word}"))
    }

    fn op(&mut self, name: &str) -> Value {
        match name {
            "iota" => {
                // Of the shape of the operand before.
                let axis = self.list("axis")[0];
                self.b.iota(axis, self.like.with_dtype(DType::I32))
            }
            "cast" => {
                let x = self.term();
                let dtypes = [DType::F64, DType::F32, DType::I32].into_iter();
                let dtype = { dtypes }.find(|dtype| self.eat(&format!("dtype={dtype}"))).unwrap();
                self.b.cast(x, dtype)
            }
            "check" => {
                let (x, bound) = (self.term(), self.list("bound")[0]);
                self.b.check_index(x, bound)
            }
            "reshape" => {
                let x = self.term();
                let n = self.b.ty(x).numel();
                let extents: Vec<usize> = match n {
                    131072 => vec![256, 512],
                    24 if self.b.extents(x)[0] == 4 => vec![4, 6],
                    24 => vec![6, 4],
                    _ => vec![n],
                };
                self.b.reshape(x, &extents)
            }
            "broadcast" => {
                let x = self.term();
                let axes = self.list("axes");
                let shape = self.list("shape");
                let shape = if shape.is_empty() { vec![4, 8] } else { shape };
                let shape: Vec<_> = shape.into_iter().map(Into::into).collect();
                self.b.broadcast_axes(x, &axes, &shape)
            }
            "permute" => {
                let x = self.term();
                let perm = self.list("perm");
                self.b.permute(x, &perm)
            }
            "gather" => {
                let (src, idx) = (self.term(), self.term());
                let (axis, batch) = (self.list("axis")[0], self.list("batch")[0]);
                self.b.gather(src, idx, axis, batch)
            }
            "scatter_add" => {
                let (base, idx, updates) = (self.term(), self.term(), self.term());
                let (axis, batch) = (self.list("axis")[0], self.list("batch")[0]);
                self.b.scatter(base, idx, updates, axis, batch, Combine::Add)
            }
            "matmul" => {
                let (lhs, rhs) = (self.term(), self.term());
                let _ = self.list("batch");
                let contracted = self.list("contracted").chunks(2).map(|pair| (pair[0], pair[1])).collect();
                self.b.matmul(lhs, rhs, MatmulSpec::new(vec![], contracted))
            }
            _ => self.reduce_or_scalar(name),
        }
    }

    fn reduce_or_scalar(&mut self, name: &str) -> Value {
        let mut args = vec![self.term()];
        self.like = self.b.ty(args[0]).clone();
        loop {
            let axes = self.list("axes");
            if !axes.is_empty() {
                let monoid = Monoid::ALL.into_iter().find(|monoid| monoid.name() == name).unwrap();
                return self.b.reduce(monoid, args[0], &axes);
            }
            if self.rest.starts_with(')') {
                return self.b.scalar(Scalar::from_name(name).unwrap(), &args);
            }
            let arg = self.term();
            self.like = self.b.ty(arg).clone();
            args.push(arg);
        }
    }
}

fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, ch) in text.char_indices() {
        depth += (ch == '[') as i32 - (ch == ']') as i32;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The row maximum of `x`, 0 where it is infinite.
fn guarded_max(b: &mut Builder) -> Value {
    let x = b.graph.find("x").unwrap();
    let max = b.reduce(Monoid::Max, x, &[1]);
    let size = b.unary(Unary::Abs, max);
    let inf = b.full_like(max, f64::INFINITY);
    let infinite = b.binary(Binary::Eq, size, inf);
    let zero = b.full_like(max, 0.0);
    b.scalar(Scalar::Select, &[infinite, zero, max])
}

fn read(text: &str) -> Graph {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("example"), &registry);
    for (name, dtype, extents) in INPUTS {
        b.input(name, InputKind::Data, Type::new(*dtype, extents));
    }
    let like = Type::new(DType::F32, &[4, 8]);
    let value = Reader { rest: text, b: &mut b, like }.term();
    b.graph.outputs.push(("out".into(), value));
    b.graph
}

/// The output as a nested expression with types, without names.
fn show(graph: &Graph) -> String {
    fn term(graph: &Graph, value: Value) -> String {
        let node = &graph.nodes[value.node];
        if let NodeOp::Input(_) = node.op {
            return node.name().to_string();
        }
        let args: Vec<String> = node.inputs.iter().map(|&input| term(graph, input)).collect();
        format!("{:?}({}): {}", node.op, args.join(", "), graph.ty(value))
    }
    term(graph, graph.outputs[0].1)
}

/// The graph after these rules alone.
fn after(graph: &Graph, rules: &[Rule]) -> Graph {
    rewrite(graph, rules, usize::MAX).0
}

#[test]
fn every_rule_matches_its_example() {
    for rule in rules() {
        let (from, to) = rule.example;
        // The right side may be a constant or commute, so both sides pass the constructor, without rules.
        let expected = show(&after(&read(to), &[]));
        assert_eq!(show(&after(&read(from), std::slice::from_ref(&rule))), expected, "rule {}", rule.name);
        assert_ne!(show(&after(&read(from), &[])), expected, "rule {} does nothing", rule.name);
    }
}

// ---- Numbers before and after.

/// Numbers that distinguish roundings, signs of zero and infinities.
const EDGES: [f64; 12] =
    [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-300, -1e-300, 1e300, 0.1, -2.5];

/// Random operands for [`INPUTS`]. For rules that must keep every bit, one float in three is an edge case. The long
/// operand is positive, so that its sum is well conditioned.
fn operands(seed: u64, with_edges: bool) -> HashMap<String, OracleTensor> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut element = move |name: &str, dtype: DType| match (name, dtype) {
        (_, DType::Bool) => f64::from(random() < 0.5),
        (_, DType::I32) => (random() * 8.0).floor(),
        ("l", _) => 0.5 + random(),
        _ if with_edges && random() < 0.33 => EDGES[(random() * EDGES.len() as f64) as usize],
        ("y", _) => 0.1 + 4.0 * random(),
        _ => 8.0 * random() - 4.0,
    };
    let tensor = |(name, dtype, extents): &(&str, DType, &[usize])| {
        let elements: Vec<f64> =
            (0..extents.iter().product()).map(|_: usize| element(name, *dtype)).collect();
        (name.to_string(), OracleTensor::new(*dtype, extents, &elements))
    };
    INPUTS.iter().map(tensor).collect()
}

fn output(oracle: &Oracle, graph: &Graph, inputs: &HashMap<String, OracleTensor>) -> Vec<f64> {
    oracle.run(graph, inputs, 0, 0).unwrap().outputs["out"].to_f64()
}

/// The first element whose relative difference exceeds `tolerance`. With tolerance 0, the first element that differs in
/// any bit.
fn first_difference(before: &[f64], after: &[f64], tolerance: f64) -> Option<String> {
    assert_eq!(before.len(), after.len());
    let differs = |(a, b): (&f64, &f64)| {
        let same_bits = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let is_near = tolerance > 0.0 && (a == b || (a - b).abs() <= tolerance * a.abs());
        !(same_bits || is_near)
    };
    let at = before.iter().zip(after).position(differs)?;
    Some(format!("element {at} is {} before and {} after", before[at], after[at]))
}

#[test]
fn every_rule_keeps_the_numbers_that_its_class_promises() {
    let registry = Registry::new();
    for rule in rules() {
        let (before, after) =
            (read(rule.example.0), after(&read(rule.example.0), std::slice::from_ref(&rule)));
        let keeps_bits = rule.class == Class::Bits;
        let n_seeds = if rule.example.0.contains("(l") { 2 } else { 40 };
        for seed in 1..=n_seeds {
            let inputs = operands(seed, keeps_bits);
            // Rounding to the element type after each primitive tests bits alone.
            let exact = [Oracle::new(&registry)].into_iter();
            let rounded = keeps_bits.then(|| Oracle::rounded(&registry));
            for oracle in exact.chain(rounded) {
                let [old, new] = [&before, &after].map(|graph| output(&oracle, graph, &inputs));
                let tolerance = if keeps_bits { 0.0 } else { 1e-12 };
                let difference = first_difference(&old, &new, tolerance);
                assert_eq!(difference, None, "rule {}, seed {seed}, {:?}", rule.name, oracle.precision);
            }
        }
    }
}

/// The form before the rule overflows, the form after it does not.
#[test]
fn stable_forms_survive_large_exponents() {
    let registry = Registry::new();
    let mut inputs = operands(1, false);
    let large: Vec<f64> = (0..32).map(|i| 1000.0 + f64::from(i)).collect();
    inputs.insert("x".into(), OracleTensor::new(DType::F32, &[4, 8], &large));
    for rule in rules().into_iter().filter(|rule| rule.name.starts_with("stable")) {
        let oracle = Oracle::new(&registry);
        let unstable = output(&oracle, &read(rule.example.0), &inputs);
        let stable = output(&oracle, &after(&read(rule.example.0), std::slice::from_ref(&rule)), &inputs);
        assert!(unstable.iter().all(|x| !x.is_finite()), "{}: {unstable:?}", rule.name);
        assert!(stable.iter().all(|x| x.is_finite()), "{}: {stable:?}", rule.name);
    }
}

#[test]
fn rules_that_later_passes_rely_on_cannot_be_switched_off() {
    let names: Vec<&str> = rules().iter().filter(|rule| rule.is_needed).map(|rule| rule.name).collect();
    assert_eq!(names, ["reduce-adjacent", "matmul-canonical"]);
    for rule in rules().into_iter().filter(|rule| rule.is_needed) {
        let off = Settings { fuel: 0, without: vec![rule.name.into()], numerics: Numerics::Strict };
        let graph = read(rule.example.0);
        let expected = show(&after(&graph, std::slice::from_ref(&rule)));
        assert_eq!(simplify_counting(&graph, &off).1, 0);
        assert_eq!(show(&simplify(&graph, &off)), expected);
    }
}

#[test]
fn no_rule_reaches_across_fuse_never() {
    let text = |mark: &str| {
        format!(
            "graph g {{
               input x: f32[4]
               {mark}n: f32[4] = .neg(x)
               m: f32[4] = .neg(n)
               {mark}k: f32[4] = .neg(x)
               output m = m
               output k = k
             }}"
        )
    };
    let simplified =
        |mark: &str| simplify(&parse(&text(mark), &Registry::new()).unwrap(), &Settings::default());
    assert_eq!(simplified("").nodes.len(), 2, "one of the negations is undone, the other two are one");
    expect_test::expect![[r#"
        graph g {
          input x: f32[4]
          [n] n: f32[4] = .neg(x)
          m: f32[4] = .neg(n)
          output m = m
          output k = n
        }
    "#]]
    .assert_eq(&simplified("[n] ").to_string());
}

#[test]
fn simplifying_twice_changes_nothing_more() {
    for rule in rules() {
        let once = simplify(&read(rule.example.0), &Settings::default());
        assert_eq!(show(&once), show(&simplify(&once, &Settings::default())), "after {}", rule.name);
    }
}

#[test]
fn strict_numerics_keeps_to_rules_that_keep_every_bit() {
    let strict = Settings { numerics: Numerics::Strict, ..Settings::default() };
    let kept = simplify(&read(".log(.sum(.exp(x), axes=[1]))"), &strict);
    assert!(!show(&kept).contains("Max"), "{}", show(&kept));
}

#[test]
fn fuel_counts_applications() {
    let text = ".neg(.neg(.mul(x, 1.0)))";
    let left = |fuel: usize| simplify(&read(text), &Settings { fuel, ..Settings::default() }).nodes.len();
    assert_eq!([left(0), left(1), left(2)], [5, 3, 1]);
}

#[test]
fn a_loss_in_primitives_is_one_row_kernel_and_a_mean() {
    let text =
        ".sum(.sub(.log(.sum(.exp(x), axes=[1])), .reshape(.gather(x, i, axis=1, batch=1))), axes=[0])";
    let graph = simplify(&read(text), &Settings::default());
    let kinds: Vec<&str> = fuse(&graph, true).kernels.iter().map(|kernel| kernel.kind()).collect();
    assert_eq!(kinds, ["row", "row"]);
}

#[test]
fn equal_nodes_are_one_but_two_draws_stay_two() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("draws"), &registry);
    let draws = [b.random_bits("u", &[4]), b.random_bits("u", &[4])];
    let casts = draws.map(|draw| b.cast(draw, DType::F32));
    let twice = b.cast(draws[0], DType::F32);
    let sum = b.add(casts[0], casts[1]);
    let sum = b.add(sum, twice);
    b.graph.outputs.push(("sum".into(), sum));
    let graph = simplify(&b.graph, &Settings::default());
    let count = |wanted: fn(&NodeOp) -> bool| graph.nodes.iter().filter(|node| wanted(&node.op)).count();
    assert_eq!(count(|op| matches!(op, NodeOp::Random { .. })), 2);
    assert_eq!(count(|op| matches!(op, NodeOp::Scalar(Scalar::Cast(_)))), 2);
}
