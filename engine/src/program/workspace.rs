//! Programs of a plan and their memory: the workspaces of all launches, placed by stream.

use super::Program;
use crate::device_model::DeviceModel;
use crate::plan::{ALIGNMENT, Plan};
use std::ops::Range;

/// The programs of a plan on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Programs {
    /// By launch of the plan.
    pub programs: Vec<Program>,
    /// Where their workspaces lie.
    pub workspaces: Workspaces,
}

/// Where the workspaces of launches lie. Launches of one stream run one after the other, so they share memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workspaces {
    /// By launch: its bytes; empty for most.
    pub launches: Vec<Range<usize>>,
    /// By stream: the workspace of the library; empty if the stream calls none.
    pub library: Vec<Range<usize>>,
    /// All bytes.
    pub bytes: usize,
}

impl Workspaces {
    /// Places the workspaces of a plan's programs.
    pub fn of(plan: &Plan, programs: &[Program], device: &DeviceModel) -> Workspaces {
        let n_streams = plan.launches.iter().map(|launch| launch.stream + 1).max().unwrap_or(1);
        let mut own = vec![0; n_streams];
        let mut of_library = vec![0; n_streams];
        for (launch, program) in plan.launches.iter().zip(programs) {
            own[launch.stream] = program.workspace_bytes.max(own[launch.stream]);
            let bytes = device.library.and_then(|library| program.library_bytes(library)).unwrap_or(0);
            of_library[launch.stream] = bytes.max(of_library[launch.stream]);
        }
        let mut end = 0;
        let mut placed = |bytes: usize| {
            let start = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            start..start + bytes
        };
        let own: Vec<Range<usize>> = own.into_iter().map(&mut placed).collect();
        let library: Vec<Range<usize>> = of_library.into_iter().map(&mut placed).collect();
        let of_launch = |(launch, program): (&crate::plan::Launch, &Program)| {
            let start = own[launch.stream].start;
            start..start + program.workspace_bytes
        };
        Workspaces {
            launches: plan.launches.iter().zip(programs).map(of_launch).collect(),
            library,
            bytes: end,
        }
    }
}
