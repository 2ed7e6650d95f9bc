//! Random pipelines as text: nodes of all families, functions that call functions, and states that feed states.
//!
//! Numbers of an `Exact` pipeline are small integers, so that every device and every order of operations gives the
//! interpreter's bits. A `Smooth` pipeline is differentiable everywhere and has numbers of the order of one.

use proptest::prelude::*;
use std::fmt::Write;

/// The kind of a pipeline's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    /// Integers from -9 to 9.
    Exact,
    /// Any numbers of the order of one, and only differentiable functions.
    Smooth,
}

/// One decision: the op, and its operands.
type Choice = (u8, u16, u16);

/// The decisions that make a pipeline. Short lists make small pipelines, so that failures shrink.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub numbers: Numbers,
    nodes: Vec<Choice>,
    /// Each function may call those before it.
    functions: Vec<Vec<Choice>>,
    outputs: Vec<u16>,
    /// The next value of each state.
    links: Vec<u16>,
    shape: usize,
    pub steps: usize,
}

/// A state and its extents.
pub type State = (String, Vec<usize>);

/// A pipeline with one stage `go`.
#[derive(Clone, Debug)]
pub struct Written {
    pub text: String,
    pub states: Vec<State>,
}

pub fn recipe(numbers: Numbers, most_nodes: usize, is_machine: bool) -> impl Strategy<Value = Recipe> {
    let choice = || (any::<u8>(), any::<u16>(), any::<u16>());
    let functions = prop::collection::vec(prop::collection::vec(choice(), 1..6), 0..4);
    let links = if is_machine { 1..N_STATES + 2 } else { 0..1 };
    (
        prop::collection::vec(choice(), most_nodes / 6..most_nodes),
        functions,
        prop::collection::vec(any::<u16>(), 1..6),
        prop::collection::vec(any::<u16>(), links),
        0..SHAPES.len(),
        1..4usize,
    )
        .prop_map(move |(nodes, functions, outputs, links, shape, steps)| {
            let steps = if is_machine { steps } else { 1 };
            Recipe { numbers, nodes, functions, outputs, links, shape, steps }
        })
}

const SHAPES: [&[usize]; 8] = [&[4], &[2, 3], &[3, 3], &[2, 3, 4], &[1, 5], &[33, 20], &[2, 130], &[1, 700]];
/// The number of states of the whole shape. One more state holds a number for each row.
const N_STATES: usize = 3;
/// The maximum number of elements of a value.
const MOST_ELEMENTS: usize = 4096;

impl Recipe {
    /// The pipeline as text.
    pub fn write(&self) -> Written {
        let shape = SHAPES[self.shape].to_vec();
        let mut states: Vec<State> = (0..N_STATES).map(|i| (format!("s{i}"), shape.clone())).collect();
        states.push(("rows".into(), with_last(&shape, 1).unwrap()));
        let mut functions = String::new();
        for (i, choices) in self.functions.iter().enumerate() {
            let operands = ["x", "y"].map(|name| Value { name: name.into(), shape: None });
            let mut writer = Writer::new(self.numbers, operands.to_vec(), i);
            choices.iter().for_each(|choice| writer.grow(choice));
            let output = writer.values.last().unwrap().name.clone();
            let nodes = writer.nodes.join(", ");
            writeln!(
                functions,
                "    \"f{i}\": (inputs: [\"x\", \"y\"], nodes: {{{nodes}}}, output: \"{output} + y\"),"
            )
            .unwrap();
        }
        let operands =
            states.iter().map(|(name, shape)| Value { name: name.clone(), shape: Some(shape.clone()) });
        let mut writer = Writer::new(self.numbers, operands.collect(), self.functions.len());
        self.nodes.iter().for_each(|choice| writer.grow(choice));
        let mut text = format!("(\n  seed: 3,\n  functions: {{\n{functions}  }},\n  params: {{\n");
        for (name, shape) in &states {
            writeln!(text, "    \"{name}\": (type: \"f32{shape:?}\", state: true),").unwrap();
        }
        let outputs = self.outputs(&writer);
        let links = self.links.iter().zip(states.iter().rev()).map(|(&n, (state, shape))| {
            let like: Vec<&Value> =
                writer.values.iter().filter(|value| value.shape.as_ref() == Some(shape)).collect();
            format!("\"{state}\": \"{}\"", like[n as usize % like.len()].name)
        });
        let links: Vec<String> = links.collect();
        let (nodes, links, steps) = (writer.nodes.join(",\n    "), links.join(", "), self.steps);
        writeln!(
            text,
            "  }},\n  nodes: {{\n    {nodes},\n  }},\n  stages: {{\"go\": Run(steps: {steps}, outputs: {outputs:?}, \
             state: {{{links}}})}},\n)"
        )
        .unwrap();
        Written { text, states }
    }

