//! The recorded cases of `tests/conformance/*.json`, which the scripts beside them write.

use engine::core::ir::DType;
use serde_json::Value as Json;
use std::path::PathBuf;

/// One op beside its peer.
pub struct Peer {
    pub op: String,
    /// The function that computed the expected results.
    pub peer: String,
    pub cases: Vec<Case>,
}

/// One call with its results.
pub struct Case {
    pub title: String,
    /// The call, where `$0` is the first operand and `$T` the type under test.
    pub call: String,
    /// The types that stand for `T`.
    pub types: Vec<DType>,
    /// The operands, then the parameters of a layer.
    pub inputs: Vec<Operand>,
    /// The names of the parameters within the layer.
    pub params: Vec<String>,
    pub outputs: Vec<Operand>,
    /// Gradients by operand, of the weighed sum of the results in `weighs`.
    pub grads: Vec<Option<Vec<f64>>>,
    pub weighs: Vec<usize>,
    /// Whether errors are measured against the largest element of a result, since terms of a sum cancel.
    pub is_whole: bool,
    /// The devices on which the case holds; empty for all.
    pub only: Vec<String>,
}

impl Case {
    pub fn n_operands(&self) -> usize {
        self.inputs.len() - self.params.len()
    }
}

/// The type of a tensor.
pub enum Kind {
    Fixed(DType),
    /// The type under test.
    Tested,
    /// The type under test, but `f32` in place of halves.
    Wide,
}

pub struct Operand {
    pub kind: Kind,
    pub shape: Vec<usize>,
    pub elements: Vec<f64>,
}

impl Operand {
    pub fn dtype(&self, tested: DType) -> DType {
        match (&self.kind, tested) {
            (Kind::Fixed(dtype), _) => *dtype,
            (Kind::Wide, DType::F16 | DType::BF16) => DType::F32,
            _ => tested,
        }
    }
}

/// The weight of element `i` of result `r`, whose sum is differentiated.
pub fn weight(i: usize, r: usize) -> f64 {
    [1.0, -0.5, 2.0, 0.25, -1.5, 0.75, 1.25][(i + 3 * r) % 7]
}

/// The ops of all recordings, in the order of their files.
pub fn peers() -> Vec<Peer> {
    let files = ["elementwise", "tensor", "reduce", "index", "blocks", "optim", "layers"];
    let texts = files.map(|file| read(&format!("tests/conformance/{file}.json")));
    texts
        .iter()
        .flat_map(|text| serde_json::from_str::<Vec<Json>>(text).unwrap())
        .map(|op| peer(&op))
        .collect()
}

/// The place of a file of the project. Cargo names its folder; on a machine without Cargo, it is the present one.
pub fn place(path: &str) -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or(PathBuf::new(), PathBuf::from).join(path)
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(place(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn peer(op: &Json) -> Peer {
    Peer {
        op: text(&op["op"]),
        peer: text(&op["peer"]),
        cases: list(&op["cases"]).iter().map(case).collect(),
    }
}

fn case(json: &Json) -> Case {
    let types = list(&json["types"]).iter().map(|name| DType::from_name(name.as_str().unwrap()).unwrap());
    let grad = |json: &Json| json.as_array().map(|_| numbers(json));
    Case {
        title: text(&json["title"]),
        call: text(&json["call"]),
        types: types.collect(),
        inputs: list(&json["inputs"]).iter().map(operand).collect(),
        params: list(&json["params"]).iter().map(text).collect(),
        outputs: list(&json["outputs"]).iter().map(operand).collect(),
        grads: list(&json["grads"]).iter().map(grad).collect(),
        weighs: list(&json["weighs"]).iter().map(|r| r.as_u64().unwrap() as usize).collect(),
        is_whole: json["whole"].as_bool().unwrap_or(false),
        only: list(&json["only"]).iter().map(text).collect(),
    }
}

fn operand(json: &Json) -> Operand {
    Operand {
        kind: match json[0].as_str().unwrap() {
            "T" => Kind::Tested,
            "W" => Kind::Wide,
            name => Kind::Fixed(DType::from_name(name).unwrap()),
        },
        shape: list(&json[1]).iter().map(|extent| extent.as_u64().unwrap() as usize).collect(),
        elements: numbers(&json[2]),
    }
}

/// Infinities and NaN are texts, and so are truth values to JSON.
fn numbers(json: &Json) -> Vec<f64> {
    let number = |json: &Json| match json {
        Json::Bool(truth) => f64::from(u8::from(*truth)),
        Json::String(text) => text.parse().unwrap(),
        _ => json.as_f64().unwrap(),
    };
    list(json).iter().map(number).collect()
}

pub fn list(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub fn text(json: &Json) -> String {
    json.as_str().unwrap().to_string()
}
