//! How commands end: their exit codes, and their errors as lines.

use gateway_service::output::{self, Lines};
use gateway_service::process;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// The name of the program, before its errors.
pub const NAME: &str = "operation-gateway";

/// Exit code of invalid settings, and of a check that could not be made.
pub const EXIT_UNCHECKED: u8 = 2;

/// Why a command failed, in one line.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Runs an asynchronous command. An error is printed to standard error in one line; `exit_code` gives its exit code.
pub fn run<E>(
    command: impl Future<Output = Result<ExitCode, E>>,
    exit_code: impl FnOnce(&E) -> u8,
) -> ExitCode
where
    E: From<std::io::Error> + Into<Fault>,
{
    match process::small_runtime().map_err(E::from).and_then(|runtime| runtime.block_on(command)) {
        Ok(code) => code,
        Err(error) => {
            let code = exit_code(&error);
            let error: Fault = error.into();
            report_errors(&[gateway_domain::error_chain(error.as_ref())], code)
        }
    }
}

/// Prints the result of a command, or its error. `failed`: the exit code of an error.
pub(crate) fn finish(done: Result<(Lines, ExitCode), Fault>, failed: u8) -> ExitCode {
    match done {
        Ok((lines, code)) => {
            // The exit code shows it.
            let _unwritten = output::print(&lines);
            code
        }
        Err(error) => report_errors(&[gateway_domain::error_chain(error.as_ref())], failed),
    }
}

/// Prints one line for each error to standard error, and returns the exit code.
pub fn report_errors(errors: &[String], code: u8) -> ExitCode {
    output::report_errors(NAME, errors, code)
}

/// The error with its sources, and the file that it is about.
pub(crate) fn with_path(path: &Path, error: &(dyn Error + 'static)) -> Fault {
    format!("`{}`: {}", path.display(), gateway_domain::error_chain(error)).into()
}
