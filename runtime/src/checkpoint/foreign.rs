//! Files of other formats, by their first bytes.

use super::CheckpointFact;

/// The fault of a file that begins with these bytes, where another format does.
pub(super) fn foreign(head: [u8; 8]) -> Option<CheckpointFact> {
    match head {
        [b'P', b'K', 3, 4, ..] => Some(CheckpointFact::Zip),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(CheckpointFact::Npy),
        [0x1f, 0x8b, 8, ..] => Some(CheckpointFact::Gzip),
        // The length of a header has zero bytes, which JSON has not.
        _ if head.trim_ascii_start().starts_with(b"{") && !head.contains(&0) => Some(CheckpointFact::Json),
        _ => None,
    }
}
