//! `engine devices`.

use super::output::{Failure, print};
use crate::devices::{OpenError, all};

pub(super) fn devices() -> Result<(), Failure> {
    for (choice, device) in all() {
        let info = match device {
            Ok(device) => device.info(),
            Err(OpenError::NoDriver(_)) => {
                print(format!("{choice}: not usable: this build has no driver for it"));
                continue;
            }
            Err(OpenError::Failed { source, .. }) => {
                print(format!("{choice}: not usable: {source}"));
                continue;
            }
        };
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
