#![allow(clippy::unwrap_used)]

use std::fs;

use engine_core::ir::{Attr, Symbol};

use super::format::{FEATURES, LABEL, LABEL_AS, MISSING, SEPARATOR};
use super::*;

struct Desk(tempfile::TempDir);

impl Desk {
    fn load(&self, options: &[(&str, Attr)]) -> Result<DataSet, DataError> {
        self.load_as(options, &[])
    }

    fn load_as(&self, options: &[(&str, Attr)], types: &[(&str, DType)]) -> Result<DataSet, DataError> {
        let options = options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        let types = types.iter().map(|(name, dtype)| (Symbol::from(*name), *dtype)).collect();
        CSV.load(&LoadContext { options, types, ..LoadContext::offline_in(self.0.path()) })
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).unwrap();
    }
}

fn desk(text: &str) -> Desk {
    let desk = Desk(tempfile::tempdir().unwrap());
    desk.write("train.csv", text);
    desk
}

/// The last part of an error's text: what follows the folder.
fn error(text: &str, options: &[(&str, Attr)]) -> String {
    let file = [(FILE, Attr::from("train.csv"))];
    let error = desk(text).load(&[&file[..], options].concat()).unwrap_err();
    error.to_string().rsplit('/').next().unwrap().to_string()
}

