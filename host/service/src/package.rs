//! What an installation has besides the binary: its version in full, completions of shells, and manual pages. All come from the
//! command line's own grammar.

use crate::output::{self, Lines};
use clap::{Command, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use gateway_domain::ids::Hex32;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The commit, which a build of a release has in the environment. Builds of developers have none, so that a commit rebuilds
/// nothing.
const COMMIT: Option<&str> = option_env!("OPERATION_GATEWAY_COMMIT");

/// The versions of all dependencies.
const LOCK: &[u8] = include_bytes!("../../../Cargo.lock");

/// Time limit of each step of a health check.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The begin of the answer of a process that works.
const HEALTHY: &[u8; 13] = b"HTTP/1.1 200 ";

/// Digits of the commit and of the lock file's hash that are shown.
const N_DIGITS: usize = 12;

/// The version, the commit, and the start of the SHA-256 of Cargo.lock.
#[must_use]
pub fn version() -> String {
    let lock = Hex32::new(Sha256::digest(LOCK).into()).to_string();
    let lock = lock.get(..N_DIGITS).unwrap_or_default();
    format!("{} (commit {}, lock {lock})", env!("CARGO_PKG_VERSION"), commit(COMMIT))
}

/// The commit's first digits; whatever is not a commit is shown as unknown.
fn commit(given: Option<&str>) -> &str {
    let is_hash = |text: &&str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    given.filter(is_hash).and_then(|commit| commit.get(..N_DIGITS)).unwrap_or("unknown")
}

/// Commands that write the files of a package.
#[derive(Debug, Subcommand)]
pub enum PackageCommand {
    /// Print the completions of a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the manual pages, one for each command, into a folder
    Man {
        /// The folder, which is created if it is missing
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Succeed if the process at an address answers /healthz over plain HTTP; for health checks of containers
    Healthcheck {
        /// Its `bind` without TLS, or its `admin_bind`
        #[arg(value_name = "ADDRESS:PORT")]
        address: SocketAddr,
    },
}

impl PackageCommand {
    /// Runs the command for a command line.
    ///
    /// # Errors
    /// The error of the operating system, with the folder or address.
    pub fn run(&self, command: Command) -> io::Result<()> {
        match self {
            Self::Completions { shell } => {
                // Written at once: the generator panics when its output is closed.
                let (mut command, mut text) = (command, Vec::new());
                let name = command.get_name().to_owned();
                clap_complete::generate(*shell, &mut command, name, &mut text);
                let mut lines = Lines::new();
                lines.add_text(&String::from_utf8_lossy(&text));
                output::print(&lines)
            }
            Self::Man { directory } => write_pages(command, directory).map_err(|error| {
                io::Error::new(error.kind(), format!("the folder `{}`: {error}", directory.display()))
            }),
            Self::Healthcheck { address } => check_health(*address)
                .map_err(|error| io::Error::new(error.kind(), format!("`{address}`: {error}"))),
        }
    }
}

/// Without the HTTP client, which a node and an authority do not have.
fn check_health(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = [0; HEALTHY.len()];
    stream.read_exact(&mut status)?;
    if status == *HEALTHY { Ok(()) } else { Err(io::Error::other("the answer is not 200")) }
}

/// Writes a page for each command. Only the first one describes the settings, which every command takes.
fn write_pages(command: Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let settings: BTreeSet<String> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    write_page(command, &BTreeSet::new(), &settings, directory)
}

fn write_page(
    command: Command,
    hidden: &BTreeSet<String>,
    hidden_below: &BTreeSet<String>,
    directory: &Path,
) -> io::Result<()> {
    let command = command.mut_args(|arg| {
        let hides = hidden.contains(arg.get_id().as_str());
        // Pages describe also what the short help leaves out.
        arg.hide(hides).hide_short_help(false)
    });
    Man::new(command.clone()).generate_to(directory)?;
    for below in command.get_subcommands() {
        write_page(below.clone(), hidden_below, hidden_below, directory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::net::TcpListener;

    #[test]
    fn health_check_succeeds_only_for_status_200() {
        for (answer, is_healthy) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", false),
            ("HTTP/1.1", false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                // All of it: closing a connection with bytes that are not read resets it.
                let mut request = String::new();
                while !request.ends_with("\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.push(char::from(byte[0]));
                }
                assert!(request.starts_with("GET /healthz HTTP/1.1\r\n"), "{request}");
                stream.write_all(answer.as_bytes()).unwrap();
            });
            assert_eq!(check_health(address).is_ok(), is_healthy, "{answer}");
            server.join().unwrap();
        }
    }

    #[test]
    fn completions_are_printed_as_they_are() {
        for shell in Shell::value_variants() {
            let mut command =
                Command::new("program").arg(clap::Arg::new("rare").long("rare").help("In words"));
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut command, "program", &mut text);
            let text = String::from_utf8(text).unwrap();
            let mut lines = Lines::new();
            lines.add_text(&text);
            assert_eq!(lines.as_str(), text, "{shell}");
        }
    }

    #[test]
    fn manual_pages_describe_also_what_the_short_help_leaves_out() {
        let folder = tempfile::tempdir().unwrap();
        let rare = clap::Arg::new("rare").long("rare").help("A setting in words").hide_short_help(true);
        write_pages(Command::new("program").arg(rare), folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("program.1")).unwrap();
        assert!(page.contains("A setting in words"), "{page}");
    }

    #[test]
    fn only_a_hash_is_shown_as_the_commit() {
        assert_eq!(commit(Some("0123456789abcdef0123456789abcdef01234567")), "0123456789ab");
        for given in
            [None, Some(""), Some("0123"), Some("main"), Some("0123456789AB\n"), Some("-dirty-dirty-")]
        {
            assert_eq!(commit(given), "unknown", "{given:?}");
        }
    }
}
