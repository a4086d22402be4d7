//! The policy authority's own main.

use std::process::ExitCode;

fn main() -> ExitCode {
    policy_authority::main()
}
