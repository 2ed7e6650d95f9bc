//! Faults of Vulkan and of wgpu's devices. An emulated GPU is enough for them.

use super::faults::{stub, without_vulkan};
use super::*;

#[test]
fn a_machine_without_vulkan_is_reported() {
    let desk = Desk::new();
    let ended = |device: &str| {
        let mut command = desk.command(&["run", "tiny.ron", "--quiet", "--device", device]);
        Ended::from(command.envs(without_vulkan()).output().unwrap())
    };
    for device in ["wgpu", "wgpu:software"] {
        check_failure(&ended(device), 3, &format!("error[E0603]: device `{device}"));
        let ended = ended(device);
        assert!(ended.errors.contains(&format!("no GPU is found: {}", no_driver())), "{}", ended.errors);
    }
    check_auto_goes_on(&desk, no_driver(), |command| command.envs(without_vulkan()));
}

/// The message for a loader without drivers. On machines without wgpu tests, the loader may be missing as well.
fn no_driver() -> &'static str {
    let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
    match required.split(',').any(|device| device == "wgpu") {
        true => "Vulkan's loader (libvulkan.so.1) shows none; ",
        false => "Vulkan's loader ",
    }
}

/// Without a GPU through CUDA, `auto` chooses the CPU. It reports the fault of wgpu in short, and `devices` in full.
fn check_auto_goes_on(desk: &Desk, why: &str, set_up: impl Fn(&mut Command) -> &mut Command) {
    let ended = |arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("CUDA_VISIBLE_DEVICES", "-1");
        let ended = Ended::from(set_up(&mut command).output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended
    };
    let errors = ended(&["run", "tiny.ron"]).errors;
    assert!(errors.contains("\ndevice: cpu (cuda: "), "{errors}");
    assert!(errors.contains("; wgpu: no GPU is found)\n"), "{errors}");
    let listed = ended(&["devices"]).results;
    assert!(listed.contains(&format!("wgpu:0: not usable: no GPU is found: {why}")), "{listed}");
}

/// A file in place of the loader that is no library.
#[test]
fn a_broken_vulkan_loader_is_reported() {
    let Some(stub) = stub(&["libvulkan.so.1", "libvulkan.so"]) else { return };
    let desk = Desk::new();
    let mut command = desk.command(&["run", "tiny.ron", "--quiet", "--device", "wgpu"]);
    let ended = Ended::from(command.env("LD_LIBRARY_PATH", stub.path()).output().unwrap());
    let why = "Vulkan's loader cannot be used (";
    check_failure(
        &ended,
        3,
        &format!("error[E0603]: device `wgpu:0` does not start: no GPU is found: {why}"),
    );
    check_auto_goes_on(&desk, why, |command| command.env("LD_LIBRARY_PATH", stub.path()));
}

/// Whether this machine has an emulated GPU, and no real one that would be chosen first.
fn is_emulated() -> bool {
    let listed = Desk::new().engine(&["devices"]).results;
    let has_software = !listed.contains("wgpu:software: not usable");
    if !has_software || !listed.contains("wgpu:0: not usable") {
        let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
        assert!(has_software || !required.split(',').any(|device| device == "wgpu"), "{listed}");
        eprintln!("skipped: no emulated GPU alone");
        return false;
    }
    true
}

#[test]
fn a_software_adapter_is_taken_only_if_asked_for() {
    if !is_emulated() {
        return;
    }
    let desk = Desk::new();
    let said = "error[E0603]: device `wgpu:0` does not start: there is only a software adapter, ";
    check_failure(&desk.engine(&["run", "tiny.ron", "--device", "wgpu"]), 3, said);
    let auto = desk.engine(&["run", "tiny.ron", "--device", "auto", "--set", "train.epochs=1"]);
    assert_eq!(auto.code, 0, "{}", auto.errors);
    assert!(auto.errors.contains("; wgpu: only a software adapter)\n"), "{}", auto.errors);
}