    /// The last node, and a few others.
    fn outputs(&self, writer: &Writer) -> Vec<String> {
        let others = self.outputs.iter().skip(1).map(|&n| n as usize % writer.values.len());
        let mut outputs: Vec<String> = vec![];
        for i in [writer.values.len() - 1].into_iter().chain(others) {
            let name = &writer.values[i].name;
            if !outputs.contains(name) {
                outputs.push(name.clone());
            }
        }
        outputs
    }
}

/// A value that a node can use. In functions, its extents are unknown.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    shape: Option<Vec<usize>>,
}

struct Writer {
    numbers: Numbers,
    nodes: Vec<String>,
    values: Vec<Value>,
    /// The number of functions that can be called.
    n_functions: usize,
}

impl Writer {
    fn new(numbers: Numbers, values: Vec<Value>, n_functions: usize) -> Writer {
        Writer { numbers, nodes: vec![], values, n_functions }
    }

    /// Adds a node.
    fn grow(&mut self, &(op, a, b): &Choice) {
        let a = self.operand(a).clone();
        let b = self.like(&a, b).name.clone();
        let (expr, shape) = match self.numbers {
            Numbers::Exact => self.exact(op, &a, &b),
            Numbers::Smooth => self.smooth(op, &a, &b),
        };
        let name = format!("n{}", self.nodes.len());
        self.nodes.push(format!("\"{name}\": \"{expr}\""));
        self.values.push(Value { name, shape });
    }

    /// A value, with a preference for the latest.
    fn operand(&self, n: u16) -> &Value {
        let n = n as usize;
        let among = if n.is_multiple_of(3) { self.values.len() } else { self.values.len().min(5) };
        &self.values[self.values.len() - 1 - (n / 3) % among]
    }

    /// The latest value with one number for each row of `a`; `a` itself if there is none.
    fn rows_of(&self, a: &Value) -> String {
        let rows = a.shape.as_ref().and_then(|shape| with_last(shape, 1));
        let found = self.values.iter().rev().find(|value| rows.is_some() && value.shape == rows);
        found.unwrap_or(a).name.clone()
    }

    fn like(&self, a: &Value, n: u16) -> &Value {
        let like: Vec<&Value> = self.values.iter().filter(|value| value.shape == a.shape).collect();
        like[n as usize % like.len()]
    }

    /// An expression of integers, and its extents.
    fn exact(&self, op: u8, a: &Value, b: &str) -> (String, Option<Vec<usize>>) {
        const N_ELEMENTWISE: usize = 19;
        const N_SHAPED: usize = 16;
        let x = &a.name;
        let tame = |expr: String| format!("clamp({expr}, min=-9.0, max=9.0)");
        let all = N_ELEMENTWISE + if a.shape.is_some() { N_SHAPED } else { 0 };
        let expr = match op as usize % all {
            0 => tame(format!("{x} + {b}")),
            1 => tame(format!("{x} - {b}")),
            2 => tame(format!("{x} * {b}")),
            3 => format!("maximum({x}, {b})"),
            4 => format!("where({x} > {b}, {x}, {b})"),
            5 => format!("relu({x})"),
            6 => format!("-{x}"),
            7 => format!("abs({x})"),
            8 => tame(format!("{x} * 2.0 - 3.0")),
            9 => format!("copy({x})"),
            10 => format!("{x} + 0.0"),
            11 => tame(format!("{x} * 10.0")),
            12 => tame(format!("cumsum({x})")),
            13 => format!("sort({x}).values"),
            14 => tame(format!("{x} - amax({b}, axis=-1, keepdim=true)")),
            15 => tame(format!("dropout({x}) + dropout({b})")),
            16 => tame(format!("sum({x}, axis=-1, keepdim=true) * {b}")),
            17 if self.n_functions > 0 => tame(format!("f{}({x}, {b})", x.len() % self.n_functions)),
            18 if self.n_functions > 0 => {
                let f = (x.len() + 1) % self.n_functions;
                tame(format!("f{f}({x}, {b}) - f{f}({b}, f{f}({b}, {x}))"))
            }
            17 | 18 => format!("minimum({x}, {b})"),
            shaped => return shaped_op(shaped - N_ELEMENTWISE, a, b, &self.rows_of(a), &tame),
        };
        (expr, a.shape.clone())
    }

