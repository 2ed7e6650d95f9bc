//! The `engine` binary.

use std::process::Command;

/// The text that a command prints. Without a data folder, the rows of MNIST are the built-in ones.
pub fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("ENGINE_OFFLINE", "1").env_remove("ENGINE_DATA_DIR");
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
