//! Malformed inputs: shipped graphs with damaged text, stages with odd fields, data files with damaged bytes. A case
//! depends only on the seed and its number.

use std::fs;
use std::path::Path;

/// The input of the engine, in a folder of its own.
pub struct Case {
    /// Files by name.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The command line.
    pub arguments: Vec<String>,
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, number: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound.max(1) as u64) as usize
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// The malformed input with that number.
pub fn case(seed: u64, number: u64) -> Case {
    let mut random = Random::new(seed, number);
    match number % 3 {
        0 => damaged_graph(&mut random),
        1 => odd_field(&mut random),
        _ => damaged_data(&mut random),
    }
}

// ---- Text.

const GRAPHS: &[&str] = &[
    include_str!("../../graphs/embedding.ron"),
    include_str!("../../graphs/gumbel.ron"),
    include_str!("../../graphs/mnist.ron"),
    include_str!("../../graphs/mnist_decomposed.ron"),
    include_str!("../../graphs/navigator.ron"),
    include_str!("../../graphs/search.ron"),
    include_str!("../../graphs/sparse_attention.ron"),
    include_str!("../../graphs/text.ron"),
    GPT,
    FIT,
];

const GPT: &str = include_str!("../models/gpt.ron");

/// Odd values that replace others.
const ODD: &[&str] = &[
    "-1",
    "0",
    "1",
    "2",
    "3.5",
    "-0.0",
    "1e-320",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "NaN",
    "1/0",
    "0x",
    "18446744073709551616",
    "1099511627776",
    "99999999999999999999999999999999999999999",
    "true",
    "None",
    "()",
    "[]",
    "{}",
    "(())",
    "[[[]]]",
    "\"\"",
    "\"x\"",
    "\"loss\"",
    "\"x + \"",
    "\"h.1\"",
    "\"d.w\"",
    "\"rows\"",
    "\"rows.train\"",
    "\"rows.none\"",
    "\"\\u{1b}[31m\"",
    "\"\\u{0}\"",
    "\"a\\nb\"",
    "\"é\"",
    "[\"loss\"]",
    "[\"loss\", \"loss\"]",
    "{\"loss\": \"loss\"}",
    "{\"a\": \"x\", \"b\": \"h\"}",
    "Adam",
    "Adam(lr: -1)",
    "Sgd(lr: 1e30)",
    "Adam(lr: 0.1, beta1: 2)",
    "Cosine(start: 1, warmup: 0)",
    "Uniform(1, -1)",
    "Normal(0, -1)",
    "Constant(nan)",
    "Linear(start: nan)",
    "Drop",
    "Short",
    "\"f32[]\"",
    "\"f32[0]\"",
    "\"f32[B]\"",
    "\"u8[B, 3]\"",
    "\"f32[1000000, 1000000]\"",
    "\"i32[B, 9999999999]\"",
    "\"sum(x)\"",
    "\"x @ x\"",
    "\"h\"",
    "\"tiny.ron\"",
    "\"no/such/folder/a\"",
    "\".\"",
];

fn odd(random: &mut Random) -> String {
    match random.below(20) {
        0 => format!("\"{}\"", "long ".repeat(4000)),
        1 => "(".repeat(random.below(300)),
        2 => format!("\"{}1{}\"", "(".repeat(250), ")".repeat(250)),
        _ => (*random.pick(ODD)).to_owned(),
    }
}

fn damaged_graph(random: &mut Random) -> Case {
    let mut text = (*random.pick(GRAPHS)).to_owned();
    for _ in 0..=random.below(3) {
        text = match random.below(5) {
            0 | 1 => replace_word(&text, random),
            2 => move_line(&text, random),
            3 => damage_chars(&text, random),
            _ => swap_words(&text, random),
        };
    }
    let arguments = vec!["check".to_owned(), "tiny.ron".to_owned()];
    Case { files: vec![("tiny.ron", text.into_bytes())], arguments }
}

/// Words, numbers, strings and brackets with their places.
fn words(text: &str) -> Vec<(usize, usize)> {
    let mut words = vec![];
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let len = match c {
            '"' => text[at + 1..].find('"').map_or(text.len() - at, |end| end + 2),
            _ if is_word(c) => text[at..].find(|c| !is_word(c)).unwrap_or(text.len() - at),
            _ => c.len_utf8(),
        };
        if !c.is_whitespace() {
            words.push((at, at + len));
        }
        at += len;
    }
    words
}

fn replace_word(text: &str, random: &mut Random) -> String {
    let words = words(text);
    if words.is_empty() {
        return odd(random);
    }
    let (start, end) = *random.pick(&words);
    format!("{}{}{}", &text[..start], odd(random), &text[end..])
}

