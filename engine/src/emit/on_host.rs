#![allow(clippy::unwrap_used)]
//! Runs a kernel's CUDA text on the host: a C++ compiler with a stand-in for the CUDA headers. Threads are fibers that
//! take turns at every exchange, so shuffles, shared memory and barriers behave as on the device.

use super::*;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// What the operands, and then the error flag, hold after all launches; `inputs` are the operands that are read. None, with
/// a note, if the machine has no C++ compiler.
pub fn run(kernel: &Kernel, inputs: &[Vec<u8>], seed: u32) -> Option<Vec<Vec<u8>>> {
    let mut buffers: Vec<Vec<u8>> = inputs.to_vec();
    buffers.extend(kernel.operands[inputs.len()..].iter().map(|operand| vec![0xAA; operand.ty.bytes()]));
    let flag = buffers.len();
    for fused in FusedKernel::launches(kernel).unwrap() {
        let place = |argument: &Argument| match argument {
            Argument::Operand(operand) => *operand,
            Argument::Flag => flag,
            Argument::Product | Argument::Guard => panic!("{argument:?}"),
        };
        let places: Vec<usize> = fused.arguments().iter().map(place).collect();
        if places.contains(&flag) && buffers.len() == flag {
            buffers.push(vec![0; 4 * FLAG_WORDS]);
        }
        let given = places.iter().map(|&place| buffers[place].clone()).collect();
        let after = run_arguments(&fused, given, seed)?;
        places.into_iter().zip(after).for_each(|(place, after)| buffers[place] = after);
    }
    Some(buffers)
}

/// What the arguments hold after a launch, each with memory of its own.
pub fn run_arguments(fused: &FusedKernel, buffers: Vec<Vec<u8>>, seed: u32) -> Option<Vec<Vec<u8>>> {
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("skipped: there is no g++ to run the kernel's text with");
        return None;
    }
    let source = fused.cuda_source().unwrap();
    assert_eq!(source.arguments.len(), buffers.len(), "{:?}", source.arguments);
    let dir = tempfile::tempdir().unwrap();
    for header in ["cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h"] {
        std::fs::write(dir.path().join(header), include_str!("shim.h")).unwrap();
    }
    let info: Vec<u8> = source.info(source.points, seed).iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(dir.path().join("info"), &info).unwrap();
    for (i, buffer) in buffers.iter().enumerate() {
        std::fs::write(dir.path().join(i.to_string()), buffer).unwrap();
    }
    std::fs::write(dir.path().join("main.cpp"), main_text(&source, &buffers, info.len())).unwrap();
    execute(
        dir.path(),
        Command::new("g++").args([
            "-std=c++17",
            "-O1",
            "-fno-strict-aliasing",
            "-w",
            "-I.",
            "main.cpp",
            "-o",
            "main",
        ]),
    );
    execute(dir.path(), &mut Command::new(dir.path().join("main")));
    Some((0..buffers.len()).map(|i| std::fs::read(dir.path().join(i.to_string())).unwrap()).collect())
}

fn main_text(source: &KernelSource, buffers: &[Vec<u8>], info_bytes: usize) -> String {
    let mut text = source.text.clone();
    let mut arguments = String::new();
    let (mut reads, mut writes) = (String::new(), String::new());
    for (i, buffer) in buffers.iter().enumerate() {
        let bytes = buffer.len();
        writeln!(reads, "    buffers[{i}] = read_buffer(\"{i}\", {bytes});").unwrap();
        writeln!(writes, "    write_buffer(\"{i}\", buffers[{i}], {bytes});").unwrap();
        write!(arguments, "Pointer{{buffers[{i}]}}, ").unwrap();
    }
    let (entry, n_blocks, n_threads) =
        (&source.entry, source.cube_count_for(source.points), source.cube_dim[0]);
    write!(
        text,
        "\nstatic void *buffers[64];\nstatic info_st *info_argument;\nint main() {{\n{reads}    \
         static_assert(sizeof(info_st) == {info_bytes}, \"the info argument\");\n    \
         info_argument = (info_st *)read_buffer(\"info\", {info_bytes});\n    \
         body = +[] {{ {entry}({arguments}*info_argument); }};\n    launch({n_blocks}, {n_threads});\n{writes}}}\n"
    )
    .unwrap();
    text
}

fn execute(dir: &Path, command: &mut Command) {
    let output = command.current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
