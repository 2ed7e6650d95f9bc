#![allow(clippy::unwrap_used, missing_docs)]
//! `docs/ops.md` is generated, and the plugin guide quotes a file. This test compares both with their sources.
//! `UPDATE_EXPECT=1 cargo test` writes `docs/ops.md` anew.

#[path = "common/command.rs"]
mod command;

#[test]
fn the_op_reference_is_fresh() {
    let reference = command::printed(&["ops", "--markdown"]);
    expect_test::expect_file!["../docs/ops.md"].assert_eq(&reference);
}

#[test]
fn the_listings_of_the_plugin_guide_are_the_files_themselves() {
    let guide = include_str!("../docs/plugin-guide.md");
    let listings: Vec<&str> = guide.split("<!-- listing ").skip(1).collect();
    assert_eq!(listings.len(), 4);
    for listing in listings {
        let (path, rest) = listing.split_once(" -->\n```rust\n").unwrap();
        let file = std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert_eq!(rest.split("```").next().unwrap(), file, "{path}");
    }
}
