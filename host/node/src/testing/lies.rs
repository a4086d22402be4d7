//! A node that lies in its receipts, to test those who must notice.

use crate::Node;
use gateway_domain::receipt::{NodeReceipt, ReceiptStatement};
use std::fmt;
use std::sync::{Mutex, PoisonError};

type Lie = Box<dyn Fn(&ReceiptStatement) -> Option<NodeReceipt> + Send>;

/// What the node says instead of the truth.
#[derive(Default)]
pub(crate) struct Lies(Mutex<Option<Lie>>);

impl Lies {
    pub(crate) fn instead_of(&self, statement: &ReceiptStatement) -> Option<NodeReceipt> {
        let lie = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lie.as_ref().and_then(|lie| lie(statement))
    }
}

impl fmt::Debug for Lies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lies")
    }
}

impl Node {
    /// From now on this node answers with what `lie` makes of a statement, and with the truth where that is none.
    pub fn lie(&self, lie: impl Fn(&ReceiptStatement) -> Option<NodeReceipt> + Send + 'static) {
        *self.lies.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(lie));
    }

    /// This node's receipt over any statement, true or not.
    #[must_use]
    pub fn sign_anything(&self, statement: &ReceiptStatement) -> NodeReceipt {
        self.sign_receipt(statement).unwrap()
    }
}
