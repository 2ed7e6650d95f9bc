//! The tensors of a model: element types, extents, and elements that lie in the model or in a file beside it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use prost::Message;

use crate::fault::{broken, malformed, unsupported};
use crate::narrow::Narrow;
use crate::proto::{EXTERNAL, TensorProto};

/// The help of messages about files that do not hold what they claim.
const DAMAGED: &str = "the file is damaged; export the model again";

/// A dense tensor with its elements, row-major and little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub dims: Vec<usize>,
    /// The elements.
    pub bytes: Bytes,
    /// The type whose numbers they are, if the engine lacks it.
    pub narrow: Option<&'static Narrow>,
}

/// An element type: that of the engine, and the narrower one whose numbers it carries, if there is one.
pub(crate) type Element = (DType, Option<&'static Narrow>);

/// The names of `TensorProto.DataType`, by number.
const TYPES: [&str; 27] = [
    "undefined",
    "f32",
    "u8",
    "i8",
    "u16",
    "i16",
    "i32",
    "i64",
    "string",
    "bool",
    "f16",
    "f64",
    "u32",
    "u64",
    "complex64",
    "complex128",
    "bf16",
    "float8e4m3fn",
    "float8e4m3fnuz",
    "float8e5m2",
    "float8e5m2fnuz",
    "u4",
    "i4",
    "float4e2m1",
    "float8e8m0",
    "u2",
    "i2",
];

/// The element type of a number of `TensorProto.DataType`; `what` has it.
///
/// # Errors
/// If the engine has no such type, and none that carries it.
pub(crate) fn element_of(number: i32, what: &str) -> Result<Element, Diagnostic> {
    let name = usize::try_from(number).ok().and_then(|number| TYPES.get(number));
    let Some(name) = name.filter(|_| number > 0) else {
        return Err(broken(format!("{what} has the unknown element type {number}"), DAMAGED));
    };
    element_from(i64::from(number)).ok_or_else(|| {
        let known = DType::ALL.map(DType::name).join(", ");
        unsupported(format!("{what} has elements of type {name}"), format!("supported types are {known}"))
    })
}

/// Reads a tensor of a model in that folder.
///
/// # Errors
/// If its parts contradict each other, or its elements lie outside the folder.
pub(crate) fn read(proto: &TensorProto, folder: Option<&Path>) -> Result<Stored, Diagnostic> {
    let what = format!("the tensor `{}`", proto.name);
    let (dtype, narrow) = element_of(proto.data_type, &what)?;
    let dims = proto.dims.iter().map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
    let dims = dims.map_err(|_| broken(format!("{what} has a negative extent"), DAMAGED))?;
    let n = dims.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
    let n = n.filter(|&n| n <= isize::MAX as usize / 64);
    let n =
        n.ok_or_else(|| broken(format!("{what} has extents {dims:?}, which no machine holds"), DAMAGED))?;
    let n_bytes = (n * narrow.map_or(8 * dtype.size(), Narrow::bits)).div_ceil(8);
    let bytes = match proto.data_location == EXTERNAL {
        true => external(proto, folder, n_bytes, &what)?,
        false if !proto.raw_data.is_empty() => proto.raw_data.clone(),
        false => typed(proto, dtype, narrow),
    };
    if bytes.len() != n_bytes {
        let message = format!(
            "{what} has extents {dims:?}, which are {n_bytes} bytes of {}, but {} bytes of data",
            narrow.map_or(dtype.name(), |narrow| narrow.name),
            bytes.len()
        );
        return Err(broken(message, DAMAGED));
    }
    if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
        return Err(broken(format!("{what} has a truth value other than 0 and 1"), DAMAGED));
    }
    let bytes = match narrow {
        Some(narrow) => narrow.decoded(bytes, n),
        None => bytes,
    };
    Ok(Stored { dtype, dims, bytes, narrow })
}

