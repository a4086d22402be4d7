//! `operation-gateway bundle …`: from words to [`gateway_bundler`], and from its answers to lines.

mod commands;

pub(crate) use commands::command;

use crate::clock::SystemClock;
use clap::ArgMatches;
use gateway_bundler::activate::{self, Activate};
use gateway_bundler::build::{self, Build};
use gateway_bundler::rollback::Rollback;
use gateway_bundler::{
    Error, bench, contract, create, diff, inspect, key, lint, rollback, sign, source, tarball, test, verify,
};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::TellTime;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What a command says, and whether all is well.
struct Answer {
    text: String,
    passed: bool,
}

/// Runs one subcommand.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((name, matches)) = matches.subcommand() else {
        return crate::complain(&[], crate::EXIT_SETTINGS);
    };
    match answer(name, &Given(matches)) {
        Ok(Answer { text, passed }) => {
            let _nobody_reads = std::io::stdout().lock().write_all(text.as_bytes());
            if passed { ExitCode::SUCCESS } else { ExitCode::from(crate::EXIT_START) }
        }
        Err(error) => crate::complain(&[gateway_domain::chain(&error)], crate::EXIT_START),
    }
}

fn answer(name: &str, given: &Given<'_>) -> Result<Answer, Error> {
    let now = SystemClock.now();
    match name {
        "new" => given.says(&create::create(&given.text("NAME").parse()?, &given.path("into"))?),
        "build" => given.says(&build(given)?),
        "complete" => given.says(&build::complete(&given.path("DIR"))?),
        "test" => {
            let tested = test::test(&given.path("DIR"))?;
            given.judges(&tested, tested.passed(given.flag("strict")))
        }
        "bench" => given.says(&bench::bench(&given.path("DIR"), given.rounds())?),
        "lint" => {
            let report = lint::lint(&given.path("DIR"), now)?;
            given.judges(&report, report.passed(given.flag("strict")))
        }
        "inspect" => given.says(&inspect::inspect(&given.path("DIR"))?),
        "diff" => given.says(&diff::diff(&given.path("OLD"), &given.path("NEW"))?),
        "sign" => given.says(&sign::sign(&given.path("DIR"), &key::load(&given.path("key"))?)?),
        "verify" => {
            given.says(&verify::verify(&given.path("DIR"), &given.path("trust"), given.text("pin"), now)?)
        }
        "pack" => given.says(&tarball::write(&source::read(&given.path("DIR"))?, &given.path("FILE"))?),
        "activate" => given.says(&activate(given)?),
        "rollback" => given.says(&rollback(given)?),
        "countersign" => {
            given.says(&rollback::countersign(&given.path("FILE"), &key::load(&given.path("key"))?)?)
        }
        "key" => given.says(&new_key(given)?),
        // clap knows no other command.
        _ => Ok(Answer { text: contract::WIT.to_owned(), passed: true }),
    }
}

fn build(given: &Given<'_>) -> Result<build::Built, Error> {
    let sources = given.path("DIR");
    let order = Build {
        bundle: given.path_if("into").unwrap_or_else(|| sources.clone()),
        sources,
        package: given.text_if("package").map(str::to_owned),
        locked: given.flag("locked"),
    };
    if let Some(component) = given.path_if("component") {
        return build::with_component_file(&order.bundle, &component);
    }
    if given.flag("check") { build::check(&order) } else { build::build(&order) }
}

fn activate(given: &Given<'_>) -> Result<activate::Activated, Error> {
    let url = given.text_if("gateway").map(str::parse).transpose()?;
    let order = Activate {
        bundle: given.path("DIR"),
        into: given.path("into"),
        roots: given.path("trust"),
        pins: given.text("pin").to_owned(),
    };
    let activated = activate::activate(&order, SystemClock.now())?;
    match url {
        Some(url) => activate::wait(activated, &url, given.patience()),
        None => Ok(activated),
    }
}

fn rollback(given: &Given<'_>) -> Result<rollback::Recorded, Error> {
    let to = given.text("to");
    let order = Rollback {
        to: to.parse().map_err(|_| Error::Hash(to.to_owned()))?,
        sequence: given.number("sequence"),
        reason: given.text("reason").to_owned(),
        not_after: given.0.get_one("not-after").copied().map(EpochMs),
    };
    let keys = given.0.get_many::<String>("key").unwrap_or_default();
    let keys = keys.map(|file| key::load(file.as_ref())).collect::<Result<Vec<_>, _>>()?;
    rollback::rollback(&order, &keys, &given.path("out"))
}

fn new_key(given: &Given<'_>) -> Result<key::PublicKey, Error> {
    let (_, given) = given.0.subcommand().map_or(("", given.0), |leaf| leaf);
    let given = Given(given);
    let made = key::make(&given.path("FILE"))?;
    if let Some(roots) = given.path_if("roots") {
        key::write_roots(roots, given.text("role"), &made)?;
    }
    Ok(made)
}

/// The words of one command. clap has seen to it that what is needed is there.
struct Given<'a>(&'a ArgMatches);

impl Given<'_> {
    fn text_if(&self, name: &str) -> Option<&str> {
        self.0.get_one::<String>(name).map(String::as_str)
    }

    fn text(&self, name: &str) -> &str {
        self.text_if(name).unwrap_or_default()
    }

    fn path_if(&self, name: &str) -> Option<PathBuf> {
        self.text_if(name).map(PathBuf::from)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path_if(name).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    fn rounds(&self) -> usize {
        self.0.get_one("rounds").copied().unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.0.get_one(name).copied().unwrap_or_default()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.number("wait"))
    }

    fn says<T: Display + Serialize>(&self, report: &T) -> Result<Answer, Error> {
        self.judges(report, true)
    }

    fn judges<T: Display + Serialize>(&self, report: &T, passed: bool) -> Result<Answer, Error> {
        let text = if self.0.try_get_one::<bool>("json").is_ok_and(|json| json == Some(&true)) {
            serde_json::to_string_pretty(report).map_err(Error::Json)? + "\n"
        } else {
            report.to_string()
        };
        Ok(Answer { text, passed })
    }
}
