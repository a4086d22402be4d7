//! `operation-gateway op`.

use super::body::{PAGE, client, first, submission};
use super::connection::Connection;
use super::output::{CallError, EXIT_CODES};
use super::print;
use crate::approvers::{self, Ends, Signed, word};
use clap::{Args, Subcommand};
use gateway_client::{Filter, Operation, Start};
use gateway_domain::names::names_person;
use gateway_domain::time::EpochMs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub enum OpCommand {
    /// Submit a payment
    #[command(after_help = EXIT_CODES)]
    Submit(Submit),
    /// Show an operation
    #[command(after_help = EXIT_CODES)]
    Show(Show),
    /// List operations, newest first
    #[command(after_help = EXIT_CODES)]
    List(List),
    /// Print what happens to operations, until interrupted
    #[command(after_help = EXIT_CODES)]
    Watch(Watch),
    /// Approve an operation, signed with a key if one is given
    #[command(after_help = EXIT_CODES)]
    Approve(Decide),
    /// Reject an operation that is not admitted yet
    #[command(after_help = EXIT_CODES)]
    Reject {
        /// The reason, which becomes part of the evidence
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        decide: Decide,
    },
    /// Abort a change of a key that is admitted, or have it do without nodes that are lost
    #[command(after_help = EXIT_CODES)]
    Abort {
        /// The reason, which becomes part of the evidence
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The receivers of new shares that are lost; none before all have stored theirs
        #[arg(long, value_name = "N,...", value_delimiter = ',')]
        lost: Vec<u16>,
        #[command(flatten)]
        decide: Decide,
    },
    /// Cancel what you submitted, before it is admitted
    #[command(after_help = EXIT_CODES)]
    Cancel {
        /// The reason, which becomes part of the evidence
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        target: Target,
    },
    /// Have the nodes sign, or change their shares
    #[command(after_help = EXIT_CODES)]
    Execute(Target),
    /// Publish the result of an operation
    #[command(after_help = EXIT_CODES)]
    Publish(Target),
    /// Write an operation's evidence to files, for `evidence verify`
    #[command(after_help = EXIT_CODES)]
    Evidence {
        /// The file; further pages get a number before the extension
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        #[command(flatten)]
        target: Target,
    },
}

/// An operation, and how it is reached.
#[derive(Debug, Args)]
pub struct Target {
    /// The operation's id: 64 hexadecimal characters
    #[arg(value_name = "OPERATION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

/// A payment: from a file, or from flags.
#[derive(Debug, Args)]
pub struct Submit {
    /// The body of `POST /v1/operations/sign`, JSON, instead of the flags; `-` for standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["idempotency_key", "from", "to", "amount_minor", "currency"])]
    file: Option<PathBuf>,
    /// The same for every repeat of this payment, and for no other one
    #[arg(long, value_name = "TEXT", required_unless_present = "file")]
    idempotency_key: Option<String>,
    /// The account that pays
    #[arg(long, value_name = "ACCOUNT", required_unless_present = "file")]
    from: Option<String>,
    /// The account that is paid
    #[arg(long, value_name = "ACCOUNT", required_unless_present = "file")]
    to: Option<String>,
    /// The amount in minor units, such as cents
    #[arg(long, value_name = "UNITS", required_unless_present = "file", allow_negative_numbers = true)]
    amount_minor: Option<i64>,
    /// The currency
    #[arg(long, value_name = "CURRENCY", required_unless_present = "file")]
    currency: Option<String>,
    /// Free text
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// The key that signs [default: the deployment's choice]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The participants that may sign
    #[arg(long, value_name = "PARTICIPANT,...", value_delimiter = ',', default_value = "0,1,2")]
    participants: Vec<u16>,
    /// Publish the signature at once
    #[arg(long)]
    publish: bool,
    #[command(flatten)]
    connection: Connection,
}

/// An operation, and what is waited for.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    target: Target,
    /// Wait until it is in this state, telling on the way on standard error; `end` waits until it is published or has failed
    #[arg(long, value_name = "STATE")]
    wait_for: Option<String>,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    within: u64,
}

/// Which operations are listed.
#[derive(Debug, Args)]
pub struct List {
    /// Custody operations instead of payments
    #[arg(long)]
    custody: bool,
    /// Only operations in this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only operations on this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only operations submitted with this idempotency key
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
    /// Only operations that await your approval
    #[arg(long)]
    awaiting_me: bool,
    /// The most operations that are listed
    #[arg(long, value_name = "OPERATIONS", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    connection: Connection,
}

