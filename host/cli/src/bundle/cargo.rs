//! Runs cargo and rustc so that the output depends only on the sources and the compiler.
//!
//! If standard error is a terminal, it shows what is being done, and what the tools print there: rustup's and cargo's progress.
//! Otherwise only errors are printed.

use crate::bundle::Error;
use gateway_service::output;
use serde::Deserialize;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The target of policies. It has no operating system, so a policy imports only the interfaces of its WIT world.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Stack of a policy in bytes. Stack, data and heap together fit into one page of memory; each further page costs time.
const STACK_BYTES: u32 = 16 << 10;

/// Initial linear memory in bytes: one page.
const MEMORY_BYTES: u32 = 64 << 10;

/// Prefixes of environment variables that would change the output.
const OVERRIDES: [&str; 6] = [
    "CARGO_BUILD_",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "RUST",
];

/// Variables with such a prefix that only tell rustup where its files are.
const LOCATIONS: [&str; 3] = ["RUSTUP_HOME", "RUSTUP_DIST_SERVER", "RUSTUP_UPDATE_ROOT"];

/// The package that is compiled to a policy's component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) module: String,
    /// The cargo workspace, whose lock and profile apply.
    pub(crate) workspace: PathBuf,
    /// `stack-bytes` of `[package.metadata.policy]`.
    pub(crate) stack_bytes: Option<u32>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<MetadataTarget>,
    metadata: Option<PackageMetadata>,
}

