//! Fetching the files of a data set, checked against their published checksums.
//!
//! Connections are not encrypted: the checksums are part of the program, so a file that was tampered with on its
//! way is refused, and this spares a TLS library.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::source::{FILES, IdxSet, LoadContext};

/// More than the largest file, so that a wrong address cannot fill the memory.
const MOST_BYTES: u64 = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const FILE_TIMEOUT: Duration = Duration::from_secs(180);

/// Something that gets the bytes behind an address.
pub(super) trait Fetch {
    fn fetch(&self, url: &str) -> Result<Vec<u8>, String>;
}

/// The network.
pub(super) struct Web {
    agent: ureq::Agent,
}

impl Web {
    pub(super) fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(FILE_TIMEOUT))
            .build();
        Web { agent: config.into() }
    }
}

impl Fetch for Web {
    fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut response = self.agent.get(url).call().map_err(|error| format!("{url}: {error}"))?;
        let body = response.body_mut().with_config().limit(MOST_BYTES).read_to_vec();
        body.map_err(|error| format!("{url}: {error}"))
    }
}

/// Fetches the files of the set into its folder under the first root, and returns that folder.
///
/// Nothing is written unless all files arrived and their checksums are right.
pub(super) fn download(set: &IdxSet, context: &LoadContext, web: &dyn Fetch) -> Result<PathBuf, String> {
    let root = context.roots.first().ok_or("there is no folder to download it to")?;
    let dir = root.join(set.name);
    (context.say)(&format!("downloading `{}` to {}", set.name, dir.display()));
    let mut files = Vec::new();
    for (file, sha256) in FILES.iter().zip(set.sha256) {
        files.push((format!("{file}.gz"), fetch_checked(set, file, sha256, web)?));
    }
    install(&dir, &files).map_err(|error| format!("{} cannot be written: {error}", dir.display()))?;
    Ok(dir)
}

/// The file from the first mirror that has it with the right checksum.
fn fetch_checked(set: &IdxSet, file: &str, sha256: &str, web: &dyn Fetch) -> Result<Vec<u8>, String> {
    let mut failures = Vec::new();
    for mirror in set.mirrors {
        let url = format!("{mirror}/{file}.gz");
        match web.fetch(&url) {
            Ok(bytes) if hex(&Sha256::digest(&bytes)) == sha256 => return Ok(bytes),
            Ok(_) => failures.push(format!("{url}: its checksum is wrong")),
            Err(failure) => failures.push(failure),
        }
    }
    Err(format!("its download failed ({})", failures.join("; ")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes all files under temporary names before the first gets its own, so that a full disk leaves no part of a
/// set, which later runs would take for a broken one.
fn install(dir: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    let partial = |name: &str| dir.join(format!("{name}.part"));
    fs::create_dir_all(dir)?;
    let outcome = files
        .iter()
        .try_for_each(|(name, bytes)| fs::write(partial(name), bytes))
        .and_then(|()| files.iter().try_for_each(|(name, _)| fs::rename(partial(name), dir.join(name))));
    if outcome.is_err() {
        // What cannot be removed either is told by the first error.
        files.iter().for_each(|(name, _)| drop(fs::remove_file(partial(name))));
    }
    outcome
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Serves, from memory, what its function makes of an address.
    struct Canned<F>(F);

    impl<F: Fn(&str) -> Result<Vec<u8>, String>> Fetch for Canned<F> {
        fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
            (self.0)(url)
        }
    }

    /// Four files that all hold `abc`, the example of the SHA-256 standard.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SET: IdxSet = IdxSet {
        name: "mnist",
        summary: "",
        mirrors: &["http://first", "http://second"],
        sha256: [ABC, ABC, ABC, ABC],
    };

    #[test]
    fn the_next_mirror_helps_out() {
        let dir = tempfile::tempdir().unwrap();
        let web = Canned(|url: &str| match url.starts_with("http://first") {
            true => Ok(b"a page to log in".to_vec()),
            false => Ok(b"abc".to_vec()),
        });
        let folder = download(&SET, &LoadContext::offline_in(dir.path()), &web).unwrap();
        assert_eq!(folder, dir.path().join("mnist"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        for file in FILES {
            assert_eq!(fs::read(folder.join(format!("{file}.gz"))).unwrap(), b"abc");
        }
    }

    #[test]
    fn a_wrong_checksum_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let web = Canned(|url: &str| match url {
            "http://first/t10k-images-idx3-ubyte.gz" => Err("http://first: no answer".to_string()),
            "http://second/t10k-images-idx3-ubyte.gz" => Ok(b"abd".to_vec()),
            _ => Ok(b"abc".to_vec()),
        });
        let error = download(&SET, &LoadContext::offline_in(dir.path()), &web).unwrap_err();
        let expected = "its download failed (http://first: no answer; \
                        http://second/t10k-images-idx3-ubyte.gz: its checksum is wrong)";
        assert_eq!(error, expected);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mnist"), "a file where the folder should be").unwrap();
        let web = Canned(|_: &str| Ok(b"abc".to_vec()));
        let error = download(&SET, &LoadContext::offline_in(dir.path()), &web).unwrap_err();
        assert!(error.contains("mnist cannot be written: "), "{error}");
    }
}
