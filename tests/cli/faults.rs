//! Faulty machines: the command prints a message with its code, and exits with code 3. Under `auto`, it uses the next
//! device. CUDA's faults are simulated by libraries that only fail (`stub/cuda.c`), so no GPU is needed.

use super::*;
use std::sync::OnceLock;

/// Two outputs of a million numbers each.
const WIDE: &str = r#"(
  params: {"x": (type: "f32[1000, 1000]", init: Constant(2.0))},
  nodes: {"y": "exp(x)", "z": "x + sum(y, axis=1, keepdim=true)"},
  stages: {"go": Run(outputs: ["y", "z"])},
)"#;

/// A folder with these libraries. `None`, with a note, if there is no C compiler.
pub(super) fn stub(libraries: &[&str]) -> Option<tempfile::TempDir> {
    static COMPILED: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/stub/cuda.c");
        let library = dir.path().join("stub.so");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(source).output();
        let Ok(made) = made else { return None };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(fs::read(library).unwrap())
    });
    let Some(bytes) = compiled else {
        eprintln!("skipped: there is no C compiler `cc`");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    libraries.iter().for_each(|name| fs::write(dir.path().join(name), bytes).unwrap());
    Some(dir)
}

const ALL: [&str; 3] = ["libcuda.so", "libnvrtc.so", "libcublasLt.so"];

/// Runs `wide.ron` with these libraries as CUDA, and without any other GPU.
fn run(desk: &Desk, stub: &Path, settings: &[(&str, &str)], device: &str) -> Ended {
    run_graph(desk, WIDE, stub, settings, device)
}

fn run_graph(desk: &Desk, graph: &str, stub: &Path, settings: &[(&str, &str)], device: &str) -> Ended {
    desk.write("wide.ron", graph);
    let mut command = desk.command(&["run", "wide.ron", "--device", device]);
    command.env("LD_LIBRARY_PATH", stub).env("ENGINE_CACHE_DIR", desk.path("cache")).envs(without_vulkan());
    command.envs(settings.iter().copied());
    Ended::from(command.output().unwrap())
}

/// Hides all drivers from Vulkan's loader.
pub(super) fn without_vulkan() -> [(&'static str, &'static str); 2] {
    [("VK_DRIVER_FILES", "/none.json"), ("VK_ICD_FILENAMES", "/none.json")]
}

/// If the stub does not fail, the run succeeds.
#[test]
fn the_stub_stands_in_for_cuda() {
    let Some(stub) = stub(&ALL) else { return };
    let desk = Desk::new();
    let ended = run(&desk, stub.path(), &[], "cuda");
    assert_eq!(ended.code, 0, "{}", ended.errors);
    // `auto` chooses a present device, and reports its versions and memory.
    assert_eq!(report(&desk, stub.path(), "auto")["device"], "Stub GPU (1 multiprocessors)");
    let mut list = desk.command(&["devices"]);
    let list = Ended::from(list.env("LD_LIBRARY_PATH", stub.path()).envs(without_vulkan()).output().unwrap());
    let said = [
        "cuda:0: Stub GPU (1 multiprocessors), 64.0 GiB of memory\n",
        "compute capability: 9.0\n",
        "driver supports CUDA: 13.0\n",
        "NVRTC: 12.8\n",
        "cuBLASLt: 13.0.2\n",
        "kernels on tensor cores: of warpgroups (wgmma)\n",
        "headers of the toolkit: ",
        "free memory: 5 MiB\n",
    ];
    said.iter().for_each(|line| assert!(list.results.contains(line), "no `{line}` in\n{}", list.results));
}

/// The report of a run of `wide.ron`.
fn report(desk: &Desk, stub: &Path, device: &str) -> serde_json::Value {
    let mut command = desk.command(&["run", "wide.ron", "--device", device, "--report", "report.json"]);
    command.env("LD_LIBRARY_PATH", stub).env("ENGINE_CACHE_DIR", desk.path("cache")).envs(without_vulkan());
    let ended = Ended::from(command.output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap()
}

/// More queries than the attention kernel of a GPU supports. The CPU supports any number, and they are too few for the
/// matmul library.
const ATTENTION: &str = r#"(
  params: {"q": "f32[16, 8]", "k": "f32[16, 8]", "v": "f32[16, 8]"},
  nodes: {"y": "softmax(q @ transpose(k), axis=1) @ v"},
  stages: {"go": Run(outputs: ["y"])},
)"#;

