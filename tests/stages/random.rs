//! Random fields of stages: a pipeline is refused, fails with an error or runs, but nothing panics.

use engine::Engine;
use engine::core::compile::Options;
use engine::devices::{self, Choice};
use engine::runtime::data::source::LoadContext;
use proptest::prelude::*;

/// `PROPTEST_CASES` random cases, or a few by default.
fn few(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(few(48))]

    #[test]
    fn random_stages_do_not_panic(stages in prop::collection::vec(stage(), 1..3)) {
        let stages: Vec<String> = stages.iter().enumerate().map(|(i, s)| format!("\"s{i}\": {s}")).collect();
        attempt(&GRAPH.replace("STAGES", &stages.join(", ")));
    }
}

const GRAPH: &str = r#"(
    data: {"rows": (source: "numbers", n_train: 20, n_test: 7)},
    inputs: {"row": (type: "i32[B]", from: "rows.number"), "z": "f32[B, 2]"},
    params: {"w": (type: "f32[]", init: 0.5), "v": "f32[3]", "n": (type: "i32[]", state: true)},
    nodes: {
        "x": "cast(row, dtype=f32) / 10.0", "y": "dropout(x * w, p=0.25)", "loss": "mean((y - x) ** 2.0)",
        "mae": "mean(abs(y - x))", "alias": "loss", "next": "w * 0.5", "more": "n + 1", "flat": "mean(x)",
        "vector": "v * w", "pair": "topk(v, k=2)", "fed": "z * w",
    },
    stages: {STAGES},
)"#;

/// Reads a pipeline, and runs it if it is valid.
fn attempt(text: &str) {
    let engine = Engine::new();
    let Ok(pipeline) = engine.read("random.ron", text) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut pipeline = pipeline;
    random_paths(&mut pipeline, folder.path());
    let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let data = LoadContext::offline_in(folder.path());
    let session = engine.session(pipeline, device, &data, Options::default(), &mut |_| {});
    let ran = session.and_then(|mut session| session.run_stages(None, &mut |_| {}));
    if let Err(error) = ran {
        assert!(!error.to_string().is_empty());
    }
}

/// Files of the stages, in the folder.
fn random_paths(pipeline: &mut engine::core::pipeline::Pipeline, folder: &std::path::Path) {
    use engine::core::pipeline::{LoadStage, SaveStage, SearchStage, TrainStage};
    let moved = |path: &mut String| *path = folder.join(&*path).to_str().unwrap().to_string();
    for stage in &mut pipeline.stages {
        if let Some(TrainStage { checkpoint: Some(checkpoint), .. }) = stage.get_mut() {
            moved(&mut checkpoint.path);
            checkpoint.best.iter_mut().for_each(moved);
        }
        stage.get_mut().into_iter().for_each(|SaveStage { path, .. }| moved(path));
        stage.get_mut().into_iter().for_each(|LoadStage { path, .. }| moved(path));
        let search = stage.get_mut::<SearchStage>();
        search.into_iter().flat_map(|search| &mut search.write).for_each(|(_, path)| moved(path));
    }
}

/// A stage of some kind, with fields that are usual, odd, missing or unknown.
fn stage() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => train(),
        2 => evaluate(),
        3 => group("Run", vec![
            ("outputs", 1.0, nodes()), ("steps", 0.4, number()), ("dims", 0.8, dims()), ("state", 0.4, links()),
            ("mode", 0.2, mode()), ("loss", 0.4, node()),
        ]),
        1 => group("Predict", vec![("batch", 0.9, number()), ("outputs", 0.9, nodes()), ("mode", 0.2, mode())]),
        1 => group("Search", vec![
            ("data", 0.9, words(&["rows", "row"])), ("batch", 0.5, number()), ("ids", 0.9, node()),
            ("distances", 0.5, node()),
        ]),
        1 => group("Save", vec![("path", 0.9, file()), ("names", 0.3, saved())]),
        1 => group("Load", vec![("path", 0.9, file())]),
    ]
}

