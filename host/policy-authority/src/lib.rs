//! The policy authority as a process of its own. It signs admission decisions, and trusts no caller: it reads the operation from its
//! chained events, checks approvals and times by its own registry and its own clock, evaluates the policy by its own trust roots
//! and rules, and compares amounts with what it admitted before ([`gateway_authority::Verifier`]).
//!
//! Start at [`main`], then [`routes`].

pub mod routes;
pub mod settings;

use clap::{CommandFactory, Parser, Subcommand};
use gateway_authority::{Authority, Policies, Record, Verifier};
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::facts::Rules;
use gateway_policy::{Pins, Trust, TrustFile};
use gateway_seal::key_file;
use gateway_service::StartError;
use gateway_service::approvers::Verifiers;
use gateway_service::output;
use gateway_service::package::{PackageCommand, version};
use gateway_service::process::{self, Cause, Fault, Listeners, reload_certificates, watch_files};
use settings::{Flags, Settings};
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
    let run_with = |after: &Flags, run: &dyn Fn(&Settings) -> ExitCode| match process::settings(
        &before,
        after,
        Settings::parse,
    ) {
        Ok(settings) => run(&settings),
        Err(faults) => process::report_errors(NAME, &faults, process::EXIT_SETTINGS),
    };
    let start = |settings: &Settings| process::start(NAME, &settings.process, serve(settings));
    match &command {
        None => run_with(&before, &start),
        Some(Command::Serve(flags)) => run_with(flags, &start),
        Some(Command::Config(flags)) => process::print_settings(NAME, &flags.or(&before), Settings::parse),
        Some(Command::Init(flags)) => run_with(flags, &|settings| {
            process::run(NAME, async { print(&*key_file::load_or_create(&settings.own.key)?) })
        }),
        Some(Command::Package(package)) => process::run(NAME, async {
            package.run(Cli::command())?;
            Ok(ExitCode::SUCCESS)
        }),
        Some(Command::Identity(flags)) => run_with(flags, &|settings| {
            process::run(NAME, async { print(&*key_file::load(&settings.own.key)?) })
        }),
    }
}

fn print(seed: &[u8; 32]) -> Result<ExitCode, Fault> {
    let public = Hex32::new(Authority::new(seed).public_key());
    output::print_line(public)?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until SIGTERM or SIGINT, and then until the requests in progress are answered.
///
/// # Errors
/// [`StartError`], one line that names the part.
async fn serve(settings: &Settings) -> Result<(), StartError> {
    let mut listeners = Listeners::open("authority", &settings.process).await?;
    let seed = key_file::load(&settings.own.key).map_err(|error| StartError::new("authority key", error))?;
    let authority = Arc::new(Authority::new(&seed));
    let rule = settings.own.signed_approvals.rule(settings.own.approval_age_max_ms);
    let mut approvers = Verifiers::open(&settings.own.signed_approvals, vec![rule.clone()]);
    let trust = Trust::new(settings.policy.development_bundles);
    let mut trust_file = trust_file(settings, trust.clone())?;
    let record =
        Record::open(&settings.own.database, &settings.record_size_file, &authority.public_key()).await;
    let record = record.map_err(|error| StartError::new("authority record", error))?;
    let verifier = Arc::new(verifier(settings, rule, trust, record));
    let tls = Arc::clone(&listeners.tls);
    let (hangups, stopping) = (listeners.hangups.take(), listeners.stopping.clone());
    let watching = tokio::spawn(watch_files(settings.process.watch, hangups, stopping, move |cause| {
        trust_file.reload_if_changed();
        match cause {
            Cause::Interval => approvers.iter_mut().for_each(Verifiers::reload_if_changed),
            Cause::Hangup => {
                approvers.iter_mut().for_each(Verifiers::reload);
                reload_certificates(&tls);
            }
        }
    }));
    let public_key = Hex32::new(authority.public_key());
    tracing::info!(address = listeners.address().map(tracing::field::display), %public_key, "policy-authority listens");
    let router = routes::router(authority, Arc::clone(&verifier), Arc::clone(&listeners.quotas));
    listeners.serve(router, routes::admin()).await;
    let _cut_short = tokio::time::timeout(settings.process.shutdown_within, watching).await;
    verifier.record.close().await;
    tracing::info!("policy-authority stopped");
    Ok(())
}

/// The trust roots of policies, read into `trust`. An authority without them would refuse every request.
fn trust_file(settings: &Settings, trust: Trust) -> Result<TrustFile, StartError> {
    let Some(roots) = settings.policy.trust_roots.clone() else {
        let why = "must be given: the authority runs the policy itself";
        return Err(StartError::new("setting `policy_trust_roots`", why));
    };
    let pins = Pins::parse(&settings.policy.pins);
    let pins = pins.map_err(|error| StartError::new("setting `policy_pins`", error))?;
    Ok(TrustFile::open(roots, pins, trust))
}

fn verifier(settings: &Settings, rule: SigningRule, trust: Trust, record: Record) -> Verifier {
    Verifier {
        signed_approvals: rule,
        rules: Rules {
            permitted_recipients: settings.policy.permitted_recipients.clone(),
            required_approvals: settings.own.required_approvals,
            separation_of_duties: settings.policy.separation_of_duties,
        },
        keys_without_approvals: settings.own.keys_without_approvals,
        decision_ttl_max_ms: settings.own.decision_ttl_max_ms,
        policies: Policies::new(trust, Arc::default()),
        record,
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
        assert!(settings::TABLE.all().all(|setting| help.contains(&settings::TABLE.variable(setting.name))));
    }
}
