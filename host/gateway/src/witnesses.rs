//! Has witnesses cosign the log (C2SP `tlog-witness`), and keeps the newest checkpoint that a quorum of them cosigned in a file.
//!
//! Requests never wait for a witness. In a round all witnesses get the same checkpoint at once, and the quorum counts when it is
//! there; a witness that is late is left out of the next rounds until it has answered or its time is over.

mod client;
pub(crate) mod file;

use crate::settings::{Log, Settings};
use client::{Refusal, WitnessClient};
use gateway_domain::error_chain;
use gateway_domain::log::checkpoint::SignedCheckpointError;
use gateway_domain::log::note::NoteError;
use gateway_domain::log::witness_policy::POLICY_BYTES_MAX;
use gateway_domain::log::{SignedCheckpoint, WitnessKey, WitnessPolicy};
use gateway_engine::{Engine, KeptCheckpoint};
use gateway_seal::durable;
use gateway_service::StartError;
use gateway_service::rounds::Rounds;
use gateway_service::telemetry::Descriptions;
use metrics::{counter, gauge};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The gauges of this file with their descriptions.
pub(crate) const GAUGES: Descriptions = &[
    (ENTRIES, "Entries of the newest checkpoint that a quorum of witnesses cosigned"),
    (
        AGE,
        "Time since a quorum of witnesses cosigned the newest checkpoint; before the first, time since the start",
    ),
];

/// The counters of this file with their descriptions.
pub(crate) const COUNTERS: Descriptions =
    &[(REFUSALS, "Checkpoints that a witness did not cosign, by reason")];

const ENTRIES: &str = "operation_gateway_witnessed_log_entries";
const AGE: &str = "operation_gateway_witnessed_checkpoint_age_seconds";
const REFUSALS: &str = "operation_gateway_witness_refusals_total";

/// A log that did not grow is cosigned again after this time, so that readers see that the witnesses still have it.
const COSIGNED_AGAIN_AFTER_SECONDS: u64 = 600;

/// The witnesses of the settings; `None` without `witness_policy`. Only reads files.
///
/// # Errors
/// [`StartError`] naming the file and the line.
pub(crate) fn open(settings: &Settings) -> Result<Option<Witnesses>, StartError> {
    let Log { witness_policy, witnessed_checkpoint, .. } = &settings.log;
    let Some(path) = witness_policy else { return Ok(None) };
    let failed = |why: String| StartError::new(format!("witness policy `{}`", path.display()), why);
    let policy: WitnessPolicy = read_policy(path)
        .and_then(|text| text.parse().map_err(|error| error_chain(&error)))
        .map_err(failed)?;
    if policy.threshold() == 0 {
        return Err(failed("the quorum must be a witness or a group, not `none`".to_owned()));
    }
    let folder = durable::folder_of(witnessed_checkpoint);
    if !folder.is_dir() {
        let why = format!("the folder `{}` does not exist", folder.display());
        return Err(file::unusable(witnessed_checkpoint, why));
    }
    let mut members = Vec::new();
    for witness in policy.witnesses() {
        let url = witness
            .url
            .as_deref()
            .ok_or_else(|| failed(format!("the witness `{}` has no URL", witness.name)))?;
        let client = WitnessClient::new(url)
            .map_err(|why| failed(format!("the witness `{}`: {why}", witness.name)))?;
        members.push(Member {
            name: witness.name.clone(),
            key: witness.key.clone(),
            client,
            old: 0,
            asked: None,
            refusal: None,
        });
    }
    Ok(Some(Witnesses { policy, members, path: witnessed_checkpoint.clone() }))
}

