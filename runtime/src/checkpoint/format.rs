//! The file format: names, limits and the order of tensors.

use indexmap::IndexMap;

use crate::tensor::HostTensor;

pub(super) const METADATA: &str = "__metadata__";
pub(super) const EXTRA_PREFIX: &str = "extra.";
pub(super) const TENSOR_SUM_PREFIX: &str = "crc32.";
/// Every header starts with these bytes, followed by the eight digits of its own checksum. The checksum is computed
/// with zeros in their place.
pub(super) const HEADER_START: &str = r#"{"__metadata__":{"header_crc32":""#;
pub(super) const NO_SUM: &str = "00000000";
/// The limit of the reference implementation.
pub(super) const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The data starts at a multiple of this.
pub(super) const DATA_ALIGNMENT: usize = 64;

/// Tensors in descending order of element size, so that every tensor in a file is aligned for its type. Some readers
/// require it.
pub(super) fn in_file_order(tensors: &IndexMap<String, HostTensor>) -> Vec<(&String, &HostTensor)> {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    sorted
}
