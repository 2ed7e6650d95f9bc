//! Tests of writes, reads and staging buffers.

use super::*;

/// Copies move whole words. A write changes no other bytes of its words.
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
fn an_allocation_beyond_the_memory_is_an_error() {
    let Some(gpu) = gpu() else { return };
    let error = gpu.allocate(1 << 60).unwrap_err().to_string();
    assert!(error.contains("a buffer takes 1152921504606846976 bytes, and "), "{error}");
    assert!(gpu.allocate(16).is_ok());
}

/// A failed read does not disturb the next one.
#[test]
fn memory_is_read_after_a_failed_read() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(16).unwrap();
    gpu.write(&buffer, 0, b"abcdefghijklmnop").unwrap();
    let memory = buffer.memory::<WgpuMemory>().unwrap();
    let [staging, too_long] = [16, 64].map(|bytes| Staging::new(&gpu.gpu, bytes).unwrap());
    for _ in 0..2 {
        staging.copy(memory.buffer(), 0);
        too_long.copy(memory.buffer(), 0);
        let mut bytes = [0; 16];
        let error = staging.read(&mut bytes).unwrap_err();
        assert!(error.to_string().contains("overrun"), "{error}");
        staging.read(&mut bytes).unwrap();
        assert_eq!(&bytes, b"abcdefghijklmnop");
    }
}

/// wgpu holds a copy of each write until it is submitted.
#[test]
fn large_writes_need_little_staging_memory() {
    let Some(gpu) = gpu() else { return };
    let taken = || gpu.gpu.device.generate_allocator_report().map(|report| report.total_allocated_bytes);
    let Some(before) = taken() else { return eprintln!("skipped: wgpu does not tell what it has allocated") };
    let n_bytes = 3 * context::MOST_STAGED + 4;
    let buffer = gpu.allocate(n_bytes).unwrap();
    let mut found = vec![0; n_bytes];
    for (first, part) in [(7, n_bytes), (8, 1 << 22)] {
        // The period of the bytes divides no part.
        let mut bytes: Vec<u8> = (first..251).collect::<Vec<u8>>().repeat(n_bytes / 240);
        bytes.truncate(n_bytes);
        let parts = bytes.chunks(part).enumerate();
        parts.for_each(|(i, bytes)| gpu.write(&buffer, i * part, bytes).unwrap());
        let beside = taken().unwrap() - before - n_bytes as u64;
        assert!(beside <= 2 * context::MOST_STAGED as u64, "{beside} bytes beside what is written");
        gpu.read(&buffer, 0, &mut found).unwrap();
        assert!(found == bytes);
    }
}

type Call = fn(&WgpuDevice, &DeviceBuffer) -> Result<(), DeviceError>;

/// An error after the end of a call is reported once, by the next call.
#[test]
fn the_next_call_reports_an_asynchronous_error() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(16).unwrap();
    let memory = buffer.memory::<WgpuMemory>().unwrap();
    let too_long = Staging::new(&gpu.gpu, 64).unwrap();
    let calls: [Call; 3] = [
        |gpu, buffer| gpu.write(buffer, 0, &[0; 16]),
        |gpu, buffer| gpu.read(buffer, 0, &mut [0; 16]),
        |gpu, _| gpu.allocate(16).map(drop),
    ];
    for call in calls {
        too_long.copy(memory.buffer(), 0);
        let error = call(&gpu, &buffer).unwrap_err();
        assert!(matches!(error, DeviceError::Failed(_)), "{error}");
        assert!(error.to_string().starts_with(&format!("{}: ", gpu.gpu.state.name)), "{error}");
        assert!(error.to_string().contains("overrun"), "{error}");
        call(&gpu, &buffer).unwrap();
    }
}
