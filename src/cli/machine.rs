//! Facts of this process and its machine.

use std::fs;

/// The most memory that this process has occupied so far, in bytes; none where the system does not say.
pub(super) fn peak_bytes() -> Option<u64> {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| high_water(&status)).or_else(most_resident)
}

/// The peak of memory by the status of a process on Linux. `exec` resets it, while the `ru_maxrss` of a process is at least
/// the memory of the one that started it.
fn high_water(status: &str) -> Option<u64> {
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let peak: u64 = peak.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(peak * 1024)
}

/// The peak of memory where the system has no status of Linux.
#[cfg(unix)]
fn most_resident() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    // `ru_maxrss` counts KiB, and bytes on Apple's systems.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    let peak = getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss();
    Some(u64::try_from(peak).ok()? * unit)
}

/// The peak of memory where the system has no status of Linux.
#[cfg(not(unix))]
fn most_resident() -> Option<u64> {
    None
}

/// Version of the program, system and number of processors, for reports.
pub(super) fn description() -> String {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (version, debug) =
        (env!("CARGO_PKG_VERSION"), if cfg!(debug_assertions) { ", debug build" } else { "" });
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("engine {version}{debug}, {system} {processor}, {n_threads} processors")
}

/// The command of this process, with the quotes that a shell needs.
pub(super) fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    [String::from("engine")].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_spaces_are_quoted() {
        let cases = [
            ("--set", "--set"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("x=[1,2]", "'x=[1,2]'"),
        ];
        cases.iter().for_each(|(word, shown)| assert_eq!(quoted(word), *shown));
    }

    #[test]
    fn the_status_of_a_process_has_its_peak() {
        let status = "Name:\tengine\nVmPeak:\t 912000 kB\nVmHWM:\t   38912 kB\nVmRSS:\t   30100 kB\n";
        assert_eq!(high_water(status), Some(38 << 20));
        assert_eq!(high_water("Name:\tengine\nVmHWM:\tnone kB\n"), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_peak_is_that_of_a_process() {
        let peak = peak_bytes().unwrap_or(0);
        assert!((1 << 20..1 << 40).contains(&peak), "{peak}");
    }
}
