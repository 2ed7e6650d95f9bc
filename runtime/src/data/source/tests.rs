#![allow(clippy::unwrap_used)]

use std::path::Path;

use engine_core::ir::Attr;

use super::*;
use crate::tensor::HostTensor;

/// The file of a picture of some width and height, given its samples.
pub(super) fn png_file(
    size: [u32; 2],
    colour: png::ColorType,
    depth: png::BitDepth,
    samples: &[u8],
) -> Vec<u8> {
    let mut file = vec![];
    let mut encoder = png::Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(samples).unwrap();
    file
}

fn context() -> LoadContext {
    LoadContext { roots: vec![], ..LoadContext::offline_in(Path::new("")) }
}

#[track_caller]
fn check_error(outcome: Result<DataSet, DataError>, expected: &str) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.ends_with(expected), "{error}");
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
        Ok(DataSet { splits, ..DataSet::new("ramp", Provenance::Synthetic) })
    }
}

#[test]
fn plugins_add_sources() {
    let mut sources = Sources::with_builtin();
    sources.register(Ramp).unwrap();
    assert_eq!(sources.load("ramp", &context()).unwrap().splits["train"].n_rows(), 3);
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
        Sources::with_builtin().load("numbers", &LoadContext { options, ..context() })
    };
    let set = with(0.25.into()).unwrap();
    let rows = |split: &str| set.splits[split].tensor("number").unwrap().as_slice::<i32>().unwrap().to_vec();
    assert_eq!((rows("train").len(), rows("validation").len(), rows("test").len()), (15, 5, 1024));
    let mut all = [rows("train"), rows("validation")].concat();
    assert!(rows("validation") != [0, 1, 2, 3, 4] && rows("validation").is_sorted());
    all.sort_unstable();
    assert!(all.into_iter().eq(0..20));
    assert_eq!(with(0.25.into()).unwrap().splits, set.splits);
    check_error(with(0.01.into()), "20 rows of `train` leave none to learn from or none to judge by");
    check_error(with(Attr::from(2)), "option `validation` cannot be 2");
    let whole = with(0.0.into()).unwrap();
    assert_eq!(whole.splits.keys().collect::<Vec<_>>(), ["train", "test"]);
    let error = whole.split("validation").unwrap_err().to_string();
    assert_eq!(error, "data set `numbers` has no split `validation`, whose share is 0");
}

#[test]
fn rows_of_a_program_make_a_source() {
    let row = |i: i32| [HostTensor::scalar(i), HostTensor::from_slice(&[2], &[i as f32, -1.0]).unwrap()];
    let split = Split::from_rows(["n", "x"], (0..3).map(row)).unwrap();
    assert_eq!(format!("{:?}", split.fields()), r#"{"n": i32[3], "x": f32[3,2]}"#);
    assert_eq!(split.tensor("x").unwrap().to_f64(), [0.0, -1.0, 1.0, -1.0, 2.0, -1.0]);
    let mut sources = Sources::with_builtin();
    sources.register(InMemory::new("mine").split("train", split.clone())).unwrap();
    let set = sources.load("mine", &context()).unwrap();
    assert_eq!((set.is_synthetic(), &set.splits["train"]), (false, &split));

    let uneven = [[HostTensor::scalar(1i32)], [HostTensor::scalar(1.0f32)]];
    let uneven = Split::from_rows(["n"], uneven).unwrap_err().to_string();
    assert_eq!(uneven, "row 1: field `n` is f32[], that of the first row is i32[]");
    assert!(matches!(Split::from_rows(["n"], []), Err(DataError::NoRows)));
}
