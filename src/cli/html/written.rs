//! Numbers and texts as the page writes them.

use engine_runtime::session::LatencyReport;

/// Bytes with about three digits.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A short time: `9.5 µs`, `105.9 ms`.
pub(crate) fn time_text(seconds: f64) -> String {
    if seconds < 1e-2 { format!("{:.1} µs", seconds * 1e6) } else { format!("{:.1} ms", seconds * 1e3) }
}

/// The speed of the batches of a search, behind the mean time of one.
pub(crate) fn latency_text(latency: &LatencyReport) -> String {
    let LatencyReport { queries_per_second, p50_us, p99_us } = latency;
    let [p50, p99] = [p50_us, p99_us].map(|us| time_text(us * 1e-6));
    format!(" (p50 {p50}, p99 {p99}, {} queries/s)", operations(queries_per_second.round() as u64))
}

/// Operations with about three digits.
pub(super) fn operations(count: u64) -> String {
    scaled(count, 1000.0, &["", "k", "M", "G", "T"]).trim_end().to_string()
}

/// A whole number in the first unit, or about three digits in a larger unit. Each unit is `base` times the one before.
fn scaled(count: u64, base: f64, units: &[&str]) -> String {
    if (count as f64) < base {
        return format!("{count} {}", units[0]);
    }
    let (mut amount, mut unit) = (count as f64 / base, 1);
    while amount >= 999.5 && unit + 1 < units.len() {
        (amount, unit) = (amount / base, unit + 1);
    }
    let digits = if amount < 9.995 { 2 } else { usize::from(amount < 99.95) };
    format!("{amount:.digits$} {}", units[unit])
}

/// Text without meaning in HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (100 << 10, "100 KiB"),
            (1000 << 10, "0.98 MiB"),
        ];
        for (amount, text) in cases.into_iter().chain([(3 << 40, "3.00 TiB"), (5 << 60, "5242880 TiB")]) {
            assert_eq!(bytes(amount), text);
        }
        for (amount, text) in [(0, "0"), (999, "999"), (51_445_760, "51.4 M"), (999_950, "1.00 M")] {
            assert_eq!(operations(amount), text);
        }
    }
}
