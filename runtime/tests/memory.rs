#![allow(clippy::unwrap_used, missing_docs)]
//! The memory needed to read a file: hardly more than its content.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use engine_core::ir::Attr;
use engine_runtime::checkpoint::{self, Checkpoint};
use engine_runtime::data::source::{LoadContext, Sources};
use engine_runtime::data::vecs::{self, Form};
use engine_runtime::data::{idx, npy, npz, table};
use engine_runtime::tensor::HostTensor;
use flate2::Compression;
use flate2::write::GzEncoder;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// Counts the allocated bytes and their peak.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

impl Counting {
    fn add(bytes: usize) {
        MOST.fetch_max(HELD.fetch_add(bytes, SeqCst) + bytes, SeqCst);
    }
}

// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::add(layout.size());
        // SAFETY: required of the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::add(layout.size());
        // SAFETY: required of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }
    /// A growing allocation may exist twice while it is copied. A shrinking one stays in place.
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size > layout.size() {
            true => {
                Counting::add(size);
                HELD.fetch_sub(layout.size(), SeqCst);
            }
            false => _ = HELD.fetch_sub(layout.size() - size, SeqCst),
        }
        // SAFETY: required of the caller.
        unsafe { System.realloc(start, layout, size) }
    }
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), SeqCst);
        // SAFETY: required of the caller.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Serializes the tests, since the counter includes all threads.
static ALONE: Mutex<()> = Mutex::new(());

/// The peak of allocated bytes during `work`, beyond those before.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.load(SeqCst);
    MOST.store(before, SeqCst);
    let done = work();
    (MOST.load(SeqCst) - before, done)
}

const N_ROWS: usize = 4096;
const N_BYTES: usize = N_ROWS * 1024;

/// Four mebibytes.
fn tensor() -> HostTensor {
    let elements: Vec<f32> = (0..N_BYTES / 4).map(|i| (i % 1000) as f32).collect();
    HostTensor::from_slice(&[N_ROWS, 256], &elements).unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx_of(extents: [u32; 2], bytes: &[u8]) -> Vec<u8> {
    let extents = extents.iter().flat_map(|extent| extent.to_be_bytes());
    [0, 0, 8, 2].into_iter().chain(extents).chain(bytes.iter().copied()).collect()
}

fn archive(path: &Path, method: CompressionMethod, array: &[u8]) {
    let mut archive = ZipWriter::new(File::create(path).unwrap());
    archive.start_file("x.npy", SimpleFileOptions::default().compression_method(method)).unwrap();
    archive.write_all(array).unwrap();
    archive.finish().unwrap();
}

#[test]
fn a_file_is_read_in_little_more_memory_than_its_content_takes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tensor = tensor();
    let write = |name: &str, write: &dyn Fn(&mut dyn Write)| write(&mut File::create(at(name)).unwrap());
    let rows = idx_of([N_ROWS as u32, 1024], tensor.bytes());
    write("a.idx", &|file| file.write_all(&rows).unwrap());
    write("a.idx.gz", &|file| file.write_all(&gzipped(&rows)).unwrap());
    write("a.npy", &|file| npy::write(&tensor, file).unwrap());
    write("a.fbin", &|file| vecs::write(&tensor, Form::CountsOnce, file).unwrap());
    write("a.fvecs", &|file| vecs::write(&tensor, Form::LengthOfEach, file).unwrap());
    let array = fs::read(at("a.npy")).unwrap();
    archive(&at("stored.npz"), CompressionMethod::Stored, &array);
    archive(&at("small.npz"), CompressionMethod::Deflated, &array);
    for name in ["a.idx", "a.idx.gz", "a.npy", "a.fvecs", "a.fbin", "stored.npz", "small.npz"] {
        let (peak, read) = self::peak(|| table::read(&at(name)).unwrap());
        assert_eq!(read.bytes(), tensor.bytes(), "{name}");
        assert!(peak < N_BYTES * 12 / 10, "{name}: {peak} bytes for {N_BYTES}");
    }
    // The same files, read as the data of a pipeline.
    let options = [("x", "a.npy"), ("y", "a.idx.gz")].map(|(name, file)| (name.into(), file.into())).to_vec();
    let context = LoadContext { options, ..LoadContext::offline_in(dir.path()) };
    let (peak, set) = self::peak(|| Sources::with_builtin().load("files", &context).unwrap());
    assert_eq!(set.splits["train"].n_rows(), N_ROWS);
    assert!(peak < 2 * N_BYTES * 12 / 10, "{peak} bytes for {}", 2 * N_BYTES);
    // A text is read line by line. Its numbers exist twice while columns are joined.
    let mut text = String::from("a,b,kind\n");
    (0..100_000).for_each(|i| text += &format!("{}.123456,{}.654321,{}\n", i % 1000, i % 777, i % 10));
    write("a.csv", &|file| file.write_all(text.as_bytes()).unwrap());
    for options in [vec![("file", "a.csv"), ("label", "kind")], vec![("x", "a.csv")]] {
        let source = if options.len() == 2 { "csv" } else { "files" };
        let options = options.into_iter().map(|(name, file)| (name.into(), file.into())).collect();
        let context = LoadContext { options, ..LoadContext::offline_in(dir.path()) };
        let (peak, set) = self::peak(|| Sources::with_builtin().load(source, &context).unwrap());
        assert_eq!(set.splits["train"].n_rows(), 100_000);
        assert!(peak < text.len() * 13 / 10, "{source}: {peak} bytes for {}", text.len());
    }
    // The tenth of the rows that is split off for validation exists twice for a moment.
    let options = [("x".into(), "a.npy".into()), ("validation".into(), Attr::from(0.1))].to_vec();
    let context = LoadContext { options, ..LoadContext::offline_in(dir.path()) };
    let (peak, set) = self::peak(|| Sources::with_builtin().load("files", &context).unwrap());
    assert_eq!(set.splits["train"].n_rows() + set.splits["validation"].n_rows(), N_ROWS);
    assert!(peak < N_BYTES * 13 / 10, "{peak} bytes for {N_BYTES} with validation");
}

