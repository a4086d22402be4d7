//! Checks the nodes' databases: in steps while the gateway serves, and completely by `operation-gateway nodes check`. Prints a node's
//! log (`operation-gateway nodes log`) and readmits a restored node (`operation-gateway nodes readmit`).

use crate::services::{authority_keys, fleet_config, open_kek};
use crate::settings::{Flags, Settings};
use gateway_cli::NodesCommand;
use gateway_domain::key::expected_shares;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_engine::{Engine, Unavailable};
use gateway_fleet::{Damage, check_file, missing_shares_in_file, open_file, participants_with_database};
use gateway_seal::at_rest::Kek;
use gateway_service::output::{self, EXIT_FAILED, EXIT_UNCHECKED, Lines};
use gateway_service::process::{self, Fault};
use gateway_service::rounds::Rounds;
use gateway_service::telemetry::Descriptions;
use gateway_store::{Fsck, Store};
use metrics::gauge;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The gauges of this file with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions = &[
    (DAMAGED, "Findings of damage in a node's database when it last answered, by participant"),
    (USABLE, "Whether a node answers and can be used, by participant"),
];

const DAMAGED: &str = "operation_gateway_node_damaged";
const USABLE: &str = "operation_gateway_node_usable";

/// Interval between two steps of the background check, each of [`gateway_fleet::CHECKED_ROWS`] rows of each node.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// What was last reported, so that a change is logged once.
#[derive(Default)]
pub(crate) struct Reported {
    /// The damage of each node that answers. A node that does not answer keeps its last one.
    damaged: BTreeMap<ParticipantIndex, String>,
    /// Why each other node cannot be used.
    unusable: BTreeMap<ParticipantIndex, String>,
    /// Why the store cannot be continued, by its log.
    log: Option<Unavailable>,
    /// Why the store cannot be continued, by what the nodes admitted.
    store: Option<Unavailable>,
}

/// Logs why the store cannot be continued, if that is new.
fn note_loss(reported: &mut Option<Unavailable>, found: Option<Unavailable>) {
    if let Some(why) = found.as_ref().filter(|why| reported.as_ref() != Some(*why)) {
        tracing::error!(%why, "nothing is written");
    }
    *reported = found;
}

impl Reported {
    /// Sets the gauges, and logs the changes since the last call.
    pub(crate) async fn report(&mut self, engine: &Engine) {
        note_loss(&mut self.log, engine.compare_with_checkpoint().await.unwrap_or_else(Some));
        // If the nodes do not answer, readiness reports that.
        let Ok(nodes) = engine.nodes().await else { return };
        note_loss(&mut self.store, engine.compare_with_nodes(&nodes).await.err());
        let participants: BTreeSet<_> = nodes
            .open
            .iter()
            .chain(nodes.faults.keys())
            .chain(self.damaged.keys())
            .chain(self.unusable.keys())
            .copied()
            .collect();
        for participant in participants {
            let fault = nodes.faults.get(&participant);
            let n_findings = fault.map_or(0, |fault| fault.n_findings);
            let found = fault.map(|fault| fault.findings.join("; "));
            let is_usable = nodes.open.contains(&participant);
            gauge!(USABLE, "participant" => participant.to_string()).set(u8::from(is_usable));
            let (damage, why) = if n_findings > 0 { (found, None) } else { (None, found) };
            let is_silent = why.is_some();
            match note(&mut self.unusable, participant, why) {
                Changed::To(why) => tracing::error!(%participant, why, "a node cannot be used"),
                Changed::Gone => tracing::info!(%participant, "a node answers again"),
                Changed::No => {}
            }
            if is_silent {
                continue;
            }
            gauge!(DAMAGED, "participant" => participant.to_string())
                .set(u32::try_from(n_findings).unwrap_or(u32::MAX));
            match note(&mut self.damaged, participant, damage) {
                Changed::To(found) => tracing::error!(%participant, n_findings, found, "a node is damaged"),
                Changed::Gone => tracing::info!(%participant, "a node is sound again"),
                Changed::No => {}
            }
        }
    }
}

/// How what was last reported of a node changed.
enum Changed {
    No,
    To(String),
    Gone,
}

/// Keeps what is reported now.
fn note(
    reported: &mut BTreeMap<ParticipantIndex, String>,
    participant: ParticipantIndex,
    now: Option<String>,
) -> Changed {
    match (now, reported.remove(&participant)) {
        (Some(now), before) => {
            reported.insert(participant, now.clone());
            if before.as_ref() == Some(&now) { Changed::No } else { Changed::To(now) }
        }
        (None, Some(_)) => Changed::Gone,
        (None, None) => Changed::No,
    }
}

/// Checks some rows of each node every second, until the gateway stops.
pub(crate) async fn watch(engine: Engine, mut reported: Reported, stopping: watch::Receiver<bool>) {
    let mut rounds = Rounds::every(CHECK_EVERY, stopping);
    while rounds.next().await.is_some() {
        if let Err(error) = engine.check_nodes().await {
            tracing::warn!(%error, "nodes could not be compared with the keys");
        }
        reported.report(&engine).await;
    }
}

