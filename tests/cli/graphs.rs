//! Runs of the shipped graphs.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a shipped graph on the CPU with reduced settings, and returns the outcome and the report.
#[track_caller]
fn run_graph(name: &str, less: &[&str]) -> (Ended, Value) {
    run_graph_on("cpu", name, less)
}

#[track_caller]
fn run_graph_on(device: &str, name: &str, less: &[&str]) -> (Ended, Value) {
    let desk = Desk::new();
    let graph = format!("{}/graphs/{name}", env!("CARGO_MANIFEST_DIR"));
    let less = less.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<&str> =
        ["run", &graph, "--device", device, "--report", "report.json"].into_iter().chain(less).collect();
    let ended = desk.engine(&arguments);
    assert_eq!(ended.code, 0, "{name} on {device}: {}", ended.errors);
    let report = serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap();
    (ended, report)
}

/// The GPU that wgpu emulates on the CPU. `ENGINE_REQUIRE=wgpu` requires it.
fn emulated() -> Option<&'static str> {
    let found = Desk::new().engine(&["devices"]).results;
    let is_there = !found.lines().any(|line| line.starts_with("wgpu:software: not usable"));
    let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
    assert!(is_there || !required.split(',').any(|one| one == "wgpu"), "{found}");
    if !is_there {
        eprintln!("skipped: there is no software adapter to run graphs on");
    }
    is_there.then_some("wgpu:software")
}

/// All numbers of a report by their meaning, each with the tolerance for another device. The rule is that of
/// `benches/compare_reports.py`, which gives the reasons for its bounds.
fn numbers(report: &Value) -> BTreeMap<String, (Option<f64>, f64)> {
    let trained_loss = if report["graph"] == "navigator" { 2e-3 } else { 1e-3 };
    let (mut found, mut is_trained) = (BTreeMap::new(), false);
    for (place, stage) in report["stages"].as_array().unwrap().iter().enumerate() {
        is_trained |= stage["kind"] == "train";
        let [loss, share] = if is_trained { [trained_loss, 5e-3] } else { [1e-4, 1e-3] };
        for (key, value) in measured(stage) {
            let value = value.as_f64();
            // Tolerances are relative for losses, and absolute for accuracies.
            let allowed = if key.contains("loss") { loss * value.unwrap_or(0.0).abs() } else { share };
            found.insert(format!("stage {place}, {key}"), (value, allowed));
        }
    }
    for (name, output) in report["outputs"].as_object().into_iter().flatten() {
        let is_float = ["f", "bf"].iter().any(|float| output["type"].as_str().unwrap().starts_with(float));
        for (place, value) in output["values"].as_array().unwrap().iter().enumerate() {
            let value = value.as_f64();
            let allowed = if is_float { 1e-5 + 2e-3 * value.unwrap_or(0.0).abs() } else { 0.0 };
            found.insert(format!("output {name}[{place}]"), (value, allowed));
        }
    }
    found
}

/// The losses and metrics of a stage and its epochs.
fn measured(stage: &Value) -> Vec<(String, &Value)> {
    let epochs = stage["epochs"].as_array().into_iter().flatten();
    let of_epochs = epochs.flat_map(|epoch| {
        let before = format!("epoch {}: ", epoch["epoch"]);
        let loss = (format!("{before}train_loss"), &epoch["train_loss"]);
        let metrics = named(&before, &epoch["metrics"]);
        let trained = named(&format!("{before}train "), &epoch["train_metrics"]);
        [vec![loss], metrics, trained].concat()
    });
    of_epochs.chain(named("", &stage["metrics"])).collect()
}

fn named<'r>(before: &str, metrics: &'r Value) -> Vec<(String, &'r Value)> {
    // Devices choose their first pass over a search, but not its result.
    let is_of_first_pass = |key: &str| ["certified", "scanned"].contains(&key);
    let metrics = metrics.as_object().into_iter().flatten().filter(|(key, _)| !is_of_first_pass(key));
    metrics.map(|(key, value)| (format!("{before}{key}"), value)).collect()
}

