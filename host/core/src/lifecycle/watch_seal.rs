//! The task that checks the keeper of an external seal while the service is open, and renews the
//! credentials for the keeper.
//!
//! This file prevents an operator who learns at a restart, with a sealed server, that the key of
//! the seal was deleted or that its token has expired.

use super::ending::in_background;
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
/// Shortest and longest pause between two renewals, whatever the keeper says.
const RENEWAL_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];

/// The times of the next acts, and the outcomes of the last acts.
struct SealWatch<'a> {
    core: &'a Core,
    seal: &'a ExternalSeal,
    check: Instant,
    /// `None` if the credentials need no renewal.
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
            renewal: Some(now),
            check_fails: false,
            renewal_fails: false,
        };
        tokio::select! {
            () = owner.sealing.wait_for_seal() => {}
            () = watch.run() => {}
        }
    };
    // The service is being sealed already if this fails.
    drop(in_background(core, work));
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
                let [shortest, longest] = RENEWAL_PAUSES;
                self.renewal = next.map(|pause| now + pause.clamp(shortest, longest));
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