#[test]
fn a_column_of_class_names_is_numbered_alike_in_all_splits() {
    let desk = desk("width;height;kind\n1;2;rose\n3;4;\"iris\"\n");
    desk.write("test.csv", "width;height;kind\n5;6;rose\n");
    let options = [(FILE, "{split}.csv".into()), (SEPARATOR, ";".into()), (LABEL, "kind".into())];
    let set = desk.load(&options).unwrap();
    let train = set.splits["train"].fields();
    assert_eq!(format!("{train:?}"), r#"{"features": f32[2,2], "label": i32[2]}"#);
    assert_eq!(train["features"].tensor().unwrap().to_f64(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(train["label"].tensor().unwrap().to_f64(), [1.0, 0.0]);
    assert_eq!(set.splits["test"].tensor("label").unwrap().to_f64(), [1.0]);
    assert_eq!(set.names["label"].classes, ["iris", "rose"]);
    assert_eq!(set.names["features"].columns, ["width", "height"]);
}

#[test]
fn splits_agree_by_the_names_of_their_columns() {
    let desk = desk("width,kind,height\n1,rose,2\n");
    desk.write("test.csv", "height,extra,width,kind\n4,x,3,rose\n");
    let options = [(FILE, "{split}.csv".into()), (LABEL, Attr::from(2))];
    let set = desk.load(&options).unwrap();
    assert_eq!(set.splits["test"].tensor(FEATURES).unwrap().to_f64(), [3.0, 4.0]);
    desk.write("test.csv", "hight,width,kind\n4,3,rose\n");
    let missing = desk.load(&options).unwrap_err().to_string();
    assert!(missing.ends_with("test.csv: there is no column `height`"), "{missing}");
    assert_eq!(error("a,a\n1,2\n", &[]), "train.csv: two columns are called `a`");
}

#[test]
fn labels_are_whole_numbers_or_numbers_if_all_are() {
    let label = |text: &str| {
        let options = [(FILE, "train.csv".into()), (LABEL, Attr::from(1))];
        desk(text).load(&options).map(|set| set.splits["train"].tensor(LABEL).unwrap())
    };
    assert_eq!(format!("{:?}", label("7,1\n-8,2\n").unwrap()), "i32[2]");
    let numbers = label("7,1\n0.5,2\n").unwrap();
    assert_eq!((format!("{numbers:?}"), numbers.to_f64()), ("f32[2]".to_string(), vec![7.0, 0.5]));
    let large = label("5000000001,1\n7,2\n").unwrap();
    assert_eq!(large.as_slice::<i64>().unwrap(), [5_000_000_001, 7]);
    let plain = desk("1,2\n").load(&[(FILE, "train.csv".into())]).unwrap();
    assert_eq!(format!("{:?}", plain.splits["train"].fields()), r#"{"features": f32[1,2]}"#);
}

/// One cell must not turn a column of numbers into names.
#[test]
fn a_label_that_is_missing_or_unlike_the_others_is_refused() {
    let refused = |cell: &str| error(&format!("x,y\n1,10\n2,20\n3,{cell}\n4,40\n"), &[(LABEL, "y".into())]);
    assert_eq!(refused(""), "train.csv:4: column 2 (`y`): the value is missing");
    assert_eq!(refused("NA"), "train.csv:4: column 2 (`y`): the value is missing (`NA`)");
    let message = "train.csv:4: column 2 (`y`): `3O` is a name, 3 other cells of this column are numbers";
    assert_eq!(refused("3O"), message);
    assert_eq!(refused("inf"), "train.csv:4: column 2 (`y`): `inf` is not a finite number");
    assert_eq!(refused("1e999"), "train.csv:4: column 2 (`y`): 1e999 is no f32");
    let mixed = "x,y\n1,rose\n2,7\n3,iris\n";
    let message = "train.csv:3: column 2 (`y`): `7` is a number, 2 other cells of this column are names";
    assert_eq!(error(mixed, &[(LABEL, "y".into())]), message);
    let classes = |text: &str| {
        let options = [(FILE, "train.csv".into()), (LABEL, "y".into()), (LABEL_AS, "classes".into())];
        desk(text).load(&options).unwrap().names[LABEL].classes.clone()
    };
    assert_eq!(classes(mixed), ["7", "iris", "rose"]);
    assert_eq!(classes("x,y\n1,DE\n2,NA\n"), ["DE", "NA"]);
}

#[test]
fn rows_with_missing_cells_are_left_out_or_nan_if_asked_for() {
    let text = "x,y\n1,10\n2,NA\n,30\n4,40\n";
    let load = |missing: &str| {
        desk(text).load(&[(FILE, "train.csv".into()), (LABEL, "y".into()), (MISSING, missing.into())])
    };
    let set = load("drop").unwrap();
    assert_eq!(set.splits["train"].tensor(FEATURES).unwrap().to_f64(), [1.0, 4.0]);
    assert_eq!(set.splits["train"].tensor(LABEL).unwrap().to_f64(), [10.0, 40.0]);
    assert!(set.note.unwrap().ends_with("train.csv: 2 rows with missing cells are left out"));
    assert!(load("nan").unwrap_err().to_string().ends_with("the value is missing (`NA`)"));
    let gaps = "x,y\n1,NA\n,NA\n3,\n";
    let dropped = "train.csv: all rows (3) are left out, since each has a missing cell: 1 in `x`, 3 in `y`";
    assert_eq!(error(gaps, &[(LABEL, "y".into()), (MISSING, "drop".into())]), dropped);
    let message = "option `missing` cannot be \"mean\"";
    assert_eq!(load("mean").unwrap_err().to_string(), message);
}

/// The type that the pipeline declares decides what is exact.
#[test]
fn whole_numbers_are_kept_where_the_declared_type_has_them() {
    let text = "id\n16777217\n9007199254740993\n";
    let features = |types: &[(&str, DType)]| {
        let set = desk(text).load_as(&[(FILE, "train.csv".into())], types).unwrap();
        (set.splits["train"].tensor(FEATURES).unwrap(), set.note)
    };
    let (exact, note) = features(&[(FEATURES, DType::I64)]);
    assert_eq!((exact.as_slice::<i64>().unwrap(), note), (&[16_777_217, 9_007_199_254_740_993][..], None));
    let (wide, note) = features(&[(FEATURES, DType::F64)]);
    assert_eq!(wide.to_f64()[0], 16_777_217.0);
    assert!(
        note.unwrap()
            .contains("train.csv:3: column 1 (`id`): 9007199254740993 becomes 9007199254740992 in f64")
    );
    let (_, note) = features(&[]);
    assert!(
        note.unwrap().contains("train.csv:2: column 1 (`id`): 16777217 becomes 16777216 in f32 (and 1 more)")
    );
}

#[test]
fn errors_name_the_cell() {
    let four = "train.csv:3: column 2 (`b`): `four` is not a number";
    assert_eq!(error("a,b\n1,2\n3,four\n", &[]), four);
    assert_eq!(error("a,b\n1,2\n3\n", &[]), "train.csv:3: 1 columns, the lines before have 2");
    assert_eq!(error("a,b\n", &[]), "train.csv: has no rows");
    assert_eq!(error("a,b\n1,2\n", &[(LABEL, "c".into())]), "option `label` cannot be \"c\"");
    assert_eq!(error("a,b\n1,2\n", &[(LABEL, 3.into())]), "option `label` cannot be 3");
    assert_eq!(error("1,2\n", &[(SEPARATOR, ";;".into())]), "option `separator` cannot be \";;\"");
    let desk = desk("1,2\n");
    assert_eq!(desk.load(&[]).unwrap_err().to_string(), "option `file` cannot be left out");
    desk.write("test.csv", "1,2,3\n");
    let uneven = desk.load(&[(FILE, "{split}.csv".into())]).unwrap_err().to_string();
    assert!(uneven.ends_with("has 2 columns of features") && uneven.contains("test.csv: 3 "), "{uneven}");
}

const HOUSES: &str = "price,rooms,city,area\n1.5,3,Bern,80\n,2,Aarau,60\n2.5,4,Bern,95\n";

/// The houses, as inputs of these types take them.
fn houses(types: &[(&str, DType)], options: &[(&str, Attr)]) -> Result<DataSet, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.csv"), HOUSES).unwrap();
    let options = [(FILE, Attr::from("a.csv"))].into_iter().chain(options.iter().cloned());
    let options = options.map(|(name, value)| (name.into(), value)).collect();
    let types = types.iter().map(|(name, dtype)| ((*name).into(), *dtype)).collect();
    let context = LoadContext { options, types, ..LoadContext::offline_in(dir.path()) };
    CSV.load(&context).map_err(|error| error.to_string().replace(&format!("{}/", dir.path().display()), ""))
}

#[test]
fn inputs_take_columns_by_their_names() {
    let types = [("price", DType::F32), ("city", DType::I64), (FEATURES, DType::F32)];
    let set = houses(&types, &[(MISSING, "nan".into())]).unwrap();
    let train = &set.splits["train"];
    let expected = r#"{"features": f32[3,2], "price": f32[3], "city": i64[3]}"#;
    assert_eq!(format!("{:?}", train.fields()), expected);
    assert_eq!(train.tensor(FEATURES).unwrap().to_f64(), [3.0, 80.0, 2.0, 60.0, 4.0, 95.0]);
    assert_eq!(train.tensor("city").unwrap().to_f64(), [1.0, 0.0, 1.0]);
    let price = train.tensor("price").unwrap().to_f64();
    assert!(price[0] == 1.5 && price[1].is_nan() && price[2] == 2.5);
    assert_eq!(set.names["price"].columns, ["price"]);
    assert_eq!(
        (&set.names["city"].columns[..], set.names["city"].classes.len()),
        (&["city".to_string()][..], 2)
    );
    assert_eq!(set.names[FEATURES].columns, ["rooms", "area"]);
}

/// Without an input for them, the other columns may hold anything.
#[test]
fn elements_are_ordered_by_their_places() {
    let elements = |header: &str| {
        let n = header.split(',').count();
        let cells: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        let set = desk(&format!("{header}\n{}\n", cells.join(",")))
            .load_as(&[(FILE, "train.csv".into())], &[("v", DType::F32)]);
        let text = |error: DataError| error.to_string().rsplit('/').next().unwrap().to_string();
        set.map(|set| rows(&set, "train", "v")).map_err(text)
    };
    assert_eq!(elements("v.2,a,v.0,v.1"), Ok(vec![2.0, 3.0, 0.0]));
    assert_eq!(elements("v.1.0,v.0.1,v.1.1,v.0.0"), Ok(vec![3.0, 1.0, 0.0, 2.0]));
    let missing = |name: &str| Err(format!("train.csv: there is no column `{name}`"));
    assert_eq!(elements("v.0,v.2"), missing("v.1"));
    assert_eq!(elements("v.1,v.2"), missing("v.0"));
    assert_eq!(elements("v.0.0,v.0.1,v.1.0"), missing("v.1.1"));
    let twelve: Vec<String> = (0..12).map(|i| format!("v.{i}")).collect();
    let mut by_name = twelve.clone();
    by_name.sort_unstable();
    let places = twelve.iter().map(|name| by_name.iter().position(|other| other == name).unwrap() as f64);
    assert_eq!(elements(&by_name.join(",")), Ok(places.collect()));
}

#[test]
fn columns_without_an_input_are_not_read() {
    let types = [("rooms", DType::I32), (LABEL, DType::F32)];
    let set = houses(&types, &[(LABEL, "area".into())]).unwrap();
    assert_eq!(format!("{:?}", set.splits["train"].fields()), r#"{"label": f32[3], "rooms": i32[3]}"#);
    let dropped = houses(&[("price", DType::F32)], &[(MISSING, "drop".into())]).unwrap();
    assert_eq!(dropped.splits["train"].n_rows(), 2);
}

#[test]
fn faults_of_named_columns_have_a_place() {
    let error = |types: &[(&str, DType)]| houses(types, &[]).unwrap_err();
    assert_eq!(error(&[("price", DType::F32)]), "a.csv:3: column 1 (`price`): the value is missing");
    assert_eq!(error(&[(FEATURES, DType::F32)]), "a.csv:2: column 3 (`city`): `Bern` is not a number");
    let nan = houses(&[("price", DType::I32)], &[(MISSING, "nan".into())]).unwrap_err();
    assert_eq!(nan, "a.csv:3: column 1 (`price`): the value is missing");
}

/// A folder with these splits, as the types take them.
fn splits(
    texts: &[(&str, &str)],
    types: &[(&str, DType)],
    options: &[(&str, Attr)],
) -> Result<DataSet, String> {
    let desk = Desk(tempfile::tempdir().unwrap());
    texts.iter().for_each(|(split, text)| desk.write(&format!("{split}.csv"), text));
    let names: Vec<&str> = texts.iter().map(|(split, _)| *split).collect();
    let file = [(FILE, Attr::from("{split}.csv")), ("splits", Attr::from(&*names.join(",")))];
    let folder = format!("{}/", desk.0.path().display());
    desk.load_as(&[&file[..], options].concat(), types)
        .map_err(|error| error.to_string().replace(&folder, ""))
}

const TRAIN_TEXT: &str = "area,rooms,city,price\n1,2,b,10\n,2,a,20\n3,2,,30\n5,2,b,40\n";
const TEST_TEXT: &str = "price,city,rooms,area\n50,a,3,\n60,,,3\n";

fn rows(set: &DataSet, split: &str, field: &str) -> Vec<f64> {
    set.splits[split].tensor(field).unwrap().to_f64()
}

#[test]
fn gaps_are_filled_from_the_training_rows_and_marked() {
    let types = [
        (FEATURES, DType::F32),
        ("city", DType::I32),
        ("price", DType::F32),
        ("area_missing", DType::F32),
        ("rooms_missing", DType::U8),
        ("city_missing", DType::Bool),
    ];
    let both = [("train", TRAIN_TEXT), ("test", TEST_TEXT)];
    let set = splits(&both, &types, &[(MISSING, "indicator".into())]).unwrap();
    // Only `area` has gaps in the training rows, so `rooms` has no element for its own.
    assert_eq!(rows(&set, "train", FEATURES), [1.0, 2.0, 0.0, 3.0, 2.0, 1.0, 3.0, 2.0, 0.0, 5.0, 2.0, 0.0]);
    assert_eq!(rows(&set, "test", FEATURES), [3.0, 3.0, 1.0, 3.0, 2.0, 0.0]);
    assert_eq!(set.names[FEATURES].columns, ["area", "rooms"]);
    // The most frequent name fills.
    assert_eq!(
        (rows(&set, "train", "city"), rows(&set, "test", "city")),
        (vec![1.0, 0.0, 1.0, 1.0], vec![0.0, 1.0])
    );
    assert_eq!(rows(&set, "train", "city_missing"), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(rows(&set, "test", "rooms_missing"), [0.0, 1.0]);
    assert_eq!(rows(&set, "train", "area_missing"), [0.0, 1.0, 0.0, 0.0]);
    let filled = splits(&both, &types[..3], &[(MISSING, "fill".into())]).unwrap();
    assert_eq!(rows(&filled, "test", FEATURES), [3.0, 3.0, 3.0, 2.0]);
    let unmarked = splits(&both, &types[3..4], &[(MISSING, "fill".into())]).unwrap_err();
    assert_eq!(unmarked, "a split needs at least one field with rows");
}

#[test]
fn statistics_leave_out_the_rows_for_validation() {
    let text: String = (0..10).map(|i| format!("{i},7,c{i}\n")).collect();
    let text = format!("x,same,kind\n{text}");
    let types = [(FEATURES, DType::F32), ("kind", DType::I32)];
    let options =
        [("validation", Attr::from(0.3)), ("standardize", true.into()), ("unknown", "class".into())];
    let set = splits(&[("train", &text)], &types, &options).unwrap();
    let train = rows(&set, "train", FEATURES);
    let x: Vec<f64> = train.iter().copied().step_by(2).collect();
    let mean = x.iter().sum::<f64>() / 7.0;
    let variance = x.iter().map(|x| x * x).sum::<f64>() / 7.0;
    assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-6, "{x:?}");
    assert!(train.iter().skip(1).step_by(2).all(|same| *same == 0.0));
    // Seven names are known. Those of the three other rows are all the reserved class.
    assert_eq!(rows(&set, "train", "kind"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(rows(&set, "validation", "kind"), [7.0, 7.0, 7.0]);
    assert_eq!(set.names["kind"].classes.last().unwrap(), "(unknown)");
    let refused = splits(&[("train", &text)], &types, &options[..2]).unwrap_err();
    assert!(refused.ends_with("is none of the 7 names of this column in the training rows"), "{refused}");
}

#[test]
fn what_the_training_rows_do_not_tell_is_refused() {
    let error = |test: &str, types: &[(&str, DType)], options: &[(&str, Attr)]| {
        splits(&[("train", TRAIN_TEXT), ("test", test)], types, options).unwrap_err()
    };
    let city = ("city", DType::I32);
    let unknown = error("city\nc\n", &[city], &[(MISSING, "fill".into())]);
    assert_eq!(
        unknown,
        "test.csv:2: column 1 (`city`): `c` is none of the 2 names of this column in the training rows"
    );
    // A name that was never learned cannot be predicted.
    let texts = [("train", "x,city\n1,a\n2,b\n"), ("test", "x,city\n3,c\n")];
    let label = splits(&texts, &[], &[(LABEL, "city".into()), ("unknown", "class".into())]).unwrap_err();
    assert_eq!(
        label,
        "test.csv:2: column 2 (`city`): `c` is none of the 2 names of this column in the training rows"
    );
    // The mean is no integer.
    let whole = error(TEST_TEXT, &[("area", DType::I32)], &[(MISSING, "fill".into())]);
    assert_eq!(whole, "train.csv:3: column 1 (`area`): the value is missing");
    let none = splits(&[("train", "a,b\n1,\n2,NA\n")], &[], &[(MISSING, "fill".into())]).unwrap_err();
    let message =
        "train.csv: column `b`: the training rows have no number in it, or numbers that are too large";
    assert_eq!(none, message);
    let types = [(FEATURES, DType::I32)];
    assert_eq!(
        error(TEST_TEXT, &types, &[("standardize", true.into())]),
        "option `standardize` cannot be true"
    );
    assert_eq!(error(TEST_TEXT, &[], &[("unknown", "drop".into())]), "option `unknown` cannot be \"drop\"");
}

/// The label is neither filled nor standardised, and columns that inputs take by name are not standardised.
#[test]
fn transformations_leave_the_label() {
    let options = [(LABEL, "price".into()), ("standardize", true.into()), (MISSING, "fill".into())];
    let types = [(LABEL, DType::F32), ("area", DType::F32)];
    let set = splits(&[("train", TRAIN_TEXT)], &types, &options).unwrap();
    assert_eq!(rows(&set, "train", LABEL), [10.0, 20.0, 30.0, 40.0]);
    assert_eq!(rows(&set, "train", "area"), [1.0, 3.0, 3.0, 5.0]);
    let gap = splits(&[("train", "a,price\n1,\n")], &[(LABEL, DType::F32)], &options).unwrap_err();
    assert_eq!(gap, "train.csv:2: column 2 (`price`): the value is missing");
}

#[test]
fn json_lines_are_tables_whose_columns_are_paths() {
    let desk = Desk(tempfile::tempdir().unwrap());
    let text = "{\"user\": {\"age\": 30, \"city\": \"Bern\"}, \"v\": [1, 2.5], \"ok\": true}\n\
                {\"v\": [3, null], \"user\": {\"city\": \"Aarau\"}, \"ok\": false}\n";
    desk.write("a.jsonl", text);
    let load = |types: &[(&str, DType)], options: &[(&str, Attr)]| {
        let file = [(FILE, Attr::from("a.jsonl")), (MISSING, Attr::from("fill"))];
        let options =
            file.iter().chain(options).map(|(name, value)| ((*name).into(), value.clone())).collect();
        let types = types.iter().map(|(name, dtype)| (Symbol::from(*name), *dtype)).collect();
        JSONL.load(&LoadContext { options, types, ..LoadContext::offline_in(desk.0.path()) })
    };
    let types = [(FEATURES, DType::F32), ("v", DType::F32), ("user.city", DType::I32), (LABEL, DType::I32)];
    let set = load(&types, &[(LABEL, "ok".into())]).unwrap();
    let expected = r#"{"features": f32[2,1], "v": f32[2,2], "label": i32[2], "user.city": i32[2]}"#;
    assert_eq!(format!("{:?}", set.splits["train"].fields()), expected);
    assert_eq!(rows(&set, "train", "v"), [1.0, 2.5, 3.0, 2.5]);
    assert_eq!(
        (rows(&set, "train", FEATURES), rows(&set, "train", LABEL)),
        (vec![30.0, 30.0], vec![1.0, 0.0])
    );
    assert_eq!(
        (&set.names["v"].columns[..], &set.names[FEATURES].columns[..]),
        (&["v.0".into(), "v.1".into()][..], &["user.age".into()][..])
    );
    assert_eq!(set.names["user.city"].classes, ["Aarau", "Bern"]);
    let separated = load(&types, &[(SEPARATOR, ";".into())]).unwrap_err().to_string();
    assert_eq!(separated, "there is no option `separator`");
}

/// The transformations of scikit-learn (`tests/examples/tables.py`).
#[test]
fn transformations_are_those_of_scikit_learn() {
    let recorded: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../tests/examples/tables.json")).unwrap();
    let texts = ["train", "test"].map(|split| (split, recorded[split].as_str().unwrap()));
    for case in recorded["cases"].as_array().unwrap() {
        let title = case["title"].as_str().unwrap();
        let missing = case["options"]["missing"].as_str().unwrap();
        let options = [
            (MISSING, Attr::from(missing)),
            ("standardize", case["options"]["standardize"].as_bool().unwrap_or(false).into()),
            ("unknown", "class".into()),
        ];
        let types = [(FEATURES, DType::F64), ("heating", DType::I32)];
        // Names may lack values only if they are filled.
        let types = if missing == "nan" { &types[..1] } else { &types };
        let texts = texts.map(|(split, text)| match missing {
            "nan" => (
                split,
                text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_string() + "\n").collect(),
            ),
            _ => (split, text.to_string()),
        });
        let texts = [(texts[0].0, &*texts[0].1), (texts[1].0, &*texts[1].1)];
        let set = splits(&texts, types, &options).unwrap();
        for (split, _) in texts {
            let expected =
                case["features"][split].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
            let expected: Vec<f64> = expected.map(|x| x.as_f64().unwrap_or(f64::NAN)).collect();
            let found = rows(&set, split, FEATURES);
            assert_eq!(found.len(), expected.len(), "{title}");
            let is_near =
                |x: f64, y: f64| (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-6 + 1e-12 * y.abs();
            for (place, (x, y)) in found.into_iter().zip(expected).enumerate() {
                assert!(is_near(x, y), "{title}, {split} {place}: {x}, not {y}");
            }
            if missing != "nan" {
                let classes: Vec<f64> = serde_json::from_value(recorded["classes"][split].clone()).unwrap();
                assert_eq!(rows(&set, split, "heating"), classes, "{title}");
            }
        }
    }
}