fn swap_words(text: &str, random: &mut Random) -> String {
    let words = words(text);
    if words.is_empty() {
        return odd(random);
    }
    let (mut first, mut second) = (*random.pick(&words), *random.pick(&words));
    if second < first {
        (first, second) = (second, first);
    }
    if first.1 > second.0 {
        return text.to_owned();
    }
    let part = |(start, end): (usize, usize)| &text[start..end];
    let (before, between, after) = (&text[..first.0], &text[first.1..second.0], &text[second.1..]);
    [before, part(second), between, part(first), after].concat()
}

/// Deletes a line, or copies it to another place.
fn move_line(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let from = random.below(lines.len());
    let line = lines.get(from).copied().unwrap_or("");
    if random.below(2) == 0 && !lines.is_empty() {
        lines.remove(from);
    }
    if random.below(2) == 0 {
        lines.insert(random.below(lines.len() + 1), line);
    }
    lines.join("\n")
}

fn damage_chars(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(chars.len() + 1);
        let end = (at + random.below(5)).min(chars.len());
        let inserted = *random.pick(&[
            "",
            "(",
            ")",
            "\"",
            ",",
            ":",
            "\u{1b}[31m",
            "\u{0}",
            "\u{202e}",
            "é",
            "-",
            "/*",
            "#",
        ]);
        chars.splice(at..end, inserted.chars());
    }
    chars.into_iter().collect()
}

// ---- Fields.

/// Stages of every kind over a small table.
const FIT: &str = r#"(
  name: "fit", seed: 1,
  data: {"rows": (source: "csv", file: "rows.csv", label: "y", validation: 0.25)},
  inputs: {"x": (type: "f32[B, 3]", from: "rows.features"), "y": (type: "f32[B]", from: "rows.label")},
  params: {"w": (type: "f32[3]", init: Normal(0, 0.1)), "n": (type: "i32[]", state: true)},
  nodes: {"h": "sum(x * w, axis=1)", "loss": "mean(square(h - y))", "next": "n + 1", "size": "sum(w * w)"},
  stages: {
    "train": Train(
      data: "rows.train", batch: 4, accumulate: 1, epochs: 2, max_steps: 20, loss: "loss", metrics: ["size"],
      optimizer: Adam(lr: 1e-2, beta1: 0.9, beta2: 0.99, eps: 1e-8), clip_norm: 1.0, last_batch: Drop,
      evaluate: Evaluate(data: "rows.validation", batch: 4, metrics: ["loss"]), early_stop: 2,
      checkpoint: (path: "last.ckpt", every: 1, best: "best.ckpt"),
    ),
    "test": Evaluate(data: "rows.validation", batch: 4, metrics: {"loss": "loss"}),
    "go": Run(steps: 2, outputs: ["size", "d.w"], loss: "size", state: {"n": "next"}, dims: {"B": 2}),
    "answer": Predict(batch: 4, outputs: {"h": "h"}),
    "keep": Save(path: "kept.npz"),
    "back": Load(path: "kept.npz"),
  },
)"#;

const FIELDS: &[&str] = &[
    "name",
    "seed",
    "matmul",
    "numerics",
    "deterministic",
    "dims",
    "data",
    "data.rows",
    "data.rows.source",
    "data.rows.file",
    "data.rows.label",
    "data.rows.separator",
    "data.rows.validation",
    "inputs",
    "inputs.x",
    "inputs.x.type",
    "inputs.x.from",
    "params",
    "params.w",
    "params.w.type",
    "params.w.init",
    "params.n.state",
    "nodes",
    "nodes.h",
    "nodes.loss",
    "functions",
    "train.data",
    "train.batch",
    "train.accumulate",
    "train.epochs",
    "train.max_steps",
    "train.loss",
    "train.metrics",
    "train.optimizer",
    "train.optimizer.lr",
    "train.optimizer.beta1",
    "train.optimizer.beta2",
    "train.optimizer.eps",
    "train.optimizer.weight_decay",
    "train.optimizer.decay_bias",
    "train.optimizer.groups",
    "train.clip_norm",
    "train.clip_value",
    "train.last_batch",
    "train.evaluate",
    "train.evaluate.data",
    "train.evaluate.batch",
    "train.evaluate.metrics",
    "train.early_stop",
    "train.checkpoint",
    "train.checkpoint.path",
    "train.checkpoint.every",
    "train.checkpoint.best",
    "train.state",
    "test.data",
    "test.batch",
    "test.metrics",
    "go.steps",
    "go.outputs",
    "go.loss",
    "go.state",
    "go.dims",
    "go.dims.B",
    "answer.batch",
    "answer.outputs",
    "keep.path",
    "back.path",
    "back.names",
    "stages",
    "stages.train",
    "none.at.all",
];

