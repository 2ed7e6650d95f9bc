//! Files of all types, and damaged ones.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::fuzz::many_times;
use crate::philox::WordStream;

fn idx(code: u8, extents: &[u32], data: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, code, extents.len() as u8];
    extents.iter().for_each(|extent| file.extend(extent.to_be_bytes()));
    file.extend(data);
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn check_error(file: &[u8], expected: &str) {
    let error = parse(Path::new("digits.idx"), file).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

fn written(file: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("digits.idx");
    fs::write(&path, file).unwrap();
    (dir, path)
}

#[test]
fn reads_ranks_one_to_four_gzipped_or_not() {
    let data: Vec<u8> = (0..24).collect();
    for extents in [&[24][..], &[4, 6], &[2, 3, 4], &[1, 2, 3, 4]] {
        let file = idx(8, extents, &data);
        let shape: Vec<usize> = extents.iter().map(|&extent| extent as usize).collect();
        let expected = HostTensor::from_slice(&shape, &data).unwrap();
        assert_eq!(parse(Path::new("plain"), &file).unwrap(), expected);
        assert_eq!(parse(Path::new("gzipped"), &gzip(&file)).unwrap(), expected);
    }
}

#[test]
fn reads_every_element_type() {
    fn check<T: crate::tensor::Element>(code: u8, elements: [T; 2], bytes: &[u8]) {
        let expected = HostTensor::from_slice(&[2], &elements).unwrap();
        assert_eq!(parse(Path::new("plain"), &idx(code, &[2], bytes)).unwrap(), expected);
        let (_dir, path) = written(&idx(code, &[2], bytes));
        let layout = layout(&path).unwrap();
        assert_eq!((layout.dtype, layout.is_big_endian), (expected.dtype(), bytes.len() > 2));
    }
    check(0x08, [1u8, 255], &[1, 255]);
    check(0x09, [1i8, -2], &[1, 254]);
    check(0x0b, [258i16, -2], &[1, 2, 255, 254]);
    check(0x0c, [16_909_060i32, -2], &[1, 2, 3, 4, 255, 255, 255, 254]);
    check(0x0d, [1.5f32, -2.0], &[0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0]);
    check(0x0e, [1.5f64, -2.0], &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0]);
    let (_dir, path) = written(&idx(0x09, &[1], &[1]));
    let error = read_labels(&path, 10).unwrap_err().to_string();
    assert!(error.ends_with("the magic number is 2305, 2049 was expected (a list of labels)"), "{error}");
}

