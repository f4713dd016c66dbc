//! Looks at the server's memory and its store, and tells when they become too little or fail.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tracing::{error, info, warn};

use crate::shared::Shared;

/// How often.
const EVERY: Duration = Duration::from_millis(100);

/// Looks at the server, for ever.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let (mut was_over, mut had_failed) = (false, false);
    loop {
        shared.measure_memory();
        let is_over = shared.is_over_memory();
        if is_over != was_over {
            let resident = shared.resident.load(Relaxed);
            let limit = shared.config.memory.limit.load(Relaxed);
            match is_over {
                true => warn!(
                    resident,
                    limit, "memory is used up: commands that take memory are refused"
                ),
                false => info!(resident, limit, "there is memory again"),
            }
            was_over = is_over;
        }
        if !had_failed && let Some(reason) = shared.keyspace.store().failure() {
            error!(
                reason = reason.to_string(),
                "the store takes no more writes"
            );
            had_failed = true;
        }
        tokio::time::sleep(EVERY).await;
    }
}
