//! The documentation does what it says: every command of a page is executed, and what a page shows is what commands print.
//!
//! A page is one shell session in a folder that looks like a built clone of the repository. Its blocks are executed in order:
//!
//! - `sh`: executed by bash; a failure ends the page. A block `text` right below shows what it prints; `…` stands for any text in
//!   a line, and alone for any lines.
//! - `sh server`: one command that runs until the end, or until `stop`; the next block begins once it listens.
//! - `sh by-hand`: not executed; [`BY_HAND`] lists all of them.
//! - `<!-- sh` to `-->`: executed and not shown, for what a reader has done before.
//!
//! Each port of this machine that a page names is replaced by a free one.

use crate::harness::port::Port;
use crate::harness::terminal::watch_at_terminal;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Blocks that no test executes, by page, and why.
const BY_HAND: &[(&str, usize)] = &[
    // The whole test run, of which this is a part; tests by their names.
    ("README.md", 2),
    // Installs and reloads nginx, as root.
    ("authentication.md", 1),
    ("evidence.md", 1),
    // A simulation in a release build.
    ("faults.md", 1),
    // Measurements of many minutes.
    ("performance.md", 8),
    // Builds in a crate of the reader, with the tools that it uses.
    ("policy-authors.md", 1),
    // Builds two guests, one with a compiler from npm's registry; `scripts/test` runs it.
    ("tutorials/treasury.md", 1),
];

/// The programs, as the pages and as the tests call them.
const PROGRAMS: [(&str, &str); 3] = [
    ("operation-gateway", env!("CARGO_BIN_EXE_gateway-under-test")),
    ("runtime-node", env!("CARGO_BIN_EXE_runtime-node-under-test")),
    ("policy-authority", env!("CARGO_BIN_EXE_policy-authority-under-test")),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Shown,
    Hidden,
    Server,
    ByHand,
}

/// A piece of a page that is executed.
#[derive(Debug)]
struct Block {
    line: usize,
    kind: Kind,
    commands: String,
    /// What it must print, if the page shows it.
    prints: Option<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // Whether only blank lines stand between the last block and this line.
    let mut is_below = false;
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let (info, end) = match line.strip_prefix("```") {
            Some(info) => (info, "```"),
            None if line == "<!-- sh" => ("sh hidden", "-->"),
            None => {
                is_below &= line.is_empty();
                continue;
            }
        };
        let text: String = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != end)
            .flat_map(|line| [line, "\n"])
            .collect();
        let kind = match info {
            "sh" => Kind::Shown,
            "sh hidden" => Kind::Hidden,
            "sh server" => Kind::Server,
            "sh by-hand" => Kind::ByHand,
            "text" | "" | "http" | "json" | "toml" | "rust" | "js" | "python" => {
                if info == "text" && is_below {
                    blocks.last_mut().unwrap().prints = Some(text);
                }
                is_below = false;
                continue;
            }
            _ => panic!("line {}: blocks `{info}` are not known: is it to be executed?", index + 1),
        };
        blocks.push(Block { line: index + 1, kind, commands: text, prints: None });
        is_below = kind == Kind::Shown;
    }
    blocks
}

/// The port of a gateway that is not told another one.
const GATEWAY_PORT: u16 = 9200;

/// Begins the output of a block.
const MARK: char = '\u{1e}';

const PRELUDE: &str = r#"set -euo pipefail
# Waits until the server, whose output is in the file $1, listens.
listening() {
  until grep -qs listens "$1"; do
    kill -0 "$server" 2>/dev/null || { cat "$1"; exit 1; }
    sleep 0.05
  done
}
# Servers go on otherwise.
trap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT
# Ends the server that was started last.
stop() { kill "$server"; wait "$server" || true; }
"#;

