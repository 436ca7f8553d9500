//! The requests of a self-initialisation, sent to the service itself.
//!
//! This file prevents requests with more rights or less trace than a client's: each request passes
//! the whole pipeline, with its audit and its limits.

use super::Service;
use bulkhead_access::random;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::request::{MetricsTerms, Request};
use bulkhead_wire::secret::Secret;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use zeroize::Zeroizing;

/// A block: requests that are all stored, or none.
#[derive(Debug, Default)]
pub struct InitialBlock {
    /// The name of the block, for messages.
    pub name: String,
    /// The requests, in order.
    pub requests: Vec<InitialRequest>,
}

/// A request of a block.
#[derive(Debug)]
pub struct InitialRequest {
    /// The name by which later requests of the block refer to the answer.
    pub name: String,
    /// The verb.
    pub verb: Verb,
    /// Canonical path below `/v1/`.
    pub path: String,
    /// The fields of the body, or of the query for a request without a body.
    pub fields: BTreeMap<String, InitialValue>,
    /// The block continues if the request is refused.
    pub may_fail: bool,
}

/// A value of a request.
#[derive(Clone)]
pub enum InitialValue {
    /// A value that is known before the start. Maybe a secret.
    Constant(Value),
    /// A list of values.
    List(Vec<InitialValue>),
    /// An object of values.
    Object(BTreeMap<String, InitialValue>),
    /// A member of an earlier answer of the block.
    Answer {
        /// The name of the request.
        request: String,
        /// The members from the outermost, such as `data`, `role_id`.
        members: Vec<String>,
    },
}

impl std::fmt::Debug for InitialValue {
    /// Writes the type's name: a value may be a secret.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("InitialValue")
    }
}

/// The answers of a block, by the names of their requests.
type BlockAnswers = BTreeMap<String, Value>;

impl InitialValue {
    fn resolve(&self, answers: &BlockAnswers) -> Result<Value, String> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::List(elements) => elements.iter().map(|value| value.resolve(answers)).collect(),
            Self::Object(members) => resolve_all(members, answers).map(Value::Object),
            Self::Answer { request, members } => {
                let answer = answers.get(request);
                let member = |value: &'_ Value, name: &String| value.get(name).cloned();
                let found = answer.and_then(|answer| {
                    members.iter().try_fold(answer.clone(), |value, name| member(&value, name))
                });
                found.ok_or_else(|| {
                    format!(
                        "the answer of request {} has no member {}",
                        quoted(request),
                        quoted(&members.join("."))
                    )
                })
            }
        }
    }
}

fn resolve_all(
    members: &BTreeMap<String, InitialValue>,
    answers: &BlockAnswers,
) -> Result<Map<String, Value>, String> {
    let resolve =
        |(name, value): (&String, &InitialValue)| Ok((name.clone(), value.resolve(answers)?));
    members.iter().map(resolve).collect()
}

impl Service {
    /// Returns whether the server is empty, or its self-initialisation is not complete.
    ///
    /// # Errors
    /// If the data cannot be opened with the seal of the configuration.
    pub async fn awaits_self_initialisation(&self) -> Result<bool, Failure> {
        self.seal.awaits_self_initialisation().await
    }

    /// Sets an empty server up by these blocks, or continues after the last complete block. The
    /// service is closed afterwards. Does nothing for data that are complete, or that a person
    /// initialised.
    ///
    /// # Errors
    /// The block and the request that failed, with the reason. The data are as before the block.
    pub async fn initialise_unattended(
        self: &Arc<Self>,
        blocks: &[InitialBlock],
    ) -> Result<(), Failure> {
        let count = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        let run = async |number: u32, token: &Secret| {
            let block = usize::try_from(number).ok().and_then(|number| blocks.get(number));
            self.run_block(block.unwrap_or(&InitialBlock::default()), token).await
        };
        self.seal.initialise_unattended(count, run).await
    }

    /// Sends the requests of a block, and then ends the token.
    async fn run_block(
        self: &Arc<Self>,
        block: &InitialBlock,
        token: &Secret,
    ) -> Result<(), Failure> {
        let mut answers = BlockAnswers::new();
        for request in &block.requests {
            let named = |why: String| {
                Failure::internal(format!(
                    "the server did not initialise itself: request {} of initialize {}: {why}; \
                     correct the request, and start again: the block then runs from its beginning",
                    quoted(&request.name),
                    quoted(&block.name)
                ))
            };
            let fields = resolve_all(&request.fields, &answers).map_err(named)?;
            let answer = self.ask((request.verb, &request.path), token, fields).await?;
            match answer {
                Ok(answer) => {
                    answers.insert(request.name.clone(), answer);
                }
                Err(_) if request.may_fail => {}
                Err(why) => return Err(named(why)),
            }
        }
        let end = (Verb::Write, "auth/token/revoke-self");
        let ended = self.ask(end, token, Map::new()).await?;
        ended.map(drop).map_err(|why| Failure::internal(format!("the token was not ended: {why}")))
    }

    /// Sends a request. Returns the answer, or status and errors of a refusal.
    async fn ask(
        self: &Arc<Self>,
        (verb, path): (Verb, &str),
        token: &Secret,
        fields: Map<String, Value>,
    ) -> Result<Result<Value, String>, Failure> {
        // The fields may be secrets: the text is counted, and wiped.
        let text = serde_json::to_vec(&fields).map(Zeroizing::new);
        let text = text.map_err(|error| Failure::internal(error.to_string()))?;
        let request = Request {
            id: random::uuid()?,
            verb,
            path: path.to_owned(),
            token: Some(token.clone()),
            body_bytes: text.len() as u64,
            fields,
            raw: None,
            file: None,
            is_unread: false,
            refusal: None,
            audited_headers: Vec::new(),
            wrap_ttl: None,
            remote: IpAddr::V4(Ipv4Addr::LOCALHOST),
            remote_port: 0,
            metrics: MetricsTerms::default(),
            trace_parent: None,
            required_states: Vec::new(),
        };
        let (status, _, bytes) = self.handle(request).await.into_bytes();
        let answer = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status < 400 {
            return Ok(Ok(answer));
        }
        let errors = answer.get("errors").and_then(Value::as_array).into_iter().flatten();
        let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
        Ok(Err(format!("{status} {}", errors.join("; "))))
    }
}
