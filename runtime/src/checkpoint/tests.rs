#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use half::{bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

use engine_core::ir::DType;

use super::format::METADATA;
use super::mismatch::tensor_type;
use super::*;
use crate::files::{Overwrite, RealDisk};
use crate::fuzz::many_times;
use crate::philox::WordStream;

fn small(step: u64) -> Checkpoint {
    let tensors = [
        ("mask", HostTensor::from_bytes(DType::Bool, &[3], &[1, 0, 1]).unwrap()),
        ("w1", HostTensor::from_slice(&[2, 3], &[1.0f32, -2.5, f32::NAN, 0.0, -0.0, f32::INFINITY]).unwrap()),
        ("empty", HostTensor::zeros(DType::F32, &[0, 4]).unwrap()),
        ("step", HostTensor::scalar(step as i64)),
        ("bytes", HostTensor::from_slice(&[3], &[-128i8, 0, 127]).unwrap()),
        ("signed", HostTensor::from_slice(&[2], &[-32768i16, 32767]).unwrap()),
        ("unsigned", HostTensor::from_slice(&[1], &[65535u16]).unwrap()),
    ];
    Checkpoint {
        tensors: tensors.into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect(),
        step,
        seed: u64::MAX,
        cursor: Cursor { epoch: 3, row: 640 },
        fingerprint: "5f2b".to_string(),
        extra: IndexMap::from([("best \"loss\"".to_string(), "0.25\n".to_string())]),
    }
}

fn bytes_of(checkpoint: &Checkpoint) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    checkpoint.write(&path).unwrap();
    fs::read(path).unwrap()
}

fn parse(bytes: &[u8]) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::parse(Path::new("a.ckpt"), bytes)
}

/// A safetensors file with this header and this many bytes of data.
fn file(header: &str, n_data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; n_data]].concat()
}

#[test]
fn a_checkpoint_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/folder/a.ckpt");
    small(17).write(&path).unwrap();
    let read = Checkpoint::read(&path).unwrap();
    assert_eq!(read, small(17));
    assert!(read.tensors.keys().eq(["mask", "w1", "empty", "step", "bytes", "signed", "unsigned"]));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);

    small(18).write(&path).unwrap();
    assert_eq!(Checkpoint::read(&path).unwrap().step, 18);
    assert_eq!(parse(&bytes_of(&Checkpoint::default())).unwrap(), Checkpoint::default());
}

#[test]
fn the_same_checkpoint_is_the_same_bytes() {
    assert_eq!(bytes_of(&small(1)), bytes_of(&small(1)));
}

/// The reference implementation of the format reads our files, and finds every tensor aligned.
#[test]
fn other_tools_read_our_files() {
    let bytes = bytes_of(&small(17));
    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    let ours = small(17).tensors;
    assert_eq!(theirs.len(), ours.len());
    for (name, tensor) in &ours {
        let view = theirs.tensor(name).unwrap();
        assert_eq!((view.shape(), view.data()), (tensor.shape(), tensor.bytes()));
        assert_eq!(format!("{:?}", view.dtype()).to_lowercase(), tensor.dtype().name());
        let offset = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(offset % tensor.dtype().size(), 0, "{name}");
    }
}

#[test]
fn we_read_files_of_other_tools() {
    let f16s: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
    let bf16s: Vec<u8> = [3.0f32].iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect();
    let tensors = [
        ("layer.weight", TensorView::new(safetensors::Dtype::F16, vec![1, 2], &f16s).unwrap()),
        ("layer.bias", TensorView::new(safetensors::Dtype::BF16, vec![1], &bf16s).unwrap()),
        ("scale.i8", TensorView::new(safetensors::Dtype::I8, vec![2], &[127, 128]).unwrap()),
        ("scale.i16", TensorView::new(safetensors::Dtype::I16, vec![1], &[0, 128]).unwrap()),
        ("scale.u16", TensorView::new(safetensors::Dtype::U16, vec![1], &[0, 128]).unwrap()),
    ];
    let metadata = std::collections::HashMap::from([("format".to_string(), "pt".to_string())]);
    let bytes = safetensors::serialize(tensors, Some(metadata)).unwrap();
    let weights = Weights::parse(Path::new("a.safetensors"), &bytes).unwrap();
    assert_eq!(weights.metadata["format"], "pt");
    assert_eq!(weights.tensors["layer.weight"].to_f64(), [1.5, -2.0]);
    assert_eq!(weights.tensors["layer.bias"].to_f64(), [3.0]);
    assert_eq!(weights.tensors["scale.i8"].to_f64(), [127.0, -128.0]);
    assert_eq!(weights.tensors["scale.i16"].to_f64(), [-32768.0]);
    assert_eq!(weights.tensors["scale.u16"].to_f64(), [32768.0]);

    let error = parse(&bytes).unwrap_err();
    assert!(matches!(error.fact, CheckpointFact::NoChecksum), "{error}");
}