/// Fails if a number is missing in one of two reports, or differs by more than its tolerance.
#[track_caller]
fn check_near(what: &str, expected: &Value, found: &Value) {
    let (expected, found) = (numbers(expected), numbers(found));
    assert!(!expected.is_empty() && expected.keys().eq(found.keys()), "{what}: {expected:?}\n{found:?}");
    for (label, (value, allowed)) in &expected {
        let other = found[label].0;
        let is_near = match (value, other) {
            (Some(value), Some(other)) => (value - other).abs() <= *allowed,
            // Values that are no numbers must be equal.
            (value, other) => *value == other,
        };
        assert!(is_near, "{what}: {label} is {other:?}, and {value:?} on the CPU");
    }
}

const ONE_BLOCK: [&str; 5] =
    ["data.rows.n_test=64", "dims.L=1", "dims.D=32", "train.max_steps=3", "reverse.max_steps=3"];
const FEW_AXES: [&str; 3] =
    ["dims.D=16", "data.images.dim=16", "nodes.main=\"principal_axes(base, count=5)\""];

const SHORT_GPT: [&str; 7] = [
    "dims.T=32",
    "dims.L=1",
    "dims.H=2",
    "dims.D=64",
    "train.max_steps=3",
    "train.batch=2",
    "write.length=4",
];

/// Runs a graph on the CPU and on a GPU, and compares the numbers of their reports.
fn check_on_devices(gpu: Option<&str>, name: &str, less: &[&str]) {
    let (ended, expected) = run_graph(name, less);
    assert!(!ended.errors.contains("warning"), "{name}: {}", ended.errors);
    assert!(!numbers(&expected).is_empty(), "{name}: {expected}");
    if let Some(device) = gpu {
        let (ended, found) = run_graph_on(device, name, less);
        assert!(!ended.errors.contains("warning"), "{name}: {}", ended.errors);
        check_near(&format!("{name} on {device}"), &expected, &found);
    }
}

/// The files of the folder `graphs`, by name.
fn shipped_graphs() -> Vec<String> {
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/graphs")).unwrap();
    let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Settings are reduced; other tests check the results of longer runs. A new graph must be added to the list.
#[test]
fn every_shipped_graph_gives_the_same_numbers_on_every_device() {
    let digits = ["data.digits.n_train=256", "data.digits.n_test=60"];
    let few_digits = [digits[0], digits[1], "train.epochs=3"];
    let clothes = ["data.clothes.n_train=64", "data.clothes.n_test=20"];
    let steps = ["whole.max_steps=12", "full.max_steps=40", "dims.N=40", "full.batch=16"];
    let phases = [&digits[..], &steps[..]].concat();
    let graphs: [(&str, &[&str]); 31] = [
        ("categorical_ebm.ron", &[]),
        ("classifier_bn.ron", &few_digits),
        ("embedding.ron", &digits),
        ("gpt.ron", &SHORT_GPT),
        ("gpt_sample.ron", &["write.steps=3"]),
        ("gru.ron", &["dims.T=8", "dims.H=32", "train.max_steps=20", "train.batch=16"]),
        ("gumbel.ron", &digits),
        ("houses.ron", &["train.max_steps=20"]),
        ("hybrid_trainer.ron", &phases),
        ("index_build.ron", &["dims.N=640", "dims.BLOCKS=10", "dims.Q=16"]),
        ("index_online.ron", &["changes.times=3"]),
        ("indexing_bench.ron", &["dims.C3=64", "dims.C2=64"]),
        ("ising.ron", &["train.max_steps=3", "twin.steps=2"]),
        ("kmeans.ron", &["dims.N=300", "dims.K=8", "data.digits.n_train=300", "data.digits.n_test=10"]),
        ("lloyd.ron", &["dims.N=600"]),
        ("mnist.ron", &digits),
        (
            "mnist_cnn.ron",
            &[digits[0], "data.digits.n_test=20", "train.max_steps=2", "train.batch=8", "test.batch=20"],
        ),
        ("mnist_decomposed.ron", &digits),
        ("navigator.ron", &["data.queries.n_train=512", "data.queries.n_test=64"]),
        ("ops_sweep.ron", &[]),
        ("range_search.ron", &["dims.Q=20", "dims.N=600"]),
        ("recommender.ron", &["train.max_steps=20", "data.choices.n_test=2000"]),
        ("residual_svd.ron", &["dims.S=96", "dims.D=64", "dims.K=8"]),
        (
            "resnet.ron",
            &[clothes[0], clothes[1], "dims.W=4", "train.max_steps=2", "train.batch=8", "test.batch=20"],
        ),
        ("rssm_rollout.ron", &["dims.B=4", "dims.H=32", "dims.N=4"]),
        ("rssm_train.ron", &[digits[0], digits[1], "record.batch=4", "train.max_steps=5", "dims.T=8"]),
        ("search.ron", &[]),
        ("search_images.ron", &FEW_AXES),
        ("sparse_attention.ron", &["dims.T=128", "dims.LANDMARKS=4"]),
        ("text.ron", &["train.max_steps=5", "train.batch=16"]),
        ("tiny_gpt.ron", &ONE_BLOCK),
    ];
    let gpu = emulated();
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some((name, less)) = graphs.get(next.fetch_add(1, Ordering::Relaxed)) {
            check_on_devices(gpu, name, less);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(take)));
    assert_eq!(shipped_graphs(), graphs.map(|(name, _)| name));
}