/// Which events are printed.
#[derive(Debug, Args)]
pub struct Watch {
    /// Begin with this event of the log [default: what happens from now on]
    #[arg(long, value_name = "INDEX")]
    from: Option<u64>,
    /// Begin after the event of this id, the last one that you have seen
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    after: Option<String>,
    /// Only events after which the operation is in this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only operations on this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "EVENTS")]
    count: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

/// An approver's decision.
#[derive(Debug, Args)]
pub struct Decide {
    #[command(flatten)]
    target: Target,
    /// Secret file with the Ed25519 seed with which you sign, hexadecimal; the operation is shown and confirmed first
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    /// Your role; may be repeated [default: all that your credentials give you]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Sign without asking; required without a terminal
    #[arg(long, requires = "signing_key")]
    yes: bool,
}

pub(super) async fn run(command: &OpCommand, now: EpochMs) -> Result<(), CallError> {
    match command {
        OpCommand::Submit(submit) => submit_payment(submit).await,
        OpCommand::Show(show) => show_one(show).await,
        OpCommand::List(list) => show_list(list).await,
        OpCommand::Watch(watch) => print_events(watch).await,
        OpCommand::Approve(decide) => self::decide(decide, None, now).await,
        OpCommand::Reject { reason, decide } => {
            self::decide(decide, Ends::of(Some(reason), None, &[]), now).await
        }
        OpCommand::Abort { reason, lost, decide } => {
            self::decide(decide, Ends::of(None, Some(reason), lost), now).await
        }
        OpCommand::Cancel { reason, target } => act(target, "cancel", |_| json!({ "reason": reason })).await,
        OpCommand::Execute(target) => act(target, "execute", |_| json!({})).await,
        OpCommand::Publish(target) => act(target, "publish", |operation| publication(operation, now)).await,
        OpCommand::Evidence { to, target } => write_evidence(target, to).await,
    }
}

/// What is published of an operation.
fn publication(operation: &Operation, now: EpochMs) -> Value {
    let signs = operation.intent.get("operation_type").and_then(Value::as_str) == Some("sign");
    json!({ "scope": if signs { "signature" } else { "public_key" }, "requested_at_ms": now.0 })
}

async fn act(target: &Target, action: &str, body: impl FnOnce(&Operation) -> Value) -> Result<(), CallError> {
    let (gateway, _) = target.connection.open()?;
    let operation = gateway.find(&target.id).await?;
    let operation = gateway.act(&operation, action, &body(&operation)).await?;
    print::operation(&operation, target.connection.output.form())
}

async fn submit_payment(submit: &Submit) -> Result<(), CallError> {
    let (gateway, caller) = submit.connection.open()?;
    let body = match &submit.file {
        Some(file) => submission(file, &gateway, &caller).await?,
        None => payment(submit, &client(&gateway, &caller).await?),
    };
    let operation = gateway.submit_to("/v1/operations/sign", &body).await?;
    print::operation(&operation, submit.connection.output.form())
}

fn payment(submit: &Submit, client: &Value) -> Value {
    let mut terms = json!({
        "from_account": submit.from, "to_account": submit.to, "amount_minor": submit.amount_minor, "currency": submit.currency,
    });
    if let (Some(terms), Some(reference)) = (terms.as_object_mut(), &submit.reference) {
        terms.insert("reference".to_owned(), json!(reference));
    }
    let mut body = json!({
        "idempotency_key": submit.idempotency_key,
        "payment": terms,
        "requested_participants": submit.participants,
        "publication_mode": if submit.publish { "automatic" } else { "manual" },
        "client": client,
    });
    if let (Some(body), Some(key)) = (body.as_object_mut(), &submit.key) {
        body.insert("key_ref".to_owned(), json!(key));
    }
    body
}

async fn show_one(Show { target, wait_for, within }: &Show) -> Result<(), CallError> {
    let (gateway, _) = target.connection.open()?;
    let mut operation = gateway.find(&target.id).await?;
    if let Some(state) = wait_for {
        let mut shown = None;
        let holds = |now: &Operation| {
            print::progress(&mut shown, now);
            now.state == *state || now.has_ended()
        };
        operation = gateway.wait_until(&operation, Duration::from_secs(*within), holds).await?;
    }
    print::operation(&operation, target.connection.output.form())?;
    // Who waited for something else learns of the failure by the exit code.
    match (&operation.failure, wait_for.as_deref()) {
        (Some(failure), Some(state)) if state != "failed" => {
            Err(CallError::Failed { code: failure.code.clone(), message: failure.message.clone() })
        }
        _ => Ok(()),
    }
}

async fn show_list(list: &List) -> Result<(), CallError> {
    let (gateway, _) = list.connection.open()?;
    let filter = Filter {
        state: list.state.clone(),
        key_ref: list.key.clone(),
        idempotency_key: list.idempotency_key.clone(),
        awaiting_me: list.awaiting_me,
        ..Filter::default()
    };
    let page = async |cursor: Option<String>| {
        gateway.operations(list.custody, &filter, PAGE, cursor.as_deref()).await
    };
    print::operations(&first(list.limit, page).await?, list.connection.output.form())
}

async fn print_events(watch: &Watch) -> Result<(), CallError> {
    let (gateway, _) = watch.connection.open()?;
    let filter = Filter { state: watch.state.clone(), key_ref: watch.key.clone(), ..Filter::default() };
    let start = match (&watch.after, watch.from) {
        (Some(id), _) => Start::After(id.clone()),
        (None, Some(index)) => Start::At(index),
        (None, None) => Start::Now,
    };
    let mut events = gateway.events(&filter, start);
    let mut left = watch.count;
    while left != Some(0) {
        print::event(&events.next().await?, watch.connection.output.form())?;
        left = left.map(|left| left.saturating_sub(1));
    }
    Ok(())
}

async fn decide(decide: &Decide, ends: Option<Ends<'_>>, now: EpochMs) -> Result<(), CallError> {
    let Decide { target, signing_key, roles, yes } = decide;
    let (gateway, caller) = target.connection.open()?;
    let operation = gateway.find(&target.id).await?;
    let identity = gateway.whoami().await?.identity;
    let subject = match (&identity, caller.subject) {
        (Some(identity), _) => identity.subject_id.clone(),
        (None, Some(subject)) => subject,
        (None, None) => {
            return Err(CallError::Unusable("say who approves with `--subject`".to_owned()));
        }
    };
    let held = identity.map_or(caller.roles, |identity| identity.roles);
    let roles = if roles.is_empty() { held } else { roles.clone() };
    let is_approved = operation.state != "failed" && names_person(&operation.approvals.subjects, &subject);
    if ends.is_none() && is_approved {
        // The answer to an earlier try was lost.
        return print::operation(&operation, target.connection.output.form());
    }
    let action = ends.as_ref().map_or("approve", Ends::action);
    let body: Value = match signing_key {
        // The gateway no longer sends what would be signed.
        Some(_) if operation.state != "pending_approval" && !ends.as_ref().is_some_and(Ends::aborts) => {
            let why = format!("nothing to sign: the operation is `{}` already", operation.state);
            return Err(CallError::Unusable(why));
        }
        Some(key) => {
            let view = serde_json::to_value(&operation).map_err(std::io::Error::from)?;
            let signed = Signed { key, subject: &subject, roles: &roles, ends, yes: *yes };
            approvers::sign_view(view, &signed, now)?
        }
        None => {
            let mut body = json!(word(ends.as_ref(), i64::try_from(now.0).unwrap_or(i64::MAX)));
            if let Some(members) = body.as_object_mut() {
                members.insert("subject_id".to_owned(), json!(subject));
                members.insert("roles".to_owned(), json!(roles));
            }
            body
        }
    };
    let operation = gateway.act(&operation, action, &body).await?;
    print::operation(&operation, target.connection.output.form())
}

async fn write_evidence(target: &Target, to: &Path) -> Result<(), CallError> {
    let (gateway, _) = target.connection.open()?;
    let operation = gateway.find(&target.id).await?;
    for (nth, page) in gateway.evidence(&operation).await?.into_iter().enumerate() {
        let path = match nth {
            0 => to.to_owned(),
            nth => to.with_extension(format!("{nth}.json")),
        };
        std::fs::write(&path, page)
            .map_err(|error| CallError::Unusable(format!("`{}`: {error}", path.display())))?;
    }
    Ok(())
}
