#![allow(clippy::unwrap_used)]
//! Runs a kernel's CUDA text on the host: a C++ compiler with a stand-in for the CUDA headers. Threads are fibers
//! that take turns at every exchange, so shuffles, shared memory and barriers behave as on the device. Tests of
//! the root package run opaque kernels by it, too.

use super::*;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The operands, then the error flag, after all launches; `inputs` are the operands that the kernel reads. None,
/// with a note, if the machine has no C++ compiler.
pub fn run(kernel: &Kernel, inputs: &[Vec<u8>], seed: u32) -> Option<Vec<Vec<u8>>> {
    run_on(kernel, DeviceModel::H200, inputs, seed)
}

/// The operands and the error flag of a kernel that is defined for another device.
pub fn run_on(kernel: &Kernel, device: DeviceModel, inputs: &[Vec<u8>], seed: u32) -> Option<Vec<Vec<u8>>> {
    run_launches(kernel, &KernelSpec::launches(kernel, device).unwrap(), inputs, seed)
}

/// The operands and the error flag after some launches of a kernel.
pub fn run_launches(
    kernel: &Kernel,
    launches: &[KernelSpec],
    inputs: &[Vec<u8>],
    seed: u32,
) -> Option<Vec<Vec<u8>>> {
    let mut memory = HostMemory::new(kernel, inputs);
    for fused in launches {
        let source = fused.cuda_source().unwrap();
        let (n_blocks, info) = (source.blocks_for(source.points), source.info(source.points, seed));
        memory.launch(&source, n_blocks, &info)?;
    }
    Some(memory.operands.into_iter().chain(memory.flag).collect())
}

/// The memory that the launches of a kernel share.
pub struct HostMemory {
    /// By operand of the kernel.
    pub operands: Vec<Vec<u8>>,
    /// The workspace, up to the largest use so far.
    pub workspace: Vec<u8>,
    /// The error flag, once a launch uses it.
    pub flag: Option<Vec<u8>>,
    n_assertion_words: usize,
}

impl HostMemory {
    /// Memory with the operands that are read; the others hold garbage.
    pub fn new(kernel: &Kernel, inputs: &[Vec<u8>]) -> HostMemory {
        let mut operands: Vec<Vec<u8>> = inputs.to_vec();
        operands.extend(kernel.operands[inputs.len()..].iter().map(|operand| vec![0xAA; operand.ty.bytes()]));
        let n_assertion_words = assertion_words(kernel.assertions());
        HostMemory { operands, workspace: vec![], flag: None, n_assertion_words }
    }

    /// Runs a launch, with separate memory for each of its arguments.
    pub fn launch(&mut self, source: &KernelSource, n_blocks: usize, info: &[u64]) -> Option<()> {
        let given = source.arguments.iter().map(|argument| self.place(argument).to_vec()).collect();
        let after = execute_launch(source, n_blocks, info, given)?;
        // If one launch raises the flag and is guarded by it, the raised one is kept.
        let is_raised = source.arguments.contains(&Argument::Flag);
        let written = source
            .arguments
            .iter()
            .zip(after)
            .filter(|(argument, _)| **argument != Argument::Guard || !is_raised);
        for (argument, after) in written {
            self.place(argument).copy_from_slice(&after);
        }
        Some(())
    }

    fn place(&mut self, argument: &Argument) -> &mut [u8] {
        match *argument {
            Argument::Operand(operand) => &mut self.operands[operand],
            Argument::Flag | Argument::Guard => {
                self.flag.get_or_insert_with(|| vec![0; 4 * self.n_assertion_words])
            }
            Argument::Workspace { start, bytes } => {
                let length = self.workspace.len().max(start + bytes);
                self.workspace.resize(length, 0xAA);
                &mut self.workspace[start..start + bytes]
            }
            Argument::Product => panic!("{argument:?}"),
        }
    }
}

/// The arguments after a launch, each with separate memory.
pub fn run_arguments(fused: &KernelSpec, buffers: Vec<Vec<u8>>, seed: u32) -> Option<Vec<Vec<u8>>> {
    let source = fused.cuda_source().unwrap();
    let (n_blocks, info) = (source.blocks_for(source.points), source.info(source.points, seed));
    execute_launch(&source, n_blocks, &info, buffers)
}