/// Files in other formats are neither read as checkpoints nor replaced by one.
#[test]
fn only_checkpoints_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let arrays = |overwrite| write_arrays_on(&RealDisk, &small(1).tensors, &path, overwrite);
    for foreign in ["(name: \"a graph\")", "12345678{\"w\":", "short"] {
        fs::write(&path, foreign).unwrap();
        let error = small(1).write(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("a.ckpt: already exists, and is not a checkpoint of this program"),
            "{error}"
        );
        assert!(arrays(Overwrite::Own).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
    }
    write_on(&RealDisk, &small(1), &path, Overwrite::Any).unwrap();
    small(2).write(&path).unwrap();
    assert_eq!(Checkpoint::read(&path).unwrap(), small(2));
    let error = arrays(Overwrite::Own).unwrap_err().to_string();
    assert!(error.ends_with("already exists, and is not an archive of this program"), "{error}");
    arrays(Overwrite::Any).unwrap();
    arrays(Overwrite::Own).unwrap();
    assert!(small(1).write(&path).is_err());
    fs::write(&path, "").unwrap();
    small(1).write(&path).unwrap();
}

#[test]
fn names_that_cannot_be_written_are_refused() {
    let error = small(1).write(Path::new("..")).unwrap_err();
    assert_eq!(error.to_string(), "..: is not the name of a file");
    let mut reserved = small(1);
    reserved.tensors.insert(METADATA.to_string(), HostTensor::scalar(0u8));
    let error = reserved.write(Path::new("never-written")).unwrap_err();
    assert_eq!(error.to_string(), "never-written: `__metadata__` cannot be the name of a tensor");
}