#[test]
fn the_page_of_a_run_shows_the_kernels_of_the_device_that_ran() {
    let Some(stub) = stub(&ALL) else { return };
    let desk = Desk::new();
    desk.write("attention.ron", ATTENTION);
    for (device, is_one_kernel) in [("cpu", true), ("cuda", false), ("auto", false)] {
        let mut command = desk.command(&["run", "attention.ron", "--device", device]);
        command.args(["--report", "report.html"]).env("ENGINE_CACHE_DIR", desk.path("cache"));
        command.env("LD_LIBRARY_PATH", stub.path()).envs(without_vulkan());
        let ended = Ended::from(command.output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let page = fs::read_to_string(desk.path("report.html")).unwrap();
        assert_eq!(page.contains("<td>attention</td>"), is_one_kernel, "{device}");
    }
}

/// Plans for GPUs are explained on machines without a GPU.
#[test]
fn plans_are_explained_for_other_devices() {
    let desk = Desk::new();
    desk.write("attention.ron", ATTENTION);
    let ended = |verb: &str, device: &str| {
        let mut command = desk.command(&[verb, "attention.ron", "--device", device]);
        Ended::from(command.env("CUDA_VISIBLE_DEVICES", "-1").envs(without_vulkan()).output().unwrap())
    };
    let devices = [("cpu", true), ("cuda", false), ("cuda:7", false), ("wgpu", true), ("auto", true)];
    for (device, is_one_kernel) in devices {
        let ended = ended("explain", device);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert_eq!(ended.results.contains("\nattention "), is_one_kernel, "{device}: {}", ended.results);
    }
    check_failure(&ended("run", "wgpu"), 3, "error[E0603]: device `wgpu:0` does not start: ");
}

#[test]
fn faults_of_cuda_are_reported_and_auto_continues() {
    let broken = [
        ("no_gpu", "the NVIDIA driver sees no GPU"),
        (
            "old_driver",
            "the NVIDIA driver is too old: it supports CUDA 11.4, and CUDA 12.8 is needed; update the driver",
        ),
        ("exclusive", "another process has the GPU, whose compute mode lets in one at a time; "),
        ("full", "the GPU has no memory left for another process; "),
        (
            "new_compiler",
            "NVRTC is of CUDA 99.8, and the NVIDIA driver supports CUDA 13.0 only; update the driver",
        ),
        (
            "old_gpu",
            "the GPU has compute capability 6.0, and NVRTC of CUDA 12.8 compiles for 7.5 and later only; ",
        ),
    ];
    let Some(stub) = stub(&ALL) else { return };
    for (fault, said) in broken {
        check_device_is_left(stub.path(), &[("STUB_FAULT", fault)], said);
    }
}

/// The driver compiles the PTX to machine code.
#[test]
fn a_gpu_newer_than_the_compiler_runs_ptx_for_the_newest_known_one() {
    let Some(stub) = stub(&ALL) else { return };
    let settings = [("STUB_FAULT", "new_gpu")];
    let desk = Desk::new();
    let ended = run(&desk, stub.path(), &settings, "cuda");
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let mut list = desk.command(&["devices"]);
    list.env("LD_LIBRARY_PATH", stub.path()).envs(without_vulkan()).envs(settings);
    let list = Ended::from(list.output().unwrap());
    let said = "NVRTC: 12.8, which does not know this GPU: it compiles for 12.0, and the driver from there\n";
    assert!(list.results.contains(said), "{}", list.results);
}

/// The variable limits the targets of the compiler, as an older one would.
#[test]
fn kernels_of_an_older_gpu_run_on_a_newer_one() {
    let Some(stub) = stub(&ALL) else { return };
    let listed = |capability: &str| {
        let desk = Desk::new();
        let mut list = desk.command(&["devices"]);
        list.env("LD_LIBRARY_PATH", stub.path()).envs(without_vulkan());
        Ended::from(list.env("ENGINE_CUDA_CAPABILITY", capability).output().unwrap()).results
    };
    let older = listed("8.0");
    let said =
        "NVRTC: 12.8, as ENGINE_CUDA_CAPABILITY asks: it compiles for 7.5, and the driver from there\n";
    assert!(older.contains(said), "{older}");
    assert!(older.contains("kernels on tensor cores: none, they need compute capability 8.0\n"), "{older}");
    let wrong = listed("ampere");
    let said = "ENGINE_CUDA_CAPABILITY is `ampere`, and a compute capability such as 8.0 is expected";
    assert!(wrong.contains(said), "{wrong}");
}

#[test]
fn missing_libraries_are_named() {
    let Some(neither) = stub(&ALL[..1]) else { return };
    // On a machine with the real libraries, these are found.
    if !has_library("libnvrtc.so") {
        check_device_is_left(
            neither.path(),
            &[],
            "NVIDIA's run-time compiler is missing: libnvrtc.so is not ",
        );
    }
    let Some(no_products) = stub(&ALL[..2]) else { return };
    if !has_library("libcublasLt.so") {
        let said = "NVIDIA's library of matrix products is missing: libcublasLt.so is not ";
        check_device_is_left(no_products.path(), &[], said);
    }
    let Some(none) = stub(&[]) else { return };
    if !has_library("libcuda.so") {
        check_device_is_left(none.path(), &[], "there is no NVIDIA driver: libcuda.so is not found");
    }
}

fn has_library(name: &str) -> bool {
    let listed = Command::new("ldconfig").arg("-p").output();
    listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).contains(name))
}

