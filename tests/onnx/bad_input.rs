//! Models that are damaged, lie, or use parts of ONNX without a translation.

use super::common::bytes;
use engine::core::diag::{Code, Diagnostic};
use engine::{Engine, Facts};
use expect_test::{Expect, expect};
use prost::Message;
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

/// A model as far as these tests write it; see `onnx/src/proto.rs` for the fields.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opset: Vec<Opset>,
}

#[derive(Clone, PartialEq, Message)]
struct Opset {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<Value>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    op: String,
    #[prost(string, tag = "7")]
    domain: String,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    dtype: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    external: Vec<Entry>,
    #[prost(int32, tag = "14")]
    location: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    ty: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
struct Type {
    #[prost(message, optional, tag = "1")]
    tensor: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorType {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Extent>,
}

#[derive(Clone, PartialEq, Message)]
struct Extent {
    #[prost(int64, optional, tag = "1")]
    value: Option<i64>,
    #[prost(string, tag = "2")]
    name: String,
}

const FLOAT: i32 = 1;
const STRING: i32 = 8;

fn node(op: &str, input: &[&str], output: &str) -> Node {
    let input = input.iter().map(|name| name.to_string()).collect();
    Node { op: op.into(), input, output: vec![output.into()], name: output.into(), domain: String::new() }
}

fn value(name: &str, dtype: i32, extents: &[i64]) -> Value {
    let dim = extents.iter().map(|&n| Extent { value: Some(n), name: String::new() }).collect();
    let tensor = Some(TensorType { dtype, shape: Some(Shape { dim }) });
    Value { name: name.into(), ty: Some(Type { tensor }) }
}

fn weight(dims: &[i64], raw: usize) -> Tensor {
    Tensor { name: "w".into(), dims: dims.to_vec(), dtype: FLOAT, raw: vec![0; raw], ..Tensor::default() }
}

/// A model of these nodes with the input `x: f32[2, 3]` and the output `y`.
fn model(node: Vec<Node>, initializer: Vec<Tensor>) -> Model {
    let output = vec![Value { name: "y".into(), ty: None }];
    let graph = Graph { node, initializer, input: vec![value("x", FLOAT, &[2, 3])], output };
    Model { graph: Some(graph), opset: vec![Opset { domain: String::new(), version: 17 }] }
}

fn imported(bytes: Vec<u8>, path: &Path) -> Result<engine::Model, Diagnostic> {
    Engine::new().import(path, bytes, &Facts::default())
}

fn refused(model: &Model, code: Code, expected: Expect) {
    refused_bytes(model.encode_to_vec(), code, expected);
}

fn refused_bytes(bytes: Vec<u8>, code: Code, expected: Expect) {
    let Err(fault) = imported(bytes, Path::new("m.onnx")) else { panic!("it is imported") };
    assert_eq!(fault.code, code, "{}", fault.message);
    expected.assert_eq(&format!("{}; {}", fault.message, fault.help.unwrap_or_default()));
}

#[test]
fn parts_without_a_translation_are_named() {
    let other = Node { domain: "com.acme".into(), ..node("Frobnicate", &["x"], "a") };
    let nodes = vec![
        node("Softmaxx", &["x"], "b"),
        other,
        node("Unique", &["x", "x"], "y"),
        node("Unique", &["x", "x"], "z"),
    ];
    refused(
        &model(nodes, vec![]),
        Code::E0508,
        expect![
            "node `b` (Softmaxx): the op Softmaxx of the domain ai.onnx has no translation in opset 17; the nearest known op is Softmax; 2 more ops are missing: Unique (2), Frobnicate (1)"
        ],
    );
    let strings = Model {
        graph: model(vec![], vec![])
            .graph
            .map(|graph| Graph { input: vec![value("x", STRING, &[2])], ..graph }),
        ..model(vec![], vec![])
    };
    refused(
        &strings,
        Code::E0508,
        expect![[
            r#"the input `x` has elements of type string; supported types are bool, u8, i32, i64, u32, f16, bf16, f32, f64"#
        ]],
    );
    let old = Model { opset: vec![Opset { version: 5, ..Opset::default() }], ..model(vec![], vec![]) };
    refused(
        &old,
        Code::E0508,
        expect![[
            r#"the model has opset 5; opsets 6 to 27 are read; `onnx.version_converter` converts models"#
        ]],
    );
    let shape = vec![node("Reshape", &["x", "x"], "y")];
    refused(
        &model(shape, vec![]),
        Code::E0508,
        expect![[
            r#"node `y` (Reshape) needs `shape` as a number, which is not known at import; make it a constant: `engine import --value NAME=[…]`, or export the model with constant shapes"#
        ]],
    );
}

#[test]
fn broken_structure_is_told() {
    refused_bytes(
        vec![],
        Code::E0507,
        expect![[r#"the model names no opset of ONNX; the file is damaged, or no ONNX model"#]],
    );
    refused_bytes(
        b"\x89PNG\r\n".to_vec(),
        Code::E0507,
        expect![
            "the model is malformed: failed to decode Protobuf message: buffer underflow; the file is damaged, or no ONNX model"
        ],
    );
    let circle = vec![node("Add", &["x", "b"], "a"), node("Relu", &["a"], "b"), node("Relu", &["b"], "y")];
    refused(
        &model(circle, vec![]),
        Code::E0507,
        expect![[
            r#"node `a` (Add) reads `b`, which no earlier node gives; nodes of a model are sorted, and do not depend on each other in a circle"#
        ]],
    );
    refused(
        &model(vec![node("Relu", &["x"], "x")], vec![]),
        Code::E0507,
        expect![[r#"node `x` (Relu) redefines `x`; a value of a model has one origin"#]],
    );
    refused(
        &model(vec![node("Relu", &["x"], "z")], vec![]),
        Code::E0507,
        expect![[r#"no node gives the output `y`; the file is damaged; export the model again"#]],
    );
    refused(
        &model(vec![node("Add", &["x"], "y")], vec![]),
        Code::E0507,
        expect![[r#"node `y` (Add) lacks the operand `b`; export the model again"#]],
    );
    refused(
        &model(vec![node("Add", &["x", "w"], "y")], vec![weight(&[4], 16)]),
        Code::E0102,
        expect!["node `y` (Add): cannot broadcast f32[2, 3] with f32[4]; trailing axes must agree or be 1"],
    );
}

#[test]
fn tensors_that_lie_are_refused() {
    let with = |tensor: Tensor| model(vec![node("Add", &["x", "w"], "y")], vec![tensor]);
    refused(
        &with(weight(&[3], 8)),
        Code::E0507,
        expect![[
            r#"the tensor `w` has extents [3], which are 12 bytes of f32, but 8 bytes of data; the file is damaged; export the model again"#
        ]],
    );
    refused(
        &with(weight(&[1 << 30, 3], 8)),
        Code::E0507,
        expect![[
            r#"the tensor `w` has extents [1073741824, 3], which are 12884901888 bytes of f32, but 8 bytes of data; the file is damaged; export the model again"#
        ]],
    );
    refused(
        &with(weight(&[1 << 40, 1 << 40], 8)),
        Code::E0507,
        expect![[
            r#"the tensor `w` has extents [1099511627776, 1099511627776], which no machine holds; the file is damaged; export the model again"#
        ]],
    );
    refused(
        &with(weight(&[-1], 8)),
        Code::E0507,
        expect![[r#"the tensor `w` has a negative extent; the file is damaged; export the model again"#]],
    );
    refused(
        &with(Tensor { dtype: 99, ..weight(&[3], 12) }),
        Code::E0507,
        expect![[
            r#"the tensor `w` has the unknown element type 99; the file is damaged; export the model again"#
        ]],
    );
}

#[test]
fn external_data_stay_in_the_folder() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("model");
    fs::create_dir(&folder).unwrap();
    fs::write(home.path().join("secret"), [0; 12]).unwrap();
    fs::write(folder.join("w.bin"), [0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 9]).unwrap();
    let entry = |(key, value): (&str, &str)| Entry { key: key.into(), value: value.into() };
    let import = |entries: &[(&str, &str)]| {
        let external = entries.iter().copied().map(entry).collect();
        let tensor = Tensor { external, location: 1, ..weight(&[3], 0) };
        let model = model(vec![node("Add", &["x", "w"], "y")], vec![tensor]);
        imported(model.encode_to_vec(), &folder.join("m.onnx"))
    };
    let found = import(&[("location", "w.bin")]).ok().unwrap();
    assert_eq!(found.weights["w"].to_f64(), [1.0, 2.0, 3.0]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(home.path().join("secret"), folder.join("link")).unwrap();
    let absolute = home.path().join("secret").display().to_string();
    for outside in ["../secret", "./../secret", "link", "", &absolute] {
        let fault = import(&[("location", outside)]).err().unwrap();
        assert_eq!(fault.code, Code::E0507);
        assert!(fault.message.ends_with("outside the folder of the model"), "{}", fault.message);
    }
    for (entries, fact) in [
        (&[("location", "w.bin"), ("offset", "4")][..], "ends beyond"),
        (&[("location", "w.bin"), ("offset", "18446744073709551615")][..], "ends beyond"),
        (&[("location", "w.bin"), ("length", "13")][..], "needs 12 bytes, its data are 13"),
        (&[("location", "w.bin"), ("offset", "-4")][..], "no number as offset"),
        (&[("location", "none.bin")][..], "cannot be read"),
        (&[][..], "names no file"),
    ] {
        let fault = import(entries).err().unwrap();
        assert!(fault.message.contains(fact), "{}", fault.message);
    }
}

/// Bits that differ from run to run, but not from time to time.
struct Bits(u64);

impl Bits {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// A model with some bytes exchanged, left out, repeated, or taken from another model.
fn mutated(models: &[Vec<u8>], bits: &mut Bits) -> Vec<u8> {
    let mut bytes = models[bits.below(models.len())].clone();
    for _ in 0..=bits.below(2) {
        let at = bits.below(bytes.len());
        match bits.below(6) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << bits.below(8),
            2 => bytes[at] = [0, 1, 127, 128, 255][bits.below(5)],
            3 | 4 => {
                let other = &models[bits.below(models.len())];
                let from = bits.below(other.len());
                let part = &other[from..(from + bits.below(24)).min(other.len())];
                let end = (at + part.len()).min(bytes.len());
                bytes.splice(at..end, part.iter().copied());
            }
            _ => {
                let part = bytes[at..(at + bits.below(24)).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// `ENGINE_FUZZ_SECONDS` and `ENGINE_FUZZ_SEED` change the number of runs and the seed.
#[test]
fn damaged_models_are_refused_or_become_sound_pipelines() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let mut bits = Bits(0x2545_f491_4f6c_dd1d ^ number("ENGINE_FUZZ_SEED").unwrap_or(0));
    let cases: Vec<Json> = serde_json::from_str(include_str!("../examples/onnx_ops.json")).unwrap();
    let mut models: Vec<Vec<u8>> = cases.iter().map(|case| bytes(case["model"].as_str().unwrap())).collect();
    models.extend(
        ["mlp_torchscript", "both_torchscript", "block_dynamo"]
            .map(|name| fs::read(format!("tests/examples/onnx/{name}.onnx")).unwrap()),
    );
    let engine = Engine::new();
    let mut n_sound = 0;
    for _ in 0..10_000 * number("ENGINE_FUZZ_SECONDS").unwrap_or(1) {
        let damaged = mutated(&models, &mut bits);
        let Ok(model) = engine.import(Path::new("m.onnx"), damaged, &Facts::default()) else { continue };
        let text = model.text(None, &[]);
        match engine.read("m.ron", &text) {
            Ok(_) => n_sound += 1,
            // The value that an open extent has by default may not do.
            Err(_) if text.contains("dims:") => {}
            Err(faults) => panic!("{faults}\n{text}"),
        }
    }
    assert!(n_sound > 500, "{n_sound}");
}
