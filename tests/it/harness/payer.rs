//! A client that pays again and again while the gateway is killed and started at other addresses.

use super::process::{EXECUTE, SIGN, post, publish_step};
use super::samples::{approval, path, payment};
use super::wire::eventually;
use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The gateway's address, which changes.
pub(crate) struct Address {
    now: Mutex<String>,
    moved: Condvar,
}

impl Address {
    pub(crate) fn new(now: &str) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new(now.to_owned()), moved: Condvar::new() })
    }

    pub(crate) fn get(&self) -> String {
        self.now.lock().unwrap().clone()
    }

    pub(crate) fn set(&self, now: &str) {
        now.clone_into(&mut self.now.lock().unwrap());
        self.moved.notify_all();
    }

    /// Waits until it is another than `old`; at most a second, since a connection may also end for another reason.
    pub(crate) fn wait_for_another(&self, old: &str) {
        let is_old = |now: &mut String| now == old;
        drop(self.moved.wait_timeout_while(self.now.lock().unwrap(), Duration::from_secs(1), is_old));
    }
}

/// Makes the payments `pay-0`, `pay-1` and so on, each until it is published.
pub(crate) struct Payer {
    n_answers: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Payer {
    pub(crate) fn start(address: &Arc<Address>) -> Self {
        let (n_answers, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (address, counter, is_over) = (Arc::clone(address), Arc::clone(&n_answers), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            let mut n_paid = 0;
            while !is_over.load(Ordering::Relaxed) {
                let mut at = address.get();
                while pay(&at, n_paid, &counter).is_err() {
                    address.wait_for_another(&at);
                    at = address.get();
                }
                n_paid += 1;
            }
            n_paid
        });
        Self { n_answers, ends, thread }
    }

    /// Waits for some payments. Each `nth` time, the last one is at another step.
    pub(crate) fn pays(&self, nth: u64) {
        let enough = self.n_answers.load(Ordering::Relaxed) + 25 + 6 * nth;
        eventually("payments go on", || self.n_answers.load(Ordering::Relaxed) >= enough);
    }

    /// Waits until the last payment is published; returns the number of payments.
    pub(crate) fn finish(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn pay(address: &str, number: u64, n_answers: &AtomicU64) -> Result<()> {
    let submitted = post(address, SIGN, Some(&payment(&format!("pay-{number}"))))?;
    let approvals = ["alice", "bob"].map(|subject| ("/approve", Some(approval(subject))));
    for (action, body) in approvals.into_iter().chain([EXECUTE, publish_step()]) {
        n_answers.fetch_add(1, Ordering::Relaxed);
        post(address, &path(&submitted["operation"], action), body.as_ref())?;
    }
    n_answers.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
