//! Files of indexes: damaged ones, those of other indexes, and those of other programs, which have no checksums.

use crate::rows::{Kind, Random};
use crate::truth::{self, Value};
use crate::{Values, many, matrix, session};
use engine_runtime::diagnostic::Coded;
use engine_runtime::session::{Session, SessionError};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;
use safetensors::tensor::TensorView;
use std::fs;
use std::path::{Path, PathBuf};

const D: usize = 4;

/// A graph with an index as state.
fn graph([rows, d, block]: [usize; 3], metric: &str) -> String {
    let metric = format!(r#"metric=\"{metric}\""#);
    format!(
        r#"(
            inputs: {{"q": "f32[5, {d}]"}},
            layers: {{"memory": "TreeMemory(rows={rows}, dim={d}, block={block})"}},
            nodes: {{
                "m": "memory()",
                "x": "round(3.0 * normal(shape=[40, {d}]))",
                "built": "tree(x, room={rows}, block={block}, {metric})",
                "rows": "tree_check(m.*, {metric})",
                "near": "tree_nearest(q, m.*, k=3, budget=1, {metric})",
            }},
            stages: {{"build": Run(state: {{"memory.*": "built.*"}}), "check": Run(outputs: ["rows"])}},
        )"#
    )
}

const SIZES: [usize; 3] = [64, D, 8];

/// A folder with the file of an index.
struct Saved {
    dir: tempfile::TempDir,
    session: Session,
}

impl Saved {
    fn new() -> Saved {
        let mut session = session(&graph(SIZES, "l2"));
        let dir = tempfile::tempdir().unwrap();
        session.run_stage("build", &mut |_| {}).unwrap();
        session.save(&dir.path().join("index.safetensors")).unwrap();
        Saved { dir, session }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("index.safetensors")
    }
}

/// Fails unless an error names the file, and says what helps.
fn check_error(error: &SessionError, path: &Path, name: &str) {
    let help = error.help().unwrap_or_else(|| panic!("{name}: no help for {error}"));
    let said = format!("{error}\n{help}");
    assert!(said.contains(path.to_str().unwrap()), "{name}: {said}");
}

#[test]
fn damage_is_found_out_and_leaves_the_state_as_it_is() {
    let mut saved = Saved::new();
    let (path, whole) = (saved.path(), fs::read(saved.path()).unwrap());
    let before = saved.session.parameters().unwrap();
    let mut refused = |bytes: &[u8], name: &str| {
        fs::write(&path, bytes).unwrap();
        let error = saved.session.load(&path).expect_err(name);
        check_error(&error, &path, name);
    };
    for n_kept in (0..whole.len()).step_by(1 + 40 / many(1)) {
        refused(&whole[..n_kept], &format!("cut off after {n_kept} bytes"));
    }
    let mut random = Random::new(0xf1e);
    for at in (0..whole.len()).step_by(1 + 20 / many(1)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << random.below(8);
        refused(&bytes, &format!("a bit of byte {at}"));
    }
    // Counts of all bits, and a header that says so.
    refused(&[&[0xff; 8], &whole[8..]].concat(), "a header of any length");
    let text = String::from_utf8_lossy(&whole).replacen("[64,4]", "[4611686018427387904,4]", 1);
    refused(text.as_bytes(), "an extent of any size");
    assert_eq!(saved.session.parameters().unwrap(), before);
}

#[test]
fn files_of_other_indexes_are_refused() {
    let saved = Saved::new();
    let others = [
        ("another metric", SIZES, "cosine"),
        ("another block", [64, D, 16], "l2"),
        ("another dimension", [64, D + 1, 8], "l2"),
        ("other rows", [72, D, 8], "l2"),
    ];
    for (name, sizes, metric) in others {
        let mut session = session(&graph(sizes, metric));
        let loaded = session.load(&saved.path()).and_then(|_| session.run_stage("check", &mut |_| {}));
        check_error(&loaded.map(|_| ()).expect_err(name), &saved.path(), name);
    }
    // An index that was not built.
    let mut session = session(&graph(SIZES, "l2"));
    session.save(&saved.path()).unwrap();
    session.load(&saved.path()).unwrap();
    let error = session.run_stage("check", &mut |_| {}).unwrap_err();
    check_error(&error, &saved.path(), "not built");
}

