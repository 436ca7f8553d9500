//! Client of a cloud provider's JSON API for auth methods: requests with retries, and one mapping
//! of refusals.
//!
//! This file prevents three attacks: a token whose claims redirect a request elsewhere (a
//! [`ProviderUrl`] is built from parts, each of them encoded); a provider, or an impostor, that
//! answers with a redirect, nonsense or megabytes; and a provider that keeps a caller waiting
//! without end, or answers with so many pages that the host would stop the call as a crash. An
//! error repeats only a code of the provider's answer.
//!
//! ```
//! use bulkhead_sdk::http::Request;
//! use bulkhead_sdk::provider::{Provider, RetryPolicy, ProviderUrl};
//! use bulkhead_sdk::{Call, Failure, Host};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Machine {
//!     id: String,
//! }
//!
//! fn look_up(host: &dyn Host, call: &Call, name: &str, token: &str) -> Result<String, Failure> {
//!     let provider = Provider::new(host, RetryPolicy::default(), call.deadline);
//!     let url = ProviderUrl::of("https://compute.example.com").path(&["machines", name])?;
//!     let request = Request::get(&url.query("version", "1").text()).bearer(token);
//!     let machine: Machine = provider.json(&request).map_err(|why| why.about("find it"))?;
//!     Ok(machine.id)
//! }
//! ```

mod refusal;
mod url;

pub use refusal::ProviderRefusal;
pub use url::ProviderUrl;

use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::http::{Request, Response};
use bulkhead_wire::call_limits::CallLimits;
use bulkhead_wire::failure::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::rc::Rc;

const _: () = assert!(OTHER_REQUESTS < CallLimits::DEFAULT.http_calls);
const _: () = assert!(RECEIVED_BYTES < CallLimits::DEFAULT.http_bytes);

/// Maximum duration of one attempt, in milliseconds.
const ATTEMPT_TIMEOUT_MS: u64 = 10_000;
/// Minimum time that must remain after a pause for another attempt, in milliseconds.
const MIN_ATTEMPT_TIME_MS: u64 = 1_000;
/// Maximum size of an answer's body, in bytes.
const ANSWER_BYTES: usize = 1 << 20;

/// Number of retries, and the pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries after the first attempt.
    pub most: u32,
    /// Pause before the first retry, in milliseconds. Later pauses are 3, 7, 15, … times as long.
    pub delay: u64,
    /// Maximum pause, in milliseconds.
    pub longest: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { most: 3, delay: 4_000, longest: 60_000 }
    }
}

impl RetryPolicy {
    /// No retry.
    pub const NONE: Self = Self { most: 0, delay: 0, longest: 0 };

    /// Returns the pause after `failed` attempts, in milliseconds. `spread` (0 to 255) scales the
    /// pause by 0.8 to 1.3, so that many callers do not retry at the same moment.
    fn pause(&self, failed: u32, spread: u8) -> u64 {
        let doubled = 2_u64.saturating_pow(failed).saturating_sub(1);
        let due = u128::from(self.delay.saturating_mul(doubled)) * (410 + u128::from(spread)) / 512;
        u64::try_from(due).unwrap_or(u64::MAX).min(self.longest)
    }
}

/// Minimum number of requests of a call that are left for requests beside this provider, such as
/// those for the keys of its tokens.
const OTHER_REQUESTS: u32 = 4;
/// Parts of the limits that are left for such requests: a tenth of the requests, an eighth of the
/// bytes.
const OTHER_REQUEST_PART: u32 = 10;
const OTHER_BYTE_PART: usize = 8;
/// Maximum bytes of an answer that the host accepts, with its headers and the request.
const RECEIVED_BYTES: usize = (4 << 20) + (128 << 10);

/// API of a provider, used within the time and the limits of one call. Clones share the limits.
#[derive(Clone)]
pub struct Provider<'a> {
    host: &'a dyn Host,
    retries: RetryPolicy,
    deadline: StoreTime,
    limits: CallLimits,
    used: Rc<UsedRequests>,
}

/// Requests of a call, and the bytes of their answers.
#[derive(Default)]
struct UsedRequests {
    requests: Cell<u32>,
    bytes: Cell<usize>,
}

impl<'a> Provider<'a> {
    /// Returns the provider, reached through `host` until `deadline`.
    #[must_use]
    pub fn new(host: &'a dyn Host, retries: RetryPolicy, deadline: StoreTime) -> Self {
        let (limits, used) = (CallLimits::DEFAULT, Rc::default());
        Self { host, retries, deadline, limits, used }
    }

