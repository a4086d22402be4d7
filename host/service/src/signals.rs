//! Signals of the operating system.

use crate::rounds::received;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The signals that a process handles. They are registered before anything else, because an unregistered signal ends the
/// process. A signal during the start is handled after it.
pub struct Signals {
    /// SIGTERM and SIGINT: stop.
    pub stop: Stop,
    /// SIGHUP, for the policy bundles.
    pub policies: Option<Signal>,
    /// SIGHUP, for other files.
    pub files: Option<Signal>,
    /// SIGHUP, for webhooks.
    pub webhooks: Option<Signal>,
}

/// SIGTERM and SIGINT.
pub struct Stop([Option<Signal>; 2]);

impl Signals {
    /// Registers them.
    #[must_use]
    pub fn listen() -> Self {
        let stop = [SignalKind::terminate(), SignalKind::interrupt()].map(register);
        let [policies, files, webhooks] = [SignalKind::hangup(); 3].map(register);
        Self { stop: Stop(stop), policies, files, webhooks }
    }
}

impl Stop {
    /// Becomes true at the first of the two.
    #[must_use]
    pub fn watch(self) -> watch::Receiver<bool> {
        let [mut terminate, mut interrupt] = self.0;
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                () = received(&mut terminate) => {}
                () = received(&mut interrupt) => {}
            }
            let _receiver_gone = stop.send(true);
        });
        stopping
    }
}

fn register(kind: SignalKind) -> Option<Signal> {
    let listening = signal(kind);
    listening.inspect_err(|error| tracing::error!(%error, ?kind, "a signal cannot be handled")).ok()
}
