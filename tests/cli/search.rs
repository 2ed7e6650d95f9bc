//! `engine run` of a search: recall, files of results, and vectors of a wrong shape.

use engine::runtime::data::{results, vecs};

use super::*;

/// Five vectors on a line, and the ground truth for two queries.
const SEARCH: &str = r#"(
  data: {"points": (source: "vectors", base: "base.fvecs", queries: "q.npy", truth: "truth.ivecs")},
  inputs: {
    "base": (type: "f32[N, 2]", from: "points.base"),
    "query": (type: "f32[Q, 2]", from: "points.query"),
  },
  nodes: {"found": "nearest(query, base, k=2)"},
  stages: {
    "search": Search(
      data: "points", ids: "found.indices", distances: "found",
      write: (ids: "ids.ivecs", distances: "distances.npy"),
    ),
  },
)"#;

fn search_desk() -> Desk {
    let desk = Desk::new();
    desk.write("search.ron", SEARCH);
    fs::create_dir(desk.path("data")).unwrap();
    let matrix = |n_rows, elements: &[f32]| HostTensor::from_slice(&[n_rows, 2], elements).unwrap();
    let base = matrix(5, &[0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 4.0, 0.0, 8.0, 0.0]);
    results::write(&base, &desk.path("data/base.fvecs")).unwrap();
    results::write(&matrix(2, &[1.25, 0.0, 9.0, 0.0]), &desk.path("data/q.npy")).unwrap();
    let truth = HostTensor::from_slice(&[2, 2], &[1i32, 2, 4, 0]).unwrap();
    results::write(&truth, &desk.path("data/truth.ivecs")).unwrap();
    desk
}

#[test]
fn a_search_reports_recall_and_writes_its_results() {
    let desk = search_desk();
    let run = ["run", "search.ron", "--device", "cpu", "--report", "report.json"];
    let ended = desk.engine(&run);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.contains("search: recall@1 1.0000"), "{}", ended.results);
    let written = "wrote ids.ivecs\nwrote distances.npy\nsearch: 1 batches of queries, ";
    assert!(ended.errors.contains(written), "{}", ended.errors);
    let ids = vecs::read(&desk.path("ids.ivecs")).unwrap();
    assert_eq!((ids.shape(), ids.to_f64()), (&[2usize, 2][..], vec![1.0, 2.0, 4.0, 3.0]));
    let distances = npy::read(&desk.path("distances.npy")).unwrap();
    assert_eq!(distances.to_f64(), [0.0625, 0.5625, 1.0, 25.0]);
    let report: Value = serde_json::from_slice(&fs::read(desk.path("report.json")).unwrap()).unwrap();
    assert_eq!(report["stages"][0]["metrics"]["recall@1"], 1.0);
    let speed = |name: &str| report["stages"][0]["latency"][name].as_f64().unwrap();
    assert!(speed("p50_us") > 0.0 && speed("p50_us") == speed("p99_us") && speed("queries_per_second") > 0.0);
    assert!(
        ended.errors.contains(" each (p50 ") && ended.errors.contains(" queries/s), "),
        "{}",
        ended.errors
    );

    // Without ground truth there is no recall. A query by itself gives the results of the batch.
    let without = SEARCH
        .replace(", truth: \"truth.ivecs\"", "")
        .replace("search\": Search(", "search\": Search(batch: 1,");
    desk.write("search.ron", without);
    let ended = desk.engine(&run);
    assert_eq!((ended.code, ended.results.contains("recall")), (0, false), "{}", ended.errors);
    assert_eq!(vecs::read(&desk.path("ids.ivecs")).unwrap(), ids);
}

#[test]
fn results_of_a_search_replace_their_own_kind_only() {
    let desk = search_desk();
    let run = |more: &[&str]| desk.engine(&[&["run", "search.ron", "--device", "cpu"], more].concat());
    for (name, kind) in [("ids.ivecs", "a file of vectors"), ("distances.npy", "an array")] {
        desk.write(name, "notes of mine");
        let said = format!("error[E0505]: {name}: already exists, and is not {kind} of this program");
        check_failure(&run(&[]), 1, &said);
        check_failure(&desk.engine(&["check", "search.ron"]), 1, &said);
        assert_eq!(fs::read_to_string(desk.path(name)).unwrap(), "notes of mine");
        assert_eq!(run(&["--force"]).code, 0);
        assert_eq!(run(&[]).code, 0);
    }
}

#[test]
fn the_kernels_of_a_search_are_timed() {
    let desk = search_desk();
    let timed = |command: &str| {
        let ended = desk.engine(&[command, "search.ron", "--device", "cpu", "--steps", "3"]);
        assert_eq!((ended.code, ended.errors.as_str()), (0, ""), "{}", ended.results);
        ended.results
    };
    assert!(timed("bench").contains("\nsearch "));
    assert!(timed("profile").contains("stage search: "));
}

#[test]
fn generated_vectors_are_searched() {
    let desk = Desk::new();
    let files = r#"source: "vectors", base: "base.fvecs", queries: "q.npy", truth: "truth.ivecs""#;
    let drawn = r#"source: "mixture", kind: "spectrum", rows: 300, queries: 20, dim: 2"#;
    let run = |options: &str| {
        desk.write("search.ron", SEARCH.replace(files, options));
        desk.engine(&["run", "search.ron", "--device", "cpu", "--quiet"])
    };
    let ended = run(drawn);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let ids = vecs::read(&desk.path("ids.ivecs")).unwrap();
    assert_eq!(ids.shape(), [20, 2]);
    assert!(ids.to_f64().iter().all(|id| (0.0..300.0).contains(id)));
    let said = "error[E0010]: data `points`: option `kind` cannot be \"spectrums\"";
    check_failure(&run(&drawn.replace("spectrum", "spectrums")), 1, said);
    let said = "error[E0010]: data `points`: option `rows` cannot be 0";
    check_failure(&run(&drawn.replace("300", "0")), 1, said);
}

#[test]
fn vectors_that_cannot_be_searched_are_refused() {
    let desk = search_desk();
    let check = |said: &str| {
        let ended = desk.engine(&["run", "search.ron", "--device", "cpu", "--quiet"]);
        check_failure(&ended, 1, said);
    };
    let sound = fs::read(desk.path("data/base.fvecs")).unwrap();
    desk.write("data/base.fvecs", &sound[..50]);
    check("error[E0502]: data `points`: data/base.fvecs: vectors of length 2 take 12 bytes each");
    desk.write("data/base.fvecs", [&[3u8, 0, 0, 0][..], &[0; 12]].concat().repeat(4));
    check("error[E0506]: input `base`: its rows are f32[2], those of the data are f32[3]");
    desk.write("data/base.fvecs", &sound);
    desk.write("data/q.npy", "1,2");
    check("error[E0502]: data `points`: data/q.npy: at byte 0: not a .npy file");
    fs::remove_file(desk.path("data/q.npy")).unwrap();
    let query = HostTensor::from_slice(&[1, 2], &[1.0f32, 2.0]).unwrap();
    results::write(&query, &desk.path("data/q.npy")).unwrap();
    check("error[E0502]: data `points`: field `neighbours` has 2 rows, the first field has 1");
    fs::remove_file(desk.path("data/q.npy")).unwrap();
    check("error[E0501]: data `points`: data/base.fvecs is there but `q.npy` is not");
}