    /// Sets the limits of the call: those for which the component asks in its description. The
    /// defaults count otherwise.
    #[must_use]
    pub fn within(self, limits: CallLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the host that sends the requests.
    #[must_use]
    pub fn host(&self) -> &'a dyn Host {
        self.host
    }

    /// Sends the request and parses the answer.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); [`ProviderRefusal::Nonsense`] if the answer does not parse as `T`.
    pub fn json<T: DeserializeOwned>(&self, request: &Request) -> Result<T, ProviderRefusal> {
        let answer = self.ask(request)?;
        serde_json::from_slice(&answer.body).map_err(|_| ProviderRefusal::shapeless(request))
    }

    /// Sends the request. Retries only a request that changes nothing, and only after a failure
    /// that may be temporary.
    ///
    /// # Errors
    /// The [`ProviderRefusal`] of the last attempt: no answer, a status other than 2xx, or more
    /// than 1 MiB.
    pub fn ask(&self, request: &Request) -> Result<Response, ProviderRefusal> {
        let is_safe = request.safe || ["GET", "HEAD"].contains(&request.method.as_str());
        let most = if is_safe { self.retries.most } else { 0 };
        let mut failed = 0;
        loop {
            let refusal = match self.once(request) {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            failed += 1;
            let pause = self.pause(&refusal, failed).filter(|_| failed <= most);
            let Some(pause) = pause else { return Err(refusal) };
            self.host.clock().pause(pause);
        }
    }

    fn once(&self, request: &Request) -> Result<Response, ProviderRefusal> {
        self.check_limits()?;
        let left = self.deadline.saturating_sub(self.host.clock().now());
        let timeout = u32::try_from(left.min(ATTEMPT_TIMEOUT_MS)).unwrap_or(u32::MAX).max(1);
        let sent = self.host.http().send(&request.clone().timeout(timeout));
        self.count(&sent);
        let answer = sent.map_err(|why| ProviderRefusal::unsent(why, request))?;
        match answer.status {
            200..=299 if answer.body.len() <= ANSWER_BYTES => Ok(answer),
            200..=299 => Err(ProviderRefusal::too_large(request)),
            _ => Err(ProviderRefusal::answered(&answer, request)),
        }
    }

    /// Checks that the limits of the call allow another request. Beyond the limits, the host would
    /// stop the call as if the component had crashed.
    fn check_limits(&self) -> Result<(), ProviderRefusal> {
        let UsedRequests { requests, bytes } = &*self.used;
        let CallLimits { http_calls, http_bytes, .. } = self.limits;
        let other_requests = (http_calls / OTHER_REQUEST_PART).max(OTHER_REQUESTS);
        let other_bytes = RECEIVED_BYTES + http_bytes / OTHER_BYTE_PART;
        let is_within = requests.get().saturating_add(other_requests) < http_calls
            && bytes.get().saturating_add(other_bytes) <= http_bytes;
        if is_within {
            return Ok(());
        }
        Err(ProviderRefusal::Unasked(Failure::invalid(format!(
            "the call needs more than {} requests to the provider, or {} bytes of answers; bind \
             the role to fewer groups",
            requests.get(),
            bytes.get()
        ))))
    }

    fn count(&self, sent: &Result<Response, Failure>) {
        let bytes = match sent {
            Ok(answer) => answer.body.len(),
            Err(why) if why.kind == FailureKind::TooLarge => RECEIVED_BYTES,
            Err(_) => 0,
        };
        let UsedRequests { requests, bytes: all } = &*self.used;
        requests.set(requests.get().saturating_add(1));
        all.set(all.get().saturating_add(bytes));
    }

    /// Returns the pause before the next attempt, in milliseconds; `None` if a retry would not
    /// help, or the remaining time is too short.
    fn pause(&self, refusal: &ProviderRefusal, failed: u32) -> Option<u64> {
        let spread = self.host.random().bytes(1).first().copied().unwrap_or_default();
        let own = self.retries.pause(failed, spread);
        let pause = refusal.passes()?.map_or(own, |wait| wait.max(own));
        let is_long = pause > self.retries.longest;
        let end = self.host.clock().now().saturating_add(pause).saturating_add(MIN_ATTEMPT_TIME_MS);
        (!is_long && end <= self.deadline).then_some(pause)
    }
}

/// Returns the failure for an answer that contradicts the provider's documentation.
#[must_use]
pub fn nonsense(what: &str) -> Failure {
    Failure::new(FailureKind::Unreachable, format!("the provider's answer is not valid: {what}"))
}

#[cfg(test)]
mod tests;