fn execute_launch(
    source: &KernelSource,
    n_blocks: usize,
    info: &[u64],
    buffers: Vec<Vec<u8>>,
) -> Option<Vec<Vec<u8>>> {
    if !*IS_THERE {
        eprintln!("skipped: there is no g++ to run the kernel's text with");
        return None;
    }
    assert_eq!(source.arguments.len(), buffers.len(), "{:?}", source.arguments);
    let dir = tempfile::tempdir().unwrap();
    let info: Vec<u8> = info.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(dir.path().join("info"), &info).unwrap();
    for (i, buffer) in buffers.iter().enumerate() {
        std::fs::write(dir.path().join(i.to_string()), buffer).unwrap();
    }
    std::fs::write(dir.path().join("main.cpp"), main_text(source, n_blocks, &buffers, info.len())).unwrap();
    execute(
        dir.path(),
        compiler()
            .arg("-I")
            .arg(headers())
            .args(["-include", "cuda_runtime.h", "main.cpp", "-x", "none"])
            .arg(headers().join("host.o"))
            .args(["-lm", "-o", "main"]),
    );
    execute(dir.path(), &mut Command::new(dir.path().join("main")));
    Some((0..buffers.len()).map(|i| std::fs::read(dir.path().join(i.to_string())).unwrap()).collect())
}

static IS_THERE: LazyLock<bool> = LazyLock::new(|| Command::new("g++").arg("--version").output().is_ok());

/// The driver of C: no text needs the library of C++, whose linking takes as long as a kernel.
fn compiler() -> Command {
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=c++17", "-O1", "-fno-strict-aliasing", "-w", "-x", "c++"]);
    compiler
}

/// The folder of the headers, beside the test's binary. The stand-in is precompiled, and `host.cpp` is compiled once:
/// each takes longer than most kernels.
fn headers() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let (shim, tensor_cores) = (include_str!("shim.h"), include_str!("tensor_cores.h"));
        let host = include_str!("host.cpp");
        let mut hasher = DefaultHasher::new();
        (shim, tensor_cores, host).hash(&mut hasher);
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let folder = beside.join(format!("cuda-headers-{:016x}", hasher.finish()));
        if !folder.exists() {
            let new = tempfile::tempdir_in(beside).unwrap();
            let include = "#include \"cuda_runtime.h\"\n";
            let files = [
                ("cuda_runtime.h", shim),
                ("tensor_cores.h", tensor_cores),
                ("host.cpp", host),
                ("cuda_fp16.h", include),
                ("cuda_bf16.h", include),
            ];
            for (name, text) in files {
                std::fs::write(new.path().join(name), text).unwrap();
            }
            execute(
                new.path(),
                compiler().args(["-x", "c++-header", "cuda_runtime.h", "-o", "cuda_runtime.h.gch"]),
            );
            execute(new.path(), compiler().args(["-c", "host.cpp", "-o", "host.o"]));
            // Where another process was faster, its folder stays.
            let _ = std::fs::rename(new.path(), &folder);
        }
        folder
    });
    &FOLDER
}

fn main_text(source: &KernelSource, n_blocks: usize, buffers: &[Vec<u8>], info_bytes: usize) -> String {
    let mut text = source.text.clone();
    let mut arguments = String::new();
    let (mut reads, mut writes) = (String::new(), String::new());
    for (i, buffer) in buffers.iter().enumerate() {
        let bytes = buffer.len();
        writeln!(reads, "    buffers[{i}] = read_buffer(\"{i}\", {bytes});").unwrap();
        writeln!(writes, "    write_buffer(\"{i}\", buffers[{i}], {bytes});").unwrap();
        write!(arguments, "Pointer{{buffers[{i}]}}, ").unwrap();
    }
    let maps: String = source.maps.iter().map(map_text).collect();
    let (entry, n_threads) = (&source.entry, source.block_dim[0]);
    write!(
        text,
        "\nstatic void *buffers[64];\nstatic info_st *info_argument;\nint main() {{\n{reads}    \
         static_assert(sizeof(info_st) == {info_bytes}, \"the info argument\");\n    \
         info_argument = (info_st *)read_buffer(\"info\", {info_bytes});\n    \
         body = +[] {{ {entry}({maps}{arguments}*info_argument); }};\n    launch({n_blocks}, {n_threads});\n{writes}}}\n"
    )
    .unwrap();
    text
}

/// A tensor map as an argument of the call.
fn map_text(map: &TensorMap) -> String {
    format!("TensorMap{}, ", map.initializer(&format!("buffers[{}]", map.argument)))
}

fn execute(dir: &Path, command: &mut Command) {
    let output = command.current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
