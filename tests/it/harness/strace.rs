//! Faults of the operating system in a running process: strace makes chosen system calls fail.

use super::child::Program;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Faults in a process, until [`Faults::end`].
pub(crate) struct Faults(Program);

impl Faults {
    /// From now on these system calls (separated by commas) of its databases' writers fail as `fault` says, for example
    /// `error=EIO:when=2+`: each writer's second call and all after it.
    pub(crate) fn begin(pid: u32, calls: &str, fault: &str) -> Self {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|thread| thread.unwrap().path());
        let writers = threads.filter(|thread| {
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "sqlite-writer")
        });
        let writers: Vec<_> = writers.map(|thread| thread.file_name().unwrap().to_owned()).collect();
        Self::attach(&writers, calls, fault, &[])
    }

    /// From now on these system calls on this open file fail, in all threads.
    pub(crate) fn begin_at(file: &Path, pid: u32, calls: &str, fault: &str) -> Self {
        Self::attach(&[pid.to_string().into()], calls, fault, &["-f".into(), "-P".into(), file.into()])
    }

    fn attach(pids: &[OsString], calls: &str, fault: &str, options: &[OsString]) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-o", "/dev/null", "-e", &format!("trace={calls}")]).args(options);
        strace.args(["-e", &format!("inject={calls}:{fault}")]);
        for pid in pids {
            strace.arg("-p").arg(pid);
        }
        let mut program = Program::start(&mut strace, "install strace (Debian: apt-get install strace)");
        for _ in pids {
            program.wait_for_line("attached");
        }
        Self(program)
    }

    /// The calls succeed again.
    pub(crate) fn end(mut self) {
        // strace ends with the signal that it got, after it has let go of the process. Of a process that just died it can wait for a thread
        // without end; then it is killed.
        self.0.signal("-TERM");
        self.0.ends_within(Duration::from_secs(5));
    }
}
