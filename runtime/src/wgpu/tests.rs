#![allow(clippy::unwrap_used)]
//! What memory of a GPU does by itself. Results of kernels are compared in `tests/gpu.rs` of the root package.

use super::*;

/// An emulated GPU; none, with a note, if there is none.
fn gpu() -> Option<WgpuDevice> {
    match WgpuDevice::new(Adapter::Software) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|device| device == "wgpu"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Copies move whole words; what lies beside the bytes that are written stays.
#[test]
fn any_bytes_are_written_and_read() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(11).unwrap();
    let read = |range: std::ops::Range<usize>| {
        let mut bytes = vec![0; range.len()];
        gpu.read(&buffer, range.start, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(0..11), [0; 11]);
    gpu.write(&buffer, 0, b"abcdefghijk").unwrap();
    gpu.write(&buffer, 3, b"XY").unwrap();
    gpu.write(&buffer, 10, b"Z").unwrap();
    assert_eq!(read(0..11), b"abcXYfghijZ");
    assert_eq!(read(2..7), b"cXYfg");
    assert_eq!(read(5..5), b"");
    let outside = DeviceError::OutOfRange { offset: 8, length: 4, bytes: 11 };
    assert_eq!(gpu.write(&buffer, 8, b"four").unwrap_err(), outside);
    assert_eq!(gpu.read(&buffer, 8, &mut [0; 4]).unwrap_err(), outside);
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let Some(gpu) = gpu() else { return };
    let error = gpu.allocate(1 << 60).unwrap_err().to_string();
    assert!(error.contains("has no buffers of"), "{error}");
    assert!(gpu.allocate(16).is_ok());
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let Err(error) = WgpuDevice::new(Adapter::Gpu(1000)) else { panic!("a thousand GPUs") };
    let error = error.to_string();
    let known = ["no GPU is found", "only a software adapter", "there is no GPU of number 1000"];
    assert!(known.iter().any(|text| error.contains(text)), "{error}");
}
