//! The runtime node's own main.

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime_node::main()
}
