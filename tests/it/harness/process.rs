//! The gateway's real process: started, called over TCP, and signalled.

use super::world::settings;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
    /// The address of probes, if it is a separate one.
    pub(crate) admin_address: Option<String>,
    lines: Receiver<String>,
    pub(crate) log: Vec<String>,
}

pub(crate) fn command(folder: &Path, given: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway-under-test"));
    for (name, value) in settings(folder, given) {
        command.arg(format!("--{}={value}", name.replace('_', "-")));
    }
    command.arg("--log-format=json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs another command of the same binary on the same data: exit code, standard output, standard error.
pub(crate) fn tool(folder: &Path, given: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(folder, given).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

impl Process {
    /// Starts, and waits until it listens. `failpoint`: where it stops, as `name:n`.
    pub(crate) fn start(folder: &Path, failpoint: Option<&str>, given: &[(&str, &str)]) -> Self {
        let mut command = command(folder, given);
        if let Some(failpoint) = failpoint {
            command.env("SVC_FAILPOINT", failpoint);
        }
        Self::listening(command)
    }

    /// As [`Self::start`], with a command of the caller's.
    pub(crate) fn listening(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Self::spawn(command);
        let listens = process.wait_for_line("operation-gateway listens");
        let line: Value = serde_json::from_str(&listens).unwrap();
        process.address = line["address"].as_str().unwrap().to_owned();
        process.admin_address = line["admin_address"].as_str().map(str::to_owned);
        process
    }

    /// Starts without waiting.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, address: String::new(), admin_address: None, lines, log: Vec::new() }
    }

    /// The one-line error of a start that must fail.
    #[track_caller]
    pub(crate) fn refused(folder: &Path, given: &[(&str, &str)]) -> String {
        let output = command(folder, given).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("operation-gateway: ")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        lines[0].to_owned()
    }

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

    /// SIGKILL, by process id.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGHUP: reloads files.
    pub(crate) fn sighup(&self) {
        let signalled = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
    }

    /// SIGTERM.
    pub(crate) fn sigterm(&self) {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(signalled.success());
    }

    /// SIGTERM; returns the exit status and the log.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Vec<String>) {
        self.sigterm();
        let status = self.child.wait().unwrap();
        self.log.extend(self.lines.iter());
        (status, std::mem::take(&mut self.log))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _already_dead = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// `GET`, for an answer that is text; returns head and body.
pub(crate) fn text(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// One HTTP request on a new connection; an error when the process dies meanwhile.
pub(crate) fn request(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}