/// The page as one script.
fn script(blocks: &[Block]) -> String {
    let mut script = PRELUDE.to_owned();
    for Block { line, kind, commands, .. } in blocks {
        let log = format!("server-{line}.log");
        let commands = commands.trim_end();
        match kind {
            Kind::ByHand => continue,
            Kind::Shown | Kind::Hidden => writeln!(script, "printf '{MARK}{line}\\n'\n{commands}"),
            Kind::Server => writeln!(
                script,
                "printf '{MARK}{line}\\n'\n(exec {commands}\n) > {log} 2>&1 < /dev/null &\nserver=$!\nlistening {log}"
            ),
        }
        .unwrap();
    }
    script
}

/// The text with a free port for each port of this machine, always the same one for the same number.
fn with_free_ports(text: &str, ports: &mut BTreeMap<u16, Port>) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((host, at)) = ["localhost:", "127.0.0.1:"]
        .into_iter()
        .filter_map(|host| rest.find(host).map(|at| (host, at)))
        .min_by_key(|(_, at)| *at)
    {
        let (before, after) = rest.split_at(at + host.len());
        let n_digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = after.split_at(n_digits);
        replaced.push_str(before);
        match digits.parse::<u16>() {
            Ok(port) if port > 0 => {
                let free = ports.entry(port).or_insert_with(Port::reserve);
                write!(replaced, "{}", free.address.port()).unwrap();
            }
            _ => replaced.push_str(digits),
        }
        rest = after;
    }
    replaced + rest
}

/// A folder as a reader has it who cloned the repository and built it.
fn clone_into(folder: &Path) {
    for entry in fs::read_dir(root()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name != "target" && name != ".git" && name != "data" {
            symlink(entry.path(), folder.join(name)).unwrap();
        }
    }
    let programs = folder.join("target/debug");
    fs::create_dir_all(&programs).unwrap();
    fs::create_dir(folder.join("home")).unwrap();
    for (name, program) in PROGRAMS {
        symlink(program, programs.join(name)).unwrap();
    }
}

/// The environment of a reader with these programs, and nothing of this machine's settings.
fn environment(command: &mut Command, folder: &Path, gateway: SocketAddr) {
    let programs = folder.join("target/debug");
    let home = std::env::var("HOME").unwrap();
    for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(name).is_none() {
            command.env(name, Path::new(&home).join(below));
        }
    }
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let of_a_client = ["XDG_CONFIG_HOME", "OPERATION_GATEWAY_TOKEN"].contains(&&*name);
        if of_a_client || name.starts_with("SVC_") || name.starts_with("CARGO_PKG_") {
            command.env_remove(&*name);
        }
    }
    command
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
        .env("HOME", folder.join("home"))
        // What ./scripts/run starts instead of building it.
        .env("OPERATION_GATEWAY", programs.join("operation-gateway"))
        // The address that needs no mention.
        .env("SVC_OPERATION_GATEWAY_BIND", gateway.to_string())
        .env("OPERATION_GATEWAY_URL", format!("http://{gateway}"))
        .env("TERM", "dumb");
}

/// Whether the lines are those that the page shows.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|n| matches(rest, &printed[n..])),
        Some((first, rest)) => {
            printed.first().is_some_and(|line| line_matches(first, line)) && matches(rest, &printed[1..])
        }
    }
}

/// Whether the line is the one that the page shows. Spaces at its end do not count.
fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.trim_end().split('…');
    let Some(mut rest) = printed.trim_end().strip_prefix(parts.next().unwrap()) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn output_that_differs_from_what_a_page_shows_is_found() {
    for (shown, printed, is_same) in [
        ("a\nb", "a\nb", true),
        ("a", "a\nb", false),
        ("a\nb", "a", false),
        ("…\nb", "x\ny\nb", true),
        ("…\nb", "x\ny", false),
        ("a…c…e", "abcde", true),
        ("a…c…e", "abde", false),
        ("a…a", "a", false),
        ("…", "", true),
    ] {
        let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
        assert_eq!(matches(&lines(shown), &lines(printed)), is_same, "{shown} {printed}");
    }
}