#[test]
fn a_pipeline_of_predictions_alone_says_what_to_do_with_it() {
    let desk = Desk::new();
    let graph = r#"(
      inputs: {"x": "f32[B, 2]"},
      nodes: {"y": "x * 2"},
      stages: {"ask": Predict(batch: 4, outputs: {"y": "y"})},
    )"#;
    desk.write("ask.ron", graph);
    let ended = desk.engine(&["run", "ask.ron", "--device", "cpu"]);
    assert_eq!((ended.code, &*ended.results), (0, ""));
    assert!(ended.errors.contains("note: there is no stage to run; `engine predict`"), "{}", ended.errors);
}

#[test]
fn the_navigator_learns_to_find_its_targets() {
    let (_, report) = run_graph("navigator.ron", &["data.queries.n_train=8192", "data.queries.n_test=512"]);
    let mrr = |stage: usize| report["stages"][stage]["metrics"]["mrr"].as_f64().unwrap();
    assert!(mrr(0) < 0.05, "by chance: {}", mrr(0));
    assert!(mrr(2) >= 0.6, "{}", mrr(2));
}

/// A sample of the run in benches/long.md. The noise of the prices is the least loss that is possible.
#[test]
fn prices_of_houses_are_learned_down_to_their_noise() {
    let (_, report) = run_graph("houses.ron", &["train.epochs=8"]);
    let metrics = &report["stages"][1]["metrics"];
    let [loss, noise] = ["loss", "noise"].map(|metric| metrics[metric].as_f64().unwrap());
    assert!((noise / 0.0064 - 1.0).abs() < 0.05, "{noise}");
    // Gaps cost more than the noise.
    assert!(loss > noise && loss < 2.0 * noise, "{loss}, the noise is {noise}");
}

/// A sample of the run in benches/long.md. NDCG@10 of a random ranking is below 0.005.
#[test]
fn choices_of_users_are_ranked() {
    let less = [
        "train.epochs=1",
        "data.choices.n_train=40000",
        "data.choices.n_test=2000",
        "train.evaluate.batch=2000",
    ];
    let (_, report) = run_graph("recommender.ron", &less);
    let metrics = &report["stages"][1]["metrics"];
    let [ndcg, best] = ["ndcg", "best"].map(|metric| metrics[metric].as_f64().unwrap());
    assert!((best / 0.2996 - 1.0).abs() < 0.05, "{best}");
    assert!(ndcg > 0.1 && ndcg < best, "{ndcg}, at best {best}");
}