/// Every op but `rows_by_bounds`, `nearest_of_lists` and `near_least`, which graphs of the CPU alone have, has kernels for wgpu.
#[test]
fn the_selftest_of_a_software_adapter_skips_three_ops() {
    if !is_emulated() {
        return;
    }
    let ended = Desk::new().engine(&["selftest", "--device", "wgpu:software"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.trim_end().ends_with(": all passed, 9 skipped"), "{}", ended.results);
}

/// A value that exceeds the buffer limit is reported before it is computed, with its place in the pipeline.
#[test]
fn a_limit_that_a_graph_exceeds_is_named() {
    if !is_emulated() {
        return;
    }
    let desk = Desk::new();
    let run = |graph: &str| {
        desk.write("large.ron", graph);
        desk.engine(&["run", "large.ron", "--quiet", "--device", "wgpu:software"])
    };
    let wide = run(r#"(
        params: {"x": "f32[40000]"},
        nodes: {"wide": "softmax(reshape(x, shape=[40000, 1]) + reshape(x, shape=[1, 40000]), axis=0)"},
        stages: {"go": Run(outputs: ["wide"])},
    )"#);
    check_failure(&wide, 3, "error[E0610]: ");
    assert!(wide.errors.contains("`wide` takes 6103 MiB, and a kernel reaches at most "), "{}", wide.errors);
    check_place(&wide, "large.ron:3:26", "`wide` is part of this");
    let large = run(r#"(
        params: {"x": "f32[40000, 40000]"},
        nodes: {"y": "sum(x, axis=1)"},
        stages: {"go": Run(outputs: ["y"])},
    )"#);
    check_failure(&large, 3, "error[E0610]: `x` takes 6400000000 bytes, and ");
    check_place(&large, "large.ron:2:", "`x` is declared here");
}

/// Checks that a message points at this place of a pipeline.
#[track_caller]
fn check_place(ended: &Ended, place: &str, remark: &str) {
    for part in [place, remark] {
        assert!(ended.errors.contains(part), "`{part}` is missing in:\n{}", ended.errors);
    }
}

/// If the process may not allocate more, the message names the largest uses of memory, as on a GPU without memory.
#[test]
#[cfg(target_os = "linux")]
fn an_allocation_that_an_adapter_refuses_is_reported() {
    if !is_emulated() {
        return;
    }
    let outputs: Vec<String> = (0..60).map(|i| format!("\"y{i}\"")).collect();
    let nodes: String = (0..60).map(|i| format!("\"y{i}\": \"exp(outer + {i}.0)\", ")).collect();
    let graph = format!(
        r#"(
            params: {{"x": "f32[5000]"}},
            nodes: {{"outer": "reshape(x, shape=[5000, 1]) * reshape(x, shape=[1, 5000])", {nodes}}},
            stages: {{"go": Run(outputs: [{}])}},
        )"#,
        outputs.join(", ")
    );
    let desk = Desk::new();
    desk.write("many.ron", graph);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4000000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_engine")]);
    command.args(["run", "many.ron", "--quiet", "--device", "wgpu:software"]);
    command.current_dir(desk.dir.path()).env("ENGINE_OFFLINE", "1");
    let ended = Ended::from(command.output().unwrap());
    check_failure(&ended, 3, "error[E0604]: ");
    let parts =
        [" bytes of memory left; the largest tensors of `many` are `outer` (96 MiB), ", "`y0` (96 MiB)"];
    for part in parts {
        assert!(ended.errors.contains(part), "`{part}` is missing in:\n{}", ended.errors);
    }
    check_place(&ended, "many.ron:3:", "the largest tensor is part of this");
}

/// The driver's kernel cache is kept, and damaged files of it are replaced.
#[test]
fn a_damaged_cache_of_wgpu_does_no_harm() {
    if !is_emulated() {
        return;
    }
    let desk = Desk::new();
    let run = || {
        let mut command = desk.command(&["run", "tiny.ron", "--device", "wgpu:software"]);
        command.args(["--set", "train.epochs=1"]).env("ENGINE_CACHE_DIR", desk.path("cache"));
        let ended = Ended::from(command.output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.errors
    };
    let entries = || fs::read_dir(desk.path("cache/wgpu")).unwrap().map(|entry| entry.unwrap().path());
    run();
    let whole: Vec<_> = entries().map(|path| fs::read(path).unwrap()).collect();
    assert!(!whole.is_empty());
    assert!(!run().contains("damaged"));
    for path in entries() {
        let mut bytes = fs::read(&path).unwrap();
        bytes[30] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let errors = run();
    assert!(errors.contains(".pipeline is damaged; its content is computed again"), "{errors}");
    assert!(entries().map(|path| fs::read(path).unwrap()).eq(whole));
}