#[test]
fn blocks_of_a_page_are_executed_in_order_with_what_they_print() {
    let page = "```sh\none\n```\n\n```text\n1\n```\n<!-- sh\ntwo\n-->\n```text\nno\n```\n```sh server\nthree\n```\n```sh by-hand\nfour\n```\n";
    let found = blocks(page);
    let found: Vec<_> =
        found.iter().map(|block| (block.kind, &*block.commands, block.prints.as_deref())).collect();
    let expected = [
        (Kind::Shown, "one\n", Some("1\n")),
        (Kind::Hidden, "two\n", None),
        (Kind::Server, "three\n", None),
        (Kind::ByHand, "four\n", None),
    ];
    assert_eq!(found, expected);
    let script = script(&blocks(page));
    let at = |commands: &str| script.find(commands);
    assert!(
        at("\none").unwrap() < at("\ntwo").unwrap() && at("\ntwo").unwrap() < at("(exec three\n)").unwrap()
    );
    assert_eq!(at("four"), None);
}

/// Executes a page, relative to `host/docs` or the root's README.
#[track_caller]
fn execute(name: &str) {
    let path = path(name);
    let blocks = blocks(&fs::read_to_string(&path).unwrap());
    let folder = tempfile::tempdir().unwrap();
    clone_into(folder.path());
    let mut ports = BTreeMap::new();
    let script = with_free_ports(&script(&blocks), &mut ports);
    let gateway = ports.entry(GATEWAY_PORT).or_insert_with(Port::reserve).address;
    let mut command = Command::new("bash");
    environment(&mut command, folder.path(), gateway);
    command.args(["-c", &script]).current_dir(folder.path());
    let (mut child, screen) = watch_at_terminal(command);
    let status = child.wait().unwrap();
    let screen = displayed(&screen);
    let printed: BTreeMap<usize, &str> = screen
        .split(MARK)
        .skip(1)
        .map(|part| part.split_once('\n').unwrap())
        .map(|(line, text)| (line.parse().unwrap(), text))
        .collect();
    let (last, text) = printed.last_key_value().unwrap();
    assert!(status.success(), "{}:{last}: a command fails: {status}\n{text}", path.display());
    for block in &blocks {
        let Some(shown) = &block.prints else { continue };
        let shown = with_free_ports(shown, &mut ports);
        let printed = printed[&block.line];
        assert!(
            matches(&shown.lines().collect::<Vec<_>>(), &printed.lines().collect::<Vec<_>>()),
            "{}:{}: the page shows\n{shown}\nbut its commands print\n{printed}",
            path.display(),
            block.line,
        );
    }
}

/// What stands on a screen at last: without line ends of terminals, and lines that were written over.
fn displayed(screen: &str) -> String {
    let lines = screen.replace("\r\n", "\n");
    let lines = lines.split('\n').map(|line| line.rsplit('\r').next().unwrap().trim_start_matches("\x1b[K"));
    lines.collect::<Vec<_>>().join("\n")
}

fn path(name: &str) -> PathBuf {
    if name == "README.md" { root().join(name) } else { root().join("host/docs").join(name) }
}

/// Every page of the documentation, by its name below `host/docs`, and the README.
fn pages() -> BTreeSet<String> {
    let mut names = BTreeSet::from(["README.md".to_owned()]);
    let mut folders = vec![root().join("host/docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                names.insert(
                    path.strip_prefix(root().join("host/docs")).unwrap().to_str().unwrap().to_owned(),
                );
            }
        }
    }
    names
}

