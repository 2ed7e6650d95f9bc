#![allow(clippy::unwrap_used, missing_docs)]
//! Malformed inputs end with a message: no panic, no signal, at most 4 KB per message, no control characters.
//!
//! `ENGINE_SOAK=6000 cargo test --test soak` runs that many cases. `ENGINE_SOAK_SEED` changes the cases, and
//! `ENGINE_SOAK_CASE` runs only the case with that number. `benches/long.md` has the latest result.

use std::fs;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tempfile::TempDir;

#[path = "soak/generate.rs"]
mod generate;

use generate::Case;

/// The default number of cases.
const FEW: u64 = 60;

const LONGEST_MESSAGE: usize = 4096;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The fault of the engine's end, if there is one.
fn fault(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let printed = String::from_utf8_lossy(&output.stdout);
    let longest = said.split("\n\n").map(str::len).max().unwrap_or(0);
    match output.status.code() {
        None => Some(format!("ended by a signal: {}", output.status)),
        Some(code) if !(0..=3).contains(&code) => Some(format!("ended with {code}")),
        _ if said.contains("panicked") || said.contains("bug in the engine") => Some("panicked".to_owned()),
        Some(1..) if !said.contains("error") => Some("ended without a message".to_owned()),
        _ if longest > LONGEST_MESSAGE => Some(format!("a message of {longest} bytes")),
        _ if said.contains(is_odd) || printed.contains(is_odd) => Some("control characters".to_owned()),
        _ => None,
    }
}

/// Runs a case in a folder of its own.
fn run(case: &Case) -> (TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &case.files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.args(&case.arguments).current_dir(folder.path());
    command.env("ENGINE_OFFLINE", "1").env("RUST_BACKTRACE", "0").env_remove("ENGINE_DATA_DIR");
    let output = command.output().unwrap();
    (folder, output)
}

/// Runs a case, and counts its exit code: 0, 1, 2 or another.
fn check(seed: u64, number: u64, n_ended: &[AtomicU64; 4]) -> Result<(), String> {
    let case = generate::case(seed, number);
    let (folder, output) = run(&case);
    n_ended[output.status.code().map_or(3, |code| code.clamp(0, 3) as usize)].fetch_add(1, Ordering::Relaxed);
    let Some(fault) = fault(&output) else { return Ok(()) };
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(2000).collect::<String>();
    let arguments: String = format!("{:?}", case.arguments).chars().take(500).collect();
    // The folder is kept for debugging.
    let kept = folder.keep();
    let said = shown(&output.stderr);
    Err(format!("case {number} of seed {seed}: {fault}\nengine {arguments} in {}\n{said}", kept.display()))
}

#[test]
fn the_inputs_are_sound_before_they_are_damaged() {
    for case in generate::sound() {
        let (_, output) = run(&case);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn malformed_inputs_end_with_a_message() {
    let seed = number("ENGINE_SOAK_SEED").unwrap_or(1);
    let cases = match number("ENGINE_SOAK_CASE") {
        Some(only) => only..only + 1,
        None => 0..number("ENGINE_SOAK").unwrap_or(FEW),
    };
    let (next, n_ended) = (AtomicU64::new(cases.start), [const { AtomicU64::new(0) }; 4]);
    let work = || {
        let mut faults = vec![];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= cases.end {
                return faults;
            }
            faults.extend(check(seed, number, &n_ended).err());
        }
    };
    let n_threads = thread::available_parallelism().map_or(1, |n| n.get());
    let faults: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    eprintln!(
        "{} cases, {} faults; ended with 0, 1, 2, other: {n_ended:?}",
        cases.end - cases.start,
        faults.len()
    );
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n----\n"));
}
