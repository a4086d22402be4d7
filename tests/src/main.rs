//! The operation gateway as the tests start it: the product's own `main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    operation_gateway::main()
}