/// The commands, with their options, that a text names in passing, as in `operation-gateway keys show --config FILE`.
fn mentioned(text: &str) -> Vec<Vec<&str>> {
    let is_fence = |line: &&str| line.starts_with("```");
    let mut is_prose = true;
    let prose = text.lines().filter(|line| {
        is_prose ^= is_fence(line);
        is_prose && !is_fence(line)
    });
    let spans = prose.flat_map(|line| line.split('`').skip(1).step_by(2));
    let commands = spans.map(|span| span.split_whitespace().collect::<Vec<_>>());
    commands
        .filter(|words| words.first().is_some_and(|first| PROGRAMS.iter().any(|(name, _)| name == first)))
        .collect()
}

/// The help of a program's command, by its words; `None` if there is no such command.
struct Help(BTreeMap<String, Option<String>>);

impl Help {
    fn of(&mut self, words: &[&str]) -> Option<&str> {
        let (_, program) = PROGRAMS.iter().find(|(name, _)| *name == words[0]).unwrap();
        let asked = self.0.entry(words.join(" ")).or_insert_with(|| {
            let output = Command::new(program).args(&words[1..]).arg("--help").output().unwrap();
            // What is no command is an argument of the one before, or an error.
            let help = String::from_utf8(output.stdout).unwrap();
            let usage = format!(" {}", words[1..].join(" "));
            let names_it =
                help.lines().any(|line| line.starts_with("Usage: ") && line.contains(usage.trim_end()));
            (output.status.success() && names_it).then_some(help)
        });
        asked.as_deref()
    }
}

#[test]
fn commands_that_pages_mention_exist_with_their_options() {
    let mut help = Help(BTreeMap::new());
    let mut n_commands = 0;
    for page in pages() {
        for words in mentioned(&fs::read_to_string(path(&page)).unwrap()) {
            let shown = words.join(" ");
            let is_name = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            let n_names = words[1..].iter().take_while(|word| is_name(word)).count();
            // Words after the command may be its arguments.
            let n = (1..=n_names + 1).rev().find(|n| help.of(&words[..*n]).is_some()).unwrap();
            assert!(n > 1 || n_names == 0, "{page}: there is no command `{shown}`");
            let options: BTreeSet<_> = help
                .of(&words[..n])
                .unwrap()
                .split([' ', ',', '\n', '='])
                .filter(|word| word.starts_with("--"))
                .collect();
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let name = option.split('=').next().unwrap();
                assert!(options.contains(name), "{page}: `{shown}` has no {name}");
            }
            n_commands += 1;
        }
    }
    assert!(n_commands > 50, "{n_commands}");
}

/// A test for each page that has commands, and one that finds a page without a test.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        $(
            #[test]
            fn $test() {
                execute($page);
            }
        )*

        #[test]
        fn every_page_with_commands_is_executed() {
            let executed = BTreeSet::from([$($page.to_owned()),*]);
            let mut by_hand = BTreeMap::new();
            let mut with_commands = BTreeSet::new();
            for name in pages() {
                for block in blocks(&fs::read_to_string(path(&name)).unwrap()) {
                    match block.kind {
                        Kind::ByHand => *by_hand.entry(name.clone()).or_insert(0) += 1,
                        _ => {
                            with_commands.insert(name.clone());
                        }
                    }
                }
            }
            assert_eq!(with_commands, executed);
            let known = BY_HAND.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            assert_eq!(by_hand, known, "blocks that no test executes");
        }
    };
}

pages! {
    approvals: "approvals.md",
    authentication: "authentication.md",
    command_line: "command-line.md",
    decision_records: "decision-records.md",
    evidence: "evidence.md",
    ledger: "ledger.md",
    observability: "observability.md",
    operations: "operations.md",
    policies_of_authors: "policy-authors.md",
    policies_for_reviewers: "policy-reviewers.md",
    readme: "README.md",
    an_auditor_s_afternoon: "tutorials/audit.md",
    first_policy: "tutorials/first-policy.md",
    first_signature: "tutorials/first-signature.md",
    production_set_up: "tutorials/production.md",
    rule_of_a_treasury: "tutorials/treasury.md",
}