/// A sample of the graph's own run. The trainings of the test are not among those that the models have seen.
#[test]
fn the_course_of_recorded_trainings_is_learned_better_than_by_persistence() {
    let less = ["train.max_steps=100", "data.digits.n_train=4096", "data.digits.n_test=100"];
    let (_, report) = run_graph("rssm_train.ron", &less);
    let recorded = report["stages"][0]["epochs"][0]["train_loss"].as_f64().unwrap();
    let metrics = &report["stages"][2]["metrics"];
    let [error, persistence] = ["error", "persistence"].map(|metric| metrics[metric].as_f64().unwrap());
    // The weighted sum of the losses of 40 trainings, which begin at ln 10.
    assert!(recorded > 0.2 && recorded < 3.0, "{recorded}");
    assert!(error > 0.0 && error < 0.65 * persistence, "{error}, {persistence}");
}

/// A sample of the run in benches/long.md, on digits that are easier. `full` takes the true steps, `whole` takes as many as
/// `full` and `predict` together.
#[test]
fn a_third_of_the_steps_of_a_training_is_predicted() {
    let less = [
        "data.digits.n_train=12800",
        "data.digits.n_test=2000",
        "whole.max_steps=1140",
        "full.max_steps=790",
        "dims.N=790",
    ];
    let (_, report) = run_graph("hybrid_trainer.ron", &less);
    let output = |name: &str| report["outputs"][name]["values"][0].as_f64().unwrap();
    let stages = report["stages"].as_array().unwrap();
    let stage = |name: &str| stages.iter().find(|stage| stage["name"] == name).unwrap();
    let [whole, full, jumps] = ["whole", "full", "jump"].map(|name| stage(name)["steps"].as_u64().unwrap());
    assert_eq!((output("count"), output("saved")), (full as f64, 2.0 * jumps as f64));
    assert!(full + 2 * jumps <= whole, "{full} and {jumps} jumps against {whole}");
    assert!(output("share") >= 0.3 && output("gap") <= 0.02, "{} for {}", output("gap"), output("share"));
    assert!(output("train_gap") <= 0.02, "{}", output("train_gap"));
    // The gap is that of the two evaluations.
    let [loss, whole_loss] =
        ["test", "test_whole"].map(|name| stage(name)["metrics"]["loss"].as_f64().unwrap());
    assert!((output("gap") - (loss / whole_loss - 1.0)).abs() < 1e-3, "{loss}, {whole_loss}");
    assert!(whole_loss < 0.3, "{whole_loss}");
}

/// A loop whose trips only the run knows: one more trip moves no center.
#[test]
fn centers_are_moved_until_they_stay() {
    let (_, report) = run_graph("lloyd.ron", &[]);
    let output = |name: &str| report["outputs"][name]["values"][0].as_f64().unwrap();
    assert!(output("trips") > 2.0 && output("trips") < 300.0, "{}", output("trips"));
    assert!(output("moved") < 1e-4 && output("cost") <= output("best"), "{}", output("cost"));
}

