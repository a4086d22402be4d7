//! Commands run at a pseudo-terminal.

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

/// Runs the command with a terminal as standard input and standard error, on which `typed` is entered. Returns its output and
/// the text on the terminal.
pub(crate) fn run_at_terminal(mut command: Command, typed: &str) -> (Output, String) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = || Stdio::from(open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
    command.stdin(terminal()).stdout(Stdio::piped()).stderr(terminal());
    let child = command.spawn().unwrap();
    // Closes the test's handles of the child's end of the terminal.
    drop(command);
    let mut controller = File::from(controller);
    controller.write_all(typed.as_bytes()).unwrap();
    let mut screen = Vec::new();
    // Reading fails once the child has closed its end.
    let _end = controller.read_to_end(&mut screen);
    (child.wait_with_output().unwrap(), String::from_utf8(screen).unwrap())
}
