#![allow(clippy::unwrap_used, missing_docs)]
//! The dependencies between crates that ARCHITECTURE.md promises.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Dependencies of the workspace's packages without development dependencies: package to names.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_string();
    let of = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap();
        all.iter().filter(|dependency| dependency["kind"].is_null()).map(name).collect()
    };
    metadata["packages"].as_array().unwrap().iter().map(|package| (name(package), of(package))).collect()
}

const DRIVERS: &[&str] = &["cudarc", "cubecl-cuda", "cubecl-wgpu", "wgpu", "ash"];

#[test]
fn the_core_knows_no_device_no_runtime_and_no_plugin() {
    let core = &dependencies()["engine-core"];
    let forbidden =
        core.iter().filter(|name| DRIVERS.contains(&name.as_str()) || name.starts_with("engine-"));
    assert_eq!(forbidden.collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(!core.contains("tokio"), "the core has no threads");
}

#[test]
fn plugins_know_the_core_alone() {
    let all = dependencies();
    let plugins: Vec<_> = all
        .iter()
        .filter(|(name, _)| {
            name.starts_with("engine-")
                && !["engine-core", "engine-runtime", "engine-digits", "engine-laws"].contains(&name.as_str())
        })
        .collect();
    assert!(plugins.len() >= 4);
    for (name, dependencies) in plugins {
        let ours: Vec<&String> = dependencies.iter().filter(|d| d.starts_with("engine")).collect();
        assert_eq!(ours, ["engine-core"], "{name}");
        assert!(!dependencies.iter().any(|d| DRIVERS.contains(&d.as_str())), "{name}");
    }
}

#[test]
fn data_sources_know_the_core_and_the_runtime_alone() {
    let all = dependencies();
    for source in ["engine-digits", "engine-laws"] {
        let ours: Vec<&String> = all[source].iter().filter(|d| d.starts_with("engine")).collect();
        assert_eq!(ours, ["engine-core", "engine-runtime"], "{source}");
    }
}

#[test]
fn the_runtime_knows_no_op_family_and_no_source() {
    let ours: Vec<String> =
        dependencies()["engine-runtime"].iter().filter(|name| name.starts_with("engine")).cloned().collect();
    assert_eq!(ours, ["engine-core", "engine-numerics"]);
}

#[test]
fn the_numerics_know_the_core_alone() {
    let ours: Vec<String> =
        dependencies()["engine-numerics"].iter().filter(|name| name.starts_with("engine")).cloned().collect();
    assert_eq!(ours, ["engine-core"]);
}
