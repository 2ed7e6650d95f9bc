//! Time for tests that say how long reading may take.

use std::time::Instant;

/// Seconds that this thread has been running on a processor; time of the wall clock where the system does not tell.
/// Whatever else the machine does meanwhile, a test then measures its own work.
pub(super) struct Clock {
    start: Instant,
    cpu: Option<f64>,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { start: Instant::now(), cpu: cpu_seconds() }
    }

    pub(super) fn seconds(&self) -> f64 {
        match (self.cpu, cpu_seconds()) {
            (Some(start), Some(now)) => now - start,
            _ => self.start.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_seconds() -> Option<f64> {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = schedule.split(' ').next()?.parse().ok()?;
    (nanoseconds > 0.0).then_some(nanoseconds * 1e-9)
}
