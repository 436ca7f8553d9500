//! The tasks that notice changes of the service's health without a request, and that store the
//! clients of each month.
//!
//! A node that receives no requests from clients must also find out by itself that a full disk has
//! space again, because only a write shows it.

use super::ending::outside_of_request;
use crate::core::Core;
use bulkhead_store::WriteCondition;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two looks at the clock, and between two probes of a full disk or of failing audit
/// devices.
const PROBE_PAUSE: Duration = Duration::from_secs(10);

/// Reviews the health and stores clients until the service is sealed.
pub(super) fn begin(core: &Arc<Core>) {
    let owner = Arc::clone(core);
    let work = async move {
        tokio::select! {
            () = owner.sealing.wait_for_seal() => {}
            () = review_changes(&owner) => {}
            () = probe(&owner) => {}
        }
    };
    let recorder = Arc::clone(core);
    let recording = async move { recorder.activity.record(&recorder.background).await };
    // The service is being sealed already if this fails.
    drop((outside_of_request(core, work), outside_of_request(core, recording)));
}

/// Reviews the health at each change of the store or the audit.
async fn review_changes(core: &Core) {
    let mut writes = core.store.write_changes();
    loop {
        core.review_health();
        let changed = async {
            if writes.changed().await.is_err() {
                // The store is closed: no change comes.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = changed => {}
            () = core.audit.changed() => {}
        }
    }
}

/// Reviews the health from time to time. Writes to a full disk, to a database that refused a write
/// and to failing devices, so that their recovery shows.
async fn probe(core: &Core) {
    loop {
        tokio::time::sleep(PROBE_PAUSE).await;
        let condition = core.store.write_condition();
        if matches!(condition, WriteCondition::DiskFull | WriteCondition::Refused) {
            // A failure leaves the condition, which is in the log already.
            _ = core.store.mark_time(Duration::ZERO).await;
        }
        core.audit.try_again(core.store.now(), "health").await;
        core.review_health();
    }
}