/// The elements in the field of their type.
fn typed(proto: &TensorProto, dtype: DType, narrow: Option<&Narrow>) -> Bytes {
    // Those of 8 bits and less lie in single bytes.
    let size = narrow.map_or(dtype.size(), |narrow| narrow.bits().div_ceil(8));
    match dtype {
        DType::I64 if narrow.is_some() => proto.uint64_data.iter().flat_map(|n| n.to_le_bytes()).collect(),
        DType::F32 if narrow.is_some() => proto.int32_data.iter().map(|n| *n as u8).collect(),
        DType::F32 => proto.float_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F64 => proto.double_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I64 => proto.int64_data.iter().flat_map(|n| n.to_le_bytes()).collect(),
        DType::U32 => proto.uint64_data.iter().flat_map(|&n| (n as u32).to_le_bytes()).collect(),
        // Halves and small integers lie in the low bytes of 32-bit integers.
        _ => proto.int32_data.iter().flat_map(|n| n.to_le_bytes().into_iter().take(size)).collect(),
    }
}

/// The elements in a file beside the model.
fn external(
    proto: &TensorProto,
    folder: Option<&Path>,
    n_bytes: usize,
    what: &str,
) -> Result<Bytes, Diagnostic> {
    let entry = |key: &str| {
        proto.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    };
    let location =
        entry("location").ok_or_else(|| broken(format!("{what} names no file for its data"), DAMAGED))?;
    let number = |key: &str, default: u64| match entry(key) {
        None => Ok(default),
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| broken(format!("{what} has no number as {key}: `{text}`"), DAMAGED)),
    };
    let (offset, length) = (number("offset", 0)?, number("length", n_bytes as u64)?);
    if length != n_bytes as u64 {
        return Err(broken(format!("{what} needs {n_bytes} bytes, its data are {length}"), DAMAGED));
    }
    let path = inside(folder, location, what)?;
    let unreadable = |error: std::io::Error| {
        broken(
            format!("{what}: {} cannot be read: {error}", path.display()),
            "keep the files of a model together",
        )
    };
    let mut file = File::open(&path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    let end = offset.checked_add(length);
    if !found.is_file() || end.is_none_or(|end| end > found.len()) {
        let message = format!("{what} ends beyond {}, which has {} bytes", path.display(), found.len());
        return Err(broken(message, DAMAGED));
    }
    let mut bytes = vec![0; n_bytes];
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes)).map_err(unreadable)?;
    Ok(bytes.into())
}

/// The path of a file of a model. It must lie in the model's folder, even through links.
fn inside(folder: Option<&Path>, location: &str, what: &str) -> Result<PathBuf, Diagnostic> {
    let outside = || {
        broken(
            format!("{what} lies in `{location}`, outside the folder of the model"),
            "data of a model lies in its own folder",
        )
    };
    let Some(folder) = folder else { return Err(outside()) };
    let relative = Path::new(location);
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_plain || location.is_empty() {
        return Err(outside());
    }
    let path = folder.join(relative);
    let missing = |error: std::io::Error| {
        broken(
            format!("{what}: {} cannot be read: {error}", path.display()),
            "keep the files of a model together",
        )
    };
    let (real, home) = (path.canonicalize().map_err(missing)?, folder.canonicalize().map_err(missing)?);
    if real.starts_with(home) { Ok(real) } else { Err(outside()) }
}

/// The number of an element type in `TensorProto.DataType`.
pub(crate) fn number_of(dtype: DType) -> i32 {
    TYPES.iter().position(|name| *name == dtype.name()).map_or(0, |number| number as i32)
}

/// The element type of a number of `TensorProto.DataType`, if the engine has it.
pub(crate) fn dtype_from(number: i64) -> Option<DType> {
    DType::from_name(TYPES.get(usize::try_from(number).ok()?)?)
}

/// The element type of a number of `TensorProto.DataType`, if the engine has it, or one that carries it.
pub(crate) fn element_from(number: i64) -> Option<Element> {
    let name = TYPES.get(usize::try_from(number).ok()?)?;
    let narrow = || Narrow::from_name(name).map(|narrow| (narrow.carrier, Some(narrow)));
    DType::from_name(name).map(|dtype| (dtype, None)).or_else(narrow)
}

impl Stored {
    /// A tensor of a type that the engine has.
    pub fn new(dtype: DType, dims: Vec<usize>, bytes: Bytes) -> Stored {
        Stored { dtype, dims, bytes, narrow: None }
    }

    /// Reads an encoded `TensorProto`, such as an operand of a test of ONNX. Also returns its name.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn decode(bytes: Vec<u8>) -> Result<(String, Stored), Diagnostic> {
        let proto =
            TensorProto::decode(Bytes::from(bytes)).map_err(|error| malformed("the tensor", &error))?;
        let stored = read(&proto, None)?;
        Ok((proto.name, stored))
    }
}
