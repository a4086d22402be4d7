//! The gateway's own `main`, compiled with failpoints for the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    operation_gateway::main()
}
