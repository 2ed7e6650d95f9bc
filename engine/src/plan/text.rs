//! Plans as text.

use super::{Place, Plan};
use std::fmt;

/// Prints the launches in order with their buffers, then the buffers with place and life.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "plan {}: {} launches, {} streams, arena {} B",
            self.name,
            self.launches.len(),
            self.n_streams,
            self.arena_bytes
        )?;
        for (at, launch) in self.launches.iter().enumerate() {
            let kernel = &self.kernels[launch.kernel];
            write!(f, "{at:>4} stream {} {} {}", launch.stream, kernel.kind(), kernel.name)?;
            if !launch.waits.is_empty() {
                write!(f, " after {:?}", launch.waits)?;
            }
            let names: Vec<&str> = launch.buffers.iter().map(|&id| &*self.buffers[id].name).collect();
            write!(f, " ({})", names.join(", "))?;
            match launch.workspace.len() {
                0 => writeln!(f)?,
                bytes => writeln!(f, " workspace {bytes} B at {}", launch.workspace.start)?,
            }
        }
        for buffer in self.buffers.iter().filter(|buffer| buffer.ty.bytes() > 0) {
            match buffer.place {
                Place::Arena(offset) => writeln!(
                    f,
                    "  {}: {} at {offset}, {} B, live {}..={}",
                    buffer.name,
                    buffer.ty,
                    buffer.ty.bytes(),
                    buffer.life.0,
                    buffer.life.1
                )?,
                Place::Input(kind) => writeln!(f, "  {}: {} {}", buffer.name, buffer.ty, kind.name())?,
            }
        }
        for (name, id) in &self.outputs {
            writeln!(f, "  output {name} = {}", self.buffers[*id].name)?;
        }
        Ok(())
    }
}
