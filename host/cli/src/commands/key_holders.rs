//! Parts of `operator generate-root` and `operator rekey`: the endpoints with and without a token,
//! the nonce, and the share of a key holder.

use crate::client::{ServerAnswer, ServerRequest};
use crate::option::CommandOption;
use crate::output::{self, TableRows};
use crate::problem::CommandProblem;
use crate::session::Session;
use hyper::Method;
use serde_json::{Value, json};

/// Options that both commands have.
pub(super) const SHARED: &[CommandOption] = &[
    CommandOption::text(
        "nonce",
        "NONCE",
        "the nonce printed by -init; asked of the server unless given",
    ),
    CommandOption::switch("status", "how many keys were given so far"),
    CommandOption::switch("cancel", "cancel; the keys given so far are forgotten"),
    CommandOption::switch(
        "with-token",
        "with your token, which needs sudo: the server requires a token",
    ),
];

/// The acts, by their switches.
pub(super) const ACTS: [&str; 3] = ["init", "status", "cancel"];

/// Returns the act that the command line asks for; `None` to give a key.
///
/// # Errors
/// More than one act.
pub(super) fn act(session: &Session<'_, '_>) -> Result<Option<&'static str>, CommandProblem> {
    let acts: Vec<&str> = ACTS.into_iter().filter(|act| session.options.switch(act)).collect();
    match acts.as_slice() {
        [] => Ok(None),
        [act] => {
            let [] = session.words()?;
            Ok(ACTS.into_iter().find(|name| name == act))
        }
        _ => Err(CommandProblem::usage(format!("give only one of -{}", acts.join(", -")))),
    }
}

/// Returns the path for callers with or without a token.
pub(super) fn path(session: &Session<'_, '_>, open: &str, authenticated: &str) -> String {
    if session.options.switch("with-token") { authenticated.to_owned() } else { open.to_owned() }
}

/// Returns the member of an answer with or without an envelope.
pub(super) fn member<'a>(answer: &'a ServerAnswer, name: &str) -> Option<&'a Value> {
    answer.body.get("data").and_then(|data| data.get(name)).or_else(|| answer.body.get(name))
}

/// Returns true if the answer ends the procedure.
pub(super) fn is_complete(answer: &ServerAnswer) -> bool {
    member(answer, "complete").and_then(Value::as_bool) == Some(true)
}

/// Asks for the key of a holder, and gives the key at `path` with the typed nonce, or with the
/// nonce that the server shows at `shown_at`.
///
/// # Errors
/// No key; nothing in progress; the server's refusal.
pub(super) fn give_key(
    session: &mut Session<'_, '_>,
    path: &str,
    shown_at: &str,
) -> Result<ServerAnswer, CommandProblem> {
    let typed = session.at_most_one_word()?;
    let doing = "giving the key";
    let nonce = match session.options.value("nonce") {
        Some(nonce) => nonce.to_owned(),
        None => {
            let status =
                session.ask("asking for the nonce", &ServerRequest::new(Method::GET, shown_at))?;
            let nonce = member(&status, "nonce").and_then(Value::as_str).unwrap_or_default();
            nonce.to_owned()
        }
    };
    if nonce.is_empty() {
        return Err(CommandProblem::refused(doing, "nothing is in progress; begin with -init"));
    }
    let key = session.secret_word(typed.as_deref(), "unseal key")?;
    let body = json!({ "key": key, "nonce": nonce });
    session.ask(doing, &ServerRequest::new(Method::PUT, path).with_fields(body))
}

/// Returns the rows of a progress: given and required keys as one row, and no empty row.
pub(super) fn progress_rows(answer: &ServerAnswer) -> TableRows {
    let required = ["required", "t"].into_iter().find_map(|name| member(answer, name)?.as_u64());
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let mut rows = output::rows(&answer.body);
    rows.retain(|(name, value)| !is_empty(value) && name != "required");
    for (_, value) in rows.iter_mut().filter(|(name, _)| name == "progress") {
        if let (Some(count), Some(required)) = (value.as_u64(), required) {
            *value = json!(format!("{count}/{required}"));
        }
    }
    rows
}

/// Prints `rows` and then the text `below`. For programs, prints the answer itself.
///
/// # Errors
/// As [`Session::show`].
pub(super) fn show_with(
    session: &mut Session<'_, '_>,
    answer: &ServerAnswer,
    rows: &TableRows,
    below: &str,
) -> Result<u8, CommandProblem> {
    if session.options.is_for_people() {
        return session.show_text(answer, &format!("{}{below}", output::table(rows)));
    }
    session.show(answer)
}