#[test]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let bytes = bytes_of(&small(17));
    for n_kept in 0..bytes.len() {
        assert!(parse(&bytes[..n_kept]).is_err(), "cut after {n_kept}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
    assert!(parse(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn damage_is_reported_with_its_place() {
    let bytes = bytes_of(&small(17));
    let n_bytes = bytes.len();
    let n_header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;

    // The data holds `step` (8 bytes), `w1` (24), and then tensors of smaller elements.
    let mut flipped = bytes.clone();
    flipped[8 + n_header + 9] ^= 0x10;
    let error = parse(&flipped).unwrap_err().to_string();
    let expected = format!("a.ckpt: at byte {}: tensor `w1` is damaged: its checksum is ", 8 + n_header + 8);
    assert!(error.starts_with(&expected), "{error}");

    let error = parse(&bytes[..n_bytes - 2]).unwrap_err().to_string();
    assert_eq!(error, "a.ckpt: the header says 44 bytes of data but the file has 42");

    let text = String::from_utf8(bytes[8..8 + n_header].to_vec()).unwrap();
    let changed = text.replace(r#""step":"17""#, r#""step":"71""#);
    let error = parse(&file(&changed, 44)).unwrap_err().to_string();
    assert!(error.starts_with("a.ckpt: at byte 8: the header is damaged: its checksum is "), "{error}");
}

#[track_caller]
fn check_error(bytes: &[u8], expected: &str) {
    let error = Weights::parse(Path::new("a.safetensors"), bytes).unwrap_err();
    assert_eq!(error.to_string(), format!("a.safetensors: {expected}"));
}

/// A file of one tensor `w`.
fn lone(dtype: &str, shape: &str, offsets: &str, n_data: usize) -> Vec<u8> {
    let entry = format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
    file(&entry, n_data)
}

#[test]
fn headers_that_lie_are_refused() {
    check_error(
        &[1, 2, 3],
        "a safetensors file starts with the length of its header in 8 bytes, but this file has 3",
    );
    check_error(
        &[0xff; 20],
        "no safetensors file, or damaged at byte 0: a header of 18446744073709551615 bytes does not fit a file of 20 bytes (or the limit of 100000000)",
    );
    check_error(b"PK\x03\x04\0\0\0\0\0\0m/data.pkl", "a zip archive, and no safetensors file");
    check_error(
        &file("[]", 0),
        "at byte 8: the header is damaged: invalid type: sequence, expected a map at line 1 column 0",
    );
    check_error(
        &file(r#"{"w":3}"#, 0),
        "at byte 8: the header is damaged: tensor `w`: invalid type: integer `3`, expected dtype, shape and data_offsets",
    );
    check_error(
        &lone("F8_E4M3", "[1]", "[0,1]", 1),
        "tensor `w` has element type F8_E4M3, which is not supported",
    );
    check_error(
        &lone("F32", "[4294967296,4294967296]", "[0,4]", 4),
        "tensor `w`: a tensor of type f32[4294967296,4294967296] is too large to address",
    );
    check_error(
        &lone("F32", "[2]", "[0,4]", 4),
        "tensor `w` should be bytes [0, 8] of the data, the header says [0, 4]",
    );
    check_error(
        &file(
            r#"{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"v":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
            4,
        ),
        "tensor `v` should be bytes [2, 4] of the data, the header says [1, 3]",
    );
    check_error(
        &lone("U8", "[1000000000000]", "[0,1000000000000]", 4),
        "the header says 1000000000000 bytes of data but the file has 4",
    );
    check_error(
        &lone("BOOL", "[1]", "[0,1]", 1),
        "tensor `w` of booleans has a byte that is neither 0 nor 1",
    );
    check_error(
        &file(&"[".repeat(5000), 0),
        "at byte 8: the header is damaged: invalid type: sequence, expected a map at line 1 column 0",
    );
}

#[test]
fn files_of_other_formats_are_named() {
    check_error(
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
        "an array of NumPy, which has no name, and no safetensors file; `numpy.savez` writes named arrays (`.npz`)",
    );
    let gzipped = "gzipped, which no file of weights may be; decompress it";
    check_error(b"\x1f\x8b\x08\x08\xd4\x03\x1b\x66\x00\x03", gzipped);
    // Without a time, the first bytes are the possible length of a header.
    let header = b"\x1f\x8b\x08\0\0\0\0\0";
    check_error(&[&header[..], &vec![3; 1 << 20]].concat(), gzipped);
    check_error(b"\n{\"w\": [1, 2]}", "JSON, and no safetensors file");
    // A header may begin as JSON does.
    let text = format!("{{{}}}", " ".repeat(0x7b - 2));
    assert!(Weights::parse(Path::new("a"), &file(&text, 0)).unwrap().tensors.is_empty());
}

/// A file with three tensors, of which the second one has an unsupported element type.
const MIXED: &str = r#"{
  "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
  "scale": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [2, 5]},
  "b": {"dtype": "U8", "shape": [1], "data_offsets": [5, 6]}
}"#;

#[test]
fn tensors_of_unsupported_types_matter_only_if_they_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let mut bytes = file(MIXED, 6);
    *bytes.last_mut().unwrap() = 9;
    fs::write(&path, &bytes).unwrap();
    let needed = |names: &[&str]| read_needed(&path, &|name| names.contains(&name));
    let tensors = needed(&["a", "b"]).unwrap();
    assert_eq!(format!("{tensors:?}"), r#"{"a": u8[2], "b": u8[1]}"#);
    assert_eq!(tensors["b"].bytes(), [9]);
    let unsupported = "w.safetensors: tensor `scale` has element type F8_E4M3, which is not supported";
    for error in [needed(&["scale"]), read_tensors(&path)] {
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with(unsupported), "{error}");
    }
    // The bytes of such a tensor must be in their place all the same.
    for (from, to, fault) in [
        ("[2, 5]", "[3, 5]", "tensor `scale` should be bytes [2, 4] of the data, the header says [3, 5]"),
        ("[2, 5]", "[5, 2]", "tensor `scale` should be bytes [2, 2] of the data, the header says [5, 2]"),
    ] {
        fs::write(&path, file(&MIXED.replace(from, to), 6)).unwrap();
        let error = needed(&["a"]).unwrap_err().to_string();
        assert!(error.ends_with(fault), "{error}");
    }
}

/// Two files with an index, as Hugging Face writes large models.
#[test]
fn an_index_names_the_files_of_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let index = at("model.safetensors.index.json");
    fs::write(at("1.safetensors"), file(MIXED, 6)).unwrap();
    fs::write(at("2.safetensors"), lone("U8", "[4]", "[0,4]", 4)).unwrap();
    let read = |map: &str| {
        let text = format!("{{\n  \"metadata\": {{\"total_size\": 7}},\n  \"weight_map\": {map}\n}}");
        fs::write(&index, text).unwrap();
        let tensors = read_needed(&index, &|name| name != "scale").map_err(|error| error.to_string());
        tensors.map(|tensors| format!("{tensors:?}"))
    };
    let all =
        r#"{"w": "2.safetensors", "b": "1.safetensors", "scale": "1.safetensors", "a": "1.safetensors"}"#;
    assert_eq!(read(all).unwrap(), r#"{"w": u8[4], "b": u8[1], "a": u8[2]}"#);
    let needed = read_tensors(&index).unwrap_err().to_string();
    assert!(needed.contains("1.safetensors: tensor `scale` has element type F8_E4M3"), "{needed}");
    // Only the tensors of the index count.
    assert_eq!(read(r#"{"a": "1.safetensors"}"#).unwrap(), r#"{"a": u8[2]}"#);
    let refused = |map: &str, said: &str| {
        let error = read(map).unwrap_err();
        assert!(error.ends_with(said), "{error}");
    };
    refused(
        r#"{"a": "1.safetensors", "c": "3.safetensors", "d": "4.safetensors", "e": "3.safetensors"}"#,
        "index.json: the index names files that are not beside it: `3.safetensors`, `4.safetensors`",
    );
    refused(
        r#"{"a": "2.safetensors"}"#,
        "index.json: the index has tensor `a` in `2.safetensors`, which lacks it",
    );
    for outside in ["../1.safetensors", "sub/../../1.safetensors", "/1.safetensors", ""] {
        let said =
            format!("the index has tensor `a` in `{outside}`, but files outside its folder are not read");
        refused(&format!(r#"{{"a": "{outside}"}}"#), &said);
    }
    fs::write(&index, r#"{"weights": {}}"#).unwrap();
    let error = read_tensors(&index).unwrap_err().to_string();
    let said = "index.json: JSON, but no index of safetensors files: missing field `weight_map`";
    assert!(error.contains(said), "{error}");
    // A file of the index is no index itself.
    fs::copy(&index, at("2.safetensors")).unwrap();
    refused(r#"{"w": "2.safetensors"}"#, "2.safetensors: JSON, and no safetensors file");
}

/// For every damage, the reader returns an error or the undamaged checkpoint. It does not panic, and allocates no more
/// than the size of the file.
#[test]
fn survives_a_second_of_random_damage() {
    let original = bytes_of(&small(17));
    many_times(0xc4e, |stream| {
        let mut bytes = original.clone();
        damage(&mut bytes, stream);
        match parse(&bytes) {
            Ok(checkpoint) => assert!(checkpoint == small(17) && bytes == original),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        // Without checksums, more damage passes.
        if let Ok(weights) = Weights::parse(Path::new("damaged"), &bytes) {
            let n_data: usize = weights.tensors.values().map(|tensor| tensor.bytes().len()).sum();
            assert!(n_data < bytes.len());
        }
    });
}

fn damage(bytes: &mut Vec<u8>, stream: &mut WordStream) {
    for _ in 0..=stream.below(3) {
        let place = stream.below(bytes.len().max(1) as u32) as usize;
        match stream.below(6) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place.min(bytes.len()), stream.word() as u8),
            2 if bytes.len() > 8 => {
                bytes[stream.below(8) as usize] = [0, 1, 0x7f, 0xff][stream.below(4) as usize]
            }
            // Replacing a digit or letter by another keeps the JSON valid more often than flipping a bit.
            3 if place < bytes.len() => bytes[place] = b"0123456789abFU[]{}\","[stream.below(20) as usize],
            _ if place < bytes.len() => bytes[place] ^= 1 << stream.below(8),
            _ => {}
        }
    }
}

#[test]
fn a_mismatch_names_every_difference() {
    let needed = |name: &str, dtype, shape: &[usize]| TensorType {
        name: name.to_string(),
        dtype,
        shape: shape.to_vec(),
    };
    let tensors = small(17).tensors;
    let all: Vec<TensorType> = tensors.iter().map(|(name, tensor)| tensor_type(name, tensor)).rev().collect();
    assert_eq!(compare(&all, &tensors), Ok(()));
    let other = [
        needed("w1", DType::F32, &[3, 2]),
        needed("w2", DType::F16, &[8]),
        needed("empty", DType::F32, &[0, 4]),
        needed("step", DType::I32, &[]),
    ];
    let expected = "the tensors do not match the graph
  `w2: f16[8]` is missing
  `mask: bool[3]` is not in the graph
  `bytes: i8[3]` is not in the graph
  `signed: i16[2]` is not in the graph
  `unsigned: u16[1]` is not in the graph
  `w1: f32[3,2]` is f32[2,3] in the file
  `step: i32[]` is i64[] in the file";
    assert_eq!(compare(&other, &tensors).unwrap_err().to_string(), expected);
}

#[test]
fn tensors_of_a_file_outlive_it_and_are_copied_before_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let (first, other) = (small(17), small(18));
    first.write(&path).unwrap();
    let mut read = Checkpoint::read(&path).unwrap();
    other.write(&path).unwrap();
    assert_eq!(read, first);
    for tensor in read.tensors.values_mut().filter(|tensor| !tensor.bytes().is_empty()) {
        let before = tensor.clone();
        tensor.bytes_mut()[0] ^= 1;
        assert_ne!(*tensor, before);
    }
    assert_eq!(Checkpoint::read(&path).unwrap(), other);
}
