//! `bulkhead status`: reports whether the server is reachable and unsealed.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::output::{self, TableRows};
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Value, json};

/// Exit codes: 0 unsealed, 2 sealed, 1 anything else (decision P16).
pub(crate) const STATUS: Command = Command {
    words: "status",
    takes: "",
    about: "show whether the server is sealed: exit code 0 unsealed, 2 sealed, 1 error",
    options: &[],
    wrapping: AnswerWrapping::Public,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answered =
        session.ask("asking for the status", &ServerRequest::new(Method::GET, "sys/seal-status"));
    // Exit code 2 means sealed in this command, so an unreachable server gets 1.
    let answer =
        answered.map_err(|problem| CommandProblem { code: problem.code.min(1), ..problem })?;
    let answer = with_ha_enabled(session, answer);
    session.show_rows(&answer, rows(&answer))?;
    match answer.body.get("sealed").and_then(Value::as_bool) {
        Some(false) => Ok(0),
        Some(true) => Ok(2),
        None => Err(CommandProblem::refused(
            "asking for the status",
            "the answer does not say whether the server is sealed",
        )),
    }
}

/// Adds `ha_enabled`, which scripts read here, from the server's answer about its leader. A sealed
/// server gives no such answer.
fn with_ha_enabled(session: &Session<'_, '_>, mut answer: ServerAnswer) -> ServerAnswer {
    let Some(status) = answer.body.as_object_mut() else { return answer };
    if status.contains_key("ha_enabled") || status.get("sealed") != Some(&Value::Bool(false)) {
        return answer;
    }
    let call = ServerRequest::new(Method::GET, "sys/leader");
    // The status is shown without the answer of `sys/leader`.
    let leader = session.find_unwrapped("asking for the leader", &call).ok().flatten();
    if let Some(is_enabled) = leader.and_then(|leader| leader.body.get("ha_enabled").cloned()) {
        status.insert("ha_enabled".to_owned(), is_enabled);
    }
    answer
}

/// Returns the rows of a seal status, with the progress as given and required keys.
pub(super) fn rows(answer: &ServerAnswer) -> TableRows {
    let mut rows = output::rows(&answer.body);
    let needed = answer.body.get("t").and_then(Value::as_u64);
    for (_, value) in rows.iter_mut().filter(|(name, _)| name == "progress") {
        if let (Some(count), Some(needed)) = (value.as_u64(), needed) {
            *value = json!(format!("{count}/{needed}"));
        }
    }
    rows
}
