//! The nodes' shares, looked after: in rounds while the gateway serves, and by `nodes check` beside it.

use crate::cli::nodes::NodesCheck;
use crate::compose::StartError;
use crate::node_key;
use crate::settings::Settings;
use gateway_domain::chain;
use gateway_domain::key::holders;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::{Engine, Unavailable};
use gateway_runtime::{Damage, check_file, existing, file_lacks};
use gateway_seal::at_rest::Kek;
use gateway_store::{Fsck, OpenError, Store};
use metrics::gauge;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Gauges of this file, each with what it says.
pub(crate) const DESCRIPTIONS: &[(&str, &str)] =
    &[(DAMAGED, "What is wrong with what a node holds, by participant: findings, 0 when it is sound")];

const DAMAGED: &str = "operation_gateway_node_damaged";

/// Between two steps of the check: so many rows of each node a second ([`gateway_runtime::CHECKED_ROWS`]).
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Something is wrong.
const EXIT_FOUND: u8 = 1;
/// Nothing can be said.
const EXIT_UNREADABLE: u8 = 2;

/// What was told of each node: what changes is logged once.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<ParticipantIndex, String>);

impl Told {
    /// Sets the gauges, and logs what changed.
    pub(crate) async fn report(&mut self, engine: &Engine) {
        // Readiness says that nobody can say.
        let Ok(nodes) = engine.nodes().await else { return };
        let participants: BTreeSet<_> =
            nodes.open.iter().chain(nodes.faults.keys()).chain(self.0.keys()).copied().collect();
        for participant in participants {
            let fault = nodes.faults.get(&participant);
            let n_findings = fault.map_or(0, |fault| fault.n_findings);
            gauge!(DAMAGED, "participant" => participant.to_string())
                .set(u32::try_from(n_findings).unwrap_or(u32::MAX));
            let found = fault.map(|fault| fault.findings.join("; "));
            match (found, self.0.remove(&participant)) {
                (Some(found), before) => {
                    if before.as_ref() != Some(&found) {
                        tracing::error!(%participant, n_findings, found, "a node is damaged");
                    }
                    self.0.insert(participant, found);
                }
                (None, Some(_)) => tracing::info!(%participant, "a node is sound again"),
                (None, None) => {}
            }
        }
    }
}

/// Checks the nodes, some rows a second, until told to stop.
pub(crate) async fn watch(engine: Engine, mut told: Told, mut stopping: watch::Receiver<bool>) {
    let mut steps = tokio::time::interval(CHECK_EVERY);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = steps.tick() => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        if let Err(error) = engine.check_nodes().await {
            tracing::warn!(%error, "nodes could not be compared with the keys");
        }
        told.report(&engine).await;
    }
}

/// Why nothing can be said: one line for an operator.
#[derive(Debug, thiserror::Error)]
enum NodesError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("the answer cannot be written")]
    Output(#[from] std::io::Error),
}

/// Carries `nodes check` out, printing to standard output.
pub(crate) fn main(_: NodesCheck, settings: &Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(settings)),
        Err(error) => Err(error.into()),
    };
    match done.and_then(|checked| print(&checked)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FOUND),
        Err(error) => crate::complain(&[chain(&error)], EXIT_UNREADABLE),
    }
}

/// What is wrong with each node.
type Checked = BTreeMap<ParticipantIndex, Vec<Damage>>;

/// Whether all of them are sound.
fn print(checked: &Checked) -> Result<bool, NodesError> {
    let mut out = std::io::stdout().lock();
    for (participant, found) in checked {
        if found.is_empty() {
            writeln!(out, "node {participant}: ok")?;
        }
        for damage in found {
            writeln!(out, "node {participant}: {damage}")?;
        }
    }
    if checked.is_empty() {
        writeln!(out, "there are no nodes yet")?;
    }
    Ok(checked.values().all(Vec::is_empty))
}

async fn run(settings: &Settings) -> Result<Checked, NodesError> {
    let folder = &settings.node_directory;
    let known = existing(folder);
    // Where no node has a database, there is nothing to open, and no key is made for it.
    let kek = if known.is_empty() { None } else { Some(Arc::new(node_key::open(settings).await?)) };
    let mut checked = Checked::new();
    for participant in known {
        if let Some(kek) = &kek {
            checked.insert(participant, check_file(folder, participant, kek).await);
        }
    }
    if Store::exists(&settings.database_url)? {
        compare(settings, kek.as_ref(), &mut checked).await?;
    }
    Ok(checked)
}

/// Every key that signs, with its nodes. A gateway may be making another generation meanwhile: what is missing counts for a
/// key that is the same before the nodes were looked at and after.
async fn compare(
    settings: &Settings,
    kek: Option<&Arc<Kek>>,
    checked: &mut Checked,
) -> Result<(), NodesError> {
    let mut fsck = Fsck::open(&settings.database_url).await?;
    let (mut lacking, mut after) = (Vec::new(), None);
    loop {
        let (keys, last) = fsck.keys_after(after).await?;
        for (participant, held) in holders(&keys) {
            let lacks = file_lacks(&settings.node_directory, participant, kek, &held).await;
            lacking.extend(lacks.into_iter().map(|damage| (participant, damage)));
        }
        if last.is_none() {
            break;
        }
        after = last;
    }
    let mut later = Fsck::open(&settings.database_url).await?;
    for (participant, (key_id, damage)) in lacking {
        if fsck.key(key_id).await? == later.key(key_id).await? {
            checked.entry(participant).or_default().push(damage);
        }
    }
    fsck.close().await;
    later.close().await;
    Ok(())
}