/// Rows on disk take no memory but that of a batch. They are the rows that are read otherwise, also in big-endian order.
#[test]
fn rows_on_disk_are_not_read_into_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tensor = tensor();
    npy::write(&tensor, &mut File::create(at("a.npy")).unwrap()).unwrap();
    for (name, form) in [("a.fvecs", Form::LengthOfEach), ("a.fbin", Form::CountsOnce)] {
        vecs::write(&tensor, form, &mut File::create(at(name)).unwrap()).unwrap();
    }
    fs::write(at("a.idx"), idx_of([N_ROWS as u32, 1024], tensor.bytes())).unwrap();
    let mut turned = fs::read(at("a.npy")).unwrap();
    let (header, elements) = turned.split_at_mut(128);
    let order = header.iter().position(|&byte| byte == b'<').unwrap();
    header[order] = b'>';
    elements.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    fs::write(at("turned.npy"), turned).unwrap();
    let files = ["a.npy", "a.fvecs", "a.fbin", "a.idx", "turned.npy"];
    let load = |least_on_disk: u64| {
        let options = files.map(|file| (file.replace('.', "_").as_str().into(), file.into()));
        let options = options.into_iter().chain([("validation".into(), Attr::from(0.25))]).collect();
        let context = LoadContext { options, least_on_disk, ..LoadContext::offline_in(dir.path()) };
        Sources::with_builtin().load("files", &context).unwrap()
    };
    let (peak, on_disk) = peak(|| load(1));
    assert!(peak < N_BYTES / 10, "{peak} bytes for {} in files", files.len() * N_BYTES);
    let in_memory = load(u64::MAX);
    for split in ["train", "validation"] {
        let fields = on_disk.splits[split].fields();
        assert!(fields.values().all(|field| field.is_on_disk() && field.stored().is_none()));
        // All rows, then some in another order.
        assert_eq!(on_disk.splits[split], in_memory.splits[split]);
        for (name, field) in fields {
            let rows = [700, 3, 3, 1023];
            let mut copied = [vec![0; 4096], vec![0; 4096]];
            field.copy(5, &rows, &mut copied[0]);
            in_memory.splits[split].field(name).unwrap().copy(0, &rows, &mut copied[1]);
            assert_eq!(copied[0], copied[1], "{name}");
        }
    }
}

