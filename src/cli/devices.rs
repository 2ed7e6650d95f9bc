//! `engine devices`.

use super::output::{Failure, print};
use crate::devices::{Choice, open};

pub(super) fn devices() -> Result<(), Failure> {
    for choice in [Choice::Cpu] {
        let info = open(choice, None)?.device.info();
        print(format!("{choice}: {}, {}", info.name, memory_text(info.memory_bytes)));
        for (name, value) in &info.details {
            print(format!("  {name}: {value}"));
        }
    }
    Ok(())
}

fn memory_text(bytes: u64) -> String {
    match bytes {
        0 => "memory not known".to_string(),
        bytes => format!("{:.1} GiB of memory", bytes as f64 / f64::from(1 << 30)),
    }
}
