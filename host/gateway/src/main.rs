//! The operation gateway.

use std::process::ExitCode;

fn main() -> ExitCode {
    operation_gateway::main()
}
