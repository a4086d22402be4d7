//! What the console checks in the browser, with the code of the commands `evidence verify` and `approvers sign`.
//!
//! Built for `wasm32-wasip1`, the program reads one request as JSON from standard input and writes the answer to standard output. It has
//! no other input: no files, no clock, no network. The page starts it anew for each request (`page/checks.js`).

use gateway_browser::answer;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;

#[expect(clippy::disallowed_methods, reason = "standard output is the answer, and the page reads it")]
fn main() -> ExitCode {
    let mut request = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut request);
    let written = read.and_then(|_| std::io::stdout().lock().write_all(answer(&request).as_bytes()));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
