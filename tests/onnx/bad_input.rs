//! Models that are damaged, lie, or use parts of ONNX without a translation.

use engine::core::diag::{Code, Diagnostic};
use engine::{Engine, Facts};
use expect_test::{Expect, expect};
use prost::Message;
use std::fs;
use std::path::Path;

/// A model as far as these tests write it; see `onnx/src/proto.rs` for the fields.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opset: Vec<Opset>,
    #[prost(message, repeated, tag = "25")]
    function: Vec<Function>,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, repeated, tag = "4")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    output: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    node: Vec<Node>,
    #[prost(string, tag = "10")]
    domain: String,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "5")]
    tensor: Option<Tensor>,
    #[prost(message, optional, tag = "6")]
    graph: Option<Graph>,
    #[prost(int32, tag = "20")]
    kind: i32,
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
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<Attribute>,
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
    Node { op: op.into(), input, output: vec![output.into()], name: output.into(), ..Node::default() }
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
    Model { graph: Some(graph), opset: vec![Opset { domain: String::new(), version: 17 }], function: vec![] }
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
        node("StringSplit", &["x", "x"], "y"),
        node("StringSplit", &["x", "x"], "z"),
    ];
    refused(
        &model(nodes, vec![]),
        Code::E0508,
        expect![
            "node `b` (Softmaxx): the op Softmaxx of the domain ai.onnx has no translation in opset 17; the nearest known op is Softmax; 2 more ops are missing: StringSplit (2), Frobnicate (1)"
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
            r#"the input `x` has elements of type string; supported types are bool, u8, i8, i16, u16, i32, i64, u32, f16, bf16, f32, f64"#
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

/// A node with a graph of its own: f32 values, and before them the number of a trip and a condition.
fn with_body(op: &str, input: &[&str], output: &str, (name, body): (&str, Graph)) -> Node {
    let attribute = Attribute { name: name.into(), graph: Some(body), kind: 5, ..Attribute::default() };
    Node { attribute: vec![attribute], ..node(op, input, output) }
}

fn body(nodes: Vec<Node>, outputs: &[&str]) -> Graph {
    let inputs = ["trip", "go", "h"].map(|name| Value { name: name.into(), ty: None });
    let output = outputs.iter().map(|name| Value { name: name.to_string(), ty: None }).collect();
    Graph { node: nodes, input: inputs.to_vec(), output, ..Graph::default() }
}

fn count(n: i64) -> Tensor {
    Tensor { name: "n".into(), dtype: 7, raw: n.to_le_bytes().to_vec(), ..Tensor::default() }
}

#[test]
fn loops_that_cannot_be_are_told() {
    let looped = |body: Graph, n: i64| {
        let mut node = with_body("Loop", &["n", "", "x"], "last", ("body", body));
        node.output.push("y".into());
        model(vec![node], vec![count(n)])
    };
    let axis = Attribute { name: "axis".into(), kind: 2, ..Attribute::default() };
    let concat = Node { attribute: vec![axis], ..node("Concat", &["h", "h"], "next") };
    let grows = vec![concat, node("Identity", &["go"], "on")];
    refused(
        &looped(body(grows, &["on", "next", "h"]), 5000),
        Code::E0508,
        expect![
            "node `last` (Loop) hands on `last`, which is f32[2, 3] before a trip and f32[4, 3] after it; values that a loop hands on keep their type; up to 4,096 trips of a known number are written out"
        ],
    );
    let ends = vec![
        node("Relu", &["h"], "next"),
        node("ReduceSum", &["next"], "sum"),
        node("IsNaN", &["sum"], "on"),
    ];
    refused(
        &looped(body(ends, &["on", "next", "h"]), 5000),
        Code::E0508,
        expect![
            "node `last` (Loop) has one row of a result for each trip, and only data determine their number; hand on a tensor for all rows, to which each trip writes one"
        ],
    );
    let unknown = vec![node("Frobnicate", &["h"], "next"), node("Identity", &["go"], "on")];
    let unknown = with_body("Loop", &["n", "", "x"], "y", ("body", body(unknown, &["on", "next"])));
    refused(
        &model(vec![node("Softmaxx", &["x"], "b"), unknown], vec![count(20)]),
        Code::E0508,
        expect![
            "node `b` (Softmaxx): the op Softmaxx of the domain ai.onnx has no translation in opset 17; the nearest known op is Softmax; 1 more op is missing: Frobnicate (1)"
        ],
    );
}

#[test]
fn values_without_a_tensor_are_named() {
    refused(
        &model(vec![node("NonZero", &["x"], "y")], vec![]),
        Code::E0508,
        expect![
            "node `y` (NonZero) has a result whose extents only data determine; a constant operand settles them: `engine import --value NAME=[…]`"
        ],
    );
    refused(
        &model(vec![node("SequenceConstruct", &["x", "x"], "y")], vec![]),
        Code::E0508,
        expect![
            "the value `y` is a sequence, or an optional value without an element; inputs, outputs, and values that loops and branches on data hand on are tensors"
        ],
    );
    let parts = vec![node("SequenceConstruct", &["x", "x"], "s"), node("Relu", &["s"], "y")];
    refused(
        &model(parts, vec![]),
        Code::E0508,
        expect!["node `y` (Relu) reads `s`, which is no tensor; `SequenceAt` takes a part of a sequence"],
    );
    let last = vec![node("SequenceEmpty", &[], "s"), node("SequenceAt", &["s", "n"], "y")];
    refused(
        &model(last, vec![count(0)]),
        Code::E0507,
        expect!["node `y` (SequenceAt) has position 0 of 0; export the model again"],
    );
    let texts = Tensor { dtype: STRING, ..weight(&[2], 0) };
    refused(
        &model(vec![node("Identity", &["w"], "y")], vec![texts.clone()]),
        Code::E0508,
        expect![
            "the tensor `w` has elements of type string; supported types are bool, u8, i8, i16, u16, i32, i64, u32, f16, bf16, f32, f64"
        ],
    );
    let value = Attribute { name: "value".into(), tensor: Some(texts), kind: 4, ..Attribute::default() };
    let constant = Node { attribute: vec![value], ..node("Constant", &[], "y") };
    refused(
        &model(vec![constant], vec![]),
        Code::E0508,
        expect![
            "the tensor `w` has elements of type string; supported types are bool, u8, i8, i16, u16, i32, i64, u32, f16, bf16, f32, f64"
        ],
    );
}

#[test]
fn claims_of_much_memory_are_refused() {
    // A message of two bytes that claims 2 GiB.
    refused_bytes(
        vec![0x3a, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0],
        Code::E0507,
        expect![
            "the model is malformed: failed to decode Protobuf message: ModelProto.graph: buffer underflow; the file is damaged, or no ONNX model"
        ],
    );
    let whole = model(vec![node("Add", &["x", "w"], "y")], vec![weight(&[3], 12)]).encode_to_vec();
    assert!(imported(whole.clone(), Path::new("m.onnx")).is_ok());
    for end in 0..whole.len() {
        if let Ok(model) = imported(whole[..end].to_vec(), Path::new("m.onnx")) {
            assert!(Engine::new().read("m.ron", &model.text(None, &[])).is_ok(), "{end} bytes");
        }
    }
    let parts = vec![node("SplitToSequence", &["big"], "s"), node("SequenceAt", &["s", "n"], "y")];
    let big = vec![node("Expand", &["x", "shape"], "big")];
    let shape = Tensor {
        name: "shape".into(),
        dims: vec![2],
        dtype: 7,
        raw: [1i64 << 29, 3].iter().flat_map(|n| n.to_le_bytes()).collect(),
        ..Tensor::default()
    };
    let row = Value { name: "x".into(), ..value("x", FLOAT, &[1, 3]) };
    let mut large = model([big, parts].concat(), vec![count(0), shape]);
    large.graph.iter_mut().for_each(|graph| graph.input = vec![row.clone()]);
    refused(
        &large,
        Code::E0508,
        expect![
            "node `s` (SplitToSequence) splits into parts of unknown size, or too many; make its operands constants: `engine import --value NAME=[…]`"
        ],
    );
    let again = Node { domain: "own".into(), ..node("Again", &["a"], "b") };
    let function = Function {
        name: "Again".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![again.clone()],
    };
    let calls = Node { domain: "own".into(), ..node("Again", &["x"], "y") };
    let circle = Model { function: vec![function], ..model(vec![calls], vec![]) };
    refused(&circle, Code::E0507, expect!["node `b` (own.Again) calls itself; export the model again"]);
}
