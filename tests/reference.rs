#![allow(clippy::unwrap_used, missing_docs)]
//! `docs/ops.md` is generated, and the plugin guide quotes a file. This test compares both with their sources.
//! `UPDATE_EXPECT=1 cargo test` writes `docs/ops.md` anew.

use std::process::Command;

#[test]
fn the_op_reference_is_fresh() {
    let output = Command::new(env!("CARGO_BIN_EXE_engine")).args(["ops", "--markdown"]).output().unwrap();
    assert!(output.status.success());
    expect_test::expect_file!["../docs/ops.md"].assert_eq(&String::from_utf8(output.stdout).unwrap());
}

#[test]
fn the_listing_of_the_plugin_guide_is_the_file_itself() {
    let guide = include_str!("../docs/plugin-guide.md");
    let listing = guide.split("<!-- listing -->\n```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(listing, include_str!("../plugins/math/src/activation/silu.rs"));
}
