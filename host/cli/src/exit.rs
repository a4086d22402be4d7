//! How commands end.

use gateway_service::output::{self, Lines};
use gateway_service::process::Fault;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// Prints the result of a command, or its error. `failed`: the exit code of an error.
pub(crate) fn finish(done: Result<(Lines, ExitCode), Fault>, failed: u8) -> ExitCode {
    match done {
        Ok((lines, code)) => {
            // The exit code shows it.
            let _unwritten = output::print(&lines);
            code
        }
        Err(error) => output::report_error(error.as_ref(), failed),
    }
}

/// The error with its sources, and the file that it is about.
pub(crate) fn with_path(path: &Path, error: &(dyn Error + 'static)) -> Fault {
    format!("`{}`: {}", path.display(), gateway_domain::error_chain(error)).into()
}
