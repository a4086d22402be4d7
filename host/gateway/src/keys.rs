//! The deployment's keys: made, shown and replaced. Private halves stay in their files; what is printed is public.
//!
//! A key that is there is never overwritten by making one. Replacing one goes by way of a file of its own that is renamed
//! into place last, so that whoever is killed in between has the old key, or both.

mod rotate;

use crate::cli::keys::Keys;
use crate::settings::{NodeKey, Settings};
use gateway_authority::{EmbeddedAuthority, LogSigner};
use gateway_domain::chain;
use gateway_domain::ids::Hex32;
use gateway_engine::ports::SignCheckpoint;
use gateway_runtime::existing;
use gateway_seal::at_rest::Kek;
use gateway_seal::key_file;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

type Fault = Box<dyn Error + Send + Sync>;

/// Runs one of the commands.
pub(crate) fn main(asked: Keys, settings: &Settings) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let done = match asked {
        Keys::Generate => generate(settings, &mut out),
        Keys::Show => show(settings, &mut out),
        Keys::RotateAuthority => rotate::authority(settings, &mut out),
        Keys::RotateNode => rotate::node(settings, &mut out),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::complain(&[chain(error.as_ref())], crate::EXIT_START),
    }
}

/// Makes what is missing, and says of each key whether it was.
fn generate(settings: &Settings, out: &mut impl Write) -> Result<(), Fault> {
    for path in [&settings.authority_key, &settings.log_key] {
        let was_there = path.exists();
        key_file::load_or_create(path)?;
        told(out, was_there, path)?;
    }
    if let NodeKey::File(path) = &settings.node_key {
        let was_there = path.exists();
        if !was_there && !existing(&settings.node_directory).is_empty() {
            return Err(format!(
                "the nodes have databases, and what they are sealed under is missing: `{}`",
                path.display()
            )
            .into());
        }
        key_file::load_or_create(path)?;
        told(out, was_there, path)?;
    }
    show(settings, out)
}

fn told(out: &mut impl Write, was_there: bool, path: &Path) -> Result<(), Fault> {
    let what = if was_there { "was there" } else { "made" };
    Ok(writeln!(out, "{what}: {}", path.display())?)
}

/// One line for each key: setting, public half, file.
fn show(settings: &Settings, out: &mut impl Write) -> Result<(), Fault> {
    let (authority, log) = (&settings.authority_key, &settings.log_key);
    let public = Hex32::new(EmbeddedAuthority::new(&*key_file::load(authority)?).public_key());
    writeln!(out, "authority_key {public} {}", authority.display())?;
    for previous in &settings.authority_keys_previous {
        writeln!(out, "authority_keys_previous {previous}")?;
    }
    let signer = LogSigner::new(settings.log_origin.clone(), &*key_file::load(log)?);
    writeln!(out, "log_key {} {}", signer.verifier_key(), log.display())?;
    match &settings.node_key {
        NodeKey::File(path) => {
            // A name that a symmetric key has: it says nothing of the key.
            writeln!(out, "node_key {} {}", Kek::from_file(path)?.id(), path.display())?;
        }
        NodeKey::Passphrase(path) => writeln!(out, "node_passphrase_file - {}", path.display())?,
    }
    Ok(())
}
