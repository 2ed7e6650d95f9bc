//! What differs in a frame between both kinds of tensor cores: which threads copy, and how they report.
//!
//! On tensor cores of warpgroups, one thread starts all copies, and barriers count their bytes. On those of warps, all
//! threads of a warpgroup copy and arrive at the barrier of a tile. There, products are done when the next line runs, and all
//! warps have the same number of registers.

use super::WARPGROUP;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::KernelCode;
use crate::codegen::tensor_map::TensorMap;
use crate::device_model::TensorCores;

/// Threads of a warp.
const WARP: usize = 32;

impl TensorCores {
    /// Arrivals that complete a tile.
    pub(super) fn n_fillers(self) -> usize {
        match self {
            TensorCores::Warps => WARPGROUP,
            TensorCores::Warpgroups => 1,
        }
    }

    /// Arrivals after which a tile, which so many warpgroups read, may be overwritten.
    pub(super) fn n_readers(self, n_warpgroups: usize) -> usize {
        n_warpgroups * WARPGROUP / self.readers()
    }

    /// Threads that read together, of which one arrives.
    fn readers(self) -> usize {
        match self {
            TensorCores::Warps => WARP,
            TensorCores::Warpgroups => WARPGROUP,
        }
    }

    /// Whether products run on beside the lines after them.
    pub(super) fn is_asynchronous(self) -> bool {
        self == TensorCores::Warpgroups
    }

    /// The start of the branch of warpgroup `group`, which copies, with so many registers of each thread.
    pub(super) fn copier(self, group: usize, n_registers: usize) -> String {
        match self {
            TensorCores::Warps => format!("if (group == {group}) {{\n{{\n"),
            TensorCores::Warpgroups => format!(
                "if (group == {group}) {{\ngive_registers<{n_registers}>();\nif (threadIdx.x == {}) {{\n",
                group * WARPGROUP
            ),
        }
    }

    /// More registers for each thread of a warpgroup that multiplies.
    pub(super) fn take_registers(self, n_registers: usize) -> String {
        match self {
            TensorCores::Warps => String::new(),
            TensorCores::Warpgroups => format!("take_registers<{n_registers}>();\n"),
        }
    }

    /// Copies of so many bytes, and the report to the barrier of their tile.
    pub(super) fn fill(self, barrier: &str, n_bytes: usize, copies: &str) -> String {
        match self {
            TensorCores::Warps => format!("{copies}arrive_after_copies({barrier});\n"),
            TensorCores::Warpgroups => format!("expect_bytes({barrier}, {n_bytes});\n{copies}"),
        }
    }

    /// The copy of a box of map `map` with its coordinates along memory, across, and along one to three further axes.
    pub(super) fn copy(self, to: &str, map: usize, coordinates: &[&str], barrier: &str) -> String {
        let n_axes = coordinates.len();
        let listed = coordinates.join(", ");
        match self {
            TensorCores::Warps => {
                format!("copy_box({to}, map_{map}, {listed}{});\n", ", 0".repeat(5 - n_axes))
            }
            TensorCores::Warpgroups => {
                let name = if n_axes == 3 { "fetch_box".to_string() } else { format!("fetch_box_{n_axes}d") };
                format!("{name}({to}, &map_{map}, {listed}, {barrier});\n")
            }
        }
    }

    /// The report that a warpgroup has read a tile, under a further condition. The lanes of a warp read by themselves, so one of
    /// them awaits the others first.
    pub(super) fn release_if(self, condition: &str, barrier: &str) -> String {
        let awaits = if self == TensorCores::Warps { "__syncwarp();\n" } else { "" };
        format!("{awaits}if ({condition}threadIdx.x % {} == 0) arrive({barrier});\n", self.readers())
    }

    /// The report that a warpgroup has read a tile.
    pub(super) fn release(self, barrier: &str) -> String {
        self.release_if("", barrier)
    }

    /// Emits the tensor maps, if threads copy. A copy engine gets them with the launch.
    pub(in crate::codegen) fn declare_maps(self, code: &mut Code, kernel: &KernelCode, maps: &[TensorMap]) {
        if self == TensorCores::Warpgroups {
            return;
        }
        for (i, map) in maps.iter().enumerate() {
            let tensor = code.named(kernel.buffers.operands[map.argument].array);
            code.line(format_args!("const TensorMap map_{i} = {};", map.initializer(&tensor)));
        }
    }
}