/// Runs one command.
pub(crate) fn run(command: &NodesCommand<Flags>, settings: &Settings, now: EpochMs) -> ExitCode {
    match command {
        NodesCommand::Check(_) => check(settings),
        NodesCommand::Log { participant, .. } => log(settings, ParticipantIndex(*participant), now),
        NodesCommand::Readmit { participant, size_at_least, .. } => {
            readmit(settings, ParticipantIndex(*participant), *size_at_least)
        }
    }
}

/// Runs `nodes check`, printing to standard output.
fn check(settings: &Settings) -> ExitCode {
    let check = async {
        let is_sound = print(&findings(settings).await?)?;
        Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
    };
    process::run(check, |_: &Fault| EXIT_UNCHECKED)
}

/// The damage of each node.
type Checked = BTreeMap<ParticipantIndex, Vec<Damage>>;

/// Prints the findings; returns whether all nodes are sound.
fn print(checked: &Checked) -> std::io::Result<bool> {
    let mut lines = Lines::new();
    for (participant, found) in checked {
        if found.is_empty() {
            lines.add(format_args!("node {participant}: ok"));
        }
        for damage in found {
            lines.add(format_args!("node {participant}: {damage}"));
        }
    }
    if checked.is_empty() {
        lines.add("there are no nodes yet");
    }
    output::print(&lines)?;
    Ok(checked.values().all(Vec::is_empty))
}

/// Runs `nodes log`, printing to standard output.
fn log(settings: &Settings, participant: ParticipantIndex, now: EpochMs) -> ExitCode {
    let print = async {
        print_log(settings, participant, now).await?;
        Ok(ExitCode::SUCCESS)
    };
    process::run(print, |_: &Fault| EXIT_UNCHECKED)
}

/// Runs `nodes readmit`.
fn readmit(settings: &Settings, participant: ParticipantIndex, size_at_least: u64) -> ExitCode {
    let readmit = async {
        check_exists(settings, participant)?;
        let kek = Arc::new(open_kek(settings).await?);
        let config = fleet_config(settings, &authority_keys(settings)?, kek)?;
        let size = gateway_fleet::readmit(&config, participant, size_at_least).await?;
        output::print_line(format_args!("node {participant} was readmitted; its log has {size} entries"))?;
        Ok(ExitCode::SUCCESS)
    };
    process::run(readmit, |_: &Fault| EXIT_UNCHECKED)
}

/// Opening a node without a database would create one.
fn check_exists(settings: &Settings, participant: ParticipantIndex) -> Result<(), Fault> {
    if settings.nodes.remote.is_some() {
        return Err("the nodes are processes of their own: run this command of `runtime-node`".into());
    }
    let folder = &settings.nodes.directory;
    if participants_with_database(folder).contains(&participant) {
        return Ok(());
    }
    Err(format!("node {participant} has no database in `{}`", folder.display()).into())
}

/// Prints the entries up to a head that is signed first: the log may grow meanwhile.
async fn print_log(settings: &Settings, participant: ParticipantIndex, now: EpochMs) -> Result<(), Fault> {
    check_exists(settings, participant)?;
    let kek = Arc::new(open_kek(settings).await?);
    let file = open_file(&settings.nodes.directory, participant, &kek).await?;
    file.write_log(output::print_json, now).await?;
    file.close().await;
    Ok(())
}

async fn findings(settings: &Settings) -> Result<Checked, Fault> {
    if settings.nodes.remote.is_some() {
        return Err("the nodes are processes of their own: run `runtime-node check` for each".into());
    }
    let folder = &settings.nodes.directory;
    let known = participants_with_database(folder);
    // Without databases there is nothing to open, and no key may be created.
    let kek = if known.is_empty() { None } else { Some(Arc::new(open_kek(settings).await?)) };
    let mut checked = Checked::new();
    for participant in known {
        if let Some(kek) = &kek {
            checked.insert(participant, check_file(folder, participant, kek).await);
        }
    }
    if Store::exists(&settings.general.database_url)? {
        compare_with_keys(settings, kek.as_ref(), &mut checked).await?;
    }
    Ok(checked)
}

/// Checks that the nodes hold a share of each key that can sign. A running gateway may be changing a key's shares, so a missing
/// share counts only if the key is the same before the nodes are read and after.
async fn compare_with_keys(
    settings: &Settings,
    kek: Option<&Arc<Kek>>,
    checked: &mut Checked,
) -> Result<(), Fault> {
    let mut fsck = Fsck::open(&settings.general.database_url).await?;
    let (mut missing, mut after) = (Vec::new(), None);
    loop {
        let (keys, last) = fsck.keys_after(after).await?;
        for (participant, held) in expected_shares(&keys) {
            let found = missing_shares_in_file(&settings.nodes.directory, participant, kek, &held).await;
            missing.extend(found.into_iter().map(|damage| (participant, damage)));
        }
        if last.is_none() {
            break;
        }
        after = last;
    }
    let mut later = Fsck::open(&settings.general.database_url).await?;
    for (participant, (key_id, damage)) in missing {
        if fsck.key(key_id).await? == later.key(key_id).await? {
            checked.entry(participant).or_default().push(damage);
        }
    }
    fsck.close().await;
    later.close().await;
    Ok(())
}
