//! What an auth method asks of a cloud's provider: requests to its JSON API, tried again where that
//! may help, and one reading of its refusals.
//!
//! The attacks this module stops: a token whose words lead a request elsewhere (a [`Url`] is put
//! together of parts, and each of them is encoded); a provider, or what stands in its place, that
//! answers a redirect, nonsense or megabytes; and one that keeps a caller waiting without end. Of
//! its words only a code is repeated.
//!
//! ```
//! use bulkhead_sdk::http::Request;
//! use bulkhead_sdk::provider::{Provider, Retries, Url};
//! use bulkhead_sdk::{Call, Failure, Host};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Machine {
//!     id: String,
//! }
//!
//! fn look_up(host: &dyn Host, call: &Call, name: &str, token: &str) -> Result<String, Failure> {
//!     let provider = Provider::new(host, Retries::default(), call.deadline);
//!     let url = Url::of("https://compute.example.com").path(&["machines", name])?;
//!     let request = Request::get(&url.query("version", "1").text()).bearer(token);
//!     let machine: Machine = provider.json(&request).map_err(|why| why.about("find it"))?;
//!     Ok(machine.id)
//! }
//! ```

mod refusal;
mod url;

pub use refusal::Refusal;
pub use url::Url;

use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::http::{Request, Response};
use bulkhead_wire::failure::Failure;
use serde::de::DeserializeOwned;

/// Milliseconds that one try may take.
const TRY: u64 = 10_000;
/// Milliseconds that must be left behind a pause, so that the try after it is worth it.
const LEAST_TRY: u64 = 1_000;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 1 << 20;

/// How often and when what failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Tries behind the first.
    pub most: u32,
    /// Milliseconds before the second try; each pause is about twice the one before it.
    pub delay: u64,
    /// Milliseconds of the longest pause.
    pub longest: u64,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 3, delay: 4_000, longest: 60_000 }
    }
}

impl Retries {
    /// No second try.
    pub const NONE: Self = Self { most: 0, delay: 0, longest: 0 };

    /// Milliseconds before the try that follows `failed` tries, where `spread` of 256 moves it
    /// between 0.8 and 1.3 of what it is due, so that many callers do not come at once.
    fn pause(&self, failed: u32, spread: u8) -> u64 {
        let doubled = 2_u64.saturating_pow(failed).saturating_sub(1);
        let due = u128::from(self.delay.saturating_mul(doubled)) * (410 + u128::from(spread)) / 512;
        u64::try_from(due).unwrap_or(u64::MAX).min(self.longest)
    }
}

/// A provider's API, asked within the time of one call.
#[derive(Clone, Copy)]
pub struct Provider<'a> {
    host: &'a dyn Host,
    retries: Retries,
    deadline: StoreTime,
}

impl<'a> Provider<'a> {
    /// The provider through `host`, until `deadline`.
    #[must_use]
    pub fn new(host: &'a dyn Host, retries: Retries, deadline: StoreTime) -> Self {
        Self { host, retries, deadline }
    }

    /// The host through which it is asked.
    #[must_use]
    pub fn host(&self) -> &'a dyn Host {
        self.host
    }

    /// Sends the request, and reads the answer.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); nonsense where the answer has not the shape of `T`.
    pub fn json<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Refusal> {
        let answer = self.ask(request)?;
        serde_json::from_slice(&answer.body).map_err(|_| Refusal::shapeless(request))
    }

    /// Sends the request. One that changes nothing is tried again where that may help.
    ///
    /// # Errors
    /// Why there is no answer with a status of success.
    pub fn ask(&self, request: &Request) -> Result<Response, Refusal> {
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

    fn once(&self, request: &Request) -> Result<Response, Refusal> {
        let left = self.deadline.saturating_sub(self.host.clock().now());
        let timeout = u32::try_from(left.min(TRY)).unwrap_or(u32::MAX).max(1);
        let sent = self.host.http().send(&request.clone().timeout(timeout));
        let answer = sent.map_err(|why| Refusal::unsent(why, request))?;
        match answer.status {
            200..=299 if answer.body.len() <= ANSWER_BYTES => Ok(answer),
            200..=299 => Err(Refusal::too_large(request)),
            _ => Err(Refusal::answered(&answer, request)),
        }
    }

    /// Milliseconds until the next try; `None` where none would help, or the time is too short.
    fn pause(&self, refusal: &Refusal, failed: u32) -> Option<u64> {
        let spread = self.host.random().bytes(1).first().copied().unwrap_or_default();
        let own = self.retries.pause(failed, spread);
        let pause = refusal.passes()?.map_or(own, |told| told.max(own));
        let is_long = pause > self.retries.longest;
        let end = self.host.clock().now().saturating_add(pause).saturating_add(LEAST_TRY);
        (!is_long && end <= self.deadline).then_some(pause)
    }
}

/// The failure of an answer that is not what the provider's documents say.
#[must_use]
pub fn nonsense(what: &str) -> Failure {
    Failure::new(
        bulkhead_wire::failure::Kind::Unreachable,
        format!("the provider's answer is not what it should be: {what}"),
    )
}

#[cfg(test)]
mod tests;
