//! The task that checks the keeper of an external seal while the service is open, and renews the
//! credentials for the keeper.
//!
//! This file prevents an operator who learns at a restart, with a sealed server, that the key of
//! the seal was deleted or that its token has expired.

use super::ending::outside_of_request;
use crate::core::Core;
use crate::key_wrapper::ExternalSeal;
use crate::seal_setting::SealSetting;
use bulkhead_access::log::cause;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pause between two checks of a keeper that works.
const CHECK_PAUSE: Duration = Duration::from_secs(600);
/// Pause after a failed check or renewal.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// Shortest pause between two renewals, whatever the keeper says. The longest pause is
/// [`CHECK_PAUSE`]: another program may replace the credentials by others that end sooner.
const SHORTEST_RENEWAL_PAUSE: Duration = Duration::from_secs(1);

/// The times of the next acts, and the outcomes of the last acts.
struct SealWatch<'a> {
    core: &'a Core,
    seal: &'a ExternalSeal,
    check: Instant,
    /// `None` if the settings leave the credentials without renewal.
    renewal: Option<Instant>,
    check_fails: bool,
    renewal_fails: bool,
}

/// Watches the keeper of an external seal until the service is sealed.
pub(super) fn begin(core: &Arc<Core>) {
    let owner = Arc::clone(core);
    if !matches!(owner.process.settings.seal, SealSetting::External(_)) {
        return;
    }
    let work = async move {
        let SealSetting::External(seal) = &owner.process.settings.seal else { return };
        let now = Instant::now();
        let watch = SealWatch {
            core: &owner,
            seal,
            check: now,
            renewal: seal.renews_credentials().then_some(now),
            check_fails: false,
            renewal_fails: false,
        };
        tokio::select! {
            () = owner.sealing.wait_for_seal() => {}
            () = watch.run() => {}
        }
    };
    // The service is being sealed already if this fails.
    drop(outside_of_request(core, work));
}

impl SealWatch<'_> {
    async fn run(mut self) {
        loop {
            let due = self.renewal.map_or(self.check, |renewal| renewal.min(self.check));
            tokio::time::sleep_until(due).await;
            if self.renewal.is_some_and(|renewal| renewal <= Instant::now()) {
                self.renew().await;
            }
            if self.check <= Instant::now() {
                self.check().await;
            }
        }
    }

    /// Renews the credentials. A failure also brings the next check forward.
    async fn renew(&mut self) {
        let renewed = self.seal.renew().await;
        let now = Instant::now();
        match renewed {
            Ok(next) => {
                self.renewal = Some(now + renewal_pause(next));
                if std::mem::take(&mut self.renewal_fails) {
                    self.core.log.line(LogLevel::Info, "seal-credentials-renewed", &[self.kind()]);
                }
            }
            Err(failure) => {
                self.renewal = Some(now + RETRY_PAUSE);
                if !std::mem::replace(&mut self.renewal_fails, true) {
                    self.log_failure("seal-credentials-not-renewed", &failure);
                    self.check = now;
                }
            }
        }
    }

    async fn check(&mut self) {
        let failure = self.open_as_restart().await.err();
        let fails = failure.is_some();
        self.check = Instant::now() + if fails { RETRY_PAUSE } else { CHECK_PAUSE };
        let failed_before = std::mem::replace(&mut self.check_fails, fails);
        if let Some(failure) = failure.filter(|_| !failed_before) {
            self.log_failure("seal-check-failed", &failure);
        }
        self.core.health.note_seal(fails);
        self.core.review_health();
    }

    /// Asks the keeper for the key of the data, as a restart would: a lost right to decrypt, or a
    /// key version that the keeper no longer accepts, must show while the service is open.
    async fn open_as_restart(&self) -> Result<(), Failure> {
        let seals = self.core.process.directory.seals().await?;
        match seals.and_then(|seals| seals.automatic) {
            Some(seal) if seal.kind == self.seal.kind() => self.seal.open(&seal).await.map(drop),
            // The data wait for a migration to the keeper.
            _ => self.seal.check().await,
        }
    }

    fn log_failure(&self, event: &str, failure: &Failure) {
        self.core.log.line(LogLevel::Warn, event, &[self.kind(), cause(failure)]);
    }

    fn kind(&self) -> (&'static str, String) {
        ("seal", self.seal.kind().to_owned())
    }
}

/// Returns the pause until the next renewal. `next` is the wish of the keeper; `None`: the present
/// credentials need no renewal, but the next credentials may.
fn renewal_pause(next: Option<Duration>) -> Duration {
    next.unwrap_or(CHECK_PAUSE).clamp(SHORTEST_RENEWAL_PAUSE, CHECK_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_credentials_are_renewed_in_time() {
        let day = Duration::from_secs(86_400);
        assert_eq!(renewal_pause(Some(day)), CHECK_PAUSE);
        assert_eq!(renewal_pause(None), CHECK_PAUSE);
        assert_eq!(renewal_pause(Some(RETRY_PAUSE)), RETRY_PAUSE);
        assert_eq!(renewal_pause(Some(Duration::ZERO)), SHORTEST_RENEWAL_PAUSE);
    }
}