/// Checks that the requested device does not start, and that `auto` and the list of devices report it and continue.
#[track_caller]
fn check_device_is_left(stub: &Path, settings: &[(&str, &str)], said: &str) {
    let desk = Desk::new();
    let asked = run(&desk, stub, settings, "cuda");
    check_failure(&asked, 3, &format!("error[E0603]: device `cuda:0` does not start: {said}"));
    let auto = run(&desk, stub, settings, "auto");
    assert_eq!(auto.code, 0, "{}", auto.errors);
    // The line has the first clause of the reason, and `devices` all of it.
    let clause = said.split([':', ';']).next().unwrap().split(", which").next().unwrap();
    let clause = clause.strip_prefix("there is ").unwrap_or(clause);
    assert!(auto.errors.starts_with(&format!("device: cpu (cuda: {clause}; wgpu: ")), "{}", auto.errors);
    let mut list = desk.command(&["devices"]);
    list.env("LD_LIBRARY_PATH", stub).envs(without_vulkan()).envs(settings.iter().copied());
    let list = Ended::from(list.output().unwrap());
    assert_eq!(list.code, 0, "{}", list.errors);
    assert!(list.results.contains(&format!("cuda:0: not usable: {said}")), "{}", list.results);
}

#[test]
fn later_faults_are_reported_and_auto_starts_over() {
    let Some(stub) = stub(&ALL) else { return };
    let no_room = "; the largest tensors of `";
    let faults = [
        (
            "code_memory",
            "E0604",
            vec!["the GPU has no memory left, 5 MiB are free; loading kernel `", no_room],
        ),
        ("launch_memory", "E0604", vec!["the GPU has no memory left, 5 MiB are free; starting a `", no_room]),
        ("pinned_memory", "E0604", vec!["the host (page-locked) has no ", " bytes of memory left", no_room]),
        (
            "compile",
            "E0608",
            vec![
                "the kernel of `",
                "exp",
                "error: the stub refuses everything",
                "` is part of this",
                "a bug of the engine",
                "report it",
            ],
        ),
        (
            "lost",
            "E0609",
            vec!["stage `go`: the GPU was lost: running a step: ", "unspecified launch failure", "--resume"],
        ),
        ("memory", "E0604", vec!["Stub GPU (1 multiprocessors) has no ", ", 5 MiB are free", no_room]),
        // With twice as many rows, even the inputs of the plan do not fit.
        (
            "memory",
            "E0604",
            vec![
                "Stub GPU (1 multiprocessors) has no 8000000 bytes",
                ", 5 MiB are free; they would hold `x`",
            ],
        ),
    ];
    let last = faults.len() - 1;
    for (number, (fault, code, parts)) in faults.into_iter().enumerate() {
        let desk = Desk::new();
        let settings = [("STUB_FAULT", fault)];
        let graph =
            if number == last { WIDE.replace("[1000, 1000]", "[2000, 1000]") } else { WIDE.to_string() };
        let asked = run_graph(&desk, &graph, stub.path(), &settings, "cuda");
        check_failure(&asked, 3, &format!("error[{code}]: "));
        for part in parts {
            assert!(asked.errors.contains(part), "`{part}` is missing in:\n{}", asked.errors);
        }
        let auto = run_graph(&desk, &graph, stub.path(), &settings, "auto");
        assert_eq!(auto.code, 0, "{}", auto.errors);
        assert!(auto.errors.contains("cannot run this: "), "{}", auto.errors);
        assert!(auto.errors.contains("device: cpu"), "{}", auto.errors);
    }
}