#[test]
fn reads_images_and_labels_by_their_magic_numbers() {
    let (_dir, images) =
        written(&gzip(&[&2051u32.to_be_bytes()[..], &idx(8, &[1, 2, 2], &[9; 4])[4..]].concat()));
    assert_eq!(read_images(&images).unwrap().shape(), [1, 2, 2]);
    let error = read_labels(&images, 10).unwrap_err().to_string();
    assert!(
        error.ends_with("at byte 0: the magic number is 2051, 2049 was expected (a list of labels)"),
        "{error}"
    );

    let (_dir, labels) = written(&[&2049u32.to_be_bytes()[..], &idx(8, &[3], &[0, 9, 4])[4..]].concat());
    assert_eq!(read_labels(&labels, 10).unwrap().bytes(), [0, 9, 4]);
    let error = read_labels(&labels, 9).unwrap_err().to_string();
    assert!(error.ends_with("at byte 9: label 9 (row 1) is out of range, there are 9 classes"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = read(Path::new("no/such/file")).unwrap_err();
    assert!(error.to_string().starts_with("no/such/file: cannot be read: "), "{error}");
}

#[test]
fn headers_that_lie_are_refused() {
    check_error(&[], "digits.idx: at byte 0: the header has 4 bytes but the file ends after 0");
    check_error(&[0, 0, 8], "digits.idx: at byte 3: the header has 4 bytes but the file ends after 3");
    check_error(
        &[0, 0, 8, 2, 0, 0, 0, 1],
        "digits.idx: at byte 8: the header has 12 bytes but the file ends after 8",
    );
    check_error(
        b"<html>",
        "digits.idx: at byte 0: bad magic number 1013478509: an IDX file starts with two zero bytes",
    );
    check_error(
        &idx(0x0a, &[1], &[0; 4]),
        "digits.idx: at byte 2: 0x0a is no element type; 0x08, 0x09 and 0x0b to 0x0e are",
    );
    check_error(&idx(8, &[], &[0; 4]), "digits.idx: at byte 3: rank 0 is not supported, only 1 to 4 are");
    check_error(&idx(8, &[1; 5], &[0]), "digits.idx: at byte 3: rank 5 is not supported, only 1 to 4 are");
}

#[test]
fn sizes_that_do_not_fit_the_file_are_refused() {
    check_error(
        &idx(8, &[2, 3], &[1; 5]),
        "digits.idx: at byte 17: the header says 6 bytes of data but the file has 5",
    );
    check_error(
        &idx(8, &[2, 300], &[1; 5]),
        "digits.idx: at byte 17: the header says 600 bytes of data but the file has 5",
    );
    check_error(
        &idx(8, &[2, 3], &[1; 7]),
        "digits.idx: at byte 18: the header says 6 bytes of data but the file goes on after them",
    );
    let huge = [u32::MAX; 4];
    check_error(
        &idx(8, &huge, &[1]),
        "digits.idx: at byte 4: the header says u8[4294967295,4294967295,4294967295,4294967295], more than a file of 21 bytes can hold",
    );
    let bomb = gzip(&idx(8, &[1 << 30], &[0; 100]));
    let found = parse(Path::new("digits.idx"), &bomb).unwrap_err().fact;
    assert!(matches!(found, IdxFact::AbsurdSize { .. }), "{found}");
}

#[test]
fn damaged_gzip_streams_are_refused() {
    let file = gzip(&idx(8, &[200], &(0..200).collect::<Vec<u8>>()));
    for n_kept in 2..file.len() {
        let error = parse(Path::new("cut"), &file[..n_kept]).unwrap_err();
        assert!(matches!(error.fact, IdxFact::BadGzip(_)), "cut after {n_kept}: {error}");
    }
    let mut wrong_sum = file.clone();
    let n_bytes = wrong_sum.len();
    wrong_sum[n_bytes - 8] ^= 1;
    let error = parse(Path::new("sum"), &wrong_sum).unwrap_err();
    assert!(error.to_string().starts_with("sum: at byte 208: the gzip stream is damaged: "), "{error}");
    check_error(&[&file[..], b"tail"].concat(), "digits.idx: 4 bytes follow the end of the gzip stream");
    check_error(
        &gzip(&idx(8, &[3], &[0; 2])),
        "digits.idx: at byte 10: the header says 3 bytes of data but the file has 2",
    );
}

/// For any damage, the reader answers with an error or with a tensor that fits the bytes: no panic, and no
/// allocation beyond what the file can hold.
#[test]
fn survives_a_second_of_random_damage() {
    let data: Vec<u8> = (0..96).map(|byte| byte % 10).collect();
    let plain = idx(8, &[6, 4, 4], &data);
    let originals = [gzip(&plain), plain];
    let mut n_errors = 0u64;
    let n_runs = many_times(0x1d8, |stream| {
        let mut file = originals[stream.below(2) as usize].clone();
        damage(&mut file, stream);
        n_errors += u64::from(parse(Path::new("damaged"), &file).is_err());
    });
    assert!(n_errors > n_runs / 4, "{n_errors} errors in {n_runs} runs");
}

fn damage(file: &mut Vec<u8>, stream: &mut WordStream) {
    for _ in 0..=stream.below(3) {
        let place = stream.below(file.len().max(1) as u32) as usize;
        match stream.below(4) {
            0 => file.truncate(place),
            1 => file.insert(place.min(file.len()), stream.word() as u8),
            2 if place < 20 && !file.is_empty() => file[place] = [0, 1, 0x7f, 0xff][stream.below(4) as usize],
            _ if place < file.len() => file[place] ^= 1 << stream.below(8),
            _ => {}
        }
    }
}
