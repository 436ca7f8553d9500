//! The host of a seal plugin in unit tests: answers in order, recorded requests and log lines, and
//! a time that does not pass.

use crate::database_plugin::StoreTime;
use crate::host::{Http, Log, LogLevel};
use crate::http::{Request, Response};
use crate::seal_plugin::{KeySigner, SystemClock};
use bulkhead_wire::failure::Failure;
use std::cell::RefCell;
use std::collections::VecDeque;

/// A host with arranged answers.
#[derive(Default)]
pub struct SealTestHost {
    answers: RefCell<VecDeque<Result<Response, Failure>>>,
    requests: RefCell<Vec<Request>>,
    lines: RefCell<Vec<String>>,
    now: StoreTime,
}

impl SealTestHost {
    /// Creates a host that gives these answers, one to each request.
    pub fn answering(answers: impl IntoIterator<Item = Response>) -> Self {
        let answers = answers.into_iter().map(Ok).collect();
        Self { answers: RefCell::new(answers), ..Self::default() }
    }

    /// Creates a host that cannot send the first request.
    #[must_use]
    pub fn failing(why: Failure) -> Self {
        Self { answers: RefCell::new([Err(why)].into()), ..Self::default() }
    }

    /// Sets the time, in milliseconds since 1970.
    #[must_use]
    pub fn at(self, now: StoreTime) -> Self {
        Self { now, ..self }
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        self.requests.take()
    }

    /// Returns the log lines since the last call, as `event name=value`.
    pub fn take_lines(&self) -> Vec<String> {
        self.lines.take()
    }
}

impl Http for SealTestHost {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        self.requests.borrow_mut().push(request.clone());
        let arranged = self.answers.borrow_mut().pop_front();
        arranged.unwrap_or_else(|| Err(Failure::internal("no answer is arranged")))
    }
}

impl Log for SealTestHost {
    fn write(&self, _level: LogLevel, event: &str, pairs: &[(&str, &str)]) {
        let pairs: Vec<String> =
            pairs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        self.lines.borrow_mut().push(format!("{event}{}", pairs.concat()));
    }
}

impl SystemClock for SealTestHost {
    fn now(&self) -> StoreTime {
        self.now
    }
}

impl KeySigner for SealTestHost {
    /// Returns a text in place of a signature, for any key.
    fn sign(&self, _algorithm: &str, _key: &str, _message: &[u8]) -> Result<Vec<u8>, Failure> {
        Ok(b"signature".to_vec())
    }
}
