//! The engine with these ops: `cargo run -- ops` lists them with all others, `cargo run -- run GRAPH.ron` runs graphs
//! that use them.

fn main() -> std::process::ExitCode {
    engine::cli::main_with(my_plugin::with_ops)
}
