//! Data that are loaded for their types alone.

use std::fs;
use std::path::Path;

use engine::Engine;
use engine::core::ir::{Attr, Symbol};
use engine::runtime::data::results;
use engine::runtime::data::source::{LoadContext, Split};
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;

/// Writes a file of each format that is described by its header, and some that are read.
fn write_files(dir: &Path) {
    let rows: Vec<f32> = (0..24).map(|x| x as f32).collect();
    let rows = HostTensor::from_slice(&[8, 3], &rows).unwrap();
    ["a.npy", "a.fvecs", "a.fbin"].iter().for_each(|file| results::write(&rows, &dir.join(file)).unwrap());
    fs::write(dir.join("a.csv"), "1\n2\n3\n4\n5\n6\n7\n8\n").unwrap();
    let images = HostTensor::from_slice(&[8, 2, 2], &[9u8; 32]).unwrap();
    fs::write(
        dir.join("images.idx"),
        [&[0, 0, 8, 3, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 2], images.bytes()].concat(),
    )
    .unwrap();
    let set = dir.join("mnist");
    fs::create_dir(&set).unwrap();
    for (part, n_rows) in [("train", 6u8), ("t10k", 4)] {
        let images =
            [&[0, 0, 8, 3, 0, 0, 0, n_rows, 0, 0, 0, 28, 0, 0, 0, 28][..], &vec![1; n_rows as usize * 784]];
        fs::write(set.join(format!("{part}-images-idx3-ubyte")), images.concat()).unwrap();
        let labels = [&[0, 0, 8, 1, 0, 0, 0, n_rows][..], &vec![1; n_rows as usize]];
        fs::write(set.join(format!("{part}-labels-idx1-ubyte")), labels.concat()).unwrap();
    }
}

/// `engine explain` compiles a stage from the types of its data. They are those that a run has, of each source that leaves
/// out rows.
#[test]
fn types_of_data_are_those_of_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let sources = Engine::new().sources;
    let options = |options: &[(&str, Attr)]| -> Vec<(Symbol, Attr)> {
        options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect()
    };
    let small = [("n_train", Attr::from(20)), ("n_test", Attr::from(10))];
    let validated = [&small[..], &[("validation", Attr::from(0.25))]].concat();
    let cases = [
        ("mnist", options(&[])),
        ("mnist", options(&[("n_train", Attr::from(5)), ("validation", Attr::from(0.4))])),
        // There are no files, so digits stand in.
        ("fashion-mnist", options(&small)),
        ("synthetic-digits", options(&validated)),
        ("choices", options(&validated)),
        ("mixture", options(&[("rows", Attr::from(30)), ("queries", Attr::from(7)), ("dim", Attr::from(5))])),
        (
            "vectors",
            options(&[("base", "a.fbin".into()), ("queries", "a.npy".into()), ("truth", "a.npy".into())]),
        ),
        ("vectors", options(&[("base", "images.idx".into()), ("queries", "a.fvecs".into())])),
        (
            "files",
            options(&[
                ("x", "a.npy".into()),
                ("y", "a.csv".into()),
                ("z", "images.idx".into()),
                ("validation", Attr::from(0.25)),
            ]),
        ),
    ];
    for (source, options) in cases {
        let context = LoadContext { options, ..LoadContext::offline_in(dir.path()) };
        let types_only = LoadContext { types_only: true, ..context.clone() };
        let [whole, types] = [&context, &types_only].map(|context| sources.load(source, context).unwrap());
        assert_eq!(format!("{:?}", types.splits), format!("{:?}", whole.splits), "{source}");
        assert_eq!((types.name, types.note), (whole.name, whole.note));
        let is_left_out = |splits: &IndexMap<String, Split>| {
            splits.values().flat_map(|split| split.fields().values()).any(|field| field.stored().is_none())
        };
        assert!(!is_left_out(&whole.splits) && is_left_out(&types.splits), "{source}");
    }
}

/// A fault of a header is the one that a run reports.
#[test]
fn faults_of_files_are_found_by_their_headers() {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let sources = Engine::new().sources;
    let context = LoadContext::offline_in(dir.path());
    let types_only = LoadContext { types_only: true, ..context.clone() };
    let labels = dir.path().join("mnist/train-labels-idx1-ubyte");
    let images = dir.path().join("mnist/train-images-idx3-ubyte");
    for (path, bytes) in [
        (&labels, &[0, 0, 8, 1, 0, 0, 0, 2, 1, 1][..]),
        (&labels, &[0, 0, 8, 1, 0, 0, 0, 9, 1, 1]),
        (&labels, &[0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1]),
        (&images, &[0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1]),
        (&images, &[0, 0, 8]),
        (&images, &[1, 2, 3, 4]),
    ] {
        let held = fs::read(path).unwrap();
        fs::write(path, bytes).unwrap();
        let faults =
            [&context, &types_only].map(|context| sources.load("mnist", context).unwrap_err().to_string());
        assert_eq!(faults[0], faults[1]);
        fs::write(path, held).unwrap();
    }
}

/// A `Run` takes files without rows for inputs without rows, and a data set does not.
#[test]
fn inputs_without_rows_come_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("y.npy");
    results::write(&HostTensor::from_slice::<f32>(&[0, 3], &[]).unwrap(), &path).unwrap();
    let file = path.display();
    let graph = format!(
        r#"(
            inputs: {{"y": "f32[K, 3]"}},
            nodes: {{"z": "sum(y, axis=0)"}},
            stages: {{"go": Run(outputs: ["z"], dims: {{"K": 0}}, inputs: {{"y": "{file}"}})}},
        )"#
    );
    super::session(&graph).run_stages(None, &mut |_| {}).unwrap();
    let options = vec![("x".into(), "y.npy".into())];
    let context = LoadContext { options, ..LoadContext::offline_in(dir.path()) };
    let sources = Engine::new().sources;
    let refused = sources.load("files", &context).unwrap_err().to_string();
    assert!(refused.ends_with("has no rows"), "{refused}");
    fs::write(&path, "hello world\nabc\n").unwrap();
    let refused = sources.load("files", &context).unwrap_err().to_string();
    assert!(refused.ends_with("not a .npy file"), "{refused}");
}
