//! The runtime node's binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime_node::main()
}
