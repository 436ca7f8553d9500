//! Metrics for callers without a token, at a listener whose configuration allows that.
//!
//! This file prevents such callers from loading the server: one scrape runs at a time, its result
//! is the answer to every request of the next second, and few requests may wait.

use super::{MetricsFormat, as_json, exposition, families, sealed_families};
use bulkhead_access::log::cause;
use bulkhead_core::Core;
use bulkhead_core::seal::ServiceSeal;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::response::{Response, ResponseBody};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

/// Time during which the result of a scrape is answered.
const REUSE_TIME: Duration = Duration::from_secs(1);

/// Maximum number of requests without a token that are answered or wait at a time.
const MAX_WAITING_SCRAPES: usize = 64;

/// Retry delay of a request over that maximum, in milliseconds.
const RETRY_SCRAPE_AFTER: u64 = 1_000;

/// The scrapes of callers without a token.
pub(crate) struct OpenScrapes {
    places: Semaphore,
    /// The last result of each format. Locked during a scrape.
    results: Mutex<Vec<ScrapeResult>>,
}

impl Default for OpenScrapes {
    fn default() -> Self {
        Self { places: Semaphore::new(MAX_WAITING_SCRAPES), results: Mutex::default() }
    }
}

/// The result of a scrape.
struct ScrapeResult {
    format: MetricsFormat,
    /// The service was open. A result from before a seal is not answered after the seal.
    is_open: bool,
    scraped_at: Instant,
    /// A failure is shared, too, so that requests cannot repeat its reads and its log line.
    outcome: ScrapeOutcome,
}

/// The body of the answer, or the failure for callers without a token.
type ScrapeOutcome = Result<Arc<Vec<u8>>, Failure>;

impl OpenScrapes {
    /// Answers with the metrics of the open service, or of a sealed service if `core` is absent.
    ///
    /// # Errors
    /// 429 if too many requests wait; the store's failure.
    pub(crate) async fn answer(
        &self,
        seal: &ServiceSeal,
        core: Option<&Core>,
        format: MetricsFormat,
    ) -> Result<Response, Failure> {
        let _place = self.take_place()?;
        let body = self.share((format, core.is_some()), scrape(seal, core, format)).await?;
        // A copy, because the budget of unread answers counts no shared bytes.
        let bytes = body.to_vec();
        let body = ResponseBody::Raw { content_type: format.content_type().to_owned(), bytes };
        Ok(Response::new(200, body))
    }

    /// Returns the outcome of the last second, or else of `scrape`, for the same format and state.
    ///
    /// # Errors
    /// The failure of the scrape.
    async fn share(
        &self,
        (format, is_open): (MetricsFormat, bool),
        scrape: impl Future<Output = Result<Vec<u8>, Failure>>,
    ) -> ScrapeOutcome {
        let mut results = self.results.lock().await;
        let is_fresh = |result: &ScrapeResult| {
            result.is_open == is_open && result.scraped_at.elapsed() < REUSE_TIME
        };
        results.retain(is_fresh);
        if let Some(found) = results.iter().find(|result| result.format == format) {
            return found.outcome.clone();
        }
        let outcome = scrape.await.map(Arc::new);
        let (scraped_at, shared) = (Instant::now(), outcome.clone());
        results.push(ScrapeResult { format, is_open, scraped_at, outcome: shared });
        outcome
    }

    /// Takes a place of the requests that are answered or wait.
    ///
    /// # Errors
    /// 429 if all places are taken.
    fn take_place(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.places.try_acquire().map_err(|_| {
            let message = "too many requests for metrics wait; ask again in a second";
            let refusal = Failure::new(FailureKind::RateLimited, message);
            Failure { retry_after: Some(RETRY_SCRAPE_AFTER), ..refusal }
        })
    }
}

async fn scrape(
    seal: &ServiceSeal,
    core: Option<&Core>,
    format: MetricsFormat,
) -> Result<Vec<u8>, Failure> {
    let families = match core {
        Some(core) => families(core).await.map_err(|failure| masked(seal, &failure))?,
        None => sealed_families(&seal.process, seal.now()),
    };
    Ok(match format {
        MetricsFormat::Text => exposition::write(&families).into_bytes(),
        MetricsFormat::Json => as_json(&families, seal.now()).to_string().into_bytes(),
    })
}

/// Logs a failure, and returns the failure for callers without a token: addresses and error codes
/// are not for such callers.
fn masked(seal: &ServiceSeal, failure: &Failure) -> Failure {
    seal.settings().log.line(LogLevel::Error, "metrics-failed", &[cause(failure)]);
    let message = "the metrics cannot be read at present; the server's log says why";
    Failure::new(failure.kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapes_over_maximum_are_refused_until_others_end() {
        let scrapes = OpenScrapes::default();
        let places: Vec<_> = (0..MAX_WAITING_SCRAPES).map(|_| scrapes.take_place()).collect();
        assert!(places.iter().all(Result::is_ok));
        let refused = scrapes.take_place().unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (FailureKind::RateLimited, Some(1_000)));
        drop(places);
        assert!(scrapes.take_place().is_ok());
    }

    #[tokio::test]
    async fn failed_scrape_is_shared_until_its_state_changes() {
        let scrapes = OpenScrapes::default();
        let open = (MetricsFormat::Text, true);
        let failure = || Failure::new(FailureKind::Unavailable, "the metrics cannot be read");
        let failed = scrapes.share(open, async { Err(failure()) }).await;
        assert_eq!(failed.unwrap_err().kind, FailureKind::Unavailable);
        // The result is younger than a second, unless the test is stopped in between.
        let last = scrapes.results.lock().await.pop().unwrap();
        let fresh = ScrapeResult { scraped_at: Instant::now() + REUSE_TIME, ..last };
        scrapes.results.lock().await.push(fresh);
        let again = scrapes.share(open, async { Ok(b"metrics".to_vec()) }).await;
        assert_eq!(again.unwrap_err().kind, FailureKind::Unavailable);
        let sealed = scrapes.share((MetricsFormat::Text, false), async { Ok(Vec::new()) }).await;
        assert!(sealed.is_ok());
    }
}