fn odd_field(random: &mut Random) -> Case {
    let mut case = fit();
    for _ in 0..=random.below(2) {
        let (field, value) = (*random.pick(FIELDS), odd(random));
        // A large number of steps may run forever.
        if field.ends_with("steps") || field.ends_with("epochs") {
            case.arguments.splice(.., ["check", "tiny.ron"].map(str::to_owned));
        }
        case.arguments.extend(["--set".to_owned(), format!("{field}={value}")]);
    }
    case
}

/// The valid inputs whose fields and data are damaged.
pub fn sound() -> [Case; 3] {
    [fit(), pictures(), gpt()]
}

fn run(files: Vec<(&'static str, Vec<u8>)>) -> Case {
    let arguments = ["run", "tiny.ron", "--device", "cpu", "--threads", "1", "--data-dir", "."];
    Case { files, arguments: arguments.map(str::to_owned).into() }
}

fn fit() -> Case {
    run(vec![("rows.csv", table().into_bytes()), ("tiny.ron", FIT.into())])
}

fn pictures() -> Case {
    let pictures = [vec![0, 0, 8, 2, 0, 0, 0, 6, 0, 0, 0, 4], (0..24).collect()].concat();
    run(vec![("train.idx", pictures), ("tiny.ron", PICTURES.into())])
}

fn gpt() -> Case {
    let example =
        |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples").join(name));
    let (rows, weights) = (example("models.npz").unwrap(), example("models.safetensors").unwrap());
    let graph = GPT.replace("tests/examples/", "").replace("epochs: 5", "epochs: 1");
    run(vec![("models.npz", rows), ("models.safetensors", weights), ("tiny.ron", graph.into())])
}

fn table() -> String {
    let row = |i: u32| {
        let (a, b, c) = (i % 5, i * 7 % 4, i * 3 % 7);
        format!("{a}.5,{b},-{c}e-1,{}.25\n", a + 2 * b)
    };
    "a,b,c,y\n".to_owned() + &(0..24).map(row).collect::<String>()
}

// ---- Data.

const PICTURES: &str = r#"(
  data: {"rows": (source: "files", image: "{split}.idx", splits: "train")},
  inputs: {"image": (type: "u8[B, 4]", from: "rows.image")},
  params: {"w": (type: "f32[4]", init: 0.5)},
  nodes: {"loss": "mean(square(cast(image, dtype=f32) / 255 * w))"},
  stages: {"train": Train(data: "rows.train", batch: 3, loss: "loss", optimizer: Sgd(lr: 0.1))},
)"#;

fn damaged_data(random: &mut Random) -> Case {
    let mut case = match random.below(3) {
        0 => fit(),
        1 => pictures(),
        _ => gpt(),
    };
    let which = random.below(case.files.len() - 1);
    let (name, bytes) = &mut case.files[which];
    for _ in 0..=random.below(3) {
        match *name {
            "rows.csv" => damage_cell(bytes, random),
            _ => damage_bytes(bytes, random),
        }
    }
    case
}

fn damage_cell(bytes: &mut Vec<u8>, random: &mut Random) {
    const CELLS: &[&str] = &[
        "",
        "NA",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "1,2",
        "\"",
        "\"a\"\"b\"",
        "x",
        "\u{1b}[31m",
        "\u{0}",
        "9007199254740993",
        "\n",
        "\r\n",
        ";",
    ];
    let text = String::from_utf8_lossy(bytes).into_owned();
    let places: Vec<(usize, usize)> = words(&text);
    if places.is_empty() || random.below(4) == 0 {
        return damage_bytes(bytes, random);
    }
    let (start, end) = *random.pick(&places);
    let long = "long ".repeat(2000);
    let cell = if random.below(10) == 0 { &long } else { *random.pick(CELLS) };
    *bytes = format!("{}{cell}{}", &text[..start], &text[end..]).into_bytes();
}

fn damage_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    // Headers are at the front and at the end.
    let place = match random.below(3) {
        0 => random.below(bytes.len().min(200)),
        1 => bytes.len().saturating_sub(1 + random.below(200)),
        _ => random.below(bytes.len()),
    };
    match random.below(5) {
        0 => bytes.truncate(place),
        1 => bytes.insert(place.min(bytes.len()), random.word() as u8),
        2 => drop(bytes.drain(place..(place + 8).min(bytes.len()))),
        3 if place < bytes.len() => bytes[place] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        _ if place < bytes.len() => bytes[place] ^= 1 << random.below(8),
        _ => (),
    }
}
