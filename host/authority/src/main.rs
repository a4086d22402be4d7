//! The policy authority's binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    policy_authority::main()
}
