//! `bulkhead unwrap [TOKEN]`.
//!
//! This file prevents a wrapping token from appearing in a process list: `-` reads the token from
//! standard input.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::problem::CommandProblem;
use crate::session::{RequestIdentity, Session};
use crate::wrapping::AnswerWrapping;
use bulkhead_wire::secret::Secret;
use hyper::Method;
use serde_json::json;

pub(crate) const UNWRAP: Command = Command {
    words: "unwrap",
    takes: "[TOKEN|-]",
    about: "open a wrapped answer, once\n\n\
            Without TOKEN, your own token is the wrapping token.\n\
            - reads the token from standard input, hidden from process lists.",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let typed = session.at_most_one_word()?;
    let wrapping_token = match typed.as_deref() {
        None => None,
        word => Some(session.secret_word(word, "wrapping token")?),
    };
    let (identity, fields) = match wrapping_token {
        // Without its own token, the caller is the holder of the wrapping token.
        Some(token) if session.token()?.is_none() => {
            (RequestIdentity::Token(Secret::new(token)), json!({}))
        }
        Some(token) => (RequestIdentity::Own, json!({ "token": token })),
        None => (RequestIdentity::Own, json!({})),
    };
    let call = ServerRequest::new(Method::PUT, "sys/wrapping/unwrap").with_fields(fields);
    let answer = session.ask_as(identity, "unwrapping", &call)?;
    session.show_or(&answer, "the wrapped answer is empty")
}