/// The toolkit's headers define halves. Without them, all other types still run.
#[test]
fn missing_headers_are_named_where_halves_need_them() {
    let Some(stub) = stub(&ALL) else { return };
    if ["/usr/local/cuda", "/opt/cuda", "/usr"]
        .iter()
        .any(|root| Path::new(root).join("include/cuda_fp16.h").is_file())
    {
        eprintln!("skipped: this machine has the headers");
        return;
    }
    let desk = Desk::new();
    desk.write("half.ron", WIDE.replace("f32[", "f16["));
    let ended = |device: &str| {
        let mut command = desk.command(&["run", "half.ron", "--device", device]);
        command.env("LD_LIBRARY_PATH", stub.path()).env("ENGINE_CACHE_DIR", desk.path("cache"));
        command.envs(without_vulkan()).env_remove("CUDA_HOME").env_remove("CUDA_PATH");
        Ended::from(command.output().unwrap())
    };
    let said =
        "the CUDA toolkit's headers are missing (cuda_fp16.h), which half precision needs; set CUDA_HOME";
    let asked = ended("cuda");
    check_failure(&asked, 3, "error[E0603]: ");
    assert!(asked.errors.contains(said), "{}", asked.errors);
    let auto = ended("auto");
    assert_eq!(auto.code, 0, "{}", auto.errors);
    assert!(auto.errors.contains(said) && auto.errors.contains("device: cpu"), "{}", auto.errors);
}

/// Every command that runs a graph starts over on the next device, not only `run`.
#[test]
fn all_commands_go_on_to_the_next_device() {
    let Some(stub) = stub(&ALL) else { return };
    let desk = Desk::new();
    desk.write("wide.ron", WIDE);
    desk.run(&["--set", "train.epochs=1"]);
    let rows = digits::draw(digits::DEFAULT_SEED, Part::Test, 3).unwrap();
    save_npy(&desk.path("images.npy"), &rows.images);
    let commands: [&[&str]; 3] = [
        &["bench", "wide.ron", "--warmup", "0", "--steps", "1"],
        &["profile", "wide.ron", "--steps", "1"],
        &["predict", "tiny.ron", "--load", "latest.ckpt", "--input", "images.npy"],
    ];
    for (command, fault) in commands.iter().flat_map(|&command| [(command, "compile"), (command, "lost")]) {
        let on = |device: &str| {
            let mut engine = desk.command(&[command, &["--device", device]].concat());
            // A compiled kernel in the cache needs no compiler.
            engine.env("LD_LIBRARY_PATH", stub.path()).env("ENGINE_CACHE_DIR", desk.path(fault));
            Ended::from(engine.envs(without_vulkan()).env("STUB_FAULT", fault).output().unwrap())
        };
        let asked = on("cuda");
        assert_eq!((asked.code, asked.results.as_str()), (3, ""), "{command:?}, {fault}: {}", asked.errors);
        let auto = on("auto");
        assert_eq!(auto.code, 0, "{command:?}, {fault}: {}", auto.errors);
        assert!(
            auto.errors.contains("note: Stub GPU (1 multiprocessors) cannot run this: "),
            "{}",
            auto.errors
        );
        assert!(!auto.results.is_empty());
    }
}

/// Damaged files of the cache, and valid ones that the driver refuses, are replaced.
#[test]
fn a_damaged_cache_is_compiled_again() {
    let Some(stub) = stub(&ALL) else { return };
    let desk = Desk::new();
    let run = |settings: &[(&str, &str)]| {
        let ended = run(&desk, stub.path(), settings, "cuda");
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.errors
    };
    let entries = || fs::read_dir(desk.path("cache/cuda")).unwrap().map(|entry| entry.unwrap().path());
    run(&[]);
    let whole: Vec<Vec<u8>> = entries().map(|path| fs::read(path).unwrap()).collect();
    assert!(!run(&[]).contains("damaged"));
    for path in entries() {
        let mut bytes = fs::read(&path).unwrap();
        bytes[30] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let errors = run(&[]);
    assert!(errors.contains(".cubin is damaged; its content is computed again"), "{errors}");
    assert!(entries().map(|path| fs::read(path).unwrap()).eq(whole));
    let errors = run(&[("STUB_CODE", "other code"), ("STUB_REFUSES", "code")]);
    assert!(errors.contains("the driver refuses a kernel of the cache; it was compiled again"), "{errors}");
    assert!(!run(&[("STUB_REFUSES", "code")]).contains("refuses"));
}
