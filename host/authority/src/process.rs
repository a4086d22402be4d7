//! The policy authority as a process of its own. It signs admission decisions, and trusts no caller: it reads the operation from its
//! chained events, checks approvals and times by its own registry and its own clock, evaluates the policy by its own trust roots
//! and rules, and compares amounts with what it admitted before ([`crate::Verifier`]).
//!
//! Start at [`main`], then [`routes`](crate::routes).

use crate::routes;
use crate::settings::{Flags, Own, Settings};
use crate::{Authority, Policies, Record, Verifier};
use clap::{CommandFactory, Parser, Subcommand};
use gateway_domain::admission::Authorities;
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::Hex32;
use gateway_policy::{Pins, Trust, TrustFile};
use gateway_seal::key_file;
use gateway_service::StartError;
use gateway_service::approvers::Verifiers;
use gateway_service::output::{self, EXIT_FAILED};
use gateway_service::package::{PackageCommand, version};
use gateway_service::process::{self, Backend, Fault, Followed};
use std::process::ExitCode;
use std::sync::Arc;

const NAME: &str = "policy-authority";

/// The policy authority: verifies an operation's history and approvals, evaluates the policy, and signs the decision that admits it.
#[derive(Debug, Parser)]
#[command(
    name = "policy-authority",
    version = version(),
    after_help = "A flag wins over the environment, the environment over the file, the file over the default."
)]
struct Cli {
    #[command(flatten)]
    settings: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve decisions (the default command)
    Serve(Flags),
    /// Print every setting with its value and the source of the value
    Config(Flags),
    /// Create the key if it is missing, and print its public half
    Init(Flags),
    /// Print the public half of the key, which nodes and auditors pin
    Identity(Flags),
    #[command(flatten)]
    Package(PackageCommand),
}

/// Parses the command line and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    process::main(NAME, run)
}

fn run(Cli { settings: before, command }: Cli) -> ExitCode {
    let run_with =
        |after: &Flags, run: &dyn Fn(&Settings) -> ExitCode| process::with_settings(&after.or(&before), run);
    let start = |settings: &Settings| {
        process::start(settings.process.log(), process::THREADS_OF_PROCESS, serve(settings))
    };
    match &command {
        None => run_with(&before, &start),
        Some(Command::Serve(flags)) => run_with(flags, &start),
        Some(Command::Config(flags)) => process::print_settings(&flags.or(&before)),
        Some(Command::Init(flags)) => run_with(flags, &|settings| {
            run_command(async { print(&*key_file::load_or_create(&settings.own.key)?) })
        }),
        Some(Command::Package(package)) => run_command(async {
            package.run(Cli::command())?;
            Ok(ExitCode::SUCCESS)
        }),
        Some(Command::Identity(flags)) => {
            run_with(flags, &|settings| run_command(async { print(&*key_file::load(&settings.own.key)?) }))
        }
    }
}

fn run_command(command: impl Future<Output = Result<ExitCode, Fault>>) -> ExitCode {
    process::run(command, |_| EXIT_FAILED)
}

fn print(seed: &[u8; 32]) -> Result<ExitCode, Fault> {
    let public = Hex32::new(Authority::new(seed).public_key());
    output::print_line(public)?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until SIGTERM or SIGINT, and then until the requests in progress are answered.
async fn serve(settings: &Settings) -> Result<(), StartError> {
    let Backend { listeners, tls, rounds, quotas, .. } =
        Backend::open("authority", &settings.process).await?;
    let seed = key_file::load(&settings.own.key).map_err(|error| StartError::new("authority key", error))?;
    let authority = Arc::new(Authority::new(&seed));
    let rule = settings.rules.signed_approvals.rule(settings.own.approval_age_max_ms);
    let verifiers = Verifiers::open(&settings.rules.signed_approvals, vec![rule.clone()]);
    let trust = Trust::new(settings.rules.development_bundles);
    let pins = Pins::parse(&settings.rules.pins);
    let pins = pins.map_err(|error| StartError::new("setting `policy_pins`", error))?;
    let mut trust_file = TrustFile::open(settings.rules.roots()?.to_owned(), pins, trust.clone());
    let record =
        Record::open(&settings.own.database, &settings.record_size_file, &authority.public_key()).await;
    let record = record.map_err(|error| StartError::new("authority record", error))?;
    let authorities = authorities(settings, &authority)?;
    let verifier = Arc::new(verifier(settings, rule, trust, record, authorities));
    let followed = Followed { tls: Some(tls), verifiers };
    let watching = followed.follow(rounds, move || trust_file.reload_if_changed());
    let public_key = Hex32::new(authority.public_key());
    tracing::info!(address = listeners.address().map(tracing::field::display), %public_key, "policy-authority listens");
    let router = routes::router(authority, Arc::clone(&verifier), quotas);
    let (limits, within) = (settings.process.limits, settings.process.shutdown_within);
    listeners.serve(router, routes::admin(), limits, within).await;
    let _cut_short = tokio::time::timeout(within, watching).await;
    verifier.record.close().await;
    tracing::info!("policy-authority stopped");
    Ok(())
}

/// The authorities whose decisions prove earlier payments.
fn authorities(settings: &Settings, own: &Authority) -> Result<Authorities, StartError> {
    let Own { authority_keys, authority_threshold, .. } = &settings.own;
    let keys = authority_keys.iter().map(|key| *key.as_bytes()).chain([own.public_key()]);
    Authorities::new(keys, *authority_threshold)
        .map_err(|error| StartError::new("setting `authority_keys`", error))
}

fn verifier(
    settings: &Settings,
    rule: SigningRule,
    trust: Trust,
    record: Record,
    authorities: Authorities,
) -> Verifier {
    Verifier {
        signed_approvals: rule,
        rules: settings.rules.facts(),
        keys_without_approvals: settings.rules.keys_without_approvals,
        decision_ttl_max_ms: settings.rules.decision_ttl_max_ms,
        policies: Policies::new(trust, Arc::default()),
        record,
        authorities,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed_and_lists_every_setting() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        assert!(
            crate::settings::TABLE
                .all()
                .all(|setting| help.contains(&crate::settings::TABLE.variable(setting.name)))
        );
    }
}
