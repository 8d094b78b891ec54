//! The one abort of a pass, as the stages see it.

use tokio::sync::watch;

/// Raised once, seen by every stage. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AbortSignal {
    raised: watch::Sender<bool>,
}

impl AbortSignal {
    pub(crate) fn new() -> Self {
        Self {
            raised: watch::Sender::new(false),
        }
    }

    pub(crate) fn raise(&self) {
        self.raised.send_replace(true);
    }

    pub(crate) fn is_raised(&self) -> bool {
        *self.raised.borrow()
    }

    /// Waits until the signal is raised.
    pub(crate) async fn raised(&self) {
        let mut raised = self.raised.subscribe();
        // The sender lives in `self`, so the only way out is the signal.
        let _ = raised.wait_for(|raised| *raised).await;
    }
}
