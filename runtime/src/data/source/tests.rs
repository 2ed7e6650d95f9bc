#![allow(clippy::unwrap_used)]

use std::fs;

use std::path::Path;

use engine_core::ir::Attr;

use super::builtin::FILES;
use super::*;
use crate::diagnostic::Coded;
use crate::tensor::HostTensor;

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
    Sources::with_builtin().load(name, context)
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
        assert_eq!(train["images"].bytes()[784 * 11], 11);
        assert_eq!(train["labels"].bytes()[9..], [9, 0, 1]);
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
    assert_eq!(
        source.help().unwrap(),
        "there are mnist, fashion-mnist, synthetic-digits, files, csv, text, vectors, numbers"
    );
    let set = load("synthetic-digits", &small(&[])).unwrap();
    let split = set.split("valid").unwrap_err();
    assert_eq!(split.to_string(), "data set `synthetic-digits` has no split `valid`");
    assert_eq!(split.help().unwrap(), "it has train, test");
    let field = set.splits["test"].field("pixels").unwrap_err();
    assert_eq!(field.to_string(), "the data has no field `pixels`");
    assert_eq!(field.help().unwrap(), "it has images, labels");
}

struct Ramp;

impl Source for Ramp {
    fn name(&self) -> &str {
        "ramp"
    }
    fn summary(&self) -> &str {
        "numbers that rise"
    }
    fn load(&self, _: &LoadContext) -> Result<DataSet, DataError> {
        let x = HostTensor::from_slice(&[3], &[0.0f32, 1.0, 2.0])?;
        let train = Split::new(IndexMap::from([("x".to_string(), x)]))?;
        let splits = IndexMap::from([("train".to_string(), train)]);
        Ok(DataSet {
            name: "ramp".to_string(),
            provenance: Provenance::Synthetic,
            note: None,
            splits,
            names: IndexMap::new(),
        })
    }
}

#[test]
fn plugins_add_sources() {
    let mut sources = Sources::with_builtin();
    sources.register(Ramp).unwrap();
    assert_eq!(sources.load("ramp", &small(&[])).unwrap().splits["train"].n_rows(), 3);
    assert_eq!(sources.iter().last().unwrap().summary(), "numbers that rise");
    let twice = sources.register(Ramp).unwrap_err().to_string();
    assert_eq!(twice, "there is a data source `ramp` already");
}

#[test]
fn fields_of_a_split_have_the_same_rows() {
    let rows = |n_rows| HostTensor::from_slice(&[n_rows], &vec![0u8; n_rows]).unwrap();
    let split = |fields: &[(&str, HostTensor)]| {
        Split::new(fields.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())).collect())
    };
    let uneven = split(&[("x", rows(3)), ("y", rows(2))]).unwrap_err().to_string();
    assert_eq!(uneven, "field `y` has 2 rows, the first field has 3");
    let scalar = split(&[("x", rows(3)), ("y", HostTensor::scalar(0u8))]).unwrap_err().to_string();
    assert_eq!(scalar, "field `y` has no rows, the first field has 3");
    assert!(matches!(split(&[]), Err(DataError::NoRows)));
}

#[test]
fn a_share_of_the_training_rows_can_be_kept_for_validation() {
    let with = |share: Attr| {
        let options = vec![("n_train".into(), Attr::from(20)), ("validation".into(), share)];
        load("numbers", &LoadContext { options, ..small(&[]) })
    };
    let set = with(0.25.into()).unwrap();
    let rows = |split: &str| set.splits[split].field("number").unwrap().as_slice::<i32>().unwrap().to_vec();
    assert_eq!((rows("train").len(), rows("validation").len(), rows("test").len()), (15, 5, 1024));
    let mut all = [rows("train"), rows("validation")].concat();
    assert!(rows("validation") != [0, 1, 2, 3, 4] && rows("validation").is_sorted());
    all.sort_unstable();
    assert!(all.into_iter().eq(0..20));
    assert_eq!(with(0.25.into()).unwrap(), set);
    check_error(with(0.01.into()), "20 rows of `train` leave none to learn from or none to judge by");
    check_error(with(Attr::from(2)), "option `validation` cannot be 2");
}

#[test]
fn rows_of_a_program_make_a_source() {
    let row = |i: i32| [HostTensor::scalar(i), HostTensor::from_slice(&[2], &[i as f32, -1.0]).unwrap()];
    let split = Split::from_rows(["n", "x"], (0..3).map(row)).unwrap();
    assert_eq!(format!("{:?}", split.fields()), r#"{"n": i32[3], "x": f32[3,2]}"#);
    assert_eq!(split.field("x").unwrap().to_f64(), [0.0, -1.0, 1.0, -1.0, 2.0, -1.0]);
    let mut sources = Sources::with_builtin();
    sources.register(InMemory::new("mine").split("train", split.clone())).unwrap();
    let set = sources.load("mine", &LoadContext { options: vec![], ..small(&[]) }).unwrap();
    assert_eq!((set.is_synthetic(), &set.splits["train"]), (false, &split));

    let uneven = [[HostTensor::scalar(1i32)], [HostTensor::scalar(1.0f32)]];
    let uneven = Split::from_rows(["n"], uneven).unwrap_err().to_string();
    assert_eq!(uneven, "row 1: field `n` is f32[], that of the first row is i32[]");
    assert!(matches!(Split::from_rows(["n"], []), Err(DataError::NoRows)));
}
