//! Downloads of the files of a data set, verified by their published checksums.
//!
//! Connections are not encrypted, which saves a TLS library. The program contains the checksums, so a file that was altered
//! in transit is refused. A partial file is stored as `FILE.part`, and the next try requests the rest. Files get their own
//! names only after all of them are verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::set::RemoteSet;
use crate::data::source::LoadContext;

/// More than the largest file, so that a wrong address cannot fill the disk.
const MOST_BYTES: u64 = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const FILE_TIMEOUT: Duration = Duration::from_secs(180);

/// Fetches the files of the set into its folder under the first root, and returns that folder.
pub(super) fn download(set: &RemoteSet, context: &LoadContext) -> Result<PathBuf, String> {
    let root = context.roots.first().ok_or("there is no folder to download it to")?;
    let dir = root.join(set.name);
    (context.say)(&format!("downloading `{}` to {}", set.name, dir.display()));
    // The folders that the download makes, innermost first.
    let made: Vec<&Path> = dir.ancestors().take_while(|folder| !folder.exists()).collect();
    let fetched = fetch(set, &dir);
    if fetched.is_err() {
        let empty = set.files.iter().map(|file| part(&dir, file)).filter(|part| length(part) == 0);
        empty.for_each(|part| drop(fs::remove_file(part)));
        // A folder that holds a part of a file stays, and so do those around it.
        made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
    fetched.map(|()| dir.clone())
}

fn fetch(set: &RemoteSet, dir: &Path) -> Result<(), String> {
    let unwritable = |error: io::Error| format!("{} cannot be written: {error}", dir.display());
    fs::create_dir_all(dir).map_err(unwritable)?;
    let web = Web::new();
    for (file, sha256) in set.files.iter().zip(set.sha256) {
        web.fetch_checked(set.mirrors, file, sha256, &part(dir, file))?;
    }
    set.files.iter().try_for_each(|file| fs::rename(part(dir, file), whole(dir, file))).map_err(unwritable)
}

fn whole(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.gz"))
}

fn part(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.gz.part"))
}

/// The network.
struct Web {
    agent: ureq::Agent,
}

impl Web {
    fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(FILE_TIMEOUT))
            .build();
        Web { agent: config.into() }
    }

    /// Completes `part` from the first mirror that has the file with the right checksum.
    fn fetch_checked(&self, mirrors: &[&str], file: &str, sha256: &str, part: &Path) -> Result<(), String> {
        let mut failures = Vec::new();
        for mirror in mirrors {
            let url = format!("{mirror}/{file}.gz");
            match self.fetch_from(&url, sha256, part) {
                Ok(()) => return Ok(()),
                Err(failure) => failures.push(format!("{url}: {failure}")),
            }
        }
        Err(format!("its download failed ({})", failures.join("; ")))
    }

    fn fetch_from(&self, url: &str, sha256: &str, part: &Path) -> Result<(), String> {
        let has_beginning = length(part) > 0;
        self.fetch_rest(url, part)?;
        if is_right(part, sha256)? {
            return Ok(());
        }
        // A file that cannot be removed fails its checksum the next time, too.
        drop(fs::remove_file(part));
        // The beginning may have been that of another file.
        match has_beginning {
            true => self.fetch_from(url, sha256, part),
            false => Err("its checksum is wrong".to_string()),
        }
    }

    /// Appends the missing bytes to `part`, or rewrites it if the server does not support ranges.
    fn fetch_rest(&self, url: &str, part: &Path) -> Result<(), String> {
        let n_had = length(part);
        let request = self.agent.get(url);
        let request = if n_had > 0 { request.header("Range", format!("bytes={n_had}-")) } else { request };
        let mut response = match request.call() {
            Ok(response) => response,
            // The range starts at the end of the file. The checksum decides whether the file is complete.
            Err(ureq::Error::StatusCode(416)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let goes_on = response.status() == 206;
        if goes_on
            && !header("content-range").is_some_and(|range| range.starts_with(&format!("bytes {n_had}-")))
        {
            return Err("the server sent another part of the file than was asked for".to_string());
        }
        let n_expected = header("content-length").and_then(|length| length.parse::<u64>().ok());
        let file = OpenOptions::new().create(true).write(true).append(goes_on).truncate(!goes_on).open(part);
        let mut file: File = file.map_err(|error| error.to_string())?;
        let mut body = response.body_mut().with_config().limit(MOST_BYTES).reader();
        let n_copied = io::copy(&mut body, &mut file).map_err(|error| error.to_string())?;
        match n_expected {
            Some(expected) if expected != n_copied => {
                Err(format!("the connection ended after {n_copied} of {expected} bytes"))
            }
            _ => Ok(()),
        }
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn is_right(path: &Path, sha256: &str) -> Result<bool, String> {
    let mut bytes = vec![];
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(found == sha256)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    const FILES: [&str; 4] = [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ];

    /// Every file of the sets here.
    const CONTENT: &str = "abcdefghijklmnopqrstuvwxyz";
    const SHA256: &str = "71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73";

    /// The answer of a server for a path and the first byte of a range.
    type Answer = fn(&str, Option<usize>) -> Vec<u8>;

    /// A server on this machine; its address, and the requests that it got.
    fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> =
                    lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
                let path = head[0].split(' ').nth(1).unwrap().to_string();
                let range = head
                    .iter()
                    .find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(String::from));
                let first = range.map(|range| range.trim_end_matches('-').parse().unwrap());
                seen.lock().unwrap().push(format!("{path} {first:?}"));
                // A client that has seen enough may be gone.
                drop(stream.write_all(&answer(&path, first)));
            }
        });
        (address, asked)
    }

    fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}")
            .into_bytes()
    }

    /// As servers should: ranges are honoured.
    fn good(_: &str, first: Option<usize>) -> Vec<u8> {
        match first {
            None => response("200 OK", "", CONTENT),
            Some(first) if first >= CONTENT.len() => response("416 Range Not Satisfiable", "", ""),
            Some(first) => {
                let range = format!("Content-Range: bytes {first}-25/26\r\n");
                response("206 Partial Content", &range, &CONTENT[first..])
            }
        }
    }

    fn missing(_: &str, _: Option<usize>) -> Vec<u8> {
        response("404 Not Found", "", "no such page")
    }

    fn wrong(_: &str, _: Option<usize>) -> Vec<u8> {
        response("200 OK", "", "a page to log in")
    }

    /// The third file is cut off after ten bytes.
    fn cut(path: &str, first: Option<usize>) -> Vec<u8> {
        let whole = good(path, first);
        if path.contains("t10k-images") { whole[..whole.len() - 16].to_vec() } else { whole }
    }

    fn set(mirrors: &[&str]) -> RemoteSet<'static> {
        let mirrors: Vec<&'static str> = mirrors.iter().map(|url| &*url.to_string().leak()).collect();
        RemoteSet { name: "mnist", files: &FILES, mirrors: mirrors.leak(), sha256: &[SHA256; 4] }
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_next_mirror_helps_out() {
        for bad in [missing, wrong] {
            let dir = tempfile::tempdir().unwrap();
            let (first, second) = (serve(bad), serve(good));
            let set = set(&[&first.0, &second.0]);
            let folder = download(&set, &LoadContext::offline_in(dir.path())).unwrap();
            assert_eq!(folder, dir.path().join("mnist"));
            assert_eq!(names(&folder).len(), 4);
            for file in FILES {
                assert_eq!(fs::read_to_string(whole(&folder, file)).unwrap(), CONTENT);
            }
        }
    }

    #[test]
    fn errors_name_the_address() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (serve(missing), serve(wrong));
        let error = download(&set(&[&first.0, &second.0]), &LoadContext::offline_in(dir.path())).unwrap_err();
        let expected = format!(
            "its download failed ({}/{file}.gz: http status: 404; {}/{file}.gz: its checksum is wrong)",
            first.0,
            second.0,
            file = FILES[0]
        );
        assert_eq!(error, expected);
        assert_eq!(names(dir.path()), [] as [&str; 0]);
        // Only created files are removed.
        let deep = LoadContext::offline_in(&dir.path().join("some/folder"));
        fs::create_dir(dir.path().join("some")).unwrap();
        download(&set(&[&first.0]), &deep).unwrap_err();
        assert_eq!(names(dir.path()), ["some"]);
        assert_eq!(names(&dir.path().join("some")), [] as [&str; 0]);
    }

    /// After a broken connection, no file has its final name, and the next try requests only the rest.
    #[test]
    fn a_broken_download_resumes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("mnist");
        let context = LoadContext::offline_in(dir.path());
        let error = download(&set(&[&serve(cut).0]), &context).unwrap_err();
        assert!(error.contains("t10k-images-idx3-ubyte.gz: "), "{error}");
        assert!(names(&folder).iter().all(|name| name.ends_with(".part")), "{:?}", names(&folder));
        assert_eq!(fs::read_to_string(part(&folder, FILES[2])).unwrap(), CONTENT[..10]);

        let (url, asked) = serve(good);
        download(&set(&[&url]), &context).unwrap();
        let asked = asked.lock().unwrap();
        assert_eq!(asked[2], format!("/{}.gz Some(10)", FILES[2]));
        assert_eq!(asked[3], format!("/{}.gz None", FILES[3]));
        assert_eq!(fs::read_to_string(whole(&folder, FILES[2])).unwrap(), CONTENT);
        assert_eq!(names(&folder).len(), 4);
    }

    #[test]
    fn a_part_of_another_file_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("mnist");
        fs::create_dir_all(&folder).unwrap();
        fs::write(part(&folder, FILES[0]), "xyz").unwrap();
        fs::write(part(&folder, FILES[1]), [0; 100]).unwrap();
        download(&set(&[&serve(good).0]), &LoadContext::offline_in(dir.path())).unwrap();
        assert_eq!(fs::read_to_string(whole(&folder, FILES[0])).unwrap(), CONTENT);
        assert_eq!(fs::read_to_string(whole(&folder, FILES[1])).unwrap(), CONTENT);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mnist"), "a file where the folder should be").unwrap();
        let error =
            download(&set(&["http://127.0.0.1:9"]), &LoadContext::offline_in(dir.path())).unwrap_err();
        assert!(error.contains("mnist cannot be written: "), "{error}");
    }
}