/// Faults of a file are found before its rows are used.
#[test]
fn damaged_files_do_not_stay_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let refuse = |name: &str, bytes: &[u8], said: &str| {
        fs::write(dir.path().join(name), bytes).unwrap();
        let options = vec![("x".into(), name.into())];
        let context = LoadContext { options, least_on_disk: 1, ..LoadContext::offline_in(dir.path()) };
        let error = Sources::with_builtin().load("files", &context).unwrap_err().to_string();
        assert!(error.ends_with(said), "{error}");
    };
    let mut array = vec![];
    npy::write(&HostTensor::from_slice(&[3], &[1i32, 2, 3]).unwrap(), &mut array).unwrap();
    refuse("a.npy", &array[..array.len() - 1], "the header says 12 bytes of data but the file has 11");
    let idx = idx_of([2, 3], &[0; 7]);
    refuse("a.idx", &idx, "the header says 6 bytes of data but the file goes on after them");
    refuse("a.idx", &idx[..15], "the header says 6 bytes of data but the file has 3");
    refuse("a.idx", &idx_of([u32::MAX, u32::MAX], &[]), "more than a file of 12 bytes can hold");
    let row = [2i32.to_le_bytes(), [0; 4], [0; 4]].concat();
    let other = [1i32.to_le_bytes(), [0; 4], [0; 4]].concat();
    refuse("a.fvecs", &[&row[..], &other].concat(), "vector 1 has length 1, those before have 2");
}

/// A header causes no allocation by itself: its sizes are checked against the file, and a failure is an error.
#[test]
fn bombs_take_no_memory_before_they_are_found_out() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb");
    let refuse = |bytes: &[u8], said: &str| {
        fs::write(&path, bytes).unwrap();
        let (peak, error) = peak(|| table::read(&path).unwrap_err().to_string());
        assert!(error.contains(said), "{error}");
        assert!(peak < N_BYTES, "{said}: {peak} bytes");
    };
    // A hundred mebibytes of zeros after a header of one row, and a header of terabytes before one row.
    let zeros = vec![0; 100 << 20];
    refuse(
        &gzipped(&idx_of([1, 16], &zeros)),
        "the header says 16 bytes of data but the file goes on after them",
    );
    refuse(&gzipped(&idx_of([u32::MAX, 1024], &[0; 1024])), "more than a file of ");
    let mut array = vec![];
    npy::write(&HostTensor::from_slice(&[1], &[0u8]).unwrap(), &mut array).unwrap();
    array.extend_from_slice(&zeros);
    archive(&path, CompressionMethod::Deflated, &array);
    let (peak, error) = peak(|| npz::read_only(&path).unwrap_err().to_string());
    assert!(error.contains("the header says 1 bytes of data but the file has 104857601"), "{error}");
    assert!(peak < N_BYTES, "{peak} bytes");
    // An impossible allocation is an error and does not end the process.
    let wide = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, ), }}", 1u64 << 57);
    let header = [&b"\x93NUMPY\x01\x00"[..], &(wide.len() as u16).to_le_bytes(), wide.as_bytes()].concat();
    let error = npy::parse(&path, &header).unwrap_err().to_string();
    assert!(error.contains("the header says"), "{error}");
    assert!(HostTensor::zeros(engine_core::ir::DType::F64, &[1 << 57]).is_err());
    assert!(idx::parse(&path, &idx_of([u32::MAX, u32::MAX], &[])).is_err());
}

/// The same of checkpoints, with checksums and without: tensors take little more than the file, and a header of any
/// sizes nothing.
#[test]
fn headers_of_checkpoints_take_no_memory_beyond_their_file() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.safetensors");
    let tensors = [("memory.keys".to_string(), tensor())].into_iter().collect();
    Checkpoint { tensors, ..Checkpoint::default() }.write(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let (peak, read) = self::peak(|| checkpoint::read_tensors(&path).unwrap());
    assert_eq!(read["memory.keys"].bytes(), tensor().bytes());
    assert!(peak < N_BYTES * 12 / 10, "{peak} bytes for {N_BYTES}");
    let refuse = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let (peak, error) = self::peak(|| checkpoint::read_tensors(&path).unwrap_err().to_string());
        assert!(peak < N_BYTES / 10, "{error}: {peak} bytes");
    };
    let entry = |shape: &str, end: u64| {
        let text = format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[0,{end}]}}}}"#);
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &[0; 64]].concat()
    };
    for shape in ["[1000000000,1000]", "[4611686018427387904,4]", "[18446744073709551615]", "[16,1]"] {
        [4_000_000_000_000, u64::MAX, 65].into_iter().for_each(|end| refuse(&entry(shape, end)));
    }
    for n_header in [u64::MAX, 99_999_999, 1 << 40] {
        refuse(&[&n_header.to_le_bytes(), &whole[8..1024]].concat());
    }
}
