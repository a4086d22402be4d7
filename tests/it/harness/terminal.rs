//! Commands run at a pseudo-terminal.

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};

/// Runs the command with a terminal as standard input and standard error, on which `typed` is entered. Returns its output and
/// the text on the terminal.
pub(crate) fn run_at_terminal(mut command: Command, typed: &str) -> (Output, String) {
    let (mut controller, terminal) = open_terminal();
    command.stdin(terminal()).stdout(Stdio::piped()).stderr(terminal());
    let child = command.spawn().unwrap();
    // Closes the test's handles of the child's end of the terminal.
    drop(command);
    controller.write_all(typed.as_bytes()).unwrap();
    let screen = read(controller);
    (child.wait_with_output().unwrap(), screen)
}

/// Starts the command with a terminal as standard output and standard error. Returns it and the text on the terminal once all
/// who write to the terminal have ended.
pub(crate) fn watch_at_terminal(mut command: Command) -> (Child, String) {
    let (controller, terminal) = open_terminal();
    let child = command.stdin(Stdio::null()).stdout(terminal()).stderr(terminal()).spawn().unwrap();
    drop(command);
    (child, read(controller))
}

/// A terminal: the end at which a person sits, and how a program gets the other end.
fn open_terminal() -> (File, impl Fn() -> Stdio) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = move || {
        Stdio::from(open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap())
    };
    (File::from(controller), terminal)
}

/// Everything that is written on the terminal.
fn read(mut controller: File) -> String {
    let mut screen = Vec::new();
    // Reading fails once all have closed the other end.
    let _end = controller.read_to_end(&mut screen);
    String::from_utf8_lossy(&screen).into_owned()
}