fn train() -> BoxedStrategy<String> {
    group(
        "Train",
        vec![
            ("data", 0.97, split()),
            ("batch", 0.97, number()),
            ("accumulate", 0.2, number()),
            ("epochs", 0.5, number()),
            ("max_steps", 0.3, number()),
            ("loss", 0.97, words(&["\"loss\"", "\"alias\"", "\"mae\"", "\"flat\"", "\"y\"", "\"n\""])),
            ("metrics", 0.4, nodes()),
            ("optimizer", 0.85, optimizer()),
            ("state", 0.15, links()),
            ("clip_norm", 0.2, real()),
            ("clip_value", 0.1, real()),
            ("last_batch", 0.2, words(&["Drop", "Short"])),
            ("evaluate", 0.5, evaluate()),
            ("monitor", 0.3, monitor()),
            ("early_stop", 0.3, early_stop()),
            ("checkpoint", 0.3, checkpoint()),
            ("mode", 0.2, mode()),
        ],
    )
}

fn evaluate() -> BoxedStrategy<String> {
    group(
        "Evaluate",
        vec![
            ("data", 0.97, split()),
            ("batch", 0.97, number()),
            ("metrics", 0.97, nodes()),
            ("mode", 0.2, mode()),
            ("metric", 0.03, nodes()),
        ],
    )
}

fn optimizer() -> BoxedStrategy<String> {
    let heads = words(&["Sgd", "Momentum", "Adam", "AdamW", "Muon", "Adm"]);
    let fields = vec![
        ("lr", 0.97, prop_oneof![2 => real(), 1 => schedule()].boxed()),
        ("beta1", 0.15, real()),
        ("beta2", 0.15, real()),
        ("eps", 0.15, real()),
        ("momentum", 0.15, real()),
        ("weight_decay", 0.2, real()),
        ("decay_bias", 0.2, words(&["true", "false"])),
        ("groups", 0.2, groups()),
    ];
    (heads, group("", fields)).prop_map(|(head, fields)| head + &fields).boxed()
}

fn groups() -> BoxedStrategy<String> {
    let fields = vec![
        ("params", 0.97, words(&["\"w\"", "\"*\"", "[\"v\", \"w*\"]", "\"z*\"", "3"])),
        ("frozen", 0.2, words(&["true", "false"])),
        ("lr", 0.3, prop_oneof![2 => real(), 1 => schedule()].boxed()),
        ("weight_decay", 0.2, real()),
    ];
    prop::collection::vec(group("", fields), 0..3)
        .prop_map(|groups| format!("[{}]", groups.join(", ")))
        .boxed()
}

fn saved() -> BoxedStrategy<String> {
    words(&["[\"w\"]", "[\"*\", \"n\"]", "[\"{i}\"]", "[\"z*\"]", "[]", "\"w\""])
}

fn schedule() -> BoxedStrategy<String> {
    let heads = words(&["Constant", "Exp", "Cosine", "Linear", "Steps", "OneCycle", "Plateau"]);
    let fields = vec![
        ("max", 0.2, real()),
        ("pct_start", 0.1, real()),
        ("patience", 0.1, number()),
        ("start", 0.9, real()),
        ("end", 0.5, real()),
        ("rate", 0.3, real()),
        ("factor", 0.3, real()),
        ("every", 0.3, number()),
        ("warmup", 0.5, number()),
    ];
    (heads, group("", fields)).prop_map(|(head, fields)| head + &fields).boxed()
}

fn monitor() -> BoxedStrategy<String> {
    let heads = words(&["Min", "Max", "Most"]);
    (heads, node()).prop_map(|(head, node)| format!("{head}({node})")).boxed()
}

fn early_stop() -> BoxedStrategy<String> {
    let flags = words(&["true", "false"]);
    let fields = vec![("patience", 0.9, number()), ("min_delta", 0.5, real()), ("restore_best", 0.5, flags)];
    prop_oneof![number(), group("", fields)].boxed()
}

