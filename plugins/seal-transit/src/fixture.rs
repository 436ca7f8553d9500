//! The host and the other server of the unit tests: answers in order, recorded requests and lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::{Http, Log, LogLevel};
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::seal_plugin::SealSettings;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;

pub(crate) const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
pub(crate) const TOKEN: &str = "hvs.token-of-the-seal";

/// Returns complete settings, with these changes.
pub(crate) fn settings(changes: &[(&str, Value)]) -> SealSettings {
    let mut settings = SealSettings::new();
    for (name, value) in [
        ("address", json!("https://vault.example.com:8200")),
        ("token", json!(TOKEN)),
        ("key_name", json!("unseal")),
    ] {
        settings.insert(name.to_owned(), value);
    }
    for (name, value) in changes {
        settings.insert((*name).to_owned(), value.clone());
    }
    settings
}

/// Returns a ciphertext of this key version.
pub(crate) fn ciphertext(version: u64) -> String {
    format!("vault:v{version}:{}", STANDARD.encode([0xfb; 60]))
}

pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: body.to_string().into_bytes(), ..Response::default() }
}

/// A host with arranged answers.
#[derive(Default)]
pub(crate) struct TestHost {
    answers: RefCell<VecDeque<Result<Response, Failure>>>,
    requests: RefCell<Vec<Request>>,
    lines: RefCell<Vec<String>>,
}

impl TestHost {
    pub(crate) fn answering(answers: impl IntoIterator<Item = Response>) -> Self {
        let answers = answers.into_iter().map(Ok).collect();
        Self { answers: RefCell::new(answers), ..Self::default() }
    }

    pub(crate) fn failing(why: Failure) -> Self {
        Self { answers: RefCell::new([Err(why)].into()), ..Self::default() }
    }

    pub(crate) fn take_requests(&self) -> Vec<Request> {
        self.requests.take()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.take()
    }
}

impl Http for TestHost {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        self.requests.borrow_mut().push(request.clone());
        let arranged = self.answers.borrow_mut().pop_front();
        arranged.unwrap_or_else(|| Err(Failure::internal("no answer is arranged")))
    }
}

impl Log for TestHost {
    fn write(&self, _level: LogLevel, event: &str, pairs: &[(&str, &str)]) {
        let pairs: Vec<String> =
            pairs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        self.lines.borrow_mut().push(format!("{event}{}", pairs.concat()));
    }
}
