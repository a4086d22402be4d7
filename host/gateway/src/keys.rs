//! `operation-gateway keys …`: creates, shows and replaces the deployment's keys. Private halves stay in their files; only public
//! halves are printed.
//!
//! Creating keys never overwrites one. A replacement is first written to another file, which is renamed at the end: a process
//! that is killed in between leaves the old key, or both.

mod rotate;

use crate::log_signer::LogSigner;
use crate::settings::{Flags, Settings};
use gateway_cli::{KeysCommand, RotatedKey};
use gateway_domain::ids::Hex32;
use gateway_engine::ports::SignCheckpoint;
use gateway_fleet::participants_with_database;
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::KekSource;
use gateway_seal::key_file;
use gateway_service::output::{self, EXIT_FAILED, Lines, report_error};
use gateway_service::process::Fault;
use policy_authority::Authority;
use std::path::Path;
use std::process::ExitCode;

/// Runs one command.
pub(crate) fn run(command: &KeysCommand<Flags>, settings: &Settings) -> ExitCode {
    let done = match command {
        KeysCommand::Generate(_) => generate(settings),
        KeysCommand::Show(_) => show(settings),
        KeysCommand::Rotate { key: RotatedKey::Authority, .. } => rotate::authority(settings),
        KeysCommand::Rotate { key: RotatedKey::Node, .. } => rotate::node(settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_error(error.as_ref(), EXIT_FAILED),
    }
}

/// Creates the missing keys of this process, and prints for each key whether it existed.
fn generate(settings: &Settings) -> Result<(), Fault> {
    for path in settings.authority.own_key().into_iter().chain([&*settings.log.key]) {
        create_if_missing(path)?;
    }
    if let Some(KekSource::File(path)) = settings.nodes.own_key() {
        if !path.exists() && !participants_with_database(&settings.nodes.directory).is_empty() {
            return Err(format!(
                "the nodes have databases, and the key that encrypts their secrets is missing: `{}`",
                path.display()
            )
            .into());
        }
        create_if_missing(path)?;
    }
    show(settings)
}

fn create_if_missing(path: &Path) -> Result<(), Fault> {
    let what = if path.exists() { "existing" } else { "created" };
    key_file::load_or_create(path)?;
    Ok(output::print_line(format_args!("{what}: {}", path.display()))?)
}

/// Prints one line for each key: setting, public half, file.
fn show(settings: &Settings) -> Result<(), Fault> {
    let mut lines = Lines::new();
    if let Some(authority) = settings.authority.own_key() {
        let public = Hex32::new(Authority::new(&*key_file::load(authority)?).public_key());
        lines.add(format_args!("authority_key {public} {}", authority.display()));
    }
    for previous in &settings.authority.keys_previous {
        lines.add(format_args!("authority_keys_previous {previous}"));
    }
    let log = &settings.log.key;
    let signer = LogSigner::new(settings.log_origin.clone(), &*key_file::load(log)?);
    lines.add(format_args!("log_key {} {}", signer.verifier_key(), log.display()));
    match settings.nodes.own_key() {
        Some(KekSource::File(path)) => {
            // The id of a symmetric key, which does not reveal the key.
            lines.add(format_args!("node_key {} {}", Kek::from_file(path)?.id(), path.display()));
        }
        Some(KekSource::Passphrase(path)) => {
            lines.add(format_args!("node_passphrase_file - {}", path.display()));
        }
        None => {}
    }
    Ok(output::print(&lines)?)
}
