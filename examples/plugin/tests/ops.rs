//! The ops match their forms, and work together with those of the engine.

use std::process::Command;

use engine::Engine;
use engine::core::testing;

#[test]
fn the_ops_match_their_forms() {
    let engine = my_plugin::with_ops(Engine::new()).unwrap_or_else(|faults| panic!("{faults}"));
    for name in ["softsign", "bessel_j0", "running_median", "row_moments", "log_cosh"] {
        let form = engine.registry.op(name).unwrap_or_else(|| panic!("no op {name}"));
        assert_eq!(testing::op_examples(&form, &engine.registry), []);
        assert_eq!(testing::op_gradients(&form, &engine.registry), []);
    }
}

/// This program's engine knows them all. Its self-test runs them on the device, alone and fused with neighbours.
#[test]
fn the_program_has_the_ops() {
    let results = |arguments: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_my_plugin")).args(arguments).output();
        let ended = ended.unwrap_or_else(|error| panic!("{error}"));
        let (results, errors) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success(), "{results}{errors}");
        results.into_owned()
    };
    let ops = results(&["ops"]);
    for op in ["softsign", "bessel_j0", "running_median", "row_moments", "excess", "softmax"] {
        assert!(ops.contains(&format!("\n  {op} ")), "{ops}");
    }
    // GPUs get the same bodies. If wgpu must be tested, so is an emulated GPU.
    let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
    let has_wgpu = required.split(',').any(|device| device == "wgpu");
    if !has_wgpu {
        eprintln!("skipped on wgpu: ENGINE_REQUIRE does not name it");
    }
    let devices = if has_wgpu { vec!["cpu", "wgpu:software"] } else { vec!["cpu"] };
    for op in ["softsign", "bessel_j0", "running_median", "row_moments", "log_cosh"] {
        for device in &devices {
            let tested = results(&["selftest", "--filter", op, "--device", device]);
            assert!(tested.contains("all passed, 0 skipped"), "{device}: {tested}");
        }
    }
    // The bodies share a kernel with their neighbours, the kernel is one by itself, and gradients pass through all of
    // them.
    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/smooth.ron");
    let kernels = results(&["explain", graph]);
    let fused = kernels.lines().find(|line| line.contains("my_plugin.j0")).unwrap_or_default();
    assert!(fused.contains("abs") && fused.contains("mul"), "{kernels}");
    results(&["verify", graph, "--device", "cpu"]);
    for device in devices {
        let trained = results(&["run", graph, "--device", device]);
        assert!(trained.contains("fit: epoch 3/3"), "{device}: {trained}");
    }
}
