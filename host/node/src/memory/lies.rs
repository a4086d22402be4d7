//! What a node answers in place of the truth, for tests of its callers.

use crate::error::NodeRejection;
use gateway_domain::receipt::{NodeReceipt, ReceiptStatement};
use gateway_seal::relay::Envelope;
use gateway_threshold::Message;
use parking_lot::Mutex;

type FalseReceipt = Box<dyn Fn(&ReceiptStatement) -> Option<NodeReceipt> + Send>;
type FalseMail = Box<dyn Fn(&Message) -> Vec<Message> + Send>;
type FalseAccusation<N> = Box<dyn Fn(&N, &[Envelope]) -> Option<NodeRejection> + Send>;

/// Functions that replace what a node `N` signs, sends and answers, if they are set.
pub(crate) struct Lies<N> {
    pub(crate) receipt: Mutex<Option<FalseReceipt>>,
    pub(crate) mail: Mutex<Option<FalseMail>>,
    pub(crate) accusation: Mutex<Option<FalseAccusation<N>>>,
}

impl<N> Default for Lies<N> {
    fn default() -> Self {
        Self { receipt: Mutex::default(), mail: Mutex::default(), accusation: Mutex::default() }
    }
}

impl<N> Lies<N> {
    pub(crate) fn receipt(&self, statement: &ReceiptStatement) -> Option<NodeReceipt> {
        self.receipt.lock().as_ref()?(statement)
    }

    pub(crate) fn mail(&self, messages: Vec<Message>) -> Vec<Message> {
        match self.mail.lock().as_ref() {
            Some(replace) => messages.iter().flat_map(replace).collect(),
            None => messages,
        }
    }

    pub(crate) fn accusation(&self, node: &N, mail: &[Envelope]) -> Option<NodeRejection> {
        self.accusation.lock().as_ref()?(node, mail)
    }
}