/// Generated digits, and those of MNIST if a data folder has them. There, the least cost of three runs is compared with that
/// of scikit-learn 1.9.1 on the same rows (`python tests/examples/clusters.py`).
#[test]
fn pictures_are_grouped_as_well_as_by_scikit_learn() {
    let output = |report: &Value, name: &str| report["outputs"][name]["values"][0].as_f64().unwrap();
    let less = ["dims.N=1000", "dims.K=16", "data.digits.n_train=1000", "data.digits.n_test=10"];
    let (_, report) = run_graph("kmeans.ron", &less);
    assert_eq!((output(&report, "total"), output(&report, "is_done")), (1000.0, 1.0));
    assert!(output(&report, "smallest") >= 1.0);
    let Some(data) = std::env::var_os("ENGINE_DATA_DIR").map(PathBuf::from) else { return };
    if !data.join("mnist/train-images-idx3-ubyte.gz").exists() {
        eprintln!("skipped: there is no MNIST in {}", data.display());
        return;
    }
    let costs = ["seed=1", "seed=2", "seed=3"].map(|seed| {
        let desk = Desk::new();
        let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/kmeans.ron");
        let mut command =
            desk.command(&["run", graph, "--device", "cpu", "--report", "report.json", "--data-dir"]);
        command.arg(&data);
        ["dims.N=3000", "dims.K=64", seed].iter().for_each(|setting| _ = command.args(["--set", setting]));
        let ended = Ended::from(command.output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let report = serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap();
        assert_eq!(output(&report, "total"), 3000.0);
        output(&report, "inertia")
    });
    let least = costs.into_iter().fold(f64::INFINITY, f64::min);
    assert!(least <= 1.005 * 83_821.67, "{costs:?}");
}

/// No factors of that rank are nearer to the matrix than its further singular values; random ones are nearly as near.
#[test]
fn factors_of_residuals_are_nearly_the_best_of_their_rank() {
    for (rank, seed) in [(4, "seed=1"), (16, "seed=2"), (16, "seed=3"), (48, "seed=4")] {
        let settings = ["dims.S=192", "dims.D=128", &format!("dims.K={rank}"), seed];
        let (_, report) = run_graph("residual_svd.ron", &settings);
        let output = |name: &str| report["outputs"][name]["values"][0].as_f64().unwrap();
        let ratio = f64::from(rank * (192 + 128 + 1)) / (192.0 * 128.0);
        assert!((output("ratio") - ratio).abs() < 1e-6, "{rank}: {}", output("ratio"));
        let excess = output("excess");
        assert!(excess > 1.0 - 1e-4 && excess <= 1.05, "rank {rank}, {seed}: {excess}");
        assert!(output("largest") < 0.01 && output("tail") > 1e-3, "rank {rank}: {}", output("largest"));
    }
}

/// A uniform guess among the bytes of the text would cost about 3 nats.
#[test]
fn the_next_letter_of_a_text_is_learned() {
    let (ended, report) = run_graph("text.ron", &["train.max_steps=200", "train.batch=64"]);
    assert!(
        ended.errors.contains("note: numbers written by the program stand in for `text/tinyshakespeare.txt`")
    );
    let loss = report["stages"][1]["metrics"]["loss"].as_f64().unwrap();
    assert!(loss < 1.0, "{loss}");
}

#[test]
fn attention_to_all_keys_by_selection_is_dense_attention() {
    let (_, report) = run_graph("sparse_attention.ron", &["dims.T=128", "dims.LANDMARKS=4"]);
    let error = &report["outputs"]["error"];
    let error = error["values"][0].as_f64().unwrap_or_else(|| panic!("{report}"));
    assert!(error < 1e-5, "{error}");
}

/// The vectors are generated, and those of the data set if a data folder has it.
#[test]
fn a_search_finds_all_true_neighbours() {
    let metrics = |report: &Value| {
        let metrics = report["stages"][0]["metrics"].as_object().unwrap();
        metrics.values().map(|metric| metric.as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let (ended, report) = run_graph("search.ron", &[]);
    assert!(
        ended.results.contains("(on the built-in random-vectors, not on real data)"),
        "{}",
        ended.results
    );
    // The certified share, and recall at 1, 10 and 100.
    assert_eq!(metrics(&report), [1.0; 4]);
    let Some(data) = std::env::var_os("ENGINE_DATA_DIR").map(PathBuf::from) else { return };
    if !data.join("sift5k/sift5k_base.fvecs").exists() {
        eprintln!("skipped: there is no sift5k in {}", data.display());
        return;
    }
    let desk = Desk::new();
    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/search.ron");
    let mut command =
        desk.command(&["run", graph, "--device", "cpu", "--report", "report.json", "--data-dir"]);
    let ended = Ended::from(command.arg(data).output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(!ended.results.contains("not on real data"), "{}", ended.results);
    let report = serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap();
    assert_eq!(metrics(&report), [1.0; 4]);
}

/// A fraction of the training that `benches/long.sh` does in full. The bounds are far from chance: 5.5 for a byte, or 3.3 by
/// the frequencies of bytes, and an accuracy of 0.1.
#[test]
fn short_trainings_of_models_learn() {
    let gpt = ["dims.T=32", "dims.L=2", "dims.H=2", "dims.D=64", "train.max_steps=200", "train.batch=16"];
    let gpt = [&gpt[..], &["train.optimizer.lr=3e-3", "write.length=8"]].concat();
    let gru = ["dims.T=16", "dims.H=64", "train.max_steps=250", "train.optimizer.lr=1e-2"];
    let learned = |name: &str, settings: &[&str], metric: &str| {
        let desk = Desk::new();
        let graph = format!("{}/graphs/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut command = desk.command(&["run", &graph, "--device", "cpu", "--report", "report.json"]);
        settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
        if let Some(data) = std::env::var_os("ENGINE_DATA_DIR") {
            command.arg("--data-dir").arg(data);
        }
        let ended = Ended::from(command.output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let report: Value = serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap();
        let stages = report["stages"].as_array().unwrap();
        let test = stages.iter().find(|stage| stage["name"] == "test").unwrap();
        test["metrics"][metric].as_f64().unwrap()
    };
    let loss = learned("gpt.ron", &gpt, "loss");
    assert!(loss < 2.6, "the GPT has a loss of {loss}");
    let loss = learned("gru.ron", &gru, "loss");
    assert!(loss < 3.0, "the GRU has a loss of {loss}");
    let accuracy = learned("classifier_bn.ron", &["train.epochs=1"], "accuracy");
    assert!(accuracy > 0.93, "the classifier has an accuracy of {accuracy}");
}

/// As the head of the file says it: a table of rows without prices, after a short training.
#[test]
fn prices_of_new_houses_are_predicted() {
    let desk = Desk::new();
    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/houses.ron");
    let trained = desk.engine(&["run", graph, "--device", "cpu", "--set", "train.max_steps=200", "--quiet"]);
    assert_eq!(trained.code, 0, "{}", trained.errors);
    let context = engine::runtime::data::source::LoadContext::offline_in(&desk.path(""));
    let rows = engine_laws::Houses::texts(&context).unwrap()["test"].clone();
    desk.write("houses.csv", rows.lines().take(101).collect::<Vec<_>>().join("\n"));
    let predict = ["predict", graph, "--device", "cpu", "--load", "checkpoints/houses.safetensors"];
    let ended = desk.engine(&[&predict[..], &["--input", "houses.csv"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let prices: Vec<f64> = ended.results.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert_eq!((ended.results.lines().next(), prices.len()), (Some("price"), 100));
    assert!(prices.iter().all(|price| *price > 0.0), "{prices:?}");
}

/// GPT-2 with 124 million parameters is `gpt.ron` with other extents, on bytes or on the tokens of a tokenizer.
#[test]
fn a_gpt_of_the_size_of_gpt2_needs_no_other_graph() {
    let desk = Desk::new();
    desk.write("a.txt", "The licence of this work, and nothing else. ".repeat(600));
    desk.write("t.json", include_str!("../examples/tokenizer_gpt2.json"));
    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/gpt.ron");
    let of_gpt2 =
        ["dims.V=50257", "dims.T=1024", "dims.L=12", "dims.H=12", "dims.D=768", "data.text.file=a.txt"];
    let tokens =
        ["data.text.tokenizer=\"t.json\"", "inputs.token.type=i32[B, T]", "inputs.next.type=i32[B, T]"];
    for settings in [&of_gpt2[..], &[&of_gpt2[..], &tokens].concat()] {
        let mut command = desk.command(&["check", graph, "--data-dir", "."]);
        settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
        let ended = Ended::from(command.output().unwrap());
        assert_eq!((ended.code, ended.errors.contains("warning")), (0, false), "{}", ended.errors);
    }
}
