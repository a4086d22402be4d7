//! A store whose next read of a key can be paused, so that a test can change the key before the reader goes on.

use crate::reads::AroundReads;
use gateway_domain::ids::OperationId;
use gateway_engine::Unavailable;
use gateway_store::Store;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// A pause after the next read of a key: the reader signals `has_read`, then waits for `goes_on`.
pub(crate) struct Pause {
    pub(crate) has_read: oneshot::Sender<()>,
    pub(crate) goes_on: oneshot::Receiver<()>,
}

pub(crate) struct Pausing {
    pub(crate) store: Arc<Store>,
    pub(crate) next: Arc<Mutex<Option<Pause>>>,
}

impl AroundReads for Pausing {
    fn store(&self) -> &Arc<Store> {
        &self.store
    }

    async fn around<T, E, F>(
        &self,
        name: &'static str,
        _: Option<OperationId>,
        read: impl FnOnce(Arc<Store>) -> F + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let answer = read(Arc::clone(&self.store)).await;
        let pause = if name == "key_load" { self.next.lock().unwrap().take() } else { None };
        if let Some(Pause { has_read, goes_on }) = pause {
            has_read.send(()).unwrap();
            goes_on.await.unwrap();
        }
        answer
    }
}