    /// An expression of differentiable functions, and its extents.
    fn smooth(&self, op: u8, a: &Value, b: &str) -> (String, Option<Vec<usize>>) {
        const N_ELEMENTWISE: usize = 19;
        let x = &a.name;
        let tame = |expr: String| format!("tanh({expr})");
        let all = N_ELEMENTWISE + if a.shape.is_some() { N_SMOOTH_SHAPED } else { 0 };
        let expr = match op as usize % all {
            0 => format!("0.6 * ({x} + {b})"),
            1 => format!("0.7 * ({x} - {b})"),
            2 => tame(format!("{x} * {b}")),
            3 => format!("softmax({x})"),
            4 => format!("gelu({x})"),
            5 => format!("silu({x}) + 0.1 * mish({b})"),
            6 => format!("sigmoid({x})"),
            7 => format!("rms_norm({x} + 1.0)"),
            8 => format!("layer_norm({x} + cumsum(0.0 * {b} + 0.3))"),
            9 => format!("exp(tanh({x}))"),
            10 => format!("log1p(exp(tanh({x})))"),
            11 => format!("sin({x}) * cos({b})"),
            12 => tame(format!("0.3 * cumsum({x})")),
            13 => format!("{x} - log_sum_exp({b}, axis=-1, keepdim=true)"),
            14 => format!("{x} / (1.0 + square({b}))"),
            15 => format!("0.5 * dropout({x}) + {b}"),
            16 => tame(format!("mean({x}, axis=-1, keepdim=true) - {b}")),
            17 if self.n_functions > 0 => tame(format!("f{}({x}, {b})", x.len() % self.n_functions)),
            18 if self.n_functions > 0 => {
                let f = (x.len() + 1) % self.n_functions;
                tame(format!("f{f}({x}, {b}) - f{f}({b}, f{f}({b}, {x}))"))
            }
            17 | 18 => format!("softplus({x})"),
            shaped => return smooth_shaped_op(shaped - N_ELEMENTWISE, a, b, &self.rows_of(a), &tame),
        };
        (expr, a.shape.clone())
    }
}

/// Ops that need extents, or change them.
fn shaped_op(
    op: usize,
    a: &Value,
    b: &str,
    rows: &str,
    tame: &dyn Fn(String) -> String,
) -> (String, Option<Vec<usize>>) {
    let (x, shape) = (&a.name, a.shape.clone().unwrap());
    let (rank, last) = (shape.len(), shape[shape.len() - 1]);
    let is_matrix = rank == 2;
    let numel: usize = shape.iter().product();
    match op {
        0 => moved(x, &shape, &[numel]),
        1 => moved(x, &shape, &[&[1], &shape[..]].concat()),
        2 if rank > 1 => moved(x, &shape, &shape.iter().rev().copied().collect::<Vec<_>>()),
        3 if rank > 1 => swapped(x, &shape),
        4 if last > 1 => {
            let n = last / 2;
            (format!("slice({x}, axis=-1, start={}, stop={})", last - n, last), with_last(&shape, n))
        }
        5 if numel * 2 <= MOST_ELEMENTS => {
            (format!("concat({x}, {b}, axis=-1)"), with_last(&shape, 2 * last))
        }
        6 if rank > 1 => (tame(format!("sum({x}, axis=0)")), Some(shape[1..].to_vec())),
        7 => (format!("cast(argmax({x}, axis=-1, keepdim=true), dtype=f32) - {x}"), Some(shape)),
        8 if is_matrix => (tame(format!("{x} @ transpose({b})")), Some(vec![shape[0], shape[0]])),
        9 if is_matrix && shape[0] > 2 => {
            (format!("topk({x}, k={}, axis=0).values", shape[0] / 2), Some(vec![shape[0] / 2, last]))
        }
        10 => {
            let idx = format!("cast(clamp({x}, min=0.0, max={}.0), dtype=i32)", last - 1);
            (format!("gather({b}, {idx}, axis=-1)"), Some(shape))
        }
        11 => {
            let idx = format!("cast(clamp({b}, min=0.0, max={}.0), dtype=i32)", last - 1);
            (tame(format!("scatter_add({x}, {idx}, {b}, axis=-1)")), Some(shape))
        }
        12 | 13 => (tame(format!("sum({x}, axis=-1, keepdim=true)")), with_last(&shape, 1)),
        14 | 15 => (tame(format!("{x} * {rows}")), Some(shape)),
        _ => (tame(format!("{x} + {b} * {b}")), Some(shape)),
    }
}

