//! The gateway's real process: started, called over TCP, and signalled.

use super::child::Program;
use super::http::Call;
use super::samples::{approval, publication};
use super::world::settings;
use serde_json::Value;
use std::io::Result;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread;

pub(crate) const SIGN: &str = "/v1/operations/sign";
/// The end of the message about a file for a secret that others can read.
pub(crate) const SECRET_MODES: &str =
    "it must be 0600 or 0400, or 0640 or 0440 if root owns it and this process is not root's";

/// A step of [`drive`]: executes the operation.
pub(crate) const EXECUTE: (&str, Option<Value>) = ("/execute", None);

pub(crate) struct Process {
    program: Program,
    pub(crate) address: String,
    /// The address of probes and metrics; `None` if they are on the main address.
    pub(crate) admin_address: Option<String>,
}

/// The gateway's command, with all data in `folder` and JSON logs.
pub(crate) fn command(folder: &Path, overrides: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway-under-test"));
    for (name, value) in settings(folder, overrides) {
        command.arg(format!("--{}={value}", name.replace('_', "-")));
    }
    command.arg("--log-format=json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The command under a limit of resources: an option of `ulimit` with its value.
pub(crate) fn limited(command: &Command, ulimit: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {ulimit} && exec \"$0\" \"$@\"")]).arg(command.get_program());
    shell.args(command.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Runs a subcommand on the data in `folder`; returns exit code, standard output and standard error.
pub(crate) fn run(folder: &Path, overrides: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(folder, overrides).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The standard output of a subcommand that must have exited with 0 and printed no error.
#[track_caller]
pub(crate) fn stdout((code, out, err): (i32, String, String)) -> String {
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

/// The error line of a subcommand that must have exited with `expected` and printed nothing else.
#[track_caller]
pub(crate) fn error_line((code, out, err): (i32, String, String), expected: i32) -> String {
    assert_eq!((code, out.as_str(), err.lines().count()), (expected, "", 1), "{err}");
    err
}

impl Process {
    /// Starts the gateway and waits until it listens. `failpoint`: where it stops, as `name:n` for the nth time it is passed.
    pub(crate) fn start(folder: &Path, failpoint: Option<&str>, overrides: &[(&str, &str)]) -> Self {
        let mut command = command(folder, overrides);
        if let Some(failpoint) = failpoint {
            command.env("SVC_FAILPOINT", failpoint);
        }
        Self::start_command(command)
    }

    /// As [`Self::start`], with another command.
    pub(crate) fn start_command(command: Command) -> Self {
        let mut process = Self::spawn(command);
        let listens = process.wait_for_line("operation-gateway listens");
        let line: Value = serde_json::from_str(&listens).unwrap();
        process.address = line["address"].as_str().unwrap().to_owned();
        process.admin_address = line["admin_address"].as_str().map(str::to_owned);
        process
    }

    /// Starts without waiting; the addresses stay empty.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let program = Program::start(&mut command, "it is built with the tests");
        Self { program, address: String::new(), admin_address: None }
    }

    /// The one-line error of a start that must fail.
    #[track_caller]
    pub(crate) fn start_error(folder: &Path, overrides: &[(&str, &str)]) -> String {
        let output = command(folder, overrides).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("operation-gateway: ")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(!text.contains("panicked"), "{text}");
        lines[0].to_owned()
    }

    /// Waits for the next line of output that contains `part`.
    pub(crate) fn wait_for_line(&mut self, part: &str) -> String {
        self.program.wait_for_line(part)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Sends SIGKILL, and waits.
    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    /// Sends SIGHUP, on which the gateway reloads files.
    pub(crate) fn sighup(&self) {
        self.program.signal("-HUP");
    }

    pub(crate) fn sigterm(&self) {
        self.program.signal("-TERM");
    }

    /// Sends SIGTERM, and waits; returns the exit status and all output.
    pub(crate) fn terminate(self) -> (ExitStatus, Vec<String>) {
        self.program.terminate()
    }

    /// Status and body of the answer to any request.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        request(&self.address, method, path, body).unwrap()
    }

    /// The answer of a GET that must be 200.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Status and body of the answer to `GET /readyz`.
    pub(crate) fn readiness(&self) -> (u16, Value) {
        self.call("GET", "/readyz", None)
    }

    /// The answer of a POST that must be 200.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: Option<&Value>) -> Value {
        post(&self.address, path, body).unwrap()
    }
}

/// The body of the answer to `GET path`.
pub(crate) fn text(address: &str, path: &str) -> String {
    Call::get(path).send(address).unwrap().text
}

/// Sends a request on a new connection; returns status and body, or an error if the process dies meanwhile.
pub(crate) fn request(address: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
    let answer = Call::new(method, path, body.map(ToString::to_string).unwrap_or_default()).send(address)?;
    Ok((answer.status, answer.json()))
}

/// The answer of a POST that must be 200; an error if the process dies meanwhile.
#[track_caller]
pub(crate) fn post(address: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let (status, answer) = request(address, "POST", path, body)?;
    assert_eq!(status, 200, "{path}: {answer}");
    Ok(answer)
}

/// A step of [`drive`]: publishes the result.
pub(crate) fn publish_step() -> (&'static str, Option<Value>) {
    ("/publish", Some(publication()))
}

/// Posts `body` to the path `submit`, approves the operation as Alice and as Bob, and takes the further steps. Returns the last
/// view, or an error if the process dies meanwhile.
#[track_caller]
pub(crate) fn drive(
    address: &str,
    submit: &str,
    body: &Value,
    steps: &[(&str, Option<Value>)],
) -> Result<Value> {
    let submitted = post(address, submit, Some(body))?;
    let family = if submit.starts_with("/v1/custody/") { "/v1/custody/operations" } else { "/v1/operations" };
    let path = format!("{family}/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    let mut view = Value::Null;
    for subject in ["alice", "bob"] {
        view = post(address, &format!("{path}/approve"), Some(&approval(subject)))?;
    }
    for (action, body) in steps {
        view = post(address, &format!("{path}{action}"), body.as_ref())?;
    }
    Ok(view)
}

/// Starts the gateway with a failpoint, runs `client` on its address, and kills the process when it stops at the failpoint.
pub(crate) fn kill_at<T: Send + 'static>(
    folder: &Path,
    point: &str,
    overrides: &[(&str, &str)],
    client: impl FnOnce(&str) -> Result<T> + Send + 'static,
) {
    let mut process = Process::start(folder, Some(point), overrides);
    let address = process.address.clone();
    let client = thread::spawn(move || client(&address));
    process.wait_for_line("failpoint ");
    process.kill();
    assert!(client.join().unwrap().is_err(), "{point}: the process must die under its client");
}