fn checkpoint() -> BoxedStrategy<String> {
    group("", vec![("path", 0.95, file()), ("every", 0.3, number()), ("best", 0.5, file())])
}

// ---- Values.

fn words(known: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(known).prop_map(str::to_owned).boxed()
}

fn split() -> BoxedStrategy<String> {
    words(&["\"rows.train\"", "\"rows.train\"", "\"rows.test\"", "\"rows.dev\"", "\"row.train\""])
}

fn node() -> BoxedStrategy<String> {
    words(&[
        "\"loss\"",
        "\"mae\"",
        "\"alias\"",
        "\"y\"",
        "\"x\"",
        "\"w\"",
        "\"v\"",
        "\"n\"",
        "\"next\"",
        "\"more\"",
        "\"flat\"",
        "\"vector\"",
        "\"pair.indices\"",
        "\"pair\"",
        "\"row\"",
        "\"fed\"",
        "\"los\"",
        "\"d.w\"",
        "\"d.y\"",
    ])
}

/// Nodes as a list, or under other names, some of which stages use themselves.
fn nodes() -> BoxedStrategy<String> {
    let names =
        words(&["\"a\"", "\"b\"", "\"loss\"", "\"sum.loss\"", "\"order\"", "\"top 5 %\"", "\"kept.w\""]);
    let named = prop::collection::vec((names, node()), 0..4);
    let scalars = words(&["[\"loss\"]", "[\"mae\", \"alias\"]", "{\"a\": \"mae\", \"b\": \"mae\"}"]);
    prop_oneof![
        3 => scalars,
        2 => prop::collection::vec(node(), 0..4).prop_map(|nodes| format!("[{}]", nodes.join(", "))),
        1 => named.prop_map(|named| {
            let pairs: Vec<String> = named.iter().map(|(name, node)| format!("{name}: {node}")).collect();
            format!("{{{}}}", pairs.join(", "))
        }),
    ]
    .boxed()
}

fn links() -> BoxedStrategy<String> {
    words(&[
        "{\"w\": \"next\"}",
        "{\"n\": \"more\"}",
        "{\"w\": \"next\", \"n\": \"more\"}",
        "{\"w\": \"w\"}",
        "{}",
        "{\"v\": \"vector\"}",
        "{\"n\": \"w\"}",
        "{\"w\": \"flat\", \"w\": \"next\"}",
        "{\"x\": \"y\"}",
    ])
}

fn dims() -> BoxedStrategy<String> {
    words(&["{\"B\": 4}", "{\"B\": 1}", "{\"B\": 0}", "{\"B\": 100}", "{\"C\": 2}", "{}"])
}

fn number() -> BoxedStrategy<String> {
    words(&["1", "2", "3", "5", "8", "1", "2", "4", "0", "-1", "100", "99999999999999999999", "1.5", "\"2\""])
}

fn real() -> BoxedStrategy<String> {
    words(&[
        "0.1", "1e-3", "0.5", "0", "1", "0.9", "-1", "2", "1e30", "1e999", "inf", "nan", "\"0.1\"", "1e-400",
    ])
}

fn mode() -> BoxedStrategy<String> {
    words(&["Train", "Eval", "Test"])
}

fn file() -> BoxedStrategy<String> {
    words(&["\"a.ckpt\"", "\"b.ckpt\"", "\"./a.ckpt\"", "\"no/folder/c.ckpt\"", "\"\"", "\"d.npz\"", "3"])
}

/// `Head(field: value, …)` with some of the fields, each repeated as listed.
fn group(
    head: &'static str,
    fields: Vec<(&'static str, f64, BoxedStrategy<String>)>,
) -> BoxedStrategy<String> {
    let given = fields.into_iter().map(|(name, share, value)| {
        (prop::bool::weighted(share), value)
            .prop_map(move |(given, value)| given.then(|| format!("{name}: {value}")))
    });
    given
        .collect::<Vec<_>>()
        .prop_map(move |fields| {
            format!("{head}({})", fields.into_iter().flatten().collect::<Vec<_>>().join(", "))
        })
        .boxed()
}
