//! Programs that a test starts. They are killed at its end, and their output is shown if an expected line does not come.

use super::wire::TIMEOUT;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    log: Vec<String>,
}

impl Program {
    /// Starts the program. `missing`: the hint to print if it is not installed.
    pub(crate) fn start(command: &mut Command, missing: &str) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; {missing}"));
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { child, lines, log: Vec::new() }
    }

    /// Waits for the next line of output that contains `part`.
    pub(crate) fn wait_for_line(&mut self, part: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("no `{part}` in {:#?}", self.log));
            self.log.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Sends SIGKILL, and waits.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, named as in `-HUP`.
    pub(crate) fn signal(&self, signal: &str) {
        let signalled = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
    }

    /// Waits until it has ended, at most so long.
    pub(crate) fn ends_within(&mut self, duration: Duration) {
        let deadline = Instant::now() + duration;
        // Its output ends when it does.
        while self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
    }

    /// Sends SIGTERM, and waits; returns the exit status and all output.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Vec<String>) {
        self.signal("-TERM");
        let status = self.child.wait().unwrap();
        self.log.extend(self.lines.iter());
        (status, std::mem::take(&mut self.log))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _already_dead = self.child.kill();
        let _already_waited = self.child.wait();
    }
}