fn read_policy(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let bytes_max = u64::try_from(POLICY_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let read = File::open(path).and_then(|file| file.take(bytes_max).read_to_string(&mut text));
    read.map(|_| text).map_err(|error| error_chain(&error))
}

/// Reads the kept checkpoint and compares the log with it, before anything is served. If the settings name it as lost, and the log is
/// not consistent with it or has another key or name, it is put aside, and the present head takes its place.
///
/// # Errors
/// [`StartError`] when the file cannot be read, or the log's key did not sign the checkpoint.
pub(crate) async fn compare(
    settings: &Settings,
    witnesses: Option<&mut Witnesses>,
    engine: &Engine,
) -> Result<(), StartError> {
    let Log { witnessed_checkpoint: path, lost_checkpoint, .. } = &settings.log;
    let Some(checkpoint) = file::read(path)? else {
        if witnesses.is_some() {
            tracing::warn!("there is no witnessed checkpoint yet: the log is compared with nothing");
        }
        return Ok(());
    };
    let (size, root) = (checkpoint.unverified().size(), checkpoint.unverified().root());
    let is_lost = *lost_checkpoint == Some((size, root));
    match checkpoint.verify(std::slice::from_ref(engine.log_key())) {
        Ok(_) => {}
        Err(error) if may_be_replaced(&error) && is_lost => {
            return give_up(engine, path, &checkpoint, &error_chain(&error)).await;
        }
        Err(error) => {
            let mut why = error_chain(&error);
            if may_be_replaced(&error) {
                why += &format!(
                    "; put back the log's key and origin, or, if they were replaced, accept that with \
                     `lost_checkpoint={size}:{root}`"
                );
            }
            return Err(file::unusable(path, why));
        }
    }
    let is_cosigned = witnesses.is_some_and(|witnesses| witnesses.has_cosigned(&checkpoint));
    engine.expect_checkpoint(KeptCheckpoint { checkpoint: checkpoint.clone(), is_cosigned });
    match engine.compare_with_checkpoint().await {
        Ok(Some(why)) if is_lost => give_up(engine, path, &checkpoint, &why.detail).await,
        // Nothing is written while the log differs or could not be compared, and it is compared again every second.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether the checkpoint may be one of an earlier key or name of the log, rather than an altered one.
fn may_be_replaced(error: &SignedCheckpointError) -> bool {
    match error {
        SignedCheckpointError::UnknownOrigin(_) | SignedCheckpointError::Note(NoteError::UnknownSigner) => {
            true
        }
        SignedCheckpointError::Note(_) | SignedCheckpointError::Checkpoint(_) => false,
    }
}

/// Puts the lost checkpoint aside. The present head is kept in its place at once, so that a further loss is noticed.
async fn give_up(engine: &Engine, path: &Path, lost: &SignedCheckpoint, why: &str) -> Result<(), StartError> {
    let head = engine.checkpoint().await.map_err(|error| file::unusable(path, error_chain(&error)))?;
    let aside = file::put_aside(path, lost).map_err(|error| file::unusable(path, error_chain(&error)))?;
    file::replace(path, &head).map_err(|error| file::unusable(path, error_chain(&error)))?;
    let (entries, aside) = (head.unverified().size(), aside.display());
    tracing::warn!(why, entries, %aside, "the witnessed checkpoint was given up, as `lost_checkpoint` says");
    engine.expect_checkpoint(KeptCheckpoint { checkpoint: head, is_cosigned: false });
    engine
        .compare_with_checkpoint()
        .await
        .map(drop)
        .map_err(|error| file::unusable(path, error_chain(&error)))
}

/// The witnesses, and what is known of each.
pub(crate) struct Witnesses {
    policy: WitnessPolicy,
    members: Vec<Member>,
    path: PathBuf,
}

struct Member {
    name: String,
    key: WitnessKey,
    client: WitnessClient,
    /// The size that it has, as far as is known. Only a hint.
    old: u64,
    /// The size of the checkpoint that it has not answered yet.
    asked: Option<u64>,
    /// Why it did not cosign the last checkpoint.
    refusal: Option<String>,
}

/// The answer of a member to the checkpoint of a round.
struct Answered {
    member: usize,
    size: u64,
    answer: Result<String, Refusal>,
}

impl Witnesses {
    /// The number of witnesses, and how many must cosign.
    pub(crate) fn quorum(&self) -> (usize, usize) {
        (self.members.len(), self.policy.threshold())
    }

    /// Whether a quorum cosigned the checkpoint. Notes which members have.
    fn has_cosigned(&mut self, checkpoint: &SignedCheckpoint) -> bool {
        for member in &mut self.members {
            if checkpoint.cosignatures([&member.key]).is_ok_and(|found| !found.is_empty()) {
                member.old = checkpoint.unverified().size();
            }
        }
        self.policy.quorum(checkpoint).is_ok()
    }
}

/// Sends the log to the witnesses at intervals, until the gateway stops. Does nothing without witnesses.
pub(crate) async fn watch(
    witnesses: Option<Witnesses>,
    engine: Engine,
    every: std::time::Duration,
    stopping: watch::Receiver<bool>,
) {
    let Some(witnesses) = witnesses else { return };
    let mut watching = Watching {
        witnesses,
        engine,
        round: None,
        is_complete: true,
        started_at: now_seconds(),
        calls: JoinSet::new(),
    };
    let mut rounds = Rounds::every(every, stopping);
    loop {
        tokio::select! {
            round = rounds.next() => match round {
                Some(_) => watching.begin().await,
                None => return,
            },
            Some(answered) = watching.calls.join_next() => {
                if let Ok(answered) = answered {
                    watching.take(answered).await;
                }
            }
        }
        watching.show();
    }
}

struct Watching {
    witnesses: Witnesses,
    engine: Engine,
    /// The checkpoint of this round, with the cosignatures so far.
    round: Option<SignedCheckpoint>,
    /// Whether a quorum cosigned the checkpoint of this round, and that is on disk.
    is_complete: bool,
    started_at: u64,
    calls: JoinSet<Answered>,
}

impl Watching {
    /// Begins a round, unless the last one can still succeed or nothing is to be cosigned.
    async fn begin(&mut self) {
        let size = self.round.as_ref().map(|round| round.unverified().size());
        let is_asked = |member: &Member| member.asked.is_some() && member.asked == size;
        if !self.is_complete && self.witnesses.members.iter().any(is_asked) {
            return;
        }
        // A log that lost entries or was changed is not signed again. Readiness and the log name the reason.
        if self.engine.compare_with_checkpoint().await != Ok(None) {
            return;
        }
        let checkpoint = match self.engine.checkpoint().await {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "the log could not be signed for the witnesses");
                return;
            }
        };
        let size = checkpoint.unverified().size();
        if size == 0 || self.is_up_to_date(size) {
            return;
        }
        for (index, member) in
            self.witnesses.members.iter_mut().enumerate().filter(|(_, member)| member.asked.is_none())
        {
            member.asked = Some(size);
            let (client, engine, old) = (member.client.clone(), self.engine.clone(), member.old);
            let checkpoint = checkpoint.clone();
            self.calls.spawn(async move {
                let answer = client.ask(&engine, &checkpoint, old).await;
                Answered { member: index, size, answer }
            });
        }
        (self.round, self.is_complete) = (Some(checkpoint), false);
    }

    fn is_up_to_date(&self, size: u64) -> bool {
        let Some(witnessed) = self.engine.witnessed_checkpoint() else { return false };
        witnessed.unverified().size() == size && self.age_seconds() < COSIGNED_AGAIN_AFTER_SECONDS
    }

    /// Takes the answer of a witness.
    async fn take(&mut self, answered: Answered) {
        let Answered { member, size, answer } = answered;
        let Some(member) = self.witnesses.members.get_mut(member) else { return };
        member.asked = None;
        // An answer to an earlier round cosigns another checkpoint.
        let round = self.round.as_mut().filter(|round| round.unverified().size() == size);
        let cosigned = answer.and_then(|answer| match &round {
            Some(round) => Ok(Some(round.with_answer(&answer, &member.key, now_seconds())?)),
            None => Ok(None),
        });
        match cosigned {
            Ok(cosigned) => {
                member.old = size;
                let (Some(round), Some(cosigned)) = (round, cosigned) else { return };
                *round = cosigned;
                if member.refusal.take().is_some() {
                    tracing::info!(witness = member.name, "a witness cosigns again");
                }
                self.keep().await;
            }
            Err(refusal) => {
                counter!(REFUSALS, "witness" => member.name.clone(), "reason" => refusal.reason())
                    .increment(1);
                member.old = refusal.size().unwrap_or(member.old);
                let why = error_chain(&refusal);
                if member.refusal.as_ref() != Some(&why) {
                    tracing::warn!(witness = member.name, why, "a witness did not cosign the log");
                }
                member.refusal = Some(why);
            }
        }
    }

    /// Keeps the checkpoint of the round once a quorum cosigned it: on disk, and then in memory.
    async fn keep(&mut self) {
        let Some(round) = self.round.clone().filter(|round| self.witnesses.policy.quorum(round).is_ok())
        else {
            return;
        };
        let (path, written) = (self.witnesses.path.clone(), round.clone());
        let writing = tokio::task::spawn_blocking(move || file::replace(&path, &written)).await;
        match writing.map_err(std::io::Error::other).and_then(|written| written) {
            Ok(()) => {
                self.engine.keep_checkpoint(KeptCheckpoint { checkpoint: round, is_cosigned: true });
                self.is_complete = true;
            }
            Err(error) => {
                tracing::error!(error = error_chain(&error), "the witnessed checkpoint could not be written");
            }
        }
    }

    /// Time since a quorum cosigned the newest checkpoint; before the first, time since the start.
    fn age_seconds(&self) -> u64 {
        let witnessed = self.engine.witnessed_checkpoint();
        let found = witnessed.and_then(|checkpoint| self.witnesses.policy.quorum(&checkpoint).ok());
        let mut times: Vec<_> =
            found.into_iter().flatten().map(|cosignature| cosignature.time_seconds).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        let needed = self.witnesses.policy.threshold().saturating_sub(1);
        now_seconds().saturating_sub(times.get(needed).copied().unwrap_or(self.started_at))
    }

    /// Sets the gauges, and the line of readiness.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is a float; 2^53 entries and seconds are far away"
    )]
    fn show(&self) {
        let size = self.engine.witnessed_checkpoint().map_or(0, |checkpoint| checkpoint.unverified().size());
        gauge!(ENTRIES).set(size as f64);
        gauge!(AGE).set(self.age_seconds() as f64);
        let refusals: BTreeMap<_, _> = self
            .witnesses
            .members
            .iter()
            .filter_map(|member| Some((&member.name, member.refusal.as_ref()?)))
            .collect();
        let mut report = format!("the newest witnessed checkpoint has {size} entries");
        for (name, why) in refusals {
            report += &format!("; `{name}` {why}");
        }
        self.engine.report_witnesses(report);
    }
}

fn now_seconds() -> u64 {
    gateway_service::now().0 / 1000
}
