//! What the operating system tells the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listened to before anything else is done: until then each of these ends the process on the spot. What comes while it starts
/// is heard once it has started.
pub(crate) struct Signals {
    /// To stop.
    pub(crate) stop: Stop,
    /// SIGHUP: to look at the policy bundles again.
    pub(crate) policies: Option<Signal>,
    /// SIGHUP: to read other files again.
    pub(crate) files: Option<Signal>,
}

/// SIGTERM and SIGINT.
pub(crate) struct Stop([Option<Signal>; 2]);

impl Signals {
    pub(crate) fn listen() -> Self {
        let stop = [SignalKind::terminate(), SignalKind::interrupt()].map(heard);
        let [policies, files] = [SignalKind::hangup(); 2].map(heard);
        Self { stop: Stop(stop), policies, files }
    }
}

impl Stop {
    /// Waits for the word to stop.
    pub(crate) async fn told(self) {
        let [terminate, interrupt] = self.0;
        tokio::select! {
            () = received(terminate) => {}
            () = received(interrupt) => {}
        }
    }
}

fn heard(kind: SignalKind) -> Option<Signal> {
    let listening = signal(kind);
    listening.inspect_err(|error| tracing::error!(%error, ?kind, "a signal cannot be listened to")).ok()
}

async fn received(listening: Option<Signal>) {
    match listening {
        Some(mut listening) => drop(listening.recv().await),
        None => std::future::pending().await,
    }
}