#[derive(Deserialize)]
struct PackageMetadata {
    policy: Option<PolicyMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyMetadata {
    stack_bytes: Option<u32>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    name: String,
    kind: Vec<String>,
}

/// The `cdylib` package below `folder`: the one called `name`, or the only one.
pub(crate) fn component_package(folder: &Path, name: Option<&str>) -> Result<Package, Error> {
    let unreadable = |source| Error::Read { path: folder.to_owned(), source };
    let below = folder.canonicalize().map_err(unreadable)?;
    let mut command = tool("cargo", folder);
    command.args(["metadata", "--no-deps", "--format-version=1"]);
    let metadata: Metadata = serde_json::from_slice(&run_tool("cargo", &mut command)?.stdout)
        .map_err(|fault| Error::ToolAnswer { tool: "cargo metadata", fault: fault.to_string() })?;
    let is_cdylib = |target: &&MetadataTarget| target.kind.iter().any(|kind| kind == "cdylib");
    let package = |package: &MetadataPackage| {
        let module = package.targets.iter().find(is_cdylib)?.name.replace('-', "_");
        let chosen = name.map_or(package.manifest_path.starts_with(&below), |name| name == package.name);
        let workspace = metadata.workspace_root.clone();
        let metadata = package.metadata.as_ref().and_then(|metadata| metadata.policy.as_ref());
        let stack_bytes = metadata.and_then(|policy| policy.stack_bytes);
        chosen.then(|| Package { name: package.name.clone(), module, workspace, stack_bytes })
    };
    let mut found: Vec<_> = metadata.packages.iter().filter_map(package).collect();
    match (found.pop(), found.is_empty()) {
        (Some(package), true) => Ok(package),
        (None, _) => Err(Error::NoComponent(folder.to_owned())),
        (Some(last), false) => {
            let packages = found.into_iter().chain([last]).map(|package| package.name).collect();
            Err(Error::ManyComponents { folder: folder.to_owned(), packages })
        }
    }
}

/// Compiles the package and returns the module's file. Cargo's output goes to standard error.
pub(crate) fn build(package: &Package, locked: bool) -> Result<PathBuf, Error> {
    show_progress("compiling the component; the first time, this also compiles the SDK");
    let folder = &package.workspace;
    let flags = rustflags(folder, package.stack_bytes, &Compiler::of_folder(folder)?);
    let target_folder = folder.join("target");
    let mut command = tool("cargo", folder);
    command
        .args(["build", "--release", "--target", TARGET, "--package", &package.name])
        .args((!shows_progress()).then_some("--quiet"))
        .args(locked.then_some("--locked"))
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("CARGO_TARGET_DIR", &target_folder)
        .stderr(Stdio::inherit());
    run_tool("cargo build", &mut command)?;
    Ok(target_folder.join(TARGET).join("release").join(&package.module).with_extension("wasm"))
}

/// Runs the sources' own tests on this machine. Their output goes to standard error.
pub(crate) fn test(folder: &Path) -> Result<(), Error> {
    show_progress("compiling and running the tests of the rules");
    let mut command = tool("cargo", folder);
    // Excludes the SDK's own tests.
    let packages = ["--workspace", "--exclude", "gateway-policy-sdk"];
    command
        .arg("test")
        .args((!shows_progress()).then_some("--quiet"))
        .args(packages)
        .stderr(Stdio::inherit());
    command.stdout(output::for_child());
    run_tool("cargo test", &mut command).map(drop)
}

/// The compiler that a folder's `rust-toolchain.toml` selects.
struct Compiler {
    sysroot: String,
    commit: String,
}

impl Compiler {
    fn of_folder(folder: &Path) -> Result<Self, Error> {
        let ask = |arguments: &[&str]| -> Result<String, Error> {
            let output = run_tool("rustc", tool("rustc", folder).args(arguments))?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let libraries = ask(&["--print", "target-libdir", "--target", TARGET])?;
        if !Path::new(&libraries).is_dir() {
            return Err(Error::NoTarget { target: TARGET, folder: folder.to_owned() });
        }
        let version = ask(&["--version", "--verbose"])?;
        let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
        let unknown = || Error::ToolAnswer { tool: "rustc", fault: "no commit hash".to_owned() };
        Ok(Self { sysroot: ask(&["--print", "sysroot"])?, commit: commit.ok_or_else(unknown)?.to_owned() })
    }
}

/// Compiler flags that set the memory layout and remove this machine's paths from the output. They replace those of cargo's
/// configuration.
fn rustflags(workspace: &Path, stack_bytes: Option<u32>, compiler: &Compiler) -> OsString {
    let Compiler { sysroot, commit } = compiler;
    let mut flags = OsString::new();
    let memory = match stack_bytes {
        // As much memory as the linker needs.
        Some(stack_bytes) => vec![format!("-Clink-arg=-zstack-size={stack_bytes}")],
        None => vec![
            format!("-Clink-arg=-zstack-size={STACK_BYTES}"),
            format!("-Clink-arg=--initial-memory={MEMORY_BYTES}"),
        ],
    };
    // The path that rustc uses for its own sources when they are not installed.
    let compiler = format!("--remap-path-prefix={sysroot}/lib/rustlib/src/rust=/rustc/{commit}");
    for flag in memory.into_iter().chain([compiler]) {
        flags.push(flag);
        flags.push("\x1f");
    }
    flags.push("--remap-path-prefix=");
    flags.push(cargo_home());
    // Sources that the workspace names by a path outside of it.
    flags.push("=/cargo\x1f--remap-path-prefix=");
    flags.push(workspace.parent().unwrap_or(workspace));
    flags.push("=/policies\x1f--remap-path-prefix=");
    // Last, so that it wins if one folder is within the other.
    flags.push(workspace);
    flags.push("=/policy");
    flags
}

fn cargo_home() -> PathBuf {
    let default = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(default, PathBuf::from)
}

/// A command that runs in `folder`, without variables that would change the output.
fn tool(name: &'static str, folder: &Path) -> Command {
    let mut command = Command::new(name);
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        let overrides = OVERRIDES.iter().any(|prefix| text.starts_with(prefix));
        if overrides && !LOCATIONS.contains(&text.as_ref()) {
            command.env_remove(&variable);
        }
    }
    // Overrides wrappers in cargo's configuration too.
    command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    command.current_dir(folder).stdin(Stdio::null());
    if shows_progress() {
        // The first command may make rustup download the compiler.
        command.stderr(Stdio::inherit());
    }
    command
}

fn shows_progress() -> bool {
    output::tells_terminal()
}

/// Says what begins now, at a terminal.
pub(crate) fn show_progress(step: &str) {
    if shows_progress() {
        output::tell_line(format_args!("{step} ..."));
    }
}

fn run_tool(name: &'static str, command: &mut Command) -> Result<Output, Error> {
    let program = name.split(' ').next().unwrap_or(name);
    let output = command.output().map_err(|fault| match fault.kind() {
        io::ErrorKind::NotFound => Error::NoTool(program),
        _ => Error::Tool(program, fault),
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::ToolFailed { tool: name.to_owned(), status: output.status, stderr })
}