const N_SMOOTH_SHAPED: usize = 11;

fn smooth_shaped_op(
    op: usize,
    a: &Value,
    b: &str,
    rows: &str,
    tame: &dyn Fn(String) -> String,
) -> (String, Option<Vec<usize>>) {
    let (x, shape) = (&a.name, a.shape.clone().unwrap());
    let (rank, last) = (shape.len(), shape[shape.len() - 1]);
    let numel: usize = shape.iter().product();
    match op {
        0 => moved(x, &shape, &[numel]),
        1 if rank > 1 => swapped(x, &shape),
        2 if rank == 2 => (tame(format!("0.3 * ({x} @ transpose({b}))")), Some(vec![shape[0], shape[0]])),
        3 if rank == 3 => (format!("attention({x}, {b}, {x})"), Some(shape)),
        4 if rank == 3 => (format!("attention({b}, {x}, {b}, causal=true)"), Some(shape)),
        5 if numel * 2 <= MOST_ELEMENTS => {
            (format!("concat({x}, {b}, axis=-1)"), with_last(&shape, 2 * last))
        }
        6 if rank > 1 => (format!("mean({x}, axis=0)"), Some(shape[1..].to_vec())),
        7 if last > 1 => (format!("slice({x}, axis=-1, start=1, stop={last})"), with_last(&shape, last - 1)),
        8 => (format!("mean({x}, axis=-1, keepdim=true)"), with_last(&shape, 1)),
        9 => (tame(format!("{x} * {rows}")), Some(shape)),
        _ => (format!("cross_entropy_rows({x}, cast(0.0 * amax({b}, axis=-1), dtype=i32)) + 0.1"), None)
            .with_shape(&shape, x),
    }
}

trait WithShape {
    fn with_shape(self, shape: &[usize], x: &str) -> (String, Option<Vec<usize>>);
}

impl WithShape for (String, Option<Vec<usize>>) {
    /// Losses of rows, or the operand where there are no rows.
    fn with_shape(self, shape: &[usize], x: &str) -> (String, Option<Vec<usize>>) {
        match shape.len() {
            2 => (self.0, Some(vec![shape[0]])),
            _ => (format!("tanh(square({x}))"), Some(shape.to_vec())),
        }
    }
}

fn moved(x: &str, from: &[usize], to: &[usize]) -> (String, Option<Vec<usize>>) {
    match from.len() < 5 && to.len() < 5 {
        true => (format!("reshape({x}, shape={to:?})"), Some(to.to_vec())),
        false => (format!("copy({x})"), Some(from.to_vec())),
    }
}

fn swapped(x: &str, shape: &[usize]) -> (String, Option<Vec<usize>>) {
    let mut swapped = shape.to_vec();
    let rank = shape.len();
    swapped.swap(rank - 2, rank - 1);
    (format!("transpose({x})"), Some(swapped))
}

fn with_last(shape: &[usize], n: usize) -> Option<Vec<usize>> {
    Some([&shape[..shape.len() - 1], &[n]].concat())
}