/// Writes tensors as other programs do, without checksums.
fn write_foreign(path: &Path, tensors: &IndexMap<String, HostTensor>) {
    let views = tensors.iter().map(|(name, tensor)| {
        let dtype =
            if tensor.dtype().name() == "i32" { safetensors::Dtype::I32 } else { safetensors::Dtype::F32 };
        (name.as_str(), TensorView::new(dtype, tensor.shape().to_vec(), tensor.bytes()).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Spoils some elements of a tensor.
fn spoil(tensor: &mut HostTensor, random: &mut Random) {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -1.0, 1e30, 1e-40, f32::MAX];
    for _ in 0..=random.below(3) {
        let bytes = tensor.bytes_mut();
        let at = 4 * random.below(bytes.len() / 4);
        let element: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        let number = f32::from_le_bytes(element);
        let spoiled = match random.below(6) {
            0 => random.pick(&odd).to_le_bytes(),
            1 => random.pick(&[-2, -1, 0, 1, 40, 1_000_000, i32::MIN, i32::MAX]).to_le_bytes(),
            2 => (number * 0.5).to_le_bytes(),
            3 => (number + random.normal()).to_le_bytes(),
            4 => (u32::from_le_bytes(element) ^ 1 << random.below(32)).to_le_bytes(),
            _ => {
                let other = 4 * random.below(bytes.len() / 4);
                bytes[other..other + 4].try_into().unwrap()
            }
        };
        bytes[at..at + 4].copy_from_slice(&spoiled);
    }
}

/// The fault of a search of the state of a session: whether it lacks a row.
fn fault(session: &Session, q: &[f32], found: &[f64]) -> Option<String> {
    let state = session.parameters().unwrap();
    let ids = state["memory.ids"].as_slice::<i32>().unwrap();
    let keys = state["memory.keys"].as_slice::<f32>().unwrap();
    let mut slots: Vec<usize> = (0..ids.len()).filter(|&slot| ids[slot] >= 0).collect();
    slots.sort_by_key(|&slot| ids[slot]);
    let rows: Vec<f32> = slots.iter().flat_map(|&slot| keys[slot * D..][..D].to_vec()).collect();
    let place = |id: f64| slots.iter().position(|&slot| f64::from(ids[slot]) == id);
    let (queries, results) = (q.chunks_exact(D), found.chunks_exact(3));
    queries.zip(results).find_map(|(q, found)| {
        let found: Vec<f64> = found.iter().map(|&id| place(id).map_or(-1.0, |place| place as f64)).collect();
        truth::fault(&Value::all("l2", q, &rows), &rows, &found)
    })
}

/// A file without checksums is refused by `tree_check`, or a search of it lacks no row.
#[test]
fn spoiled_indexes_of_other_programs_are_refused_or_searched_rightly() {
    let mut saved = Saved::new();
    let mut random = Random::new(0x5901);
    let (path, sound) = (saved.path(), saved.session.parameters().unwrap());
    let (mut n_refused, n_cases) = (0, many(200));
    for case in 0..n_cases {
        let mut tensors = sound.clone();
        if case > 0 {
            let at = random.below(tensors.len());
            spoil(&mut tensors[at], &mut random);
        }
        write_foreign(&path, &tensors);
        saved.session.load(&path).unwrap();
        let q = Kind::Whole.rows(&mut random, [5, D]);
        let names = ["rows", "near.indices"].map(String::from);
        match Values::of(&saved.session, &names, &[("q", matrix([5, D], &q))]) {
            Err(error) => {
                assert!(case > 0 && error.to_string().contains("does not hold"), "{error}");
                n_refused += 1;
            }
            Ok(found) => {
                assert!(
                    found.at("near.indices").iter().all(|&id| id >= 0.0),
                    "there are more rows than are wanted"
                );
                let fault = fault(&saved.session, &q, found.at("near.indices"));
                assert_eq!(fault, None, "{q:?} in {tensors:?}");
            }
        }
    }
    assert!(n_refused > n_cases / 4, "{n_refused} of {n_cases}");
    println!("{n_cases} spoiled indexes, {n_refused} of them refused");
}
