//! An HTTP client that checks the general rules for every answer.
//!
//! Status, headers and the keys of the envelope are part of the contract (decision H3). An answer
//! with an unknown key or without a required key fails the test, even if the test is about
//! something else.

mod answer_rules;

use answer_rules::{STATUSES, checked, is_about_health};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ureq::Agent;
use ureq::http::Request;

/// Longer than the server's own deadline for a call, so that a hanging server fails by its own
/// deadline.
const PATIENCE: Duration = Duration::from_secs(120);

/// Texts of all answers, except answers that are meant to show a secret.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<String>>);

impl Answers {
    pub fn all(&self) -> String {
        self.0.lock().expect("no thread panicked with the answers").clone()
    }

    fn add(&self, text: &str) {
        let mut all = self.0.lock().expect("no thread panicked with the answers");
        all.push_str(text);
        all.push('\n');
    }
}

/// A client with one token, or without a token.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    url: String,
    token: Option<String>,
    wrap_ttl: Option<String>,
    required_states: Vec<String>,
    answers: Answers,
}

/// An answer that has passed the general checks.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Method and path, such as `GET database/creds/reader`, for messages.
    pub asked: String,
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
    /// Value of `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// Value of `X-Vault-Index`.
    pub state: Option<String>,
}

impl Client {
    pub(crate) fn new(url: &str, token: Option<&str>, answers: Answers) -> Self {
        Self {
            agent: agent_for(PATIENCE),
            url: url.to_owned(),
            token: token.map(str::to_owned),
            wrap_ttl: None,
            required_states: Vec::new(),
            answers,
        }
    }

    /// Returns a client with the same token that asks for wrapped answers with this TTL.
    #[must_use]
    pub fn wrapping(&self, ttl: &str) -> Self {
        Self { wrap_ttl: Some(ttl.to_owned()), ..self.clone() }
    }

    /// Returns a client with the same token whose answers must include these states.
    #[must_use]
    pub fn requiring(&self, states: &[&str]) -> Self {
        let required_states = states.iter().map(|state| (*state).to_owned()).collect();
        Self { required_states, ..self.clone() }
    }

    /// Returns a client with the same token that waits for an answer for `limit` at most, on
    /// connections of its own.
    #[must_use]
    pub fn waiting_for(&self, limit: Duration) -> Self {
        Self { agent: agent_for(limit), ..self.clone() }
    }

    /// Returns a client with another token on the same connections.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Sends GET. A successful answer may show a secret and is not collected.
    #[track_caller]
    pub fn read(&self, path: &str) -> Answer {
        self.send("GET", path, b"")
    }

    #[track_caller]
    pub fn write(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn list(&self, path: &str) -> Answer {
        self.send("LIST", path, b"")
    }

    #[track_caller]
    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, b"")
    }

    /// Sends POST with a component, or with bytes in its place.
    #[track_caller]
    pub fn upload(&self, path: &str, component: &[u8]) -> Answer {
        let answer = self.attempt_upload(path, component);
        let answer = answer.unwrap_or_else(|why| panic!("uploading to {path}: no answer: {why}"));
        assert!(STATUSES.contains(&answer.status), "{answer:?}");
        answer
    }

    /// Like [`Client::upload`], for a server that may die during the registration or answer 500.
    ///
    /// # Errors
    /// The reason, if no complete answer arrives.
    #[track_caller]
    pub fn attempt_upload(&self, path: &str, component: &[u8]) -> Result<Answer, String> {
        self.exchange("POST", path, component, Some("application/wasm"))
    }

    /// Sends any request; the body need not be JSON.
    ///
    /// # Panics
    /// If no answer arrives, or if the answer breaks a general rule.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let answer = self
            .attempt(method, path, body)
            .unwrap_or_else(|why| panic!("{method} {path}: no answer: {why}"));
        // The caller of the health endpoint chooses the statuses.
        assert!(STATUSES.contains(&answer.status) || is_about_health(path), "{answer:?}");
        answer
    }

    /// Like [`Client::send`], for a server that may die during the request or answer 500.
    ///
    /// # Errors
    /// The reason, if no complete answer arrives.
    ///
    /// # Panics
    /// If the answer breaks a general rule.
    #[track_caller]
    pub fn attempt(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer, String> {
        self.exchange(method, path, body, None)
    }

    #[track_caller]
    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        content: Option<&str>,
    ) -> Result<Answer, String> {
        let mut request = Request::builder().method(method).uri(format!("{}/v1/{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("X-Vault-Token", token);
        }
        if let Some(ttl) = &self.wrap_ttl {
            request = request.header("X-Vault-Wrap-TTL", ttl);
        }
        for state in &self.required_states {
            request = request.header("X-Vault-Index", state);
        }
        let of_patch = (method == "PATCH").then_some("application/merge-patch+json");
        if let Some(content) = content.or(of_patch) {
            request = request.header("Content-Type", content);
        }
        let answered = if body.is_empty() {
            self.agent.run(request.body(()).expect("a request can be built"))
        } else {
            self.agent.run(request.body(body).expect("a request can be built"))
        };
        let mut answered = answered.map_err(|error| error.to_string())?;
        // A snapshot is not text, and its first bytes tell the format all the same.
        let bytes = answered.body_mut().read_to_vec().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        let answer = checked(
            format!("{method} {path}"),
            answered.status().as_u16(),
            answered.headers(),
            &text,
        );
        let asked_for_a_secret = path.contains("/creds/")
            || path.ends_with("/check-out")
            || ["sys/init", "sys/wrapping/unwrap"].contains(&path)
            || self.wrap_ttl.is_some();
        if !asked_for_a_secret || answer.status != 200 {
            self.answers.add(&text);
        }
        Ok(answer)
    }
}

impl Answer {
    /// Fails if the status differs, and returns the answer.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} answered {}: {}", self.asked, self.status, self.body);
        self
    }

    /// Fails if the status differs or no error contains `words`, and returns the answer. A status
    /// alone proves little, because the request may be refused for another reason.
    #[track_caller]
    pub fn refused(self, status: u16, words: &str) -> Self {
        let refused = self.expect(status);
        assert!(refused.errors().contains(words), "{}: {words}: {}", refused.asked, refused.body);
        refused
    }

    /// Fails if the status is not 2xx, and returns the answer.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert!(self.status < 300, "{} answered {}: {}", self.asked, self.status, self.body);
        self
    }

    /// Returns a member of `data` as text; `""` if there is no such member.
    pub fn text(&self, name: &str) -> &str {
        self.body["data"][name].as_str().unwrap_or_default()
    }

    /// Returns the id of the lease.
    pub fn lease(&self) -> &str {
        self.body["lease_id"].as_str().unwrap_or_default()
    }

    /// Returns all errors of the answer as one text.
    pub fn errors(&self) -> String {
        joined(&self.body["errors"])
    }

    /// Returns all warnings of the answer as one text.
    pub fn warnings(&self) -> String {
        joined(&self.body["warnings"])
    }
}

fn agent_for(patience: Duration) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(patience));
    config.build().into()
}

fn joined(list: &Value) -> String {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join("\n")
}
