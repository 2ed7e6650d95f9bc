#![allow(clippy::unwrap_used)]

use std::fs;

use std::path::Path;

use engine_core::ir::Attr;

use engine_runtime::data::source::{DataError, DataSet, LoadContext, Provenance, Sources};
use engine_runtime::diagnostic::Coded;

use super::idx_sets::FILES;

/// Writes a set of `n_train` and two rows into the folder, not gzipped; row `i` shows `i` in every pixel.
fn write_set(dir: &Path, n_train: u8) {
    fs::create_dir_all(dir).unwrap();
    for (images, labels, n_rows) in [(FILES[0], FILES[1], n_train), (FILES[2], FILES[3], 2)] {
        let pixels: Vec<u8> = (0..n_rows).flat_map(|row| [row; 784]).collect();
        let header = [0, 0, 8, 3, 0, 0, 0, n_rows, 0, 0, 0, 28, 0, 0, 0, 28];
        fs::write(dir.join(images), [&header[..], &pixels].concat()).unwrap();
        let digits: Vec<u8> = (0..n_rows).map(|row| row % 10).collect();
        fs::write(dir.join(labels), [&[0, 0, 8, 1, 0, 0, 0, n_rows][..], &digits].concat()).unwrap();
    }
}

fn small(roots: &[&Path]) -> LoadContext {
    let roots = roots.iter().map(|root| root.to_path_buf()).collect();
    let options = vec![("n_train".into(), Attr::from(20)), ("n_test".into(), Attr::from(10))];
    LoadContext { roots, options, ..LoadContext::offline_in(Path::new("")) }
}

fn load(name: &str, context: &LoadContext) -> Result<DataSet, DataError> {
    let mut sources = Sources::default();
    super::register(&mut sources).unwrap();
    sources.load(name, context)
}

#[track_caller]
fn check_error(outcome: Result<DataSet, DataError>, expected: &str) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn files_are_found_in_the_folder_of_the_set_and_in_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("all/mnist");
    write_set(&nested, 12);
    for root in [nested.parent().unwrap(), &nested] {
        let set = load("mnist", &small(&[root])).unwrap();
        assert_eq!((set.name.as_str(), set.note), ("mnist", None));
        assert_eq!(set.provenance, Provenance::Files { dir: nested.clone() });
        let train = set.splits["train"].fields();
        assert_eq!(format!("{train:?}"), r#"{"images": u8[12,28,28], "labels": u8[12]}"#);
        assert_eq!(train["images"].tensor().unwrap().bytes()[784 * 11], 11);
        assert_eq!(train["labels"].tensor().unwrap().bytes()[9..], [9, 0, 1]);
    }
}

#[test]
fn the_first_root_that_has_the_set_wins() {
    let dir = tempfile::tempdir().unwrap();
    let [empty, first, second] = ["empty", "first", "second"].map(|name| dir.path().join(name));
    write_set(&first, 3);
    write_set(&second, 4);
    let set = load("mnist", &small(&[&empty, &first, &second])).unwrap();
    assert_eq!(set.split("train").unwrap().n_rows(), 3);
}

#[test]
fn the_folder_of_one_set_is_not_read_as_another() {
    let dir = tempfile::tempdir().unwrap();
    let mnist = dir.path().join("mnist");
    write_set(&mnist, 3);
    let set = load("fashion-mnist", &small(&[&mnist])).unwrap();
    assert_eq!(set.stands_in_for(), Some("fashion-mnist"));
}

#[test]
fn a_missing_set_is_replaced_by_digits_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let set = load("mnist", &small(&[dir.path()])).unwrap();
    assert_eq!((set.name.as_str(), set.stands_in_for()), ("synthetic-digits", Some("mnist")));
    assert_eq!((set.splits["train"].n_rows(), set.splits["test"].n_rows()), (20, 10));
    let root = dir.path().display();
    let why = format!("it is not in {root}/mnist, {root}, and downloads are off");
    let expected = format!("the built-in synthetic digits stand in for `mnist`: {why}");
    assert_eq!(set.note.unwrap(), expected);
    let strict = LoadContext { stand_in: false, ..small(&[dir.path()]) };
    check_error(load("mnist", &strict), &format!("`mnist` cannot be had: {why}"));
    assert_eq!(load("synthetic-digits", &strict).unwrap().stands_in_for(), None);
}

#[test]
fn what_is_there_but_broken_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let context = small(&[dir.path()]);
    let [images, labels, ..] = FILES.map(|file| dir.path().join(file));

    write_set(dir.path(), 3);
    fs::remove_file(&labels).unwrap();
    check_error(
        load("mnist", &context),
        "has `train-images-idx3-ubyte` but neither `train-labels-idx1-ubyte` nor `train-labels-idx1-ubyte.gz`",
    );

    write_set(dir.path(), 3);
    fs::write(&images, &fs::read(&images).unwrap()[..1000]).unwrap();
    check_error(
        load("mnist", &context),
        "at byte 1000: the header says 2352 bytes of data but the file has 984",
    );

    write_set(dir.path(), 3);
    fs::write(&images, [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]).unwrap();
    check_error(load("mnist", &context), "u8[1,1,1] was read where the set `mnist` has u8[N,28,28]");

    write_set(dir.path(), 3);
    fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 2, 1, 1]).unwrap();
    check_error(
        load("mnist", &context),
        "u8[2] was read where the set `mnist` has one label for each of 3 images",
    );

    #[cfg(unix)]
    {
        fs::remove_file(&labels).unwrap();
        std::os::unix::fs::symlink("nowhere", &labels).unwrap();
        let error = load("mnist", &context).unwrap_err().to_string();
        assert!(error.contains("train-labels-idx1-ubyte: cannot be read: "), "{error}");
    }
}

#[test]
fn rows_can_be_limited() {
    let dir = tempfile::tempdir().unwrap();
    write_set(dir.path(), 30);
    let set = load("mnist", &small(&[dir.path()])).unwrap();
    assert_eq!((set.splits["train"].n_rows(), set.splits["test"].n_rows()), (20, 2));
}

#[test]
fn options_are_checked() {
    let with = |name: &str, value| LoadContext { options: vec![(name.into(), value)], ..small(&[]) };
    check_error(load("mnist", &with("rows", Attr::from(1))), "there is no option `rows`");
    for value in [Attr::from(0), Attr::from(-1), Attr::from(1 << 40), Attr::from(3.0), Attr::from(true)] {
        let error = load("synthetic-digits", &with("n_train", value.clone())).unwrap_err();
        assert_eq!(error.to_string(), format!("option `n_train` cannot be {value}"));
        assert_eq!(error.help().unwrap(), "it takes a whole number from 1 to 1000000");
    }
}

#[test]
fn names_that_are_not_there_are_listed_with_those_that_are() {
    let source = load("minst", &small(&[])).unwrap_err();
    assert_eq!(source.to_string(), "there is no data source `minst`");
    assert_eq!(source.help().unwrap(), "there are mnist, fashion-mnist, synthetic-digits");
    let set = load("synthetic-digits", &small(&[])).unwrap();
    let split = set.split("valid").unwrap_err();
    assert_eq!(split.to_string(), "data set `synthetic-digits` has no split `valid`");
    assert_eq!(split.help().unwrap(), "it has train, test");
    let field = set.splits["test"].field("pixels").unwrap_err();
    assert_eq!(field.to_string(), "the data has no field `pixels`");
    assert_eq!(field.help().unwrap(), "it has images, labels");
}
